//! IEC 104's words and Tieline's: objects become readings, commands become requests.

use crate::config::{Iec104Command, Iec104Config, Iec104Kind, Iec104Output, PointConfig};
use std::sync::Arc;
use tieline_core::{
    Command, CommandMode, Now, PointId, Quality, Reading, Timestamp, Validity, Value, json_value, nearest_int, shortest,
};
use tieline_iec104::{Address, CauseCode, CommandRequest, Element, Flags, Form, Header, Object, Qualifier, TimeTag};

/// Steps of a normalized value from 0 to 1.
const NORMALIZED_STEPS: f64 = 32_768.0;

/// Which point of a list an object belongs to, and what a station needs for its commands.
#[derive(Debug)]
pub struct PointIndex {
    points: Arc<[PointConfig]>,
    /// Of points that do not say.
    common_address: u16,
    command_time: bool,
    utc_offset_minutes: i16,
    sorted: Vec<(u16, Address, PointId)>,
}

/// What an object is to a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A reading of a point.
    Reading(Reading),
    /// No point has its address.
    Unknown,
    /// The point with its address has another type.
    OtherType(PointId),
}

impl PointIndex {
    /// Of a point list; a point's number is its place in the list.
    #[must_use]
    pub fn new(points: Arc<[PointConfig]>, config: &Iec104Config) -> Self {
        let Iec104Config { common_address, command_time, utc_offset_minutes, .. } = *config;
        let place = |(point, id): (&PointConfig, u32)| {
            let address = point.address.iec104()?;
            Some((address.common_address.unwrap_or(common_address), address.address, PointId(id)))
        };
        let mut sorted: Vec<_> = points.iter().zip(0..).filter_map(place).collect();
        sorted.sort_unstable();
        Self { points, common_address, command_time, utc_offset_minutes, sorted }
    }

    /// Whether each point that one of both has is at the same place in the other's list, with the same type.
    #[must_use]
    pub fn finds_same(&self, other: &Self) -> bool {
        let kinds = |index: &Self| -> Vec<_> { index.sorted.iter().map(|(_, _, point)| index.kind(*point)).collect() };
        self.sorted == other.sorted && kinds(self) == kinds(other)
    }

    fn point(&self, point: PointId) -> Option<&PointConfig> {
        self.points.get(usize::try_from(point.0).ok()?)
    }

    fn kind(&self, point: PointId) -> Option<Iec104Kind> {
        Some(self.point(point)?.address.iec104()?.kind)
    }

    /// The name of a point, for logs.
    #[must_use]
    pub fn name(&self, point: PointId) -> &str {
        self.point(point).map_or("", |point| point.name.as_str())
    }

    /// What an object that came is.
    #[must_use]
    pub fn find(&self, now: Now, header: &Header, object: &Object) -> Found {
        let key = (header.common_address, object.address);
        let at = self.sorted.binary_search_by_key(&key, |(common, address, _)| (*common, *address)).ok();
        let Some((_, _, point)) = at.and_then(|at| self.sorted.get(at)) else { return Found::Unknown };
        match self.kind(*point) == kind_of(object.element.form()) {
            true => Found::Reading(to_reading(*point, now, (header, object), self.utc_offset_minutes)),
            false => Found::OtherType(*point),
        }
    }

    /// The request that a command stands for; otherwise what is wrong with its value.
    ///
    /// # Errors
    /// The value does not fit the object, or the point is not commanded.
    pub fn to_request(&self, command: &Command) -> Result<CommandRequest, String> {
        let point = self.point(command.point).and_then(|point| point.address.iec104());
        let place = point.and_then(|point| Some((point.common_address, point.output?)));
        let (common_address, output) = place.ok_or_else(|| "the point is not commanded".to_owned())?;
        let element = element_of(output, &command.value).ok_or_else(|| {
            let mut value = String::new();
            json_value(&command.value, &mut value);
            format!("the value {value} does not fit the object that the point takes")
        })?;
        Ok(CommandRequest {
            common_address: common_address.unwrap_or(self.common_address),
            address: output.address,
            element,
            select: command.mode == CommandMode::SelectBeforeOperate,
            with_time: self.command_time,
        })
    }
}

const fn kind_of(form: Form) -> Option<Iec104Kind> {
    Some(match form {
        Form::SinglePoint => Iec104Kind::SinglePoint,
        Form::DoublePoint => Iec104Kind::DoublePoint,
        Form::Step => Iec104Kind::StepPosition,
        Form::Bits => Iec104Kind::Bitstring,
        Form::Normalized | Form::NormalizedBare => Iec104Kind::Normalized,
        Form::Scaled => Iec104Kind::Scaled,
        Form::Short => Iec104Kind::ShortFloat,
        Form::Totals => Iec104Kind::IntegratedTotals,
        Form::ProtectionEvent => Iec104Kind::ProtectionEvent,
        Form::ProtectionStart => Iec104Kind::ProtectionStart,
        Form::ProtectionOutput => Iec104Kind::ProtectionOutput,
        Form::StatusChange => Iec104Kind::StatusChange,
        _ => return None,
    })
}

fn to_reading(point: PointId, now: Now, (header, object): (&Header, &Object), offset: i16) -> Reading {
    let (value, mut quality) = to_value(&object.element);
    let (time, is_trusted) = to_time(object.time, now.utc, offset);
    if !is_trusted {
        quality = quality.with(Quality::TIME_UNSYNCED);
    }
    let code = header.cause.code;
    let event = matches!(code, CauseCode::SPONTANEOUS | CauseCode::RETURN_REMOTE | CauseCode::RETURN_LOCAL);
    Reading { point, value, quality, time, event }
}

/// The time of an object, and whether it may be trusted: a time that does not exist, and one that the station itself marks
/// (IV), may not.
fn to_time(tag: TimeTag, received: Timestamp, offset: i16) -> (Option<Timestamp>, bool) {
    let (time, is_invalid) = match tag {
        TimeTag::None => return (None, true),
        TimeTag::Cp24(time) => (time.timestamp(received), time.is_invalid()),
        TimeTag::Cp56(time) => (time.timestamp(offset), time.is_invalid()),
    };
    (time, time.is_some() && !is_invalid)
}

/// The value of an object, and what the station says against it.
fn to_value(element: &Element) -> (Value, Quality) {
    match *element {
        Element::SinglePoint { on, flags } => (Value::Bool(on), to_quality(flags)),
        Element::DoublePoint { state, flags } | Element::ProtectionEvent { state, flags, .. } => {
            (Value::Int(state.into()), to_quality(flags))
        }
        Element::Step { position, is_transient, flags } => {
            let quality = to_quality(flags);
            let moves = if is_transient { Validity::Uncertain } else { Validity::Good };
            (Value::Int(position.into()), quality.with_validity(quality.validity().max(moves)))
        }
        Element::Bits { bits, flags } => (Value::Int(bits.into()), to_quality(flags)),
        Element::Normalized { raw, flags } => (normalized(raw), to_quality(flags)),
        Element::NormalizedBare { raw } => (normalized(raw), Quality::GOOD),
        Element::Scaled { value, flags } => (Value::Int(value.into()), to_quality(flags)),
        Element::Short { value, flags } => {
            let range = if value.is_finite() { Quality::GOOD } else { Quality::OVER_RANGE };
            (Value::Float(shortest(value.into())), to_quality(flags).with(range))
        }
        Element::Totals { count, is_carried, is_adjusted, is_invalid, .. } => {
            let invalid = if is_invalid { Quality::OFFLINE } else { Quality::GOOD };
            let broken = if is_carried || is_adjusted { Quality::DISCONTINUITY } else { Quality::GOOD };
            (Value::Int(count.into()), invalid.with(broken))
        }
        Element::ProtectionStart { events: bits, flags, .. }
        | Element::ProtectionOutput { circuits: bits, flags, .. } => (Value::Int(bits.into()), to_quality(flags)),
        Element::StatusChange { states, flags, .. } => (Value::Int(states.into()), to_quality(flags)),
        // Of the control direction: no point has such a type.
        _ => (Value::Null, Quality::GOOD),
    }
}

fn normalized(raw: i16) -> Value {
    Value::Float(f64::from(raw) / NORMALIZED_STEPS)
}

/// Quality descriptors as reasons. A value that is not topical or blocked is an old one, which may still be right.
fn to_quality(flags: Flags) -> Quality {
    let reasons = [
        (Flags::INVALID, Quality::OFFLINE, Validity::Bad),
        (Flags::OVERFLOW, Quality::OVER_RANGE, Validity::Bad),
        (Flags::NOT_TOPICAL, Quality::COMM_LOST, Validity::Uncertain),
        (Flags::BLOCKED, Quality::STALE, Validity::Uncertain),
        (Flags::SUBSTITUTED, Quality::LOCAL_FORCED, Validity::Uncertain),
    ];
    let set = reasons.into_iter().filter(|(flag, ..)| flags.contains(*flag));
    let (quality, validity) = set.fold((Quality::GOOD, Validity::Good), |(quality, worst), (_, reason, validity)| {
        (quality.with(reason), worst.max(validity))
    });
    quality.with_validity(validity)
}

/// What is sent for a value; none where it does not fit.
fn element_of(output: Iec104Output, value: &Value) -> Option<Element> {
    let number = value.as_f64()?;
    let (on, qualifier) = (number != 0.0, Qualifier { is_select: false, number: output.qualifier });
    // Off and on, lower and higher.
    let two = if on { 2 } else { 1 };
    Some(match output.command {
        Iec104Command::Single => Element::SingleCommand { on, qualifier },
        Iec104Command::Double => Element::DoubleCommand { state: two, qualifier },
        Iec104Command::Step => Element::StepCommand { step: two, qualifier },
        Iec104Command::Normalized => Element::SetNormalized { raw: whole(number * NORMALIZED_STEPS)?, qualifier },
        Iec104Command::Scaled => Element::SetScaled { value: whole(number)?, qualifier },
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked; a float may lose digits")]
        Iec104Command::ShortFloat if number.abs() <= f64::from(f32::MAX) => {
            Element::SetShort { value: number as f32, qualifier }
        }
        Iec104Command::ShortFloat => return None,
        Iec104Command::Bitstring => Element::SetBits { bits: whole(number)? },
    })
}

fn whole<T: TryFrom<i64>>(number: f64) -> Option<T> {
    nearest_int(number).and_then(|whole| T::try_from(whole).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::Instant;
    use tieline_iec104::{Cause, Cp24, Cp56, TypeId};

    fn now() -> Now {
        Now { mono: Instant::ZERO, utc: "2026-11-20T09:30:00Z".parse().unwrap() }
    }

    fn check(element: Element, value: Value, validity: Validity, reasons: &[&str]) {
        let (found, quality) = to_value(&element);
        assert_eq!((found, quality.validity()), (value, validity), "{element:?}");
        assert_eq!(quality.reasons().collect::<Vec<_>>(), reasons, "{element:?}");
    }

    #[test]
    fn elements_become_values_with_their_quality() {
        let (good, bad, uncertain) = (Validity::Good, Validity::Bad, Validity::Uncertain);
        let single = |flags| Element::SinglePoint { on: true, flags };
        check(single(Flags::GOOD), Value::Bool(true), good, &[]);
        check(single(Flags::INVALID), Value::Bool(true), bad, &["offline"]);
        check(single(Flags::NOT_TOPICAL), Value::Bool(true), uncertain, &["comm_lost"]);
        check(single(Flags::BLOCKED), Value::Bool(true), uncertain, &["stale"]);
        check(single(Flags::SUBSTITUTED), Value::Bool(true), uncertain, &["local_forced"]);
        check(single(Flags::SUBSTITUTED | Flags::INVALID), Value::Bool(true), bad, &["offline", "local_forced"]);
        check(Element::DoublePoint { state: 2, flags: Flags::GOOD }, Value::Int(2), good, &[]);
        let step = |is_transient, flags| Element::Step { position: -7, is_transient, flags };
        check(step(false, Flags::GOOD), Value::Int(-7), good, &[]);
        check(step(true, Flags::GOOD), Value::Int(-7), uncertain, &[]);
        check(step(true, Flags::OVERFLOW), Value::Int(-7), bad, &["over_range"]);
        check(Element::Bits { bits: u32::MAX, flags: Flags::GOOD }, Value::Int(4_294_967_295), good, &[]);
        check(Element::Normalized { raw: -16_384, flags: Flags::GOOD }, Value::Float(-0.5), good, &[]);
        check(Element::NormalizedBare { raw: 16_384 }, Value::Float(0.5), good, &[]);
        check(Element::Scaled { value: -5, flags: Flags::OVERFLOW }, Value::Int(-5), bad, &["over_range"]);
        check(Element::Short { value: 0.1, flags: Flags::GOOD }, Value::Float(0.1), good, &[]);
        let infinite = Element::Short { value: f32::INFINITY, flags: Flags::GOOD };
        check(infinite, Value::Float(f64::INFINITY), bad, &["over_range"]);
        let totals = |is_carried, is_adjusted, is_invalid| Element::Totals {
            count: -3,
            sequence: 4,
            is_carried,
            is_adjusted,
            is_invalid,
        };
        check(totals(false, false, false), Value::Int(-3), good, &[]);
        check(totals(true, false, false), Value::Int(-3), uncertain, &["discontinuity"]);
        check(totals(false, true, true), Value::Int(-3), bad, &["offline", "discontinuity"]);
        let start = Element::ProtectionStart { events: 5, flags: Flags::GOOD, duration_ms: 9 };
        check(start, Value::Int(5), good, &[]);
        let status = Element::StatusChange { states: 0x8001, changed: 1, flags: Flags::GOOD };
        check(status, Value::Int(0x8001), good, &[]);
    }

    #[test]
    fn times_are_kept_and_marked_where_they_are_not_to_be_trusted() {
        let check = |tag, offset, expect: Option<&str>, is_trusted| {
            let (time, trusted) = to_time(tag, now().utc, offset);
            assert_eq!((time.map(|time| time.to_string()).as_deref(), trusted), (expect, is_trusted), "{tag:?}");
        };
        let at = Cp56::new(now().utc, 0);
        check(TimeTag::None, 0, None, true);
        check(TimeTag::Cp56(at), 0, Some("2026-11-20T09:30:00.000Z"), true);
        check(TimeTag::Cp56(at), 60, Some("2026-11-20T08:30:00.000Z"), true);
        check(TimeTag::Cp56(at.invalid()), 0, Some("2026-11-20T09:30:00.000Z"), false);
        check(TimeTag::Cp56(Cp56([0; 7])), 0, None, false);
        check(TimeTag::Cp24(Cp24([0, 0, 29])), 0, Some("2026-11-20T09:29:00.000Z"), true);
        check(TimeTag::Cp24(Cp24([0, 0, 29 | 0x80])), 0, Some("2026-11-20T09:29:00.000Z"), false);
    }

    fn index() -> PointIndex {
        let list = "name,type,index,common_address,control,operate,mode,qualifier\n\
            breaker,double-point,1,,11,,,3\nbreaker2,double-point,1,9,12,single,,\n\
            power,short-float,2,,13,,,\npart,normalized,3,,14,,,127\ncount,scaled,4,,15,,,\n\
            tap,step-position,5,,16,,,\nbits,bitstring,6,,17,,,\nread,single-point,7,,,,,\n";
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), list).unwrap();
        let text = "[device.d]\nprotocol='iec104'\npoints='p.csv'\naddress='h:1'\niec104.common_address=2\n";
        let config = crate::config::from_text("t.toml", text, folder.path()).unwrap();
        let device = &config.devices[0];
        PointIndex::new(Arc::clone(&device.points), device.protocol.iec104().unwrap())
    }

    #[test]
    fn objects_are_found_by_both_addresses_and_their_type() {
        let find = |common_address, address, element, code| {
            let cause = Cause::of(code);
            let header = Header { type_id: TypeId::M_DP_NA_1, is_sequence: false, cause, common_address };
            let object = Object { address: Address::new(address).unwrap(), element, time: TimeTag::None };
            index().find(now(), &header, &object)
        };
        let double = Element::DoublePoint { state: 1, flags: Flags::GOOD };
        let reading = |point, event| {
            let (value, quality) = (Value::Int(1), Quality::GOOD);
            Found::Reading(Reading { point: PointId(point), value, quality, time: None, event })
        };
        assert_eq!(find(2, 1, double, CauseCode::INTERROGATED), reading(0, false));
        assert_eq!(find(9, 1, double, CauseCode::SPONTANEOUS), reading(1, true));
        assert_eq!(find(2, 1, double, CauseCode::RETURN_REMOTE), reading(0, true));
        assert_eq!(find(3, 1, double, CauseCode::SPONTANEOUS), Found::Unknown);
        assert_eq!(find(2, 8, double, CauseCode::SPONTANEOUS), Found::Unknown);
        assert_eq!(find(2, 7, double, CauseCode::SPONTANEOUS), Found::OtherType(PointId(7)));
        assert!(index().finds_same(&index()));
    }

    #[test]
    fn commands_become_requests() {
        let request = |point, value| {
            let mode = CommandMode::DirectOperate;
            index().to_request(&Command { point: PointId(point), value, mode })
        };
        let element = |point, value| request(point, value).map(|request| request.element);
        let qualifier = |number| Qualifier { is_select: false, number };
        let off = request(0, Value::Bool(false)).unwrap();
        assert_eq!((off.common_address, off.address.raw(), off.select), (2, 11, false));
        assert_eq!(off.element, Element::DoubleCommand { state: 1, qualifier: qualifier(3) });
        assert_eq!(request(1, Value::Bool(true)).unwrap().common_address, 9);
        assert_eq!(element(1, Value::Bool(true)), Ok(Element::SingleCommand { on: true, qualifier: qualifier(0) }));
        assert_eq!(element(2, Value::Float(2.5)), Ok(Element::SetShort { value: 2.5, qualifier: qualifier(0) }));
        assert_eq!(
            element(3, Value::Float(-1.0)),
            Ok(Element::SetNormalized { raw: -32_768, qualifier: qualifier(127) })
        );
        assert_eq!(element(4, Value::Float(-3.5)), Ok(Element::SetScaled { value: -4, qualifier: qualifier(0) }));
        assert_eq!(element(5, Value::Bool(true)), Ok(Element::StepCommand { step: 2, qualifier: qualifier(0) }));
        assert_eq!(element(6, Value::Int(7)), Ok(Element::SetBits { bits: 7 }));
        let misfit = |value: &str| Err(format!("the value {value} does not fit the object that the point takes"));
        assert_eq!(element(2, Value::Float(1e39)), misfit("1e39"));
        assert_eq!(element(3, Value::Float(1.0)), misfit("1.0"));
        assert_eq!(element(4, Value::Int(40_000)), misfit("40000"));
        assert_eq!(element(6, Value::Int(-1)), misfit("-1"));
        assert_eq!(element(0, Value::Null), misfit("null"));
        assert_eq!(element(7, Value::Bool(true)), Err("the point is not commanded".to_owned()));
    }
}
