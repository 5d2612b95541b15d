//! Polls in parts, devices that are silent, heartbeats, and what is told of a device's health.

use super::*;

/// A poller and devices that answer after a while, in virtual time.
pub(super) struct World {
    pub(super) poller: Poller,
    /// Milliseconds.
    pub(super) now: u64,
    pub(super) answers: BTreeMap<u64, Vec<(DeviceId, PollClass, u16, PollResult)>>,
    /// When what was asked for.
    pub(super) asked: Vec<(u64, DeviceId, PollClass, u16)>,
    pub(super) rounds: Vec<u64>,
    pub(super) beats: Vec<(u64, Value)>,
    pub(super) answer_ms: u64,
    pub(super) result: PollResult,
}

impl World {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            poller: Poller::new(limits),
            now: 0,
            answers: BTreeMap::new(),
            asked: Vec::new(),
            rounds: Vec::new(),
            beats: Vec::new(),
            answer_ms: 20,
            result: PollResult::Ok,
        }
    }

    pub(super) fn one(collection: Collection, every_ms: &[u64]) -> Self {
        let mut world = Self::new(Limits::default());
        world.add(0, DeviceSpec { collection, ..spec("d", every_ms) });
        world.link(0, LinkState::Online);
        world
    }

    pub(super) fn add(&mut self, id: u32, spec: DeviceSpec) {
        self.poller.add_device(at(self.now), DeviceId(id), spec).unwrap();
    }

    pub(super) fn link(&mut self, id: u32, link: LinkState) {
        self.poller.handle_link(at(self.now), DeviceId(id), link);
    }

    /// Runs until a moment, and lets what is due then happen.
    pub(super) fn run(&mut self, until: u64) {
        loop {
            self.turn();
            let timeout = self.poller.timeout().map(|at| at.0.div_ceil(1_000_000));
            let next = timeout.into_iter().chain(self.answers.keys().next().copied()).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.now = next.max(self.now);
        }
        self.now = until;
    }

    fn turn(&mut self) {
        let now = self.now;
        for (device, class, part, result) in self.answers.remove(&now).unwrap_or_default() {
            if self.poller.handle_poll_done(at(now), device, class, part, result) {
                self.rounds.push(now);
            }
        }
        self.poller.handle_timeout(at(now));
        while let Some((device, class, part)) = self.poller.poll_request(at(now)) {
            self.asked.push((now, device, class, part));
            self.answers.entry(now + self.answer_ms).or_default().push((device, class, part, self.result));
        }
        while let Some(event) = self.poller.poll_event() {
            if let PollEvent::Heartbeat { value, .. } = event {
                self.beats.push((now, value));
            }
        }
        while self.poller.poll_update().is_some() {}
    }

    /// The most requests that fell into any time of this length, and the mean.
    pub(super) fn peak(&self, from: u64, until: u64, window: u64) -> (usize, f64) {
        let times: Vec<_> = self.asked.iter().map(|asked| asked.0).filter(|ms| (from..until).contains(ms)).collect();
        let within = |(at, start): (usize, &u64)| times[at..].iter().take_while(|ms| **ms < start + window).count();
        let peak = times.iter().enumerate().map(within).max().unwrap_or(0);
        (peak, times.len() as f64 * window as f64 / (until - from) as f64)
    }

    pub(super) fn times(&self) -> Vec<u64> {
        self.asked.iter().map(|asked| asked.0).collect()
    }

    pub(super) fn health(&self) -> DeviceHealth {
        self.poller.health(D).unwrap()
    }
}

/// The bar: 9,000 points of one controller, 20 ms a request, four at a time, every 15 minutes.
#[test]
fn the_points_of_one_controller_are_spread_over_the_interval() {
    for parts in [9_000, 360, 90] {
        let every = 900_000;
        let mut world = World::one(Collection { in_flight_max: 4, ..Collection::POLLED }, &[every]);
        world.poller.set_parts(at(0), D, CLASS, parts);
        world.run(every);
        // The first round goes four at a time.
        let first: Vec<_> = world.asked.iter().take(usize::from(parts)).map(|asked| (asked.3, asked.0)).collect();
        let each: std::collections::BTreeSet<_> = first.iter().map(|(part, _)| *part).collect();
        assert_eq!(each.len(), usize::from(parts));
        let took = u64::from(parts.div_ceil(4)) * 20;
        assert!((took..took + 20).contains(&world.rounds[0]), "{parts}: {}", world.rounds[0]);
        // What follows is even, in any ten seconds.
        let from = world.rounds[0] + 1;
        world.run(4 * every);
        let (peak, mean) = world.peak(from, 4 * every, 10_000);
        assert!(peak as f64 <= 1.2 * mean.max(1.0), "{parts} parts: {peak} in 10 s, {mean} on average");
        let health = world.health();
        assert_eq!((health.counts.rounds, health.counts.polls_skipped), (4, 0), "{parts}");
        // Each part once an interval.
        let in_interval = world.asked.iter().filter(|asked| (2 * every..3 * every).contains(&asked.0));
        assert_eq!(in_interval.count(), usize::from(parts));
    }
}

#[test]
fn devices_of_a_group_are_spread_over_the_interval() {
    let mut world = World::new(Limits::default());
    world.answer_ms = 5;
    for group in 0..10 {
        let spec = GroupSpec { kind: GroupKind::Gateway, in_flight_max: 4, gap_min: Duration::ZERO };
        world.poller.set_group(at(0), GroupId(group), spec).unwrap();
    }
    // Every tenth device is behind one gateway.
    for id in 0..1_000 {
        let collection = Collection { gateway: Some(GroupId(id % 10)), ..Collection::POLLED };
        world.add(id, DeviceSpec { collection, ..spec(&format!("d/{id}"), &[60_000, 60_000]) });
        world.link(id, LinkState::Online);
        world.poller.set_parts(at(0), DeviceId(id), PollClass(1), 5);
    }
    world.run(240_000);
    let (peak, mean) = world.peak(60_000, 240_000, 1_000);
    assert!((mean - 100.0).abs() < 1.0 && peak <= 120, "{peak} in 1 s, {mean} on average");
    world.asked.retain(|asked| asked.1.0 % 10 == 3);
    let (peak, mean) = world.peak(60_000, 240_000, 10_000);
    assert!((mean - 100.0).abs() < 1.0 && peak <= 120, "{peak} in 10 s of a group, {mean} on average");
}

#[test]
fn parts_that_are_learned_belong_to_the_round() {
    let mut world = World::one(Collection::POLLED, &[60_000]);
    world.run(10);
    assert_eq!(world.asked, [(0, D, CLASS, 0)]);
    // While the first is out, its driver learns that it takes three.
    world.poller.set_parts(at(10), D, CLASS, 3);
    world.run(100);
    assert_eq!(world.asked, [(0, D, CLASS, 0), (20, D, CLASS, 1), (40, D, CLASS, 2)]);
    assert_eq!(world.rounds, [60]);
    world.run(60_000);
    assert_eq!(world.times()[3..], [20_000, 40_000, 60_000]);
    // Fewer, of which one is out.
    world.poller.set_parts(at(60_000), D, CLASS, 1);
    world.run(121_000);
    assert_eq!(world.asked[6..], [(120_000, D, CLASS, 0)]);
}

#[test]
fn a_silent_device_is_tried_rarely_until_it_answers() {
    let collection = Collection { back_off_max: Some(Duration::from_secs(60)), ..Collection::POLLED };
    let mut world = World::one(Collection { in_flight_max: 2, ..collection }, &[1_000]);
    world.run(5_500);
    world.result = PollResult::Timeout;
    world.run(8_000);
    let from = world.asked.len();
    world.run(1_000_000);
    let times = &world.times()[from..];
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // 2 s, 4 s, 8 s and so on up to a minute, each within a half.
    for (gap, expect) in
        gaps.iter().zip([4_000u64, 8_000, 16_000, 32_000].into_iter().chain(core::iter::repeat(60_000)))
    {
        assert!((expect / 2..=expect * 3 / 2 + 100).contains(gap), "{gaps:?}");
    }
    assert!((18..26).contains(&times.len()), "{times:?}");
    let health = world.health();
    assert_eq!(health.back_off, Some(Duration::from_secs(60)));
    assert!(health.next_poll.unwrap().millis() > 1_000_000);
    assert_eq!(health.last_error.unwrap().1, "no answer in time");
    // The first answer restores the plan.
    world.result = PollResult::Ok;
    world.run(1_090_000);
    let from = world.asked.len();
    world.run(1_100_000);
    assert_eq!(world.asked.len() - from, 10);
    assert_eq!(world.health().back_off, None);
}

#[test]
fn one_timeout_or_a_refusal_leaves_the_plan() {
    let mut world = World::one(Collection::POLLED, &[1_000]);
    for second in 1..20 {
        world.result = if second % 2 == 1 { PollResult::Ok } else { PollResult::Timeout };
        world.run(second * 1_000 + 500);
    }
    world.result = PollResult::Error;
    world.run(40_000);
    assert_eq!(world.asked.len(), 41);
}

#[test]
fn devices_that_come_back_together_are_not_asked_all_at_once() {
    let mut world = World::new(Limits::default());
    for id in 0..10_000 {
        world.add(id, DeviceSpec { collection: Collection::POLLED, ..spec(&format!("d/{id}"), &[900_000]) });
        world.poller.set_parts(at(0), DeviceId(id), CLASS, 3);
        world.link(id, LinkState::Online);
    }
    world.run(60_000);
    for (cut, back) in [(100_000, 200_000), (200_050, 200_100)] {
        world.run(cut);
        (0..10_000).for_each(|id| world.link(id, LinkState::Away { why: "cut".into() }));
        world.run(back);
        (0..10_000).for_each(|id| world.link(id, LinkState::Online));
    }
    let from = world.asked.len();
    world.run(300_000);
    // Steady polls are 33 a second.
    let (peak, _) = world.peak(200_100, 300_000, 1_000);
    assert!((1_000..1_100).contains(&peak), "{peak} in 1 s");
    let (peak, _) = world.peak(200_100, 300_000, 10);
    assert!(peak <= 25, "{peak} in 10 ms");
    // 30,000 at 1,000 a second, and each device's first round is whole.
    let first: std::collections::BTreeSet<_> =
        world.asked[from..].iter().filter(|asked| asked.0 < 231_000).map(|asked| (asked.1, asked.3)).collect();
    assert_eq!(first.len(), 30_000);
}

#[test]
fn missed_polls_are_left_out_or_made_up_for_once() {
    let check = |missed, expect: &[u64]| {
        let mut world = World::one(Collection { missed, ..Collection::REPORTED }, &[1_000]);
        world.answer_ms = 1_700;
        world.run(2_900);
        world.link(0, LinkState::Away { why: "cut".into() });
        world.answers.clear();
        world.run(6_500);
        world.link(0, LinkState::Online);
        world.answer_ms = 10;
        world.run(8_000);
        // An attempt within an interval misses none.
        world.run(8_100);
        world.link(0, LinkState::Away { why: "cut".into() });
        world.run(8_200);
        world.link(0, LinkState::Online);
        world.run(9_000);
        assert_eq!(world.times(), expect, "{missed:?}");
    };
    check(Missed::Skip, &[1_000, 7_000, 8_000, 9_000]);
    check(Missed::Once, &[1_000, 2_700, 6_500, 7_000, 8_000, 9_000]);
}

#[test]
fn points_of_a_class_that_is_missed_are_stale() {
    let point = |name, class| PointSpec { class: Some(PollClass(class)), ..PointSpec::new(name) };
    let table = vec![point("fast", 0), point("slow", 1), PointSpec::new("reported")];
    let table = PointTable::new(table).unwrap();
    let mut poller = one(DeviceSpec { table, collection: Collection::POLLED, ..spec("d", &[1_000, 10_000]) });
    poller.handle_link(at(0), D, LinkState::Online);
    for (ms, point) in [(0, 0), (0, 1), (0, 2), (2_000, 0)] {
        poller.handle_reading(at(ms), D, read(point, 1));
    }
    points(&mut poller);
    // Two failures in a row mark nothing: other parts may be well.
    for ms in [3_000, 4_000] {
        poller.handle_poll_done(at(ms), D, CLASS, 0, PollResult::Error);
    }
    let mut told = Vec::new();
    for ms in (2_000..60_000).step_by(100) {
        poller.handle_timeout(at(ms));
        told.extend(points(&mut poller).into_iter().map(|line| (ms, line)));
    }
    let expect = [(5_500, "d/fast Int(1) stale 2000".to_string()), (35_000, "d/slow Int(1) stale 0".to_string())];
    assert_eq!(told, expect);
}

#[test]
fn heartbeats_are_written_while_the_device_is_online() {
    let check = |value, expect: &[(u64, Value)]| {
        let heartbeat = Some(Heartbeat { point: PointId(1), every: Duration::from_secs(1), value });
        let mut world = World::one(Collection { heartbeat, ..Collection::REPORTED }, &[]);
        world.run(2_500);
        world.link(0, LinkState::Away { why: "cut".into() });
        world.run(4_500);
        world.link(0, LinkState::Online);
        world.run(5_500);
        // Nobody asks for a while: one waits.
        for ms in [6_000, 7_000, 8_000] {
            world.poller.handle_timeout(at(ms));
        }
        world.now = 8_200;
        world.run(8_500);
        assert_eq!(world.beats, expect);
    };
    let toggle = [(1_000, true), (2_000, false), (5_000, true), (8_200, false)].map(|(ms, b)| (ms, Value::Bool(b)));
    check(HeartbeatValue::Toggle, &toggle);
    let count = [(1_000, 0), (2_000, 1), (5_000, 2), (8_200, 0)].map(|(ms, i)| (ms, Value::Int(i)));
    check(HeartbeatValue::Count { max: 2 }, &count);
}

#[test]
fn health_says_what_failed_and_what_is_next() {
    let mut world = World::one(Collection::POLLED, &[10_000]);
    world.run(10_500);
    world.poller.handle_error(at(10_500), D, &"exception 2: illegal data address ".repeat(20));
    world.poller.handle_poll_done(at(10_500), D, CLASS, 0, PollResult::Error);
    let health = world.health();
    let (time, text) = health.last_error.clone().unwrap();
    assert_eq!((time.millis(), text.len()), (10_500, 256));
    let mut json = String::new();
    health.write_json(&mut json);
    let expect = r#""rounds":3,"readings":0,"#;
    assert!(json.contains(expect), "{json}");
    let expect = r#","next_poll":"1970-01-01T00:00:20.000Z","back_off_ms":null,"last_error":{"t":"1970-01-01T00:00:10.500Z","text":"exception 2: "#;
    assert!(json.contains(expect), "{json}");
    assert!(json.ends_with(r#""},"poll_ms":{"32":2}}"#), "{json}");
    // Without words of its own, an error has some.
    world.poller.handle_poll_done(at(10_600), D, CLASS, 0, PollResult::Error);
    assert_eq!(world.health().last_error.unwrap().1, "refused or broken off");
    world.link(0, LinkState::Away { why: "cut".into() });
    assert_eq!(world.health().next_poll, None);
}

#[test]
fn health_says_what_each_connection_is_used_for() {
    let mut world = World::one(Collection::POLLED, &[10_000]);
    let connection =
        |address: &str, state, why: &str| ConnectionHealth { address: address.into(), state, why: why.into() };
    let connections = [connection("a:1", "started", ""), connection("b:1", "away", "closed by the \"peer\"")];
    world.poller.handle_connections(at(20), D, connections.into());
    let mut json = String::new();
    world.health().write_json(&mut json);
    let expect = r#","connections":[{"address":"a:1","state":"started","why":""},{"address":"b:1","state":"away","why":"closed by the \"peer\""}]}"#;
    assert!(json.ends_with(expect), "{json}");
}

#[test]
fn wrong_collections_are_refused() {
    let mut poller = Poller::new(Limits { groups_max: 2, ..Limits::default() });
    let group = |kind, in_flight_max| GroupSpec { kind, in_flight_max, gap_min: Duration::ZERO };
    let mut set = |id, spec| poller.set_group(at(0), GroupId(id), spec).map_err(|error| error.to_string());
    assert_eq!(set(1, group(GroupKind::Gateway, 1)), Ok(()));
    assert_eq!(set(2, group(GroupKind::Network, 1)), Ok(()));
    assert_eq!(set(2, group(GroupKind::Network, 2)), Ok(()));
    assert_eq!(set(1, group(GroupKind::Network, 2)).unwrap_err(), "the group 1 is a gateway, expected a network");
    assert_eq!(set(3, group(GroupKind::Network, 2)).unwrap_err(), "2 groups are here, which is the limit");
    assert_eq!(
        set(1, group(GroupKind::Gateway, 0)).unwrap_err(),
        "the group 1 allows 0 outstanding polls, expected at least 1"
    );
    let mut check = |collection, expect: &str| {
        let added = poller.add_device(at(0), D, DeviceSpec { collection, ..spec("d", &[1_000]) });
        assert_eq!(added.unwrap_err().to_string(), expect);
    };
    let polled = Collection::POLLED;
    check(Collection { in_flight_max: 0, ..polled }, "0 outstanding polls of a device, expected from 1 to 64");
    check(
        Collection { stale_after_missed: Some(0), ..polled },
        "points that are stale after 0 missed polls, expected at least 1",
    );
    check(Collection { gateway: Some(GroupId(7)), ..polled }, "the group 7 is not here, expected one that was set");
    check(Collection { gateway: Some(GroupId(2)), ..polled }, "the group 2 is a network, expected a gateway");
    let beat = |point, every| Heartbeat { point, every, value: HeartbeatValue::Toggle };
    let (second, soon) = (Duration::from_secs(1), Duration::from_millis(1));
    check(
        Collection { heartbeat: Some(beat(PointId(2), second)), ..polled },
        "a heartbeat to the point number 2, expected one of the table",
    );
    check(
        Collection { heartbeat: Some(beat(PointId(1), soon)), ..polled },
        "a poll every 1ms, expected at least 10ms between two",
    );
    let mut twice = spec("d", &[1_000, 1_000]);
    twice.polls[1].class = CLASS;
    assert_eq!(poller.add_device(at(0), D, twice), Err(SpecError::ClassTwice { class: CLASS }));
}

/// On a grid, devices are asked at its moments, whatever else is looked at between them, and as often.
#[test]
fn what_falls_due_between_moments_of_the_grid_is_done_together() {
    let run = |grid: u64, looks_between: bool| {
        let mut world = World::new(Limits { grid: Duration::from_millis(grid), ..Limits::default() });
        for device in 0..100 {
            world.add(device, DeviceSpec { collection: Collection::POLLED, ..spec(&format!("d{device}"), &[1000]) });
            world.link(device, LinkState::Online);
        }
        world.run(2000);
        let first = world.asked.len();
        for ms in 2001..=7000 {
            world.run(if looks_between { ms } else { ms.next_multiple_of(7) });
        }
        world.asked.split_off(first)
    };
    let (exact, plain, looked_at) = (run(0, false), run(5, false), run(5, true));
    assert_eq!(plain, looked_at);
    assert_eq!((plain.len(), exact.len()), (500, 500));
    let moments = |asked: &[(u64, DeviceId, PollClass, u16)]| {
        asked.iter().map(|asked| asked.0).collect::<std::collections::BTreeSet<u64>>()
    };
    assert!(moments(&plain).iter().all(|ms| ms % 5 == 0) && moments(&exact).iter().any(|ms| ms % 5 != 0));
}
