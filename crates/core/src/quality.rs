//! How far a value may be trusted, and why.

/// The validity that a reader acts on.
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

/// A set of reasons against a value, and the validity where the sender of the value gave one that is not that of the
/// reasons; empty means good.
///
/// The reasons of DNP3 objects keep the names of IEEE 1815 clause 11.6; `away`, `stale`, `garbage` and
/// `range_error` are said by the node that collects.
///
/// ```text
///  bit 15    14 13      12 … 0
///  +-----+----------+------------+
///  |  0  | validity  | reasons    |     validity: 0 that of the reasons, 1 good, 2 uncertain, 3 bad
///  +-----+----------+------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quality(u16);

/// One row a reason: name, bit, validity.
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

/// The bits of reasons.
const REASON_BITS: u16 = (1 << REASONS.len()) - 1;
/// Where the validity of the sender stands.
const VERDICT_SHIFT: u32 = 13;
const VERDICT_BITS: u16 = 3 << VERDICT_SHIFT;
const UNCERTAIN_BITS: u16 = bits_of(Validity::Uncertain);
const BAD_BITS: u16 = bits_of(Validity::Bad);

/// The reasons of one validity.
const fn bits_of(validity: Validity) -> u16 {
    let (mut rest, mut bits) = (REASONS.as_slice(), 0);
    while let [(_, reason, of), behind @ ..] = rest {
        if *of as u8 == validity as u8 {
            bits |= reason.0;
        }
        rest = behind;
    }
    bits
}

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

    /// All reasons of both. Where one of them has a validity of its sender, the worse of the two is the validity.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        let both = Self((self.0 | other.0) & REASON_BITS);
        if (self.0 | other.0) & VERDICT_BITS == 0 {
            return both;
        }
        let (ours, theirs) = (self.validity(), other.validity());
        both.with_validity(if ours as u8 >= theirs as u8 { ours } else { theirs })
    }

    /// These reasons without those of `other`. The validity of a sender stays.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self::from_bits(self.0 & !(other.0 & REASON_BITS))
    }

    /// These reasons with the validity that the sender of the value gave, whatever they say of it themselves.
    #[must_use]
    pub const fn with_validity(self, validity: Validity) -> Self {
        let reasons = Self(self.0 & REASON_BITS);
        if reasons.validity() as u8 == validity as u8 {
            return reasons;
        }
        let stated = match validity {
            Validity::Good => 1,
            Validity::Uncertain => 2,
            Validity::Bad => 3,
        };
        Self(reasons.0 | stated << VERDICT_SHIFT)
    }

    /// Whether every reason of `other` is here.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 & REASON_BITS == other.0 & REASON_BITS
    }

    /// Whether there is any reason.
    #[must_use]
    pub const fn has_reasons(self) -> bool {
        self.0 & REASON_BITS != 0
    }

    /// Reasons and validity as bits: what stores keep. The bits are stable.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The reasons alone as bits: what wires keep. The bits are stable.
    #[must_use]
    pub const fn reason_bits(self) -> u16 {
        self.0 & REASON_BITS
    }

    /// From stored bits; unknown bits are dropped.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        let reasons = Self(bits & REASON_BITS);
        match (bits & VERDICT_BITS) >> VERDICT_SHIFT {
            1 => reasons.with_validity(Validity::Good),
            2 => reasons.with_validity(Validity::Uncertain),
            3 => reasons.with_validity(Validity::Bad),
            _ => reasons,
        }
    }

    /// The validity of the sender, or the worst of all reasons where there is none.
    #[must_use]
    pub const fn validity(self) -> Validity {
        match (self.0 & VERDICT_BITS) >> VERDICT_SHIFT {
            1 => Validity::Good,
            2 => Validity::Uncertain,
            3 => Validity::Bad,
            _ if self.0 & BAD_BITS != 0 => Validity::Bad,
            _ if self.0 & UNCERTAIN_BITS != 0 => Validity::Uncertain,
            _ => Validity::Good,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_of_the_sender_stands_beside_reasons() {
        let bad = Quality::GOOD.with_validity(Validity::Bad);
        let good = Quality::OFFLINE.with_validity(Validity::Good);
        for (quality, validity, reasons) in [
            (bad, Validity::Bad, Quality::GOOD),
            (bad.with(Quality::STALE), Validity::Bad, Quality::STALE),
            (good.with(Quality::STALE), Validity::Uncertain, Quality::OFFLINE.with(Quality::STALE)),
            (good.with(Quality::OFFLINE), Validity::Bad, Quality::OFFLINE),
            (good.with(good), Validity::Good, Quality::OFFLINE),
            (bad.with(Quality::STALE).without(Quality::STALE), Validity::Bad, Quality::GOOD),
            (Quality::OFFLINE.with_validity(Validity::Bad), Validity::Bad, Quality::OFFLINE),
        ] {
            assert_eq!((quality.validity(), quality.reason_bits()), (validity, reasons.bits()), "{quality:?}");
            assert!(quality.contains(reasons) && Quality::from_bits(quality.bits()) == quality);
        }
        // A validity that the reasons give themselves is none of the sender's.
        assert_eq!(Quality::OFFLINE.with_validity(Validity::Bad), Quality::OFFLINE);
        assert_eq!(Quality::from_bits(Quality::OFFLINE.bits() | VERDICT_BITS), Quality::OFFLINE);
    }
}
