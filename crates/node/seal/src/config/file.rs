//! A configuration's file, and changes to it.
//!
//! The file stays the only truth: comments and order are kept, and nothing is written that a server would not take.

use super::{Config, from_text, load};
use crate::Ispb;
use crate::keyring::KeyState;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use tieline_service::reader::ConfigError;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

/// A configuration as its text, with what was changed so far.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    document: DocumentMut,
}

/// A key to be added.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Its file, beside the configuration's folder, or a `pkcs11:` URI.
    pub file: String,
    /// The file of its certificate, where it is not with the key.
    pub certificate: Option<String>,
    /// A file with its password or PIN.
    pub password_file: Option<String>,
    /// Its version; one more than the highest otherwise.
    pub version: Option<u32>,
    /// What it may do.
    pub state: KeyState,
}

/// The certificate of another institution, to be added.
#[derive(Clone, Debug)]
pub struct NewPeer {
    /// Its file.
    pub certificate: String,
    /// The institution, unless the certificate's subject says it.
    pub ispb: Option<Ispb>,
    /// Whether it may be used.
    pub state: KeyState,
}

impl ConfigFile {
    /// Reads the file, which a server must take as it is.
    ///
    /// # Errors
    /// It cannot be read, or a server would not take it.
    pub fn open(path: &Path) -> Result<Self, EditError> {
        load(path).map_err(EditError::Config)?;
        let text = std::fs::read_to_string(path)?;
        let document = text.parse().map_err(|error: toml_edit::TomlError| EditError::Written(error.to_string()))?;
        Ok(Self { path: path.to_owned(), document })
    }

    /// The folder beside which files are found.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
    }

    /// Adds a key; its version.
    ///
    /// # Errors
    /// There is no such domain, or it is not written as a table.
    pub fn add_key(&mut self, domain: &str, key: &NewKey) -> Result<u32, EditError> {
        let entries = self.entries(domain, "key")?;
        let highest = entries.iter().filter_map(|entry| u32::try_from(entry.get("version")?.as_integer()?).ok()).max();
        let version = key.version.unwrap_or_else(|| highest.unwrap_or(0).saturating_add(1));
        let mut entry = Table::new();
        entry["version"] = value(i64::from(version));
        entry["file"] = value(key.file.as_str());
        for (name, file) in [("certificate", &key.certificate), ("password_file", &key.password_file)] {
            if let Some(file) = file {
                entry[name] = value(file.as_str());
            }
        }
        entry["state"] = value(key.state.word());
        entries.push(entry);
        Ok(version)
    }

    /// Says what a key may do.
    ///
    /// # Errors
    /// There is no such domain or key.
    pub fn set_key_state(&mut self, domain: &str, version: u32, state: KeyState) -> Result<(), EditError> {
        let entries = self.entries(domain, "key")?;
        let of_version =
            |entry: &&mut Table| entry.get("version").and_then(Item::as_integer) == Some(i64::from(version));
        let entry = entries.iter_mut().find(of_version);
        let entry = entry.ok_or_else(|| EditError::NoKey { domain: domain.to_owned(), version })?;
        entry["state"] = value(state.word());
        Ok(())
    }

    /// Adds another institution's certificate.
    ///
    /// # Errors
    /// There is no such domain, or it is not written as a table.
    pub fn add_peer(&mut self, domain: &str, peer: &NewPeer) -> Result<(), EditError> {
        let mut entry = Table::new();
        entry["certificate"] = value(peer.certificate.as_str());
        if let Some(ispb) = peer.ispb {
            entry["ispb"] = value(ispb.to_string());
        }
        if peer.state != KeyState::Active {
            entry["state"] = value(peer.state.word());
        }
        self.entries(domain, "peer")?.push(entry);
        Ok(())
    }

    /// The tables `[[domain.NAME.KIND]]`.
    fn entries(&mut self, domain: &str, kind: &str) -> Result<&mut ArrayOfTables, EditError> {
        let known = self.document.get_mut("domain").and_then(|domains| domains.get_mut(domain));
        let table = known.and_then(Item::as_table_mut).ok_or_else(|| EditError::NoDomain(domain.to_owned()))?;
        let entries = table.entry(kind).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let words = || EditError::Written(format!("domain.{domain}.{kind} is not written as [[…]]"));
        entries.as_array_of_tables_mut().ok_or_else(words)
    }

    /// Writes the file in one step, if a server would take it, and returns what it would take.
    ///
    /// # Errors
    /// A server would not take it, or it cannot be written; then it is as it was.
    pub fn save(&self) -> Result<Config, EditError> {
        let text = self.document.to_string();
        let mut config =
            from_text(&self.path.display().to_string(), &text, self.folder()).map_err(EditError::Config)?;
        config.path = Some(self.path.clone());
        let mut written = tempfile::NamedTempFile::new_in(self.folder())?;
        written.write_all(text.as_bytes())?;
        let rights = std::fs::metadata(&self.path)?.permissions();
        written.as_file().set_permissions(rights)?;
        written.as_file().sync_all()?;
        written.persist(&self.path).map_err(|error| error.error)?;
        Ok(config)
    }
}

/// Why nothing was changed.
#[derive(Debug)]
pub enum EditError {
    /// There is no such domain.
    NoDomain(String),
    /// The domain has no key of that version.
    NoKey {
        /// The domain.
        domain: String,
        /// The version.
        version: u32,
    },
    /// The file is written in a way that cannot be added to.
    Written(String),
    /// A server would not take it.
    Config(ConfigError),
    /// A file cannot be read or written.
    File(std::io::Error),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDomain(domain) => write!(f, "there is no [domain.{domain}]"),
            Self::NoKey { domain, version } => write!(f, "domain {domain:?} has no key of version {version}"),
            Self::Written(what) => f.write_str(what),
            Self::Config(error) => write!(f, "nothing was changed: {error}"),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EditError {}

impl From<std::io::Error> for EditError {
    fn from(error: std::io::Error) -> Self {
        Self::File(error)
    }
}
