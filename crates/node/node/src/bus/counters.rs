//! Counters of the bus.

use std::time::Duration;
use tieline_core::Instant;

/// What the bus has done since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusCounters {
    /// Updates applied.
    pub updates: u64,
    /// Updates that the tree refused because a limit was reached.
    pub refused: u64,
    /// Messages that clients published.
    pub published: u64,
    /// Bytes of their payloads.
    pub published_bytes: u64,
    /// Of these, messages that said what changed, and were taken for the value that came of it.
    pub published_deltas: u64,
    /// Messages that said what changed of something else than was held of their publisher.
    pub deltas_refused: u64,
    /// MQTT packets that clients sent; of clients that have gone, and in `Bus::counters` of those that are here too.
    pub packets_in: u64,
    /// Messages of clients that were not taken.
    pub publish_refused: u64,
    /// Updates that were not taken because a condition was not met.
    pub unmet: u64,
    /// Times that a client that watches topics was told everything again because too much waited; in `Bus::counters`.
    pub resynchronized: u64,
    /// Missing topics that clients that watch for them were not told because too many waited; in `Bus::counters`.
    pub missing_untold: u64,
    /// Messages of clients that were not taken because their payload was not what it had to be.
    pub type_mismatches: u64,
    /// Values removed because their time was over.
    pub removed: u64,
    /// Clients let in.
    pub connected: u64,
    /// Clients turned away.
    pub unauthenticated_refused: u64,
    /// Clients ended because their queue was full of messages that may not be dropped.
    pub ended_full: u64,
    /// Messages queued for subscribers, and values pending for them.
    pub deliveries: u64,
    /// Values that were never sent to a client because a newer one of the topic came first.
    pub conflated: u64,
    /// Sessions that went on over another connection.
    pub resumed: u64,
    /// Sessions that ended because their client stayed away too long, or because there were too many.
    pub sessions_expired: u64,
    /// Messages dropped before they were sent because their client may not read the topic any longer.
    pub withheld: u64,
    /// Messages of shared subscriptions that went to another session, because theirs had ended.
    pub redelivered: u64,
    /// Messages of shared subscriptions that no session could take.
    pub unshared: u64,
    /// Wills published.
    pub wills: u64,
    /// Messages that clients did not get and never will; of connections that are over, and in `Bus::counters` of those that
    /// are not too.
    pub dropped: Drops,
}

/// Why a client never gets a message that it was to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// It is of QoS 0, and too many waited for the client.
    QueueFull,
    /// Too many waited for the client, which was away.
    AwayQueueFull,
    /// Too much waited for all clients that are away.
    AwayFull,
    /// It waited for a session that has ended.
    SessionEnded,
    /// Its expiry passed while it waited.
    Expired,
    /// It is longer than the client takes.
    TooLarge,
}

impl DropCause {
    /// All, each with its word in metrics.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::QueueFull, "queue_full"),
        (Self::AwayQueueFull, "away_queue_full"),
        (Self::AwayFull, "away_full"),
        (Self::SessionEnded, "session_ended"),
        (Self::Expired, "expired"),
        (Self::TooLarge, "too_large"),
    ];
}

/// Messages that clients never get, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; DropCause::ALL.len()]);

impl Drops {
    /// Counts some.
    pub fn count(&mut self, cause: DropCause, messages: u64) {
        self.0[cause as usize] += messages;
    }

    /// Counts those that another counted.
    pub fn add(&mut self, others: Self) {
        self.0.iter_mut().zip(others.0).for_each(|(count, more)| *count += more);
    }

    /// How many, with the word of each cause.
    pub fn by_cause(&self) -> [(&'static str, u64); DropCause::ALL.len()] {
        DropCause::ALL.map(|(cause, word)| (word, self.0[cause as usize]))
    }

    /// Those of all causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Updates a second, looked at once a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    since: Instant,
    updates: u64,
    /// Updates a second over the last whole second or longer.
    pub per_s: f64,
}

impl Rate {
    /// Whether a second has passed.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        now.since(self.since) >= Duration::from_secs(1)
    }

    /// Counts again when a second has passed.
    pub fn look(&mut self, now: Instant, updates: u64) {
        if self.is_due(now) {
            let passed = now.since(self.since);
            let made = u32::try_from(updates - self.updates).unwrap_or(u32::MAX);
            *self = Self { since: now, updates, per_s: f64::from(made) / passed.as_secs_f64() };
        }
    }
}
