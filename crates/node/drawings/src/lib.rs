//! Boards and single-line diagrams of the console, as files of a node; and boards that are changed while the node runs.
//!
//! ```text
//! [console] ─▶ Folder ─▶ diagrams, boards ─┐
//! data folder, boards/ ─────────▶ boards ──┴─▶ Boards: list, put, remove
//! ```
//!
//! In: the table `[console]` and the files of its folders; TOML of a board with the version that it replaces. Out: what was checked, or
//! all that is wrong with it, each with its place; a file that was replaced as a whole.
//!
//! Never: who may see or change one, a request, a value of a topic.
//!
//! Read first: `folder.rs`, `board.rs`, `boards.rs`.

mod bays;
mod board;
mod boards;
mod diagram;
mod folder;

pub use bays::load_drawing;
pub use board::{BOARD_BYTES_MAX, Board, BoardFile, Origin};
pub use boards::{Boards, Change, ChangeError, Condition};
pub use diagram::{DiagramFile, load_svg};

use std::path::Path;
use std::sync::Arc;
use tieline_service::reader::{Document, Section};

/// `[console]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsoleConfig {
    /// Diagrams, by their names.
    pub diagrams: Arc<[DiagramFile]>,
    /// Boards, by their names.
    pub boards: Arc<[Arc<BoardFile>]>,
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
    let diagrams = diagram::FOLDER.read(&mut s, doc, folder, diagram::read_diagram).into();
    let boards = board::FOLDER.read(&mut s, doc, folder, board::read_configured).into();
    s.finish(doc);
    ConsoleConfig { diagrams, boards }
}

/// The table `[console]`, as a document of its own.
#[cfg(test)]
fn read_in(folder: &Path, text: &str) -> Result<ConsoleConfig, String> {
    let mut findings = tieline_service::reader::Findings::default();
    let read = |doc: &mut Document<'_>, root: Section<'_>| read_console(root, doc, folder);
    let console = Document::read("t.toml", text, &mut findings, read);
    let found = findings.sorted();
    if found.is_empty() {
        return Ok(console);
    }
    Err(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}
