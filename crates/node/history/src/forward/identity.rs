//! The name of the journal's past, as a database knows it.
//!
//! Sequences begin again where a data folder is new, and go back where it was restored from a copy. A position of another past
//! must not be believed: it would leave out samples. So each database's positions have the name of the past that they belong to, made at
//! random and kept in the data folder.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::PathBuf;

/// The name, and its file.
#[derive(Debug)]
pub(super) struct Identity {
    path: PathBuf,
    name: String,
}

impl Identity {
    /// Reads the name, or makes one.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        match fs::read_to_string(&path) {
            Ok(text) if is_name(text.trim_end()) => Ok(Self { name: text.trim_end().to_owned(), path }),
            Ok(_) => Self::renewed(path),
            Err(error) if error.kind() == ErrorKind::NotFound => Self::renewed(path),
            Err(error) => Err(error),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Another past begins.
    ///
    /// # Errors
    /// The folder cannot be written; the old name stays.
    pub(super) fn renew(&mut self) -> io::Result<()> {
        *self = Self::renewed(self.path.clone())?;
        Ok(())
    }

    fn renewed(path: PathBuf) -> io::Result<Self> {
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let name = format!("{:032x}", u128::from_le_bytes(random));
        let next = path.with_extension("next");
        let mut file = File::create(&next)?;
        writeln!(file, "{name}")?;
        file.sync_all()?;
        fs::rename(&next, &path)?;
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(Self { path, name })
    }
}

fn is_name(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
