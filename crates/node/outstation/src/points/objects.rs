//! The objects of a list of BACnet points: analog, binary and multi-state ones.
//!
//! A point that clients may write is commandable: it has a priority array, and its start value is its relinquish default.

use super::{ListedPoint, ListedPoints, SWITCH_WORDS, SetError, WrittenPoint};
use crate::treatment::{Treatment, Treats};
use std::cell::RefCell;
use std::rc::Rc;
use tieline_bacnet::server::{Object, Server, ServerConfig, ServerEvent, StatusFlags};
use tieline_bacnet::{ObjectId, ObjectType, PropertyId, Unit, Value as Wire};
use tieline_core::{Instant, Now, Quality, Value};

/// Whether a list may have objects of this type for a server.
#[must_use]
pub const fn serves(object_type: ObjectType) -> bool {
    object_type.is_analog() || object_type.is_binary() || object_type.is_multi_state()
}

/// The objects of a device and their values over time.
#[derive(Debug)]
pub struct Objects {
    listed: ListedPoints<ObjectId>,
    /// Flags of the values as they were shown last.
    flags: Vec<StatusFlags>,
}

impl Objects {
    /// The objects of a list.
    #[must_use]
    pub fn new(listed: ListedPoints<ObjectId>) -> Self {
        let flags = vec![StatusFlags::default(); listed.points.len()];
        Self { listed, flags }
    }

    /// The device with all objects.
    #[must_use]
    pub fn server(&self, config: ServerConfig) -> Server {
        let mut server = Server::new(config);
        self.listed.points.iter().zip(0..).for_each(|(point, at)| server.add(self.object(point, at)));
        server
    }

    fn object(&self, point: &ListedPoint<ObjectId>, at: usize) -> Object {
        let object_type = point.place.object_type();
        let value = self.wire(point, at);
        let mut object = Object::new(object_type, point.place.instance(), &point.name, value);
        object = object.with_description(&point.description);
        if let Some([off, on]) = &point.states {
            object = object.with_states(&[off, on]);
        }
        if let Some(count) = self.state_count(point, at) {
            object = object.with_state_count(count);
        }
        if let Some(unit) = Unit::from_symbol(&point.unit).filter(|_| object_type.is_analog()) {
            object = object.with_units(unit);
        }
        if point.is_writable {
            object = object.commandable();
        }
        match raw_limits(point) {
            Some((low, high)) if object_type.is_analog() => object.with_limits(low, high),
            Some(_) | None => object,
        }
    }

    /// How many states a multi-state point has, as far as the list says it: by its limits, else by its curve.
    fn state_count(&self, point: &ListedPoint<ObjectId>, at: usize) -> Option<u64> {
        if !point.place.object_type().is_multi_state() {
            return None;
        }
        states_of(point, self.listed.device.model().bounds(at))
    }

    /// The value of a point as its object has it.
    fn wire(&self, point: &ListedPoint<ObjectId>, at: usize) -> Wire {
        let number = point.raw(self.listed.value(at)).as_f64().unwrap_or(0.0);
        let object_type = point.place.object_type();
        match () {
            () if object_type.is_analog() => Wire::Real(single(number)),
            () if object_type.is_binary() => Wire::Enumerated(u32::from(number != 0.0)),
            () => {
                let greatest = self.state_count(point, at).unwrap_or(u64::MAX);
                Wire::Unsigned((number.round().max(1.0) as u64).min(greatest))
            }
        }
    }

    /// Lets time pass, and shows the values to clients. What they command stays, until the device restarts.
    pub fn show(&mut self, now: Now, server: &mut Server) {
        self.listed.handle_time(now.mono);
        if self.listed.device.poll_restarted() {
            self.listed.points.iter().zip(0..).for_each(|(point, at)| server.add(self.object(point, at)));
            server.restart();
        }
        for ((point, shown), at) in self.listed.points.iter().zip(&mut self.flags).zip(0..) {
            let flags = flags(self.listed.quality(at));
            if core::mem::replace(shown, flags) != flags {
                server.set_status(now, point.place, flags);
            }
        }
        for (point, at) in self.listed.points.iter().zip(0..) {
            if !point.is_writable {
                server.set_value(now, point.place, self.wire(point, at));
            }
        }
    }

    /// Takes what a client has written: the value that its object has now goes into the model.
    pub fn take(&mut self, now: Instant, server: &Server, event: &ServerEvent) -> Option<WrittenPoint> {
        let ServerEvent::Written { reference, .. } = event else { return None };
        if ![PropertyId::PRESENT_VALUE, PropertyId::RELINQUISH_DEFAULT].contains(&reference.property) {
            return None;
        }
        self.listed.handle_time(now);
        let at = self.listed.points.iter().position(|point| point.place == reference.object && point.is_writable)?;
        let (point, object) = (self.listed.points.get(at)?, server.object(reference.object)?);
        let raw = match object.present_value() {
            Wire::Enumerated(state) => Value::Bool(*state != 0),
            other => Value::Float(other.as_f64()?),
        };
        let value = point.allowed(&raw)?;
        let name = point.name.clone();
        self.listed.command(at, &value).ok()?;
        let value = if object.commanded().is_some() { value } else { Value::Null };
        Some(WrittenPoint { name, value })
    }

    /// Sets a point that has no curve, as an operator says: of a commandable object the relinquish default.
    ///
    /// # Errors
    /// There is no such point, or it cannot be set, or the value is none.
    pub fn set(&mut self, now: Now, server: &mut Server, name: &str, text: &str) -> Result<(), SetError> {
        self.listed.handle_time(now.mono);
        let at = self.listed.set(name, text, |_| SWITCH_WORDS)?;
        let Some(point) = self.listed.points.get(at) else { return Ok(()) };
        server.set_value(now, point.place, self.wire(point, at));
        // What a client commands counts all the same.
        let commanded = server.object(point.place).and_then(Object::commanded).and_then(Wire::as_f64);
        let value = commanded.and_then(|raw| point.allowed(&Value::Float(raw)));
        if let Some(value) = value {
            let _ = self.listed.command(at, &value);
        }
        Ok(())
    }
}

impl Treats for Rc<RefCell<Objects>> {
    fn treat(&mut self, now: Now) -> Treatment {
        self.borrow_mut().listed.treat(now.mono)
    }

    fn is_silent(&mut self, now: Now) -> bool {
        self.borrow().listed.is_silent(now.mono)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a Real has single precision")]
const fn single(number: f64) -> f32 {
    number as f32
}

/// How many states a multi-state point has: the greatest that its limits have, else its curve. None where neither says it: the
/// greatest limit of a list that gives none is that of the data type.
fn states_of<P>(point: &ListedPoint<P>, curve: Option<(f64, f64)>) -> Option<u64> {
    let limits = point.limits.as_ref().map(|limits| (*limits.start(), *limits.end()));
    let known = |(low, high): (f64, f64)| {
        let greatest = point.state(low).max(point.state(high));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of states, checked to be one"
        )]
        (1.0..=STATES_MAX).contains(&greatest).then_some(greatest as u64)
    };
    limits.and_then(known).or_else(|| curve.and_then(known))
}

/// States of an object at most.
const STATES_MAX: f64 = 65_535.0;

impl<P> ListedPoint<P> {
    /// The state that a value in the unit of the topic stands for.
    fn state(&self, value: f64) -> f64 {
        ((value - self.offset) / self.scale).round()
    }

    /// What is wrong with the values that a list gives a multi-state point, by its column, and what was expected; `start` is that
    /// of `value`, `curve` the bounds of its curve.
    #[must_use]
    pub fn check_states(&self, start: Option<f64>, curve: Option<(f64, f64)>) -> Option<(&'static str, f64, String)> {
        let count = states_of(self, curve);
        let given = [("value", start), ("curve", curve.map(|(low, _)| low)), ("curve", curve.map(|(_, high)| high))];
        let mut states = given.into_iter().filter_map(|(column, value)| Some((column, self.state(value?))));
        let is_beyond = |state: f64| count.is_some_and(|count| state > count as f64);
        let expected = || match count {
            Some(count) => format!("states from 1 to {count}"),
            None => "states from 1 on".to_owned(),
        };
        let wrong = states.find(|(_, state)| *state < 1.0 || is_beyond(*state));
        wrong.map(|(column, state)| (column, state, expected()))
    }
}

/// What a reason against a value is in the flags of its object.
fn flags(quality: Quality) -> StatusFlags {
    let overridden = quality.contains(Quality::REMOTE_FORCED) || quality.contains(Quality::LOCAL_FORCED);
    StatusFlags { fault: quality != Quality::GOOD && !overridden, overridden, ..StatusFlags::default() }
}

/// The limits of a point as its object has them.
fn raw_limits(point: &ListedPoint<ObjectId>) -> Option<(f32, f32)> {
    let limits = point.limits.as_ref()?;
    let raw = |value: f64| single((value - point.offset) / point.scale);
    let (a, b) = (raw(*limits.start()), raw(*limits.end()));
    Some((a.min(b), a.max(b)))
}

#[cfg(test)]
mod tests {
    use super::super::{Faults, Pace};
    use super::*;
    use crate::bacnet::write_property;
    use std::time::Duration;
    use tieline_core::Timestamp;
    use tieline_model::{Curve, Fault, FaultKind, Kind, Model, PointSpec, When};

    const START: Now = Now { mono: Instant(0), utc: Timestamp::from_millis(1_800_000_000_000) };

    fn objects(faults: Faults) -> Objects {
        let point = |name: &str, object_type, limits: Option<(f64, f64)>, is_writable| ListedPoint {
            name: name.into(),
            place: ObjectId::new(object_type, 1),
            scale: 1.0,
            offset: 0.0,
            is_writable,
            limits: limits.map(|(low, high)| low..=high),
            unit: "°C".into(),
            states: None,
            description: "".into(),
        };
        let curve = |text: &str| Curve::parse(text, &mut |_: &str| Err(String::new())).unwrap();
        let points = vec![
            point("setpoint", ObjectType::ANALOG_VALUE, Some((10.0, 30.0)), true),
            point("temperature", ObjectType::ANALOG_INPUT, None, false),
            point("fan", ObjectType::BINARY_OUTPUT, None, true),
            point("stage", ObjectType::MULTI_STATE_VALUE, None, false),
        ];
        let specs = vec![
            PointSpec { start: Some(21.0), writable: true, ..PointSpec::new("setpoint", Kind::Float) },
            PointSpec { curve: curve("follow(setpoint 1m)"), ..PointSpec::new("temperature", Kind::Float) },
            PointSpec { writable: true, ..PointSpec::new("fan", Kind::Bool) },
            PointSpec { writable: true, ..PointSpec::new("stage", Kind::Float) },
        ];
        let pace = Pace { seed: 1, start: None, speed: 60.0 };
        Objects::new(ListedPoints::new(points, Model::new(specs).unwrap(), "device", pace, faults, START))
    }

    #[test]
    fn the_list_says_how_many_states_there_are() {
        let point = |limits: Option<(f64, f64)>, scale: f64| ListedPoint {
            name: "stage".into(),
            place: ObjectId::new(ObjectType::MULTI_STATE_VALUE, 1),
            scale,
            offset: 0.0,
            is_writable: limits.is_some(),
            limits: limits.map(|(low, high)| low..=high),
            unit: "".into(),
            states: None,
            description: "".into(),
        };
        let count = |limits, scale, curve| states_of(&point(limits, scale), curve);
        assert_eq!(count(None, 1.0, None), None);
        assert_eq!(count(Some((1.0, 4.0)), 1.0, Some((1.0, 9.0))), Some(4));
        assert_eq!(count(Some((10.0, 40.0)), 10.0, None), Some(4));
        assert_eq!(count(None, 1.0, Some((1.0, 5.0))), Some(5));
        // A list that gives no greatest state has that of the data type.
        assert_eq!(count(Some((1.0, f64::from(u32::MAX))), 1.0, None), None);
        let check = |limits, start, curve, expect: Option<(&str, f64, &str)>| {
            let wrong = point(limits, 1.0).check_states(start, curve);
            let wrong = wrong.as_ref().map(|(column, state, expected)| (*column, *state, expected.as_str()));
            assert_eq!(wrong, expect, "{limits:?} {start:?} {curve:?}");
        };
        check(None, None, None, None);
        check(None, Some(2.0), None, None);
        check(None, Some(0.0), None, Some(("value", 0.0, "states from 1 on")));
        check(Some((1.0, 4.0)), Some(5.0), None, Some(("value", 5.0, "states from 1 to 4")));
        check(Some((1.0, 4.0)), None, Some((1.0, 5.0)), Some(("curve", 5.0, "states from 1 to 4")));
        check(None, None, Some((0.0, 3.0)), Some(("curve", 0.0, "states from 1 to 3")));
    }

    #[test]
    fn clients_command_the_model_and_relinquish() {
        let mut objects = objects(Faults::default());
        let mut server = objects.server(ServerConfig::default());
        let mut invoke_id = 0;
        let mut write = |server: &mut Server, objects: &mut Objects, seconds: u64, object_type, value| {
            invoke_id += 1;
            let now = Now { mono: Instant(0) + Duration::from_secs(seconds), utc: START.utc };
            let datagram = write_property(invoke_id, ObjectId::new(object_type, 1), value);
            server.handle_datagram(now, "127.0.0.1:1".parse().unwrap(), &datagram);
            let event = server.poll_event()?;
            objects.take(now.mono, server, &event)
        };
        let shown = |server: &mut Server, objects: &mut Objects, seconds: u64, object_type| {
            objects.show(Now { mono: Instant(0) + Duration::from_secs(seconds), utc: START.utc }, server);
            server.object(ObjectId::new(object_type, 1)).and_then(|object| object.present_value().as_f64()).unwrap()
        };
        let (value, input, output) = (ObjectType::ANALOG_VALUE, ObjectType::ANALOG_INPUT, ObjectType::BINARY_OUTPUT);
        let told = write(&mut server, &mut objects, 1, value, Wire::Real(25.0));
        assert_eq!(told, Some(WrittenPoint { name: "setpoint".into(), value: Value::Float(25.0) }));
        assert_eq!(write(&mut server, &mut objects, 1, value, Wire::Real(31.0)), None);
        assert_eq!(write(&mut server, &mut objects, 1, input, Wire::Real(1.0)), None);
        assert!((shown(&mut server, &mut objects, 20, input) - 25.0).abs() < 0.01);
        // What an operator sets is what the object goes back to.
        objects.set(START, &mut server, "setpoint", "18").unwrap();
        assert_eq!(shown(&mut server, &mut objects, 20, value), 25.0);
        let told = write(&mut server, &mut objects, 20, value, Wire::Null);
        assert_eq!(told, Some(WrittenPoint { name: "setpoint".into(), value: Value::Null }));
        assert!((shown(&mut server, &mut objects, 40, input) - 18.0).abs() < 0.01);
        let told = write(&mut server, &mut objects, 40, output, Wire::Enumerated(1));
        assert_eq!(told.map(|told| told.value), Some(Value::Bool(true)));
        assert_eq!(shown(&mut server, &mut objects, 41, ObjectType::MULTI_STATE_VALUE), 1.0);
        objects.set(START, &mut server, "stage", "3").unwrap();
        assert_eq!(shown(&mut server, &mut objects, 41, ObjectType::MULTI_STATE_VALUE), 3.0);
    }
    #[test]
    fn a_restart_forgets_what_was_commanded_and_bad_values_have_flags() {
        let fault = |kind, first, lasts| Fault {
            kind,
            when: When::At { first: Duration::from_secs(first), every: None },
            lasts: Duration::from_secs(lasts),
            points: [].into(),
        };
        // A minute of the model passes in a second.
        let all = [fault(FaultKind::Restart, 600, 60), fault(FaultKind::Bad(Quality::COMM_LOST), 1200, 60)];
        let mut objects = objects(Faults { all: all.into(), ..Faults::default() });
        let mut server = objects.server(ServerConfig::default());
        let setpoint = ObjectId::new(ObjectType::ANALOG_VALUE, 1);
        let at = |seconds| Now { mono: Instant(0) + Duration::from_secs(seconds), utc: START.utc };
        server.handle_datagram(at(1), "127.0.0.1:1".parse().unwrap(), &write_property(1, setpoint, Wire::Real(25.0)));
        let event = server.poll_event().unwrap();
        assert!(objects.take(at(1).mono, &server, &event).is_some());
        let is_commanded = |server: &Server| server.object(setpoint).unwrap().commanded().is_some();
        objects.show(at(10), &mut server);
        assert!(is_commanded(&server) && objects.listed.is_silent(at(10).mono));
        objects.show(at(12), &mut server);
        assert!(!is_commanded(&server) && !objects.listed.is_silent(at(12).mono));
        assert_eq!(server.object(setpoint).unwrap().present_value(), &Wire::Real(21.0));
        objects.show(at(20), &mut server);
        assert!(objects.flags.iter().all(|flags| flags.fault));
        objects.show(at(22), &mut server);
        assert!(objects.flags.iter().all(|flags| *flags == StatusFlags::default()));
    }
}
