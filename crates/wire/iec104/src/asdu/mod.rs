//! Application data (IEC 60870-5-101 7.2, with the sizes that 60870-5-104 fixes: cause 2, common address 2, object address 3).
//!
//! ```text
//! type 1   SQ 1 bit, count 7 bits   T P/N cause 6 bits   originator 1   common address 2   objects
//!
//! SQ 0: (object address 3   element   time 0, 3 or 7) × count
//! SQ 1:  object address 3  (element   time 0, 3 or 7) × count, each at the address after the one before
//! ```
//!
//! [`Asdu`] is a view whose objects are known to be whole; [`emit`] writes one.

mod cause;
mod element;
mod flags;
mod time;
mod types;

pub use cause::{Cause, CauseCode};
pub use element::{Element, Qualifier};
pub use flags::Flags;
pub use time::{Cp24, Cp56, TimeTag};
pub use types::{Form, Layout, TimeForm, TypeId};

use crate::apdu::ASDU_BYTES_MAX;
use alloc::vec::Vec;
use core::fmt;
use tieline_core::{Cursor, Truncated};

/// Objects of one ASDU: their number has 7 bits.
pub const OBJECTS_MAX: usize = 127;
/// The highest address of an information object: 24 bits.
pub const ADDRESS_MAX: u32 = 0x00FF_FFFF;

const HEADER_BYTES: usize = 6;
const ADDRESS_BYTES: usize = 3;
const SEQUENCE_BIT: u8 = 0x80;

/// The address of an information object, 24 bits; 0 where it means nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(u32);

impl Address {
    /// None above [`ADDRESS_MAX`].
    #[must_use]
    pub const fn new(raw: u32) -> Option<Self> {
        if raw <= ADDRESS_MAX { Some(Self(raw)) } else { None }
    }

    /// As a number.
    #[must_use]
    pub const fn raw(self) -> u32 {
        self.0
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Truncated> {
        let [a, b, c] = cursor.array()?;
        Ok(Self(u32::from_le_bytes([a, b, c, 0])))
    }

    fn write(self, out: &mut Vec<u8>) {
        let [a, b, c, _] = self.0.to_le_bytes();
        out.extend_from_slice(&[a, b, c]);
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What all objects of an ASDU share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What they are.
    pub type_id: TypeId,
    /// Whether they have one address together and lie one after the other (SQ).
    pub is_sequence: bool,
    /// Why they are sent.
    pub cause: Cause,
    /// Of which station, or part of one; 65535 is all.
    pub common_address: u16,
}

impl Header {
    /// The common address of all stations.
    pub const BROADCAST: u16 = 0xFFFF;

    /// Reads the header, the number of objects, and the bytes of the objects.
    ///
    /// # Errors
    /// Bytes are missing.
    pub fn parse(asdu: &[u8]) -> Result<(Self, usize, &[u8]), AsduError> {
        let mut cursor = Cursor::new(asdu);
        let mut read = || {
            let (type_id, count) = (TypeId(cursor.u8()?), cursor.u8()?);
            let cause = Cause::from_bytes(cursor.array()?);
            let (is_sequence, common_address) = (count & SEQUENCE_BIT != 0, cursor.u16_le()?);
            let header = Self { type_id, is_sequence, cause, common_address };
            Ok((header, usize::from(count & !SEQUENCE_BIT)))
        };
        let (header, count) = read().map_err(|_: Truncated| AsduError::Header)?;
        Ok((header, count, cursor.rest()))
    }

    fn write(&self, count: u8, out: &mut Vec<u8>) {
        let sequence = if self.is_sequence { SEQUENCE_BIT } else { 0 };
        out.extend_from_slice(&[self.type_id.0, sequence | count]);
        out.extend_from_slice(&self.cause.to_bytes());
        out.extend_from_slice(&self.common_address.to_le_bytes());
    }
}

/// An information object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Object {
    /// Where it is.
    pub address: Address,
    /// What it says.
    pub element: Element,
    /// When it was so.
    pub time: TimeTag,
}

/// Why bytes are no ASDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AsduError {
    /// Bytes of the header are missing.
    Header,
    /// A type that is not known here; the header can be read ([`Header::parse`]).
    Type(TypeId),
    /// There is no object.
    Empty,
    /// The objects need another number of bytes than there are.
    Length {
        /// What they need.
        needed: usize,
        /// What is there.
        found: usize,
    },
    /// A sequence that goes beyond the last address.
    Address,
}

impl AsduError {
    /// A stable word in `snake_case`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Type(_) => "type",
            Self::Empty => "empty",
            Self::Length { .. } => "length",
            Self::Address => "address",
        }
    }
}

impl fmt::Display for AsduError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => write!(f, "an ASDU of fewer than {HEADER_BYTES} bytes"),
            Self::Type(type_id) => write!(f, "an ASDU of type {type_id}, which is not known here"),
            Self::Empty => f.write_str("an ASDU without objects, expected 1 to 127"),
            Self::Length { needed, found } => write!(f, "objects of {found} bytes, expected {needed}"),
            Self::Address => write!(f, "objects beyond address {ADDRESS_MAX}"),
        }
    }
}

impl core::error::Error for AsduError {}

/// An ASDU that was read: its objects are whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asdu<'a> {
    /// What its objects share.
    pub header: Header,
    layout: Layout,
    count: usize,
    objects: &'a [u8],
}

impl<'a> Asdu<'a> {
    /// Reads an ASDU, all of it.
    ///
    /// # Errors
    /// Its type is not known, or its length is not that of its objects.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, AsduError> {
        let (header, count, objects) = Header::parse(bytes)?;
        let layout = header.type_id.layout().ok_or(AsduError::Type(header.type_id))?;
        if count == 0 {
            return Err(AsduError::Empty);
        }
        let size = layout.bytes();
        let needed = if header.is_sequence { ADDRESS_BYTES + count * size } else { count * (ADDRESS_BYTES + size) };
        if needed != objects.len() {
            return Err(AsduError::Length { needed, found: objects.len() });
        }
        let asdu = Self { header, layout, count, objects };
        let last = Address::read(&mut Cursor::new(objects)).map_or(0, Address::raw) as usize + count - 1;
        if header.is_sequence && last > ADDRESS_MAX as usize {
            return Err(AsduError::Address);
        }
        Ok(asdu)
    }

    /// What its objects are.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// How many objects it has, at least one.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Its objects.
    pub fn objects(&self) -> impl Iterator<Item = Object> + use<'a> {
        let (mut cursor, mut next) = (Cursor::new(self.objects), None::<Address>);
        let (is_sequence, layout) = (self.header.is_sequence, self.layout);
        core::iter::from_fn(move || {
            if cursor.is_empty() {
                return None;
            }
            let address = match next.filter(|_| is_sequence) {
                Some(address) => address,
                None => Address::read(&mut cursor).ok()?,
            };
            next = Some(Address(address.0 + 1));
            let element = Element::read(layout.form, &mut cursor).ok()?;
            let time = TimeTag::read(layout.time, &mut cursor).ok()?;
            Some(Object { address, element, time })
        })
        .take(self.count)
    }
}

/// Why an ASDU cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EmitError {
    /// A type that is not known here.
    Type(TypeId),
    /// There is no object, there are more than 127, or their bytes are more than one ASDU takes.
    Count(usize),
    /// An object that is none of the type, or has another kind of time.
    Object,
    /// A sequence whose addresses do not follow one after the other.
    Address,
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(type_id) => write!(f, "type {type_id} is not known here"),
            Self::Count(count) => write!(f, "{count} objects, expected 1 to as many as fit in {ASDU_BYTES_MAX} bytes"),
            Self::Object => f.write_str("an object that does not fit its type"),
            Self::Address => f.write_str("a sequence of objects whose addresses do not follow one after the other"),
        }
    }
}

impl core::error::Error for EmitError {}

/// Appends an ASDU.
///
/// # Errors
/// It is none; nothing is appended then.
pub fn emit(header: &Header, objects: &[Object], out: &mut Vec<u8>) -> Result<(), EmitError> {
    let layout = header.type_id.layout().ok_or(EmitError::Type(header.type_id))?;
    let too_many = EmitError::Count(objects.len());
    let count = u8::try_from(objects.len()).ok().filter(|count| (1..=127).contains(count)).ok_or(too_many)?;
    let fits = |object: &Object| object.element.form() == layout.form && object.time.form() == layout.time;
    if !objects.iter().all(fits) {
        return Err(EmitError::Object);
    }
    let pairs = objects.iter().zip(objects.iter().skip(1));
    if header.is_sequence && pairs.into_iter().any(|(one, next)| one.address.0 + 1 != next.address.0) {
        return Err(EmitError::Address);
    }
    let start = out.len();
    header.write(count, out);
    for (at, object) in objects.iter().enumerate() {
        if at == 0 || !header.is_sequence {
            object.address.write(out);
        }
        object.element.write(out);
        object.time.write(out);
    }
    if out.len() - start > ASDU_BYTES_MAX {
        out.truncate(start);
        return Err(too_many);
    }
    Ok(())
}
