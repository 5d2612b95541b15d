//! Keys and certificates of a domain, found by the serials of headers.

use crate::Ispb;
use crate::ispb::unit;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use tieline_crypto::{Certificate, Identity, KeyError, PrivateKey, TokenUri};
use tieline_rsfn::{Authority, KeyAlgorithm, Party, Profile, Serial, Standing, Version};
use zeroize::Zeroizing;

/// What an operator says of a key or certificate; its validity in time is judged besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// In use.
    Active,
    /// Not activated yet (GEN0006): of a peer, only in messages about security.
    Pending,
    /// Revoked or replaced.
    Retired,
}

impl KeyState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Active, Self::Pending, Self::Retired];

    /// The word of the configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Pending => "pending",
            Self::Retired => "retired",
        }
    }
}

/// A certificate that headers may name.
#[derive(Clone, Debug)]
pub struct Known {
    /// As headers name it.
    pub party: Party,
    /// Whom it is for.
    pub ispb: Ispb,
    /// What the operator says of it.
    pub state: KeyState,
    /// The certificate.
    pub certificate: Certificate,
}

impl Known {
    /// A certificate with the institution and the authority that its subject names (`OU=ISPB-…`, `OU=CSPB-…`), unless
    /// they are given.
    ///
    /// # Errors
    /// Neither subject nor caller names them, they name different institutions, or the serial does not fit a header.
    pub fn new(
        certificate: Certificate,
        ispb: Option<Ispb>,
        authority: Option<Authority>,
        state: KeyState,
    ) -> Result<Self, LoadError> {
        let named = || unit(&certificate.subject, "CSPB-")?.parse().ok().map(Authority);
        let authority = authority.or_else(named).ok_or(LoadError::NoAuthority)?;
        let of_subject = Ispb::of_subject(&certificate.subject);
        if let Some((given, found)) = ispb.zip(of_subject).filter(|(given, found)| given != found) {
            return Err(LoadError::OtherIspb { given, found });
        }
        let ispb = ispb.or(of_subject).ok_or(LoadError::NoIspb)?;
        // The certificate's reader takes the sign's zero away.
        let positive = [&[0], certificate.serial.as_slice()].concat();
        let serial = Serial::from_integer(&positive).ok_or(LoadError::Serial)?;
        let party = Party { algorithm: KeyAlgorithm::Rsa2048, authority, serial };
        Ok(Self { party, ispb, state, certificate })
    }

    /// Whether it may be used at a time, in seconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn standing(&self, seconds: u64) -> Standing {
        match self.state {
            KeyState::Retired => Standing::Over,
            _ if seconds > self.certificate.not_after => Standing::Over,
            KeyState::Pending => Standing::Pending,
            KeyState::Active if seconds < self.certificate.not_before => Standing::Pending,
            KeyState::Active => Standing::Active,
        }
    }

    /// As the envelope compares it with a header. Foreign when it is not that of the institution that was expected.
    #[must_use]
    pub fn judged(&self, seconds: u64, expected: Option<Ispb>) -> tieline_rsfn::Certificate {
        let foreign = expected.is_some_and(|expected| expected != self.ispb);
        let standing = if foreign { Standing::Foreign } else { self.standing(seconds) };
        tieline_rsfn::Certificate { party: self.party, standing }
    }
}

/// A key of ours.
#[derive(Clone, Debug)]
pub struct OwnKey {
    /// Which of the domain's keys; the highest that is active signs.
    pub version: u32,
    /// Its certificate.
    pub known: Known,
    /// The key.
    pub key: PrivateKey,
}

/// An institution, or a part of one, that sends and receives.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Its name in requests.
    pub name: String,
    /// The institution.
    pub ispb: Ispb,
    /// How protocol 2 and 3 are written and read; one each at most.
    pub profiles: Vec<Profile>,
    /// Our keys, by falling version.
    pub keys: Vec<Arc<OwnKey>>,
    /// The certificates of others, those that begin last first.
    pub peers: Vec<Arc<Known>>,
    /// Whether one of our keys lies in a token.
    pub has_tokens: bool,
    key_of: HashMap<Serial, Vec<Arc<OwnKey>>>,
    peer_of: HashMap<Serial, Vec<Arc<Known>>>,
}

impl Domain {
    /// A domain with its keys and peers.
    #[must_use]
    pub fn new(
        name: String,
        ispb: Ispb,
        profiles: Vec<Profile>,
        mut keys: Vec<Arc<OwnKey>>,
        mut peers: Vec<Arc<Known>>,
    ) -> Self {
        keys.sort_by_key(|key| std::cmp::Reverse(key.version));
        peers.sort_by_key(|peer| std::cmp::Reverse(peer.certificate.not_before));
        let mut key_of: HashMap<_, Vec<_>> = HashMap::new();
        for key in &keys {
            key_of.entry(key.known.party.serial).or_default().push(Arc::clone(key));
        }
        let mut peer_of: HashMap<_, Vec<_>> = HashMap::new();
        for peer in &peers {
            peer_of.entry(peer.party.serial).or_default().push(Arc::clone(peer));
        }
        let has_tokens = keys.iter().any(|key| key.key.is_in_token());
        Self { name, ispb, profiles, keys, peers, has_tokens, key_of, peer_of }
    }

    /// The profile of a version.
    #[must_use]
    pub fn profile(&self, version: Version) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.version == version)
    }

    /// The key that signs: the one of a version that is named, else the highest that is active.
    #[must_use]
    pub fn signing_key(&self, version: Option<u32>, seconds: u64) -> Option<&Arc<OwnKey>> {
        self.keys.iter().find(|key| match (version, key.known.standing(seconds)) {
            (Some(version), Standing::Active | Standing::Pending) => key.version == version,
            (None, standing) => standing == Standing::Active,
            (Some(_), Standing::Over | Standing::Foreign | Standing::Invalid) => false,
        })
    }

    /// The certificate to seal to: of an institution's active ones, the one that began last.
    #[must_use]
    pub fn recipient(&self, ispb: Ispb, seconds: u64) -> Option<&Arc<Known>> {
        self.peers.iter().find(|peer| peer.ispb == ispb && peer.standing(seconds) == Standing::Active)
    }

    /// Our key that a header names; with the same serial from two authorities, the one of the header's.
    #[must_use]
    pub fn own(&self, named: &Party) -> Option<&Arc<OwnKey>> {
        let found = self.key_of.get(&named.serial)?;
        found.iter().find(|key| key.known.party.authority == named.authority).or_else(|| found.first())
    }

    /// The certificate of another that a header names.
    #[must_use]
    pub fn peer(&self, named: &Party) -> Option<&Arc<Known>> {
        let found = self.peer_of.get(&named.serial)?;
        found.iter().find(|peer| peer.party.authority == named.authority).or_else(|| found.first())
    }
}

/// Why a key or certificate cannot be used.
#[derive(Debug)]
pub enum LoadError {
    /// The file cannot be read.
    Read(std::io::Error),
    /// What is in it cannot be used.
    Key(KeyError),
    /// Others on this machine may read a private key that no password protects.
    Exposed,
    /// There is no certificate in the container, and none was named.
    NoCertificate,
    /// The certificate is that of another key.
    OtherKey,
    /// The certificate is for another institution.
    OtherIspb {
        /// The institution that is expected.
        given: Ispb,
        /// That of the certificate's subject.
        found: Ispb,
    },
    /// Neither the certificate's subject nor the caller says which institution it is for.
    NoIspb,
    /// Neither the certificate's subject nor the caller says which authority issued it.
    NoAuthority,
    /// The certificate's serial has more than 16 bytes.
    Serial,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Key(error) => error.fmt(f),
            Self::Exposed => f.write_str("everyone on this machine may read this key; remove the right (chmod 600)"),
            Self::NoCertificate => f.write_str("there is no certificate with the key; name its file"),
            Self::OtherKey => f.write_str("the certificate is that of another key"),
            Self::OtherIspb { given, found } => write!(f, "the certificate is for {found}, not for {given}"),
            Self::NoIspb => f.write_str("the certificate names no institution (OU=ISPB-nnnnnnnn); give it"),
            Self::NoAuthority => f.write_str("the certificate names no authority (OU=CSPB-n); give it, 1 to 7"),
            Self::Serial => f.write_str("the certificate's serial has more than 16 bytes"),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<std::io::Error> for LoadError {
    fn from(error: std::io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<KeyError> for LoadError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

/// Reads a certificate from a file, PEM or DER.
///
/// # Errors
/// The file cannot be read, or is no certificate of an RSA-2048 key.
pub fn load_certificate(path: &std::path::Path) -> Result<Certificate, LoadError> {
    let bytes = std::fs::read(path)?;
    Ok(match std::str::from_utf8(&bytes).ok().filter(|text| text.contains("-----BEGIN")) {
        Some(pem) => Certificate::from_pem(pem)?,
        None => Certificate::from_der(&bytes)?,
    })
}

/// Reads a private key and its certificate: PKCS#8 or PKCS#1 as PEM, PKCS#8 as DER, PKCS#12, or a `pkcs11:` URI (RFC
/// 7512) of a key in a token, whose PIN is the password. The certificate comes from a file of its own, or out of the
/// container.
///
/// # Errors
/// What is wrong with either.
pub fn load_key(
    path: &std::path::Path,
    password: Option<&str>,
    certificate: Option<&std::path::Path>,
) -> Result<(PrivateKey, Certificate), LoadError> {
    if let Some(uri) = path.to_str().filter(|text| TokenUri::is_one(text)) {
        let certificate = certificate.map(load_certificate).transpose()?;
        let given = certificate.is_some();
        return PrivateKey::from_token(&TokenUri::parse(uri)?, password, certificate).map_err(|error| match error {
            KeyError::Inconsistent if given => LoadError::OtherKey,
            error => error.into(),
        });
    }
    let bytes = Zeroizing::new(std::fs::read(path)?);
    let (key, inside) = read_key(&bytes, password)?;
    if password.is_none() {
        check_mode(path)?;
    }
    let certificate = match certificate {
        Some(path) => load_certificate(path)?,
        None => inside.ok_or(LoadError::NoCertificate)?,
    };
    if certificate.public_key != *key.public() {
        return Err(LoadError::OtherKey);
    }
    Ok((key, certificate))
}

/// Reads a password; the end of its line is no part of it.
///
/// # Errors
/// The file cannot be read, or is not UTF-8.
pub fn load_password(path: &std::path::Path) -> std::io::Result<Zeroizing<String>> {
    let text = Zeroizing::new(std::fs::read_to_string(path)?);
    Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}

fn read_key(bytes: &[u8], password: Option<&str>) -> Result<(PrivateKey, Option<Certificate>), LoadError> {
    if let Some(pem) = std::str::from_utf8(bytes).ok().filter(|text| text.contains("-----BEGIN")) {
        return Ok((PrivateKey::from_pem(pem, password)?, None));
    }
    match PrivateKey::from_pkcs8_der(bytes) {
        Ok(key) => return Ok((key, None)),
        Err(KeyError::Malformed(_)) => {}
        Err(other) => return Err(other.into()),
    }
    match password.map(|password| PrivateKey::from_encrypted_pkcs8_der(bytes, password)) {
        Some(Ok(key)) => return Ok((key, None)),
        Some(Err(KeyError::Password)) => return Err(KeyError::Password.into()),
        Some(Err(_)) | None => {}
    }
    let identity = Identity::from_pkcs12(bytes, password.unwrap_or_default())?;
    Ok((identity.key, identity.certificate))
}

/// A key without a password is protected by nothing but the rights of its file.
fn check_mode(path: &std::path::Path) -> Result<(), LoadError> {
    use std::os::unix::fs::PermissionsExt;
    let open_to_all = std::fs::metadata(path)?.permissions().mode() & 0o007 != 0;
    if open_to_all { Err(LoadError::Exposed) } else { Ok(()) }
}
