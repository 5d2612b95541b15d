//! Small files that are replaced as a whole, durably.
//!
//! ```text
//! FILE.new: written, synced ─▶ renamed to FILE ─▶ folder synced
//! ```
//!
//! A reader, and a node that starts after a crash, finds the file before or the one after. What is left of `FILE.new` after a crash is
//! written over by the next replacement.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// How the name of a file that is being written ends, behind that of the file.
pub const ENDS: &str = ".new";

/// A file that takes the place of another once it is finished; dropped before, it leaves nothing.
#[derive(Debug)]
pub struct Replacement<'a> {
    path: &'a Path,
    beside: PathBuf,
    new: File,
    is_done: bool,
}

impl<'a> Replacement<'a> {
    /// Begins one that has this mode, as far as the process lets it.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn begin(path: &'a Path, mode: u32) -> io::Result<Self> {
        let mut beside = OsString::from(path);
        beside.push(ENDS);
        let beside = PathBuf::from(beside);
        let new = File::options().write(true).create(true).truncate(true).mode(mode).open(&beside)?;
        Ok(Self { path, beside, new, is_done: false })
    }

    /// The new file, for its owner and mode.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.new
    }

    /// Writes it, and puts it in the place of the old one. When this returns, it survives a power cut.
    ///
    /// # Errors
    /// The old file stays; or, where only the folder could not be synced, either may be there after a power cut.
    pub fn finish(mut self, bytes: &[u8]) -> io::Result<()> {
        self.new.write_all(bytes)?;
        self.new.sync_all()?;
        std::fs::rename(&self.beside, self.path)?;
        self.is_done = true;
        File::open(folder_of(self.path))?.sync_all()
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = std::fs::remove_file(&self.beside);
        }
    }
}

/// Replaces a file durably, or makes it.
///
/// # Errors
/// As [`Replacement::begin`] and [`Replacement::finish`].
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    Replacement::begin(path, mode)?.finish(bytes)
}

/// The folder of a file.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_is_the_one_before_or_the_one_after() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let names = || {
            let all = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let mut all: Vec<String> = all.map(|name| name.into_string().unwrap()).collect();
            all.sort();
            all
        };
        replace(&path, b"old", 0o600).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut begun = Replacement::begin(&path, 0o600).unwrap();
        begun.new.write_all(b"ne").unwrap();
        assert_eq!(
            (std::fs::read(&path).unwrap(), names()),
            (b"old".to_vec(), vec!["a.toml".into(), "a.toml.new".into()])
        );
        // A process that is killed here leaves both; the next replacement does not mind.
        std::mem::forget(begun);
        replace(&path, b"next", 0o600).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"next".to_vec(), vec!["a.toml".to_owned()]));
        // One that fails leaves nothing: here, a folder stands at the place.
        let at = folder.path().join("b");
        std::fs::create_dir(&at).unwrap();
        replace(&at, b"x", 0o600).unwrap_err();
        assert_eq!(names(), ["a.toml", "b"]);
    }
}
