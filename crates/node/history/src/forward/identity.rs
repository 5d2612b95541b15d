//! The name of the journal's past, as a database knows it.
//!
//! Sequences begin again where a data folder is new, and go back where it was restored from a copy. A position of another past
//! must not be believed: it would leave out samples. So each database's positions have the name of the past that they belong to, made at
//! random and kept in the data folder.

use super::DATABASES_FOLDER;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use tieline_journal::Seq;

/// The folder below the data folder that has what is known of sites and the centre.
pub const SITES_FOLDER: &str = "sites";
/// The file in it that says that the data folder was restored.
pub const RESTORED_SITE: &str = "restored";
/// How the file ends that says up to which record the journal was restored, and its name then; it has nothing until the first start
/// since.
const RESTORED: &str = "restored";

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

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A name for another past.
    ///
    /// # Errors
    /// The system gives no random number.
    pub(super) fn another() -> io::Result<String> {
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        Ok(format!("{:032x}", u128::from_le_bytes(random)))
    }

    /// Another past begins.
    ///
    /// # Errors
    /// The folder cannot be written; the old name stays.
    pub(super) fn rename(&mut self, name: String) -> io::Result<()> {
        replace(&self.path, &name)?;
        self.name = name;
        Ok(())
    }

    fn renewed(path: PathBuf) -> io::Result<Self> {
        let name = Self::another()?;
        replace(&path, &name)?;
        Ok(Self { path, name })
    }
}

/// The last record that the journal had when the data folder was restored; none where it was not, or the journal has had another name
/// since. `path` has the name of the journal, `opened` is the last record now.
///
/// # Errors
/// The folder cannot be read or written.
pub(super) fn restored_at(path: &Path, opened: Seq) -> io::Result<Option<u64>> {
    let there = |path: &Path| match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let restored = path.with_extension(RESTORED);
    let Some(text) = there(&restored)? else { return Ok(None) };
    let name = there(path)?.unwrap_or_default();
    match text.trim_end().split_once(' ').map(|(last, of)| (last.parse(), of)) {
        Some((Ok(last), of)) => Ok((of == name.trim_end()).then_some(last)),
        // The first start since.
        _ => replace(&restored, &format!("{} {}", opened.0, name.trim_end())).map(|()| Some(opened.0)),
    }
}

/// What the journal does not share with the one that it is a copy of has another name. `path` has that name.
///
/// # Errors
/// The folder cannot be written.
pub(super) fn forget_restored(path: &Path) -> io::Result<()> {
    match fs::remove_file(path.with_extension(RESTORED)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Notes that a data folder was restored: a database may have records of its journal that the journal has not, and others that get the
/// same sequences.
///
/// # Errors
/// The folder cannot be written.
pub fn note_restored(data: &Path) -> io::Result<()> {
    let sites = data.join(SITES_FOLDER);
    if sites.exists() {
        // A centre, too, has records of the journal that it has not.
        File::create(sites.join(RESTORED_SITE))?.sync_all()?;
    }
    let entries = match fs::read_dir(data.join(DATABASES_FOLDER)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let restored = path.with_extension(RESTORED);
        // A copy of a copy shares no more with the first one.
        if path.extension().is_some_and(|end| end == "journal") && !restored.exists() {
            File::create(restored)?.sync_all()?;
        }
    }
    Ok(())
}

/// Replaces a file durably.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let next = path.with_extension("next");
    let mut file = File::create(&next)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&next, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

pub(super) fn is_name(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
