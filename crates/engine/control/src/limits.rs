//! What control refuses for want of room, and what it counts.

use crate::Phase;
use core::time::Duration;

/// Bounds of one control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Points that can be commanded.
    pub points_max: usize,
    /// Requests that are under way or whose end waits to be taken.
    pub requests_max: usize,
    /// Requests that wait for one device.
    pub device_queue_max: usize,
    /// Audit records that wait to be taken, with room kept for those still to come of requests under way.
    pub audit_max: usize,
    /// How long a request may take where it does not say.
    pub timeout: Duration,
    /// The longest that a request may say; more is taken as this.
    pub timeout_max: Duration,
    /// How long a command that timed out occupies its device without an outcome. Longer than any protocol's own
    /// timeout.
    pub unanswered_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            points_max: 1_000_000,
            requests_max: 16_384,
            device_queue_max: 64,
            audit_max: 131_072,
            timeout: Duration::from_secs(10),
            timeout_max: Duration::from_secs(300),
            unanswered_after: Duration::from_secs(60),
        }
    }
}

/// Sizes at the moment, and counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Points that can be commanded.
    pub points: usize,
    /// Commands that wait or are out, those that timed out and still occupy their device included.
    pub under_way: usize,
    /// Requests taken.
    pub requested: u64,
    /// Requests refused before they were taken.
    pub refused: u64,
    /// Commands given to a protocol.
    pub sent: u64,
    /// Requests carried out.
    pub succeeded: u64,
    /// Requests refused by their device.
    pub failed: u64,
    /// Requests given up before anything was sent.
    pub dropped: u64,
    /// Requests that timed out after their command was sent.
    pub timed_out: u64,
    /// Requests whose device was lost after their command was sent.
    pub lost: u64,
    /// Outcomes that came after the time was over.
    pub late: u64,
    /// Commands without any outcome.
    pub unanswered: u64,
    /// Outcomes that fit no command.
    pub stray_outcomes: u64,
    /// Records of refused requests that had no room.
    pub audit_lost: u64,
}

impl Stats {
    /// Counts the end of a request, or of its command.
    pub(crate) const fn count(&mut self, phase: Phase) {
        match phase {
            // Counted where they happen.
            Phase::Requested | Phase::Refused | Phase::Sent => {}
            // Of no request.
            Phase::Confirmed
            | Phase::Unconfirmed
            | Phase::Reserved
            | Phase::Preempted
            | Phase::ReservationEnded
            | Phase::HolderGone
            | Phase::LeaseExpired
            | Phase::OverrideOn
            | Phase::OverrideOff
            | Phase::TagPlaced
            | Phase::TagLifted => {}
            Phase::Succeeded => self.succeeded += 1,
            Phase::Failed => self.failed += 1,
            Phase::Dropped => self.dropped += 1,
            Phase::TimedOut => self.timed_out += 1,
            Phase::Lost => self.lost += 1,
            Phase::Late => self.late += 1,
            Phase::Unanswered => self.unanswered += 1,
        }
    }
}
