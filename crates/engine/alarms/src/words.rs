//! What kinds of alarms there are, how urgent they are, and what may happen to one.

use tieline_core::Words;

/// What an alarm watches. In this order the alarms of one topic are evaluated: the higher limit before the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The device, or what is above it, is not reached; of a point: its quality says so.
    Away,
    /// The value is above the limit, and `high` of the same topic is its consequence.
    HighHigh,
    /// The value is above the limit.
    High,
    /// The value is below the limit, and `low` of the same topic is its consequence.
    LowLow,
    /// The value is below the limit.
    Low,
    /// The value is further from that of another topic than the limit.
    Deviation,
    /// The value changes by more than the limit in a second.
    Rate,
    /// The value is the limit.
    State,
    /// The value has changed.
    Change,
    /// The quality is bad.
    Bad,
    /// The quality says that the value is old, or none came for as long as the limit.
    Stale,
    /// A command was refused or has failed.
    CommandFailed,
}

impl Words for Kind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("away", Self::Away),
        ("high_high", Self::HighHigh),
        ("high", Self::High),
        ("low_low", Self::LowLow),
        ("low", Self::Low),
        ("deviation", Self::Deviation),
        ("rate", Self::Rate),
        ("state", Self::State),
        ("change", Self::Change),
        ("bad", Self::Bad),
        ("stale", Self::Stale),
        ("command_failed", Self::CommandFailed),
    ];
}

impl Kind {
    /// Whether it lasts for a moment: it returns by itself, after `off_delay`.
    #[must_use]
    pub const fn is_momentary(self) -> bool {
        matches!(self, Self::Change | Self::CommandFailed)
    }

    /// The kind of the same topic whose consequence this one is.
    pub(crate) const fn outer(self) -> Option<Self> {
        match self {
            Self::High => Some(Self::HighHigh),
            Self::Low => Some(Self::LowLow),
            Self::Away
            | Self::HighHigh
            | Self::LowLow
            | Self::Deviation
            | Self::Rate
            | Self::State
            | Self::Change
            | Self::Bad
            | Self::Stale
            | Self::CommandFailed => None,
        }
    }

    /// The kind of the same topic that is a consequence of this one.
    pub(crate) const fn inner(self) -> Option<Self> {
        match self {
            Self::HighHigh => Some(Self::High),
            Self::LowLow => Some(Self::Low),
            Self::Away
            | Self::High
            | Self::Low
            | Self::Deviation
            | Self::Rate
            | Self::State
            | Self::Change
            | Self::Bad
            | Self::Stale
            | Self::CommandFailed => None,
        }
    }
}

/// How urgent an alarm is, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Severity 900 of OPC UA.
    Critical,
    /// Severity 700.
    High,
    /// Severity 500.
    Medium,
    /// Severity 300.
    Low,
    /// Severity 100: goes to the journal, is never annunciated, and needs no acknowledgement.
    Event,
    /// No alarm: the row takes the alarm of a template away.
    Off,
}

impl Words for Priority {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("critical", Self::Critical),
        ("high", Self::High),
        ("medium", Self::Medium),
        ("low", Self::Low),
        ("event", Self::Event),
        ("off", Self::Off),
    ];
}

impl Priority {
    /// The severity of OPC UA Part 9, 1 to 1000; 0 of [`Priority::Off`].
    #[must_use]
    pub const fn severity(self) -> u16 {
        match self {
            Self::Critical => 900,
            Self::High => 700,
            Self::Medium => 500,
            Self::Low => 300,
            Self::Event => 100,
            Self::Off => 0,
        }
    }
}

/// The one word for the flags of an alarm: the first that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Taken out of service by a person.
    OutOfService,
    /// Shelved by a person.
    Shelved,
    /// Suppressed by its rule.
    Suppressed,
    /// Active, and not acknowledged.
    Unacknowledged,
    /// Active and acknowledged.
    Acknowledged,
    /// Not active, and not acknowledged.
    ReturnedUnacknowledged,
    /// Not active, and acknowledged, but latched until it is reset.
    Latched,
    /// Nothing to say.
    Normal,
}

impl Words for State {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("out_of_service", Self::OutOfService),
        ("shelved", Self::Shelved),
        ("suppressed", Self::Suppressed),
        ("unacknowledged", Self::Unacknowledged),
        ("acknowledged", Self::Acknowledged),
        ("returned", Self::ReturnedUnacknowledged),
        ("latched", Self::Latched),
        ("normal", Self::Normal),
    ];
}

/// What happened to an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transition {
    /// It became active.
    Raised,
    /// It is active no longer.
    Returned,
    /// A person acknowledged it, or its cause.
    Acknowledged,
    /// A person shelved it.
    Shelved,
    /// The shelving ended: a person ended it, its time was over, or the alarm returned.
    Unshelved,
    /// Its rule suppresses it.
    Suppressed,
    /// Its rule suppresses it no longer.
    Unsuppressed,
    /// A person took it out of service.
    OutOfService,
    /// It is in service again.
    InService,
    /// A person reset its latch.
    Reset,
    /// It became the consequence of another alarm.
    Folded,
    /// It is no longer the consequence of another alarm.
    Unfolded,
    /// It comes and goes too often, and is not annunciated again until that ends.
    Chattering,
    /// It no longer comes and goes too often.
    Steady,
    /// Its input is bad: what it says may not be so.
    Uncertain,
    /// Its input is good again.
    Certain,
    /// The number of its consequences has changed. Not for the journal.
    Counted,
    /// A person wrote a note.
    Noted,
}

impl Words for Transition {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("raised", Self::Raised),
        ("returned", Self::Returned),
        ("acknowledged", Self::Acknowledged),
        ("shelved", Self::Shelved),
        ("unshelved", Self::Unshelved),
        ("suppressed", Self::Suppressed),
        ("unsuppressed", Self::Unsuppressed),
        ("out_of_service", Self::OutOfService),
        ("in_service", Self::InService),
        ("reset", Self::Reset),
        ("folded", Self::Folded),
        ("unfolded", Self::Unfolded),
        ("chattering", Self::Chattering),
        ("steady", Self::Steady),
        ("uncertain", Self::Uncertain),
        ("certain", Self::Certain),
        ("counted", Self::Counted),
        ("noted", Self::Noted),
    ];
}
