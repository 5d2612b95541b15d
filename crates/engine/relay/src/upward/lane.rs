//! One stream of a site, on its way upward.

use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::Instant;

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The mark of the centre is not known: one question is sent, once there is something to send.
    Asking,
    /// Batches are sent one after the other, without waiting for each answer.
    Flowing,
    /// Nothing is sent until then; a question follows.
    Resting(Instant),
}

/// A batch that waits for its turn.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) body: Vec<u8>,
    pub(super) is_question: bool,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) state: State,
    /// All up to here are on the centre's disk.
    pub(super) acknowledged: u64,
    /// What the owner knows of it.
    pub(super) told: u64,
    /// All numbers that are lost, and were told, are up to here.
    pub(super) lost_upto: u64,
    /// The last that is on our disk.
    pub(super) offered: u64,
    /// The number that is sent next.
    pub(super) next: u64,
    /// The number after which the next batch continues: below `next` - 1 where numbers are lost.
    pub(super) after: u64,
    /// The number from which records were asked for.
    pub(super) reading: Option<u64>,
    pub(super) ready: Option<Ready>,
    pub(super) in_flight: usize,
    /// Attempts without an answer, one after the other.
    pub(super) failures: u32,
    /// Bytes so far, by weight: the stream with the fewest is next.
    pub(super) spent: u64,
}

impl Lane {
    pub(super) const fn new() -> Self {
        Self {
            state: State::Asking,
            acknowledged: 0,
            told: 0,
            lost_upto: 0,
            offered: 0,
            next: 1,
            after: 0,
            reading: None,
            ready: None,
            in_flight: 0,
            failures: 0,
            spent: 0,
        }
    }

    /// Sends nothing before the centre has told its mark.
    pub(super) fn rewind(&mut self, state: State) {
        self.state = state;
        self.go_on_after(self.acknowledged);
    }

    /// The next record sent is the one after `mark`.
    pub(super) fn go_on_after(&mut self, mark: u64) {
        self.next = mark + 1;
        self.after = mark;
        self.reading = None;
        self.ready = None;
    }

    pub(super) const fn owes(&self) -> bool {
        self.acknowledged < self.offered
    }

    /// Whether records may be read for a further batch.
    pub(super) fn wants_records(&self, in_flight_max: usize) -> bool {
        self.state == State::Flowing
            && self.next <= self.offered
            && self.reading.is_none()
            && self.ready.is_none()
            && self.in_flight < in_flight_max
    }

    pub(super) fn wants_question(&self) -> bool {
        self.state == State::Asking && self.owes() && self.ready.is_none() && self.in_flight == 0
    }

    /// How long an answer is waited for.
    pub(super) fn patience(&self, base: Duration, most: Duration) -> Duration {
        (base * 2_u32.saturating_pow(self.failures.min(8))).min(most.max(base))
    }
}
