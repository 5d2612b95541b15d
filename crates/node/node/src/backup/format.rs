//! The number of a data folder's format, in its file `format`.
//!
//! ```text
//! {"format":1,"needs":"0.2.0"}
//! ```
//!
//! A release that changes what files of the folder mean has a number of its own, and `needs` names the first release that can
//! read it: an older one, which cannot know, says so. A folder without the file is one of a release before the first number.
//! What such a release left is moved by the parts that read it, while the node runs.

use super::BackupError;
use serde_json::{Value as Json, json};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::Path;

/// The format that this release reads and writes.
pub const FORMAT: u64 = 1;
/// The first release that can read it.
pub const NEEDS: &str = "0.2.0";
/// The name of the file.
const FILE: &str = "format";
/// Bytes of the file at most.
const FILE_BYTES_MAX: u64 = 4096;
/// Characters of the name of a release at most.
const RELEASE_CHARS_MAX: usize = 64;

/// The format of a data folder, or of a backup of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFormat {
    /// Its number; 0 of releases that had none.
    pub number: u64,
    /// The first release that can read it.
    pub needs: String,
}

impl DataFormat {
    /// That of a folder without the file.
    fn before_the_first() -> Self {
        Self { number: 0, needs: String::new() }
    }

    /// Reads the format of a folder.
    ///
    /// # Errors
    /// The file cannot be read, or says something else.
    pub fn of(folder: &Path) -> Result<Self, FormatError> {
        let mut text = String::new();
        let file = match File::open(folder.join(FILE)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::before_the_first()),
            file => file?,
        };
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        serde_json::from_str(&text).ok().as_ref().and_then(Self::read).ok_or(FormatError::Unreadable)
    }

    /// The format in a manifest of a backup; one without is of a release that had none.
    pub(super) fn of_manifest(manifest: &Json) -> Result<Self, BackupError> {
        if manifest.get("format").is_none() {
            return Ok(Self::before_the_first());
        }
        Self::read(manifest).ok_or_else(|| BackupError::Damaged("its data format cannot be read".to_owned()))
    }

    fn read(object: &Json) -> Option<Self> {
        let number = object.get("format")?.as_u64()?;
        let needs: String = object.get("needs")?.as_str()?.chars().take(RELEASE_CHARS_MAX).collect();
        Some(Self { number, needs })
    }

    /// Whether this release can read it.
    ///
    /// # Errors
    /// It is newer.
    pub fn check(self) -> Result<Self, FormatError> {
        if self.number > FORMAT { Err(FormatError::Newer(self)) } else { Ok(self) }
    }
}

/// Why a data folder cannot be used.
#[derive(Debug)]
pub enum FormatError {
    /// The file cannot be read or written.
    Io(io::Error),
    /// The file says no format.
    Unreadable,
    /// The format is one of a newer release.
    Newer(DataFormat),
}

impl From<io::Error> for FormatError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the file {FILE}: {error}"),
            Self::Unreadable => {
                write!(f, "the file {FILE} cannot be read, expected {{\"format\":{FORMAT},\"needs\":\"{NEEDS}\"}}")
            }
            Self::Newer(DataFormat { number, needs }) => write!(
                f,
                "the data has format {number}, expected {FORMAT} at most: it needs tieline {needs:?} or newer, and this is {}",
                env!("CARGO_PKG_VERSION")
            ),
        }
    }
}

impl std::error::Error for FormatError {}

/// Checks the format of a folder that this process has for itself. One of an older release has that of this one from now on;
/// where its disk is full, from the next time on.
///
/// # Errors
/// The format is newer than this release, or the file cannot be read or written.
pub fn claim(folder: &Path) -> Result<(), FormatError> {
    let found = DataFormat::of(folder)?.check()?;
    if found.number == FORMAT {
        return Ok(());
    }
    match write(folder) {
        // A node with a full disk runs, and says so.
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            tracing::warn!(%error, "the number of the data format cannot be written");
            Ok(())
        }
        done => Ok(done?),
    }
}

fn write(folder: &Path) -> io::Result<()> {
    let (file, new) = (folder.join(FILE), folder.join(format!("{FILE}.new")));
    let mut written = File::create(&new)?;
    writeln!(written, "{}", json!({ "format": FORMAT, "needs": NEEDS }))?;
    written.sync_all()?;
    fs::rename(&new, &file)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(text: Option<&str>) -> (Result<(), String>, String) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        text.iter().for_each(|text| fs::write(&file, text).unwrap());
        let done = claim(folder.path()).map_err(|error| error.to_string());
        (done, fs::read_to_string(&file).unwrap_or_default())
    }

    #[test]
    fn a_folder_has_the_format_of_its_release() {
        let own = "{\"format\":1,\"needs\":\"0.2.0\"}\n";
        assert_eq!(claimed(None), (Ok(()), own.to_owned()));
        assert_eq!(claimed(Some(own)), (Ok(()), own.to_owned()));
        assert_eq!(claimed(Some("{\"format\":0,\"needs\":\"0.1.0\",\"more\":[]}")), (Ok(()), own.to_owned()));
    }

    #[test]
    fn the_release_that_is_needed_is_not_to_come() {
        let numbers = |version: &str| version.split('.').map(|number| number.parse().unwrap()).collect::<Vec<u64>>();
        assert!(numbers(NEEDS) <= numbers(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn a_newer_format_is_refused_and_kept() {
        let newer = "{\"format\":2,\"needs\":\"0.7.0\"}";
        let (done, left) = claimed(Some(newer));
        let why = done.unwrap_err();
        assert!(why.contains("format 2, expected 1 at most: it needs tieline \"0.7.0\" or newer"), "{why}");
        assert_eq!(left, newer);
    }

    #[test]
    fn a_file_that_says_no_format_is_refused_and_kept() {
        let long = "[".repeat(10_000);
        for text in [
            "",
            "1",
            "{}",
            "{\"format\":-1,\"needs\":\"\"}",
            "{\"format\":1}",
            "{\"format\":1.5,\"needs\":\"\"}",
            &long,
        ] {
            let (done, left) = claimed(Some(text));
            assert!(done.unwrap_err().contains("cannot be read, expected"), "{text}");
            assert_eq!(left, text);
        }
    }
}
