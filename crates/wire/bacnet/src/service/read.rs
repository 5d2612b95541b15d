//! ReadProperty and ReadPropertyMultiple (clauses 15.5, 15.7).

use super::ServiceError;
use crate::names::PropertyId;
use crate::tag::{Reader, Write};
use crate::{Decoded, ObjectId, Value};
use alloc::vec::Vec;
use core::fmt;

/// A property of an object, or one element of it where it is an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PropertyRef {
    /// The object.
    pub object: ObjectId,
    /// Its property.
    pub property: PropertyId,
    /// The element from 1; 0 is how many there are.
    pub index: Option<u32>,
}

impl PropertyRef {
    /// The whole property.
    #[must_use]
    pub const fn new(object: ObjectId, property: PropertyId) -> Self {
        Self { object, property, index: None }
    }

    /// One element.
    #[must_use]
    pub const fn element(object: ObjectId, property: PropertyId, index: u32) -> Self {
        Self { object, property, index: Some(index) }
    }

    /// Appends the parameters of ReadProperty.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.context(0, &self.object.bits().to_be_bytes());
        emit_property(1, self.property, self.index, out);
    }

    /// Reads the parameters of ReadProperty.
    ///
    /// # Errors
    /// Object or property is absent.
    pub fn parse(parameters: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(parameters);
        let reference = Self::read(&mut reader)?;
        reader.end()?;
        Ok(reference)
    }

    /// Reads object, property and index of contexts 0, 1 and 2, and goes on behind them.
    pub(super) fn read(reader: &mut Reader<'_>) -> Decoded<Self> {
        let object = ObjectId::from_bytes(reader.context(0, "an object identifier")?)?;
        let (property, index) = property(1, reader)?;
        Ok(Self { object, property, index })
    }
}

impl fmt::Display for PropertyRef {
    /// `analog-input,1 present-value`, `analog-output,1 priority-array[8]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.object, self.property)?;
        self.index.iter().try_for_each(|index| write!(f, "[{index}]"))
    }
}

/// Appends a property and the index behind it, of contexts `number` and `number + 1`.
pub(super) fn emit_property(number: u8, property: PropertyId, index: Option<u32>, out: &mut Vec<u8>) {
    out.context_number(number, u64::from(property.0));
    if let Some(index) = index {
        out.context_number(number + 1, u64::from(index));
    }
}

pub(super) fn property(number: u8, reader: &mut Reader<'_>) -> Decoded<(PropertyId, Option<u32>)> {
    let property = PropertyId(reader.context_number(number, "a property")?);
    Ok((property, reader.context_number_if(number + 1, "the index of an array")?))
}

/// The answer to ReadProperty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAck<'a> {
    /// What was read.
    pub reference: PropertyRef,
    /// The value, or several, as [`Value::decode`] takes them.
    pub value: &'a [u8],
}

impl<'a> ReadAck<'a> {
    /// Reads the parameters.
    ///
    /// # Errors
    /// The value is absent.
    pub fn parse(parameters: &'a [u8]) -> Decoded<Self> {
        let mut reader = Reader::new(parameters);
        let reference = PropertyRef::read(&mut reader)?;
        let value = reader.enclosed(3, "a value")?;
        reader.end()?;
        Ok(Self { reference, value })
    }

    /// Appends the parameters.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.reference.emit(out);
        out.opening(3);
        out.extend_from_slice(self.value);
        out.closing(3);
    }
}

/// Appends the parameters of ReadPropertyMultiple; properties of one object that follow each other share its name.
pub fn encode_read_multiple(references: &[PropertyRef], out: &mut Vec<u8>) {
    for of_object in references.chunk_by(|a, b| a.object == b.object) {
        let Some(first) = of_object.first() else { continue };
        out.context(0, &first.object.bits().to_be_bytes());
        out.opening(1);
        for reference in of_object {
            emit_property(0, reference.property, reference.index, out);
        }
        out.closing(1);
    }
}

/// The parameters of ReadPropertyMultiple, one reference after the other.
#[derive(Clone, Copy, Debug)]
pub struct ReadMultiple<'a> {
    reader: Reader<'a>,
    object: Option<ObjectId>,
}

impl<'a> ReadMultiple<'a> {
    /// Begins.
    #[must_use]
    pub const fn new(parameters: &'a [u8]) -> Self {
        Self { reader: Reader::new(parameters), object: None }
    }

    fn advance(&mut self) -> Decoded<Option<PropertyRef>> {
        loop {
            if let Some(object) = self.object {
                if !self.reader.closing_if(1) {
                    let (property, index) = property(0, &mut self.reader)?;
                    return Ok(Some(PropertyRef { object, property, index }));
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

impl Iterator for ReadMultiple<'_> {
    type Item = Decoded<PropertyRef>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            (self.reader, self.object) = (Reader::new(&[]), None);
        }
        next.transpose()
    }
}

/// What one property of ReadPropertyMultiple came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadResult<'a> {
    /// What was read.
    pub reference: PropertyRef,
    /// The value, or several, as [`Value::decode`] takes them.
    pub value: Result<&'a [u8], ServiceError>,
}

/// The answer to ReadPropertyMultiple, one result after the other.
#[derive(Clone, Copy, Debug)]
pub struct ReadMultipleAck<'a> {
    reader: Reader<'a>,
    object: Option<ObjectId>,
}

impl<'a> ReadMultipleAck<'a> {
    /// Begins.
    #[must_use]
    pub const fn new(parameters: &'a [u8]) -> Self {
        Self { reader: Reader::new(parameters), object: None }
    }

    /// The next property, and its value decoded.
    ///
    /// # Errors
    /// The answer is none.
    pub fn next_value(&mut self) -> Option<Decoded<(PropertyRef, Result<Value, ServiceError>)>> {
        let next = self.reference().and_then(|reference| {
            let Some(reference) = reference else { return Ok(None) };
            Ok(Some((reference, self.value()?)))
        });
        self.stop_at_error(next)
    }

    fn reference(&mut self) -> Decoded<Option<PropertyRef>> {
        loop {
            if let Some(object) = self.object {
                if !self.reader.closing_if(1) {
                    let (property, index) = property(2, &mut self.reader)?;
                    return Ok(Some(PropertyRef { object, property, index }));
                }
                self.object = None;
            }
            if self.reader.is_empty() {
                return Ok(None);
            }
            self.object = Some(ObjectId::from_bytes(self.reader.context(0, "an object identifier")?)?);
            self.reader.opening(1, "a list of results")?;
        }
    }

    /// The value that is next: read at once where it is one, which most are.
    fn value(&mut self) -> Decoded<Result<Value, ServiceError>> {
        if !self.reader.is_opening(4) {
            return self.error().map(Err);
        }
        let whole = self.reader;
        self.reader.opening(4, "a value")?;
        if let Ok(value) = Value::read(&mut self.reader)
            && self.reader.closing_if(4)
        {
            return Ok(Ok(value));
        }
        self.reader = whole;
        Ok(Ok(Value::decode(self.reader.enclosed(4, "a value")?)?))
    }

    fn error(&mut self) -> Decoded<ServiceError> {
        let mut error = Reader::new(self.reader.enclosed(5, "a value or an error")?);
        ServiceError::read(&mut error)
    }

    fn stop_at_error<T>(&mut self, next: Decoded<Option<T>>) -> Option<Decoded<T>> {
        if next.is_err() {
            (self.reader, self.object) = (Reader::new(&[]), None);
        }
        next.transpose()
    }
}

impl<'a> Iterator for ReadMultipleAck<'a> {
    type Item = Decoded<ReadResult<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.reference().and_then(|reference| {
            let Some(reference) = reference else { return Ok(None) };
            let value =
                if self.reader.is_opening(4) { Ok(self.reader.enclosed(4, "a value")?) } else { Err(self.error()?) };
            Ok(Some(ReadResult { reference, value }))
        });
        self.stop_at_error(next)
    }
}

impl ReadResult<'_> {
    /// Appends the result without its object, as it stands in the list of results of one.
    pub fn emit(&self, out: &mut Vec<u8>) {
        emit_property(2, self.reference.property, self.reference.index, out);
        match self.value {
            Ok(value) => {
                out.opening(4);
                out.extend_from_slice(value);
                out.closing(4);
            }
            Err(error) => {
                out.opening(5);
                error.emit(out);
                out.closing(5);
            }
        }
    }
}
