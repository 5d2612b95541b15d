//! The diagrams and boards that there are, for who shows them on other threads than the bus.

use crate::config::ConsoleConfig;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use tieline_drawings::{Boards, DiagramFile};
use tieline_service::reader::Finding;

/// The folder of the data folder with the boards that are changed while the node runs.
const BOARDS_FOLDER: &str = "boards";

/// The diagrams and boards that there are. Changed by a reload, boards also by requests; nothing on a data path looks.
#[derive(Debug)]
pub struct KnownFiles {
    diagrams: RwLock<Arc<[DiagramFile]>>,
    boards: Boards,
}

impl KnownFiles {
    /// Of a node that starts, with what its data folder has.
    #[must_use]
    pub fn open(files: ConsoleConfig, data: &Path) -> Self {
        let (boards, found) = Boards::open(data.join(BOARDS_FOLDER), files.boards);
        log(found);
        Self { diagrams: RwLock::new(files.diagrams), boards }
    }

    /// All diagrams, by their names.
    #[must_use]
    pub fn diagrams(&self) -> Arc<[DiagramFile]> {
        Arc::clone(&self.diagrams.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The boards.
    #[must_use]
    pub const fn boards(&self) -> &Boards {
        &self.boards
    }

    /// The configuration has others; the data folder is read again. It blocks.
    pub fn set(&self, files: ConsoleConfig) {
        *self.diagrams.write().unwrap_or_else(PoisonError::into_inner) = files.diagrams;
        log(self.boards.set(files.boards));
    }
}

fn log(found: Vec<Finding>) {
    for finding in found {
        tracing::warn!(%finding, "a board of the data folder is not shown");
    }
}
