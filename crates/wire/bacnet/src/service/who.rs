//! Who is there, and who has what (clauses 16.9, 16.10).

use crate::names::Segmentation;
use crate::tag::{Reader, Write};
use crate::types::INSTANCE_ANY;
use crate::value::character_string;
use crate::{DecodeError, Decoded, ObjectId, Value};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Asks devices to say who they are: all, or those with instances in a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WhoIs {
    /// The lowest and the highest instance that shall answer.
    pub range: Option<(u32, u32)>,
}

/// A device that says who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IAm {
    /// Its device object.
    pub device: ObjectId,
    /// The largest message that it takes, in bytes.
    pub max_apdu: u16,
    /// Which direction of segments it supports.
    pub segmentation: Segmentation,
    /// Its vendor's number.
    pub vendor: u16,
}

/// What is looked for.
#[derive(Clone, Debug, PartialEq)]
pub enum WhoHasWhat {
    /// An object by its identifier.
    Object(ObjectId),
    /// An object by its name.
    Name(Box<str>),
}

/// Asks which device has an object.
#[derive(Clone, Debug, PartialEq)]
pub struct WhoHas {
    /// The lowest and the highest instance that shall answer.
    pub range: Option<(u32, u32)>,
    /// What is looked for.
    pub what: WhoHasWhat,
}

/// A device that has an object.
#[derive(Clone, Debug, PartialEq)]
pub struct IHave {
    /// Its device object.
    pub device: ObjectId,
    /// The object.
    pub object: ObjectId,
    /// The object's name.
    pub name: Box<str>,
}

impl WhoIs {
    /// Appends the parameters.
    pub fn emit(&self, out: &mut Vec<u8>) {
        emit_range(self.range, out);
    }

    /// Reads the parameters.
    ///
    /// # Errors
    /// One limit stands without the other, or is too large.
    pub fn parse(parameters: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(parameters);
        let range = parse_range(&mut reader)?;
        reader.end()?;
        Ok(Self { range })
    }

    /// Whether a device shall answer.
    #[must_use]
    pub fn asks(&self, instance: u32) -> bool {
        is_in(self.range, instance)
    }
}

impl IAm {
    /// Appends the parameters.
    pub fn emit(&self, out: &mut Vec<u8>) {
        Value::ObjectId(self.device).encode(out);
        Value::Unsigned(u64::from(self.max_apdu)).encode(out);
        Value::Enumerated(self.segmentation.0).encode(out);
        Value::Unsigned(u64::from(self.vendor)).encode(out);
    }

    /// Reads the parameters.
    ///
    /// # Errors
    /// One is absent or of another type.
    pub fn parse(parameters: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(parameters);
        let what = DecodeError::Expected("object identifier, length, segmentation and vendor of I-Am");
        let (device, max_apdu) = (Value::read(&mut reader)?, Value::read(&mut reader)?);
        let (segmentation, vendor) = (Value::read(&mut reader)?, Value::read(&mut reader)?);
        let (Value::ObjectId(device), Value::Unsigned(max_apdu)) = (device, max_apdu) else { return Err(what) };
        let (Value::Enumerated(segmentation), Value::Unsigned(vendor)) = (segmentation, vendor) else {
            return Err(what);
        };
        Ok(Self {
            device,
            max_apdu: u16::try_from(max_apdu).unwrap_or(u16::MAX),
            segmentation: Segmentation(segmentation),
            vendor: u16::try_from(vendor).map_err(|_| DecodeError::Range("the number of the vendor"))?,
        })
    }
}

impl WhoHas {
    /// Appends the parameters.
    pub fn emit(&self, out: &mut Vec<u8>) {
        emit_range(self.range, out);
        match &self.what {
            WhoHasWhat::Object(object) => out.context(2, &object.bits().to_be_bytes()),
            WhoHasWhat::Name(name) => {
                let content: Vec<u8> = core::iter::once(0).chain(name.bytes()).collect();
                out.context(3, &content);
            }
        }
    }

    /// Reads the parameters.
    ///
    /// # Errors
    /// Nothing is looked for, or a limit is absent.
    pub fn parse(parameters: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(parameters);
        let range = parse_range(&mut reader)?;
        let what = match reader.context_if(2)? {
            Some(object) => WhoHasWhat::Object(ObjectId::from_bytes(object)?),
            None => WhoHasWhat::Name(character_string(reader.context(3, "an object identifier or a name")?)?),
        };
        reader.end()?;
        Ok(Self { range, what })
    }

    /// Whether a device shall look for it.
    #[must_use]
    pub fn asks(&self, instance: u32) -> bool {
        is_in(self.range, instance)
    }
}

impl IHave {
    /// Appends the parameters.
    pub fn emit(&self, out: &mut Vec<u8>) {
        Value::ObjectId(self.device).encode(out);
        Value::ObjectId(self.object).encode(out);
        Value::CharacterString(self.name.clone()).encode(out);
    }

    /// Reads the parameters.
    ///
    /// # Errors
    /// One is absent or of another type.
    pub fn parse(parameters: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(parameters);
        let device = ObjectId::from_bytes(reader.application(12, "the device of I-Have")?)?;
        let object = ObjectId::from_bytes(reader.application(12, "the object of I-Have")?)?;
        let name = character_string(reader.application(7, "the name of I-Have")?)?;
        Ok(Self { device, object, name })
    }
}

fn is_in(range: Option<(u32, u32)>, instance: u32) -> bool {
    range.is_none_or(|(low, high)| (low..=high).contains(&instance))
}

fn emit_range(range: Option<(u32, u32)>, out: &mut Vec<u8>) {
    if let Some((low, high)) = range {
        out.context_number(0, u64::from(low.min(INSTANCE_ANY)));
        out.context_number(1, u64::from(high.min(INSTANCE_ANY)));
    }
}

fn parse_range(reader: &mut Reader<'_>) -> Decoded<Option<(u32, u32)>> {
    let Some(low) = reader.context_number_if::<u32>(0, "the low limit")? else { return Ok(None) };
    let high = reader.context_number::<u32>(1, "the high limit")?;
    if low > INSTANCE_ANY || high > INSTANCE_ANY { Err(DecodeError::Range("a limit")) } else { Ok(Some((low, high))) }
}
