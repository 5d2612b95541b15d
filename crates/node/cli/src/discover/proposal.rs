//! The files that are proposed for what was found.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// The file of the devices.
const DEVICES: &str = "devices.toml";
/// How it begins.
const HEAD: &str = "# Devices that were found. Change the topics, and the point lists, as the site has them.\n";

/// Files by name.
pub type Files = BTreeMap<String, String>;

/// A device with its point list.
pub struct Proposed<'a> {
    /// What it says of itself.
    pub words: &'a str,
    /// Of its table, its topic and its list.
    pub name: &'a str,
    /// The word of `protocol`.
    pub protocol: &'a str,
    /// Where it is.
    pub address: &'a str,
    /// Further lines of its table.
    pub more: &'a str,
    /// Its point list.
    pub list: &'a str,
}

/// The tables of devices, and their point lists.
pub struct Proposal {
    files: Files,
    tables: String,
}

impl Default for Proposal {
    fn default() -> Self {
        Self { files: Files::new(), tables: HEAD.to_owned() }
    }
}

impl Proposal {
    /// Adds a device.
    pub fn add(&mut self, device: &Proposed<'_>) {
        let Proposed { words, name, protocol, address, more, list } = device;
        let _ = write!(
            self.tables,
            "\n# {words}\n[device.{name}]\ntopic = \"site/{name}\"\nprotocol = \"{protocol}\"\naddress = \"{address}\"\n\
             points = \"{name}.csv\"\n{more}"
        );
        self.files.insert(format!("{name}.csv"), (*list).to_owned());
    }

    /// All files.
    pub fn into_files(mut self) -> Files {
        self.files.insert(DEVICES.to_owned(), self.tables);
        self.files
    }
}

/// Writes the files. Nothing is overwritten.
///
/// # Errors
/// A file is there already, or cannot be written.
pub fn write(folder: &Path, files: &Files) -> Result<Vec<String>> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    if let Some(there) = files.keys().find(|name| folder.join(name).exists()) {
        bail!("{}: found a file that is there already, expected a folder without it", folder.join(there).display());
    }
    for (name, text) in files {
        let path = folder.join(name);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        let written = file.as_mut().map_err(|error| std::io::Error::new(error.kind(), error.to_string()));
        written.and_then(|file| file.write_all(text.as_bytes())).with_context(|| path.display().to_string())?;
    }
    Ok(files.keys().cloned().collect())
}

/// What words say, as a name for tables, files and topics: lower case, digits, `-`; empty where nothing is left.
pub fn plain_name(words: &str) -> String {
    let plain: String = words.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    plain.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}
