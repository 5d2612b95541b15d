//! BER of ASN.1 as far as GOOSE has it: tags of one byte, definite lengths.
//!
//! ```text
//!  tag 1 | length: 0 to 127, or 0x81 and one byte, or 0x82 and two | content
//! ```

use alloc::vec::Vec;
use core::fmt;

/// Why bytes are no element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BerError {
    /// They end before the element does.
    Truncated,
    /// A length that has no end, or of more than two bytes.
    Length(u8),
    /// Another tag than the one that is expected here.
    Tag {
        /// What stands there.
        found: u8,
        /// What the standard has there.
        expected: u8,
    },
    /// A tag that no data have.
    Unknown(u8),
    /// Content that the type of this tag does not have.
    Content(u8),
    /// Structures in structures, more than are taken.
    Depth,
}

impl fmt::Display for BerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "an element that ends too early"),
            Self::Length(found) => write!(f, "a length that begins with {found:#04x}, expected at most two bytes"),
            Self::Tag { found, expected } => write!(f, "the tag {found:#04x}, expected {expected:#04x}"),
            Self::Unknown(found) => write!(f, "the tag {found:#04x}, expected that of data"),
            Self::Content(tag) => write!(f, "content that an element with the tag {tag:#04x} cannot have"),
            Self::Depth => write!(f, "structures in structures, expected {} at most", crate::DEPTH_MAX),
        }
    }
}

impl core::error::Error for BerError {}

/// Takes an element: its tag and its content.
pub(crate) fn take<'a>(rest: &mut &'a [u8]) -> Result<(u8, &'a [u8]), BerError> {
    let (tag, length, behind) = match *rest {
        [tag, length @ 0..=0x7F, behind @ ..] => (*tag, usize::from(*length), behind),
        [tag, 0x81, length, behind @ ..] => (*tag, usize::from(*length), behind),
        [tag, 0x82, high, low, behind @ ..] => (*tag, usize::from(u16::from_be_bytes([*high, *low])), behind),
        [_, 0x81 | 0x82, ..] | [_] | [] => return Err(BerError::Truncated),
        [_, length, ..] => return Err(BerError::Length(*length)),
    };
    let (content, behind) = behind.split_at_checked(length).ok_or(BerError::Truncated)?;
    *rest = behind;
    Ok((tag, content))
}

/// The tag of the next element.
pub(crate) fn peek(rest: &[u8]) -> Option<u8> {
    rest.first().copied()
}

/// Takes the content of an element with this tag.
pub(crate) fn expect<'a>(rest: &mut &'a [u8], expected: u8) -> Result<&'a [u8], BerError> {
    match peek(rest) {
        Some(found) if found != expected => Err(BerError::Tag { found, expected }),
        Some(_) | None => take(rest).map(|(_, content)| content),
    }
}

/// The number of an unsigned field. Devices write it with and without a zero in front, and at fixed lengths.
pub(crate) fn unsigned(tag: u8, content: &[u8]) -> Result<u64, BerError> {
    let zeros = content.iter().take_while(|byte| **byte == 0).count();
    let digits = content.get(zeros..).unwrap_or_default();
    if content.is_empty() || digits.len() > 8 || content.len() > 9 {
        return Err(BerError::Content(tag));
    }
    Ok(digits.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// The number of a signed field.
pub(crate) fn signed(tag: u8, content: &[u8]) -> Result<i64, BerError> {
    let Some(first) = content.first().filter(|_| content.len() <= 8) else { return Err(BerError::Content(tag)) };
    let sign = if first & 0x80 == 0 { 0 } else { -1 };
    Ok(content.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
}

/// A field of 32 bits.
pub(crate) fn unsigned_32(tag: u8, content: &[u8]) -> Result<u32, BerError> {
    u32::try_from(unsigned(tag, content)?).map_err(|_| BerError::Content(tag))
}

/// True or false.
pub(crate) fn boolean(tag: u8, content: &[u8]) -> Result<bool, BerError> {
    match content {
        [byte] => Ok(*byte != 0),
        _ => Err(BerError::Content(tag)),
    }
}

/// A text.
pub(crate) fn text(tag: u8, content: &[u8]) -> Result<&str, BerError> {
    core::str::from_utf8(content).map_err(|_| BerError::Content(tag))
}

/// Appends an element with what `write` appends as its content.
pub(crate) fn emit(tag: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let start = out.len();
    write(out);
    let length = out.len() - start;
    let [.., high, low] = length.to_be_bytes();
    match length {
        0..=0x7F => out.insert(start, low),
        0x80..=0xFF => drop(out.splice(start..start, [0x81, low])),
        _ => drop(out.splice(start..start, [0x82, high, low])),
    }
}

/// Appends an unsigned number, with a zero in front where it would look negative.
pub(crate) fn emit_unsigned(tag: u8, number: u64, out: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count().min(7);
    let digits = bytes.get(zeros..).unwrap_or_default();
    let needs_zero = digits.first().is_some_and(|first| first & 0x80 != 0);
    emit(tag, out, |out| {
        out.extend(needs_zero.then_some(0));
        out.extend_from_slice(digits);
    });
}

/// Appends a signed number as short as can be.
pub(crate) fn emit_signed(tag: u8, number: i64, out: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let mut digits = bytes.as_slice();
    while let [first, behind @ ..] = digits
        && let [next, ..] = behind
        && ((*first == 0 && next & 0x80 == 0) || (*first == 0xFF && next & 0x80 != 0))
    {
        digits = behind;
    }
    emit(tag, out, |out| out.extend_from_slice(digits));
}
