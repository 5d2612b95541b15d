//! Devices that get another spec, and devices that go.

use super::collection::World;
use super::*;

fn topics(gone: &[Topic]) -> Vec<String> {
    gone.iter().map(ToString::to_string).collect()
}

/// Runs 10,000 devices for ten minutes; `reload` gives each of them an equal spec three times, while polls are out.
fn ten_thousand(reload: bool) -> (World, usize) {
    let spec = |id: u32| {
        let collection = Collection { network: Some(GroupId(id % 7)), ..Collection::POLLED };
        DeviceSpec { collection, ..spec(&format!("d/{id}"), &[60_000]) }
    };
    let mut world = World::new(Limits::default());
    for id in 0..7 {
        let group = GroupSpec { kind: GroupKind::Network, in_flight_max: 500, gap_min: Duration::from_millis(1) };
        world.poller.set_group(at(0), GroupId(id), group).unwrap();
    }
    for id in 0..10_000 {
        world.add(id, spec(id));
        world.link(id, LinkState::Online);
        world.poller.handle_reading(at(0), DeviceId(id), read(0, 230));
    }
    let mut extra = 0;
    for ms in [5_003, 123_456, 200_001] {
        world.run(ms);
        if reload {
            for id in 0..10_000 {
                assert_eq!(world.poller.replace_device(at(ms), DeviceId(id), spec(id)), Ok(Vec::new()));
            }
            extra += core::iter::from_fn(|| world.poller.poll_update()).count();
        }
    }
    world.run(300_000);
    (world, extra)
}

#[test]
fn a_table_of_ten_thousand_is_reloaded_without_a_trace() {
    let (plain, _) = ten_thousand(false);
    let (reloaded, extra) = ten_thousand(true);
    assert_eq!(extra, 0);
    assert_eq!(plain.poller.stats(), reloaded.poller.stats());
    assert!(plain.asked.len() > 40_000);
    assert!(plain.asked == reloaded.asked, "the schedule changed");
}

#[test]
fn only_what_changed_is_published() {
    let publish = Publish { all_every: Duration::ZERO, ..Publish::default() };
    let first = DeviceSpec { collection: Collection::POLLED, publish, ..spec("d", &[1_000, 60_000]) };
    let mut poller = one(first.clone());
    poller.handle_link(at(0), D, LinkState::Online);
    while let Some((_, class, part)) = poller.poll_request(at(0)) {
        poller.handle_poll_done(at(0), D, class, part, PollResult::Ok);
    }
    poller.handle_timeout(at(5));
    poller.handle_reading(at(5), D, read(0, 2_300));
    poller.handle_reading(at(5), D, read(1, false));
    poller.handle_timeout(at(2_000));
    drain(&mut poller);

    // Another place, another scale, a new point of a class, and none of the old names but one.
    let volts = PointSpec { scale: 0.1, ..PointSpec::new("volts") };
    let amps = PointSpec { class: Some(PollClass(1)), ..PointSpec::new("amps") };
    let table = PointTable::new(vec![amps, volts.clone()]).unwrap();
    let next = DeviceSpec { table, ..first };
    let due = poller.health(D).unwrap().next_poll;
    let gone = poller.replace_device(at(2_500), D, next.clone()).unwrap();
    assert_eq!(topics(&gone), ["d/breaker/open"]);
    let told = drain(&mut poller);
    assert_eq!(told[0], "d/amps Null initial 2500");
    assert!(told[1].starts_with(r#"d/all {"amps":{"v":null"#) && told[1].contains(r#""volts":{"v":230"#), "{told:?}");
    assert_eq!(told.len(), 2);
    assert_eq!(poller.health(D).unwrap().next_poll, due);
    assert_eq!(poller.stats().points, 2);
    // The new point is read at once, with its class alone.
    let mut asked = Vec::new();
    for ms in 2_500..2_600 {
        poller.handle_timeout(at(ms));
        asked.extend(poller.poll_request(at(ms)));
        if let Some((_, class, part)) = asked.last() {
            poller.handle_poll_done(at(ms), D, *class, *part, PollResult::Ok);
        }
    }
    assert_eq!(asked, [(D, CLASS, 0), (D, PollClass(1), 0)]);

    // The same name with another meaning.
    let table = PointTable::new(vec![PointSpec::new("amps"), PointSpec { source: 1, ..volts }]).unwrap();
    let again = DeviceSpec { table, publish: Publish { all: false, ..Publish::default() }, ..next };
    let gone = poller.replace_device(at(3_000), D, again.clone()).unwrap();
    assert_eq!(topics(&gone), ["d/all"]);
    assert_eq!(drain(&mut poller), ["d/volts Null initial 3000"]);

    // Another topic: all values move.
    poller.handle_reading(at(3_100), D, read(1, 4));
    let moved = DeviceSpec { topic: Topic::new("e").unwrap(), ..again };
    let gone = poller.replace_device(at(4_000), D, moved).unwrap();
    let all = ["d/amps", "d/volts", "$SYS/devices/d/state", "$SYS/devices/d/stats"];
    assert_eq!(topics(&gone), all);
    let told = drain(&mut poller);
    let expect = ["e/amps Null initial 2500", "e/volts Float(0.4)  3100", "$SYS/devices/e/state Text(\"online\")  0"];
    assert_eq!(told, expect);
    assert_eq!(topics(&poller.remove_device(at(5_000), D).unwrap())[..2], ["e/amps", "e/volts"]);
    assert_eq!((poller.remove_device(at(5_000), D), poller.stats().points), (None, 0));
    assert_eq!(poller.replace_device(at(5_000), D, spec("d", &[])), Err(SpecError::DeviceUnknown { device: D }));
}

#[test]
fn a_topic_of_all_points_that_is_gone_is_not_published_again() {
    // What had changed waits for its interval, or to be taken.
    for (all_every, taken) in [(Duration::from_secs(5), true), (Duration::ZERO, false)] {
        let first = DeviceSpec { publish: Publish { all_every, ..Publish::default() }, ..spec("d", &[1_000]) };
        let mut poller = one(first.clone());
        poller.handle_link(at(0), D, LinkState::Online);
        for ms in [5, 10] {
            poller.handle_reading(at(ms), D, read(0, 2_300 + i64::try_from(ms).unwrap()));
            poller.handle_batch_end(at(ms), D);
            if taken {
                drain(&mut poller);
            }
        }
        let publish = Publish { all: false, ..first.publish };
        assert_eq!(topics(&poller.replace_device(at(20), D, DeviceSpec { publish, ..first }).unwrap()), ["d/all"]);
        let told = drain(&mut poller);
        poller.handle_timeout(at(20_000));
        let told: Vec<_> =
            told.into_iter().chain(drain(&mut poller)).filter(|line| line.starts_with("d/all")).collect();
        assert_eq!(told, Vec::<String>::new(), "{all_every:?}");
    }
}

#[test]
fn a_removed_device_says_nothing_more() {
    let heartbeat = Heartbeat { point: PointId(0), every: Duration::from_secs(1), value: HeartbeatValue::Toggle };
    let collection = Collection { heartbeat: Some(heartbeat), ..Collection::POLLED };
    let mut poller = one(DeviceSpec { collection, ..spec("d", &[1_000]) });
    poller.handle_link(at(0), D, LinkState::Online);
    poller.handle_reading(at(0), D, read(0, 1));
    poller.handle_timeout(at(5_000));
    poller.remove_device(at(5_000), D).unwrap();
    poller.handle_timeout(at(9_000));
    assert_eq!((poller.poll_update(), poller.poll_request(at(9_000))), (None, None));
    while let Some(event) = poller.poll_event() {
        assert!(matches!(event, PollEvent::State { .. }), "{event:?}");
    }
    // Another device of that number starts from the beginning.
    poller.add_device(at(9_000), D, spec("d", &[])).unwrap();
    assert_eq!(drain(&mut poller).len(), 4);
}

#[test]
fn a_silent_device_is_asked_by_its_new_plan() {
    let check = |collection, every: &[u64], expect| {
        let mut world = World::one(Collection::POLLED, &[1_000]);
        world.result = PollResult::Timeout;
        world.run(100_500);
        assert!(world.health().back_off.is_some());
        let gone = world.poller.replace_device(at(100_500), D, DeviceSpec { collection, ..spec("d", every) });
        assert_eq!(gone, Ok(Vec::new()));
        let before = world.asked.len();
        world.run(110_500);
        assert_eq!(world.asked.len() - before, expect, "{every:?}");
    };
    check(Collection { back_off_max: None, ..Collection::POLLED }, &[1_000], 10);
    check(Collection::POLLED, &[], 0);
    // Two polls, then at most three attempts.
    let mut world = World::one(Collection::POLLED, &[1_000]);
    world.result = PollResult::Timeout;
    world.run(100_500);
    let (before, next) = (world.asked.len(), world.health().next_poll);
    let same = DeviceSpec { collection: Collection::POLLED, ..spec("d", &[1_000]) };
    assert_eq!(world.poller.replace_device(at(100_500), D, same), Ok(Vec::new()));
    assert_eq!((world.asked.len(), world.health().next_poll), (before, next));
    let other = DeviceSpec { collection: Collection::POLLED, ..spec("d", &[1_000, 5_000]) };
    assert_eq!(world.poller.replace_device(at(100_500), D, other), Ok(Vec::new()));
    assert_eq!(world.health().back_off, None);
    world.run(110_500);
    assert!((3..=5).contains(&(world.asked.len() - before)), "{:?}", &world.times()[before..]);
}
