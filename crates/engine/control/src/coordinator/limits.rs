//! Bounds of a coordinator, and what it counts.

use crate::schedule::ScheduleLimits;
use crate::{Limits, Stats};
use core::time::Duration;

/// Bounds of one coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorLimits {
    /// Those of the commands that are under way.
    pub control: Limits,
    /// Those of reservations.
    pub schedule: ScheduleLimits,
    /// Whether a device that nobody has reserved may not be commanded.
    pub is_reservation_required: bool,
    /// Points of one batch.
    pub batch_points_max: usize,
    /// Points of all batches that are under way or whose answers wait to be taken.
    pub jobs_max: usize,
    /// Points that wait for one device.
    pub device_jobs_max: usize,
    /// Points that are held.
    pub holds_max: usize,
    /// Overrides.
    pub overrides_max: usize,
    /// Tags.
    pub tags_max: usize,
    /// Entries that wait to be written down; a batch is refused while there are more.
    pub entries_max: usize,
    /// How long a reading may take to confirm a command of a point whose rules do not say.
    pub confirm_within: Duration,
    /// The time before the second attempt to revert; it doubles with each.
    pub retry_first: Duration,
    /// The longest time between two attempts.
    pub retry_max: Duration,
    /// How long a holder may take to come back after a restart before it is taken for gone.
    pub return_within: Duration,
}

impl Default for CoordinatorLimits {
    fn default() -> Self {
        Self {
            control: Limits::default(),
            schedule: ScheduleLimits::default(),
            is_reservation_required: false,
            batch_points_max: 65_536,
            jobs_max: 131_072,
            device_jobs_max: 16_384,
            holds_max: 262_144,
            overrides_max: 256,
            tags_max: 4_096,
            entries_max: 524_288,
            confirm_within: Duration::from_secs(5),
            retry_first: Duration::from_secs(1),
            retry_max: Duration::from_secs(60),
            return_within: Duration::from_secs(30),
        }
    }
}

/// Sizes at the moment, and counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoordinatorStats {
    /// Of the commands.
    pub control: Stats,
    /// Tasks.
    pub tasks: usize,
    /// Overrides.
    pub overrides: usize,
    /// Tags.
    pub tags: usize,
    /// Points of batches that are not answered, and reverts under way.
    pub jobs: usize,
    /// Points that are held or to be reverted.
    pub holds: usize,
    /// How often a command was taken from a lane to be sent.
    pub fed: u64,
    /// Points confirmed by a reading.
    pub confirmed: u64,
    /// Points that no reading confirmed.
    pub unconfirmed: u64,
    /// Points reverted because a holder's time was over, or by an override.
    pub reverted: u64,
    /// Attempts to revert that failed.
    pub revert_failures: u64,
    /// Reverts that a new holder's command made needless.
    pub superseded: u64,
    /// Holders that ended while they held something or not.
    pub holders_gone: u64,
    /// Tasks whose lease ran out.
    pub leases_expired: u64,
    /// Events of the schedule that nobody took in time.
    pub events_lost: u64,
    /// Holds given up because their point, or its device, is no more.
    pub holds_lost: u64,
}
