//! Users that the authority changed over the wire, in a file beside the configuration.
//!
//! ```json
//! {"sequence": 6, "users": [{"number": 2, "name": "alice", "role": "operator", "until_day": 20803, "update_key": "00…"}],
//!  "removed": [3]}
//! ```
//!
//! The file is for its owner only, and replaced as a whole: a crash leaves the old one or the next.

use super::{KeyFileError, check_mode, parse_hex, to_hex};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tieline_dnp3::secure::{Role, SecurityEvent, User};

/// Why the store cannot be used.
#[derive(Debug)]
pub enum StoreError {
    /// The file is exposed, or cannot be read or written.
    File(KeyFileError),
    /// What stands in it is no store.
    Form(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(f, "{error}"),
            Self::Form(what) => write!(f, "it is no store of users: {what}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl<E: Into<KeyFileError>> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self::File(error.into())
    }
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    sequence: u32,
    users: Vec<KeptUser>,
    removed: Vec<u16>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct KeptUser {
    number: u16,
    name: String,
    role: String,
    until_day: Option<u32>,
    update_key: String,
}

/// Users as the authority left them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserStore {
    path: PathBuf,
    sequence: u32,
    users: Vec<User>,
    removed: Vec<u16>,
}

impl UserStore {
    /// Reads a store; an empty one where there is no file.
    ///
    /// # Errors
    /// The file is exposed, cannot be read, or is no store.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let kept = match std::fs::read(path) {
            Ok(bytes) => {
                check_mode(path)?;
                serde_json::from_slice(&bytes).map_err(|error| StoreError::Form(error.to_string()))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(error.into()),
        };
        let users: Result<Vec<User>, StoreError> = kept.users.into_iter().map(read_user).collect();
        Ok(Self { path: path.to_path_buf(), sequence: kept.sequence, users: users?, removed: kept.removed })
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lowest sequence number of a change that may come.
    #[must_use]
    pub const fn sequence(&self) -> u32 {
        self.sequence
    }

    /// The users of a configuration as they are since: changed, removed, and others besides.
    #[must_use]
    pub fn apply(&self, configured: Vec<User>) -> Vec<User> {
        let is_kept = |user: &User| {
            !self.removed.contains(&user.number) && self.users.iter().all(|own| own.number != user.number)
        };
        configured.into_iter().filter(is_kept).chain(self.users.iter().cloned()).collect()
    }

    /// Keeps what an outstation told, on the disk when this returns.
    ///
    /// # Errors
    /// The file cannot be written: the change is lost with the next restart.
    pub fn note(&mut self, event: &SecurityEvent) -> Result<(), StoreError> {
        match event {
            SecurityEvent::UpdateKeyChanged { user, name, role, until_day, key } => {
                self.forget(*user);
                let (name, update_key) = (name.clone(), key.clone());
                self.users.push(User { number: *user, name, role: *role, until_day: *until_day, update_key });
            }
            SecurityEvent::UserRemoved { user } => {
                self.forget(*user);
                self.removed.push(*user);
            }
            SecurityEvent::StatusSequence(next) => self.sequence = *next,
            SecurityEvent::KeysChanged { .. }
            | SecurityEvent::KeysLost { .. }
            | SecurityEvent::KeyChangeFailed { .. }
            | SecurityEvent::Refused { .. }
            | SecurityEvent::ErrorReceived { .. }
            | SecurityEvent::Statistic { .. } => return Ok(()),
        }
        self.write()
    }

    fn forget(&mut self, user: u16) {
        self.users.retain(|own| own.number != user);
        self.removed.retain(|number| *number != user);
    }

    fn write(&self) -> Result<(), StoreError> {
        let kept = Kept {
            sequence: self.sequence,
            users: self.users.iter().map(kept_user).collect(),
            removed: self.removed.clone(),
        };
        let text = serde_json::to_vec_pretty(&kept).map_err(|error| StoreError::Form(error.to_string()))?;
        let beside = self.path.with_extension("part");
        let _ = std::fs::remove_file(&beside);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        std::fs::File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
        Ok(())
    }
}

fn kept_user(user: &User) -> KeptUser {
    KeptUser {
        number: user.number,
        name: user.name.clone(),
        role: user.role.name().to_owned(),
        until_day: user.until_day,
        update_key: to_hex(&user.update_key),
    }
}

fn read_user(kept: KeptUser) -> Result<User, StoreError> {
    let wrong = |what: &str| StoreError::Form(format!("{what} of user {}", kept.number));
    let role = Role::from_name(&kept.role).ok_or_else(|| wrong("the role"))?;
    let update_key = parse_hex(&kept.update_key).ok_or_else(|| wrong("the update key"))?;
    Ok(User { number: kept.number, name: kept.name, role, until_day: kept.until_day, update_key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tieline_dnp3::secure::Key;

    fn user(number: u16, byte: u8) -> User {
        let update_key = Key::new(&[byte; 16]).unwrap();
        User { number, name: format!("user {number}"), role: Role::Operator, until_day: Some(7), update_key }
    }

    fn changed(user: &User) -> SecurityEvent {
        let User { number, name, role, until_day, update_key } = user.clone();
        SecurityEvent::UpdateKeyChanged { user: number, name, role, until_day, key: update_key }
    }

    #[test]
    fn what_the_authority_did_outlives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.json");
        let mut store = UserStore::open(&path).unwrap();
        for event in [
            changed(&user(2, 9)),
            SecurityEvent::UserRemoved { user: 3 },
            changed(&user(4, 9)),
            SecurityEvent::UserRemoved { user: 4 },
            SecurityEvent::StatusSequence(12),
            SecurityEvent::KeysChanged { user: 1 },
        ] {
            store.note(&event).unwrap();
        }
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = UserStore::open(&path).unwrap();
        assert_eq!(again, store);
        assert_eq!(again.sequence(), 12);
        let users = again.apply([user(1, 1), user(2, 1), user(3, 1)].to_vec());
        assert_eq!(users, [user(1, 1), user(2, 9)]);
    }

    #[test]
    fn an_exposed_or_broken_store_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.json");
        std::fs::write(&path, "{}").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(UserStore::open(&path), Err(StoreError::File(KeyFileError::Exposed { .. }))));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(UserStore::open(&path), Err(StoreError::Form(_))));
    }
}
