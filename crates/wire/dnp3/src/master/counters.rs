//! What a master has seen.

/// What a master has seen, in events since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MasterCounters {
    /// Requests sent, repetitions included.
    pub requests: u64,
    /// Fragments of responses accepted.
    pub responses: u64,
    /// Unsolicited responses accepted.
    pub unsolicited: u64,
    /// Unsolicited responses that repeat the last one: confirmed, not given again.
    pub duplicates: u64,
    /// Unsolicited responses with data before start-up had disabled them: neither confirmed nor given.
    pub too_early: u64,
    /// Confirms sent.
    pub confirms: u64,
    /// Confirms held for so long that they were given up.
    pub confirms_abandoned: u64,
    /// Values given.
    pub measurements: u64,
    /// Requests that were not answered in time.
    pub timeouts: u64,
    /// Requests that were repeated.
    pub retries: u64,
    /// Fragments that nobody asked for: late, out of sequence, or not a response.
    pub unexpected: u64,
    /// Fragments or objects that could not be read.
    pub malformed: u64,
    /// Object headers that were skipped: whole, but of an unknown kind.
    pub unsupported: u64,
    /// Restarts of the outstation.
    pub restarts: u64,
    /// Overflows of the outstation's event buffers.
    pub overflows: u64,
    /// Tasks refused because too many waited.
    pub tasks_refused: u64,
    /// Connections given up because the link did not answer.
    pub links_lost: u64,
}
