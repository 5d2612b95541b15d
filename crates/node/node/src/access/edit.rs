//! Changes of the file of users, as `tieline access user` makes them: everything else in the file stays as it is.

use super::scram::Verifier;
use super::{CredentialStore, hash_password, password};
use crate::config::AccessConfig;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;
use tieline_access::{Policy, User};
use tieline_service::replacement::{Replacement, folder_of};
use toml_edit::{Array, DocumentMut, Item, Table, value};

/// What `tieline access user` does to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit<'a> {
    /// A user that was not there.
    Add {
        /// Its roles.
        roles: &'a [String],
        /// Its password; none for one that comes with a token or a certificate.
        password: Option<&'a str>,
    },
    /// Another password.
    Password(&'a str),
    /// Other roles.
    Roles(&'a [String]),
    /// Whether it may come in.
    Disabled(bool),
    /// It goes.
    Remove,
}

/// Changes one user in the file of users of a configuration. The file is made if there is none, and replaced in one step,
/// readable by its owner alone. What a node would not take is not written.
///
/// # Errors
/// What cannot be done, in words.
pub fn edit_user(config: &AccessConfig, name: &str, edit: &Edit<'_>) -> Result<(), String> {
    edit_user_if(config, name, edit, |_| Ok(()))
}

/// The same where `check` agrees with the users and roles as they would be then.
///
/// # Errors
/// What cannot be done, or why `check` does not agree, in words.
pub fn edit_user_if(
    config: &AccessConfig,
    name: &str,
    edit: &Edit<'_>,
    check: impl FnOnce(&CredentialStore) -> Result<(), String>,
) -> Result<(), String> {
    let file = config.users.as_deref().ok_or("no file of users is named")?;
    let told = |error: io::Error| format!("{}: {error}", file.display());
    // A name that no policy takes is refused before anything is written.
    Policy::new([], [User::new(name, [])]).map_err(|error| error.to_string())?;
    if let Edit::Add { password: Some(given), .. } | Edit::Password(given) = edit {
        check_password(config, name, given)?;
    }
    // One change at a time: each begins from what the one before has left.
    let folder = folder_of(file);
    let folder = File::open(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    folder.lock().map_err(told)?;
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound && matches!(edit, Edit::Add { .. }) => {
            "# Users of Tieline. `tieline access user` writes this file; passwords are never in it.\n".to_owned()
        }
        Err(error) => return Err(told(error)),
    };
    let mut document: DocumentMut = text.parse().map_err(|error| format!("{}: {error}", file.display()))?;
    let mut users_new = Table::new();
    users_new.set_implicit(true);
    let users = document.entry("user").or_insert(Item::Table(users_new));
    let users = users.as_table_mut().ok_or_else(|| format!("{}: user is no table", file.display()))?;
    apply(users, name, edit)?;
    let text = document.to_string();
    let store = CredentialStore::load_as(config, Some(&text))
        .map_err(|error| format!("nothing is changed: no node would take the files as they would be then\n{error}"))?;
    check(&store)?;
    replace(file, text.as_bytes()).map_err(told)
}

/// Passwords are guessed: short ones soon, and names of users first.
fn check_password(config: &AccessConfig, name: &str, given: &str) -> Result<(), String> {
    let (min, characters) = (config.password_length_min, given.chars().count());
    if characters < min || given.len() > password::PASSWORD_BYTES_MAX {
        let max = password::PASSWORD_BYTES_MAX;
        return Err(format!(
            "the password has {characters} characters, expected {min} at least and {max} bytes at most"
        ));
    }
    let first = given.chars().next();
    if given.chars().all(|c| Some(c) == first) || given.to_lowercase().replace(&name.to_lowercase(), "").is_empty() {
        return Err(
            "the password is one character or the user's name again and again, expected one that is hard to guess"
                .to_owned(),
        );
    }
    Ok(())
}

fn apply(users: &mut Table, name: &str, edit: &Edit<'_>) -> Result<(), String> {
    let missing = || format!("there is no user {name:?}");
    if let Edit::Remove = edit {
        return users.remove(name).map(drop).ok_or_else(missing);
    }
    if let Edit::Add { roles, password } = edit {
        if users.contains_key(name) {
            return Err(format!("the user {name:?} is there already"));
        }
        let mut user = Table::new();
        user.insert("roles", value(roles.iter().collect::<Array>()));
        if let Some(password) = password {
            set_password(&mut user, password)?;
        }
        users.insert(name, Item::Table(user));
        return Ok(());
    }
    let user = users.get_mut(name).and_then(Item::as_table_mut).ok_or_else(missing)?;
    match edit {
        Edit::Password(password) => set_password(user, password)?,
        Edit::Roles(roles) => drop(user.insert("roles", value(roles.iter().collect::<Array>()))),
        Edit::Disabled(true) => drop(user.insert("disabled", value(true))),
        Edit::Disabled(false) => drop(user.remove("disabled")),
        Edit::Add { .. } | Edit::Remove => {}
    }
    Ok(())
}

fn set_password(user: &mut Table, given: &str) -> Result<(), String> {
    user.insert("password", value(hash_password(given)?));
    user.insert("scram", value(Verifier::new(given)?.to_string()));
    Ok(())
}

/// It stays with its owner: a node that runs as another user than this command reads it still.
fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let before = match std::fs::metadata(file) {
        Ok(before) => Some(before),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let new = Replacement::begin(file, 0o600)?;
    before.map_or(Ok(()), |before| keep_owner(new.file(), &before))?;
    new.finish(bytes)
}

fn keep_owner(new: &File, before: &Metadata) -> io::Result<()> {
    let made = new.metadata()?;
    if (made.uid(), made.gid()) != (before.uid(), before.gid()) {
        fchown(new, Some(before.uid()), Some(before.gid()))?;
    }
    // A group may have been let read it; all others may not, whatever was.
    let mut permissions = made.permissions();
    permissions.set_mode(0o600 | (before.mode() & 0o040));
    new.set_permissions(permissions)
}
