//! What DNP3 secure authentication needs of a machine: random bytes, keys in files, users that outlive a restart.
//!
//! In: files that only their owner may read. Out: keys, [`SystemRandom`], [`UserStore`]. Never: a key in a message.

mod read;
mod store;

pub use read::{StationSecurity, read_device_security, read_station_security};
pub use store::{StoreError, UserStore};

use std::fmt;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use tieline_dnp3::secure::{Key, MasterSecurity, MasterSecurityConfig, Random};

/// Random bytes of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    /// # Panics
    /// The system gives no random bytes: nothing could be secure then.
    fn fill(&mut self, bytes: &mut [u8]) {
        assert!(tieline_crypto::fill_random(bytes).is_ok(), "the system gives no random bytes");
    }
}

/// The machine of a master with this configuration.
#[must_use]
pub fn master_machine(config: &MasterSecurityConfig) -> MasterSecurity {
    MasterSecurity::new(config.clone(), Box::new(SystemRandom))
}

/// Why a key file cannot be used.
#[derive(Debug)]
pub enum KeyFileError {
    /// Others than its owner may read or write it.
    Exposed {
        /// The rights of the file.
        mode: u32,
    },
    /// It is not 32 or 64 hexadecimal digits.
    Form,
    /// It cannot be read or written.
    Io(std::io::Error),
}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exposed { mode } => write!(f, "others may read it (mode {mode:03o}): chmod 600 it"),
            Self::Form => f.write_str("it is not a key: 32 or 64 hexadecimal digits, as tieline dnp3 keygen writes"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for KeyFileError {}

impl From<std::io::Error> for KeyFileError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads a key: 32 or 64 hexadecimal digits in a file that only its owner may read.
///
/// # Errors
/// The file is exposed, is not a key, or cannot be read.
pub fn read_key(path: &Path) -> Result<Key, KeyFileError> {
    check_mode(path)?;
    parse_hex(std::fs::read_to_string(path)?.trim()).ok_or(KeyFileError::Form)
}

/// Writes a key to a file that is not there yet, for its owner only.
///
/// # Errors
/// The file is there, or cannot be written.
pub fn write_key(path: &Path, key: &Key) -> Result<(), KeyFileError> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{}", to_hex(key))?;
    file.sync_all()?;
    Ok(())
}

fn check_mode(path: &Path) -> Result<(), KeyFileError> {
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(KeyFileError::Exposed { mode }) }
}

fn to_hex(key: &Key) -> String {
    key.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hex(text: &str) -> Option<Key> {
    let pair = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let is_hex = text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(pair).collect();
    Key::new(&bytes.filter(|_| is_hex)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_were_written_and_from_nobody_elses_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("user1.key");
        let key = Key::new(&[0xAB; 32]).unwrap();
        write_key(&path, &key).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_key(&path).unwrap(), key);
        assert!(matches!(write_key(&path, &key), Err(KeyFileError::Io(_))));
        for mode in [0o640, 0o604, 0o620, 0o666] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(read_key(&path), Err(KeyFileError::Exposed { .. })), "{mode:o}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "ab", &"ab".repeat(15), &"ab".repeat(17), &"zz".repeat(16), &"+a".repeat(16), &"é".repeat(16)]
        {
            assert!(parse_hex(text).is_none(), "{text}");
        }
        assert!(parse_hex(&"0F".repeat(16)).is_some());
    }
}
