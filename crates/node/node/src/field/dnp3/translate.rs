//! DNP3's words and Tieline's: measurements become readings, commands become controls.

use crate::config::{Dnp3Point, Operate, PointConfig};
use std::sync::Arc;
use tieline_core::{Command, PointId, Quality, Reading, Timestamp, Value, shortest};
use tieline_dnp3::{AnalogCommand, Control, Crob, DnpTime, Flags, Measured, Measurement, PointType};

/// The pulse of a control that pulses, in milliseconds.
const PULSE_MS: u32 = 500;

/// Which point of a list a measurement belongs to. Shared by all devices with the same list.
#[derive(Debug)]
pub struct PointIndex {
    points: Arc<[PointConfig]>,
    sorted: Vec<(PointType, u16, PointId)>,
}

impl PointIndex {
    /// Of a point list; a point's number is its place in the list.
    #[must_use]
    pub fn new(points: Arc<[PointConfig]>) -> Self {
        let mut sorted: Vec<_> = points
            .iter()
            .zip(0..)
            .filter_map(|(point, id)| Some((point.address.dnp3()?, PointId(id))))
            .map(|(point, id)| (point.point_type, point.index, id))
            .collect();
        sorted.sort_unstable_by_key(|(point_type, index, _)| (*point_type, *index));
        Self { points, sorted }
    }

    /// Whether each point that one of both has is at the same place in the other's list.
    #[must_use]
    pub fn finds_same(&self, other: &Self) -> bool {
        self.sorted == other.sorted
    }

    /// The point of a type and an index; none where the list does not have it.
    #[must_use]
    pub fn find(&self, point_type: PointType, index: u16) -> Option<PointId> {
        let at = self.sorted.binary_search_by_key(&(point_type, index), |(t, i, _)| (*t, *i)).ok()?;
        self.sorted.get(at).map(|(_, _, id)| *id)
    }

    fn point(&self, point: PointId) -> Option<&Dnp3Point> {
        self.points.get(usize::try_from(point.0).ok()?)?.address.dnp3()
    }

    /// The control object, and its index, that a command stands for.
    #[must_use]
    pub fn to_control(&self, command: &Command) -> Option<(u16, Control)> {
        let output = self.point(command.point)?.output?;
        Some((output.index, control_object(output.operate, &command.value)?))
    }
}

/// A measurement as a reading of a point.
#[must_use]
pub fn to_reading(point: PointId, measurement: Measurement, event: bool) -> Reading {
    let Measurement { point_type, value, flags, stamp, .. } = measurement;
    let mut quality = to_quality(point_type, flags);
    let time = stamp.and_then(|stamp| to_time(stamp.time));
    // Events that must carry a time carry zero where there is none; that says nothing of the clock.
    if stamp.is_some_and(|stamp| !stamp.synchronized || (time.is_none() && stamp.time.millis() != 0)) {
        quality = quality.with(Quality::TIME_UNSYNCED);
    }
    // No measurement is infinite or no number, whatever the flags say.
    if matches!(value, Measured::Analog(number) if !number.is_finite()) {
        quality = quality.with(Quality::OVER_RANGE);
    }
    Reading { point, value: to_value(value), quality, time, event }
}

/// A device's time; none before 1990, when there was no DNP3: such a clock was never set and counts from its start.
fn to_time(time: DnpTime) -> Option<Timestamp> {
    const EARLIEST_MS: u64 = 631_152_000_000;
    (time.millis() >= EARLIEST_MS).then(|| time.into())
}

fn to_value(measured: Measured) -> Value {
    match measured {
        Measured::Bit(bit) => Value::Bool(bit),
        Measured::DoubleBit(state) => Value::Int(state.bits().into()),
        Measured::Count(count) => Value::Int(count.into()),
        Measured::Analog(number) => Value::Float(shortest(number)),
        Measured::Bytes(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) if !text.chars().any(char::is_control) => Value::Text(text.into()),
            Ok(_) | Err(_) => Value::Bytes(bytes),
        },
    }
}

/// The flag byte as reasons (IEEE 1815 clause 11.6). Octet strings have no flags.
fn to_quality(point_type: PointType, flags: Flags) -> Quality {
    let common = [
        (Flags::RESTART, Quality::RESTART),
        (Flags::COMM_LOST, Quality::COMM_LOST),
        (Flags::REMOTE_FORCED, Quality::REMOTE_FORCED),
        (Flags::LOCAL_FORCED, Quality::LOCAL_FORCED),
    ];
    let special: &[(Flags, Quality)] = match point_type {
        PointType::Binary | PointType::DoubleBit => &[(Flags::CHATTER_FILTER, Quality::CHATTER_FILTER)],
        PointType::Counter | PointType::FrozenCounter => &[(Flags::DISCONTINUITY, Quality::DISCONTINUITY)],
        PointType::Analog | PointType::FrozenAnalog | PointType::AnalogOutput => {
            &[(Flags::OVER_RANGE, Quality::OVER_RANGE), (Flags::REFERENCE_ERR, Quality::REFERENCE_ERR)]
        }
        PointType::BinaryOutput => &[],
        PointType::OctetString => return Quality::GOOD,
    };
    let online = if flags.contains(Flags::ONLINE) { Quality::GOOD } else { Quality::OFFLINE };
    let set = common.iter().chain(special).filter(|(flag, _)| flags.contains(*flag));
    set.fold(online, |quality, (_, reason)| quality.with(*reason))
}

/// Control codes of g12v1 (IEEE 1815 A.8.1).
const PULSE_ON: u8 = 0x01;
const LATCH_ON: u8 = 0x03;
const LATCH_OFF: u8 = 0x04;
const PULSE_OFF: u8 = 0x02;
const CLOSE_PULSE_ON: u8 = 0x41;
const TRIP_PULSE_ON: u8 = 0x81;

fn control_object(operate: Operate, value: &Value) -> Option<Control> {
    let number = value.as_f64()?;
    let on = number != 0.0;
    let crob = |code, ms| Control::Crob(Crob { code, count: 1, on_ms: ms, off_ms: ms });
    let whole = number.round();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range is checked beside each cast; a float may lose digits"
    )]
    Some(match operate {
        Operate::Latch => crob(if on { LATCH_ON } else { LATCH_OFF }, 0),
        Operate::Pulse => crob(if on { PULSE_ON } else { PULSE_OFF }, PULSE_MS),
        Operate::TripClose => crob(if on { CLOSE_PULSE_ON } else { TRIP_PULSE_ON }, PULSE_MS),
        Operate::Int16 if (f64::from(i16::MIN)..=f64::from(i16::MAX)).contains(&whole) => {
            Control::Analog(AnalogCommand::Int16(whole as i16))
        }
        Operate::Int32 if (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&whole) => {
            Control::Analog(AnalogCommand::Int32(whole as i32))
        }
        Operate::Float if number.abs() <= f64::from(f32::MAX) => Control::Analog(AnalogCommand::Float32(number as f32)),
        Operate::Double => Control::Analog(AnalogCommand::Float64(number)),
        Operate::Int16 | Operate::Int32 | Operate::Float => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::Validity;
    use tieline_dnp3::Stamp;

    fn check_quality(point_type: PointType, flags: u8, validity: Validity, reasons: &[&str]) {
        let quality = to_quality(point_type, Flags(flags));
        assert_eq!(quality.validity(), validity, "{point_type:?} {flags:02x}");
        assert_eq!(quality.reasons().collect::<Vec<_>>(), reasons);
    }

    #[test]
    fn flags_become_reasons() {
        check_quality(PointType::Binary, 0x01, Validity::Good, &[]);
        check_quality(PointType::Binary, 0x81, Validity::Good, &[]);
        check_quality(PointType::Binary, 0x00, Validity::Bad, &["offline"]);
        check_quality(PointType::Binary, 0x21, Validity::Uncertain, &["chatter_filter"]);
        check_quality(PointType::Analog, 0x25, Validity::Bad, &["comm_lost", "over_range"]);
        check_quality(PointType::Analog, 0x41, Validity::Uncertain, &["reference_err"]);
        check_quality(PointType::Counter, 0x61, Validity::Uncertain, &["discontinuity"]);
        check_quality(
            PointType::BinaryOutput,
            0x1b,
            Validity::Uncertain,
            &["restart", "remote_forced", "local_forced"],
        );
    }

    #[test]
    fn what_is_no_number_is_over_range() {
        let measured = |number| Measurement {
            point_type: PointType::Analog,
            index: 0,
            value: Measured::Analog(number),
            flags: Flags::ONLINE,
            stamp: None,
        };
        let quality = |number| to_reading(PointId(0), measured(number), false).quality;
        assert_eq!(quality(f64::NAN), Quality::OVER_RANGE);
        assert_eq!(quality(f64::NEG_INFINITY), Quality::OVER_RANGE);
        assert_eq!(quality(1.0), Quality::GOOD);
    }

    fn check_time(stamp: Option<(u64, bool)>, expect: Option<i64>, synced: bool) {
        let stamp = stamp.map(|(ms, synchronized)| Stamp { time: DnpTime::from_millis(ms), synchronized });
        let measurement = Measurement {
            point_type: PointType::Counter,
            index: 0,
            value: Measured::Count(7),
            flags: Flags::ONLINE,
            stamp,
        };
        let reading = to_reading(PointId(0), measurement, true);
        let quality = if synced { Quality::GOOD } else { Quality::GOOD.with(Quality::TIME_UNSYNCED) };
        assert_eq!((reading.time.map(|time| time.millis()), reading.quality), (expect, quality), "{stamp:?}");
    }

    #[test]
    fn a_clock_that_was_never_set_gives_no_time() {
        check_time(None, None, true);
        check_time(Some((0, true)), None, true);
        check_time(Some((86_400_000, true)), None, false);
        check_time(Some((1_700_000_000_123, true)), Some(1_700_000_000_123), true);
        check_time(Some((1_700_000_000_123, false)), Some(1_700_000_000_123), false);
    }

    fn check_control(operate: Operate, value: Value, expect: Option<Control>) {
        assert_eq!(control_object(operate, &value), expect, "{operate:?} {value:?}");
    }

    #[test]
    fn commands_become_controls() {
        let crob = |code, ms| Some(Control::Crob(Crob { code, count: 1, on_ms: ms, off_ms: ms }));
        check_control(Operate::Latch, Value::Bool(true), crob(0x03, 0));
        check_control(Operate::TripClose, Value::Bool(false), crob(0x81, 500));
        check_control(Operate::Int16, Value::Float(-3.5), Some(Control::Analog(AnalogCommand::Int16(-4))));
        check_control(Operate::Int16, Value::Int(40_000), None);
        check_control(Operate::Float, Value::Float(1e300), None);
        check_control(Operate::Double, Value::Float(1e300), Some(Control::Analog(AnalogCommand::Float64(1e300))));
        check_control(Operate::Latch, Value::Null, None);
    }
}
