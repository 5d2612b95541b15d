//! A folder of files of one kind: their names, their number, their bytes.

use aws_lc_rs::digest::{SHA256, digest};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use tieline_diagram::{NAME_BYTES_MAX, is_diagram_name};
use tieline_service::parse;
use tieline_service::reader::{Document, Finding, Findings, Section};

/// A folder of files of one kind.
pub struct Folder {
    /// The key that names it; the folder where it is missing, which may not be there then.
    pub key: &'static str,
    /// What one file is.
    pub noun: &'static str,
    /// How names of its files end.
    pub end: &'static str,
    /// What is expected of it.
    pub readable: &'static str,
    /// Files of one node.
    pub count_max: usize,
    /// Bytes of all of them: they are kept in memory.
    pub bytes_max: usize,
}

impl Folder {
    /// All files of the folder that a table names, by their names; `read` gives what the file of a name has, and its bytes, or reports what
    /// is wrong with it.
    pub fn read<T>(
        &self,
        s: &mut Section<'_>,
        doc: &mut Document<'_>,
        beside: &Path,
        read: impl Fn(&Path, &str, &mut Findings) -> Option<(T, usize)>,
    ) -> Vec<T> {
        let named = s.optional(doc, self.key, parse::text);
        let path = beside.join(named.as_deref().unwrap_or(self.key));
        match self.files(&path) {
            Ok(files) => self.read_all(files, doc.findings(), read),
            Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                let found = format!("{:?} ({error})", path.display().to_string());
                doc.report(s.value_at(self.key), &s.key(self.key), found, self.readable.to_owned());
                Vec::new()
            }
        }
    }

    /// Its files. In a folder that cannot be read to its end, what is missing is not known.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn files(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path)? {
            files.push(entry?.path());
        }
        files.retain(|file| file.extension().is_some_and(|end| end == self.end));
        files.sort();
        Ok(files)
    }

    /// What files have, as far as nothing is wrong with them.
    pub fn read_all<T>(
        &self,
        files: Vec<PathBuf>,
        findings: &mut Findings,
        read: impl Fn(&Path, &str, &mut Findings) -> Option<(T, usize)>,
    ) -> Vec<T> {
        let Self { key, noun, end, count_max, bytes_max, .. } = self;
        let (mut bytes, mut all) = (0, Vec::new());
        for file in files {
            if all.len() == *count_max || bytes > *bytes_max {
                let found = format!("more than {count_max} {key} or {bytes_max} bytes");
                findings.push(whole(&file, end, found, &format!("fewer {key}")));
                break;
            }
            let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if !is_diagram_name(name) {
                let expected = format!("a name of a-z, 0-9, - and _, at most {NAME_BYTES_MAX} of them");
                findings.push(whole(&file, end, format!("a {noun} with the name {name:?}"), &expected));
            } else if let Some((one, length)) = read(&file, name, findings) {
                bytes += length;
                all.push(one);
            }
        }
        all
    }
}

/// The beginning of the SHA-256 of a text.
pub fn version_of(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    hash.as_ref().iter().take(8).fold(String::new(), |mut version, byte| {
        let _ = write!(version, "{byte:02x}");
        version
    })
}

/// What is wrong with a file as a whole.
pub fn whole(file: &Path, key: &str, found: String, expected: &str) -> Finding {
    let (file, expected) = (file.display().to_string(), expected.to_owned());
    Finding { file, line: 1, column: 1, key: key.to_owned(), found, expected }
}
