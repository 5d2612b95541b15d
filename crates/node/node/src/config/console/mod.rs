//! `[console]`: the folders of single-line diagrams and of boards.

mod bays;
mod boards;
mod diagrams;

pub use bays::load_drawing;
pub use boards::{Board, BoardFile};
pub use diagrams::{DiagramFile, load_svg};

use super::parse;
use super::reader::{Document, Finding, Findings, Section};
use aws_lc_rs::digest::{SHA256, digest};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `[console]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsoleConfig {
    /// Diagrams, by their names.
    pub diagrams: Arc<[DiagramFile]>,
    /// Boards, by their names.
    pub boards: Arc<[BoardFile]>,
}

impl ConsoleConfig {
    /// With the files of another configuration besides: of each kind its own hold, where it has any.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        // A demonstration without files of one's own, or the other way round: nearly always one of the two is empty.
        Self {
            diagrams: if self.diagrams.is_empty() { other.diagrams } else { self.diagrams },
            boards: if self.boards.is_empty() { other.boards } else { self.boards },
        }
    }
}

/// Reads `[console]` and the files of its folders, which are found beside `folder`.
pub fn read_console(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> ConsoleConfig {
    let diagrams = diagrams::FOLDER.read(&mut s, doc, folder, diagrams::read_diagram).into();
    let boards = boards::FOLDER.read(&mut s, doc, folder, boards::read_board).into();
    s.finish(doc);
    ConsoleConfig { diagrams, boards }
}

/// A folder of files of one kind.
struct Folder {
    /// The key that names it; the folder where it is missing, which may not be there then.
    key: &'static str,
    /// How names of its files end.
    end: &'static str,
    /// What is expected of it.
    readable: &'static str,
    /// Files of one node.
    count_max: usize,
    /// Bytes of all of them: they are kept in memory.
    bytes_max: usize,
}

impl Folder {
    /// All of its files, by their names; `read` gives what one has, and its bytes, or reports what is wrong with it.
    fn read<T>(
        &self,
        s: &mut Section<'_>,
        doc: &mut Document<'_>,
        beside: &Path,
        read: impl Fn(&Path, &mut Findings) -> Option<(T, usize)>,
    ) -> Vec<T> {
        let named = s.optional(doc, self.key, parse::text);
        let path = beside.join(named.as_deref().unwrap_or(self.key));
        // In a folder that cannot be read to its end, what is missing is not known.
        let files: std::io::Result<Vec<PathBuf>> =
            std::fs::read_dir(&path).and_then(|all| all.map(|entry| entry.map(|entry| entry.path())).collect());
        match files {
            Ok(files) => self.read_all(files, doc, read),
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                let found = format!("{:?} ({error})", path.display().to_string());
                doc.report(s.value_at(self.key), &s.key(self.key), found, self.readable.to_owned());
                Vec::new()
            }
        }
    }

    fn read_all<T>(
        &self,
        mut files: Vec<PathBuf>,
        doc: &mut Document<'_>,
        read: impl Fn(&Path, &mut Findings) -> Option<(T, usize)>,
    ) -> Vec<T> {
        files.retain(|file| file.extension().is_some_and(|end| end == self.end));
        files.sort();
        let Self { key, end, count_max, bytes_max, .. } = self;
        let mut bytes = 0;
        let mut all = Vec::new();
        for file in files {
            if all.len() == *count_max || bytes > *bytes_max {
                let found = format!("more than {count_max} {key} or {bytes_max} bytes");
                doc.findings().push(whole(&file, end, found, &format!("fewer {key}")));
                break;
            }
            if let Some((one, length)) = read(&file, doc.findings()) {
                bytes += length;
                all.push(one);
            }
        }
        all
    }
}

/// The beginning of the SHA-256 of a text.
fn version_of(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    hash.as_ref().iter().take(8).fold(String::new(), |mut version, byte| {
        let _ = write!(version, "{byte:02x}");
        version
    })
}

/// What is wrong with a file as a whole.
fn whole(file: &Path, key: &str, found: String, expected: &str) -> Finding {
    let (file, expected) = (file.display().to_string(), expected.to_owned());
    Finding { file, line: 1, column: 1, key: key.to_owned(), found, expected }
}
