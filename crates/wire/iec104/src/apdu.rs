//! Frames (IEC 60870-5-104 5.1).
//!
//! ```text
//! start 1 (68)   length 1 (4 to 253)   control 4   ASDU 0 to 249
//!
//! control, low bits first:  I  0 N(S)15  0 N(R)15     S  01 00  0 N(R)15     U  11 and one of six bits, 00 00 00
//! ```
//!
//! A stream that does not begin with the start byte and a possible length is out of step: there is no way back, and the
//! connection is to be closed.

use alloc::vec::Vec;
use core::fmt;
use tieline_core::Cursor;

/// The longest frame: start and length, then 253 bytes.
pub const APDU_BYTES_MAX: usize = 255;
/// The longest ASDU.
pub const ASDU_BYTES_MAX: usize = 249;

const START: u8 = 0x68;
const CONTROL_BYTES: usize = 4;
const LENGTH_MAX: usize = 253;
/// Bits of a sequence number.
const NUMBER_MASK: u16 = 0x7FFF;

/// A function of a frame without numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// Asks the controlled station to send.
    StartAct,
    /// It does from here on.
    StartCon,
    /// Asks the controlled station to stop.
    StopAct,
    /// It has stopped.
    StopCon,
    /// Asks whether the other side is there.
    TestAct,
    /// It is.
    TestCon,
}

impl Control {
    const ALL: [Self; 6] = [Self::StartAct, Self::StartCon, Self::StopAct, Self::StopCon, Self::TestAct, Self::TestCon];

    const fn byte(self) -> u8 {
        match self {
            Self::StartAct => 0x07,
            Self::StartCon => 0x0B,
            Self::StopAct => 0x13,
            Self::StopCon => 0x23,
            Self::TestAct => 0x43,
            Self::TestCon => 0x83,
        }
    }

    /// The standard's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::StartAct => "STARTDT act",
            Self::StartCon => "STARTDT con",
            Self::StopAct => "STOPDT act",
            Self::StopCon => "STOPDT con",
            Self::TestAct => "TESTFR act",
            Self::TestCon => "TESTFR con",
        }
    }
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apdu<'a> {
    /// Information: numbered, with an ASDU.
    I {
        /// The number of this frame, 15 bits.
        send: u16,
        /// The number of the frame that is expected next, 15 bits: all before it have come.
        receive: u16,
        /// What it carries.
        asdu: &'a [u8],
    },
    /// Supervisory: an acknowledgement alone.
    S {
        /// The number of the frame that is expected next, 15 bits.
        receive: u16,
    },
    /// Unnumbered.
    U(Control),
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApduError {
    /// The first byte is not 68.
    Start(u8),
    /// The length is not 4 to 253, or not 4 in a frame without an ASDU.
    Length(u8),
    /// The control field is none of the standard's.
    Control([u8; CONTROL_BYTES]),
    /// Bytes are missing.
    Truncated,
}

impl fmt::Display for ApduError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(byte) => write!(f, "a frame that begins with {byte:02x}, expected 68"),
            Self::Length(length) => write!(f, "a frame of length {length}, expected 4 to 253, and 4 without an ASDU"),
            Self::Control([a, b, c, d]) => write!(f, "a control field {a:02x} {b:02x} {c:02x} {d:02x} of no frame"),
            Self::Truncated => f.write_str("a frame that ends too early"),
        }
    }
}

impl core::error::Error for ApduError {}

impl<'a> Apdu<'a> {
    /// Reads the frame that these bytes are, all of them.
    ///
    /// # Errors
    /// They are none.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ApduError> {
        let whole = frame_bytes(bytes)?.ok_or(ApduError::Truncated)?;
        let (_, body) = bytes.split_at_checked(2).ok_or(ApduError::Truncated)?;
        if whole != bytes.len() {
            return Err(ApduError::Length(u8::try_from(body.len()).unwrap_or(u8::MAX)));
        }
        let mut cursor = Cursor::new(body);
        let control: [u8; CONTROL_BYTES] = cursor.array().map_err(|_| ApduError::Truncated)?;
        let [a, b, c, d] = control;
        let (first, second) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        if a & 1 == 0 {
            // The low bit of N(R) is 0 by the standard, and says nothing.
            return Ok(Self::I { send: first >> 1, receive: second >> 1, asdu: cursor.rest() });
        }
        if !cursor.is_empty() {
            return Err(ApduError::Length(u8::try_from(body.len()).unwrap_or(u8::MAX)));
        }
        if a & 3 == 1 {
            return Ok(Self::S { receive: second >> 1 });
        }
        let function = Control::ALL.into_iter().find(|function| function.byte() == a);
        function.map(Self::U).ok_or(ApduError::Control(control))
    }

    /// Appends the frame. An ASDU is cut at [`ASDU_BYTES_MAX`], which no ASDU of [`crate::emit`] exceeds.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let (first, second, asdu): (u16, u16, &[u8]) = match *self {
            Self::I { send, receive, asdu } => ((send & NUMBER_MASK) << 1, (receive & NUMBER_MASK) << 1, asdu),
            Self::S { receive } => (1, (receive & NUMBER_MASK) << 1, &[]),
            Self::U(function) => (function.byte().into(), 0, &[]),
        };
        let asdu = asdu.get(..asdu.len().min(ASDU_BYTES_MAX)).unwrap_or_default();
        let length = u8::try_from(CONTROL_BYTES + asdu.len()).unwrap_or_default();
        out.extend_from_slice(&[START, length]);
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&second.to_le_bytes());
        out.extend_from_slice(asdu);
    }
}

/// Bytes of the frame that a stream begins with; none while its length has not come.
fn frame_bytes(stream: &[u8]) -> Result<Option<usize>, ApduError> {
    let Some(start) = stream.first() else { return Ok(None) };
    if *start != START {
        return Err(ApduError::Start(*start));
    }
    let Some(length) = stream.get(1) else { return Ok(None) };
    let body = usize::from(*length);
    if !(CONTROL_BYTES..=LENGTH_MAX).contains(&body) {
        return Err(ApduError::Length(*length));
    }
    Ok(Some(2 + body))
}

/// Finds frames in a stream. Keeps what is not whole yet, fewer than [`APDU_BYTES_MAX`] bytes, and nothing otherwise.
#[derive(Debug, Default)]
pub struct Framer {
    partial: Vec<u8>,
    /// The stream is out of step.
    is_lost: bool,
}

impl Framer {
    /// Forgets what came.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether the stream is out of step: everything is dropped from then on.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Gives each frame, or the first error, to `take` until it says that it takes no more; returns how many bytes were
    /// used. After an error of the start or the length all bytes are used, and dropped.
    pub fn decode(&mut self, bytes: &[u8], mut take: impl FnMut(Result<Apdu<'_>, ApduError>) -> bool) -> usize {
        let mut used = 0;
        while !self.is_lost {
            let rest = bytes.get(used..).unwrap_or_default();
            if rest.is_empty() {
                return used;
            }
            let taken = if self.partial.is_empty() { self.whole(rest, &mut take) } else { self.part(rest, &mut take) };
            used += taken.0;
            if !taken.1 {
                return used;
            }
        }
        bytes.len()
    }

    /// The frame that lies whole in the input; what is not whole is kept.
    fn whole(&mut self, rest: &[u8], take: &mut impl FnMut(Result<Apdu<'_>, ApduError>) -> bool) -> (usize, bool) {
        match frame_bytes(rest) {
            Err(error) => (rest.len(), self.lose(error, take)),
            Ok(size) => match size.and_then(|size| rest.get(..size)) {
                Some(frame) => (frame.len(), take(Apdu::parse(frame))),
                None => {
                    self.partial.extend_from_slice(rest);
                    (rest.len(), true)
                }
            },
        }
    }

    /// Goes on with a frame whose beginning was kept.
    fn part(&mut self, rest: &[u8], take: &mut impl FnMut(Result<Apdu<'_>, ApduError>) -> bool) -> (usize, bool) {
        let wanted = match frame_bytes(&self.partial) {
            Err(error) => return (rest.len(), self.lose(error, take)),
            // The length comes first.
            Ok(size) => size.unwrap_or(2).saturating_sub(self.partial.len()),
        };
        let add = rest.get(..wanted.min(rest.len())).unwrap_or_default();
        self.partial.extend_from_slice(add);
        match frame_bytes(&self.partial) {
            Err(error) => (rest.len(), self.lose(error, take)),
            Ok(Some(size)) if size == self.partial.len() => {
                let partial = core::mem::take(&mut self.partial);
                let more = take(Apdu::parse(&partial));
                self.partial = partial;
                self.partial.clear();
                (add.len(), more)
            }
            Ok(_) => (add.len(), true),
        }
    }

    fn lose(&mut self, error: ApduError, take: &mut impl FnMut(Result<Apdu<'_>, ApduError>) -> bool) -> bool {
        self.partial = Vec::new();
        self.is_lost = true;
        take(Err(error))
    }
}
