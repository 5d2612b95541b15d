//! What follows the first byte: the CRC-32 where it is due, one delta, or several.
//!
//! ```text
//! whole     [header, revision of the value][value]
//! same      [header, base][crc]                                          base + 1
//! delta     [header, base][own codec's number][crc][delta]               base + 1
//! several   [header, base][varint count][crc][codec, varint length, delta]…   base + count
//!
//! crc       CRC-32 of the value that comes out, low byte first; there where its revision is 0 modulo 32, and in a
//!           `several` of count 0, which says that the value is still that of `base`
//! ```

use crate::{CodecId, DeltaError, Header, Kind, Low, Revision};
use alloc::vec::Vec;
use bytes::Bytes;
use tieline_core::Cursor;
use tieline_core::varint;

/// The most updates in one `several`.
pub const SEVERAL_MAX: u8 = 31;

/// A payload to send: a first byte, where it is not part of `body`, and the rest. Whole values share their memory with
/// the topic that way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Goes out before `body`.
    pub head: Option<u8>,
    /// The rest.
    pub body: Bytes,
}

impl Payload {
    /// Bytes of both.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a payload has a header")]
    pub fn len(&self) -> usize {
        usize::from(self.head.is_some()) + self.body.len()
    }

    /// Appends both.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.head);
        out.extend_from_slice(&self.body);
    }

    /// Both in one piece.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        if self.head.is_none() {
            return self.body.clone();
        }
        let mut out = Vec::with_capacity(self.len());
        self.write(&mut out);
        out.into()
    }
}

/// Bytes, whole.
pub(crate) fn whole_bytes(revision: Revision, value: &Bytes) -> Payload {
    Payload { head: Some(revision.low().bits()), body: value.clone() }
}

/// Starts a payload: header, and CRC-32 where one is due. The value's CRC-32 is asked for only then.
pub(crate) fn start(out: &mut Vec<u8>, kind: Kind, base: Revision, crc: impl FnOnce() -> u32) {
    Header { kind, revision: base.low() }.emit(out);
    if base.next().low().is_checked() {
        out.extend_from_slice(&crc().to_le_bytes());
    }
}

/// Starts a `several` of so many updates.
pub(crate) fn start_several(out: &mut Vec<u8>, base: Revision, count: u8, crc: impl FnOnce() -> u32) {
    Header { kind: Kind::Several, revision: base.low() }.emit(out);
    out.push(count);
    if is_several_checked(base.low(), count) {
        out.extend_from_slice(&crc().to_le_bytes());
    }
}

pub(crate) fn put_item(out: &mut Vec<u8>, codec: CodecId, delta: &[u8]) {
    out.push(codec.0);
    varint::put_len(out, delta.len());
    out.extend_from_slice(delta);
}

/// A payload, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// Kind and revision.
    pub header: Header,
    /// How many updates after the header's revision the value is; 0 for whole values.
    pub count: u8,
    /// The CRC-32 of the value that comes out, where it is there.
    pub crc: Option<u32>,
    /// The value, the delta, or the items ([`items`]) of a `several`.
    pub rest: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Takes a payload apart.
    ///
    /// # Errors
    /// It ends too early, or has a number that does not exist.
    pub fn parse(payload: &'a [u8]) -> Result<Self, DeltaError> {
        let mut cursor = Cursor::new(payload);
        let header = Header::parse(&mut cursor)?;
        let (count, checked) = match header.kind {
            Kind::Bytes | Kind::Point => (0, false),
            Kind::Same | Kind::Delta(_) => (1, header.revision.after(1).is_checked()),
            Kind::Several => {
                let count = cursor.u8()?;
                if count > SEVERAL_MAX {
                    return Err(DeltaError::Malformed("more than 31 updates at once"));
                }
                (count, is_several_checked(header.revision, count))
            }
        };
        let crc = if checked { Some(cursor.u32_le()?) } else { None };
        Ok(Self { header, count, crc, rest: cursor.rest() })
    }

    /// The revision of the value that comes out.
    #[must_use]
    pub const fn result(&self) -> Low {
        self.header.revision.after(self.count)
    }
}

const fn is_several_checked(base: Low, count: u8) -> bool {
    count == 0 || base.after(count).is_checked()
}

/// The codecs and deltas of a `several`.
pub fn items(rest: &[u8]) -> impl Iterator<Item = Result<(CodecId, &[u8]), DeltaError>> {
    let mut cursor = Cursor::new(rest);
    core::iter::from_fn(move || {
        if cursor.is_empty() {
            return None;
        }
        let item = item(&mut cursor);
        if item.is_err() {
            cursor = Cursor::new(&[]);
        }
        Some(item)
    })
}

fn item<'a>(cursor: &mut Cursor<'a>) -> Result<(CodecId, &'a [u8]), DeltaError> {
    let codec = CodecId(cursor.u8()?);
    let count = varint::get_len(cursor)?;
    Ok((codec, cursor.take(count)?))
}
