//! All that was sent in a run, in its order: two runs of a seed are compared by it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// All that was sent in a run.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Vec<Sent>>>);

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
    /// Adds bytes that were sent.
    pub fn add(&self, after: Duration, (connection, by_client): (u64, bool), bytes: &[u8]) {
        let mut hash = DefaultHasher::new();
        bytes.hash(&mut hash);
        let sent = Sent { after, connection, by_client, bytes: (bytes.len(), hash.finish()) };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sent);
    }

    /// What was sent.
    #[must_use]
    pub fn sent(&self) -> Vec<Sent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
