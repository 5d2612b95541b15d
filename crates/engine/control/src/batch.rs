//! Many points in one call: what is asked, and what became of each.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{CommandMode, Point, Refusal, Topic, Value};

/// A wish to command points, of one device or of thousands. Points of one device are commanded in their order, one at a
/// time; devices at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The caller's number of it, which the audit log has as the group of its records.
    pub id: u64,
    /// Who asks, as in the schedule: the holder.
    pub requester: Arc<str>,
    /// Who asks, for the audit log.
    pub who: Arc<str>,
    /// The points.
    pub entries: Vec<BatchEntry>,
    /// The time of each until the device has answered; none: [`crate::Limits::timeout`].
    pub timeout: Option<Duration>,
    /// Whether a point is answered only once a reading shows that it was carried out, or none did in time.
    pub confirm: bool,
    /// Whether it is refused where a command of the same point is under way (`busy`), or [`crate::Limits::device_queue_max`]
    /// wait for the device (`queue_full`), as a single command of a person is. Otherwise it waits for its turn.
    pub is_single: bool,
}

/// One point.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchEntry {
    /// Which.
    pub topic: Topic,
    /// Whether the topic is in the tree, so that a wrong name is told from a point that is only read.
    pub topic_exists: bool,
    /// What to do.
    pub action: Action,
}

/// What to do with a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Sets a value.
    Set {
        /// In engineering units.
        value: Value,
        /// How to ask the device; none: as its point prefers.
        mode: Option<CommandMode>,
    },
    /// Reverts it, as [`crate::RevertTo`] of its rules says.
    Revert,
}

/// What comes back of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchEvent {
    /// What became of one point.
    Answer(Answer),
    /// All points have been answered.
    Done(BatchDone),
}

/// What became of one point. Each has one answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The caller's number of the batch.
    pub batch: u64,
    /// Its place in [`Batch::entries`].
    pub index: usize,
    /// What became of it.
    pub outcome: PointOutcome,
    /// From the call to this answer.
    pub elapsed: Duration,
}

/// What became of one point.
#[derive(Clone, Debug, PartialEq)]
pub enum PointOutcome {
    /// The device has accepted it; no confirmation was asked for, or none is possible.
    Accepted {
        /// What a reading shows then; none where it is relinquished.
        expected: Option<Value>,
    },
    /// A reading shows it.
    Confirmed {
        /// The reading.
        reading: Point,
    },
    /// The device has accepted it, and no reading showed it.
    Unconfirmed {
        /// What a reading would show.
        expected: Option<Value>,
        /// `unconfirmed` or `superseded`, and what the last reading was.
        refusal: Refusal,
    },
    /// Nothing was done.
    Refused(Refusal),
    /// It was sent, and may have been carried out.
    Unknown(Refusal),
}

/// The end of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchDone {
    /// The caller's number of the batch.
    pub batch: u64,
    /// Points accepted without a confirmation.
    pub accepted: usize,
    /// Points confirmed.
    pub confirmed: usize,
    /// Points accepted and not confirmed.
    pub unconfirmed: usize,
    /// Points refused.
    pub refused: usize,
    /// Points of which nothing is known.
    pub unknown: usize,
    /// From the call to the last answer.
    pub elapsed: Duration,
}

/// What a dry run finds for a point: what would be sent, or why nothing.
pub type DryRun = Result<WouldSend, Refusal>;

/// A command that would be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct WouldSend {
    /// The raw value.
    pub raw: Value,
    /// The mode.
    pub mode: CommandMode,
    /// What a reading would show; none where it would be relinquished.
    pub expected: Option<Value>,
    /// Whether the point would be reverted when the reservation ends.
    pub reverts: bool,
}

impl BatchDone {
    pub(crate) const fn count(&mut self, outcome: &PointOutcome) {
        match outcome {
            PointOutcome::Accepted { .. } => self.accepted += 1,
            PointOutcome::Confirmed { .. } => self.confirmed += 1,
            PointOutcome::Unconfirmed { .. } => self.unconfirmed += 1,
            PointOutcome::Refused(_) => self.refused += 1,
            PointOutcome::Unknown(_) => self.unknown += 1,
        }
    }
}
