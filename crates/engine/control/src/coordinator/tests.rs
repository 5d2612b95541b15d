//! Batches, reverts, overrides, rules and restarts, one by one.

extern crate std;
use crate::tests::at;
use crate::*;
use core::time::Duration;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};
use tieline_core::{CommandMode, DeviceId, Now, Point, PointId, Quality, Refusal, Timestamp, Topic, Value};

fn topic(text: &str) -> Topic {
    Topic::new(text).unwrap()
}

fn coordinator(devices: u32, limits: CoordinatorLimits) -> Coordinator {
    let mut coordinator = Coordinator::new(limits, 1);
    for device in 0..devices {
        coordinator.add_device(DeviceId(device), topic(&format!("d{device}")));
        for point in 0..2 {
            let point = ControlPoint {
                topic: topic(&format!("d{device}/p{point}")),
                device: DeviceId(device),
                point: PointId(point),
                accepts: Accepts::Float { min: 0.0, max: 100.0, scaling: Scaling::default() },
                modes: Modes { select: false, direct: true, preferred: CommandMode::DirectOperate },
                relinquishes: false,
            };
            coordinator.add_point(point).unwrap();
        }
        coordinator.handle_link(at(0), DeviceId(device), true);
    }
    coordinator
}

fn to_zero() -> PointRules {
    PointRules { revert: RevertTo::Value(Value::Float(0.0)), ..PointRules::default() }
}

fn set(name: &str, value: f64) -> BatchEntry {
    let action = Action::Set { value: Value::Float(value), mode: None };
    BatchEntry { topic: topic(name), topic_exists: true, action }
}

fn batch(id: u64, who: &str, confirm: bool, entries: Vec<BatchEntry>) -> Batch {
    Batch { id, requester: who.into(), who: who.into(), entries, timeout: None, confirm, is_single: false }
}

fn reserve(coordinator: &mut Coordinator, now: Now, who: &str, device: &str, until_ms: i64) {
    let slot = SlotRequest {
        device: device.into(),
        start: Timestamp::from_millis(0).to_string(),
        end: Timestamp::from_millis(until_ms).to_string(),
    };
    let request = NewSchedule {
        requester: Some(who.into()),
        task: Some(format!("{who}-{device}-{until_ms}")),
        priority: Some("HIGH".into()),
        slots: vec![slot],
        lease: None,
    };
    let result = coordinator.request_schedule(now, &request, &who.into());
    assert!(result.is_success(), "{result:?}");
}

fn send(coordinator: &mut Coordinator, now: Now) -> Vec<Dispatch> {
    core::iter::from_fn(|| coordinator.poll_command(now)).collect()
}

/// Sends and lets all devices accept; what was sent, as `device/point value`.
fn accept(coordinator: &mut Coordinator, now: Now) -> Vec<String> {
    let mut sent = Vec::new();
    loop {
        let dispatches = send(coordinator, now);
        if dispatches.is_empty() {
            return sent;
        }
        for dispatch in dispatches {
            let (device, point) = (dispatch.device.0, dispatch.command.point.0);
            sent.push(format!("d{device}/p{point} {}", dispatch.command.value.as_f64().unwrap()));
            coordinator.handle_outcome(now, dispatch.device, dispatch.command_id, Ok(()));
        }
    }
}

fn answers(coordinator: &mut Coordinator) -> Vec<String> {
    let told = |event| match event {
        BatchEvent::Answer(answer) => match answer.outcome {
            PointOutcome::Accepted { .. } => format!("{} accepted", answer.index),
            PointOutcome::Confirmed { .. } => format!("{} confirmed", answer.index),
            PointOutcome::Unconfirmed { refusal, .. } => format!("{} unconfirmed {refusal}", answer.index),
            PointOutcome::Refused(refusal) => format!("{} refused {}", answer.index, refusal.reason),
            PointOutcome::Unknown(refusal) => format!("{} unknown {}", answer.index, refusal.reason),
        },
        BatchEvent::Done(done) => format!("done {}", done.batch),
    };
    core::iter::from_fn(|| coordinator.poll_event()).map(told).collect()
}

fn good(value: f64) -> Point {
    Point { value: Value::Float(value), quality: Quality::GOOD, time: Timestamp::default() }
}

#[test]
fn only_the_holder_commands_and_its_points_are_reverted_once() {
    let mut c = coordinator(1, CoordinatorLimits::default());
    c.set_rules(&topic("d0/p0"), to_zero()).unwrap();
    reserve(&mut c, at(0), "anna", "d0", 1_000);
    c.handle_batch(at(1), batch(1, "bert", false, vec![set("d0/p0", 5.0)])).unwrap();
    c.handle_batch(at(1), batch(2, "anna", false, vec![set("d0/p0", 6.0), set("d0/p1", 7.0)])).unwrap();
    assert_eq!(accept(&mut c, at(2)), ["d0/p0 6", "d0/p1 7"]);
    assert_eq!(answers(&mut c), ["0 refused reserved", "done 1", "0 accepted", "1 accepted", "done 2"]);
    assert_eq!(accept(&mut c, at(999)), [""; 0]);
    assert_eq!(accept(&mut c, at(1_000)), ["d0/p0 0"]);
    assert_eq!(accept(&mut c, at(90_000)), [""; 0]);
    assert_eq!((c.stats().holds, c.stats().reverted), (0, 1));
}

#[test]
fn a_holder_that_ends_leaves_nothing_commanded() {
    let mut c = coordinator(1, CoordinatorLimits::default());
    c.set_rules(&topic("d0/p0"), to_zero()).unwrap();
    reserve(&mut c, at(0), "anna", "d0", 60_000);
    c.handle_batch(at(1), batch(1, "anna", false, vec![set("d0/p0", 6.0), set("d0/p1", 7.0)])).unwrap();
    let first = send(&mut c, at(1));
    c.handle_holder_gone(at(2), &"anna".into());
    c.handle_outcome(at(3), DeviceId(0), first[0].command_id, Ok(()));
    // The revert fails, and is tried again after a second; what waited behind it is not sent.
    let revert = send(&mut c, at(3));
    assert_eq!(revert[0].command.value, Value::Float(0.0));
    c.handle_outcome(at(4), DeviceId(0), revert[0].command_id, Err(Refusal::new("local", String::new())));
    assert_eq!(answers(&mut c), ["0 accepted", "1 refused holder_gone", "done 1"]);
    assert_eq!(accept(&mut c, at(1_003)), [""; 0]);
    assert_eq!(accept(&mut c, at(1_004)), ["d0/p0 0"]);
    // The device is free.
    reserve(&mut c, at(2_000), "bert", "d0", 60_000);
}

/// A requester whose next task begins where the one before ends keeps what it has set, a command that is out included.
#[test]
fn a_requester_keeps_a_device_over_tasks_that_touch() {
    let mut c = coordinator(1, CoordinatorLimits::default());
    c.set_rules(&topic("d0/p0"), to_zero()).unwrap();
    let slot = |start: i64, end: i64| SlotRequest {
        device: "d0".into(),
        start: Timestamp::from_millis(start).to_string(),
        end: Timestamp::from_millis(end).to_string(),
    };
    for (task, start, end) in [("t", 0, 1_000), ("u", 1_000, 2_000)] {
        let request = NewSchedule {
            requester: Some("anna".into()),
            task: Some(task.into()),
            priority: Some("LOW".into()),
            slots: vec![slot(start, end)],
            lease: None,
        };
        assert!(c.request_schedule(at(0), &request, &"anna".into()).is_success());
    }
    c.handle_batch(at(999), batch(1, "anna", false, vec![set("d0/p0", 6.0)])).unwrap();
    assert_eq!(send(&mut c, at(999)).len(), 1);
    c.handle_timeout(at(1_000));
    assert_eq!(answers(&mut c), ["0 unknown timeout", "done 1"]);
    c.handle_link(at(1_001), DeviceId(0), false);
    c.handle_link(at(1_002), DeviceId(0), true);
    assert_eq!(accept(&mut c, at(1_999)), [""; 0]);
    assert_eq!(accept(&mut c, at(2_000)), ["d0/p0 0"]);
}

/// Another command of the point ends without being sent while the first is out: the point is held all the same.
#[test]
fn a_command_that_waits_too_long_leaves_the_hold_of_the_one_that_is_out() {
    let mut c = coordinator(1, CoordinatorLimits::default());
    c.set_rules(&topic("d0/p0"), to_zero()).unwrap();
    reserve(&mut c, at(0), "anna", "d0", 5_000);
    c.handle_batch(at(1), batch(1, "anna", false, vec![set("d0/p0", 6.0)])).unwrap();
    let first = send(&mut c, at(1));
    let timeout = Some(Duration::from_millis(100));
    c.handle_batch(at(2), Batch { timeout, ..batch(2, "anna", false, vec![set("d0/p0", 7.0)]) }).unwrap();
    c.handle_timeout(at(200));
    c.handle_outcome(at(300), DeviceId(0), first[0].command_id, Ok(()));
    assert_eq!(answers(&mut c), ["0 refused timeout", "done 2", "0 accepted", "done 1"]);
    assert_eq!(accept(&mut c, at(4_999)), [""; 0]);
    assert_eq!(accept(&mut c, at(5_000)), ["d0/p0 0"]);
}

/// A command without a reservation makes a revert needless only once it is known to be carried out.
#[test]
fn an_unknown_outcome_without_a_reservation_leaves_the_revert_due() {
    let read_back = ReadBack { topic: None, within: Duration::from_secs(1), tolerance: 0.0, double_bit: false };
    let check = |reading: Option<f64>, expect: &[&str]| {
        let mut c = coordinator(1, CoordinatorLimits::default());
        let rules = PointRules { read_back: Some(read_back.clone()), ..to_zero() };
        c.set_rules(&topic("d0/p0"), rules).unwrap();
        reserve(&mut c, at(0), "anna", "d0", 1_000);
        c.handle_batch(at(1), batch(1, "anna", false, vec![set("d0/p0", 6.0)])).unwrap();
        assert_eq!(accept(&mut c, at(1)), ["d0/p0 6"]);
        c.handle_link(at(500), DeviceId(0), false);
        c.handle_timeout(at(1_000));
        let other = batch(2, "bert", true, vec![set("d0/p1", 1.0), set("d0/p0", 7.0)]);
        c.handle_link(at(1_500), DeviceId(0), true);
        let revert = send(&mut c, at(1_500));
        c.handle_batch(at(1_600), other).unwrap();
        let refusal = Err(Refusal::new("local", String::new()));
        c.handle_outcome(at(1_700), DeviceId(0), revert[0].command_id, refusal);
        let sent = send(&mut c, at(1_700));
        c.handle_outcome(at(1_700), DeviceId(0), sent[0].command_id, Ok(()));
        let sent = send(&mut c, at(1_700));
        assert_eq!((sent[0].command.point, &sent[0].command.value), (PointId(0), &Value::Float(7.0)));
        let unknown = Err(Refusal::unknown("bad_echo", String::new()));
        c.handle_outcome(at(1_800), DeviceId(0), sent[0].command_id, unknown);
        if let Some(value) = reading {
            c.handle_reading(at(1_900), &topic("d0/p0"), &good(value));
        }
        let mut sent = accept(&mut c, at(2_600));
        sent.extend(accept(&mut c, at(3_000)));
        assert_eq!(sent, expect, "{reading:?}");
    };
    check(Some(7.0), &[]);
    check(Some(6.0), &["d0/p0 0"]);
    check(None, &["d0/p0 0"]);
}

/// The reading is from before the revert: the next holder's command is not taken back to what it shows.
#[test]
fn what_was_before_is_not_what_an_old_reading_shows() {
    let mut c = coordinator(1, CoordinatorLimits::default());
    let rules = PointRules { revert: RevertTo::Previous, ..PointRules::default() };
    c.set_rules(&topic("d0/p0"), rules).unwrap();
    reserve(&mut c, at(0), "anna", "d0", 1_000);
    let refused = c.dry_run(at(1), &batch(1, "anna", false, vec![set("d0/p0", 6.0)])).remove(0).unwrap_err();
    assert_eq!(refused.reason, "not_revertible");
    c.handle_reading(at(1), &topic("d0/p0"), &good(2.0));
    c.handle_batch(at(2), batch(1, "anna", false, vec![set("d0/p0", 6.0)])).unwrap();
    assert_eq!(accept(&mut c, at(2)), ["d0/p0 6"]);
    c.handle_reading(at(900), &topic("d0/p0"), &good(6.0));
    assert_eq!(accept(&mut c, at(1_000)), ["d0/p0 2"]);
    reserve(&mut c, at(1_001), "bert", "d0", 2_000);
    c.handle_batch(at(1_002), batch(2, "bert", false, vec![set("d0/p0", 7.0)])).unwrap();
    assert_eq!(accept(&mut c, at(1_002)), ["d0/p0 7"]);
    assert_eq!(accept(&mut c, at(2_000)), ["d0/p0 2"]);
}

#[test]
fn a_restart_reverts_what_nobody_holds() {
    let check = |is_back: bool, until: i64, expect: &[&str]| {
        let mut c = coordinator(1, CoordinatorLimits::default());
        c.set_rules(&topic("d0/p0"), to_zero()).unwrap();
        reserve(&mut c, at(0), "anna", "d0", until);
        c.handle_batch(at(1), batch(1, "anna", false, vec![set("d0/p0", 6.0)])).unwrap();
        assert_eq!(send(&mut c, at(1)).len(), 1);
        let entries: Vec<Entry> = core::iter::from_fn(|| c.poll_entry()).collect();
        let mut c = coordinator(1, CoordinatorLimits::default());
        c.set_rules(&topic("d0/p0"), to_zero()).unwrap();
        c.restore(at(2_000), entries);
        assert_eq!(c.snapshot().len(), usize::from(until > 2_000) + 1);
        if is_back {
            c.handle_holder_here(at(2_000).mono, &"anna".into());
        }
        let mut sent = accept(&mut c, at(2_000));
        sent.extend(accept(&mut c, at(40_000)));
        assert_eq!(sent, expect, "{is_back} {until}");
    };
    check(true, 1_000, &["d0/p0 0"]);
    check(true, 90_000, &[]);
    check(false, 90_000, &["d0/p0 0"]);
}

#[test]
fn overrides_block_and_revert() {
    let mut c = coordinator(3, CoordinatorLimits::default());
    for device in 0..3 {
        c.set_rules(&topic(&format!("d{device}/p0")), to_zero()).unwrap();
    }
    let who: std::sync::Arc<str> = "operator".into();
    let mut asked = NewOverride {
        pattern: "d[01]".parse().unwrap(),
        duration: Some(Duration::from_secs(10)),
        failsafe_revert: true,
        staggered_revert: true,
        who: who.clone(),
    };
    c.set_override_on(at(0), &asked).unwrap();
    assert_eq!(accept(&mut c, at(0)), ["d0/p0 0"]);
    assert_eq!(accept(&mut c, at(50)), ["d1/p0 0"]);
    let entries = || vec![set("d0/p0", 1.0), set("d2/p0", 1.0)];
    let dry_runs = c.dry_run(at(60), &batch(1, "anna", false, entries()));
    let refusal = dry_runs[0].as_ref().unwrap_err();
    let said = "override: Cannot set point on device d0 since global override is set by the pattern \"d[01]\"";
    assert_eq!((refusal.to_string().as_str(), dry_runs[1].is_ok()), (said, true));
    let revert = BatchEntry { action: Action::Revert, ..set("d0/p0", 1.0) };
    let refusal = c.dry_run(at(60), &batch(1, "anna", false, vec![revert])).remove(0).unwrap_err();
    let said = "override: Cannot revert point on device d0 since global override is set by the pattern \"d[01]\"";
    assert_eq!(refusal.to_string(), said);
    // A shorter time changes nothing.
    (asked.duration, asked.failsafe_revert) = (Some(Duration::from_secs(1)), false);
    c.set_override_on(at(60), &asked).unwrap();
    c.handle_batch(at(9_999), batch(2, "anna", false, entries())).unwrap();
    assert_eq!(accept(&mut c, at(9_999)), ["d2/p0 1"]);
    c.handle_batch(at(10_000), batch(3, "anna", false, entries())).unwrap();
    assert_eq!(accept(&mut c, at(10_000)), ["d0/p0 1", "d2/p0 1"]);
    let off = c.set_override_off(at(10_001), &asked.pattern, &who).unwrap_err();
    assert_eq!(off.to_string(), "override: Pattern d[01] does not exist in list of override patterns");
}

#[test]
fn a_reading_confirms_or_none_does() {
    let mut c = coordinator(1, CoordinatorLimits::default());
    let read_back =
        ReadBack { topic: Some(topic("d0/shows")), within: Duration::from_secs(1), tolerance: 0.5, double_bit: false };
    c.set_rules(&topic("d0/p0"), PointRules { read_back: Some(read_back), ..PointRules::default() }).unwrap();
    let mut run = |start: u64, before: Option<f64>, after: Option<f64>| {
        c.handle_batch(at(start), batch(1, "anna", true, vec![set("d0/p0", 5.0)])).unwrap();
        let sent = send(&mut c, at(start));
        if let Some(value) = before {
            c.handle_reading(at(start + 1), &topic("d0/shows"), &good(value));
        }
        c.handle_outcome(at(start + 2), DeviceId(0), sent[0].command_id, Ok(()));
        if let Some(value) = after {
            c.handle_reading(at(start + 3), &topic("d0/shows"), &good(value));
        }
        c.handle_timeout(at(start + 1_002));
        answers(&mut c)[0].clone()
    };
    let none = "0 unconfirmed unconfirmed: no reading of d0/p0 showed 5.0 within 1 s; none came";
    assert_eq!(run(0, None, None), none);
    assert_eq!(run(2_000, None, Some(4.6)), "0 confirmed");
    assert_eq!(run(4_000, Some(5.4), None), "0 confirmed");
    let other = "0 unconfirmed unconfirmed: no reading of d0/p0 showed 5.0 within 1 s; the last reading is 4.0, good";
    assert_eq!(run(6_000, Some(5.4), Some(4.0)), "0 confirmed");
    assert_eq!(run(8_000, Some(5.0), Some(4.0)), "0 confirmed");
    assert_eq!(run(10_000, None, Some(4.0)), other);
}

#[test]
fn rules_refuse_before_anything_is_sent() {
    let rules = PointRules {
        step_max: Some(10.0),
        interval_min: Some(Duration::from_secs(5)),
        interlocks: vec!["allow when d0/door == 1".parse().unwrap()],
        ..PointRules::default()
    };
    let mut c = coordinator(1, CoordinatorLimits::default());
    c.set_rules(&topic("d0/p0"), rules).unwrap();
    let would = |c: &Coordinator, now: u64, value: f64| {
        let dry_run = c.dry_run(at(now), &batch(1, "anna", false, vec![set("d0/p0", value)])).remove(0);
        dry_run.map_or_else(|refusal| refusal.to_string(), |would| would.raw.as_f64().unwrap().to_string())
    };
    let unknown = "unknown_value: d0/p0: no good reading is known, from which the step could be measured";
    assert_eq!(would(&c, 0, 5.0), unknown);
    c.handle_reading(at(0), &topic("d0/p0"), &good(1.0));
    let said = "interlock: d0/p0: allow when d0/door == 1, but its value is not known";
    assert_eq!(would(&c, 0, 5.0), said);
    let bad = Point { quality: Quality::COMM_LOST, ..good(1.0) };
    c.handle_reading(at(0), &topic("d0/door"), &bad);
    assert_eq!(would(&c, 0, 5.0), "interlock: d0/p0: allow when d0/door == 1, but its quality is bad");
    c.handle_reading(at(0), &topic("d0/door"), &good(0.0));
    assert!(would(&c, 0, 5.0).ends_with("but it is 0.0"), "{}", would(&c, 0, 5.0));
    c.handle_reading(at(0), &topic("d0/door"), &good(1.0));
    let large = "step_too_large: d0/p0: the step from 1 to 12 is too large, expected at most 10";
    assert_eq!((would(&c, 0, 5.0), would(&c, 0, 12.0)), ("5".into(), large.into()));
    c.handle_batch(at(0), batch(1, "anna", false, vec![set("d0/p0", 5.0)])).unwrap();
    assert_eq!(accept(&mut c, at(0)).len(), 1);
    let often = "too_often: d0/p0: the last command was 2.0 s ago, expected at least 5.0 s";
    assert_eq!((would(&c, 2_000, 5.0), would(&c, 5_000, 5.0)), (often.into(), "5".into()));
}

#[test]
fn interlocks_are_read_from_text() {
    let check = |text: &str, expect: &str| {
        let found = text.parse::<Interlock>().map_or_else(|e| e.to_string(), |rule| rule.to_string());
        assert_eq!(found, expect);
    };
    check("allow when a/b >= 2.5", "allow when a/b >= 2.5");
    check("a/b==true", "allow when a/b == true");
    check("a != \"auto\"", "allow when a != \"auto\"");
    let how = "expected as in allow when site/tank/level >= 2.5";
    check("a/b 5", &format!("\"a/b 5\": no comparison, {how}"));
    check("a = 5", &format!("\"a = 5\": the comparison is unknown, {how}"));
    check("a < true", &format!("\"a < true\": only numbers have an order, {how}"));
    check("a < x", &format!("\"a < x\": the value is no bool, number or \"text\", {how}"));
}

/// One call to 4,000 devices, and to ten times as many: each command is looked at once.
#[test]
fn a_call_to_thousands_of_devices_is_no_more_work_than_its_points() {
    for devices in [4_000u32, 40_000] {
        let control = Limits { requests_max: 1_000, audit_max: 8_000, ..Limits::default() };
        let mut c = coordinator(devices, CoordinatorLimits { control, ..CoordinatorLimits::default() });
        let entries = (0..devices).map(|device| set(&format!("d{device}/p0"), 1.0)).collect();
        c.handle_batch(at(1), batch(1, "anna", true, entries)).unwrap();
        let (mut confirmed, mut left) = (0u32, devices);
        while left > 0 {
            let dispatches = send(&mut c, at(2));
            left -= u32::try_from(dispatches.len()).unwrap();
            for dispatch in dispatches {
                c.handle_outcome(at(2), dispatch.device, dispatch.command_id, Ok(()));
                c.handle_reading(at(3), &topic(&format!("d{}/p0", dispatch.device.0)), &good(1.0));
            }
            while c.poll_audit().is_some() {}
            let events = core::iter::from_fn(|| c.poll_event());
            confirmed += u32::try_from(
                events
                    .filter(|event| {
                        let BatchEvent::Answer(answer) = event else { return false };
                        matches!(answer.outcome, PointOutcome::Confirmed { .. })
                    })
                    .count(),
            )
            .unwrap();
        }
        assert_eq!((confirmed, c.stats().jobs, c.stats().fed), (devices, 0, u64::from(devices)));
    }
}

/// A thousand holders of as many devices are killed.
#[test]
fn a_thousand_holders_are_killed_and_nothing_is_left_commanded() {
    let mut c = coordinator(1_000, CoordinatorLimits::default());
    for device in 0..1_000 {
        let (who, name) = (format!("a{device}"), format!("d{device}"));
        c.set_rules(&topic(&format!("{name}/p0")), to_zero()).unwrap();
        reserve(&mut c, at(0), &who, &name, 60_000);
        c.handle_batch(at(1), batch(device, &who, false, vec![set(&format!("{name}/p0"), 9.0)])).unwrap();
    }
    assert_eq!((accept(&mut c, at(2)).len(), c.stats().holds), (1_000, 1_000));
    for device in 0..1_000 {
        c.handle_holder_gone(at(3), &format!("a{device}").into());
    }
    let mut reverted = accept(&mut c, at(4));
    reverted.sort();
    reverted.dedup();
    assert_eq!((reverted.len(), c.stats().holds, c.stats().reverted), (1_000, 0, 1_000));
    assert_eq!(accept(&mut c, at(90_000)), [""; 0]);
}

/// A person's command is refused at once where it would have to wait for another of the same point; a batch's waits.
#[test]
fn a_single_command_does_not_wait_for_another_of_its_point() {
    let limits = Limits { device_queue_max: 1, ..Limits::default() };
    let mut c = coordinator(1, CoordinatorLimits { control: limits, ..CoordinatorLimits::default() });
    let single = |id, name| Batch { is_single: true, ..batch(id, "anna", false, vec![set(name, 1.0)]) };
    let refused = |c: &mut Coordinator| {
        core::iter::from_fn(|| c.poll_event()).find_map(|event| match event {
            BatchEvent::Answer(Answer { outcome: PointOutcome::Refused(refusal), .. }) => Some(refusal.reason),
            BatchEvent::Answer(_) | BatchEvent::Done(_) => None,
        })
    };
    c.handle_batch(at(1), single(1, "d0/p0")).unwrap();
    assert!(c.poll_command(at(1)).is_some());
    c.handle_batch(at(1), single(2, "d0/p0")).unwrap();
    assert_eq!(refused(&mut c), Some("busy"));
    c.handle_batch(at(1), single(3, "d0/p1")).unwrap();
    assert_eq!(refused(&mut c), None);
    c.handle_batch(at(1), single(4, "d0/p1")).unwrap();
    assert_eq!(refused(&mut c), Some("queue_full"));
    c.handle_batch(at(1), batch(5, "anna", false, vec![set("d0/p0", 2.0)])).unwrap();
    assert_eq!(refused(&mut c), None);
}

/// One that does not come back after a restart loses its tasks, held points or not.
#[test]
fn an_absent_holder_is_gone_in_time() {
    let mut c = coordinator(1, CoordinatorLimits::default());
    reserve(&mut c, at(1), "anna", "d0", 600_000);
    let anna = "anna".into();
    c.handle_holder_absent(at(1), &anna);
    c.handle_holder_here(at(1).mono, &anna);
    c.handle_timeout(at(31_000));
    assert!(c.has_holder("anna"));
    c.handle_holder_absent(at(31_000), &anna);
    c.handle_timeout(at(61_500));
    assert!(!c.has_holder("anna"));
}

/// What it commanded is reverted, what waits is not sent, and its other tasks go on.
#[test]
fn a_holder_whose_lease_runs_out_is_as_one_that_ended() {
    let mut c = coordinator(2, CoordinatorLimits::default());
    c.set_rules(&topic("d0/p0"), to_zero()).unwrap();
    let anna: std::sync::Arc<str> = "anna".into();
    let slot = |end: i64| SlotRequest {
        device: "d0".into(),
        start: Timestamp::from_millis(0).to_string(),
        end: Timestamp::from_millis(end).to_string(),
    };
    let request = NewSchedule {
        requester: Some("anna".into()),
        task: Some("t".into()),
        priority: Some("LOW".into()),
        slots: vec![slot(600_000)],
        lease: Some(Duration::from_secs(1)),
    };
    assert!(c.request_schedule(at(0), &request, &anna).is_success());
    reserve(&mut c, at(0), "anna", "d1", 600_000);
    c.handle_batch(at(1), batch(1, "anna", false, vec![set("d0/p0", 6.0)])).unwrap();
    assert_eq!(accept(&mut c, at(1)), ["d0/p0 6"]);
    assert!(c.renew_schedule(at(900), &anna, "t").is_success());
    // One is out, one waits behind it.
    c.handle_batch(at(1_899), batch(2, "anna", false, vec![set("d0/p0", 7.0), set("d0/p0", 8.0)])).unwrap();
    let sent = send(&mut c, at(1_899));
    assert_eq!(sent.len(), 1);
    c.handle_timeout(at(1_900));
    assert_eq!(c.stats().leases_expired, 1);
    c.handle_outcome(at(1_901), sent[0].device, sent[0].command_id, Ok(()));
    assert_eq!(accept(&mut c, at(1_902)), ["d0/p0 0"]);
    assert!(answers(&mut c).contains(&"1 refused holder_gone".to_string()));
    assert!(c.has_holder("anna"));
    let phases: Vec<Phase> = core::iter::from_fn(|| c.poll_audit()).map(|record| record.phase).collect();
    assert!(phases.contains(&Phase::LeaseExpired), "{phases:?}");
}

#[test]
fn a_pattern_selects_devices_and_points_of_others() {
    let c = coordinator(2, CoordinatorLimits::default());
    let selected = |text: &str| {
        let mut found: Vec<String> = c.selected(&text.parse().unwrap()).iter().map(ToString::to_string).collect();
        found.sort();
        found
    };
    assert_eq!(selected("d0"), ["d0"]);
    assert_eq!(selected("d?/p1"), ["d0/p1", "d1/p1"]);
    assert_eq!(selected("d*"), ["d0", "d1"]);
    assert_eq!(selected("x*"), [""; 0]);
}

/// A device with its points by their numbers, all with these rules.
fn points_of(device: u32, numbers: &[(&str, u32, f64)], rules: &PointRules) -> DevicePoints {
    let point = |(name, number, max): &(&str, u32, f64)| ControlPoint {
        topic: topic(&format!("d0/{name}")),
        device: DeviceId(device),
        point: PointId(*number),
        accepts: Accepts::Float { min: 0.0, max: *max, scaling: Scaling::default() },
        modes: Modes { select: false, direct: true, preferred: CommandMode::DirectOperate },
        relinquishes: false,
    };
    let points = numbers.iter().map(|number| (point(number), rules.clone())).collect();
    DevicePoints { device: DeviceId(device), topic: topic("d0"), points }
}

fn changed(device: DevicePoints) -> PointChange {
    PointChange { changed: vec![device], ..PointChange::default() }
}

#[test]
fn what_is_held_and_what_waits_goes_on_by_topic_when_points_have_other_numbers() {
    let mut c = coordinator(1, CoordinatorLimits::default());
    c.set_rules(&topic("d0/p0"), to_zero()).unwrap();
    c.set_rules(&topic("d0/p1"), to_zero()).unwrap();
    reserve(&mut c, at(0), "anna", "d0", 1_000);
    c.handle_batch(at(1), batch(1, "anna", false, vec![set("d0/p0", 6.0)])).unwrap();
    assert_eq!(accept(&mut c, at(2)), ["d0/p0 6"]);
    c.handle_batch(at(3), batch(2, "anna", false, vec![set("d0/p1", 7.0), set("d0/p0", 8.0)])).unwrap();
    let out = send(&mut c, at(3));
    let swapped = points_of(0, &[("p0", 1, 100.0), ("p1", 0, 100.0)], &to_zero());
    c.replace_points(at(4), changed(swapped)).unwrap();
    // What is out ends; what waited goes to its point.
    c.handle_outcome(at(5), DeviceId(0), out[0].command_id, Ok(()));
    assert_eq!(accept(&mut c, at(5)), ["d0/p1 8"]);
    assert_eq!(answers(&mut c), ["0 accepted", "done 1", "0 accepted", "1 accepted", "done 2"]);
    assert_eq!(accept(&mut c, at(999)), [""; 0]);
    let mut reverts = accept(&mut c, at(1_000));
    reverts.sort();
    assert_eq!(reverts, ["d0/p0 0", "d0/p1 0"]);
    assert_eq!(accept(&mut c, at(90_000)), [""; 0]);
    assert_eq!((c.stats().holds, c.stats().reverted, c.stats().holds_lost), (0, 2, 0));
}

#[test]
fn a_command_that_waits_for_a_point_that_has_changed_or_gone_is_not_sent() {
    let mut c = coordinator(1, CoordinatorLimits::default());
    c.set_rules(&topic("d0/p1"), to_zero()).unwrap();
    reserve(&mut c, at(0), "anna", "d0", 60_000);
    c.handle_batch(at(1), batch(1, "anna", false, vec![set("d0/p1", 1.0)])).unwrap();
    assert_eq!(accept(&mut c, at(1)), ["d0/p1 1"]);
    let all = vec![set("d0/p1", 2.0), set("d0/p0", 50.0), set("d0/p1", 3.0), set("d0/p0", 60.0)];
    c.handle_batch(at(2), batch(2, "anna", false, all)).unwrap();
    let out = send(&mut c, at(2));
    assert_eq!(answers(&mut c), ["0 accepted", "done 1"]);
    while c.poll_entry().is_some() {}
    let one = points_of(0, &[("p0", 1, 40.0)], &PointRules::default());
    c.replace_points(at(3), changed(one)).unwrap();
    // The hold is written off, and what is out touches no other point that has its number.
    assert_eq!(c.poll_entry(), Some(Entry::Released { topic: topic("d0/p1") }));
    assert_eq!((c.stats().holds, c.stats().holds_lost), (0, 1));
    let ended = ["1 refused point_changed", "2 refused away", "3 refused point_changed"];
    assert_eq!(answers(&mut c), ended);
    c.handle_batch(at(4), batch(3, "anna", false, vec![set("d0/p0", 41.0), set("d0/p0", 40.0), set("d0/p1", 1.0)]))
        .unwrap();
    assert_eq!(answers(&mut c), ["0 refused out_of_range", "2 refused not_writable"]);
    c.handle_outcome(at(5), DeviceId(0), out[0].command_id, Ok(()));
    assert_eq!(accept(&mut c, at(5)), ["d0/p1 40"]);
    assert_eq!(answers(&mut c), ["0 accepted", "done 2", "1 accepted", "done 3"]);
    assert_eq!(c.stats().holds, 0);
}

#[test]
fn a_point_obeys_the_rules_of_its_new_configuration() {
    let mut c = coordinator(1, CoordinatorLimits::default());
    c.handle_batch(at(1), batch(1, "anna", false, vec![set("d0/p0", 1.0), set("d0/p1", 50.0)])).unwrap();
    let first = send(&mut c, at(1));
    let interlock = Interlock { topic: topic("site/safe"), comparison: Comparison::Equal, value: Value::Bool(true) };
    let rules = PointRules { interlocks: vec![interlock], ..PointRules::default() };
    let wrong = PointRules { step_max: Some(-1.0), ..PointRules::default() };
    let both = [("p0", 0, 100.0), ("p1", 1, 100.0)];
    let error = c.replace_points(at(2), changed(points_of(0, &both, &wrong))).unwrap_err();
    assert!(matches!(error, PointError::Rules { .. }), "{error}");
    c.replace_points(at(2), changed(points_of(0, &both, &rules))).unwrap();
    assert_eq!(c.unread().map(Topic::as_str).filter(|topic| *topic == "site/safe").count(), 1);
    c.handle_outcome(at(3), DeviceId(0), first[0].command_id, Ok(()));
    assert_eq!(accept(&mut c, at(3)), [""; 0]);
    assert_eq!(answers(&mut c), ["0 accepted", "1 refused interlock", "done 1"]);
    let safe = Point { value: Value::Bool(true), quality: Quality::GOOD, time: Timestamp::default() };
    c.handle_reading(at(4), &topic("site/safe"), &safe);
    c.handle_batch(at(4), batch(2, "anna", false, vec![set("d0/p1", 50.0)])).unwrap();
    assert_eq!(accept(&mut c, at(4)), ["d0/p1 50"]);
    c.forget_reading("site/safe");
    c.handle_batch(at(5), batch(3, "anna", false, vec![set("d0/p1", 51.0)])).unwrap();
    assert_eq!(accept(&mut c, at(5)), [""; 0]);
}

#[test]
fn a_device_of_another_number_keeps_what_its_topic_is_held_for() {
    let mut c = coordinator(1, CoordinatorLimits::default());
    c.set_rules(&topic("d0/p0"), to_zero()).unwrap();
    reserve(&mut c, at(0), "anna", "d0", 10_000);
    c.handle_batch(at(1), batch(1, "anna", false, vec![set("d0/p0", 6.0)])).unwrap();
    assert_eq!(accept(&mut c, at(1)), ["d0/p0 6"]);
    c.handle_batch(at(2), batch(2, "anna", false, vec![set("d0/p0", 7.0), set("d0/p0", 8.0)])).unwrap();
    assert_eq!(send(&mut c, at(2)).len(), 1);
    let removed = [DeviceId(0)].into_iter().collect();
    let moved = points_of(7, &[("p0", 3, 100.0)], &to_zero());
    c.replace_points(at(3), PointChange { removed, changed: vec![moved] }).unwrap();
    assert_eq!(answers(&mut c), ["0 accepted", "done 1", "0 unknown reconfigured", "1 refused away", "done 2"]);
    assert_eq!((c.stats().holds, c.stats().jobs), (1, 0));
    c.handle_link(at(4), DeviceId(7), true);
    c.handle_batch(at(5), batch(3, "bert", false, vec![set("d0/p0", 1.0)])).unwrap();
    assert_eq!(answers(&mut c), ["0 refused reserved", "done 3"]);
    assert_eq!(accept(&mut c, at(9_999)), [""; 0]);
    assert_eq!(accept(&mut c, at(10_000)), ["d7/p3 0"]);
    let gone = PointChange { removed: [DeviceId(7)].into_iter().collect(), ..PointChange::default() };
    c.replace_points(at(10_001), gone).unwrap();
    assert_eq!((c.stats().control.points, c.stats().holds), (0, 0));
}

fn tag(topic_name: &str, kind: TagKind) -> NewTag {
    NewTag { topic: topic(topic_name), kind, why: "fuse".into(), owner: "anna".into(), who: "http anna".into() }
}

/// A hold lets its owner command, nobody commands where it says do not operate, and a note forbids nothing.
#[test]
fn a_tag_forbids_commands_of_what_it_is_on() {
    let all = |kind, place: &str| {
        let mut c = coordinator(2, CoordinatorLimits::default());
        c.place_tag(at(0), &tag(place, kind)).unwrap();
        let would = |who: &str, name: &str| {
            let found = c.dry_run(at(1), &batch(1, who, false, vec![set(name, 1.0)]));
            found[0].as_ref().map_or_else(|refusal| refusal.reason, |_| "sent")
        };
        [would("anna", "d0/p0"), would("bert", "d0/p0"), would("bert", "d0/p1"), would("bert", "d1/p0")]
    };
    let (sent, no) = ("sent", "tagged");
    assert_eq!(all(TagKind::Hold, "d0"), [sent, no, no, sent]);
    assert_eq!(all(TagKind::Hold, "d0/p0"), [sent, no, sent, sent]);
    assert_eq!(all(TagKind::DoNotOperate, "d0"), [no, no, no, sent]);
    assert_eq!(all(TagKind::DoNotOperate, "d0/p1"), [sent, sent, no, sent]);
    assert_eq!(all(TagKind::DoNotOperate, "d"), [sent; 4]);
    assert_eq!(all(TagKind::Note, "d0"), [sent; 4]);
}

/// A revert that comes due waits for the tag, in spite of an override that would revert it; the tag outlives a restart.
#[test]
fn a_revert_waits_until_the_tag_is_lifted() {
    let mut c = coordinator(1, CoordinatorLimits::default());
    c.set_rules(&topic("d0/p0"), to_zero()).unwrap();
    reserve(&mut c, at(0), "bert", "d0", 1_000);
    c.handle_batch(at(1), batch(1, "bert", false, vec![set("d0/p0", 6.0), set("d0/p1", 7.0)])).unwrap();
    let out = send(&mut c, at(1));
    let placed = c.place_tag(at(2), &tag("d0", TagKind::DoNotOperate)).unwrap();
    assert_eq!((c.commands_out(&topic("d0")), c.commands_out(&topic("d")), placed.id), (1, 0, 1));
    c.handle_outcome(at(3), DeviceId(0), out[0].command_id, Ok(()));
    assert_eq!(accept(&mut c, at(3)), [""; 0]);
    let mut told = answers(&mut c);
    told.sort();
    assert_eq!(told, ["0 accepted", "1 refused tagged", "done 1"]);
    assert_eq!(accept(&mut c, at(5_000)), [""; 0]);
    let asked = NewOverride {
        pattern: "d0".parse().unwrap(),
        duration: Some(Duration::from_secs(1)),
        failsafe_revert: true,
        staggered_revert: false,
        who: "carl".into(),
    };
    c.set_override_on(at(6_000), &asked).unwrap();
    assert_eq!(accept(&mut c, at(6_000)), [""; 0]);
    let kept = c.snapshot();
    let mut c = coordinator(1, CoordinatorLimits::default());
    c.set_rules(&topic("d0/p0"), to_zero()).unwrap();
    c.restore(at(8_000), kept);
    assert_eq!((c.stats().tags, accept(&mut c, at(9_000))), (1, vec![]));
    assert_eq!(c.lift_tag(at(9_000), 7, &"anna".into()).unwrap_err().reason, "unknown_tag");
    assert_eq!(c.lift_tag(at(9_000), 1, &"anna".into()).unwrap(), placed);
    assert_eq!(accept(&mut c, at(9_001)), ["d0/p0 0"]);
    // Its number is not used again, after a restart neither.
    let kept = c.snapshot();
    let mut c = coordinator(1, CoordinatorLimits { tags_max: 1, ..CoordinatorLimits::default() });
    c.restore(at(9_002), kept);
    assert_eq!(c.place_tag(at(9_003), &tag("d0", TagKind::Note)).unwrap().id, 2);
    assert_eq!(c.place_tag(at(9_003), &tag("d0", TagKind::Note)).unwrap_err().reason, "queue_full");
    c.put_tag_back(at(9_004), placed, &"node".into());
    assert_eq!(c.tags().of("d0/p1").map(|tag| tag.id).collect::<Vec<_>>(), [2, 1]);
    let phases: Vec<Phase> = core::iter::from_fn(|| c.poll_audit()).map(|record| record.phase).collect();
    assert_eq!(phases, [Phase::TagPlaced; 2]);
}
