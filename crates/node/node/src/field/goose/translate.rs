//! GOOSE's words and Tieline's: members of a data set become readings, commands become members.

use crate::config::{GooseKind, GoosePoint, PointConfig};
use std::sync::Arc;
use tieline_core::{
    Command, Now, PointId, Quality, Reading, Timestamp, Validity, Value, json_value, nearest_int, shortest,
};
use tieline_goose::{Bits, Data, Message, Path, UtcTime, Value as Member};

/// The points of a data set, with what was told of each last.
#[derive(Debug)]
pub struct PointIndex {
    points: Arc<[PointConfig]>,
    last: Vec<Option<(Value, Quality)>>,
    /// Points whose values are of another type, or are not there, in the last message that was read.
    misfits: u64,
    /// What of them was told.
    told: bool,
    is_unread: bool,
}

impl PointIndex {
    /// Of a point list; a point's number is its place in the list.
    #[must_use]
    pub fn new(points: Arc<[PointConfig]>) -> Self {
        let last = vec![None; points.len()];
        Self { points, last, misfits: 0, told: false, is_unread: false }
    }

    /// The list is another one; whether any of its values is elsewhere.
    pub fn set_points(&mut self, points: Arc<[PointConfig]>) -> bool {
        let places =
            |points: &[PointConfig]| points.iter().map(|point| point.address.goose().cloned()).collect::<Vec<_>>();
        let is_same = places(&points) == places(&self.points);
        let misfits = self.misfits;
        if is_same {
            self.points = points;
        } else {
            *self = Self { misfits, is_unread: true, ..Self::new(points) };
        }
        !is_same
    }

    /// Whether the points are others than when the last message was read.
    #[must_use]
    pub const fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Values that were not of the type of their point, or not there, since the start.
    #[must_use]
    pub const fn misfits(&self) -> u64 {
        self.misfits
    }

    fn point(&self, point: PointId) -> Option<&GoosePoint> {
        self.points.get(usize::try_from(point.0).ok()?)?.address.goose()
    }

    /// The readings of a message: of all points, or of those that changed.
    pub fn readings(&mut self, message: &Message<'_>, is_all: bool) -> Vec<Reading> {
        let (pdu, mut readings) = (&message.pdu, Vec::new());
        let is_simulated = message.is_simulated();
        self.is_unread = false;
        for ((point, last), id) in self.points.iter().zip(&mut self.last).zip(0..) {
            let Some(place) = point.address.goose() else { continue };
            let value = pdu.all_data.find(&place.path).and_then(|data| to_value(place.kind, data));
            let Some(value) = value else {
                self.misfits += 1;
                if !std::mem::replace(&mut self.told, true) {
                    let (block, point) = (pdu.head.gocb_ref, &point.name);
                    tracing::warn!(block, %point, index = %place.path, "the data set has no value of this type there");
                }
                continue;
            };
            let bits = place.quality.as_ref().and_then(|path| pdu.all_data.find(path));
            let mut quality = if let Some(Data::BitString(bits)) = bits { to_quality(bits) } else { Quality::GOOD };
            if is_simulated {
                quality = quality.with(Quality::REMOTE_FORCED);
            }
            let own = place.time.as_ref().and_then(|path| pdu.all_data.find(path));
            let time = if let Some(Data::UtcTime(time)) = own { time } else { pdu.head.time };
            if !time.quality.is_trusted() {
                quality = quality.with(Quality::TIME_UNSYNCED);
            }
            let known = Some((value.clone(), quality));
            let event = last.is_some() && *last != known && !is_all;
            if is_all || *last != known {
                *last = known;
                // A clock that was never set says nothing.
                let time = (time.seconds > 0).then(|| time.timestamp());
                readings.push(Reading { point: PointId(id), value, quality, time, event });
            }
        }
        readings
    }

    /// The readings of what is published.
    #[must_use]
    pub fn published(&self, now: Now, values: &[Member]) -> Vec<Reading> {
        (0..).zip(self.points.iter()).filter_map(|(id, _)| self.published_point(now, PointId(id), values)).collect()
    }

    /// The reading of a point that is published.
    #[must_use]
    pub fn published_point(&self, now: Now, point: PointId, values: &[Member]) -> Option<Reading> {
        let place = self.point(point)?;
        let value = own_value(place.kind, find(values, &place.path)?);
        Some(Reading { point, value, quality: Quality::GOOD, time: Some(now.utc), event: true })
    }

    /// What a command changes; otherwise what is wrong with its value.
    ///
    /// # Errors
    /// The value does not fit the point.
    pub fn changes(&self, now: UtcTime, command: &Command) -> Result<Vec<(Path, Member)>, String> {
        let place = self.point(command.point).ok_or_else(|| "the point is not commanded".to_owned())?;
        let value = member_of(place, &command.value).ok_or_else(|| {
            let mut value = String::new();
            json_value(&command.value, &mut value);
            format!("the value {value} does not fit the member of the data set")
        })?;
        let time = place.time.iter().map(|path| (path.clone(), Member::UtcTime(now)));
        Ok(std::iter::once((place.path.clone(), value)).chain(time).collect())
    }
}

fn find<'a>(values: &'a [Member], path: &Path) -> Option<&'a Member> {
    let (mut members, mut found) = (values, None);
    for place in path.places() {
        found = members.get(usize::from(*place).checked_sub(1)?);
        members = match found? {
            Member::Array(within) | Member::Structure(within) => within,
            _ => &[],
        };
    }
    found
}

/// The value of a member; none of another type than that of the point. Signed and unsigned numbers of both sizes are one type each
/// to a reader.
fn to_value(kind: GooseKind, data: Data<'_>) -> Option<Value> {
    Some(match (kind, data) {
        (GooseKind::Boolean, Data::Boolean(on)) => Value::Bool(on),
        (GooseKind::DoublePoint, Data::BitString(bits)) if bits.count() == 2 => Value::Int(bits.number()?),
        (GooseKind::BitString, Data::BitString(bits)) => Value::Int(bits.number()?),
        (GooseKind::Integer | GooseKind::Unsigned, Data::Integer(number)) => Value::Int(number),
        (GooseKind::Integer | GooseKind::Unsigned, Data::Unsigned(number)) => Value::Int(i64::try_from(number).ok()?),
        (GooseKind::Float32 | GooseKind::Float64, Data::Float32(number)) => Value::Float(shortest(number.into())),
        (GooseKind::Float32 | GooseKind::Float64, Data::Float64(number)) => Value::Float(number),
        (GooseKind::OctetString, Data::Octets(bytes)) | (GooseKind::BinaryTime, Data::BinaryTime(bytes)) => hex(bytes),
        (GooseKind::VisibleString, Data::VisibleString(text)) | (GooseKind::MmsString, Data::MmsString(text)) => {
            Value::Text(text.into())
        }
        (GooseKind::UtcTime, Data::UtcTime(time)) => words(time),
        _ => return None,
    })
}

/// The same of what is published.
fn own_value(kind: GooseKind, member: &Member) -> Value {
    match member {
        Member::Boolean(on) => Value::Bool(*on),
        Member::Bits { bits, .. } => Value::Int(i64::try_from(*bits).unwrap_or(i64::MAX)),
        Member::Integer(number) => Value::Int(*number),
        Member::Unsigned(number) => Value::Int(i64::try_from(*number).unwrap_or(i64::MAX)),
        Member::Float32(number) => Value::Float(shortest((*number).into())),
        Member::Float64(number) => Value::Float(*number),
        Member::Octets(bytes) | Member::BinaryTime(bytes) => hex(bytes),
        Member::VisibleString(text) | Member::MmsString(text) => Value::Text(text.clone()),
        Member::UtcTime(time) => words(*time),
        Member::Array(_) | Member::Structure(_) => {
            debug_assert!(false, "a {} of parts", kind.name());
            Value::Null
        }
    }
}

fn words(time: UtcTime) -> Value {
    let time: Timestamp = time.timestamp();
    Value::Text(time.to_string().into())
}

fn hex(bytes: &[u8]) -> Value {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Value::Text(digits.into())
}

/// The quality of IEC 61850-7-3, as 8-1 writes it: validity 2, overflow, out of range, bad reference, oscillatory, failure, old data,
/// inconsistent, inaccurate, substituted, test, blocked by an operator.
fn to_quality(bits: Bits<'_>) -> Quality {
    let reasons = [
        (2, Quality::OVER_RANGE),
        (3, Quality::OVER_RANGE),
        (4, Quality::REFERENCE_ERR),
        (5, Quality::CHATTER_FILTER),
        (6, Quality::OFFLINE),
        (7, Quality::STALE),
        (8, Quality::DISCONTINUITY),
        (9, Quality::REFERENCE_ERR),
        (10, Quality::REMOTE_FORCED),
        (11, Quality::LOCAL_FORCED),
        (12, Quality::STALE),
    ];
    let set = reasons.into_iter().filter(|(bit, _)| bits.is_set(*bit));
    let quality = set.fold(Quality::GOOD, |quality, (_, reason)| quality.with(reason));
    let validity = match (bits.is_set(0), bits.is_set(1)) {
        (false, false) => Validity::Good,
        (true, true) => Validity::Uncertain,
        (false, true) | (true, false) => Validity::Bad,
    };
    // A test is no state of the process (IEC 61850-7-4, Beh); a value that was substituted is not what the field shows.
    let stated = [(11, Validity::Bad), (10, Validity::Uncertain), (12, Validity::Uncertain)];
    let stated = stated.into_iter().filter(|(bit, _)| bits.is_set(*bit)).map(|(_, validity)| validity);
    quality.with_validity(stated.fold(validity, Ord::max))
}

/// What is published for a value; none where it does not fit.
fn member_of(place: &GoosePoint, value: &Value) -> Option<Member> {
    let number = value.as_f64()?;
    Some(match (place.kind, &place.initial) {
        (GooseKind::Boolean, _) => Member::Boolean(number != 0.0),
        // Off and on.
        (GooseKind::DoublePoint, _) => Member::Bits { count: 2, bits: if number == 0.0 { 1 } else { 2 } },
        (GooseKind::BitString, Member::Bits { count, .. }) => {
            let bits = nearest_int(number).and_then(|number| u64::try_from(number).ok());
            Member::Bits { count: *count, bits: bits.filter(|bits| bits.checked_shr((*count).into()) == Some(0))? }
        }
        (GooseKind::Integer, _) => {
            Member::Integer(nearest_int(number).and_then(|number| i32::try_from(number).ok())?.into())
        }
        (GooseKind::Unsigned, _) => {
            Member::Unsigned(nearest_int(number).and_then(|number| u32::try_from(number).ok())?.into())
        }
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked; a float may lose digits")]
        (GooseKind::Float32, _) if number.abs() <= f64::from(f32::MAX) => Member::Float32(number as f32),
        (GooseKind::Float64, _) => Member::Float64(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Findings, ProtocolName, read_points};
    use tieline_core::{CommandMode, Instant};
    use tieline_goose::TimeQuality;

    fn index() -> PointIndex {
        let list = "name,type,index,time,bits\ntrip,boolean,1,,\nposition,double-point,2,5,\nmask,bit-string,3,,4\nlevel,float32,4,,\n";
        let points = read_points(&mut Findings::default(), "p.csv", list, ProtocolName::Goose).unwrap();
        PointIndex::new(points.into())
    }

    fn now() -> Now {
        Now { mono: Instant::ZERO, utc: "2026-11-20T09:30:00Z".parse().unwrap() }
    }

    #[test]
    fn qualities_become_reasons() {
        let check = |bits: u64, validity: Validity, reasons: &[&str]| {
            // As another device sends it.
            let head = tieline_goose::PduHead {
                gocb_ref: "a",
                time_allowed_ms: 1,
                dat_set: "a",
                go_id: None,
                time: UtcTime::new(now().utc, TimeQuality::SYNCHRONIZED),
                st_num: 1,
                sq_num: 0,
                is_simulated: false,
                conf_rev: 1,
                needs_commissioning: false,
            };
            let mut apdu = Vec::new();
            head.emit(&[Member::Bits { count: 13, bits }], &mut apdu);
            let pdu = tieline_goose::Pdu::parse(&apdu).unwrap();
            let Some(Data::BitString(bits)) = pdu.all_data.find(&"1".parse().unwrap()) else { panic!("bits") };
            let quality = to_quality(bits);
            assert_eq!((quality.validity(), quality.reasons().collect::<Vec<_>>()), (validity, reasons.to_vec()));
        };
        check(0, Validity::Good, &[]);
        check(0b0_1000_0000_0000, Validity::Bad, &[]);
        check(0b1_1000_0000_0000, Validity::Uncertain, &[]);
        check(0b1_1100_0000_0000, Validity::Uncertain, &["over_range"]);
        check(0b0_1000_0100_0000, Validity::Bad, &["offline"]);
        check(0b1_1000_0010_0000, Validity::Uncertain, &["stale"]);
        check(0b0_0000_0000_0100, Validity::Uncertain, &["remote_forced"]);
        check(0b0_0000_0000_0010, Validity::Bad, &["local_forced"]);
        check(0b0_0000_0000_0001, Validity::Uncertain, &["stale"]);
    }

    #[test]
    fn commands_become_members() {
        let changes = |point, value| {
            let mode = CommandMode::DirectOperate;
            let at = UtcTime::new(now().utc, TimeQuality::SYNCHRONIZED);
            let changes = index().changes(at, &Command { point: PointId(point), value, mode })?;
            Ok::<_, String>(changes.into_iter().map(|(path, value)| (path.to_string(), value)).collect::<Vec<_>>())
        };
        let one = |path: &str, value| Ok(vec![(path.to_owned(), value)]);
        assert_eq!(changes(0, Value::Bool(true)), one("1", Member::Boolean(true)));
        let at = Member::UtcTime(UtcTime::new(now().utc, TimeQuality::SYNCHRONIZED));
        let on = Member::Bits { count: 2, bits: 2 };
        assert_eq!(changes(1, Value::Bool(true)), Ok(vec![("2".to_owned(), on), ("5".to_owned(), at)]));
        assert_eq!(changes(2, Value::Int(15)), one("3", Member::Bits { count: 4, bits: 15 }));
        assert_eq!(changes(3, Value::Float(2.5)), one("4", Member::Float32(2.5)));
        let misfit = |value: &str| Err(format!("the value {value} does not fit the member of the data set"));
        assert_eq!(changes(2, Value::Int(16)), misfit("16"));
        assert_eq!(changes(3, Value::Float(1e39)), misfit("1e39"));
        assert_eq!(changes(0, Value::Null), misfit("null"));
    }
}
