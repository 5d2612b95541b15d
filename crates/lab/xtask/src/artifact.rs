//! A generated file: written where it differs, so that what is current is not compiled again.

use anyhow::{Context, ensure};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Writes a generated file, or with `check` proves that it is current. `source` names what it is generated from.
///
/// # Errors
/// The file cannot be read or written, or is not current.
pub fn put(file: &Path, text: &str, source: &str, check: bool) -> anyhow::Result<()> {
    let found = match fs::read(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        found => Some(found.with_context(|| format!("reading {}", file.display()))?),
    };
    if found.as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    ensure!(!check, "{} is not what {source} says: run cargo xtask gen", file.display());
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn only_what_differs_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made.rs");
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let is_touched = |text: &str| {
            put(&file, text, "table.toml", false).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            let was_touched = fs::metadata(&file).unwrap().modified().unwrap() != long_ago;
            fs::File::options().write(true).open(&file).unwrap().set_modified(long_ago).unwrap();
            was_touched
        };
        assert_eq!(["a", "a", "b"].map(is_touched), [true, false, true]);
    }

    #[test]
    fn a_check_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made.rs");
        let error = put(&file, "a", "table.toml", true).unwrap_err().to_string();
        assert_eq!(error, format!("{} is not what table.toml says: run cargo xtask gen", file.display()));
        assert!(!file.exists());
        fs::write(&file, "a").unwrap();
        put(&file, "a", "table.toml", true).unwrap();
        assert!(put(&file, "b", "table.toml", true).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "a");
    }
}
