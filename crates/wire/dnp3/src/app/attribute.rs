//! Device attributes: group 0 (IEEE 1815 A.1; data type codes of table 5-16).
//!
//! ```text
//! g0 v<attribute> qualifier 00 <set> <set> | type | length | value       type 255: 256 + length bytes
//! ```

use super::{FragmentWriter, Header, Items, WriteError};
use crate::{DnpTime, GroupVar, objects::bytes_of_time};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use tieline_core::Cursor;

/// The most bytes of a value that is not a list.
pub const ATTRIBUTE_BYTES_MAX: usize = 255;

/// One device attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The set it belongs to: 0 is the standard's, others are a manufacturer's or a user's.
    pub set: u16,
    /// Which attribute of the set, 1 to 253, or [`LIST_OF_ATTRIBUTES`].
    pub variation: u8,
    /// What it says.
    pub value: AttributeValue,
}

/// Reads: every attribute of a set, each as its own object.
pub const ALL_ATTRIBUTES: u8 = 254;

/// Reads: which attributes a set has, as one [`AttributeValue::List`].
pub const LIST_OF_ATTRIBUTES: u8 = 255;

/// What a device attribute says.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// VSTR: visible characters.
    Text(Box<[u8]>),
    /// UINT, of 1, 2, 4 or 8 bytes.
    Unsigned(u64),
    /// INT, of 1, 2, 4 or 8 bytes.
    Signed(i64),
    /// FLT, of 4 or 8 bytes.
    Float(f64),
    /// OSTR: bytes without a meaning of their own.
    Bytes(Box<[u8]>),
    /// BSTR: bits, eight a byte.
    Bits(Box<[u8]>),
    /// TIME.
    Time(DnpTime),
    /// UNCD: characters of Unicode.
    Unicode(Box<[u8]>),
    /// Which attributes there are.
    List(Box<[ListedAttribute]>),
    /// A type code that the standard does not have, or a length that its type cannot have.
    Unknown {
        /// The code.
        code: u8,
        /// The bytes behind the length.
        bytes: Box<[u8]>,
    },
}

/// One attribute of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedAttribute {
    /// Which.
    pub variation: u8,
    /// Its properties: bit 0 says that it can be written.
    pub properties: u8,
}

impl ListedAttribute {
    /// Whether it can be written.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        self.properties & 1 == 1
    }
}

const VSTR: u8 = 1;
const UINT: u8 = 2;
const INT: u8 = 3;
const FLT: u8 = 4;
const OSTR: u8 = 5;
const BSTR: u8 = 6;
const TIME: u8 = 7;
const UNCD: u8 = 8;
const U8BS8LIST: u8 = 254;
const U8BS8EXLIST: u8 = 255;

/// What an extended list adds to its length byte.
const EXTENDED_BYTES: usize = 256;

/// Bytes of the value behind a type code and a length byte.
pub(super) fn value_bytes(code: u8, length: u8) -> usize {
    usize::from(length) + if code == U8BS8EXLIST { EXTENDED_BYTES } else { 0 }
}

impl AttributeValue {
    /// Visible text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(text.as_bytes().into())
    }

    /// Reads an object of group 0: type code, length, value. None when the bytes end before the value does; a code or
    /// a length without a meaning is [`AttributeValue::Unknown`].
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let [code, length] = cursor.array().ok()?;
        let value = cursor.take(value_bytes(code, length)).ok()?;
        let known = match code {
            VSTR => Some(Self::Text(value.into())),
            UINT => unsigned(value).map(Self::Unsigned),
            INT => signed(value).map(Self::Signed),
            FLT => float(value).map(Self::Float),
            OSTR => Some(Self::Bytes(value.into())),
            BSTR => Some(Self::Bits(value.into())),
            TIME => time(value).map(Self::Time),
            UNCD => Some(Self::Unicode(value.into())),
            U8BS8LIST | U8BS8EXLIST => list(value).map(Self::List),
            _ => None,
        };
        Some(known.unwrap_or_else(|| Self::Unknown { code, bytes: value.into() }))
    }

    /// Appends it as an object of group 0. Numbers take the fewest of 1, 2, 4 or 8 bytes; of strings beyond
    /// [`ATTRIBUTE_BYTES_MAX`], the first bytes; of lists, the first 255 attributes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(bytes) => push(out, VSTR, bytes),
            Self::Unsigned(number) => push(out, UINT, narrow(&number.to_le_bytes(), width_of_unsigned(*number))),
            Self::Signed(number) => push(out, INT, narrow(&number.to_le_bytes(), width_of_signed(*number))),
            Self::Float(number) => match single(*number) {
                Some(single) => push(out, FLT, &single.to_le_bytes()),
                None => push(out, FLT, &number.to_le_bytes()),
            },
            Self::Bytes(bytes) => push(out, OSTR, bytes),
            Self::Bits(bytes) => push(out, BSTR, bytes),
            Self::Time(time) => push(out, TIME, &bytes_of_time(*time)),
            Self::Unicode(bytes) => push(out, UNCD, bytes),
            Self::List(listed) => {
                let pairs: Vec<u8> = listed.iter().take(255).flat_map(|one| [one.variation, one.properties]).collect();
                let code = if pairs.len() < EXTENDED_BYTES { U8BS8LIST } else { U8BS8EXLIST };
                push(out, code, &pairs);
            }
            Self::Unknown { code, bytes } => push(out, *code, bytes),
        }
    }

    /// The standard's name of its type.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "VSTR",
            Self::Unsigned(_) => "UINT",
            Self::Signed(_) => "INT",
            Self::Float(_) => "FLT",
            Self::Bytes(_) => "OSTR",
            Self::Bits(_) => "BSTR",
            Self::Time(_) => "TIME",
            Self::Unicode(_) => "UNCD",
            Self::List(_) => "U8BS8LIST",
            Self::Unknown { .. } => "unknown",
        }
    }
}

/// Text in quotes with what is not printable escaped, numbers plain, bytes in hex, lists as `248 247w`.
impl fmt::Display for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(bytes) | Self::Unicode(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
            Self::Unsigned(number) => write!(f, "{number}"),
            Self::Signed(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Time(time) => write!(f, "{}", tieline_core::Timestamp::from(*time)),
            Self::List(listed) => {
                for (position, one) in listed.iter().enumerate() {
                    let space = if position == 0 { "" } else { " " };
                    write!(f, "{space}{}{}", one.variation, if one.is_writable() { "w" } else { "" })?;
                }
                Ok(())
            }
            Self::Bytes(bytes) | Self::Bits(bytes) | Self::Unknown { bytes, .. } => {
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
            }
        }
    }
}

/// The attributes of a header of group 0, one by one.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    object: GroupVar,
    items: Items<'a>,
}

impl<'a> Header<'a> {
    /// The device attributes it brings; none unless it is of group 0 and brings objects.
    #[must_use]
    pub const fn attributes(&self) -> Attributes<'a> {
        Attributes { object: self.object(), items: self.items() }
    }
}

impl Iterator for Attributes<'_> {
    type Item = Attribute;

    fn next(&mut self) -> Option<Attribute> {
        if self.object.group != 0 {
            return None;
        }
        let item = self.items.next()?;
        let value = AttributeValue::decode(item.bytes)?;
        Some(Attribute { set: u16::try_from(item.index).ok()?, variation: self.object.variation, value })
    }
}

impl FragmentWriter<'_> {
    /// Writes one device attribute under a header of its own (qualifier 00, or 01 for sets above 255).
    ///
    /// # Errors
    /// Full.
    pub fn attribute(&mut self, set: u16, variation: u8, value: &AttributeValue) -> Result<(), WriteError> {
        let mut bytes = Vec::new();
        match u8::try_from(set) {
            Ok(set) => bytes.extend_from_slice(&[0, variation, 0x00, set, set]),
            Err(_) => {
                let [low, high] = set.to_le_bytes();
                bytes.extend_from_slice(&[0, variation, 0x01, low, high, low, high]);
            }
        }
        value.encode(&mut bytes);
        self.raw(&bytes)
    }
}

fn unsigned(bytes: &[u8]) -> Option<u64> {
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len()).filter(|low| !low.is_empty())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(wide))
}

fn signed(bytes: &[u8]) -> Option<i64> {
    let negative = bytes.last()? & 0x80 != 0;
    let mut wide = [if negative { 0xFF } else { 0 }; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(wide))
}

fn float(bytes: &[u8]) -> Option<f64> {
    let mut cursor = Cursor::new(bytes);
    match bytes.len() {
        4 => cursor.f32_le().ok().map(f64::from),
        8 => cursor.f64_le().ok(),
        _ => None,
    }
}

fn time(bytes: &[u8]) -> Option<DnpTime> {
    if bytes.len() != 6 {
        return None;
    }
    Cursor::new(bytes).u48_le().ok().map(DnpTime::from_millis)
}

fn list(bytes: &[u8]) -> Option<Box<[ListedAttribute]>> {
    let (pairs, rest) = bytes.as_chunks();
    let listed = |[variation, properties]: &[u8; 2]| ListedAttribute { variation: *variation, properties: *properties };
    rest.is_empty().then(|| pairs.iter().map(listed).collect())
}

const fn width_of_unsigned(number: u64) -> usize {
    match number {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    }
}

const fn width_of_signed(number: i64) -> usize {
    match number {
        -0x80..=0x7F => 1,
        -0x8000..=0x7FFF => 2,
        -0x8000_0000..=0x7FFF_FFFF => 4,
        _ => 8,
    }
}

fn narrow(bytes: &[u8; 8], width: usize) -> &[u8] {
    bytes.get(..width).unwrap_or(bytes)
}

/// The same number in single precision, where that loses nothing.
#[expect(clippy::cast_possible_truncation, reason = "whether something was lost is what is looked at")]
fn single(number: f64) -> Option<f32> {
    let single = number as f32;
    (f64::from(single).to_bits() == number.to_bits()).then_some(single)
}

fn push(out: &mut Vec<u8>, code: u8, value: &[u8]) {
    let base = if code == U8BS8EXLIST { EXTENDED_BYTES } else { 0 };
    let length = u8::try_from(value.len().saturating_sub(base)).unwrap_or(u8::MAX);
    out.extend_from_slice(&[code, length]);
    let bytes = value_bytes(code, length);
    out.extend(value.iter().copied().chain(core::iter::repeat(0)).take(bytes));
}

macro_rules! standard_attributes {
    ($($variation:literal $name:literal;)*) => {
        /// The word for an attribute of set 0; none where the standard has no such attribute.
        #[must_use]
        pub const fn attribute_name(variation: u8) -> Option<&'static str> {
            match variation {
                $($variation => Some($name),)*
                _ => None,
            }
        }
    };
}

// IEEE 1815 A.1, attribute set 0.
standard_attributes! {
    196 "configuration-id";
    197 "configuration-version";
    198 "configuration-build-date";
    199 "configuration-change-date";
    200 "configuration-signature";
    201 "configuration-signature-algorithm";
    202 "master-resource-id";
    203 "altitude";
    204 "longitude";
    205 "latitude";
    206 "user-assigned-secondary-operator";
    207 "user-assigned-primary-operator";
    208 "user-assigned-system";
    209 "secure-authentication-version";
    210 "security-statistics";
    211 "user-attribute-sets";
    212 "data-set-prototypes-of-master";
    213 "data-set-prototypes-of-outstation";
    214 "data-sets-of-master";
    215 "data-sets-of-outstation";
    216 "binary-outputs-in-request-max";
    217 "timing-accuracy-us";
    218 "timing-accuracy-duration-s";
    219 "supports-analog-output-events";
    220 "analog-output-index-max";
    221 "analog-outputs";
    222 "supports-binary-output-events";
    223 "binary-output-index-max";
    224 "binary-outputs";
    225 "supports-frozen-counter-events";
    226 "supports-frozen-counters";
    227 "supports-counter-events";
    228 "counter-index-max";
    229 "counters";
    230 "supports-frozen-analogs";
    231 "supports-analog-events";
    232 "analog-index-max";
    233 "analogs";
    234 "supports-double-bit-events";
    235 "double-bit-index-max";
    236 "double-bits";
    237 "supports-binary-events";
    238 "binary-index-max";
    239 "binaries";
    240 "fragment-bytes-sent-max";
    241 "fragment-bytes-received-max";
    242 "software-version";
    243 "hardware-version";
    244 "user-assigned-owner";
    245 "user-assigned-location";
    246 "user-assigned-id";
    247 "user-assigned-name";
    248 "serial-number";
    249 "subset-and-conformance";
    250 "product-name-and-model";
    252 "manufacturer";
    254 "all-attributes";
    255 "list-of-attributes";
}

#[cfg(test)]
mod tests;
