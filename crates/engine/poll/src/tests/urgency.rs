//! Who goes before whom.

use super::*;

/// Devices p, m and b of each urgency, with their start behind them.
fn three(limits: Limits) -> Poller {
    let mut poller = Poller::new(limits);
    for (id, (topic, urgency)) in (1..).zip(["b", "m", "p"].into_iter().zip(Urgency::ALL.into_iter().rev())) {
        let publish = Publish { all: false, ..Publish::default() };
        poller.add_device(at(0), DeviceId(id), DeviceSpec { urgency, publish, ..spec(topic, &[]) }).unwrap();
        poller.handle_link(at(0), DeviceId(id), LinkState::Online);
    }
    while poller.poll_update().is_some() {}
    poller
}

fn next(poller: &mut Poller) -> Option<String> {
    poller.poll_update().map(|update| update.topic.to_string())
}

#[test]
fn the_more_urgent_device_is_published_first() {
    let mut poller = three(Limits::default());
    for (ms, device) in [(1, 1), (2, 1), (3, 2), (4, 3)] {
        poller.handle_reading(at(ms), DeviceId(device), read(0, 10));
    }
    assert_eq!(next(&mut poller).as_deref(), Some("p/volts"));
    assert_eq!(next(&mut poller).as_deref(), Some("m/volts"));
    assert_eq!(next(&mut poller).as_deref(), Some("b/volts"));
    // It overtakes what has waited longer, and devices of one urgency keep their order.
    poller.handle_reading(at(5), DeviceId(3), read(0, 11));
    assert_eq!(poller.poll_update_of(Urgency::Monitoring), None);
    assert_eq!(next(&mut poller).as_deref(), Some("p/volts"));
    assert_eq!(next(&mut poller).as_deref(), Some("b/volts"));
    assert_eq!(next(&mut poller), None);
}

#[test]
fn a_flood_of_one_urgency_leaves_others_their_room() {
    let mut poller = three(Limits { updates_max: 2, ..Limits::default() });
    for ms in 1..100 {
        poller.handle_reading(at(ms), DeviceId(1), read(0, i64::try_from(ms).unwrap()));
    }
    assert!(poller.stats().conflated > 0);
    let conflated = poller.stats().conflated;
    poller.handle_reading(at(100), DeviceId(3), read(0, 1));
    poller.handle_reading(at(101), DeviceId(3), read(0, 2));
    assert_eq!(poller.stats().conflated, conflated);
    let both = [next(&mut poller), next(&mut poller)];
    assert_eq!(both, [Some("p/volts".to_string()), Some("p/volts".to_string())]);
}

#[test]
fn a_device_that_is_away_is_told_in_its_place() {
    let mut poller = three(Limits::default());
    for device in 1..=3 {
        poller.handle_reading(at(1), DeviceId(device), read(0, 10));
        poller.handle_link(at(2), DeviceId(device), LinkState::Away { why: "cut".into() });
    }
    let told: Vec<_> = core::iter::from_fn(|| next(&mut poller)).filter(|topic| !topic.starts_with('$')).collect();
    let each = |device: &str| [format!("{device}/volts"), format!("{device}/volts"), format!("{device}/breaker/open")];
    assert_eq!(told.iter().filter(|topic| topic.starts_with('p')).count(), 3, "{told:?}");
    assert_eq!(told, ["p", "m", "b"].map(each).concat());
}
