//! The cause of transmission (IEC 60870-5-101 7.2.3).

use core::fmt;

/// The number of a cause, 6 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CauseCode(u8);

impl CauseCode {
    /// Sent at intervals.
    pub const PERIODIC: Self = Self(1);
    /// Sent when there was nothing else to send.
    pub const BACKGROUND: Self = Self(2);
    /// Sent because it changed.
    pub const SPONTANEOUS: Self = Self(3);
    /// The station has started.
    pub const INITIALIZED: Self = Self(4);
    /// A read, or an answer to one.
    pub const REQUEST: Self = Self(5);
    /// Asks for something to be done.
    pub const ACTIVATION: Self = Self(6);
    /// It will be, or not.
    pub const ACTIVATION_CON: Self = Self(7);
    /// Asks for it to be given up.
    pub const DEACTIVATION: Self = Self(8);
    /// It was, or not.
    pub const DEACTIVATION_CON: Self = Self(9);
    /// It was done.
    pub const TERMINATION: Self = Self(10);
    /// Sent because a command from elsewhere changed it.
    pub const RETURN_REMOTE: Self = Self(11);
    /// Sent because a command at the station changed it.
    pub const RETURN_LOCAL: Self = Self(12);
    /// Of a file.
    pub const FILE: Self = Self(13);
    /// Interrogated with the whole station; groups 1 to 16 follow.
    pub const INTERROGATED: Self = Self(20);
    /// Interrogated with all counters; groups 1 to 4 follow.
    pub const COUNTERS: Self = Self(37);
    /// The station does not know the type.
    pub const UNKNOWN_TYPE: Self = Self(44);
    /// The station does not know the cause.
    pub const UNKNOWN_CAUSE: Self = Self(45);
    /// The station does not have the common address.
    pub const UNKNOWN_COMMON_ADDRESS: Self = Self(46);
    /// The station does not have the object.
    pub const UNKNOWN_ADDRESS: Self = Self(47);

    /// Of the low 6 bits.
    #[must_use]
    pub const fn new(raw: u8) -> Self {
        Self(raw & 0x3F)
    }

    /// As a number.
    #[must_use]
    pub const fn raw(self) -> u8 {
        self.0
    }

    /// Whether it is that of an object that an interrogation of the station or of a group brings.
    #[must_use]
    pub const fn is_interrogated(self) -> bool {
        matches!(self.0, 20..=36)
    }

    /// Whether it is that of a counter that a counter interrogation brings.
    #[must_use]
    pub const fn is_of_counters(self) -> bool {
        matches!(self.0, 37..=41)
    }

    /// Whether the station says that it does not know what it was asked.
    #[must_use]
    pub const fn is_unknown(self) -> bool {
        matches!(self.0, 44..=47)
    }

    /// A stable word in `snake_case`; the one of the standard's short name where it has one.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            1 => "periodic",
            2 => "background",
            3 => "spontaneous",
            4 => "initialized",
            5 => "request",
            6 => "activation",
            7 => "activation_confirmation",
            8 => "deactivation",
            9 => "deactivation_confirmation",
            10 => "activation_termination",
            11 => "return_remote",
            12 => "return_local",
            13 => "file",
            20..=36 => "interrogated",
            37..=41 => "counters",
            44 => "unknown_type",
            45 => "unknown_cause",
            46 => "unknown_common_address",
            47 => "unknown_object_address",
            _ => "reserved",
        }
    }
}

impl fmt::Display for CauseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0, self.name())
    }
}

/// Why an ASDU is sent, and for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// Why.
    pub code: CauseCode,
    /// P/N: what was asked is refused.
    pub is_negative: bool,
    /// T: sent to test, and not to be acted on.
    pub is_test: bool,
    /// Which controlling station asked; 0 none.
    pub originator: u8,
}

const NEGATIVE: u8 = 0x40;
const TEST: u8 = 0x80;

impl Cause {
    /// Of a code alone.
    #[must_use]
    pub const fn of(code: CauseCode) -> Self {
        Self { code, is_negative: false, is_test: false, originator: 0 }
    }

    pub(super) const fn from_bytes([cause, originator]: [u8; 2]) -> Self {
        let (is_negative, is_test) = (cause & NEGATIVE != 0, cause & TEST != 0);
        Self { code: CauseCode::new(cause), is_negative, is_test, originator }
    }

    pub(super) const fn to_bytes(self) -> [u8; 2] {
        let negative = if self.is_negative { NEGATIVE } else { 0 };
        let test = if self.is_test { TEST } else { 0 };
        [self.code.0 | negative | test, self.originator]
    }
}
