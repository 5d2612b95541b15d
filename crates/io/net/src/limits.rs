//! What one session may use.

use std::time::Duration;

/// What one session may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that may wait in user space for a peer that reads slowly; beyond it the connection closes. Holds what
    /// one write left over: nothing more is asked of the machine until it is gone.
    pub unsent_bytes_max: usize,
    /// How long a peer may take no byte at all while output waits.
    pub stall: Duration,
    /// How long a connection that the machine has ended waits for its peer to read that and to end its side; what comes
    /// meanwhile is thrown away. Zero closes at once.
    pub linger: Duration,
}

impl Default for Limits {
    /// 256 KiB, 30 s, and no farewell.
    fn default() -> Self {
        Self { unsent_bytes_max: 256 * 1024, stall: Duration::from_secs(30), linger: Duration::ZERO }
    }
}
