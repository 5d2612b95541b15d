//! What is taken, what is refused and why, and what is written down.

extern crate std;
use crate::*;
use core::time::Duration;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};
use tieline_core::{CommandMode, DeviceId, Instant, Now, PointId, Refusal, Timestamp, Topic, Value};

const BOTH: Modes = Modes { select: true, direct: true, preferred: CommandMode::SelectBeforeOperate };
const D: DeviceId = DeviceId(4);

pub(crate) fn at(millis: u64) -> Now {
    Now { mono: Instant(millis * 1_000_000), utc: Timestamp::from_millis(i64::try_from(millis).unwrap()) }
}

pub(crate) fn breaker(topic: &str, device: u32, point: u32) -> ControlPoint {
    ControlPoint {
        topic: Topic::new(topic).unwrap(),
        device: DeviceId(device),
        point: PointId(point),
        accepts: Accepts::Bool { invert: false, words: Some(("open".into(), "close".into())) },
        modes: BOTH,
        relinquishes: false,
    }
}

pub(crate) fn request(id: u64, topic: &str, value: impl Into<Value>) -> Request {
    Request {
        id,
        topic: Topic::new(topic).unwrap(),
        topic_exists: topic == "read/only",
        value: value.into(),
        mode: None,
        timeout: Some(Duration::from_millis(100)),
        who: "anna".into(),
    }
}

fn control(limits: Limits) -> Control {
    let mut control = Control::new(limits, 7);
    for (topic, point) in [("d/cb1", 1), ("d/cb2", 2), ("d/cb3", 3)] {
        control.add_point(breaker(topic, D.0, point)).unwrap();
    }
    control.add_point(breaker("away/cb", 5, 1)).unwrap();
    control.handle_link(at(0), D, true);
    control
}

fn log(control: &mut Control) -> Vec<String> {
    core::iter::from_fn(|| control.poll_audit())
        .map(|r| format!("{} {} {} {} {} {}", r.id, r.time.millis(), r.request, r.value, r.phase.name(), r.reason))
        .map(|line| line.trim_end().to_string())
        .collect()
}

fn ends(control: &mut Control) -> Vec<String> {
    let end = |done: Done| {
        let outcome = done.outcome.map_or_else(|refusal| refusal.reason, |()| "ok");
        format!("{} {outcome} {}", done.request, done.elapsed.as_millis())
    };
    core::iter::from_fn(|| control.poll_done()).map(end).collect()
}

#[test]
fn values_become_raw_values_or_refusals() {
    let check = |accepts: &Accepts, value: Value, expect: Result<Value, &str>| {
        let point = ControlPoint { accepts: accepts.clone(), ..breaker("d/p", 1, 1) };
        let found = point.command(&value, None).map(|command| command.value).map_err(|refusal| refusal.to_string());
        assert_eq!(found, expect.map_err(ToString::to_string), "{value:?}");
    };
    let plain = Accepts::Bool { invert: false, words: None };
    for on in [Value::Bool(true), Value::Int(1), Value::Float(1.0), "on".into(), "TRUE".into(), "1".into()] {
        check(&plain, on, Ok(Value::Bool(true)));
    }
    for (word, state) in [("Close", true), (" closed ", true), ("OPEN", false), ("Off", false)] {
        check(&plain, word.into(), Ok(Value::Bool(state)));
    }
    let said =
        "wrong_type: the value for d/p is \"ajar\", expected true, false, 1, 0, \"on\", \"off\", \"open\" or \"close\"";
    check(&plain, "ajar".into(), Err(said));
    let said = "wrong_type: the value for d/p is 2, expected true, false, 1, 0, \"on\", \"off\", \"open\" or \"close\"";
    check(&plain, Value::Int(2), Err(said));
    let named = Accepts::Bool { invert: true, words: Some(("open".into(), "close".into())) };
    check(&named, "Open".into(), Ok(Value::Bool(true)));
    check(&named, "close".into(), Ok(Value::Bool(false)));
    let said =
        "wrong_type: the value for d/p is null, expected true, false, 1, 0, \"on\", \"off\", \"open\" or \"close\"";
    check(&named, Value::Null, Err(said));
    check(&named, "closed".into(), Ok(Value::Bool(false)));
    let valve = Accepts::Bool { invert: false, words: Some(("Closed".into(), "open".into())) };
    for (word, state) in [("close", false), ("CLOSED", false), ("open", true), ("on", true)] {
        check(&valve, word.into(), Ok(Value::Bool(state)));
    }
    let pump = Accepts::Bool { invert: false, words: Some(("stopped".into(), "Läuft".into())) };
    check(&pump, "läuft".into(), Ok(Value::Bool(true)));
    let said = "wrong_type: the value for d/p is \"open\", expected true, false, 1, 0, \"on\", \"off\", \"stopped\" or \
                \"Läuft\"";
    check(&pump, "open".into(), Err(said));

    let exact = Scaling { whole: true, ..Scaling::default() };
    let int = Accepts::Int { min: -5, max: i64::MAX, scaling: exact };
    check(&int, Value::Int(i64::MAX), Ok(Value::Int(i64::MAX)));
    check(&int, Value::Float(3.0), Ok(Value::Int(3)));
    check(&int, Value::Float(3.5), Err("wrong_type: the value for d/p is 3.5, expected a whole number"));
    check(&int, "3".into(), Err("wrong_type: the value for d/p is \"3\", expected a whole number"));
    let said = "out_of_range: the value for d/p is -6, expected -5 to 9223372036854775807";
    check(&int, Value::Int(-6), Err(said));

    let volts = Scaling { scale: 0.1, offset: 100.0, whole: true };
    let float = Accepts::Float { min: 0.0, max: 300.0, scaling: volts };
    check(&float, Value::Float(230.04), Ok(Value::Int(1300)));
    check(&float, Value::Int(99), Ok(Value::Int(-10)));
    check(&float, Value::Float(300.5), Err("out_of_range: the value for d/p is 300.5, expected 0 to 300"));
    check(&float, Value::Float(f64::NAN), Err("wrong_type: the value for d/p is \"nan\", expected a finite number"));
    let tiny = Accepts::Float { min: 0.0, max: 300.0, scaling: Scaling { scale: 1e-300, ..volts } };
    let said = "out_of_range: the value for d/p is 3, expected a number whose raw value the device can take";
    check(&tiny, Value::Int(3), Err(said));
}

/// What a point shows after a command is what was asked for, as far as the device can hold it.
#[test]
fn null_relinquishes_where_the_point_can() {
    let point = |relinquishes| ControlPoint { relinquishes, ..breaker("d/p", 1, 1) };
    let command = point(true).command(&Value::Null, None).unwrap();
    assert_eq!((point(true).value_after(&command), command.value), (None, Value::Null));
    assert_eq!(point(false).command(&Value::Null, None).unwrap_err().reason, "wrong_type");
}

#[test]
fn the_value_after_a_command_is_known() {
    let check = |accepts: Accepts, asked: Value, expect: Value| {
        let point = ControlPoint { accepts, ..breaker("d/p", 1, 1) };
        let command = point.command(&asked, None).unwrap();
        assert_eq!(point.value_after(&command), Some(expect), "{asked:?}");
    };
    for invert in [false, true] {
        check(Accepts::Bool { invert, words: None }, "open".into(), Value::Bool(false));
        check(Accepts::Bool { invert, words: None }, Value::Int(1), Value::Bool(true));
    }
    let tenths = Scaling { scale: 0.1, offset: 100.0, whole: true };
    check(Accepts::Float { min: 0.0, max: 300.0, scaling: tenths }, Value::Float(230.04), Value::Float(230.0));
    check(Accepts::Float { min: 0.0, max: 300.0, scaling: Scaling::default() }, Value::Int(7), Value::Float(7.0));
    let exact = Scaling { whole: true, ..Scaling::default() };
    check(Accepts::Int { min: 0, max: 9, scaling: exact }, Value::Float(3.0), Value::Int(3));
}

/// An outcome that says that the device may have operated is no refusal of the device.
#[test]
fn an_outcome_that_is_not_known_is_no_failure() {
    let mut control = control(Limits::default());
    let mut end = |id: u64, outcome: Refusal| {
        control.handle_request(at(0), request(id, "d/cb1", true)).unwrap();
        let command_id = control.poll_command(at(0)).unwrap().command_id;
        control.handle_outcome(at(1), D, command_id, Err(outcome));
        let phase = core::iter::from_fn(|| control.poll_audit()).last().unwrap().phase;
        let known = control.poll_done().unwrap().outcome.unwrap_err();
        (phase, known.maybe_operated)
    };
    assert_eq!(end(1, Refusal::new("local", String::new())), (Phase::Failed, false));
    assert_eq!(end(2, Refusal::unknown("bad_echo", String::new())), (Phase::Lost, true));
}

#[test]
fn modes_are_taken_by_preference_and_checked() {
    use CommandMode::{DirectOperate as Direct, SelectBeforeOperate as Select};
    let check = |select, direct, asked, expect: Result<CommandMode, &str>| {
        let point = ControlPoint { modes: Modes { select, direct, ..BOTH }, ..breaker("p", 1, 1) };
        let found = point.command(&Value::Bool(true), asked).map(|command| command.mode);
        assert_eq!(found.map_err(|refusal| refusal.to_string()), expect.map_err(ToString::to_string));
    };
    check(true, true, None, Ok(Select));
    check(true, true, Some(Direct), Ok(Direct));
    check(false, true, None, Ok(Direct));
    check(false, true, Some(Select), Err("not_supported_mode: the mode for p is select, expected direct"));
    check(true, false, Some(Direct), Err("not_supported_mode: the mode for p is direct, expected select"));
}

#[test]
fn wrong_points_are_refused() {
    let mut control = Control::new(Limits { points_max: 1, ..Limits::default() }, 0);
    let mut check = |point: ControlPoint, expect: &str| {
        assert_eq!(control.add_point(point).map_err(|e| e.to_string()), Err(expect.to_string()));
    };
    let float = |min, max, scale| {
        let scaling = Scaling { scale, ..Scaling::default() };
        ControlPoint { accepts: Accepts::Float { min, max, scaling }, ..breaker("p", 1, 1) }
    };
    check(float(1.0, 0.0, 1.0), "the range of p is empty, expected finite numbers and min <= max");
    check(float(0.0, f64::INFINITY, 1.0), "the range of p is empty, expected finite numbers and min <= max");
    check(float(0.0, 1.0, 0.0), "the scaling of p cannot be undone, expected finite numbers and a scale other than 0");
    let none = ControlPoint { modes: Modes { select: false, direct: false, ..BOTH }, ..breaker("p", 1, 1) };
    check(none, "p allows no mode, expected select, direct or both");
    control.add_point(breaker("p", 1, 1)).unwrap();
    let full = control.add_point(breaker("q", 1, 1));
    assert_eq!(full, Err(PointError::PointsFull { max: 1 }));
}

#[test]
fn a_bad_request_is_refused_before_anything_reaches_a_device() {
    let mut control = control(Limits { device_queue_max: 1, ..Limits::default() });
    let mut check = |topic: &str, value: Value, expect: &str| {
        let refused = control.handle_request(at(1), request(1, topic, value)).unwrap_err();
        assert_eq!(refused.to_string(), expect);
    };
    check("nowhere", Value::Bool(true), "unknown_topic: there is no topic nowhere");
    check("read/only", Value::Bool(true), "not_writable: the topic read/only can only be read");
    check("away/cb", Value::Bool(true), "away: the device of away/cb is not connected");
    control.handle_request(at(2), request(2, "d/cb1", true)).unwrap();
    let mut check = |topic: &str, expect: &str| {
        let refused = control.handle_request(at(3), request(3, topic, true)).unwrap_err();
        assert_eq!(refused.to_string(), expect);
    };
    check("d/cb1", "busy: a command for d/cb1 is under way");
    check("d/cb2", "queue_full: 1 requests wait for the device of d/cb2");
    let expect = [
        "7 1 1 true refused unknown_topic",
        "8 1 1 true refused not_writable",
        "9 1 1 true refused away",
        "10 2 2 true requested",
        "11 3 3 true refused busy",
        "12 3 3 true refused queue_full",
    ];
    assert_eq!(log(&mut control), expect);
    assert_eq!(ends(&mut control), [""; 0]);
}

#[test]
fn commands_of_a_device_go_one_by_one() {
    let mut control = control(Limits::default());
    for (id, topic) in [(1, "d/cb1"), (2, "d/cb2")] {
        control.handle_request(at(id), request(id, topic, "close")).unwrap();
    }
    let first = control.poll_command(at(3)).unwrap();
    assert_eq!((first.device, first.command.point, &first.command.value), (D, PointId(1), &Value::Bool(true)));
    assert_eq!(control.poll_command(at(4)), None);
    control.handle_outcome(at(5), D, CommandId(99), Ok(()));
    assert_eq!(control.poll_command(at(5)), None);
    control.handle_outcome(at(6), D, first.command_id, Ok(()));
    let second = control.poll_command(at(7)).unwrap();
    let refused = Refusal::new("local", "the device is in local mode".into());
    control.handle_outcome(at(8), D, second.command_id, Err(refused));
    assert_eq!(ends(&mut control), ["1 ok 5", "2 local 6"]);
    let expect = [
        "7 1 1 \"close\" requested",
        "8 2 2 \"close\" requested",
        "9 3 1 \"close\" sent",
        "10 6 1 \"close\" succeeded",
        "11 7 2 \"close\" sent",
        "12 8 2 \"close\" failed local",
    ];
    assert_eq!(log(&mut control), expect);
    assert_eq!((control.stats().stray_outcomes, control.stats().under_way, control.timeout()), (1, 0, None));
}

#[test]
fn a_late_outcome_is_recorded_and_frees_the_device() {
    let mut control = control(Limits::default());
    control.handle_request(at(0), request(1, "d/cb1", true)).unwrap();
    let first = control.poll_command(at(0)).unwrap();
    control.handle_request(at(50), request(2, "d/cb2", true)).unwrap();
    control.handle_timeout(at(100));
    assert_eq!(ends(&mut control), ["1 timeout 100"]);
    assert_eq!(control.poll_command(at(100)), None);
    // The point stays busy while its command is out.
    assert_eq!(control.handle_request(at(101), request(3, "d/cb1", true)).unwrap_err().reason, "busy");
    control.handle_outcome(at(120), D, first.command_id, Ok(()));
    assert_eq!(control.poll_command(at(120)).unwrap().command.point, PointId(2));
    let expect = [
        "7 0 1 true requested",
        "8 0 1 true sent",
        "9 50 2 true requested",
        "10 100 1 true timed_out timeout",
        "11 101 3 true refused busy",
        "12 120 1 true late",
        "13 120 2 true sent",
    ];
    assert_eq!(log(&mut control), expect);
}

#[test]
fn a_request_that_waited_too_long_is_never_sent() {
    let mut control = control(Limits::default());
    control.handle_request(at(0), request(1, "d/cb1", true)).unwrap();
    control.handle_request(at(0), request(2, "d/cb2", true)).unwrap();
    assert!(control.poll_command(at(0)).is_some());
    control.handle_timeout(at(100));
    control.handle_timeout(at(60_099));
    assert_eq!(control.stats().unanswered, 0);
    control.handle_timeout(at(60_100));
    assert_eq!(control.poll_command(at(60_100)), None);
    assert_eq!(ends(&mut control), ["1 timeout 100", "2 timeout 100"]);
    let Stats { sent, timed_out, dropped, unanswered, .. } = control.stats();
    assert_eq!((sent, timed_out, dropped, unanswered), (1, 1, 1, 1));
    control.handle_request(at(60_101), request(3, "d/cb1", true)).unwrap();
    // Nobody called handle_timeout: the command is too old all the same.
    assert_eq!(control.poll_command(at(60_201)), None);
    assert_eq!(ends(&mut control), ["3 timeout 100"]);
}

#[test]
fn a_request_that_waited_too_long_gives_its_place_back() {
    let mut control = control(Limits { device_queue_max: 1, ..Limits::default() });
    control.handle_request(at(0), request(1, "d/cb1", true)).unwrap();
    assert!(control.poll_command(at(0)).is_some());
    control.handle_request(at(0), request(2, "d/cb2", true)).unwrap();
    assert_eq!(control.handle_request(at(1), request(3, "d/cb3", true)).unwrap_err().reason, "queue_full");
    control.handle_timeout(at(100));
    control.handle_request(at(101), request(4, "d/cb2", true)).unwrap();
}

#[test]
fn a_lost_device_ends_what_waits_and_what_is_out() {
    let mut control = control(Limits::default());
    for (id, topic) in [(1, "d/cb1"), (2, "d/cb2"), (3, "d/cb3")] {
        control.handle_request(at(0), request(id, topic, false)).unwrap();
    }
    let first = control.poll_command(at(1)).unwrap();
    control.handle_link(at(2), D, false);
    control.handle_outcome(at(3), D, first.command_id, Ok(()));
    assert_eq!(ends(&mut control), ["1 away 2", "2 away 2", "3 away 2"]);
    let log = log(&mut control);
    assert_eq!(log[4..], ["11 2 1 false lost away", "12 2 2 false dropped away", "13 2 3 false dropped away"]);
    assert_eq!((control.stats().stray_outcomes, control.stats().under_way), (1, 0));
    control.handle_link(at(4), D, true);
    assert_eq!(control.poll_command(at(4)), None);
    control.handle_request(at(5), request(4, "d/cb1", false)).unwrap();
    assert!(control.poll_command(at(5)).is_some());
}

#[test]
fn nothing_is_commanded_that_cannot_be_recorded() {
    let mut control = control(Limits { audit_max: 8, ..Limits::default() });
    control.handle_request(at(0), request(1, "d/cb1", true)).unwrap();
    control.handle_request(at(0), request(2, "d/cb2", true)).unwrap_err();
    let mut reasons = vec![];
    for id in 3..20 {
        reasons.push(control.handle_request(at(0), request(id, "d/cb2", true)).unwrap_err().reason);
    }
    assert!(reasons.iter().all(|reason| *reason == "audit_full"));
    let first = control.poll_command(at(1)).unwrap();
    control.handle_timeout(at(100));
    control.handle_outcome(at(120), D, first.command_id, Ok(()));
    let records = log(&mut control);
    assert!(records.len() <= 8, "{records:?}");
    let phases = records.iter().filter(|line| line.split(' ').nth(2) == Some("1")).count();
    assert_eq!(phases, 4);
    assert_eq!(control.stats().audit_lost + u64::try_from(records.len()).unwrap(), 18 + 4);
}

/// Points change while commands wait: what waits for a point that is the same is sent, and no other.
#[test]
fn a_command_is_sent_to_the_point_that_it_was_asked_for_or_not_at_all() {
    let mut control = control(Limits::default());
    for (id, topic) in [(1, "d/cb1"), (2, "d/cb2"), (3, "d/cb3")] {
        control.handle_request(at(0), request(id, topic, true)).unwrap();
    }
    let out = control.poll_command(at(0)).unwrap();
    assert_eq!(out.command.point, PointId(1));
    let devices = [D].into_iter().collect();
    let other = ControlPoint { modes: Modes { direct: false, ..BOTH }, ..breaker("d/cb2", D.0, 1) };
    let points = vec![breaker("d/cb1", D.0, 4), other, breaker("d/cb3", D.0, 2)];
    let taken = [breaker("away/cb", D.0, 1)];
    assert!(matches!(control.check_points(&devices, taken.iter()), Err(PointError::TopicTwice { .. })));
    control.replace_points(at(1), &devices, points).unwrap();
    assert_eq!(ends(&mut control), ["2 point_changed 1"]);
    let refused = control.handle_request(at(1), request(5, "d/cb1", true)).unwrap_err();
    assert_eq!(refused.reason, "busy");
    // What is out ends as it would have, and the next goes to the same point, by its new number.
    control.handle_outcome(at(2), D, out.command_id, Ok(()));
    let next = control.poll_command(at(2)).unwrap();
    assert_eq!((next.command.point, ends(&mut control)), (PointId(2), vec!["1 ok 2".to_string()]));
    control.replace_points(at(3), &devices, Vec::new()).unwrap();
    let refused = control.handle_request(at(3), request(4, "d/cb1", true)).unwrap_err();
    assert_eq!(refused.reason, "unknown_topic");
    control.forget_devices(at(4), devices);
    assert_eq!(ends(&mut control), ["3 reconfigured 4"]);
    assert_eq!((control.stats().points, control.stats().under_way), (1, 0));
    let log = log(&mut control);
    assert!(log.iter().any(|line| line.contains("dropped point_changed")), "{log:?}");
    assert!(log.last().unwrap().ends_with("lost reconfigured"), "{log:?}");
}
