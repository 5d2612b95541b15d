//! The objects of a list of IEC 60870-5-104 points.

use super::{ListedPoint, ListedPoints, SWITCH_WORDS, SetError, Teller, Words, WrittenPoint};
use crate::iec104::Iec104Station;
use crate::treatment::{Presence, Treatment};
use std::cell::RefCell;
use std::rc::Rc;
use tieline_core::{Now, Quality, Validity, Value};
use tieline_iec104::{
    Address, CauseCode, Change, CommandAnswer, Database, DatabaseError, Element, Flags, Form, Freeze, Point,
    SelectRule, ServerEvent,
};

/// Where a point is in a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationPlace {
    /// Its common address.
    pub common_address: u16,
    /// Its information object address.
    pub address: Address,
    /// What its object is.
    pub form: Form,
    /// Where commands go; none where it is only read.
    pub output: Option<StationOutput>,
    /// The group that it is interrogated with; 0 none.
    pub group: u8,
    /// Whether it is sent at intervals.
    pub is_cyclic: bool,
}

/// The object that a point is commanded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationOutput {
    /// Its information object address.
    pub address: Address,
    /// What it takes.
    pub form: Form,
    /// Whether it is to be selected.
    pub rule: SelectRule,
}

/// A station whose points stand in a list.
pub struct StationOfPoints {
    listed: ListedPoints<StationPlace>,
    /// Of each point, the count at its last reset.
    bases: Vec<f64>,
    database: Rc<RefCell<Database>>,
    told: Teller,
}

impl StationOfPoints {
    /// The station of a list whose clocks are so far ahead of UTC. `told` learns what clients command.
    ///
    /// # Errors
    /// The line of a point that no station can have, and why.
    pub fn new(
        listed: ListedPoints<StationPlace>,
        utc_offset_minutes: i16,
        told: Teller,
    ) -> Result<Self, (usize, DatabaseError)> {
        let mut database = Database::new(utc_offset_minutes);
        for (point, at) in listed.points.iter().zip(0..) {
            let StationPlace { common_address, address, output, group, is_cyclic, .. } = point.place;
            let element = element_of(point, (listed.value(at), listed.quality(at)), 0.0);
            let added = Point { group, is_cyclic, ..Point::new(element) };
            database.add(common_address, address, added).map_err(|error| (at, error))?;
            if let Some(StationOutput { address, form, rule }) = output {
                database.add_command(common_address, address, form, rule).map_err(|error| (at, error))?;
            }
        }
        let bases = vec![0.0; listed.points.len()];
        Ok(Self { listed, bases, database: Rc::new(RefCell::new(database)), told })
    }

    /// What all connections share.
    #[must_use]
    pub fn database(&self) -> Rc<RefCell<Database>> {
        Rc::clone(&self.database)
    }

    /// Lets time pass, and yields what has changed since.
    pub fn show(&mut self, now: Now) -> Vec<Change> {
        self.show_after(now, None)
    }

    /// Sets a point that has no curve, as an operator says. Yields what has changed.
    ///
    /// # Errors
    /// There is no such point, or it cannot be set, or the value is none.
    pub fn set(&mut self, now: Now, name: &str, text: &str) -> Result<Vec<Change>, SetError> {
        self.listed.handle_time(now.mono);
        let at = self.listed.set(name, text, |place| words(place.form))?;
        Ok(self.show_after(now, Some((at, CauseCode::RETURN_LOCAL))))
    }

    /// What has changed; of one point, which somebody has set, with another cause.
    fn show_after(&mut self, now: Now, set: Option<(usize, CauseCode)>) -> Vec<Change> {
        self.listed.handle_time(now.mono);
        let mut database = self.database.borrow_mut();
        if self.listed.device.poll_restarted() {
            self.bases.fill(0.0);
            database.restart();
        }
        let points = self.listed.points.iter().zip(&self.bases).zip(0..);
        let changed = points.filter_map(|((point, base), at)| {
            let element = element_of(point, (self.listed.value(at), self.listed.quality(at)), *base);
            let cause = set.filter(|(place, _)| *place == at).map_or(CauseCode::SPONTANEOUS, |(_, cause)| cause);
            let StationPlace { common_address, address, .. } = point.place;
            let sequence = database.element(common_address, address).map_or(0, |before| sequence_of(&before));
            database.update(now, (common_address, address), with_sequence(element, sequence), cause)
        });
        changed.collect()
    }

    /// Carries out a command. Yields what has changed; none where it is refused.
    fn operate(
        &mut self,
        now: Now,
        (common_address, address): (u16, Address),
        element: &Element,
    ) -> Option<Vec<Change>> {
        self.listed.handle_time(now.mono);
        let is_output = |place: &StationPlace| {
            place.common_address == common_address && place.output.is_some_and(|output| output.address == address)
        };
        let at = self.listed.points.iter().position(|point| is_output(&point.place))?;
        let point = self.listed.points.get(at)?;
        let raw = commanded(point.place.form, element, point.raw(self.listed.value(at)).as_f64().unwrap_or(0.0))?;
        let value = point.allowed(&raw)?;
        let name = point.name.clone();
        self.listed.command(at, &value).ok()?;
        (self.told)(now, WrittenPoint { name, value });
        Some(self.show_after(now, Some((at, CauseCode::RETURN_REMOTE))))
    }

    /// Counts begin at 0 again.
    fn reset(&mut self, station: u16, group: u8) {
        let listed = &self.listed;
        for ((point, base), at) in listed.points.iter().zip(&mut self.bases).zip(0..) {
            let place = &point.place;
            let is_meant = place.common_address == station && (group == ALL || group == place.group);
            if place.form == Form::Totals && is_meant {
                *base = point.raw(listed.value(at)).as_f64().unwrap_or(0.0);
            }
        }
    }
}

/// All counters of a station.
const ALL: u8 = 5;

impl Iec104Station for StationOfPoints {
    fn take(&mut self, now: Now, event: &ServerEvent) -> (CommandAnswer, Vec<Change>) {
        match event {
            ServerEvent::Command { common_address, address, element, .. } => {
                match self.operate(now, (*common_address, *address), element) {
                    Some(changes) => (CommandAnswer::Done, changes),
                    None => (CommandAnswer::Refused, Vec::new()),
                }
            }
            ServerEvent::Frozen { common_address, group, freeze: Freeze::FreezeAndReset | Freeze::Reset } => {
                self.listed.handle_time(now.mono);
                self.reset(*common_address, *group);
                (CommandAnswer::Refused, Vec::new())
            }
            ServerEvent::Frozen { .. }
            | ServerEvent::Started
            | ServerEvent::Stopped
            | ServerEvent::Request { .. }
            | ServerEvent::ClockSet { .. }
            | ServerEvent::Reset { .. }
            | ServerEvent::Closing(_) => (CommandAnswer::Refused, Vec::new()),
        }
    }

    fn treat(&mut self, now: Now) -> Treatment {
        self.listed.treat(now.mono)
    }

    fn presence(&mut self, now: Now) -> Presence {
        self.listed.presence(now.mono)
    }
}

/// The words of an operator for the states of an object.
const fn words(form: Form) -> Words {
    match form {
        Form::SinglePoint => SWITCH_WORDS,
        Form::DoublePoint => DOUBLE_WORDS,
        // A number, a position and bits have none.
        _ => &[],
    }
}

/// The states of a double point (DPI, IEC 60870-5-101, 7.2.6.2).
const DOUBLE_WORDS: Words = &[
    ("off", DOUBLE_OFF),
    ("on", DOUBLE_ON),
    ("false", DOUBLE_OFF),
    ("true", DOUBLE_ON),
    ("intermediate", 0.0),
    ("indeterminate", 3.0),
];
const DOUBLE_OFF: f64 = 1.0;
const DOUBLE_ON: f64 = 2.0;

/// What the object of a point says. A number that does not fit is the nearest that does, with OV where there is such a bit.
fn element_of(point: &ListedPoint<StationPlace>, (value, quality): (Value, Quality), base: f64) -> Element {
    let number = point.raw(value).as_f64().unwrap_or(0.0);
    let flags = to_flags(quality);
    let within = |min: f64, max: f64| if (min..=max).contains(&number) { flags } else { flags | Flags::OVERFLOW };
    // States have no overflow.
    let of_state = if quality.contains(Quality::OVER_RANGE) { flags | Flags::INVALID } else { flags };
    match point.place.form {
        Form::DoublePoint => Element::DoublePoint { state: whole(number, 0, 3), flags: of_state },
        Form::Step => {
            Element::Step { position: whole(number, -64, 63), is_transient: false, flags: within(-64.0, 63.0) }
        }
        Form::Bits => Element::Bits { bits: whole(number, 0, u32::MAX.into()), flags },
        Form::Normalized => {
            let raw = whole(number * FULL_SCALE, i16::MIN.into(), i16::MAX.into());
            Element::Normalized { raw, flags: within(-1.0, 1.0) }
        }
        Form::Scaled => {
            let value = whole(number, i16::MIN.into(), i16::MAX.into());
            Element::Scaled { value, flags: within(i16::MIN.into(), i16::MAX.into()) }
        }
        Form::Totals => {
            let count = whole(number - base, i32::MIN.into(), i32::MAX.into());
            let is_invalid = quality.validity() == Validity::Bad;
            Element::Totals { count, sequence: 0, is_carried: false, is_adjusted: false, is_invalid }
        }
        Form::ProtectionEvent => {
            Element::ProtectionEvent { state: whole(number, 0, 3), flags: of_state, elapsed_ms: 0 }
        }
        Form::ProtectionStart => {
            Element::ProtectionStart { events: whole(number, 0, 0x3F), flags: of_state, duration_ms: 0 }
        }
        Form::ProtectionOutput => {
            Element::ProtectionOutput { circuits: whole(number, 0, 0x0F), flags: of_state, operating_ms: 0 }
        }
        Form::StatusChange => Element::StatusChange { states: whole(number, 0, u16::MAX.into()), changed: 0, flags },
        Form::Short => Element::Short { value: single(number), flags },
        _ => Element::SinglePoint { on: number != 0.0, flags: of_state },
    }
}

/// What a device says against a value, as a station says it.
fn to_flags(quality: Quality) -> Flags {
    let reasons = [
        (Quality::OVER_RANGE, Flags::OVERFLOW),
        (Quality::COMM_LOST, Flags::NOT_TOPICAL),
        (Quality::STALE, Flags::BLOCKED),
        (Quality::LOCAL_FORCED, Flags::SUBSTITUTED),
        (Quality::REMOTE_FORCED, Flags::SUBSTITUTED),
    ];
    let set = reasons.into_iter().filter(|(reason, _)| quality.contains(*reason));
    let flags = set.fold(Flags::GOOD, |flags, (_, flag)| flags | flag);
    match quality.validity() {
        Validity::Good => flags,
        Validity::Uncertain if flags == Flags::GOOD => Flags::NOT_TOPICAL,
        Validity::Bad if flags == Flags::GOOD => Flags::INVALID,
        Validity::Uncertain | Validity::Bad => flags,
    }
}

/// The raw value that a command sets, of a point that says a number; none of an element that is no command.
fn commanded(form: Form, element: &Element, before: f64) -> Option<Value> {
    let switched = |on: bool| match form {
        Form::DoublePoint => Value::Float(if on { DOUBLE_ON } else { DOUBLE_OFF }),
        _ => Value::Bool(on),
    };
    Some(match *element {
        Element::SingleCommand { on, .. } => switched(on),
        Element::DoubleCommand { state, .. } => switched(state == 2),
        Element::StepCommand { step, .. } => Value::Float(before + if step == 2 { 1.0 } else { -1.0 }),
        Element::SetNormalized { raw, .. } => Value::Float(f64::from(raw) / FULL_SCALE),
        Element::SetScaled { value, .. } => Value::Float(value.into()),
        Element::SetShort { value, .. } if value.is_finite() => Value::Float(value.into()),
        Element::SetBits { bits } => Value::Float(bits.into()),
        _ => return None,
    })
}

/// A normalized value of 1.
const FULL_SCALE: f64 = 32_768.0;

/// The whole number nearest to `number` from `min` to `max`.
fn whole<T: TryFrom<i64> + Default>(number: f64, min: i64, max: i64) -> T {
    #[expect(clippy::cast_possible_truncation, reason = "what is beyond is brought within")]
    let nearest = (number.round() as i64).clamp(min, max);
    T::try_from(nearest).unwrap_or_default()
}

#[expect(clippy::cast_possible_truncation, reason = "a short floating-point number has single precision")]
const fn single(number: f64) -> f32 {
    number as f32
}

/// The number of the last freeze, which belongs to the station and not to the model.
const fn sequence_of(element: &Element) -> u8 {
    match element {
        Element::Totals { sequence, .. } => *sequence,
        _ => 0,
    }
}

const fn with_sequence(mut element: Element, number: u8) -> Element {
    if let Element::Totals { sequence, .. } = &mut element {
        *sequence = number;
    }
    element
}

#[cfg(test)]
mod tests {
    use super::super::{Faults, Pace};
    use super::*;
    use std::time::Duration;
    use tieline_core::{Instant, Timestamp};
    use tieline_iec104::Qualifier;
    use tieline_model::{Kind, Model, PointSpec};

    const START: Now = Now { mono: Instant(0), utc: Timestamp::from_millis(1_800_000_000_000) };
    const EXECUTE: Qualifier = Qualifier { is_select: false, number: 0 };

    /// Points at addresses from 1 on, commanded at 1001 on; all begin at 0.
    fn station(rows: &[(&str, Form, Option<Form>, f64)], told: Teller) -> StationOfPoints {
        let address = |raw| Address::new(raw).unwrap();
        let point = |(at, (name, form, command, scale)): (u32, &(&str, Form, Option<Form>, f64))| ListedPoint {
            name: (*name).into(),
            place: StationPlace {
                common_address: 7,
                address: address(at),
                form: *form,
                output: command.map(|form| StationOutput {
                    address: address(1000 + at),
                    form,
                    rule: SelectRule::Either,
                }),
                group: 0,
                is_cyclic: false,
            },
            scale: *scale,
            offset: 0.0,
            is_writable: command.is_some(),
            limits: (*name == "limited").then_some(0.0..=10.0),
            unit: "".into(),
            states: (*name == "named").then(|| ["open".into(), "closed".into()]),
            description: "".into(),
        };
        let points = (1..).zip(rows).map(point).collect();
        let specs = rows.iter().map(|(name, form, ..)| {
            let kind = if *form == Form::SinglePoint { Kind::Bool } else { Kind::Float };
            PointSpec { start: Some(0.0), writable: true, ..PointSpec::new(name, kind) }
        });
        let model = Model::new(specs.collect()).unwrap();
        let pace = Pace { seed: 1, start: None, speed: 1.0 };
        StationOfPoints::new(ListedPoints::new(points, model, "station", pace, Faults::default(), START), 0, told)
            .unwrap()
    }

    fn later(seconds: u64) -> Now {
        START.later(Duration::from_secs(seconds))
    }

    #[test]
    fn values_become_objects_and_do_not_leave_their_range() {
        let rows = [
            ("single", Form::SinglePoint, None, 1.0),
            ("double", Form::DoublePoint, None, 1.0),
            ("step", Form::Step, None, 1.0),
            ("normalized", Form::Normalized, None, 400.0),
            ("scaled", Form::Scaled, None, 0.1),
            ("short", Form::Short, None, 1.0),
            ("bits", Form::Bits, None, 1.0),
        ];
        let mut station = station(&rows, Box::new(|_, _| {}));
        let mut check = |name: &str, text: &str, expect: Element| {
            let changes = station.set(later(1), name, text).unwrap();
            assert_eq!(changes.iter().map(|change| change.element).collect::<Vec<_>>(), [expect], "{name}");
            assert_eq!(changes[0].cause, CauseCode::RETURN_LOCAL);
        };
        let flags = Flags::GOOD;
        check("single", "on", Element::SinglePoint { on: true, flags });
        check("double", "2", Element::DoublePoint { state: 2, flags });
        check("step", "-70", Element::Step { position: -64, is_transient: false, flags: Flags::OVERFLOW });
        check("normalized", "-200", Element::Normalized { raw: -16_384, flags });
        check("scaled", "12.5", Element::Scaled { value: 125, flags });
        check("scaled", "4000", Element::Scaled { value: 32_767, flags: Flags::OVERFLOW });
        check("short", "0.5", Element::Short { value: 0.5, flags });
        check("bits", "4294967295", Element::Bits { bits: u32::MAX, flags });
        assert_eq!(station.set(later(1), "lmit", "1"), Err(SetError::UnknownPoint("lmit".to_owned())));
        assert_eq!(station.show(later(2)), []);
    }

    #[test]
    fn words_are_states_of_points_that_have_some() {
        let rows = [
            ("single", Form::SinglePoint, None, 1.0),
            ("double", Form::DoublePoint, None, 1.0),
            ("named", Form::DoublePoint, None, 1.0),
            ("short", Form::Short, None, 1.0),
        ];
        let mut station = station(&rows, Box::new(|_, _| {}));
        let mut check = |name: &str, text: &str, expect: f64| {
            station.set(later(1), name, text).unwrap();
            let at = rows.iter().position(|(known, ..)| *known == name).unwrap();
            assert_eq!(station.listed.value(at).as_f64(), Some(expect), "{name} {text}");
        };
        check("single", "on", 1.0);
        check("single", "false", 0.0);
        check("double", "on", 2.0);
        check("double", "off", 1.0);
        check("double", "true", 2.0);
        check("double", "indeterminate", 3.0);
        check("double", "intermediate", 0.0);
        check("double", "1", 1.0);
        check("named", "Closed", 2.0);
        check("named", "open", 1.0);
        check("named", "on", 2.0);
        let mut error = |name: &str, text: &str| station.set(later(1), name, text).unwrap_err().to_string();
        assert_eq!(error("short", "on"), "the value is \"on\", expected a number");
        let words = "off, on, false, true, intermediate, indeterminate";
        assert_eq!(error("double", "open"), format!("the value is \"open\", expected a number, or one of {words}"));
        let states = format!("{words}, open, closed");
        assert_eq!(error("named", "shut"), format!("the value is \"shut\", expected a number, or one of {states}"));
    }

    #[test]
    fn clients_command_points() {
        let rows = [
            ("single", Form::SinglePoint, Some(Form::SingleCommand), 1.0),
            ("double", Form::DoublePoint, Some(Form::DoubleCommand), 1.0),
            ("step", Form::Step, Some(Form::StepCommand), 1.0),
            ("limited", Form::Scaled, Some(Form::SetScaled), 0.1),
        ];
        let told: Rc<RefCell<Vec<WrittenPoint>>> = Rc::default();
        let into = Rc::clone(&told);
        let mut station = station(&rows, Box::new(move |_, written| into.borrow_mut().push(written)));
        let mut operate = |raw: u32, element: Element| {
            let changes = station.operate(later(1), (7, Address::new(raw).unwrap()), &element)?;
            changes.first().map(|change| (change.element, change.cause))
        };
        let (flags, remote) = (Flags::GOOD, CauseCode::RETURN_REMOTE);
        let on = operate(1001, Element::SingleCommand { on: true, qualifier: EXECUTE });
        assert_eq!(on, Some((Element::SinglePoint { on: true, flags }, remote)));
        let closed = operate(1002, Element::DoubleCommand { state: 1, qualifier: EXECUTE });
        assert_eq!(closed, Some((Element::DoublePoint { state: 1, flags }, remote)));
        let lower = operate(1003, Element::StepCommand { step: 1, qualifier: EXECUTE });
        assert_eq!(lower, Some((Element::Step { position: -1, is_transient: false, flags }, remote)));
        let set = |value| Element::SetScaled { value, qualifier: EXECUTE };
        assert_eq!(operate(1004, set(55)), Some((Element::Scaled { value: 55, flags }, remote)));
        assert_eq!((operate(1004, set(101)), operate(1, set(1)), operate(1005, set(1))), (None, None, None));
        let names: Vec<_> =
            told.borrow().iter().map(|written| (written.name.clone(), written.value.as_f64())).collect();
        let expect = [("single", 1.0), ("double", 1.0), ("step", -1.0), ("limited", 5.5)];
        assert_eq!(names, expect.map(|(name, value)| (name.into(), Some(value))));
    }

    #[test]
    fn what_a_device_says_against_a_value_is_in_its_flags() {
        let check = |quality, expect| assert_eq!(to_flags(quality), expect, "{quality:?}");
        check(Quality::GOOD, Flags::GOOD);
        check(Quality::OFFLINE, Flags::INVALID);
        check(Quality::COMM_LOST, Flags::NOT_TOPICAL);
        check(Quality::OVER_RANGE.with(Quality::REMOTE_FORCED), Flags::OVERFLOW | Flags::SUBSTITUTED);
        let mut station = station(&[("single", Form::SinglePoint, None, 1.0)], Box::new(|_, _| {}));
        let point = station.listed.points.remove(0);
        let said = |quality| element_of(&point, (Value::Bool(true), quality), 0.0);
        // There is no overflow of a state.
        let flags = Flags::OVERFLOW | Flags::INVALID;
        assert_eq!(said(Quality::OVER_RANGE), Element::SinglePoint { on: true, flags });
    }

    #[test]
    fn counters_that_are_reset_count_from_there() {
        let mut station = station(&[("energy", Form::Totals, None, 1.0)], Box::new(|_, _| {}));
        let count = |changes: &[Change]| match changes {
            [Change { element: Element::Totals { count, .. }, .. }] => *count,
            _ => panic!("{changes:?}"),
        };
        assert_eq!(count(&station.set(later(1), "energy", "100").unwrap()), 100);
        // Those of another group do not.
        station.take(later(1), &ServerEvent::Frozen { common_address: 7, group: 2, freeze: Freeze::FreezeAndReset });
        assert_eq!(count(&station.set(later(1), "energy", "101").unwrap()), 101);
        station.set(later(1), "energy", "100").unwrap();
        station.take(later(1), &ServerEvent::Frozen { common_address: 7, group: 5, freeze: Freeze::FreezeAndReset });
        assert_eq!(count(&station.set(later(2), "energy", "130").unwrap()), 30);
    }
}
