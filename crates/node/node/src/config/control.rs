//! `[control]`: reservations, overrides, tags, and calls for many points.

use super::reader::{Document, Section};
use super::settings::{
    CONTROL_ANNOUNCE_INTERVAL, CONTROL_CONFIRM_WITHIN, CONTROL_LEASE, CONTROL_OVERRIDES_MAX, CONTROL_POINTS_MAX,
    CONTROL_PREEMPT_GRACE, CONTROL_RESERVATION_REQUIRED, CONTROL_RESERVATIONS_MAX, CONTROL_RETURN_WITHIN,
    CONTROL_SLOTS_MAX, CONTROL_TAGS_MAX,
};
use std::time::Duration;

/// `[control]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinationConfig {
    /// Whether a device that nobody has reserved may not be commanded.
    pub reservation_required: bool,
    /// How long a pre-empted reservation keeps what it has.
    pub preempt_grace: Duration,
    /// How often the holder of each reserved device is published.
    pub announce_interval: Duration,
    /// How long a holder may take to come back after a restart.
    pub return_within: Duration,
    /// The lease of reservations over HTTP that do not say their own; zero: none.
    pub lease: Duration,
    /// How long a reading may take to confirm a command.
    pub confirm_within: Duration,
    /// Reservations.
    pub reservations_max: usize,
    /// Time slots of all of them.
    pub slots_max: usize,
    /// Points of one call.
    pub points_max: usize,
    /// Overrides.
    pub overrides_max: usize,
    /// Tags.
    pub tags_max: usize,
}

impl Default for CoordinationConfig {
    fn default() -> Self {
        Self {
            reservation_required: CONTROL_RESERVATION_REQUIRED.default,
            preempt_grace: CONTROL_PREEMPT_GRACE.default,
            announce_interval: CONTROL_ANNOUNCE_INTERVAL.default,
            return_within: CONTROL_RETURN_WITHIN.default,
            lease: CONTROL_LEASE.default,
            confirm_within: CONTROL_CONFIRM_WITHIN.default,
            reservations_max: CONTROL_RESERVATIONS_MAX.default_size(),
            slots_max: CONTROL_SLOTS_MAX.default_size(),
            points_max: CONTROL_POINTS_MAX.default_size(),
            overrides_max: CONTROL_OVERRIDES_MAX.default_size(),
            tags_max: CONTROL_TAGS_MAX.default_size(),
        }
    }
}

/// Reads `[control]`.
pub fn read_control(mut s: Section<'_>, doc: &mut Document<'_>) -> CoordinationConfig {
    let config = CoordinationConfig {
        reservation_required: CONTROL_RESERVATION_REQUIRED.read(&mut s, doc),
        preempt_grace: CONTROL_PREEMPT_GRACE.read(&mut s, doc),
        announce_interval: CONTROL_ANNOUNCE_INTERVAL.read(&mut s, doc),
        return_within: CONTROL_RETURN_WITHIN.read(&mut s, doc),
        lease: CONTROL_LEASE.read(&mut s, doc),
        confirm_within: CONTROL_CONFIRM_WITHIN.read(&mut s, doc),
        reservations_max: CONTROL_RESERVATIONS_MAX.read_size(&mut s, doc),
        slots_max: CONTROL_SLOTS_MAX.read_size(&mut s, doc),
        points_max: CONTROL_POINTS_MAX.read_size(&mut s, doc),
        overrides_max: CONTROL_OVERRIDES_MAX.read_size(&mut s, doc),
        tags_max: CONTROL_TAGS_MAX.read_size(&mut s, doc),
    };
    s.finish(doc);
    config
}
