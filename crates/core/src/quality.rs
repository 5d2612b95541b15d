//! How far a value may be trusted, and why.

/// The verdict that a reader acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Validity {
    /// The value is what the field shows.
    Good,
    /// The value may not be what the field shows.
    Uncertain,
    /// The value must not be used.
    Bad,
}

impl Validity {
    /// The word in the `q` member of a point: `good`, `uncertain` or `bad`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Uncertain => "uncertain",
            Self::Bad => "bad",
        }
    }
}

/// A set of reasons against a value; empty means good.
///
/// The reasons of DNP3 objects keep the names of IEEE 1815 clause 11.6; `away`, `stale`, `garbage` and
/// `range_error` are said by the node that collects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quality(u16);

/// One row a reason: name, bit, verdict.
const REASONS: [(&str, Quality, Validity); 13] = [
    ("offline", Quality::OFFLINE, Validity::Bad),
    ("restart", Quality::RESTART, Validity::Uncertain),
    ("comm_lost", Quality::COMM_LOST, Validity::Bad),
    ("remote_forced", Quality::REMOTE_FORCED, Validity::Uncertain),
    ("local_forced", Quality::LOCAL_FORCED, Validity::Uncertain),
    ("chatter_filter", Quality::CHATTER_FILTER, Validity::Uncertain),
    ("over_range", Quality::OVER_RANGE, Validity::Bad),
    ("reference_err", Quality::REFERENCE_ERR, Validity::Uncertain),
    ("discontinuity", Quality::DISCONTINUITY, Validity::Uncertain),
    ("away", Quality::AWAY, Validity::Bad),
    ("stale", Quality::STALE, Validity::Uncertain),
    ("time_unsynced", Quality::TIME_UNSYNCED, Validity::Good),
    ("initial", Quality::INITIAL, Validity::Bad),
];

impl Quality {
    /// No reason against the value.
    pub const GOOD: Self = Self(0);
    /// The point is not in service at the device (its ONLINE flag is clear).
    pub const OFFLINE: Self = Self(1);
    /// The device has not measured the value since it restarted.
    pub const RESTART: Self = Self(1 << 1);
    /// The device lost its own source of the value.
    pub const COMM_LOST: Self = Self(1 << 2);
    /// The value was forced at a device further down.
    pub const REMOTE_FORCED: Self = Self(1 << 3);
    /// The value was forced at this device.
    pub const LOCAL_FORCED: Self = Self(1 << 4);
    /// A binary input changes too fast.
    pub const CHATTER_FILTER: Self = Self(1 << 5);
    /// An analog value does not fit its range.
    pub const OVER_RANGE: Self = Self(1 << 6);
    /// An analog value has a doubtful reference.
    pub const REFERENCE_ERR: Self = Self(1 << 7);
    /// A counter cannot be compared with its last value.
    pub const DISCONTINUITY: Self = Self(1 << 8);
    /// The device cannot be reached, so the value is the last one known.
    pub const AWAY: Self = Self(1 << 9);
    /// The device answers, but this value was not renewed in time.
    pub const STALE: Self = Self(1 << 10);
    /// The device's clock was not synchronised when it stamped the value.
    pub const TIME_UNSYNCED: Self = Self(1 << 11);
    /// No value has been received yet.
    pub const INITIAL: Self = Self(1 << 12);

    /// All reasons of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These reasons without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether every reason of `other` is here.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The reasons as bits: what stores and wires keep. The bits are stable.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// From stored bits; unknown bits are dropped.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x1fff)
    }

    /// The worst verdict of all reasons.
    #[must_use]
    pub fn validity(self) -> Validity {
        let verdicts = REASONS.iter().filter(|(_, bit, _)| self.contains(*bit)).map(|(_, _, verdict)| *verdict);
        verdicts.max().unwrap_or(Validity::Good)
    }

    /// The names of the reasons, in a fixed order.
    pub fn reasons(self) -> impl Iterator<Item = &'static str> {
        REASONS.iter().filter(move |(_, bit, _)| self.contains(*bit)).map(|(name, _, _)| *name)
    }

    /// The reason of that name.
    #[must_use]
    pub fn from_reason(name: &str) -> Option<Self> {
        REASONS.iter().find(|(known, _, _)| *known == name).map(|(_, bit, _)| *bit)
    }
}
