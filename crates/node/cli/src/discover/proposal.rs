//! The files that are proposed for what was found.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

/// The file of the devices.
pub const DEVICES: &str = "devices.toml";
/// How it begins.
pub const HEAD: &str = "# Devices that were found. Change the topics, and the point lists, as the site has them.\n";

/// Files by name.
pub type Files = BTreeMap<String, String>;

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
