//! How bytes travel: over TCP, over a serial line, or as on a serial line over TCP.

use core::num::NonZeroU32;
use core::time::Duration;

/// Bits of a character: start, eight, parity or a second stop, stop (Serial Line 2.5.1).
const BITS_PER_CHARACTER: u32 = 11;
/// The fastest line whose pause is 3.5 of its own characters (Serial Line 2.5.1.1).
const PROPORTIONAL_BAUD_MAX: u32 = 19_200;
/// The pause of faster lines.
const SILENCE_FAST: Duration = Duration::from_micros(1750);
/// How long bytes of one frame may be on their way from the line: USB adapters bring them every 16 ms.
const JITTER: Duration = Duration::from_millis(20);
/// The quiet that takes the place of 3.5 characters where a line is behind a TCP connection.
const TCP_QUIET: Duration = Duration::from_millis(100);

/// The speed of a serial line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SerialTiming {
    /// One character on the line.
    pub character: Duration,
    /// The pause before a frame: 3.5 characters, 1.75 ms above 19,200 baud.
    pub silence: Duration,
    /// How much longer than [`SerialTiming::silence`] a frame may pause in its middle: the driver brings bytes late, the
    /// standard's 1.5 characters do not come through to a program.
    pub jitter: Duration,
}

impl SerialTiming {
    /// Of a line with characters of 11 bits.
    #[must_use]
    pub fn new(baud: NonZeroU32) -> Self {
        let character = Duration::from_nanos(u64::from(BITS_PER_CHARACTER) * 1_000_000_000 / u64::from(baud.get()));
        let silence = if baud.get() > PROPORTIONAL_BAUD_MAX { SILENCE_FAST } else { character * 7 / 2 };
        Self { character, silence, jitter: JITTER }
    }

    /// How long so many bytes take on the line.
    #[must_use]
    pub fn of_bytes(&self, count: usize) -> Duration {
        self.character * u32::try_from(count).unwrap_or(u32::MAX)
    }
}

/// How frames are made and found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// MBAP headers, over TCP or TLS.
    Tcp,
    /// RTU frames on a serial line.
    Rtu(SerialTiming),
    /// RTU frames through a converter that is reached by TCP: pauses mean nothing.
    RtuOverTcp,
}

impl Framing {
    /// Whether unit 0 is all units, and a frame names no transaction.
    #[must_use]
    pub const fn is_rtu(self) -> bool {
        match self {
            Self::Tcp => false,
            Self::Rtu(_) | Self::RtuOverTcp => true,
        }
    }

    /// The quiet after an answer that did not come.
    pub(crate) const fn drain(self) -> Duration {
        match self {
            Self::Tcp => Duration::ZERO,
            Self::Rtu(timing) => timing.silence,
            Self::RtuOverTcp => TCP_QUIET,
        }
    }

    /// The pause between any two frames.
    pub(crate) const fn silence(self) -> Duration {
        match self {
            Self::Tcp | Self::RtuOverTcp => Duration::ZERO,
            Self::Rtu(timing) => timing.silence,
        }
    }

    /// The pause after which a frame that is not whole will not become so.
    pub(crate) fn partial(self) -> Duration {
        match self {
            Self::Tcp => Duration::MAX,
            Self::Rtu(timing) => timing.silence + timing.jitter,
            Self::RtuOverTcp => TCP_QUIET,
        }
    }

    /// How long so many bytes take to leave.
    pub(crate) fn of_bytes(self, count: usize) -> Duration {
        match self {
            Self::Tcp | Self::RtuOverTcp => Duration::ZERO,
            Self::Rtu(timing) => timing.of_bytes(count),
        }
    }
}
