//! Keys of NATS: a pair makes signatures, its public half says who made them, its seed is all of it as a text.
//!
//! A seed is kept in a file that its owner alone may read; a public key is no secret.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::{KeyPair, KeyPairType};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Bytes of a file with a seed, with room for a comment around it.
const FILE_BYTES_MAX: u64 = 4096;
/// Characters of a shared secret: 256 bits and more.
const SECRET_CHARS: usize = 43;

/// What a pair is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// A user, which connects: `U…`.
    User,
    /// An account, which signs for users: `A…`.
    Account,
    /// A server, which asks who may connect: `N…`.
    Server,
}

impl KeyKind {
    fn of(kind: &KeyPairType) -> Option<Self> {
        match kind {
            KeyPairType::User => Some(Self::User),
            KeyPairType::Account => Some(Self::Account),
            KeyPairType::Server => Some(Self::Server),
            KeyPairType::Cluster
            | KeyPairType::Operator
            | KeyPairType::Module
            | KeyPairType::Service
            | KeyPairType::Curve => None,
        }
    }

    const fn pair_type(self) -> KeyPairType {
        match self {
            Self::User => KeyPairType::User,
            Self::Account => KeyPairType::Account,
            Self::Server => KeyPairType::Server,
        }
    }

    const fn letter(self) -> char {
        match self {
            Self::User => 'U',
            Self::Account => 'A',
            Self::Server => 'N',
        }
    }
}

/// Why there is no key.
#[derive(Debug)]
pub enum KeyError {
    /// The file cannot be read or written.
    File(PathBuf, io::Error),
    /// Others than its owner may read the file.
    Open(PathBuf, u32),
    /// The file has no seed of this kind.
    NoSeed(PathBuf, KeyKind),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Open(path, mode) => {
                write!(f, "{} has the mode {mode:03o}, expected 600: others can read the seed in it", path.display())
            }
            Self::NoSeed(path, kind) => {
                write!(f, "{} has no seed, expected one that begins with S{}", path.display(), kind.letter())
            }
        }
    }
}

impl std::error::Error for KeyError {}

/// A pair of keys.
#[derive(Clone)]
pub struct Keys(KeyPair);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.public())
    }
}

impl Keys {
    /// A pair that nobody has, from the system's random source.
    #[must_use]
    pub fn generate(kind: KeyKind) -> Self {
        Self(KeyPair::new(kind.pair_type()))
    }

    /// The pair of 32 random bytes.
    #[must_use]
    pub(crate) fn of_bytes(bytes: [u8; 32], kind: KeyKind) -> Self {
        // No bytes are refused.
        KeyPair::new_from_raw(kind.pair_type(), bytes).map_or_else(|_| Self::generate(kind), Self)
    }

    /// The pair of a seed; none where the text is no seed of this kind.
    #[must_use]
    pub fn from_seed(seed: &str, kind: KeyKind) -> Option<Self> {
        let pair = KeyPair::from_seed(seed).ok()?;
        (KeyKind::of(&pair.key_pair_type()) == Some(kind)).then_some(Self(pair))
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> String {
        self.0.public_key()
    }

    /// The secret as a text. Whoever has it is the user.
    #[must_use]
    pub fn seed(&self) -> String {
        // A pair here is made of random bytes or of a seed, so it has one.
        self.0.seed().unwrap_or_default()
    }

    /// A secret that everybody with this seed can make, for one purpose: 43 letters, digits, `-` and `_`.
    #[must_use]
    pub fn shared_secret(&self, purpose: &str) -> String {
        // A signature of ed25519 of the same bytes is always the same, and nobody else can make it.
        let text = URL_SAFE_NO_PAD.encode(self.sign(format!("tieline shared secret\n{purpose}").as_bytes()));
        text.chars().take(SECRET_CHARS).collect()
    }

    /// The signature of some bytes.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.0.sign(bytes).unwrap_or_default()
    }

    /// Reads a seed from a file that its owner alone may read. Lines that begin with `#` or `-` are left out.
    ///
    /// # Errors
    /// The file cannot be read, can be read by others, or has no seed of this kind.
    pub fn read(path: &Path, kind: KeyKind) -> Result<Self, KeyError> {
        let of = |error| KeyError::File(path.to_owned(), error);
        let file = File::open(path).map_err(of)?;
        let mode = file.metadata().map_err(of)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Open(path.to_owned(), mode));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(of)?;
        let found = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(['#', '-']));
        found.and_then(|seed| Self::from_seed(seed, kind)).ok_or_else(|| KeyError::NoSeed(path.to_owned(), kind))
    }

    /// Reads a seed, or makes a pair and writes its seed where there is no file.
    ///
    /// # Errors
    /// As [`Keys::read`], or the file cannot be written.
    pub fn read_or_make(path: &Path, kind: KeyKind) -> Result<Self, KeyError> {
        match Self::read(path, kind) {
            Err(KeyError::File(_, error)) if error.kind() == ErrorKind::NotFound => {
                let keys = Self::generate(kind);
                keys.write(path)?;
                Ok(keys)
            }
            read => read,
        }
    }

    /// Writes the seed to a file that its owner alone may read, in one step: a reader finds the file before or the one after, and
    /// so does the next start after a power cut.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let written = || {
            let mut options = File::options();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
            // A file that was left behind keeps its mode when it is opened.
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
            file.write_all(self.seed().as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            std::fs::rename(&beside, path)?;
            let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
            File::open(folder)?.sync_all()
        };
        written().map_err(|error| KeyError::File(path.to_owned(), error))
    }
}

/// Whether a text is a public key of this kind.
#[must_use]
pub fn is_public(text: &str, kind: KeyKind) -> bool {
    pair_of_public(text, kind).is_some()
}

/// Whether a signature of some bytes was made with the other half of a public key.
#[must_use]
pub fn is_signed(public: &str, kind: KeyKind, bytes: &[u8], signature: &[u8]) -> bool {
    pair_of_public(public, kind).is_some_and(|pair| pair.verify(bytes, signature).is_ok())
}

fn pair_of_public(text: &str, kind: KeyKind) -> Option<KeyPair> {
    let pair = KeyPair::from_public_key(text).ok()?;
    (KeyKind::of(&pair.key_pair_type()) == Some(kind)).then_some(pair)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tempfile::TempDir;

    #[test]
    fn a_seed_is_kept_where_its_owner_alone_may_read_it() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("site.nk");
        let made = Keys::read_or_make(&path, KeyKind::User).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = Keys::read_or_make(&path, KeyKind::User).unwrap();
        assert_eq!((made.public(), made.seed()), (again.public(), again.seed()));
        assert!(made.public().starts_with('U') && made.seed().starts_with("SU"));
        assert_eq!(format!("{made:?}"), format!("Keys({})", made.public()));

        let other = Keys::read(&path, KeyKind::Account).unwrap_err().to_string();
        assert!(other.ends_with("has no seed, expected one that begins with SA"), "{other}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let open = Keys::read(&path, KeyKind::User).unwrap_err().to_string();
        assert!(open.contains("mode 640, expected 600"), "{open}");
        Keys::generate(KeyKind::User).write(&path).unwrap();
        let text = format!("# of the site\n\n  {}  \nrest", made.seed());
        std::fs::write(&path, text).unwrap();
        assert_eq!(Keys::read(&path, KeyKind::User).unwrap().public(), made.public());
        assert!(matches!(Keys::read(&folder.path().join("none"), KeyKind::User), Err(KeyError::File(..))));
    }

    #[test]
    fn signatures_belong_to_one_key_and_one_text() {
        let [keys, other] = [KeyKind::User, KeyKind::User].map(Keys::generate);
        let signature = keys.sign(b"nonce");
        assert!(is_signed(&keys.public(), KeyKind::User, b"nonce", &signature));
        assert!(!is_signed(&keys.public(), KeyKind::User, b"Nonce", &signature));
        assert!(!is_signed(&other.public(), KeyKind::User, b"nonce", &signature));
        assert!(!is_signed(&keys.public(), KeyKind::Account, b"nonce", &signature));
        assert!(!is_signed(&keys.public(), KeyKind::User, b"nonce", &[]));
        let secret = keys.shared_secret("routes");
        assert_eq!(
            (secret.len(), &secret),
            (43, &Keys::from_seed(&keys.seed(), KeyKind::User).unwrap().shared_secret("routes"))
        );
        assert!(secret != keys.shared_secret("else") && secret != other.shared_secret("routes"));
        assert!(!is_public(&keys.seed(), KeyKind::User) && is_public(&keys.public(), KeyKind::User));
    }

    proptest! {
        #[test]
        fn any_text_is_a_key_or_none(text in "[A-Z2-7a-z=é]{0,70}", long in "[A-Z2-7]{56}", seed in "S[A-Z2-7]{57}") {
            for text in [&text, &long, &seed] {
                let _ = (is_public(text, KeyKind::User), Keys::from_seed(text, KeyKind::User).is_some());
            }
        }
    }
}
