//! What properties bring, as values and qualities of points; and what commands write.

use crate::config::{BacnetPoint, ValueKind, WriteAs};
use tieline_bacnet::client::Failure;
use tieline_bacnet::names::{ErrorClass, ErrorCode};
use tieline_bacnet::{BitString, Value as Wire};
use tieline_core::{PointId, Quality, Reading, Refusal, Value, nearest_int, shortest};

/// Bytes of a list, or of a text, that a value shows at most.
const TEXT_MAX: usize = 4096;

/// A value as its topic has it, before scaling.
pub(super) fn value_of(wire: &Wire, kind: ValueKind) -> Value {
    let is_two_state = kind == ValueKind::Bool;
    match wire {
        Wire::Null => Value::Null,
        Wire::Boolean(state) => Value::Bool(*state),
        Wire::Enumerated(number) if is_two_state => Value::Bool(*number != 0),
        Wire::Unsigned(number) if is_two_state => Value::Bool(*number != 0),
        Wire::Enumerated(number) => Value::Int(i64::from(*number)),
        Wire::Unsigned(number) => i64::try_from(*number).map_or_else(|_| float(wire), Value::Int),
        Wire::Signed(number) => Value::Int(*number),
        Wire::Real(number) => Value::Float(shortest(f64::from(*number))),
        Wire::Double(_) => float(wire),
        Wire::OctetString(bytes) => Value::Bytes(bytes.clone()),
        Wire::CharacterString(_)
        | Wire::BitString(_)
        | Wire::Date(_)
        | Wire::Time(_)
        | Wire::ObjectId(_)
        | Wire::Context(..)
        | Wire::Constructed(..)
        | Wire::List(_) => {
            let mut text = String::new();
            wire.show(TEXT_MAX, &mut text);
            Value::Text(text.into())
        }
    }
}

fn float(wire: &Wire) -> Value {
    wire.as_f64().map_or(Value::Null, Value::Float)
}

/// What the status flags of an object say of its present value (clause 12.2.7). An alarm is none against it.
pub(super) fn quality_of(flags: &BitString) -> Quality {
    let (fault, overridden, out_of_service) = (flags.bit(1), flags.bit(2), flags.bit(3));
    let reasons = [
        (fault, Quality::COMM_LOST),
        (overridden, Quality::LOCAL_FORCED),
        // The value is no longer that of the input or the output.
        (out_of_service, Quality::OFFLINE),
    ];
    reasons.into_iter().filter(|(is, _)| *is).fold(Quality::GOOD, |quality, (_, reason)| quality.with(reason))
}

/// The reading of a point.
pub(super) fn reading(point: PointId, wire: &Wire, kind: ValueKind, flags: Option<&Wire>) -> Reading {
    let value = value_of(wire, kind);
    let mut quality = match flags {
        Some(Wire::BitString(flags)) => quality_of(flags),
        Some(_) | None => Quality::GOOD,
    };
    if matches!(value, Value::Float(number) if !number.is_finite()) {
        quality = quality.with(Quality::OVER_RANGE);
    }
    Reading { point, value, quality, time: None, event: false }
}

/// A point that the device refuses to give.
pub(super) const fn refused(point: PointId) -> Reading {
    Reading { point, value: Value::Null, quality: Quality::OFFLINE, time: None, event: false }
}

/// Whether asking again is no use until the device has changed.
pub(super) fn is_lasting(failure: &Failure) -> bool {
    match failure {
        Failure::Error(error) => {
            error.class == ErrorClass::OBJECT
                || error.code == ErrorCode::UNKNOWN_PROPERTY
                || error.code == ErrorCode::UNKNOWN_OBJECT
        }
        Failure::Reject(_)
        | Failure::Abort(_)
        | Failure::TimedOut
        | Failure::Unreachable(_)
        | Failure::AnswerTooLong
        | Failure::Malformed
        | Failure::Cancelled => false,
    }
}

/// What is written for a command; null relinquishes.
pub(super) fn to_write(point: &BacnetPoint, value: &Value) -> Result<Wire, Refusal> {
    let Some(writes) = point.writes else {
        return Err(Refusal::new("not_writable", "the point is only read".to_owned()));
    };
    if *value == Value::Null {
        let is_commandable = point.is_present_value();
        let refused = || Refusal::new("wrong_type", "only a present value can be relinquished".to_owned());
        return is_commandable.then_some(Wire::Null).ok_or_else(refused);
    }
    let refused = || Refusal::new("out_of_range", format!("the value cannot be written as {}", name_of(writes)));
    let number = value.as_f64().filter(|number| number.is_finite()).ok_or_else(refused)?;
    let whole = || if let Value::Int(whole) = value { Some(*whole) } else { nearest_int(number) };
    let written = match writes {
        WriteAs::Real => single(number).map(Wire::Real),
        WriteAs::Double => Some(Wire::Double(number)),
        WriteAs::Unsigned => whole().and_then(|whole| u64::try_from(whole).ok()).map(Wire::Unsigned),
        WriteAs::Signed => whole().map(Wire::Signed),
        WriteAs::Enumerated => whole().and_then(|whole| u32::try_from(whole).ok()).map(Wire::Enumerated),
        WriteAs::Boolean => Some(Wire::Boolean(number != 0.0)),
    };
    written.ok_or_else(refused)
}

#[expect(clippy::cast_possible_truncation, reason = "the standard has single precision here; the range is checked")]
fn single(number: f64) -> Option<f32> {
    (number.abs() <= f64::from(f32::MAX)).then_some(number as f32)
}

const fn name_of(writes: WriteAs) -> &'static str {
    match writes {
        WriteAs::Real => "a number of 32 bits",
        WriteAs::Double => "a number of 64 bits",
        WriteAs::Unsigned => "a whole number from 0",
        WriteAs::Signed => "a whole number",
        WriteAs::Enumerated => "one of its states",
        WriteAs::Boolean => "true or false",
    }
}

/// Why a device did not carry a command out, or is not known to have.
pub(super) fn refusal_of(failure: &Failure) -> Refusal {
    let words = failure.to_string();
    match failure {
        Failure::Error(error) => Refusal::new(reason_of(error.code), words),
        Failure::Reject(_) => Refusal::new("rejected", words),
        Failure::Unreachable(_) => Refusal::new("away", words),
        Failure::Cancelled => Refusal::new("timeout", "its turn did not come in time".to_owned()),
        Failure::TimedOut => Refusal::unknown("timeout", words),
        Failure::Abort(_) => Refusal::unknown("aborted", words),
        Failure::AnswerTooLong | Failure::Malformed => Refusal::unknown("malformed", words),
    }
}

/// The standard's word for an error, as reasons are written.
fn reason_of(code: ErrorCode) -> &'static str {
    match code.name().unwrap_or_default() {
        "write-access-denied" => "write_access_denied",
        "value-out-of-range" => "out_of_range",
        "invalid-data-type" => "invalid_data_type",
        "unknown-object" => "unknown_object",
        "unknown-property" => "unknown_property",
        "device-busy" => "busy",
        "property-is-not-commandable" | "optional-functionality-not-supported" => "not_supported",
        _ => "refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ValueKind::{Bool, Float, Int, Text};
    use tieline_bacnet::{ObjectId, ObjectType, PropertyId, PropertyRef};

    #[test]
    fn values_are_what_their_points_are() {
        let check = |wire: Wire, kind, expect: Value| assert_eq!(value_of(&wire, kind), expect, "{wire:?}");
        check(Wire::Real(21.5), Float, Value::Float(21.5));
        check(Wire::Real(23.1), Float, Value::Float(23.1));
        check(Wire::Enumerated(1), Bool, Value::Bool(true));
        check(Wire::Enumerated(3), Int, Value::Int(3));
        check(Wire::Unsigned(u64::MAX), Int, Value::Float(18_446_744_073_709_551_615.0));
        check(Wire::Signed(-4), Int, Value::Int(-4));
        check("AHU 1".into(), Text, "AHU 1".into());
        check(Wire::Null, Float, Value::Null);
        check(Wire::BitString(BitString::new(&[true, false, false, true])), Text, "1001".into());
        check(Wire::List(vec![Wire::Null, Wire::Real(5.0)]), Text, "null,5".into());
        check(Wire::OctetString([1, 2].into()), Text, Value::Bytes([1, 2].into()));
    }

    #[test]
    fn status_flags_are_qualities() {
        let check = |bits: [bool; 4], expect| assert_eq!(quality_of(&BitString::new(&bits)), expect);
        check([true, false, false, false], Quality::GOOD);
        check([false, true, false, false], Quality::COMM_LOST);
        check([false, false, true, false], Quality::LOCAL_FORCED);
        check([true, true, false, true], Quality::COMM_LOST.with(Quality::OFFLINE));
        let infinite = reading(PointId(0), &Wire::Real(f32::INFINITY), Float, None);
        assert_eq!(infinite.quality, Quality::OVER_RANGE);
    }

    #[test]
    fn commands_are_written_as_their_objects_are() {
        let check = |writes, value: Value, expect: Result<Wire, &str>| {
            let object = ObjectId::new(ObjectType::ANALOG_VALUE, 1);
            let reference = PropertyRef::new(object, PropertyId::PRESENT_VALUE);
            let point = BacnetPoint { reference, cov: None, write_priority: None, trend_log: None, writes };
            assert_eq!(to_write(&point, &value).map_err(|refusal| refusal.reason), expect);
        };
        check(Some(WriteAs::Real), Value::Float(42.5), Ok(Wire::Real(42.5)));
        check(Some(WriteAs::Real), Value::Float(1e39), Err("out_of_range"));
        check(Some(WriteAs::Enumerated), Value::Bool(true), Ok(Wire::Enumerated(1)));
        check(Some(WriteAs::Unsigned), Value::Int(3), Ok(Wire::Unsigned(3)));
        check(Some(WriteAs::Unsigned), Value::Int(-3), Err("out_of_range"));
        check(Some(WriteAs::Boolean), Value::Bool(false), Ok(Wire::Boolean(false)));
        check(Some(WriteAs::Real), Value::Null, Ok(Wire::Null));
        check(Some(WriteAs::Real), "warm".into(), Err("out_of_range"));
        check(None, Value::Float(1.0), Err("not_writable"));
    }
}
