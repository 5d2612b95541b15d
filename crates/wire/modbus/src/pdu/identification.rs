//! Who a device is: objects of text, read as a stream in pages or one by one (Application Protocol 6.21).

use super::{Mismatch, PDU_BYTES_MAX, low_byte};
use crate::ExceptionCode;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use tieline_core::Cursor;

/// Bytes of a page before its objects: function, interface, read code, conformity, more, next object, objects.
const PAGE_HEADER_BYTES: usize = 7;
/// Bytes of the longest object, which fills a page alone.
pub const OBJECT_BYTES_MAX: usize = PDU_BYTES_MAX - PAGE_HEADER_BYTES - 2;
/// The first objects of the regular and of the extended category.
const REGULAR: u8 = 0x03;
const EXTENDED: u8 = 0x80;

/// Which objects are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadCode {
    /// 1: vendor, product code, revision, as a stream.
    Basic,
    /// 2: the basic ones, URL, product name, model, application name, as a stream.
    Regular,
    /// 3: all, those of the vendor too, as a stream.
    Extended,
    /// 4: one object.
    Individual,
}

impl ReadCode {
    /// What a code means.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Basic),
            2 => Some(Self::Regular),
            3 => Some(Self::Extended),
            4 => Some(Self::Individual),
            _ => None,
        }
    }

    /// The code on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Basic => 1,
            Self::Regular => 2,
            Self::Extended => 3,
            Self::Individual => 4,
        }
    }
}

/// One object: ASCII text in those of the standard, anything in those of the vendor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityObject {
    /// 0 vendor name, 1 product code, 2 revision, 3 vendor URL, 4 product name, 5 model name, 6 application name.
    pub id: u8,
    /// At most [`OBJECT_BYTES_MAX`] bytes.
    pub value: Box<[u8]>,
}

/// One page of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identification {
    /// What the device supports: 1 basic, 2 regular, 3 extended; with bit 7, single objects too.
    pub conformity: u8,
    /// The object to ask for next; none after the last page.
    pub next: Option<u8>,
    /// In the order of the device.
    pub objects: Vec<IdentityObject>,
}

/// The flag that more objects follow.
const MORE: u8 = 0xFF;

impl Identification {
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, Mismatch> {
        let (conformity, more, next, count) = (cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?);
        let next = match more {
            0 => None,
            MORE => Some(next),
            _ => return Err(Mismatch::Identification),
        };
        let mut objects = Vec::new();
        for _ in 0..count {
            let (id, bytes) = (cursor.u8()?, cursor.u8()?);
            objects.push(IdentityObject { id, value: cursor.take(usize::from(bytes))?.into() });
        }
        Ok(Self { conformity, next, objects })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let more = if self.next.is_some() { MORE } else { 0 };
        out.extend([self.conformity, more, self.next.unwrap_or(0), low_byte(self.objects.len())]);
        for object in &self.objects {
            out.extend([object.id, low_byte(object.value.len())]);
            out.extend_from_slice(&object.value);
        }
    }
}

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity(BTreeMap<u8, Box<[u8]>>);

impl Identity {
    /// With the three objects that every device has.
    #[must_use]
    pub fn new(vendor_name: &str, product_code: &str, revision: &str) -> Self {
        let mut identity = Self::default();
        for (id, text) in [(0, vendor_name), (1, product_code), (2, revision)] {
            identity.set(id, text.as_bytes());
        }
        identity
    }

    /// Sets an object, cut to [`OBJECT_BYTES_MAX`] bytes.
    pub fn set(&mut self, id: u8, value: &[u8]) {
        self.0.insert(id, value.iter().take(OBJECT_BYTES_MAX).copied().collect());
    }

    /// The page that answers a request. A stream that begins with an unknown object begins with the first.
    ///
    /// # Errors
    /// There is no such object, or no identification at all.
    pub fn page(&self, code: ReadCode, object: u8) -> Result<Identification, ExceptionCode> {
        let last = *self.0.last_key_value().ok_or(ExceptionCode::ILLEGAL_FUNCTION)?.0;
        let conformity = 0x80 | (1 + u8::from(last >= REGULAR) + u8::from(last >= EXTENDED));
        let end = match code {
            ReadCode::Basic => REGULAR - 1,
            ReadCode::Regular => EXTENDED - 1,
            ReadCode::Extended => u8::MAX,
            ReadCode::Individual => {
                let value = self.0.get(&object).ok_or(ExceptionCode::ILLEGAL_DATA_ADDRESS)?.clone();
                return Ok(Identification {
                    conformity,
                    next: None,
                    objects: [IdentityObject { id: object, value }].into(),
                });
            }
        };
        let start = if object <= end && self.0.contains_key(&object) { object } else { 0 };
        let (mut objects, mut next, mut bytes) = (Vec::new(), None, PAGE_HEADER_BYTES);
        for (id, value) in self.0.range(start..=end) {
            bytes += 2 + value.len();
            if bytes > PDU_BYTES_MAX {
                next = Some(*id);
                break;
            }
            objects.push(IdentityObject { id: *id, value: value.clone() });
        }
        Ok(Identification { conformity, next, objects })
    }
}
