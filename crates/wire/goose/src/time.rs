//! Moments as IEC 61850 has them.
//!
//! ```text
//!  seconds since 1970, 4 | fraction of a second in 2⁻²⁴, 3 | leap seconds known 1, clock failure 1, not synchronized 1, accuracy 5 bits
//! ```

use core::fmt;
use tieline_core::Timestamp;

const MICROS: i64 = 1_000_000;
const LEAP_KNOWN: u8 = 0x80;
const CLOCK_FAILURE: u8 = 0x40;
const NOT_SYNCHRONIZED: u8 = 0x20;
const ACCURACY: u8 = 0x1F;

/// How far a moment may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeQuality(u8);

impl TimeQuality {
    /// Of a clock that is synchronized, whose accuracy is not said.
    pub const SYNCHRONIZED: Self = Self(LEAP_KNOWN | ACCURACY);
    /// Of a clock that nothing synchronizes.
    pub const UNSYNCHRONIZED: Self = Self(NOT_SYNCHRONIZED | ACCURACY);

    /// As it is sent.
    #[must_use]
    pub const fn new(raw: u8) -> Self {
        Self(raw)
    }

    /// As it is sent.
    #[must_use]
    pub const fn raw(self) -> u8 {
        self.0
    }

    /// Whether the clock works and is synchronized.
    #[must_use]
    pub const fn is_trusted(self) -> bool {
        self.0 & (CLOCK_FAILURE | NOT_SYNCHRONIZED) == 0
    }
}

/// A moment with its quality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UtcTime {
    /// Since 1970.
    pub seconds: u32,
    /// In 2⁻²⁴ seconds; 24 bits.
    pub fraction: u32,
    /// How far it may be trusted.
    pub quality: TimeQuality,
}

impl UtcTime {
    /// A moment of our clock.
    #[must_use]
    pub fn new(time: Timestamp, quality: TimeQuality) -> Self {
        let micros = time.micros().max(0);
        let fraction = u32::try_from(((micros % MICROS) << 24) / MICROS).unwrap_or(0);
        Self { seconds: u32::try_from(micros / MICROS).unwrap_or(u32::MAX), fraction, quality }
    }

    /// As it is sent; none of other than eight bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let [s1, s2, s3, s4, f1, f2, f3, quality] = *<&[u8; 8]>::try_from(bytes).ok()?;
        let (seconds, fraction) = (u32::from_be_bytes([s1, s2, s3, s4]), u32::from_be_bytes([0, f1, f2, f3]));
        Some(Self { seconds, fraction, quality: TimeQuality(quality) })
    }

    /// As it is sent.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        let [s1, s2, s3, s4] = self.seconds.to_be_bytes();
        let [_, f1, f2, f3] = self.fraction.to_be_bytes();
        [s1, s2, s3, s4, f1, f2, f3, self.quality.0]
    }

    /// The moment, to the nearest microsecond.
    #[must_use]
    pub fn timestamp(self) -> Timestamp {
        let micros = (i64::from(self.fraction & 0x00FF_FFFF) * MICROS + (1 << 23)) >> 24;
        Timestamp::from_micros(i64::from(self.seconds) * MICROS + micros)
    }

    /// Seconds and fraction, which say which of two moments is later.
    #[must_use]
    pub const fn moment(self) -> (u32, u32) {
        (self.seconds, self.fraction)
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doubt = if self.quality.is_trusted() { "" } else { " (clock not synchronized)" };
        write!(f, "{}{doubt}", self.timestamp())
    }
}
