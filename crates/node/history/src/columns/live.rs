//! The heads, shared by the thread that fills them and those that read.

use crate::queue::lock;
use std::fmt;
use std::sync::{Arc, Mutex};
use tieline_series::{Column, Heads};

/// The heads of a store, while a thread of this process writes it. It is held for no longer than it takes to add a batch of samples
/// or to copy a head: never while something is written to the disk.
#[derive(Clone, Default)]
pub(crate) struct Live(Arc<Mutex<Option<Heads>>>);

impl Live {
    pub(super) fn set(&self, heads: Option<Heads>) {
        *lock(&self.0) = heads;
    }

    /// Does something with the heads of an open store.
    pub(crate) fn with<T: Default>(&self, act: impl FnOnce(&mut Heads) -> T) -> T {
        lock(&self.0).as_mut().map(act).unwrap_or_default()
    }

    /// The samples of a topic that may be in no chunk; none where no store is open.
    pub(super) fn columns(&self, topic: u32) -> Option<Vec<Arc<Column>>> {
        lock(&self.0).as_ref().map(|heads| heads.columns(topic))
    }

    pub(super) fn is_open(&self) -> bool {
        lock(&self.0).is_some()
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_open() { "Live(open)" } else { "Live(closed)" })
    }
}
