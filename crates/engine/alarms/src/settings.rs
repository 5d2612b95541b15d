//! What is adjustable, what is refused for want of room, and what is counted.

use core::time::Duration;

/// The settings of one set of alarms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The longest that an alarm may be shelved.
    pub shelve_max: Duration,
    /// An alarm that comes up to this long before its cause becomes its consequence, and one that is still there this long
    /// after its cause has returned stands for itself.
    pub gather: Duration,
    /// So many activations within `chatter_time` are chattering.
    pub chatter_count: u8,
    /// The time of `chatter_count`; chattering ends after as long without an activation.
    pub chatter_time: Duration,
    /// How many people attend to the alarms.
    pub operators: u32,
    /// More annunciations in ten minutes, for each operator, are a flood.
    pub flood_in: u32,
    /// Fewer than this in ten minutes, for each operator, end it.
    pub flood_out: u32,
    /// Alarms at most: one for each topic and kind. Further ones are not made, and counted.
    pub alarms_max: usize,
    /// Bytes of a reason or a note.
    pub why_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            shelve_max: Duration::from_secs(8 * 3600),
            gather: Duration::from_secs(2),
            chatter_count: 3,
            chatter_time: Duration::from_secs(60),
            operators: 1,
            flood_in: 10,
            flood_out: 5,
            alarms_max: 200_000,
            why_bytes_max: 1024,
        }
    }
}

/// Sizes at the moment, and counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Alarms, quiet ones included.
    pub alarms: usize,
    /// Topics that are known.
    pub topics: usize,
    /// Alarms that were not made, because there are as many as there may be.
    pub refused: u64,
    /// Annunciations since the start, and in the last ten minutes.
    pub annunciated: u64,
    /// Annunciations in the last ten minutes, to within ten seconds.
    pub annunciated_10min: u32,
    /// Whether there is a flood.
    pub is_flood: bool,
}

/// How many there are of a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorityCounts {
    /// Active.
    pub active: usize,
    /// Not acknowledged.
    pub unacknowledged: usize,
}

/// How many alarms there are of a kind of state; each alarm that is not normal counts in each that holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Active and unacknowledged, neither hidden nor consequences of others: by priority, from critical to event.
    pub by_priority: [PriorityCounts; 5],
    /// Active, neither hidden nor the consequence of another.
    pub active: usize,
    /// Not acknowledged, neither hidden nor the consequence of another.
    pub unacknowledged: usize,
    /// Consequences of others.
    pub consequences: usize,
    /// Shelved.
    pub shelved: usize,
    /// Out of service.
    pub out_of_service: usize,
    /// Suppressed by their rules.
    pub suppressed: usize,
    /// Chattering.
    pub chattering: usize,
    /// Latched.
    pub latched: usize,
}
