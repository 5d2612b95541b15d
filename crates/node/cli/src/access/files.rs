//! Which files `tieline access user` changes, and what they have to fit with.

use super::args::UsersFile;
use anyhow::Result;
use std::path::{Path, PathBuf};
use tieline_node::config::{AccessConfig, load_access};

/// The configuration that is looked for where none is named.
const CONFIG: &str = "tieline.toml";

/// The files of users and roles.
pub struct Files {
    /// What a node would read.
    pub access: AccessConfig,
    /// The file of users.
    pub users: PathBuf,
    /// What is still to be done so that a node reads the file.
    pub hint: Option<String>,
}

impl Files {
    /// Those of the configuration that is named, or is here; without one, those beside each other.
    pub fn find(args: &UsersFile) -> Result<Self> {
        let here = Path::new(CONFIG);
        match &args.config {
            Some(config) => Self::of_config(config, args),
            None if here.exists() => {
                let found = Self::of_config(here, args)?;
                // Another file than that of a configuration that merely lies here is a matter of its own.
                Ok(if found.hint.is_some() && args.users.is_some() { Self::alone(args, found.hint) } else { found })
            }
            None => Ok(Self::alone(args, None)),
        }
    }

    fn of_config(config: &Path, args: &UsersFile) -> Result<Self> {
        let access = load_access(config)?;
        let beside = config.parent().unwrap_or(Path::new("")).join("users.toml");
        let users = args.users.clone().or_else(|| access.users.clone()).unwrap_or(beside);
        let is_named = access.users.as_deref().is_some_and(|named| is_same(named, &users));
        let hint = (!is_named).then(|| {
            let (config, file) = (config.display(), users.display());
            format!("{config} does not name this file: set users = \"{file}\" in its [access], and restart the node")
        });
        let roles = args.roles_file.clone().or_else(|| access.roles.clone());
        let access = AccessConfig { users: Some(users.clone()), roles, ..access };
        Ok(Self { access, users, hint })
    }

    fn alone(args: &UsersFile, hint: Option<String>) -> Self {
        let users = args.users.clone().unwrap_or_else(|| PathBuf::from("users.toml"));
        let beside = users.parent().unwrap_or(Path::new("")).join("roles.toml");
        let roles = args.roles_file.clone().or_else(|| beside.exists().then_some(beside));
        let access = AccessConfig { users: Some(users.clone()), roles, ..AccessConfig::default() };
        Self { access, users, hint }
    }
}

/// Whether two paths are one file, be it there or not.
fn is_same(one: &Path, other: &Path) -> bool {
    let plain = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        (Ok(_) | Err(_), _) => plain(one) == plain(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_the_configuration_or_beside_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let config = at("t.toml");
        std::fs::write(&config, "[access]\nusers = 'people.toml'\nroles = 'r.toml'\n[unknown]\n").unwrap();
        std::fs::write(at("roles.toml"), "").unwrap();
        let find = |config: Option<&Path>, users: Option<&Path>| {
            let args =
                UsersFile { config: config.map(Path::to_owned), users: users.map(Path::to_owned), roles_file: None };
            let Files { access, users, hint } = Files::find(&args).unwrap();
            assert_eq!(access.users.as_ref(), Some(&users));
            (users, access.roles, hint.is_some())
        };
        assert_eq!(find(Some(&config), None), (at("people.toml"), Some(at("r.toml")), false));
        assert_eq!(find(Some(&config), Some(&at("people.toml"))), (at("people.toml"), Some(at("r.toml")), false));
        assert_eq!(find(Some(&config), Some(&at("o.toml"))), (at("o.toml"), Some(at("r.toml")), true));
        assert_eq!(find(None, Some(&at("o.toml"))), (at("o.toml"), Some(at("roles.toml")), false));
        std::fs::write(&config, "[access]\n").unwrap();
        assert_eq!(find(Some(&config), None), (at("users.toml"), None, true));
    }
}
