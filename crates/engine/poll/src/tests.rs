//! Devices that answer, stay away, babble and restart, in virtual time.

extern crate std;
use crate::*;
use alloc::sync::Arc;
use core::time::Duration;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};
use tieline_core::{Body, DeviceId, Instant, Now, PointId, Quality, Reading, Timestamp, Topic, Update, Value};

mod collection;
mod fairness;
mod replace;
mod urgency;

const CLASS: PollClass = PollClass(0);
const D: DeviceId = DeviceId(0);

fn at(millis: u64) -> Now {
    Now { mono: Instant(millis * 1_000_000), utc: Timestamp::from_millis(i64::try_from(millis).unwrap()) }
}

fn table() -> Arc<PointTable> {
    let volts = PointSpec { scale: 0.1, ..PointSpec::new("volts") };
    PointTable::new(vec![volts, PointSpec { invert: true, ..PointSpec::new("breaker/open") }]).unwrap()
}

fn spec(topic: &str, every_ms: &[u64]) -> DeviceSpec {
    let poll = |(class, every)| PollSpec { class: PollClass(class), every: Duration::from_millis(every) };
    DeviceSpec {
        topic: Topic::new(topic).unwrap(),
        table: table(),
        polls: (0u8..).zip(every_ms.iter().copied()).map(poll).collect(),
        gap_min: Duration::ZERO,
        slow_after: None,
        stale_after: None,
        publish: Publish::default(),
        urgency: Urgency::default(),
        collection: Collection::REPORTED,
    }
}

fn one(spec: DeviceSpec) -> Poller {
    let mut poller = Poller::new(Limits::default());
    poller.add_device(at(0), D, spec).unwrap();
    poller
}

fn show(update: &Update) -> String {
    let body = match &update.body {
        Body::Point(point) => {
            let why: Vec<_> = point.quality.reasons().collect();
            format!("{:?} {} {}", point.value, why.join("+"), point.time.millis())
        }
        other => String::from_utf8(other.to_payload().to_vec()).unwrap(),
    };
    format!("{} {body}", update.topic)
}

/// All updates but statistics, in order.
fn drain(poller: &mut Poller) -> Vec<String> {
    let mut out = Vec::new();
    while let Some(update) = poller.poll_update() {
        if !update.topic.ends_with("/stats") {
            out.push(show(&update));
        }
    }
    out
}

fn points(poller: &mut Poller) -> Vec<String> {
    drain(poller).into_iter().filter(|line| line.starts_with("d/") && !line.starts_with("d/all")).collect()
}

fn read(point: u32, value: impl Into<Value>) -> Reading {
    Reading { point: PointId(point), value: value.into(), quality: Quality::GOOD, time: None, event: false }
}

#[test]
fn every_topic_exists_at_once() {
    let mut poller = one(spec("d", &[]));
    let all = r#"{"volts":{"v":null,"q":"bad","why":["initial"],"t":"1970-01-01T00:00:00.000Z"},"#.to_string()
        + r#""breaker/open":{"v":null,"q":"bad","why":["initial"],"t":"1970-01-01T00:00:00.000Z"}}"#;
    let expect = [
        "d/volts Null initial 0".to_string(),
        "d/breaker/open Null initial 0".to_string(),
        format!("d/all {all}"),
        "$SYS/devices/d/state Text(\"connecting\")  0".to_string(),
    ];
    assert_eq!(drain(&mut poller), expect);
}

#[test]
fn values_are_scaled_in_their_type() {
    let check = |kind, scale, offset, invert, raw: Value, expect: Value| {
        let spec = PointSpec { kind, scale, offset, invert, ..PointSpec::new("p") };
        assert_eq!(spec.scaled(raw.clone()), expect, "{spec:?} {raw:?}");
    };
    let max = Value::Int(i64::MAX);
    check(Kind::AsRead, 1.0, 0.0, false, max.clone(), max.clone());
    check(Kind::AsRead, 2.0, 0.5, false, Value::Int(3), Value::Float(6.5));
    check(Kind::AsRead, 2.0, 0.5, false, Value::Float(1.0), Value::Float(2.5));
    check(Kind::AsRead, 2.0, 0.5, true, Value::Bool(true), Value::Bool(false));
    check(Kind::AsRead, 2.0, 0.5, true, Value::from("text"), Value::from("text"));
    check(Kind::Int, 0.1, 0.0, false, Value::Int(25), Value::Int(3));
    check(Kind::Int, 0.1, 0.0, false, Value::Int(-25), Value::Int(-3));
    check(Kind::Int, 0.1, 0.0, false, Value::Int(-24), Value::Int(-2));
    check(Kind::Int, 1e30, 0.0, false, max, Value::Float(i64::MAX as f64 * 1e30));
    check(Kind::Float, 1.0, 0.0, false, Value::Int(2), Value::Float(2.0));
    check(Kind::Bool, 1.0, 0.0, false, Value::Int(2), Value::Bool(true));
    check(Kind::Bool, 1.0, 0.0, true, Value::Int(0), Value::Bool(true));
}

/// A batch is its readings and its end, but for deadlines that the end takes away again.
#[test]
fn a_batch_brings_what_its_readings_bring_and_wakes_nobody_before_the_next_poll() {
    let online = || {
        let mut poller = one(spec("d", &[10_000]));
        poller.handle_link(at(0), D, LinkState::Online);
        poller.handle_timeout(at(1000));
        drain(&mut poller);
        poller
    };
    let (mut batch, mut single) = (online(), online());
    let due = batch.timeout();
    for millis in [1600, 2700, 3600] {
        let readings = [read(0, 2300 + millis), read(1, true), read(7, 0)];
        let now = at(u64::try_from(millis).unwrap());
        readings.clone().into_iter().for_each(|reading| single.handle_reading(now, D, reading));
        single.handle_batch_end(now, D);
        batch.handle_batch(now, D, readings);
        let updates = drain(&mut batch);
        assert_eq!((updates.len(), updates), (3, drain(&mut single)), "{millis}");
        assert_eq!(batch.health(D), single.health(D));
    }
    assert_eq!((batch.timeout(), batch.stats().timers), (due, 1));
    assert!(single.stats().timers > 1);
    batch.handle_batch(at(4000), DeviceId(9), []);
    assert_eq!(batch.stats().unknown_device, 1);
}

#[test]
fn a_lost_device_marks_its_points_once_until_each_is_read() {
    let mut poller = one(spec("d", &[]));
    poller.handle_link(at(0), D, LinkState::Online);
    poller.handle_reading(at(5), D, read(0, 2300));
    poller.handle_reading(at(6), D, Reading { time: Some(Timestamp::from_millis(4)), ..read(1, true) });
    drain(&mut poller);
    let away = || LinkState::Away { why: "connection refused".into() };
    poller.handle_link(at(100), D, away());
    assert_eq!(points(&mut poller), ["d/volts Float(230.0) away 5", "d/breaker/open Bool(false) away 4"]);
    poller.handle_link(at(200), D, LinkState::Connecting);
    let health = poller.health(D).unwrap();
    assert_eq!((health.state, &*health.why, health.since.millis()), (DeviceState::Away, "connection refused", 100));
    poller.handle_link(at(300), D, away());
    poller.handle_link(at(400), D, LinkState::Online);
    assert_eq!(points(&mut poller), [""; 0]);
    poller.handle_reading(at(500), D, read(0, 2310));
    assert_eq!(points(&mut poller), ["d/volts Float(231.0)  500"]);
    let health = poller.health(D).unwrap();
    assert_eq!((health.state, health.counts.connects, health.counts.losses), (DeviceState::Online, 2, 1));
    assert_eq!(health.since, Timestamp::from_millis(400));
}

#[test]
fn silence_garbage_failures_and_restarts_are_marked() {
    let check = |stale_after, act: &dyn Fn(&mut Poller), expect: &[&str], state: DeviceState| {
        let mut poller = one(DeviceSpec { stale_after, ..spec("d", &[]) });
        poller.handle_link(at(0), D, LinkState::Online);
        poller.handle_reading(at(5), D, read(0, 10));
        points(&mut poller);
        act(&mut poller);
        assert_eq!(points(&mut poller), expect);
        assert_eq!(poller.health(D).unwrap().state, state);
    };
    let none: &[&str] = &[];
    let stale: &[&str] = &["d/volts Float(1.0) stale 5"];
    let second = Some(Duration::from_secs(1));
    check(second, &|p| p.handle_timeout(at(1004)), none, DeviceState::Online);
    check(second, &|p| p.handle_timeout(at(1005)), stale, DeviceState::Online);
    let failed = |count| {
        move |p: &mut Poller| {
            for _ in 0..count {
                p.handle_poll_done(at(10), D, CLASS, 0, PollResult::Timeout);
            }
        }
    };
    check(None, &failed(1), none, DeviceState::Slow);
    check(None, &failed(5), stale, DeviceState::Slow);
    let garbage = |count| move |p: &mut Poller| (0..count).for_each(|_| p.handle_garbage(at(10), D));
    check(None, &garbage(2), none, DeviceState::Garbage);
    check(None, &garbage(5), stale, DeviceState::Garbage);
    let calm = |p: &mut Poller| {
        p.handle_garbage(at(10), D);
        p.handle_timeout(at(10_010));
    };
    check(None, &calm, none, DeviceState::Online);
    let restart: &[&str] = &["d/volts Float(1.0) restart 5"];
    check(None, &|p| p.handle_restart(at(10), D), restart, DeviceState::Restarting);
    let read_again = |p: &mut Poller| {
        p.handle_restart(at(10), D);
        p.handle_batch_end(at(10), D);
        p.handle_reading(at(11), D, read(0, 20));
        p.handle_batch_end(at(11), D);
    };
    check(None, &read_again, &["d/volts Float(2.0)  11"], DeviceState::Online);
}

#[test]
fn all_points_are_published_together_at_most_every_second() {
    let mut poller = one(DeviceSpec { publish: Publish { each: false, ..Publish::default() }, ..spec("d", &[]) });
    let mut times = Vec::new();
    poller.handle_link(at(0), D, LinkState::Online);
    drain(&mut poller);
    for ms in 1..5_000 {
        if (2_000..2_100).contains(&ms) || ms == 3_500 {
            poller.handle_reading(at(ms), D, read(0, i64::try_from(ms).unwrap()));
            if ms != 3_500 {
                poller.handle_batch_end(at(ms), D);
            }
        }
        poller.handle_timeout(at(ms));
        times.extend(drain(&mut poller).iter().filter(|line| line.starts_with("d/all")).map(|_| ms));
    }
    // The batch at once; the rest of the burst a second later; a reading without an end of batch within a second.
    assert_eq!(times, [2_000, 3_000, 4_500]);
}

#[test]
fn all_points_of_a_poll_go_out_at_once_however_late_another_poll_was() {
    let mut poller = one(spec("d", &[]));
    poller.handle_link(at(0), D, LinkState::Online);
    drain(&mut poller);
    // A poll each second, one of them 400 ms late.
    for second in 1..20_u64 {
        let ms = second * 1000 + if second == 3 { 400 } else { 0 };
        poller.handle_timeout(at(ms));
        poller.handle_reading(at(ms), D, read(0, i64::try_from(second).unwrap()));
        poller.handle_batch_end(at(ms), D);
        let shown = drain(&mut poller).iter().filter(|line| line.starts_with("d/all")).count();
        // What is left over of the first moment may still be out.
        assert!(second < 2 || shown == 1, "{second}");
    }
}

#[test]
fn unknown_points_are_counted_and_the_first_named() {
    let mut poller = one(spec("d", &[]));
    for point in 0..20 {
        poller.handle_reading(at(1), D, read(point + 2, 1));
    }
    let mut named = Vec::new();
    while let Some(event) = poller.poll_event() {
        if let PollEvent::UnknownPoint { point, .. } = event {
            named.push(point.0);
        }
    }
    assert_eq!(named, (2..10).collect::<Vec<_>>());
    assert_eq!(poller.health(D).unwrap().counts.unknown_readings, 18 + 2);
}

#[test]
fn a_full_queue_keeps_the_latest_state() {
    let mut poller = Poller::new(Limits { updates_max: 2, ..Limits::default() });
    poller.add_device(at(0), D, spec("d", &[])).unwrap();
    drain(&mut poller);
    for ms in 1..=10 {
        poller.handle_reading(at(ms), D, Reading { event: true, ..read(1, ms % 2 == 0) });
    }
    let expect = ["d/breaker/open Bool(true)  1", "d/breaker/open Bool(false)  2", "d/breaker/open Bool(false)  10"];
    assert_eq!(points(&mut poller), expect);
    assert_eq!(poller.stats().conflated, 7);
}

#[test]
fn unchanged_states_may_be_left_out_but_never_events() {
    let mut poller = one(DeviceSpec { publish: Publish { unchanged: false, ..Publish::default() }, ..spec("d", &[]) });
    points(&mut poller);
    poller.handle_reading(at(1), D, read(0, 10));
    poller.handle_reading(at(2), D, read(0, 10));
    poller.handle_reading(at(3), D, Reading { event: true, ..read(0, 10) });
    poller.handle_reading(at(4), D, Reading { quality: Quality::OFFLINE, ..read(0, 10) });
    let expect = ["d/volts Float(1.0)  1", "d/volts Float(1.0)  3", "d/volts Float(1.0) offline 4"];
    assert_eq!(points(&mut poller), expect);
}

#[test]
fn state_and_statistics_are_published_at_a_pace() {
    let mut poller = one(spec("d", &[]));
    let mut states = Vec::new();
    let mut stats = Vec::new();
    for ms in 0..30_000 {
        poller.handle_timeout(at(ms));
        let link = if ms % 20 == 0 { LinkState::Online } else { LinkState::Connecting };
        poller.handle_link(at(ms), D, if ms < 1_500 { link } else { LinkState::Online });
        poller.handle_reading(at(ms), D, read(0, 1));
        while let Some(update) = poller.poll_update() {
            if update.topic.ends_with("/stats") {
                stats.push(ms);
            } else if update.topic.ends_with("/state") {
                states.push((ms, show(&update).contains("online")));
            }
        }
    }
    assert_eq!(states, [(0, true), (1_000, true), (2_000, true)]);
    assert_eq!(stats, [0, 1_000, 2_000, 12_000, 22_000]);
}

/// Asks 1,000 devices for five minutes and returns how many polls fell into each tenth of a second.
fn polls_per_tenth(answer_ms: u64) -> (Vec<u32>, Stats, u64) {
    let mut poller = Poller::new(Limits::default());
    for id in 0..1_000 {
        poller.add_device(at(0), DeviceId(id), spec(&format!("d/{id}"), &[10_000])).unwrap();
        poller.handle_link(at(0), DeviceId(id), LinkState::Online);
    }
    let mut tenths = vec![0; 3_000];
    let mut answers: BTreeMap<u64, Vec<DeviceId>> = BTreeMap::new();
    for ms in (0..300_000).step_by(5) {
        for device in answers.remove(&ms).unwrap_or_default() {
            poller.handle_poll_done(at(ms), device, CLASS, 0, PollResult::Ok);
        }
        poller.handle_timeout(at(ms));
        while let Some((device, ..)) = poller.poll_request(at(ms)) {
            tenths[usize::try_from(ms / 100).unwrap()] += 1;
            answers.entry(ms + answer_ms).or_default().push(device);
        }
        while poller.poll_update().is_some() {}
    }
    let skipped = (0..1_000).map(|id| poller.health(DeviceId(id)).unwrap().counts.polls_skipped).sum();
    (tenths, poller.stats(), skipped)
}

#[test]
fn polls_are_spread_evenly_and_do_not_drift() {
    let (tenths, stats, skipped) = polls_per_tenth(50);
    // 1,000 polls in 10 s: ten in a tenth of a second.
    assert!(tenths.iter().all(|count| (6..=14).contains(count)), "{:?}", tenths.iter().max());
    let sum: u32 = tenths.iter().sum();
    assert!((29_990..=30_000).contains(&sum), "{sum}");
    assert_eq!(skipped, 0);
    assert!(stats.timers <= 2_064);
}

#[test]
fn a_device_that_answers_late_is_not_asked_twice() {
    let (tenths, _, skipped) = polls_per_tenth(15_000);
    let asked = u64::from(tenths.iter().sum::<u32>());
    // One is asked, the next is skipped while it is out.
    assert!((14_000..=15_500).contains(&asked), "{asked}");
    assert!((29_000..=30_000).contains(&(asked + skipped)), "{asked} {skipped}");
}

#[test]
fn another_class_waits_for_its_turn_and_the_gap() {
    let mut poller = one(DeviceSpec { gap_min: Duration::from_millis(30), ..spec("d", &[100, 100]) });
    poller.handle_link(at(0), D, LinkState::Online);
    let mut asked = Vec::new();
    let mut out: Option<(u64, PollClass, u16)> = None;
    for ms in 1..=250 {
        if let Some((_, class, part)) = out.take_if(|(end, ..)| *end == ms) {
            poller.handle_poll_done(at(ms), D, class, part, PollResult::Ok);
        }
        poller.handle_timeout(at(ms));
        while let Some((_, class, part)) = poller.poll_request(at(ms)) {
            asked.push((ms, class.0));
            out = Some((ms + 50, class, part));
        }
    }
    assert_eq!(asked, [(42, 1), (122, 0), (202, 1)]);
}

#[test]
fn a_poll_without_an_end_times_out() {
    let mut poller = one(spec("d", &[1_000]));
    poller.handle_link(at(0), D, LinkState::Online);
    poller.handle_timeout(at(1_000));
    assert_eq!(poller.poll_request(at(1_000)), Some((D, CLASS, 0)));
    poller.handle_timeout(at(120_999));
    assert_eq!(poller.poll_request(at(120_999)), None);
    poller.handle_timeout(at(121_000));
    assert_eq!(poller.poll_request(at(121_000)), None);
    poller.handle_timeout(at(122_000));
    assert_eq!(poller.poll_request(at(122_000)), Some((D, CLASS, 0)));
    assert_eq!(poller.health(D).unwrap().counts.timeouts, 1);
}

#[test]
fn a_lost_link_ends_the_poll_that_was_out() {
    let mut poller = one(spec("d", &[1_000]));
    poller.handle_link(at(0), D, LinkState::Online);
    poller.handle_timeout(at(1_000));
    assert_eq!(poller.poll_request(at(1_000)), Some((D, CLASS, 0)));
    poller.handle_link(at(1_500), D, LinkState::Away { why: "reset by peer".into() });
    poller.handle_timeout(at(2_000));
    poller.handle_link(at(2_500), D, LinkState::Online);
    assert_eq!(poller.poll_request(at(2_500)), None);
    poller.handle_timeout(at(3_000));
    assert_eq!(poller.poll_request(at(3_000)), Some((D, CLASS, 0)));
    assert_eq!(poller.health(D).unwrap().counts.polls_skipped, 0);
}

#[test]
fn wrong_specs_are_refused() {
    let check = |points: Vec<PointSpec>, expect: &str| {
        assert_eq!(PointTable::new(points).unwrap_err().to_string(), expect);
    };
    check(
        vec![PointSpec::new("a/#")],
        "the point name \"a/#\" cannot be used: a topic holds + or #, expected a name without wildcards",
    );
    check(vec![PointSpec::new("a"), PointSpec::new("a")], "the point name \"a\" is there twice, expected once");
    check(
        vec![PointSpec { scale: 0.0, ..PointSpec::new("a") }],
        "the point \"a\" has scale 0 and offset 0, expected finite numbers and a scale other than 0",
    );
    let mut poller = Poller::new(Limits { devices_max: 1, ..Limits::default() });
    let mut add = |id, every: &[u64]| poller.add_device(at(0), DeviceId(id), spec("d", every));
    assert_eq!(add(1, &[9]), Err(SpecError::TooOften { every: Duration::from_millis(9) }));
    assert_eq!(add(1, &[10; 17]), Err(SpecError::TooManyPolls { found: 17 }));
    assert_eq!(add(1, &[10]), Ok(()));
    assert_eq!(add(1, &[10]), Err(SpecError::DeviceTwice { device: DeviceId(1) }));
    assert_eq!(add(2, &[10]), Err(SpecError::DevicesFull { max: 1 }));
}

#[derive(Clone, Debug)]
enum Step {
    Link(u32, u8),
    Read(u32, u32, i64, bool),
    BatchEnd(u32),
    Done(u32, u8, u8),
    Garbage(u32),
    Restart(u32),
    Wait(u64),
    Drain(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    let id = 0u32..3;
    prop_oneof![
        2 => (id.clone(), 0u8..3).prop_map(|(id, link)| Step::Link(id, link)),
        6 => (id.clone(), 0u32..4, any::<i64>(), any::<bool>()).prop_map(|(id, p, v, e)| Step::Read(id, p, v, e)),
        2 => id.clone().prop_map(Step::BatchEnd),
        3 => (id.clone(), 0u8..2, 0u8..3).prop_map(|(id, class, result)| Step::Done(id, class, result)),
        1 => id.clone().prop_map(Step::Garbage),
        1 => id.prop_map(Step::Restart),
        6 => (0u64..3_000).prop_map(Step::Wait),
        4 => (0u8..10).prop_map(Step::Drain),
    ]
}

/// A poller beside what must be true of it.
struct Watched {
    poller: Poller,
    now: Now,
    out: [Option<PollClass>; 3],
    online: [bool; 3],
    seen: BTreeMap<Topic, (Value, Quality)>,
}

impl Watched {
    fn requests(&mut self) {
        while let Some((device, class, _)) = self.poller.poll_request(self.now) {
            let at = device.0 as usize;
            assert!(self.online[at], "asked while away");
            assert_eq!(self.out[at].replace(class), None, "asked while a poll is out");
        }
    }

    fn updates(&mut self, count: usize) {
        for _ in 0..count {
            let Some(update) = self.poller.poll_update() else { break };
            if let Body::Point(point) = update.body {
                self.seen.insert(update.topic, (point.value, point.quality));
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Link(id, link) => {
                let link = match link {
                    0 => LinkState::Connecting,
                    1 => LinkState::Online,
                    _ => LinkState::Away { why: "gone".into() },
                };
                self.online[id as usize] = link == LinkState::Online;
                if link != LinkState::Online {
                    self.out[id as usize] = None;
                }
                self.poller.handle_link(self.now, DeviceId(id), link);
            }
            Step::Read(id, point, value, event) => {
                self.poller.handle_reading(self.now, DeviceId(id), Reading { event, ..read(point, value) });
            }
            Step::BatchEnd(id) => self.poller.handle_batch_end(self.now, DeviceId(id)),
            Step::Done(id, class, result) => {
                let result = [PollResult::Ok, PollResult::Timeout, PollResult::Error][usize::from(result)];
                self.out[id as usize].take_if(|out| out.0 == class);
                self.poller.handle_poll_done(self.now, DeviceId(id), PollClass(class), 0, result);
            }
            Step::Garbage(id) => self.poller.handle_garbage(self.now, DeviceId(id)),
            Step::Restart(id) => self.poller.handle_restart(self.now, DeviceId(id)),
            Step::Wait(ms) => {
                self.now = self.now.later(Duration::from_millis(ms));
                self.poller.handle_timeout(self.now);
                assert!(self.poller.timeout().is_none_or(|at| at > self.now.mono), "a deadline did not move");
            }
            Step::Drain(count) => self.updates(usize::from(count)),
        }
        self.requests();
    }
}

proptest! {
    /// Whatever happens: one poll at a device, a deadline that passes moves on, queues within their limits, and once
    /// drained, an away device's points all say so and every published state is the last one.
    #[test]
    fn any_order_of_events_keeps_the_promises(
        steps in proptest::collection::vec(any_step(), 0..80),
        updates_max in 0usize..4,
        each_unchanged: bool,
    ) {
        let limits = Limits { updates_max, poll_lost_after: Duration::from_secs(1_000_000), ..Limits::default() };
        let mut poller = Poller::new(limits);
        let publish = Publish { unchanged: each_unchanged, ..Publish::default() };
        for id in 0..3 {
            let stale_after = (id == 0).then_some(Duration::from_secs(2));
            let spec = DeviceSpec { stale_after, publish, ..spec(&format!("d{id}"), &[500, 1_700]) };
            poller.add_device(at(0), DeviceId(id), spec).unwrap();
        }
        let mut watched = Watched { poller, now: at(0), out: [None; 3], online: [false; 3], seen: BTreeMap::new() };
        for step in steps {
            watched.step(step);
            prop_assert!(watched.poller.stats().updates_waiting <= updates_max);
        }
        // Away after all: each topic was seen, and its last state says away.
        for id in 0..3 {
            watched.step(Step::Link(id, 2));
        }
        watched.updates(10_000);
        let points = watched.seen.iter().filter(|(topic, _)| !topic.starts_with("$SYS"));
        prop_assert_eq!(points.clone().count(), 6);
        for (topic, (_, quality)) in points {
            prop_assert!(quality.contains(Quality::AWAY), "{} {:?}", topic, quality);
        }
    }
}

#[test]
fn the_past_of_a_point_leaves_its_state_as_it_is() {
    let mut poller = one(spec("d", &[1000]));
    poller.handle_link(at(0), D, LinkState::Online);
    poller.handle_reading(at(5), D, read(0, 2300));
    let before = points(&mut poller);
    let past = Reading { time: Some(Timestamp::from_millis(1)), ..read(0, 2000) };
    assert_eq!(show(&poller.past_update(D, past).unwrap()), "d/volts Float(200.0)  1");
    assert!(before.contains(&"d/volts Float(230.0)  5".to_string()), "{before:?}");
    assert!(points(&mut poller).is_empty());
    // Without a time it is none of the past.
    assert_eq!(poller.past_update(D, read(0, 2000)), None);
    assert_eq!(poller.past_update(D, Reading { time: Some(Timestamp::from_millis(1)), ..read(9, 1) }), None);
    let of_nobody = Reading { time: Some(Timestamp::from_millis(1)), ..read(0, 1) };
    assert_eq!(poller.past_update(DeviceId(7), of_nobody), None);
}
