//! One link frame: a view on checked bytes, and how to write one.

use super::{Control, Function, LinkAddress};
use crate::crc::{self, BLOCK};
use alloc::vec::Vec;
use tieline_core::Cursor;

/// The bytes that begin every frame.
pub(super) const START: [u8; 2] = [0x05, 0x64];
/// Bytes of the header block with its CRC.
pub const HEADER_BYTES: usize = 10;
/// Bytes of user data in one frame at most.
pub const USER_BYTES_MAX: usize = 250;
/// Bytes of a frame at most.
pub const FRAME_BYTES_MAX: usize = 292;
const CRC: usize = 2;
/// What LEN counts besides user data: control, destination, source.
const LENGTH_MIN: u8 = 5;

/// Bytes on the wire of a frame with so many bytes of user data.
#[must_use]
pub const fn frame_bytes(user_bytes: usize) -> usize {
    HEADER_BYTES + user_bytes + user_bytes.div_ceil(BLOCK) * CRC
}

/// The header block without its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Direction, frame count and function.
    pub control: Control,
    /// To whom.
    pub destination: LinkAddress,
    /// From whom.
    pub source: LinkAddress,
}

impl Header {
    /// A header for a function, without frame count.
    #[must_use]
    pub const fn new(from_master: bool, function: Function, destination: LinkAddress, source: LinkAddress) -> Self {
        Self { control: Control::new(from_master, function), destination, source }
    }

    /// Reads a header block and how many bytes of user data follow. The CRC is not looked at.
    pub(super) fn parse(block: &[u8; HEADER_BYTES]) -> Result<(Self, usize), BadLength> {
        let [_, _, length, control, d1, d2, s1, s2, _, _] = *block;
        let user_bytes = length.checked_sub(LENGTH_MIN).ok_or(BadLength)?;
        let header = Self {
            control: Control(control),
            destination: LinkAddress::new(u16::from_le_bytes([d1, d2])),
            source: LinkAddress::new(u16::from_le_bytes([s1, s2])),
        };
        Ok((header, usize::from(user_bytes)))
    }

    /// The header block for so many bytes of user data.
    #[must_use]
    #[inline]
    fn block(self, user_bytes: u8) -> [u8; HEADER_BYTES] {
        let [x, y] = START;
        let ([d1, d2], [s1, s2]) = (self.destination.raw().to_le_bytes(), self.source.raw().to_le_bytes());
        let bytes = [x, y, LENGTH_MIN.saturating_add(user_bytes), self.control.0, d1, d2, s1, s2];
        let [c1, c2] = crc::crc(&bytes).to_le_bytes();
        let [_, _, length, control, ..] = bytes;
        [x, y, length, control, d1, d2, s1, s2, c1, c2]
    }

    /// Appends a frame with this header to `out`. User data beyond [`USER_BYTES_MAX`] bytes is left out: callers
    /// split before.
    pub fn emit(self, user_data: &[u8], out: &mut Vec<u8>) {
        let user_data = user_data.get(..USER_BYTES_MAX).unwrap_or(user_data);
        let start = out.len();
        out.resize(start + frame_bytes(user_data.len()), 0);
        if let Some(room) = out.get_mut(start..) {
            self.emit_into(user_data, room);
        }
    }

    /// Writes a frame to `room`, which has exactly [`frame_bytes`] bytes for at most [`USER_BYTES_MAX`] of user data.
    pub(crate) fn emit_into(self, user_data: &[u8], room: &mut [u8]) {
        debug_assert!(user_data.len() <= USER_BYTES_MAX && room.len() == frame_bytes(user_data.len()));
        let Some((head, body)) = room.split_first_chunk_mut::<HEADER_BYTES>() else { return };
        *head = self.block(u8::try_from(user_data.len()).unwrap_or(u8::MAX));
        let (blocks, last) = user_data.as_chunks::<BLOCK>();
        let (rooms, room) = body.as_chunks_mut::<{ BLOCK + CRC }>();
        for (block, room) in blocks.iter().zip(rooms) {
            let (data, check) = room.split_at_mut(BLOCK);
            data.copy_from_slice(block);
            check.copy_from_slice(&crc::crc_of_block(block).to_le_bytes());
        }
        if let Some((data, check)) = room.split_at_mut_checked(last.len()).filter(|_| !last.is_empty()) {
            data.copy_from_slice(last);
            check.copy_from_slice(&crc::crc(last).to_le_bytes());
        }
    }
}

/// LEN is less than 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadLength;

/// A frame whose CRCs were all checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    header: Header,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame made of exactly these bytes, if they are one: start, length and every CRC are right.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, body) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let (header, user_bytes) = Header::parse(head).ok()?;
        let whole = bytes.starts_with(&START) && bytes.len() == frame_bytes(user_bytes);
        let intact = crc::is_intact(head) && body_is_intact(body);
        (whole && intact).then_some(Self { header, bytes })
    }

    /// The header at the start of the bytes and how many bytes its frame has, where the header is intact.
    pub(crate) fn peek(bytes: &[u8]) -> Option<(Header, usize)> {
        let head = bytes.first_chunk::<HEADER_BYTES>()?;
        let (header, user_bytes) = Header::parse(head).ok()?;
        (head.starts_with(&START) && crc::is_intact(head)).then(|| (header, frame_bytes(user_bytes)))
    }

    /// A frame that the decoder has checked.
    pub(super) const fn checked(header: Header, bytes: &'a [u8]) -> Self {
        Self { header, bytes }
    }

    /// Direction, function and addresses.
    #[must_use]
    pub const fn header(&self) -> Header {
        self.header
    }

    /// The whole frame as it was on the wire.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The blocks of user data, each of 1 to 16 bytes, without their CRCs.
    pub fn blocks(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut cursor = Cursor::new(self.bytes);
        let _ = cursor.take(HEADER_BYTES);
        cursor.rest().chunks(BLOCK + CRC).filter_map(|block| block.split_last_chunk::<CRC>().map(|(data, _)| data))
    }

    /// Appends to `out` the user data behind its first byte, which is the transport function's.
    pub(crate) fn append_segment(&self, out: &mut Vec<u8>) {
        let (blocks, last) = self.bytes.get(HEADER_BYTES..).unwrap_or_default().as_chunks::<{ BLOCK + CRC }>();
        let mut blocks = blocks.iter().filter_map(|block| block.first_chunk::<BLOCK>());
        let mut last = last.split_last_chunk::<CRC>().map_or(&[][..], |(data, _)| data);
        match blocks.next() {
            Some([_, data @ ..]) => out.extend_from_slice(data),
            None => last = last.get(1..).unwrap_or_default(),
        }
        blocks.for_each(|block| out.extend_from_slice(block));
        out.extend_from_slice(last);
    }

    /// Bytes of user data, 0..=250.
    #[must_use]
    pub fn user_bytes(&self) -> usize {
        let body = self.bytes.len().saturating_sub(HEADER_BYTES);
        body - body.div_ceil(BLOCK + CRC) * CRC
    }
}

/// Whether every block of a frame's body is intact.
pub(super) fn body_is_intact(body: &[u8]) -> bool {
    let (blocks, last) = body.as_chunks::<{ BLOCK + CRC }>();
    let is_intact = |block: &[u8; BLOCK + CRC]| {
        let (data, sent) = block.split_first_chunk().unwrap_or((&[0; BLOCK], &[]));
        crc::crc_of_block(data).to_le_bytes() == *sent
    };
    blocks.iter().all(is_intact) && (last.is_empty() || crc::is_intact(last))
}
