//! The data of a message: values, and structures and arrays of them. A view: nothing is copied.

use crate::ber::{self, BerError};
use crate::time::UtcTime;

/// Structures in structures that are taken.
pub const DEPTH_MAX: usize = 8;

pub(crate) const ARRAY: u8 = 0xA1;
pub(crate) const STRUCTURE: u8 = 0xA2;
pub(crate) const BOOLEAN: u8 = 0x83;
pub(crate) const BIT_STRING: u8 = 0x84;
pub(crate) const INTEGER: u8 = 0x85;
pub(crate) const UNSIGNED: u8 = 0x86;
pub(crate) const FLOAT: u8 = 0x87;
pub(crate) const OCTET_STRING: u8 = 0x89;
pub(crate) const VISIBLE_STRING: u8 = 0x8A;
const GENERALIZED_TIME: u8 = 0x8B;
pub(crate) const BINARY_TIME: u8 = 0x8C;
const BCD: u8 = 0x8D;
const BOOLEAN_ARRAY: u8 = 0x8E;
const OBJECT_ID: u8 = 0x8F;
pub(crate) const MMS_STRING: u8 = 0x90;
pub(crate) const UTC_TIME: u8 = 0x91;

/// Bits of the exponent, which stand before a number of 4 bytes, and of 8.
pub(crate) const EXPONENT_32: u8 = 8;
pub(crate) const EXPONENT_64: u8 = 11;

/// One value, structure or array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Data<'a> {
    /// Values of one type.
    Array(Members<'a>),
    /// Values of any types.
    Structure(Members<'a>),
    /// True or false.
    Boolean(bool),
    /// Bits, such as those of a quality or a double-point position.
    BitString(Bits<'a>),
    /// A signed number.
    Integer(i64),
    /// An unsigned number.
    Unsigned(u64),
    /// A number of 4 bytes.
    Float32(f32),
    /// A number of 8 bytes.
    Float64(f64),
    /// Bytes.
    Octets(&'a [u8]),
    /// A text of ASCII.
    VisibleString(&'a str),
    /// A text of UTF-8.
    MmsString(&'a str),
    /// A moment.
    UtcTime(UtcTime),
    /// A time of day, of 4 bytes, and a day, of 6.
    BinaryTime(&'a [u8]),
    /// Of a type that MMS has and IEC 61850 does not map values to: its tag, and its content.
    Other(u8, &'a [u8]),
}

/// Bits, the first of which is the most significant of the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    unused: u8,
}

impl<'a> Bits<'a> {
    fn parse(content: &'a [u8]) -> Option<Self> {
        let (unused, bytes) = content.split_first()?;
        let is_legal = *unused < 8 && (*unused == 0 || !bytes.is_empty());
        is_legal.then_some(Self { bytes, unused: *unused })
    }

    /// How many.
    #[must_use]
    pub const fn count(self) -> usize {
        (self.bytes.len() * 8).saturating_sub(self.unused as usize)
    }

    /// The bit at a place from 0; false behind the last one.
    #[must_use]
    pub fn is_set(self, at: usize) -> bool {
        let byte = self.bytes.get(at / 8).filter(|_| at < self.count());
        byte.is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0)
    }

    /// As a number whose least significant bit is the last bit; none of more than 63.
    #[must_use]
    pub fn number(self) -> Option<i64> {
        let is_short = self.count() < 64;
        is_short.then(|| (0..self.count()).fold(0, |number, at| number << 1 | i64::from(self.is_set(at))))
    }
}

/// The members of a structure, of an array, or of a data set. They were read once: none is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members<'a>(&'a [u8]);

impl<'a> Members<'a> {
    /// Reads them all, and what is in them; with how many there are.
    pub(crate) fn parse(content: &'a [u8]) -> Result<(Self, u32), BerError> {
        Ok((Self(content), check(content, DEPTH_MAX)?))
    }

    /// As they were sent.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// What stands at a path.
    #[must_use]
    pub fn find(self, path: &crate::Path) -> Option<Data<'a>> {
        let (mut members, mut found) = (Some(self), None);
        for place in path.places() {
            found = members?.nth(usize::from(*place).checked_sub(1)?);
            members = match found? {
                Data::Array(members) | Data::Structure(members) => Some(members),
                _ => None,
            };
        }
        found
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Data<'a>;

    fn next(&mut self) -> Option<Data<'a>> {
        let (tag, content) = ber::take(&mut self.0).ok()?;
        value(tag, content).ok()
    }
}

/// Counts elements, once all of them were read.
fn check(mut rest: &[u8], depth: usize) -> Result<u32, BerError> {
    let deeper = depth.checked_sub(1).ok_or(BerError::Depth)?;
    let mut count = 0;
    while !rest.is_empty() {
        let (tag, content) = ber::take(&mut rest)?;
        if matches!(tag, ARRAY | STRUCTURE) {
            check(content, deeper)?;
        } else {
            value(tag, content)?;
        }
        count += 1;
    }
    Ok(count)
}

fn value(tag: u8, content: &[u8]) -> Result<Data<'_>, BerError> {
    let wrong = BerError::Content(tag);
    Ok(match tag {
        ARRAY => Data::Array(Members(content)),
        STRUCTURE => Data::Structure(Members(content)),
        BOOLEAN => Data::Boolean(ber::boolean(tag, content)?),
        BIT_STRING => Data::BitString(Bits::parse(content).ok_or(wrong)?),
        INTEGER => Data::Integer(ber::signed(tag, content)?),
        UNSIGNED => Data::Unsigned(ber::unsigned(tag, content)?),
        FLOAT => float(content).ok_or(wrong)?,
        OCTET_STRING => Data::Octets(content),
        VISIBLE_STRING => Data::VisibleString(ber::text(tag, content)?),
        MMS_STRING => Data::MmsString(ber::text(tag, content)?),
        UTC_TIME => Data::UtcTime(UtcTime::from_bytes(content).ok_or(wrong)?),
        BINARY_TIME if matches!(content.len(), 4 | 6) => Data::BinaryTime(content),
        BINARY_TIME => return Err(wrong),
        GENERALIZED_TIME | BCD | BOOLEAN_ARRAY | OBJECT_ID => Data::Other(tag, content),
        _ => return Err(BerError::Unknown(tag)),
    })
}

fn float(content: &[u8]) -> Option<Data<'_>> {
    let (exponent, bytes) = content.split_first()?;
    match *exponent {
        EXPONENT_32 => Some(Data::Float32(f32::from_be_bytes(bytes.try_into().ok()?))),
        EXPONENT_64 => Some(Data::Float64(f64::from_be_bytes(bytes.try_into().ok()?))),
        _ => None,
    }
}
