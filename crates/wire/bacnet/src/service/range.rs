//! ReadRange (clause 15.8), and the records of trend logs (clause 12.25) that it reads.

use super::time::read as read_time;
use super::{PropertyRef, ServiceError};
use crate::tag::{Reader, Write, signed, unsigned};
use crate::value::real;
use crate::{BitString, DateTime, DecodeError, Decoded, Value};
use alloc::vec::Vec;

/// Which part of a list is asked for; a negative count goes back from where it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// From the item at a place, the first is 1.
    Position(u32, i32),
    /// From the item with a sequence number.
    Sequence(u32, i32),
    /// From the first item after a moment, or the last before it.
    Time(DateTime, i32),
}

/// Asks for a part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeRequest {
    /// The list.
    pub reference: PropertyRef,
    /// Its part; none for all that fits.
    pub range: Option<Range>,
}

impl RangeRequest {
    /// Appends the parameters.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.reference.emit(out);
        let Some(range) = self.range else { return };
        let (number, count) = match range {
            Range::Position(_, count) => (3, count),
            Range::Sequence(_, count) => (6, count),
            Range::Time(_, count) => (7, count),
        };
        out.opening(number);
        match range {
            Range::Position(start, _) | Range::Sequence(start, _) => Value::Unsigned(u64::from(start)).encode(out),
            Range::Time(at, _) => super::emit_time(at, out),
        }
        Value::Signed(i64::from(count)).encode(out);
        out.closing(number);
    }

    /// Reads the parameters.
    ///
    /// # Errors
    /// One is absent or of another type.
    pub fn parse(parameters: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(parameters);
        let reference = PropertyRef::read(&mut reader)?;
        if reader.is_empty() {
            return Ok(Self { reference, range: None });
        }
        let number = [3, 6, 7].into_iter().find(|number| reader.is_opening(*number));
        let number = number.ok_or(DecodeError::Expected("a range by position, sequence or time"))?;
        let mut inside = Reader::new(reader.enclosed(number, "a range")?);
        let start = |inside: &mut Reader<'_>| {
            let start = unsigned(inside.application(2, "where the range starts")?)?;
            u32::try_from(start).map_err(|_| DecodeError::Range("where the range starts"))
        };
        let range = match number {
            3 => Range::Position(start(&mut inside)?, count(&mut inside)?),
            6 => Range::Sequence(start(&mut inside)?, count(&mut inside)?),
            _ => Range::Time(read_time(&mut inside)?, count(&mut inside)?),
        };
        inside.end()?;
        reader.end()?;
        Ok(Self { reference, range: Some(range) })
    }
}

fn count(reader: &mut Reader<'_>) -> Decoded<i32> {
    let count = signed(reader.application(3, "the count of a range")?)?;
    i32::try_from(count).ok().filter(|count| *count != 0).ok_or(DecodeError::Range("the count of a range"))
}

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeAck<'a> {
    /// The list.
    pub reference: PropertyRef,
    /// Whether the first item of the list is among them.
    pub has_first: bool,
    /// Whether the last item of the list is among them.
    pub has_last: bool,
    /// Whether more was asked for than fitted.
    pub has_more: bool,
    /// How many items there are.
    pub count: u32,
    /// The items: of a trend log, see [`log_records`].
    pub items: &'a [u8],
    /// The sequence number of the first; a range by position has none.
    pub first_sequence: Option<u32>,
}

impl<'a> RangeAck<'a> {
    /// Reads the parameters.
    ///
    /// # Errors
    /// One is absent.
    pub fn parse(parameters: &'a [u8]) -> Decoded<Self> {
        let mut reader = Reader::new(parameters);
        let reference = PropertyRef::read(&mut reader)?;
        let flags = BitString::from_content(reader.context(3, "the flags of the range")?)?;
        let count = reader.context_number(4, "the count of items")?;
        let items = reader.enclosed(5, "the items")?;
        let first_sequence = reader.context_number_if(6, "the first sequence number")?;
        reader.end()?;
        let [has_first, has_last, has_more] = [flags.bit(0), flags.bit(1), flags.bit(2)];
        Ok(Self { reference, has_first, has_last, has_more, count, items, first_sequence })
    }

    /// Appends the parameters.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.reference.emit(out);
        let flags = BitString::new(&[self.has_first, self.has_last, self.has_more]);
        let (unused, bytes) = flags.content();
        out.context(3, &[unused, bytes.first().copied().unwrap_or(0)]);
        out.context_number(4, u64::from(self.count));
        out.opening(5);
        out.extend_from_slice(self.items);
        out.closing(5);
        if let Some(sequence) = self.first_sequence {
            out.context_number(6, u64::from(sequence));
        }
    }
}

/// What a trend log noted.
#[derive(Clone, Debug, PartialEq)]
pub enum LogDatum {
    /// What became of the log: disabled, purged, interrupted.
    Status(BitString),
    /// A measured value.
    Value(Value),
    /// Reading the value failed.
    Failure(ServiceError),
    /// The clock was set by so many seconds.
    TimeChange(f32),
    /// What several properties were, in their order (of a trend log multiple).
    Several(Vec<LogDatum>),
}

/// One record of a trend log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRecord {
    /// When, in the device's local time.
    pub at: DateTime,
    /// What.
    pub datum: LogDatum,
    /// The status flags of the value then: in alarm, fault, overridden, out of service.
    pub status: Option<BitString>,
}

impl LogRecord {
    /// Appends the record.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.opening(0);
        super::emit_time(self.at, out);
        out.closing(0);
        out.opening(1);
        emit_datum(&self.datum, out);
        out.closing(1);
        if let Some(status) = &self.status {
            emit_bits(2, status, out);
        }
    }

    fn read(reader: &mut Reader<'_>, datum: impl FnOnce(&mut Reader<'_>) -> Decoded<LogDatum>) -> Decoded<Self> {
        let mut moment = Reader::new(reader.enclosed(0, "the moment of a record")?);
        let at = read_time(&mut moment)?;
        let datum = datum(&mut Reader::new(reader.enclosed(1, "the datum of a record")?))?;
        let status = reader.context_if(2)?.map(BitString::from_content).transpose()?;
        Ok(Self { at, datum, status })
    }
}

/// The records of a trend log in the items of an answer.
///
/// # Errors
/// They are no records.
pub fn log_records(items: &[u8]) -> Decoded<Vec<LogRecord>> {
    records(items, datum)
}

/// The same of a trend log multiple (`BACnetLogMultipleRecord`).
///
/// # Errors
/// They are no records.
pub fn log_multiple_records(items: &[u8]) -> Decoded<Vec<LogRecord>> {
    records(items, several)
}

fn records(items: &[u8], datum: impl Fn(&mut Reader<'_>) -> Decoded<LogDatum>) -> Decoded<Vec<LogRecord>> {
    let mut reader = Reader::new(items);
    let mut records = Vec::new();
    while !reader.is_empty() {
        records.push(LogRecord::read(&mut reader, &datum)?);
    }
    Ok(records)
}

fn emit_datum(datum: &LogDatum, out: &mut Vec<u8>) {
    match datum {
        LogDatum::Status(bits) => emit_bits(0, bits, out),
        LogDatum::Value(value) => emit_value(value, out),
        LogDatum::Failure(error) => {
            out.opening(8);
            error.emit(out);
            out.closing(8);
        }
        LogDatum::TimeChange(seconds) => out.context(9, &seconds.to_be_bytes()),
        LogDatum::Several(data) => {
            out.opening(1);
            for datum in data {
                match datum {
                    // Here the choice has no status: its numbers are one less up to that of the error.
                    LogDatum::Value(value) => emit_member(value, out),
                    LogDatum::Failure(error) => {
                        out.opening(7);
                        error.emit(out);
                        out.closing(7);
                    }
                    LogDatum::Status(_) | LogDatum::TimeChange(_) | LogDatum::Several(_) => out.context(6, &[]),
                }
            }
            out.closing(1);
        }
    }
}

fn emit_member(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Boolean(value) => out.context(0, &[u8::from(*value)]),
        Value::Real(value) => out.context(1, &value.to_be_bytes()),
        Value::Enumerated(value) => out.context_number(2, u64::from(*value)),
        Value::Unsigned(value) => out.context_number(3, *value),
        Value::BitString(bits) => emit_bits(5, bits, out),
        Value::Null => out.context(6, &[]),
        other => {
            out.opening(8);
            other.encode(out);
            out.closing(8);
        }
    }
}

/// The datum of a record of several properties: a status, a change of the clock, or a list.
fn several(reader: &mut Reader<'_>) -> Decoded<LogDatum> {
    if reader.is_context(0) {
        return Ok(LogDatum::Status(BitString::from_content(reader.context(0, "a status")?)?));
    }
    if reader.is_context(2) {
        return Ok(LogDatum::TimeChange(real(reader.context(2, "a change of the clock")?)?));
    }
    let mut inside = Reader::new(reader.enclosed(1, "the data of a record")?);
    let mut data = Vec::new();
    while !inside.is_empty() {
        data.push(member(&mut inside)?);
    }
    Ok(LogDatum::Several(data))
}

fn member(reader: &mut Reader<'_>) -> Decoded<LogDatum> {
    if reader.is_opening(7) {
        return Ok(LogDatum::Failure(ServiceError::read(&mut Reader::new(reader.enclosed(7, "an error")?))?));
    }
    if reader.is_opening(8) {
        return Ok(LogDatum::Value(Value::decode(reader.enclosed(8, "a value")?)?));
    }
    let number = (0..=6).find(|number| reader.is_context(*number));
    let number = number.ok_or(DecodeError::Expected("the datum of a record"))?;
    let bytes = reader.context(number, "the datum of a record")?;
    plain(number + 1, bytes)
}

fn emit_bits(number: u8, bits: &BitString, out: &mut Vec<u8>) {
    let (unused, bytes) = bits.content();
    let content: Vec<u8> = core::iter::once(unused).chain(bytes.iter().copied()).collect();
    out.context(number, &content);
}

fn emit_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Boolean(value) => out.context(1, &[u8::from(*value)]),
        Value::Real(value) => out.context(2, &value.to_be_bytes()),
        Value::Enumerated(value) => out.context_number(3, u64::from(*value)),
        Value::Unsigned(value) => out.context_number(4, *value),
        Value::BitString(bits) => emit_bits(6, bits, out),
        Value::Null => out.context(7, &[]),
        // Signed numbers are at most 32 bits long in the standard's record; longer ones go as any value does.
        other => {
            out.opening(10);
            other.encode(out);
            out.closing(10);
        }
    }
}

fn datum(reader: &mut Reader<'_>) -> Decoded<LogDatum> {
    if reader.is_opening(8) {
        return Ok(LogDatum::Failure(ServiceError::read(&mut Reader::new(reader.enclosed(8, "an error")?))?));
    }
    if reader.is_opening(10) {
        return Ok(LogDatum::Value(Value::decode(reader.enclosed(10, "a value")?)?));
    }
    let number = (0..=9).find(|number| reader.is_context(*number));
    let number = number.ok_or(DecodeError::Expected("the datum of a record"))?;
    let bytes = reader.context(number, "the datum of a record")?;
    match number {
        0 => Ok(LogDatum::Status(BitString::from_content(bytes)?)),
        9 => Ok(LogDatum::TimeChange(real(bytes)?)),
        number => plain(number, bytes),
    }
}

/// A value of a choice that begins with a Boolean at 1.
fn plain(number: u8, bytes: &[u8]) -> Decoded<LogDatum> {
    let enumerated = |bytes| u32::try_from(unsigned(bytes)?).map_err(|_| DecodeError::Range("an enumerated value"));
    Ok(LogDatum::Value(match number {
        1 => Value::Boolean(bytes.iter().any(|byte| *byte != 0)),
        2 => Value::Real(real(bytes)?),
        3 => Value::Enumerated(enumerated(bytes)?),
        4 => Value::Unsigned(unsigned(bytes)?),
        5 => Value::Signed(signed(bytes)?),
        6 => Value::BitString(BitString::from_content(bytes)?),
        7 => Value::Null,
        _ => return Err(DecodeError::Expected("the datum of a record")),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{ErrorClass, ErrorCode};
    use alloc::vec;
    use proptest::prelude::*;

    fn at() -> DateTime {
        DateTime::from_timestamp(tieline_core::Timestamp::from_millis(1_800_000_000_000), 0)
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let failure = LogDatum::Failure(ServiceError::new(ErrorClass::OBJECT, ErrorCode::UNKNOWN_OBJECT));
        let status = Some(BitString::new(&[true, false, false, true]));
        let plain = [
            LogDatum::Value(Value::Real(2.5)),
            LogDatum::Value(Value::Boolean(true)),
            LogDatum::Value(Value::Enumerated(3)),
            LogDatum::Value(Value::Unsigned(70_000)),
            LogDatum::Value(Value::Null),
            LogDatum::Value(Value::Double(0.1)),
            failure.clone(),
        ];
        let marks = [LogDatum::Status(BitString::new(&[false, true, false])), LogDatum::TimeChange(3.0)];
        let record = |datum: &LogDatum| LogRecord { at: at(), datum: datum.clone(), status };
        let single: Vec<_> = plain.iter().chain(&marks).map(record).collect();
        let mut bytes = Vec::new();
        single.iter().for_each(|record| record.emit(&mut bytes));
        assert_eq!(log_records(&bytes), Ok(single));
        // A record of several has its status and its clock at other numbers.
        let several = vec![record(&LogDatum::Several(plain.to_vec())), record(&LogDatum::Several(vec![failure]))];
        let mut bytes = Vec::new();
        several.iter().for_each(|record| record.emit(&mut bytes));
        assert_eq!(log_multiple_records(&bytes), Ok(several));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            for records in [log_records(&bytes), log_multiple_records(&bytes)].into_iter().flatten() {
                prop_assert!(records.len() <= bytes.len());
            }
        }
    }
}
