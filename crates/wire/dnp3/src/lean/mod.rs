//! Lean DNP3: application fragments over TCP or UDP without link frames and segments. The whole specification is
//! `docs/dnp3-lean.md`.
//!
//! ```text
//! hello, 16 bytes, each with its high bit set, so that none is 05 or 64 and a standard decoder passes over it:
//!
//! D4 CC | version 81 | flags | source 3 | destination 3 | fragment 3 | check 3
//!         flags   80 + 01 from the master + 02 answer + 04 datagrams
//!         others  16 bits as three bytes of 2, 7 and 7 bits, high bits first; check is the CRC of the 13 bytes before it
//!
//! message on a stream      kind and length le16 | fragment
//! message in a datagram    A6 | kind and length le16 | destination le16 | source le16 | fragment
//!         length = low 13 bits: bytes of the fragment; kind = high 3 bits:
//!         0 fragment, 1-3 fragment to FFFD-FFFF, 4 link status asked for, 5 link status
//! ```
//!
//! The side that connects offers: its hello and a standard "request link status" (26 bytes) come first on a
//! connection. A lean station answers with a hello, and both go on in lean messages; a standard station answers the
//! request for its link's status, and both go on in link frames.

use crate::crc;
use crate::link::{Broadcast, LinkAddress};
use core::fmt;
use tieline_core::Cursor;

/// What a hello begins with: "TL", high bits set.
pub const HELLO_START: [u8; 2] = [0xD4, 0xCC];
/// Bytes of a hello.
pub const HELLO_BYTES: usize = 16;
/// Bytes of an offer: a hello and a standard request for the link's status.
pub const OFFER_BYTES: usize = HELLO_BYTES + crate::link::HEADER_BYTES;
/// What every message in a datagram begins with.
pub const DATAGRAM_START: u8 = 0xA6;
/// Bytes before the fragment on a stream.
pub const STREAM_HEADER_BYTES: usize = 2;
/// Bytes before the fragment in a datagram.
pub const DATAGRAM_HEADER_BYTES: usize = 7;
/// Bytes of a fragment in one message at most.
pub const FRAGMENT_BYTES_MAX: u16 = 0x1FFF;
/// The only version there is.
const VERSION: u8 = 0x81;

const FLAGS: u8 = 0x80;
const FROM_MASTER: u8 = 0x01;
const ANSWER: u8 = 0x02;
const DATAGRAMS: u8 = 0x04;

/// Whether a station offers lean messages, or waits for an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The side that connects.
    Offers,
    /// The side that is connected to.
    Accepts,
}

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// TCP or TLS: nothing is lost or out of order.
    Stream,
    /// UDP: each message has its addresses.
    Datagrams,
}

/// How a station uses lean messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeanConfig {
    /// Which side begins.
    pub side: Side,
    /// What carries the bytes.
    pub carrier: Carrier,
}

/// What a hello says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Whether the sender is the master of the association.
    pub from_master: bool,
    /// Whether it answers an offer.
    pub answer: bool,
    /// What carries the bytes.
    pub carrier: Carrier,
    /// The sender's address.
    pub source: LinkAddress,
    /// The receiver's address; FFFC where the sender does not know it.
    pub destination: LinkAddress,
    /// Bytes of a fragment that the sender takes.
    pub fragment_max: u16,
}

/// Why bytes are no hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloError {
    /// They do not begin as one, or not every byte has its high bit set.
    NoHello,
    /// The check is wrong.
    Check,
    /// A version that this station does not speak.
    Version(u8),
}

impl fmt::Display for HelloError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHello => f.write_str("no hello"),
            Self::Check => f.write_str("wrong check in the hello"),
            Self::Version(version) => write!(f, "lean version {} is not known", version & 0x7F),
        }
    }
}

impl core::error::Error for HelloError {}

impl Hello {
    /// The bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; HELLO_BYTES] {
        let [x, y] = HELLO_START;
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = FLAGS
            | flag(self.from_master, FROM_MASTER)
            | flag(self.answer, ANSWER)
            | flag(self.carrier == Carrier::Datagrams, DATAGRAMS);
        let [s1, s2, s3] = wide(self.source.raw());
        let [d1, d2, d3] = wide(self.destination.raw());
        let [f1, f2, f3] = wide(self.fragment_max);
        let said = [x, y, VERSION, flags, s1, s2, s3, d1, d2, d3, f1, f2, f3];
        let [c1, c2, c3] = wide(crc::crc(&said));
        [x, y, VERSION, flags, s1, s2, s3, d1, d2, d3, f1, f2, f3, c1, c2, c3]
    }

    /// What these bytes say.
    ///
    /// # Errors
    /// They are no hello, damaged, or of another version.
    pub fn parse(bytes: &[u8; HELLO_BYTES]) -> Result<Self, HelloError> {
        if !bytes.starts_with(&HELLO_START) || bytes.iter().any(|byte| byte & 0x80 == 0) {
            return Err(HelloError::NoHello);
        }
        let [said @ .., c1, c2, c3] = bytes;
        if narrow([*c1, *c2, *c3]) != Some(crc::crc(said)) {
            return Err(HelloError::Check);
        }
        let [_, _, version, flags, s1, s2, s3, d1, d2, d3, f1, f2, f3] = *said;
        if version != VERSION {
            return Err(HelloError::Version(version));
        }
        let number = |bytes| narrow(bytes).ok_or(HelloError::NoHello);
        Ok(Self {
            from_master: flags & FROM_MASTER != 0,
            answer: flags & ANSWER != 0,
            carrier: if flags & DATAGRAMS != 0 { Carrier::Datagrams } else { Carrier::Stream },
            source: LinkAddress::new(number([s1, s2, s3])?),
            destination: LinkAddress::new(number([d1, d2, d3])?),
            fragment_max: number([f1, f2, f3])?,
        })
    }
}

/// Whether bytes may become a hello once more arrive.
#[must_use]
pub fn may_be_hello(bytes: &[u8]) -> bool {
    bytes.iter().zip(HELLO_START).all(|(byte, start)| *byte == start)
}

const fn wide(number: u16) -> [u8; 3] {
    let [high, low] = number.to_be_bytes();
    [0x80 | high >> 6, 0x80 | (high << 1 | low >> 7) & 0x7F, 0x80 | low]
}

/// None: more than 16 bits.
fn narrow([a, b, c]: [u8; 3]) -> Option<u16> {
    let bits = |byte: u8| u32::from(byte & 0x7F);
    u16::try_from(bits(a) << 14 | bits(b) << 7 | bits(c)).ok()
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A fragment to the receiver.
    Fragment,
    /// A fragment to every outstation.
    Broadcast(Broadcast),
    /// Is the receiver there.
    StatusRequest,
    /// The sender is there.
    Status,
}

impl Kind {
    const fn code(self) -> u16 {
        match self {
            Self::Fragment => 0,
            Self::Broadcast(Broadcast::ConfirmNever) => 1,
            Self::Broadcast(Broadcast::ConfirmAlways) => 2,
            Self::Broadcast(Broadcast::ConfirmOptional) => 3,
            Self::StatusRequest => 4,
            Self::Status => 5,
        }
    }

    const fn of(code: u16) -> Option<Self> {
        Some(match code {
            0 => Self::Fragment,
            1 => Self::Broadcast(Broadcast::ConfirmNever),
            2 => Self::Broadcast(Broadcast::ConfirmAlways),
            3 => Self::Broadcast(Broadcast::ConfirmOptional),
            4 => Self::StatusRequest,
            5 => Self::Status,
            _ => return None,
        })
    }

    const fn carries_fragment(self) -> bool {
        matches!(self, Self::Fragment | Self::Broadcast(_))
    }
}

/// Kind and length: what every message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the message is.
    pub kind: Kind,
    /// Bytes of its fragment, 0 to 8191.
    pub bytes: u16,
}

/// A kind that does not exist, a fragment without bytes, or bytes where none belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHead;

impl fmt::Display for BadHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no lean message has this kind and length")
    }
}

impl core::error::Error for BadHead {}

impl Head {
    /// The two bytes; a length beyond 8191 is cut: callers have looked before.
    #[must_use]
    pub const fn emit(self) -> [u8; STREAM_HEADER_BYTES] {
        (self.kind.code() << 13 | self.bytes & FRAGMENT_BYTES_MAX).to_le_bytes()
    }

    /// Reads the two bytes.
    ///
    /// # Errors
    /// No message has them.
    pub const fn parse(bytes: [u8; STREAM_HEADER_BYTES]) -> Result<Self, BadHead> {
        let bits = u16::from_le_bytes(bytes);
        let bytes = bits & FRAGMENT_BYTES_MAX;
        match Kind::of(bits >> 13) {
            Some(kind) if kind.carries_fragment() == (bytes > 0) => Ok(Self { kind, bytes }),
            Some(_) | None => Err(BadHead),
        }
    }
}

/// One message of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is.
    pub kind: Kind,
    /// To whom.
    pub destination: LinkAddress,
    /// From whom.
    pub source: LinkAddress,
    /// Its fragment; empty where its kind has none.
    pub fragment: &'a [u8],
}

impl<'a> Message<'a> {
    /// The message that a datagram begins with, and how many bytes it has. None: it has no message there.
    #[must_use]
    pub fn parse(datagram: &'a [u8]) -> Option<(Self, usize)> {
        let mut cursor = Cursor::new(datagram);
        if cursor.u8() != Ok(DATAGRAM_START) {
            return None;
        }
        let head = Head::parse(cursor.array().ok()?).ok()?;
        let destination = LinkAddress::new(cursor.u16_le().ok()?);
        let source = LinkAddress::new(cursor.u16_le().ok()?);
        let fragment = cursor.take(usize::from(head.bytes)).ok()?;
        Some((Self { kind: head.kind, destination, source, fragment }, datagram.len() - cursor.left()))
    }

    /// The bytes before the fragment.
    #[must_use]
    pub const fn header(head: Head, destination: LinkAddress, source: LinkAddress) -> [u8; DATAGRAM_HEADER_BYTES] {
        let [k1, k2] = head.emit();
        let ([d1, d2], [s1, s2]) = (destination.raw().to_le_bytes(), source.raw().to_le_bytes());
        [DATAGRAM_START, k1, k2, d1, d2, s1, s2]
    }
}

#[cfg(test)]
mod tests;
