//! The diagrams and boards that there are, for who shows them on other threads than the bus.

use crate::config::ConsoleConfig;
use std::sync::{PoisonError, RwLock};

/// The diagrams and boards that there are. Changed by a reload alone; nothing on a data path looks.
#[derive(Debug)]
pub struct KnownFiles(RwLock<ConsoleConfig>);

impl KnownFiles {
    /// Of a node that starts.
    #[must_use]
    pub const fn of(files: ConsoleConfig) -> Self {
        Self(RwLock::new(files))
    }

    /// All, by their names.
    #[must_use]
    pub fn all(&self) -> ConsoleConfig {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// There are others.
    pub fn set(&self, files: ConsoleConfig) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = files;
    }
}
