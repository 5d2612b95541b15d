//! What a sender is given and what it says.

use crate::Stream;
use crate::answer::Outcome;
use crate::pace::PaceLimits;
use alloc::vec::Vec;
use core::time::Duration;

/// Limits of a sender.
#[derive(Clone, Copy, Debug)]
pub struct UpwardLimits {
    /// Batches of a stream on their way, at most.
    pub in_flight_max: usize,
    /// Records of a batch, at most.
    pub records_max: usize,
    /// The shortest time that an answer is waited for; twice the round trip where that is longer.
    pub answer_timeout: Duration,
    /// The longest, after several attempts without an answer.
    pub answer_timeout_max: Duration,
    /// The pause after the centre was away or busy; it doubles each time.
    pub rest: Duration,
    /// Up to this.
    pub rest_max: Duration,
    /// The pause after a refusal, which a person must look at.
    pub refused_rest: Duration,
    /// Bytes on their way.
    pub pace: PaceLimits,
}

impl Default for UpwardLimits {
    fn default() -> Self {
        Self {
            in_flight_max: 64,
            records_max: 4096,
            answer_timeout: Duration::from_secs(2),
            answer_timeout_max: Duration::from_secs(8),
            rest: Duration::from_millis(250),
            rest_max: Duration::from_secs(8),
            refused_rest: Duration::from_secs(30),
            pace: PaceLimits::default(),
        }
    }
}

/// Records that the owner reads from its journal: [`Upward::handle_records`] takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Of which stream.
    pub stream: Stream,
    /// From this number on.
    pub from: u64,
    /// Records together, give or take the last one.
    pub bytes_max: usize,
    /// How many at most.
    pub records_max: usize,
}

/// A request for the centre: its answer goes to [`Upward::handle_answer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Which request.
    pub id: u64,
    /// Of which stream: the class of the connection.
    pub stream: Stream,
    /// The batch.
    pub body: Vec<u8>,
}

/// What the owner of a sender learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpwardEvent {
    /// All up to this number are on the centre's disk.
    Acknowledged {
        /// Of which stream.
        stream: Stream,
        /// The number.
        upto: u64,
    },
    /// Records that the journal no longer had, or that are too long for a batch.
    Lost {
        /// Of which stream.
        stream: Stream,
        /// The first of them.
        first: u64,
        /// And the last.
        last: u64,
    },
    /// The centre has less than it had: it was restored from a backup.
    WentBack {
        /// Of which stream.
        stream: Stream,
        /// What it acknowledged before.
        from: u64,
        /// Its mark.
        to: u64,
    },
    /// The centre knows numbers of this site that the site does not know: the site was restored from a backup, or its journal was
    /// lost. Nothing is sent until [`Upward::begin_epoch`] with a number above this one.
    EpochNeeded {
        /// The epoch that the centre knows.
        above: u64,
    },
    /// The centre refuses; it is asked again later.
    Refused {
        /// Of which stream.
        stream: Stream,
        /// Why.
        outcome: Outcome,
    },
}

/// How much happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpwardStats {
    /// Batches and questions that were sent.
    pub sent: u64,
    /// Bytes of them.
    pub sent_bytes: u64,
    /// Bytes of their records, before they were compressed.
    pub records_bytes: u64,
    /// Times that nothing was heard in time.
    pub silences: u64,
    /// Times that a stream went back to an earlier number.
    pub rewinds: u64,
    /// Answers that were none, or of a request that is not waited for any more.
    pub ignored: u64,
    /// Records that could not be sent.
    pub lost: u64,
}
