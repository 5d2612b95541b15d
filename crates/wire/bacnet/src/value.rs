//! Values of properties (clause 20.2): the primitive data types, and what is built of them.

use crate::tag::{Content, DEPTH_MAX, Reader, Write, signed, significant, unsigned};
use crate::{BitString, Date, DecodeError, Decoded, ObjectId, Time};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

/// A value, or several. What a property holds is one value; an array, a list or a structure is a [`Value::List`].
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing; written to a commandable property, it relinquishes.
    Null,
    /// A truth value. Binary objects do not use it: their values are enumerated, 0 inactive and 1 active.
    Boolean(bool),
    /// A number from 0.
    Unsigned(u64),
    /// A whole number.
    Signed(i64),
    /// A floating-point number of 32 bits.
    Real(f32),
    /// A floating-point number of 64 bits.
    Double(f64),
    /// Bytes.
    OctetString(Box<[u8]>),
    /// Words, whatever character set they came in.
    CharacterString(Box<str>),
    /// Flags.
    BitString(BitString),
    /// One of a few, by number.
    Enumerated(u32),
    /// A day, or a pattern of days.
    Date(Date),
    /// A time of day.
    Time(Time),
    /// An object.
    ObjectId(ObjectId),
    /// A value whose data type only its place in a structure says: its number, its bytes.
    Context(u8, Box<[u8]>),
    /// A structure inside another: its number, what it holds.
    Constructed(u8, Vec<Value>),
    /// Several values, such as an array, or none.
    List(Vec<Value>),
}

impl Value {
    /// The values in bytes: one stands for itself, none and several are a list.
    ///
    /// # Errors
    /// The bytes are no whole values.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(bytes);
        if reader.is_empty() {
            return Ok(Self::List(Vec::new()));
        }
        let first = Self::next(&mut reader, 0)?;
        if reader.is_empty() {
            return Ok(first);
        }
        let mut values = Vec::with_capacity(4);
        values.push(first);
        while !reader.is_empty() {
            values.push(Self::next(&mut reader, 0)?);
        }
        Ok(Self::List(values))
    }

    /// The next value of a reader.
    ///
    /// # Errors
    /// There is none.
    pub fn read(reader: &mut Reader<'_>) -> Decoded<Self> {
        Self::next(reader, 0)
    }

    fn next(reader: &mut Reader<'_>, depth: usize) -> Decoded<Self> {
        let tag = reader.tag()?;
        match tag.content {
            Content::Application(length) => primitive(tag.number, length, reader),
            Content::Context(length) => Ok(Self::Context(tag.number, reader.bytes(length)?.into())),
            Content::Opening if depth >= DEPTH_MAX => Err(DecodeError::TooDeep),
            Content::Opening => {
                let mut values = Vec::new();
                while !reader.closing_if(tag.number) {
                    values.push(Self::next(reader, depth + 1)?);
                }
                Ok(Self::Constructed(tag.number, values))
            }
            Content::Closing => Err(DecodeError::Expected("a value")),
        }
    }

    /// Appends the value as it goes on the wire. Words are sent in UTF-8.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.application_tag(0, 0),
            Self::Boolean(value) => out.application_tag(1, usize::from(*value)),
            Self::Unsigned(value) => primitive_bytes(2, significant(&value.to_be_bytes()), out),
            Self::Signed(value) => primitive_bytes(3, significant_signed(&value.to_be_bytes()), out),
            Self::Real(value) => primitive_bytes(4, &value.to_be_bytes(), out),
            Self::Double(value) => primitive_bytes(5, &value.to_be_bytes(), out),
            Self::OctetString(bytes) => primitive_bytes(6, bytes, out),
            Self::CharacterString(text) => {
                out.application_tag(7, text.len() + 1);
                out.push(UTF_8);
                out.extend_from_slice(text.as_bytes());
            }
            Self::BitString(bits) => {
                let (unused, bytes) = bits.content();
                out.application_tag(8, bytes.len() + 1);
                out.push(unused);
                out.extend_from_slice(bytes);
            }
            Self::Enumerated(value) => primitive_bytes(9, significant(&u64::from(*value).to_be_bytes()), out),
            Self::Date(date) => primitive_bytes(10, &date.bytes(), out),
            Self::Time(time) => primitive_bytes(11, &time.bytes(), out),
            Self::ObjectId(object) => primitive_bytes(12, &object.bits().to_be_bytes(), out),
            Self::Context(number, bytes) => out.context(*number, bytes),
            Self::Constructed(number, values) => {
                out.opening(*number);
                values.iter().for_each(|value| value.encode(out));
                out.closing(*number);
            }
            Self::List(values) => values.iter().for_each(|value| value.encode(out)),
        }
    }

    /// The values of a list; another value alone.
    #[must_use]
    pub fn into_list(self) -> Vec<Self> {
        match self {
            Self::List(values) => values,
            value => alloc::vec![value],
        }
    }

    /// The values of a list; another value alone.
    #[must_use]
    pub fn as_list(&self) -> &[Self] {
        match self {
            Self::List(values) => values,
            value => core::slice::from_ref(value),
        }
    }

    /// The value as a number: of a Boolean 0 or 1, of an enumerated value its number. None of anything else.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a double is what the caller asks for")]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Boolean(value) => Some(f64::from(u8::from(*value))),
            Self::Unsigned(value) => Some(*value as f64),
            Self::Signed(value) => Some(*value as f64),
            Self::Real(value) => Some(f64::from(*value)),
            Self::Double(value) => Some(*value),
            Self::Enumerated(value) => Some(f64::from(*value)),
            Self::Null
            | Self::OctetString(_)
            | Self::CharacterString(_)
            | Self::BitString(_)
            | Self::Date(_)
            | Self::Time(_)
            | Self::ObjectId(_)
            | Self::Context(..)
            | Self::Constructed(..)
            | Self::List(_) => None,
        }
    }

    /// Appends the value for people, until `out` has about `bytes_max` bytes; the elements of a list have commas between them.
    pub fn show(&self, bytes_max: usize, out: &mut String) {
        // Nothing stands in the way of writing to a text.
        let _ = match self {
            Self::Null => write!(out, "null"),
            Self::Boolean(value) => write!(out, "{value}"),
            Self::Unsigned(value) => write!(out, "{value}"),
            Self::Signed(value) => write!(out, "{value}"),
            Self::Real(value) => write!(out, "{value}"),
            Self::Double(value) => write!(out, "{value}"),
            Self::Enumerated(value) => write!(out, "{value}"),
            Self::CharacterString(text) => write!(out, "{text}"),
            Self::BitString(bits) => bits.iter().try_for_each(|bit| write!(out, "{}", u8::from(bit))),
            Self::Date(date) => write!(out, "{date}"),
            Self::Time(time) => write!(out, "{time}"),
            Self::ObjectId(object) => write!(out, "{object}"),
            Self::OctetString(bytes) | Self::Context(_, bytes) => {
                bytes.iter().take(bytes_max).try_for_each(|byte| write!(out, "{byte:02x}"))
            }
            Self::Constructed(_, values) | Self::List(values) => {
                for (value, place) in values.iter().zip(0_usize..) {
                    if out.len() > bytes_max {
                        return;
                    }
                    if place > 0 {
                        out.push(',');
                    }
                    value.show(bytes_max, out);
                }
                return;
            }
        };
        if out.len() > bytes_max {
            let end = (0..=bytes_max).rev().find(|end| out.is_char_boundary(*end)).unwrap_or(0);
            out.truncate(end);
            out.push('…');
        }
    }

    /// An unsigned or enumerated number.
    #[must_use]
    pub fn as_u32(&self) -> Option<u32> {
        match self {
            Self::Unsigned(value) => u32::try_from(*value).ok(),
            Self::Enumerated(value) => Some(*value),
            _ => None,
        }
    }

    /// The words of a character string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::CharacterString(text) = self { Some(text) } else { None }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::CharacterString(text.into())
    }
}

fn primitive_bytes(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.application_tag(number, bytes.len());
    out.extend_from_slice(bytes);
}

fn primitive(number: u8, length: usize, reader: &mut Reader<'_>) -> Decoded<Value> {
    if number == 1 {
        return match length {
            0 | 1 => Ok(Value::Boolean(length == 1)),
            _ => Err(DecodeError::Range("a Boolean")),
        };
    }
    let bytes = reader.bytes(length)?;
    Ok(match number {
        0 if bytes.is_empty() => Value::Null,
        2 => Value::Unsigned(unsigned(bytes)?),
        3 => Value::Signed(signed(bytes)?),
        4 => Value::Real(real(bytes)?),
        5 => Value::Double(f64::from_be_bytes(
            bytes.try_into().map_err(|_| DecodeError::Range("the length of a double"))?,
        )),
        6 => Value::OctetString(bytes.into()),
        7 => Value::CharacterString(character_string(bytes)?),
        8 => Value::BitString(BitString::from_content(bytes)?),
        9 => Value::Enumerated(u32::try_from(unsigned(bytes)?).map_err(|_| DecodeError::Range("an enumerated value"))?),
        10 => Value::Date(Date::from_bytes(bytes)?),
        11 => Value::Time(Time::from_bytes(bytes)?),
        12 => Value::ObjectId(ObjectId::from_bytes(bytes)?),
        _ => return Err(DecodeError::Expected("a data type from 0 to 12")),
    })
}

pub(crate) fn real(bytes: &[u8]) -> Decoded<f32> {
    Ok(f32::from_be_bytes(bytes.try_into().map_err(|_| DecodeError::Range("the length of a real"))?))
}

/// The bytes of a signed number without leading bytes that only repeat its sign.
fn significant_signed(bytes: &[u8; 8]) -> &[u8] {
    let is_needed =
        |pair: &[u8]| !matches!(pair, [0, low] if low & 0x80 == 0) && !matches!(pair, [0xFF, low] if low & 0x80 != 0);
    let first = bytes.windows(2).position(is_needed).unwrap_or(7);
    bytes.get(first..).unwrap_or_default()
}

/// Character sets (clause 20.2.9).
const UTF_8: u8 = 0;
const UCS_4: u8 = 3;
const UCS_2: u8 = 4;
const LATIN_1: u8 = 5;

/// Words in any character set: what cannot be read becomes U+FFFD, for a device's wrong label must not hide its point.
pub(crate) fn character_string(content: &[u8]) -> Decoded<Box<str>> {
    let (set, bytes) = content.split_first().ok_or(DecodeError::Range("the length of a character string"))?;
    let text = match *set {
        UTF_8 => return Ok(String::from_utf8_lossy(bytes).into()),
        UCS_4 => {
            let code = |chunk: &[u8]| unsigned(chunk).ok().and_then(|code| u32::try_from(code).ok());
            bytes.chunks(4).map(|chunk| code(chunk).and_then(char::from_u32).unwrap_or('\u{FFFD}')).collect()
        }
        UCS_2 => {
            let units = bytes.chunks(2).map(|pair| match pair {
                [high, low] => u16::from_be_bytes([*high, *low]),
                _ => 0xFFFD,
            });
            char::decode_utf16(units).map(|unit| unit.unwrap_or('\u{FFFD}')).collect()
        }
        LATIN_1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
        _ => bytes.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '\u{FFFD}' }).collect::<String>(),
    };
    Ok(text.into())
}
