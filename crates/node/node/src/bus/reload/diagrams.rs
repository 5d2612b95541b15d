//! The diagrams that there are, for who shows them on other threads than the bus.

use crate::config::DiagramFile;
use std::sync::{Arc, PoisonError, RwLock};

/// The diagrams that there are. Changed by a reload alone; nothing on a data path looks.
#[derive(Debug)]
pub struct KnownDiagrams(RwLock<Arc<[DiagramFile]>>);

impl KnownDiagrams {
    /// Of a node that starts.
    #[must_use]
    pub const fn of(diagrams: Arc<[DiagramFile]>) -> Self {
        Self(RwLock::new(diagrams))
    }

    /// All, by their names.
    #[must_use]
    pub fn all(&self) -> Arc<[DiagramFile]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// There are others.
    pub fn set(&self, diagrams: Arc<[DiagramFile]>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = diagrams;
    }
}
