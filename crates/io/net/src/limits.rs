//! What one session may use.

use std::time::Duration;

/// What one session may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Octets that may wait in user space for a peer that reads slowly; beyond it the connection closes. Holds what
    /// one write left over: nothing more is asked of the machine until it is gone.
    pub unsent_octets_max: usize,
    /// How long a peer may take no octet at all while output waits.
    pub stall: Duration,
}

impl Default for Limits {
    /// 256 KiB and 30 s.
    fn default() -> Self {
        Self { unsent_octets_max: 256 * 1024, stall: Duration::from_secs(30) }
    }
}
