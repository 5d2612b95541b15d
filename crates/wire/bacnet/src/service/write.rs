//! WriteProperty and WritePropertyMultiple (clauses 15.9, 15.10).

use super::PropertyRef;
use super::read::{emit_property, property};
use crate::tag::{Reader, Write as _};
use crate::{DecodeError, Decoded, ObjectId, Value};
use alloc::vec::Vec;

/// The priority of a write that names none (clause 19.2.1).
pub const PRIORITY_LOWEST: u8 = 16;

/// A value for a property.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Which property.
    pub reference: PropertyRef,
    /// The value; [`Value::Null`] relinquishes the priority of a commandable property.
    pub value: Value,
    /// 1, the highest, to 16; only commandable properties have priorities.
    pub priority: Option<u8>,
}

impl Write {
    /// Appends the parameters of WriteProperty.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.reference.emit(out);
        emit_value(3, &self.value, self.priority, out);
    }

    /// Reads the parameters of WriteProperty.
    ///
    /// # Errors
    /// One is absent, or the priority is none.
    pub fn parse(parameters: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(parameters);
        let reference = PropertyRef::read(&mut reader)?;
        let (value, priority) = read_value(3, &mut reader)?;
        reader.end()?;
        Ok(Self { reference, value, priority })
    }
}

fn emit_value(number: u8, value: &Value, priority: Option<u8>, out: &mut Vec<u8>) {
    out.opening(number);
    value.encode(out);
    out.closing(number);
    if let Some(priority) = priority {
        out.context_number(number + 1, u64::from(priority));
    }
}

fn read_value(number: u8, reader: &mut Reader<'_>) -> Decoded<(Value, Option<u8>)> {
    let value = Value::decode(reader.enclosed(number, "a value")?)?;
    let priority = reader.context_number_if::<u8>(number + 1, "the priority")?;
    if priority.is_some_and(|priority| !(1..=16).contains(&priority)) {
        return Err(DecodeError::Range("the priority"));
    }
    Ok((value, priority))
}

/// Appends the parameters of WritePropertyMultiple; writes to one object that follow each other share its name.
pub fn encode_write_multiple(writes: &[Write], out: &mut Vec<u8>) {
    for of_object in writes.chunk_by(|a, b| a.reference.object == b.reference.object) {
        let Some(first) = of_object.first() else { continue };
        out.context(0, &first.reference.object.bits().to_be_bytes());
        out.opening(1);
        for write in of_object {
            emit_property(0, write.reference.property, write.reference.index, out);
            emit_value(2, &write.value, write.priority, out);
        }
        out.closing(1);
    }
}

/// The parameters of WritePropertyMultiple, one write after the other.
#[derive(Clone, Copy, Debug)]
pub struct WriteMultiple<'a> {
    reader: Reader<'a>,
    object: Option<ObjectId>,
}

impl<'a> WriteMultiple<'a> {
    /// Begins.
    #[must_use]
    pub const fn new(parameters: &'a [u8]) -> Self {
        Self { reader: Reader::new(parameters), object: None }
    }

    fn advance(&mut self) -> Decoded<Option<Write>> {
        loop {
            if let Some(object) = self.object {
                if !self.reader.closing_if(1) {
                    let (property, index) = property(0, &mut self.reader)?;
                    let (value, priority) = read_value(2, &mut self.reader)?;
                    return Ok(Some(Write { reference: PropertyRef { object, property, index }, value, priority }));
                }
                self.object = None;
            }
            if self.reader.is_empty() {
                return Ok(None);
            }
            self.object = Some(ObjectId::from_bytes(self.reader.context(0, "an object identifier")?)?);
            self.reader.opening(1, "a list of properties")?;
        }
    }
}

impl Iterator for WriteMultiple<'_> {
    type Item = Decoded<Write>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            (self.reader, self.object) = (Reader::new(&[]), None);
        }
        next.transpose()
    }
}
