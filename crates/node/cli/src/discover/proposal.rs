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
    /// How it is reached.
    pub reach: Reach<'a>,
    /// Further lines of its table.
    pub more: &'a str,
    /// Its point list.
    pub list: &'a str,
}

/// How a device is reached.
#[derive(Clone, Copy, Debug)]
pub enum Reach<'a> {
    /// At an address of its own.
    Address(&'a str),
    /// By a connection that it shares with others.
    Channel(&'a str),
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
    /// Adds a connection that devices share.
    pub fn add_channel(&mut self, name: &str, address: &str) {
        let _ = write!(self.tables, "\n[channel.{name}]\naddress = \"{address}\"\n");
    }

    /// Adds a device.
    pub fn add(&mut self, device: &Proposed<'_>) {
        let Proposed { words, name, protocol, reach, more, list } = device;
        let (key, place) = match reach {
            Reach::Address(address) => ("address", address),
            Reach::Channel(channel) => ("channel", channel),
        };
        let _ = write!(
            self.tables,
            "\n# {words}\n[device.{name}]\ntopic = \"site/{name}\"\nprotocol = \"{protocol}\"\n{key} = \"{place}\"\n\
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

/// A name of what a device says of itself: manufacturer and model. Many models begin with the manufacturer, which is not said twice.
pub fn name_of_identity([manufacturer, model, ..]: &[String; 4]) -> String {
    let (manufacturer, model) = (plain_name(manufacturer), plain_name(model));
    let begins = model.strip_prefix(&manufacturer).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    match (manufacturer.as_str(), model.as_str()) {
        (one, "") | ("", one) => one.to_owned(),
        (_, model) if begins => model.to_owned(),
        (manufacturer, model) => format!("{manufacturer}-{model}"),
    }
}

/// What words say, as a name for tables, files and topics: lower case, digits, `-`; empty where nothing is left.
pub fn plain_name(words: &str) -> String {
    let plain: String = words.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    plain.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manufacturer_is_named_once() {
        let check = |manufacturer: &str, model: &str, expect: &str| {
            let identity = [manufacturer, model, "1.2", "SN42"].map(str::to_owned);
            assert_eq!(name_of_identity(&identity), expect);
        };
        check("Acme", "R-1", "acme-r-1");
        check("Acme", "ACME R-1", "acme-r-1");
        check("Acme Grid", "Acme-Grid", "acme-grid");
        check("Acme", "Acmetron 5", "acme-acmetron-5");
        check("", "R-1", "r-1");
        check("Acme", "", "acme");
        check("", "", "");
    }
}
