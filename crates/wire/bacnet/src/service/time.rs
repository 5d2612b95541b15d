//! TimeSynchronization and UTCTimeSynchronization (clauses 16.7, 16.8).

use crate::tag::Reader;
use crate::{Date, DateTime, Decoded, Time, Value};
use alloc::vec::Vec;

/// Appends the parameters: a date and a time of day.
pub fn emit_time(at: DateTime, out: &mut Vec<u8>) {
    Value::Date(at.date).encode(out);
    Value::Time(at.time).encode(out);
}

/// Reads the parameters.
///
/// # Errors
/// They are not a date and a time of day.
pub fn parse_time(parameters: &[u8]) -> Decoded<DateTime> {
    let mut reader = Reader::new(parameters);
    let at = read(&mut reader)?;
    reader.end()?;
    Ok(at)
}

pub(super) fn read(reader: &mut Reader<'_>) -> Decoded<DateTime> {
    let date = Date::from_bytes(reader.application(10, "a date")?)?;
    let time = Time::from_bytes(reader.application(11, "a time of day")?)?;
    Ok(DateTime { date, time })
}
