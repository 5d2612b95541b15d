//! All that was sent in a run, in its order: two runs of a seed are compared by it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// All that was sent in a run; none where nobody asks for it.
#[derive(Clone, Debug)]
pub struct Trace(Option<Arc<Mutex<Vec<Sent>>>>);

impl Default for Trace {
    fn default() -> Self {
        Self(Some(Arc::default()))
    }
}

/// Bytes that one end of a connection gave to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Since the connection began.
    pub after: Duration,
    /// The connection's number.
    pub connection: u64,
    /// Whether the client sent it.
    pub by_client: bool,
    /// How many bytes, and what they were, as a hash.
    pub bytes: (usize, u64),
}

impl Trace {
    /// Nothing is kept: for runs whose cost is measured.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Adds bytes that were sent.
    pub fn add(&self, after: Duration, (connection, by_client): (u64, bool), bytes: &[u8]) {
        let Some(kept) = &self.0 else { return };
        let mut hash = DefaultHasher::new();
        bytes.hash(&mut hash);
        let sent = Sent { after, connection, by_client, bytes: (bytes.len(), hash.finish()) };
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(sent);
    }

    /// What was sent.
    #[must_use]
    pub fn sent(&self) -> Vec<Sent> {
        self.0.as_ref().map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }
}
