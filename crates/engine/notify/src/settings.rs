//! How long, how many, and what was counted.

use core::time::Duration;

/// Limits and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The pause after the first failure; it doubles with each.
    pub retry_min: Duration,
    /// The longest pause.
    pub retry_max: Duration,
    /// How long after the first failure a message is given up.
    pub retry_for: Duration,
    /// The pause between two summaries of one flood for one receiver.
    pub summary_every: Duration,
    /// How long a summary waits for more.
    pub summary_wait: Duration,
    /// Alarms that are followed; one more is counted, and nobody is told of it.
    pub alarms_max: usize,
    /// Messages that wait for their receivers; one more is counted and dropped.
    pub messages_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            retry_min: Duration::from_secs(1),
            retry_max: Duration::from_mins(10),
            retry_for: Duration::from_hours(4),
            summary_every: Duration::from_mins(10),
            summary_wait: Duration::from_secs(5),
            alarms_max: 100_000,
            messages_max: 10_000,
        }
    }
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages made.
    pub made: u64,
    /// Messages that arrived.
    pub delivered: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Messages given up after [`Settings::retry_for`].
    pub given_up: u64,
    /// Messages that their receiver will never take.
    pub refused: u64,
    /// Messages for which nobody was on call.
    pub nobody: u64,
    /// Messages dropped, because the outbox was full or their receiver is configured no longer.
    pub dropped: u64,
    /// Alarms that were not followed, because there were too many.
    pub not_followed: u64,
}
