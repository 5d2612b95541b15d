//! Changes of the file of users, as `tieline access user` makes them: everything else in the file stays as it is.

use super::scram::Verifier;
use super::{hash_password, password};
use std::io::Write;
use std::path::Path;
use tieline_access::{Policy, User};
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

/// Changes one user. The file is made if there is none, and replaced in one step, readable by its owner alone.
///
/// # Errors
/// What cannot be done, in words.
pub fn edit_user(file: &Path, name: &str, edit: &Edit<'_>) -> Result<(), String> {
    // A name that no policy takes is refused before anything is written.
    Policy::new([], [User::new(name, [])]).map_err(|error| error.to_string())?;
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && matches!(edit, Edit::Add { .. }) => {
            "# Users of Tieline. `tieline access user` writes this file; passwords are never in it.\n".to_owned()
        }
        Err(error) => return Err(format!("{}: {error}", file.display())),
    };
    let mut document: DocumentMut = text.parse().map_err(|error| format!("{}: {error}", file.display()))?;
    let mut users_new = Table::new();
    users_new.set_implicit(true);
    let users = document.entry("user").or_insert(Item::Table(users_new));
    let users = users.as_table_mut().ok_or_else(|| format!("{}: user is no table", file.display()))?;
    apply(users, name, edit)?;
    write_private(file, document.to_string().as_bytes()).map_err(|error| format!("{}: {error}", file.display()))
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
    if given.is_empty() || given.len() > password::PASSWORD_OCTETS_MAX {
        return Err(format!(
            "the password has {} octets, expected 1 to {}",
            given.len(),
            password::PASSWORD_OCTETS_MAX
        ));
    }
    user.insert("password", value(hash_password(given)?));
    user.insert("scram", value(Verifier::new(given)?.to_string()));
    Ok(())
}

/// Whoever reads the file while it is written sees the one before or the one after.
fn write_private(file: &Path, octets: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let mut options = std::fs::OpenOptions::new();
    let mut new = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    new.write_all(octets)?;
    new.sync_all()?;
    std::fs::rename(&beside, file)
}
