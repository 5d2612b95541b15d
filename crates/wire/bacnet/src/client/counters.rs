//! What a client has counted.

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that came in.
    pub received: u64,
    /// Datagrams that were given out to be sent.
    pub sent: u64,
    /// Datagrams that broke a rule.
    pub malformed: u64,
    /// Messages that nobody waited for: late, repeated, for others.
    pub unexpected: u64,
    /// Requests that were sent for the first time.
    pub requests: u64,
    /// Requests and windows of segments that were sent again.
    pub retries: u64,
    /// Requests that got no answer.
    pub timeouts: u64,
    /// Events that nobody took in time.
    pub events_dropped: u64,
    /// Datagrams that nobody sent in time.
    pub transmits_dropped: u64,
    /// Who-Is that were sent.
    pub who_is: u64,
}
