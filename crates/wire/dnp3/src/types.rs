//! The nouns that all layers share.

use alloc::boxed::Box;
use core::fmt;
use tieline_core::Timestamp;

/// A group and a variation: which layout an object has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVar {
    /// What kind of thing.
    pub group: u8,
    /// Which layout of it; 0 where a request leaves the choice to the outstation.
    pub variation: u8,
}

impl GroupVar {
    /// Both numbers.
    #[must_use]
    pub const fn new(group: u8, variation: u8) -> Self {
        Self { group, variation }
    }
}

impl fmt::Display for GroupVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}v{}", self.group, self.variation)
    }
}

impl fmt::Debug for GroupVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The point types of an outstation's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PointType {
    /// Groups 1 and 2.
    Binary,
    /// Groups 3 and 4.
    DoubleBit,
    /// Groups 10 and 11; commanded with group 12, which group 13 reports.
    BinaryOutput,
    /// Groups 20 and 22.
    Counter,
    /// Groups 21 and 23.
    FrozenCounter,
    /// Groups 30 and 32; their dead-bands are group 34.
    Analog,
    /// Groups 31 and 33.
    FrozenAnalog,
    /// Groups 40 and 42; commanded with group 41, which group 43 reports.
    AnalogOutput,
    /// Groups 110 and 111.
    OctetString,
}

impl PointType {
    /// All, in the order of their static groups.
    pub const ALL: [Self; 9] = [
        Self::Binary,
        Self::DoubleBit,
        Self::BinaryOutput,
        Self::Counter,
        Self::FrozenCounter,
        Self::Analog,
        Self::FrozenAnalog,
        Self::AnalogOutput,
        Self::OctetString,
    ];

    /// The word used in configuration, on the command line and in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::DoubleBit => "double-bit",
            Self::BinaryOutput => "binary-output",
            Self::Counter => "counter",
            Self::FrozenCounter => "frozen-counter",
            Self::Analog => "analog",
            Self::FrozenAnalog => "frozen-analog",
            Self::AnalogOutput => "analog-output",
            Self::OctetString => "octet-string",
        }
    }

    /// The type of that name; `_` may stand for `-`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let same = |known: &str| {
            known.len() == name.len()
                && known.bytes().zip(name.bytes()).all(|(a, b)| a == b || (a == b'-' && b == b'_'))
        };
        Self::ALL.into_iter().find(|t| same(t.name()))
    }

    /// The group of its static objects.
    #[must_use]
    pub const fn static_group(self) -> u8 {
        match self {
            Self::Binary => 1,
            Self::DoubleBit => 3,
            Self::BinaryOutput => 10,
            Self::Counter => 20,
            Self::FrozenCounter => 21,
            Self::Analog => 30,
            Self::FrozenAnalog => 31,
            Self::AnalogOutput => 40,
            Self::OctetString => 110,
        }
    }

    /// The group of its event objects.
    #[must_use]
    pub const fn event_group(self) -> u8 {
        match self {
            Self::Binary => 2,
            Self::DoubleBit => 4,
            Self::BinaryOutput => 11,
            Self::Counter => 22,
            Self::FrozenCounter => 23,
            Self::Analog => 32,
            Self::FrozenAnalog => 33,
            Self::AnalogOutput => 42,
            Self::OctetString => 111,
        }
    }
}

/// The operations of a set of bits.
macro_rules! bit_set {
    ($($name:ident)*) => {$(
        impl $name {
            /// What is in either.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// This without what is in `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Whether all of `other` is in this.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }
    )*};
}

bit_set! { Flags Classes Iin }

/// The flag byte of an object. Bits 0-4 are common; 5-7 depend on the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// In service. Objects without a flag byte are taken as this.
    pub const ONLINE: Self = Self(0x01);
    /// Not measured since the restart.
    pub const RESTART: Self = Self(0x02);
    /// The source of the value is lost.
    pub const COMM_LOST: Self = Self(0x04);
    /// Forced further down.
    pub const REMOTE_FORCED: Self = Self(0x08);
    /// Forced here.
    pub const LOCAL_FORCED: Self = Self(0x10);
    /// Binary and double-bit inputs: changes too fast.
    pub const CHATTER_FILTER: Self = Self(0x20);
    /// Analog: beyond the range.
    pub const OVER_RANGE: Self = Self(0x20);
    /// Counters: rolled over (obsolete).
    pub const ROLLOVER: Self = Self(0x20);
    /// Analog: doubtful reference.
    pub const REFERENCE_ERR: Self = Self(0x40);
    /// Counters: not comparable with the last value.
    pub const DISCONTINUITY: Self = Self(0x40);
}

/// The four states of a double-bit input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DoubleBit {
    /// 0: moving between the ends.
    Intermediate,
    /// 1: at the off end.
    Off,
    /// 2: at the on end.
    On,
    /// 3: not known.
    #[default]
    Indeterminate,
}

impl DoubleBit {
    /// The two bits of the wire; only the two lowest are looked at.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Intermediate,
            1 => Self::Off,
            2 => Self::On,
            _ => Self::Indeterminate,
        }
    }

    /// The two bits of the wire.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Intermediate => 0,
            Self::Off => 1,
            Self::On => 2,
            Self::Indeterminate => 3,
        }
    }
}

/// A value as DNP3 knows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// Binary input or binary output status.
    Bit(bool),
    /// Double-bit input.
    DoubleBit(DoubleBit),
    /// Counter or frozen counter.
    Count(u32),
    /// Analog input or analog output status. Doubles hold every 32-bit integer exactly.
    Analog(f64),
    /// Octet string, 1 to 255 bytes.
    Bytes(Box<[u8]>),
}

/// A DNP3 time: milliseconds since 1970 in UTC, 48 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DnpTime(u64);

impl DnpTime {
    /// The largest time, in the year 10889.
    pub const MAX: Self = Self((1 << 48) - 1);

    /// From milliseconds since 1970, clamped to 48 bits.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        if millis > Self::MAX.0 { Self::MAX } else { Self(millis) }
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0
    }
}

impl From<Timestamp> for DnpTime {
    fn from(t: Timestamp) -> Self {
        Self::from_millis(u64::try_from(t.millis()).unwrap_or(0))
    }
}

impl From<DnpTime> for Timestamp {
    fn from(t: DnpTime) -> Self {
        Self::from_millis(i64::try_from(t.0).unwrap_or(i64::MAX))
    }
}

/// A time stamp and whether the device's clock was synchronised when it gave it (group 51 v1 or v2 for relative
/// times; absolute event times count as synchronised).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When.
    pub time: DnpTime,
    /// Whether the clock can be trusted.
    pub synchronized: bool,
}

/// One point's value as it travels: what a master learns and what an outstation is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Which kind of point.
    pub point_type: PointType,
    /// Its number within the kind.
    pub index: u16,
    /// Its value.
    pub value: Measured,
    /// Its flags; [`Flags::ONLINE`] where the object carried none.
    pub flags: Flags,
    /// Its time stamp, where the object carried one.
    pub stamp: Option<Stamp>,
}

/// The three event classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventClass {
    /// The most urgent by custom.
    Class1,
    /// In between.
    Class2,
    /// The least urgent by custom.
    Class3,
}

/// A set of classes, as a poll or an enable-unsolicited names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Classes(u8);

impl Classes {
    /// No class.
    pub const NONE: Self = Self(0);
    /// The static data.
    pub const CLASS_0: Self = Self(1);
    /// Event class 1.
    pub const CLASS_1: Self = Self(2);
    /// Event class 2.
    pub const CLASS_2: Self = Self(4);
    /// Event class 3.
    pub const CLASS_3: Self = Self(8);
    /// Classes 1, 2 and 3.
    pub const EVENTS: Self = Self(14);
    /// An integrity poll: classes 1, 2, 3 and 0.
    pub const ALL: Self = Self(15);

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<EventClass> for Classes {
    fn from(class: EventClass) -> Self {
        match class {
            EventClass::Class1 => Self::CLASS_1,
            EventClass::Class2 => Self::CLASS_2,
            EventClass::Class3 => Self::CLASS_3,
        }
    }
}

/// Internal indications: what an outstation says of itself in every response. IIN1 is the low byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Iin(pub u16);

impl Iin {
    /// Nothing to say.
    pub const NONE: Self = Self(0);
    /// IIN1.0: a broadcast was received.
    pub const BROADCAST: Self = Self(0x0001);
    /// IIN1.1: class 1 events wait.
    pub const CLASS_1: Self = Self(0x0002);
    /// IIN1.2: class 2 events wait.
    pub const CLASS_2: Self = Self(0x0004);
    /// IIN1.3: class 3 events wait.
    pub const CLASS_3: Self = Self(0x0008);
    /// IIN1.4: the clock wants to be set.
    pub const NEED_TIME: Self = Self(0x0010);
    /// IIN1.5: some outputs are in local mode.
    pub const LOCAL_CONTROL: Self = Self(0x0020);
    /// IIN1.6: an abnormal condition.
    pub const DEVICE_TROUBLE: Self = Self(0x0040);
    /// IIN1.7: restarted, and no master has cleared this yet.
    pub const DEVICE_RESTART: Self = Self(0x0080);
    /// IIN2.0: the function is not implemented.
    pub const NO_FUNC_CODE_SUPPORT: Self = Self(0x0100);
    /// IIN2.1: an object is unknown.
    pub const OBJECT_UNKNOWN: Self = Self(0x0200);
    /// IIN2.2: a qualifier, range or parameter is wrong.
    pub const PARAMETER_ERROR: Self = Self(0x0400);
    /// IIN2.3: events were lost to a full buffer.
    pub const EVENT_BUFFER_OVERFLOW: Self = Self(0x0800);
    /// IIN2.4: the request is executing already.
    pub const ALREADY_EXECUTING: Self = Self(0x1000);
    /// IIN2.5: the configuration is corrupt.
    pub const CONFIG_CORRUPT: Self = Self(0x2000);

    /// The bits with their names, lowest first; bits 14 and 15 are reserved.
    pub const NAMES: [(Self, &'static str); 14] = [
        (Self::BROADCAST, "broadcast"),
        (Self::CLASS_1, "class-1-events"),
        (Self::CLASS_2, "class-2-events"),
        (Self::CLASS_3, "class-3-events"),
        (Self::NEED_TIME, "need-time"),
        (Self::LOCAL_CONTROL, "local-control"),
        (Self::DEVICE_TROUBLE, "device-trouble"),
        (Self::DEVICE_RESTART, "device-restart"),
        (Self::NO_FUNC_CODE_SUPPORT, "no-func-code-support"),
        (Self::OBJECT_UNKNOWN, "object-unknown"),
        (Self::PARAMETER_ERROR, "parameter-error"),
        (Self::EVENT_BUFFER_OVERFLOW, "event-buffer-overflow"),
        (Self::ALREADY_EXECUTING, "already-executing"),
        (Self::CONFIG_CORRUPT, "config-corrupt"),
    ];

    /// The names of the bits that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(bit, _)| self.contains(*bit)).map(|(_, name)| name)
    }
}

/// A control relay output block: group 12 variation 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crob {
    /// Control code: operation in bits 0-3, queue 4, clear 5, trip-close 6-7.
    pub code: u8,
    /// How many times.
    pub count: u8,
    /// On time in milliseconds.
    pub on_ms: u32,
    /// Off time in milliseconds.
    pub off_ms: u32,
}

/// An analog output command: group 41, by width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AnalogCommand {
    /// Variation 1.
    Int32(i32),
    /// Variation 2.
    Int16(i16),
    /// Variation 3.
    Float32(f32),
    /// Variation 4.
    Float64(f64),
}

/// One control, for one point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Control {
    /// Group 12 variation 1 for a binary output.
    Crob(Crob),
    /// Group 41 for an analog output.
    Analog(AnalogCommand),
}
