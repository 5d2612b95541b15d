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
    /// 1009: a message is longer than is taken.
    TooBig,
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
            Self::TooBig => 1009,
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

/// What stands in front of a payload; the mask of a server's is 0.
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
    /// Takes one byte; the head when it was the last. Clients mask their frames, servers do not.
    pub(crate) fn push(&mut self, byte: u8, masked: bool) -> Result<Option<Head>, CloseCode> {
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
        // Section 5.1: a client masks, a server does not. Section 5.5: control frames are short and whole.
        if (second & 0x80 != 0) != masked || (opcode.is_control() && (short > 125 || !is_last)) {
            return Err(CloseCode::Protocol);
        }
        let (extended, min) = match short {
            126 => (2, 126),
            127 => (8, 65_536),
            _ => (0, 0),
        };
        if self.count < 2 + extended + if masked { 4 } else { 0 } {
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
        let mask = if masked { key.first_chunk().copied().unwrap_or_default() } else { [0; 4] };
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

/// The head of a whole frame of a client, and its length; its last four bytes are for the mask.
pub(crate) fn masked_header(bytes: usize) -> ([u8; HEAD_BYTES_MAX], usize) {
    let (plain, count) = header(bytes);
    let mut head = [0; HEAD_BYTES_MAX];
    for (place, byte) in head.iter_mut().zip(plain.iter().take(count)) {
        *place = *byte;
    }
    if let Some(second) = head.get_mut(1) {
        *second |= 0x80;
    }
    (head, count + 4)
}

/// Puts a mask on a payload (section 5.3).
pub(crate) fn mask(bytes: &mut [u8], key: [u8; 4]) {
    let word = u32::from_ne_bytes(key);
    let mut fours = bytes.chunks_exact_mut(4);
    for four in fours.by_ref() {
        if let Ok(plain) = <[u8; 4]>::try_from(&*four) {
            four.copy_from_slice(&(u32::from_ne_bytes(plain) ^ word).to_ne_bytes());
        }
    }
    for (byte, key) in fours.into_remainder().iter_mut().zip(key) {
        *byte ^= key;
    }
}

/// Appends a whole frame of the server.
pub(crate) fn push(opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) {
    let (head, count) = head_of(opcode, payload.len());
    out.extend(head.iter().take(count));
    out.extend_from_slice(payload);
}
