//! The file of logins: tokens by the address of a node. Nobody but its owner may read it.

use crate::context::store as contexts;
use anyhow::{Context as _, Result, anyhow, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml_edit::{DocumentMut, Item, Table, value};

/// Logins of one file.
const LOGINS_MAX: usize = 1000;
/// Bytes of the file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A login at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// What shows who one is.
    pub token: String,
    /// The user.
    pub user: String,
    /// Seconds since 1970 at which it ends at the latest.
    pub expires: u64,
}

/// All logins, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logins(BTreeMap<String, Login>);

impl Logins {
    /// Reads the user's file; there are no logins where there is none.
    pub fn load() -> Result<Self> {
        let Some(file) = path() else { return Ok(Self::default()) };
        Self::load_from(&file).with_context(|| format!("the logins in {} cannot be used", file.display()))
    }

    fn load_from(file: &Path) -> Result<Self> {
        match std::fs::metadata(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error.into()),
            Ok(found) if found.len() > FILE_BYTES_MAX => bail!("more than {FILE_BYTES_MAX} bytes"),
            Ok(_) => {}
        }
        Self::read(&std::fs::read_to_string(file)?)
    }

    /// Changes the user's file; gives its path.
    pub fn change(change: impl FnOnce(&mut Self)) -> Result<PathBuf> {
        let file = path().ok_or_else(|| anyhow!("neither XDG_CONFIG_HOME nor HOME is set"))?;
        let mut logins = Self::load()?;
        change(&mut logins);
        contexts::save_private(&file, &logins.write())
            .with_context(|| format!("{} cannot be written", file.display()))?;
        Ok(file)
    }

    /// The login at an address, if it still holds.
    pub fn find(&self, address: &str, now_s: u64) -> Option<&Login> {
        self.0.get(&base(address)).filter(|login| login.expires > now_s)
    }

    /// Keeps a login in the place of that of before.
    pub fn keep(&mut self, address: &str, login: Login) {
        if self.0.len() >= LOGINS_MAX {
            let first = self.0.iter().min_by_key(|(_, login)| login.expires).map(|(address, _)| address.clone());
            first.and_then(|first| self.0.remove(&first));
        }
        self.0.insert(base(address), login);
    }

    /// Forgets a login.
    pub fn forget(&mut self, address: &str) {
        self.0.remove(&base(address));
    }

    fn read(text: &str) -> Result<Self> {
        let document: DocumentMut = text.parse()?;
        let mut logins = Self::default();
        for (address, item) in
            document.get("login").and_then(Item::as_table_like).into_iter().flat_map(|all| all.iter())
        {
            let text = |name: &str| item.get(name).and_then(Item::as_str).map(str::to_owned);
            let expires =
                item.get("expires").and_then(Item::as_integer).and_then(|expires| u64::try_from(expires).ok());
            let (Some(token), Some(user), Some(expires)) = (text("token"), text("user"), expires) else {
                bail!("login.{address:?}: expected token, user and expires");
            };
            logins.0.insert(address.to_owned(), Login { token, user, expires });
        }
        Ok(logins)
    }

    fn write(&self) -> String {
        let mut all = Table::new();
        all.set_implicit(true);
        for (address, Login { token, user, expires }) in &self.0 {
            let expires = i64::try_from(*expires).unwrap_or(i64::MAX);
            let members = [("token", value(token)), ("user", value(user)), ("expires", value(expires))];
            all.insert(address, Item::Table(members.into_iter().collect()));
        }
        let mut document = DocumentMut::new();
        document.insert("login", Item::Table(all));
        document.to_string()
    }
}

/// An address as the file has it. The token of one address is for no other, nor for the same one without TLS.
fn base(address: &str) -> String {
    let address = address.trim_end_matches('/').to_ascii_lowercase();
    if address.contains("://") { address } else { format!("http://{address}") }
}

/// Beside the file of contexts.
fn path() -> Option<PathBuf> {
    contexts::path(&crate::who::variable).map(|file| file.with_file_name("logins.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn logins_are_kept_by_address_in_a_file_of_their_owner() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep").join("logins.toml");
        let login = |user: &str| Login { token: "tieline_x".to_owned(), user: user.to_owned(), expires: 100 };
        let mut logins = Logins::default();
        logins.keep("Node.example:8080/", login("anna"));
        logins.keep("https://node.example:8080", login("ben"));
        contexts::save_private(&file, &logins.write()).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let read = Logins::load_from(&file).unwrap();
        assert_eq!(read, logins);
        let check = |address: &str, now_s: u64, expect: Option<&str>| {
            assert_eq!(read.find(address, now_s).map(|login| &*login.user), expect, "{address}");
        };
        check("http://node.example:8080", 99, Some("anna"));
        check("node.example:8080", 100, None);
        check("https://NODE.example:8080/", 1, Some("ben"));
        check("node.example:8081", 1, None);
        assert!(Logins::read("[login.a]\ntoken = 5").is_err() && Logins::read("x").is_err());
        assert_eq!(Logins::load_from(&folder.path().join("none")).unwrap(), Logins::default());
    }
}
