//! An alarm as it is shown, and what happens to it.

use crate::record::Record;
use crate::{Rule, State, Transition};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use tieline_core::{Timestamp, Topic, Words as _};

/// What holds of an alarm. Any may hold together.
///
/// ```text
///  bit 15 … 9    8           7           6           5        4               3        2        1      0
///  +---------+-----------+-----------+-----------+---------+----------------+---------+--------+------+--------+
///  |    0    | condition | uncertain | chattering| shelved | out of service | suppr.  | latched| acked| active |
///  +---------+-----------+-----------+-----------+---------+----------------+---------+--------+------+--------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    /// The alarm is on.
    pub const ACTIVE: Self = Self(1);
    /// A person has seen its last occurrence, or there was none.
    pub const ACKED: Self = Self(1 << 1);
    /// It stays until it is reset.
    pub const LATCHED: Self = Self(1 << 2);
    /// Its rule suppresses it.
    pub const SUPPRESSED: Self = Self(1 << 3);
    /// A person took it out of service.
    pub const OUT_OF_SERVICE: Self = Self(1 << 4);
    /// A person shelved it.
    pub const SHELVED: Self = Self(1 << 5);
    /// It comes and goes too often.
    pub const CHATTERING: Self = Self(1 << 6);
    /// Its input is bad, or there is none.
    pub const UNCERTAIN: Self = Self(1 << 7);
    /// What its rule says holds at the moment; delays make `ACTIVE` of it.
    pub(crate) const CONDITION: Self = Self(1 << 8);
    /// Nothing to say.
    pub(crate) const QUIET: Self = Self::ACKED;
    /// All that is kept over a restart.
    const KEPT: u16 = 0xFF;

    /// Whether all flags of another hold.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn with(self, other: Self, is_set: bool) -> Self {
        if is_set { Self(self.0 | other.0) } else { Self(self.0 & !other.0) }
    }

    /// Whether the alarm is not annunciated for a reason of its own.
    #[must_use]
    pub const fn is_hidden(self) -> bool {
        self.0 & (Self::SHELVED.0 | Self::OUT_OF_SERVICE.0 | Self::SUPPRESSED.0) != 0
    }

    /// Whether there is nothing to say: not active, acknowledged, neither latched nor shelved nor out of service.
    #[must_use]
    pub const fn is_normal(self) -> bool {
        self.0 & (Self::ACTIVE.0 | Self::ACKED.0 | Self::LATCHED.0 | Self::OUT_OF_SERVICE.0 | Self::SHELVED.0)
            == Self::ACKED.0
    }

    /// The one word for them.
    #[must_use]
    pub const fn state(self) -> State {
        if self.has(Self::OUT_OF_SERVICE) {
            State::OutOfService
        } else if self.has(Self::SHELVED) {
            State::Shelved
        } else if self.is_normal() {
            State::Normal
        } else if self.has(Self::SUPPRESSED) {
            State::Suppressed
        } else if self.has(Self::ACTIVE) {
            if self.has(Self::ACKED) { State::Acknowledged } else { State::Unacknowledged }
        } else if self.has(Self::ACKED) {
            State::Latched
        } else {
            State::ReturnedUnacknowledged
        }
    }

    /// The letter of ISA-18.2 for them: A normal, B unacknowledged, C acknowledged, D returned and unacknowledged, E latched
    /// and unacknowledged, F latched and acknowledged, G shelved, H suppressed, I out of service.
    #[must_use]
    pub const fn letter(self) -> char {
        match self.state() {
            State::OutOfService => 'I',
            State::Shelved => 'G',
            State::Suppressed => 'H',
            State::Unacknowledged => 'B',
            State::Acknowledged => 'C',
            State::ReturnedUnacknowledged if self.has(Self::LATCHED) => 'E',
            State::ReturnedUnacknowledged => 'D',
            State::Latched => 'F',
            State::Normal => 'A',
        }
    }

    /// The bits of what is kept over a restart.
    pub(crate) const fn kept(self) -> Self {
        Self(self.0 & Self::KEPT)
    }

    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u16) -> Option<Self> {
        if bits & !Self::KEPT == 0 { Some(Self(bits)) } else { None }
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(Flags, &str); 9] = [
            (Flags::ACTIVE, "active"),
            (Flags::ACKED, "acked"),
            (Flags::LATCHED, "latched"),
            (Flags::SUPPRESSED, "suppressed"),
            (Flags::OUT_OF_SERVICE, "out_of_service"),
            (Flags::SHELVED, "shelved"),
            (Flags::CHATTERING, "chattering"),
            (Flags::UNCERTAIN, "uncertain"),
            (Flags::CONDITION, "condition"),
        ];
        f.debug_set().entries(NAMES.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name)).finish()
    }
}

/// Why and until when a person has shelved an alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shelf {
    /// When it ends.
    pub until: Timestamp,
    /// Whether it ends earlier, when the alarm returns.
    pub once: bool,
    /// Who did it.
    pub who: Arc<str>,
    /// Why.
    pub why: Arc<str>,
}

/// Why and until when a person has taken an alarm out of service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// When it ends; none: when a person ends it.
    pub until: Option<Timestamp>,
    /// Who did it.
    pub who: Arc<str>,
    /// Why.
    pub why: Arc<str>,
}

/// An alarm as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Alarm {
    /// What outlives a restart: topic, kind, occurrence, flags, times, value.
    pub record: Record,
    /// Its rule.
    pub rule: Arc<Rule>,
    /// How many alarms are consequences of it, of those as well.
    pub count: u32,
}

/// One change of one alarm.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What happened.
    pub transition: Transition,
    /// The alarm after it.
    pub alarm: Alarm,
    /// When it happened.
    pub at: Timestamp,
    /// The person who did it; none: it happened by itself.
    pub who: Option<Arc<str>>,
    /// Why they did it.
    pub why: Option<Arc<str>>,
    /// Whether operators are called: shown, sounded, notified.
    pub is_annunciated: bool,
}

/// What goes out, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An alarm has changed.
    Change(Box<Change>),
    /// An alarm that was not normal is no more: its rule or its topic is gone.
    Removed(AlarmId),
    /// A flood has begun, or has ended.
    Flood(bool),
}

/// Which occurrence of which alarm a person means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The alarmed topic.
    pub topic: &'a str,
    /// The kind of the alarm.
    pub kind: crate::Kind,
}

/// Who does something, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct By<'a> {
    /// The name of the person.
    pub who: &'a str,
    /// Why; may be empty where no reason is required.
    pub why: &'a str,
}

/// Why a person's request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such alarm.
    Unknown,
    /// There is a newer occurrence, which the person has not seen.
    OldOccurrence {
        /// The newest.
        seq: u64,
    },
    /// Nothing to acknowledge.
    NothingToAcknowledge,
    /// A reason is required.
    WhyMissing,
    /// The reason or note is too long.
    WhyTooLong {
        /// Bytes at most.
        max: usize,
    },
    /// Shelved for longer than anybody may, or for no time at all.
    Time {
        /// The longest.
        max: Duration,
    },
    /// It is not shelved.
    NotShelved,
    /// It is not out of service.
    InService,
    /// It is not latched.
    NotLatched,
    /// What raised it still holds.
    StillActive,
    /// It must be acknowledged first.
    NotAcknowledged,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such alarm"),
            Self::OldOccurrence { seq } => write!(f, "there is a newer occurrence, {seq}"),
            Self::NothingToAcknowledge => f.write_str("there is nothing to acknowledge"),
            Self::WhyMissing => f.write_str("a reason is required"),
            Self::WhyTooLong { max } => write!(f, "the text is longer than {max} bytes"),
            Self::Time { max } => write!(f, "expected a time above 0 and at most {} s", max.as_secs()),
            Self::NotShelved => f.write_str("the alarm is not shelved"),
            Self::InService => f.write_str("the alarm is not out of service"),
            Self::NotLatched => f.write_str("the alarm is not latched"),
            Self::StillActive => f.write_str("the alarm is still active"),
            Self::NotAcknowledged => f.write_str("the alarm is not acknowledged"),
        }
    }
}

impl core::error::Error for Refusal {}

/// An alarm by name, as another refers to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AlarmId {
    /// The alarmed topic.
    pub topic: Topic,
    /// The kind of the alarm.
    pub kind: crate::Kind,
}

impl fmt::Display for AlarmId {
    /// `TOPIC/KIND`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.kind.word())
    }
}
