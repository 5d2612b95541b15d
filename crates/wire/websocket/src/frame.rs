//! Frames (RFC 6455 section 5.2), byte by byte.
//!
//! ```text
//!  byte 1                  byte 2                  0, 2 or 8 bytes     4 bytes (of clients)   payload
//! +-----+-----+----------+ +------+---------------+ +------------------+ +---------------------+ +----
//! | FIN | RSV | opcode 4 | | MASK | length 7      | | length, where    | | masking key         | | …
//! |  1  |  3  |          | |  1   | 126: 2, 127: 8| | it is longer     | |                     | |
//! +-----+-----+----------+ +------+---------------+ +------------------+ +---------------------+ +----
//! ```

use alloc::vec::Vec;

/// Why a connection is closed (section 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCode {
    /// 1000: the purpose is fulfilled.
    Normal,
    /// 1002: a rule of the protocol was broken.
    Protocol,
    /// 1003: a text, where none is taken.
    Unsupported,
    /// 1007: a text, or the reason of a close, is not UTF-8.
    Payload,
}

impl CloseCode {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Normal => 1000,
            Self::Protocol => 1002,
            Self::Unsupported => 1003,
            Self::Payload => 1007,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    pub(crate) const fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    pub(crate) const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// What stands in front of a client's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) is_last: bool,
    pub(crate) opcode: Opcode,
    pub(crate) bytes: u64,
    pub(crate) mask: [u8; 4],
}

/// The longest head: two bytes, a length of eight, a key of four.
pub(crate) const HEAD_BYTES_MAX: usize = 14;

/// A head that arrives byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heading {
    bytes: [u8; HEAD_BYTES_MAX],
    count: usize,
}

impl Heading {
    /// Takes one byte; the head when it was the last.
    pub(crate) fn push(&mut self, byte: u8) -> Result<Option<Head>, CloseCode> {
        if let Some(place) = self.bytes.get_mut(self.count) {
            *place = byte;
            self.count += 1;
        }
        let [first, second, rest @ ..] = &self.bytes;
        let (flags, bits) = (first >> 4, first & 15);
        let opcode = Opcode::from_bits(bits).ok_or(CloseCode::Protocol)?;
        // No extension was agreed on: the reserved bits are 0 (section 5.2).
        if flags & 7 != 0 {
            return Err(CloseCode::Protocol);
        }
        let is_last = flags & 8 != 0;
        if self.count < 2 {
            return Ok(None);
        }
        let short = second & 0x7F;
        // Section 5.1: a client masks. Section 5.5: control frames are short and whole.
        if second & 0x80 == 0 || (opcode.is_control() && (short > 125 || !is_last)) {
            return Err(CloseCode::Protocol);
        }
        let (extended, min) = match short {
            126 => (2, 126),
            127 => (8, 65_536),
            _ => (0, 0),
        };
        if self.count < 2 + extended + 4 {
            return Ok(None);
        }
        let (length, key) = rest.split_at_checked(extended).unwrap_or_default();
        let bytes = match extended {
            0 => u64::from(short),
            _ => length.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
        };
        // Section 5.2: the fewest bytes, and the highest bit is 0.
        if bytes < min || bytes >> 63 != 0 {
            return Err(CloseCode::Protocol);
        }
        let mask = key.first_chunk().copied().unwrap_or_default();
        Ok(Some(Head { is_last, opcode, bytes, mask }))
    }
}

/// The head of a whole frame of the server, and its length: any binary frame can be shared by all clients, for a
/// server masks nothing.
#[must_use]
pub fn header(bytes: usize) -> ([u8; 10], usize) {
    head_of(Opcode::Binary, bytes)
}

fn head_of(opcode: Opcode, bytes: usize) -> ([u8; 10], usize) {
    let first = 0x80 | opcode.bits();
    let long = u64::try_from(bytes).unwrap_or(u64::MAX).to_be_bytes();
    let [.., high, low] = long;
    let mut head = [first, low, 0, 0, 0, 0, 0, 0, 0, 0];
    match bytes {
        0..126 => (head, 2),
        126..65_536 => ([first, 126, high, low, 0, 0, 0, 0, 0, 0], 4),
        _ => {
            let (start, rest) = head.split_at_mut(2);
            start.copy_from_slice(&[first, 127]);
            rest.copy_from_slice(&long);
            (head, 10)
        }
    }
}

/// Appends a whole frame of the server.
pub(crate) fn push(opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) {
    let (head, count) = head_of(opcode, payload.len());
    out.extend(head.iter().take(count));
    out.extend_from_slice(payload);
}
