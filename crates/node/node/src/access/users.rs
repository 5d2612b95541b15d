//! Users of the files, as administrators see and change them while the node runs.

use super::authenticator::{Authenticator, lock};
use super::credential_store::{CredentialStore, Secret};
use super::edit::{Edit, edit_user_if};
use crate::config::{AccessConfig, NameKind};
use tieline_access::{Lockout, User};
use tieline_core::Timestamp;

/// A user of the file, without anything that it shows itself by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedUser {
    /// The name, the roles, and whether it is disabled.
    pub user: User,
    /// By what it can log in.
    pub by: Means,
    /// When it last showed who it is, since the node started.
    pub last_login: Option<Timestamp>,
}

/// By what a user can log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// A password.
    Password,
    /// A certificate that the file lists.
    Certificate,
    /// What is in no file: a token, a certificate, or the identity provider.
    Token,
}

impl Means {
    /// That of a user of the file.
    fn of(secret: Option<&Secret>) -> Self {
        match secret {
            Some(secret) if secret.password.is_some() => Self::Password,
            Some(secret) if !secret.certificates.is_empty() => Self::Certificate,
            Some(_) | None => Self::Token,
        }
    }

    /// Whether a node with this configuration lets users in by it.
    fn is_accepted(self, config: &AccessConfig) -> bool {
        let certificates = config.certificates.as_ref();
        match self {
            Self::Password => true,
            Self::Certificate => certificates.is_some(),
            Self::Token => config.jwt.is_some() || certificates.is_some_and(|c| c.user != NameKind::Listed),
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Certificate => "certificate",
            Self::Token => "token",
        }
    }
}

/// Why a user is not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditError {
    /// It would lock administrators out.
    Lockout(Lockout),
    /// It cannot be done; in words.
    Refused(String),
}

impl Authenticator {
    /// The users of the file, by name.
    #[must_use]
    pub fn users(&self) -> Vec<ListedUser> {
        let store = self.shared.store();
        let last_logins = lock(&self.shared.last_logins);
        let listed = |user: &User| ListedUser {
            by: Means::of(store.secrets.get(&*user.name)),
            last_login: last_logins.get(&user.name).copied(),
            user: user.clone(),
        };
        store.policy.users().map(listed).collect()
    }

    /// Changes a user in the file, for a caller who administers users, and waits until the change holds: it blocks. The caller
    /// keeps its right, and somebody keeps it.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn edit_user(&self, caller: Option<&str>, name: &str, edit: &Edit<'_>) -> Result<(), EditError> {
        let (config, before) = (self.config(), self.policy());
        let mut lockout = None;
        let check = |store: &CredentialStore| {
            let can_log_in = |user: &str| Means::of(store.secrets.get(user)).is_accepted(config);
            let checked = before.check_lockout(&store.policy, caller, can_log_in);
            lockout = checked.err();
            checked.map_err(|lockout| lockout.to_string())
        };
        let edited = edit_user_if(config, name, edit, check);
        edited.map_err(|why| lockout.map_or(EditError::Refused(why), EditError::Lockout))?;
        self.workers.look_now();
        Ok(())
    }
}
