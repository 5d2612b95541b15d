use super::{device, device_of, float, seconds, specs};
use crate::{Conduct, Effect, Fault, FaultKind, Seed, When};
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{PointId, Quality, Value};

fn once(kind: FaultKind, first: u64, lasts: u64) -> Fault {
    Fault { kind, when: When::At { first: seconds(first), every: None }, lasts: seconds(lasts), points: [].into() }
}

#[test]
fn a_device_treats_requests_as_its_faults_say() {
    let repeated = Fault {
        when: When::At { first: seconds(100), every: Some(seconds(60)) },
        ..once(FaultKind::Slow(seconds(3)), 0, 10)
    };
    let faults =
        [once(FaultKind::NoAnswer, 10, 5), once(FaultKind::Refuse, 20, 5), once(FaultKind::NoAnswer, 24, 5), repeated];
    let device = device(&[("a", "")], faults.into());
    let check = |at: u64, expect: Conduct| assert_eq!(device.conduct(seconds(at)), expect, "{at}");
    let fine = Conduct::Answers { late_by: Duration::ZERO };
    let late = Conduct::Answers { late_by: seconds(3) };
    for at in [0, 9, 15, 19, 29, 99, 110, 159, 170] {
        check(at, fine);
    }
    for at in [10, 14, 24, 28] {
        check(at, Conduct::Silent);
    }
    check(20, Conduct::Refuses);
    for at in [100, 109, 160, 169, 220] {
        check(at, late);
    }
    let faults = [
        once(FaultKind::Refuse, 0, 9),
        once(FaultKind::Garbage, 1, 5),
        once(FaultKind::NoAnswer, 2, 3),
        once(FaultKind::Restart, 3, 1),
    ];
    let worse = super::device(&[("a", "")], faults.into());
    let conducts = [0, 1, 2, 3, 4, 5, 6].map(|at| worse.conduct(seconds(at)));
    let (silent, garbles) = (Conduct::Silent, Conduct::Garbles);
    assert_eq!(conducts, [Conduct::Refuses, garbles, silent, Conduct::Off, silent, garbles, Conduct::Refuses]);
    let kinds: Vec<Effect> = device.active(seconds(24)).map(|fault| fault.kind.effect()).collect();
    assert_eq!(kinds, [Effect::Refuse, Effect::NoAnswer]);
}

#[test]
fn faults_of_points_change_what_is_shown_and_nothing_else() {
    let only_a = |fault: Fault| Fault { points: [PointId(0)].into(), ..fault };
    let faults = [
        once(FaultKind::Stuck, 10, 10),
        only_a(once(FaultKind::Spike(500.0), 30, 1)),
        only_a(once(FaultKind::Drift(3600.0), 40, 10)),
        only_a(once(FaultKind::Bad(Quality::COMM_LOST), 60, 5)),
    ];
    let mut device = device(&[("a", "ramp(0 1000 1000s)"), ("b", "linear(a 1)")], faults.into());
    let mut check = |at: u64, expect: (f64, f64), quality: Quality| {
        device.handle_time(seconds(at));
        let (a, b) = (float(&device, 0), float(&device, 1));
        assert!((a - expect.0).abs() < 1e-6 && (b - expect.1).abs() < 1e-6, "{at}: {a} {b}, expected {expect:?}");
        assert_eq!(device.reading(PointId(0)).unwrap().quality, quality, "{at}");
    };
    check(5, (5.0, 5.0), Quality::GOOD);
    check(15, (9.0, 9.0), Quality::GOOD);
    check(19, (9.0, 9.0), Quality::GOOD);
    check(20, (20.0, 20.0), Quality::GOOD);
    check(30, (530.0, 30.0), Quality::GOOD);
    check(31, (31.0, 31.0), Quality::GOOD);
    check(45, (50.0, 45.0), Quality::GOOD);
    check(50, (50.0, 50.0), Quality::GOOD);
    check(62, (62.0, 62.0), Quality::COMM_LOST);
    check(65, (65.0, 65.0), Quality::GOOD);
}

#[test]
fn a_stuck_point_takes_a_command_and_does_not_show_it() {
    let mut device = device(&[("w a", "")], [once(FaultKind::Stuck, 5, 5)].into());
    device.handle_time(seconds(6));
    device.handle_command(PointId(0), &Value::Int(3)).unwrap();
    assert_eq!(float(&device, 0), 0.0);
    device.handle_time(seconds(10));
    assert_eq!(float(&device, 0), 3.0);
}

#[test]
fn a_restart_is_said_once_and_loses_what_was_commanded_and_counted() {
    let mut points = specs(&[("w setpoint", ""), ("energy", "sum(3600 1h)")]);
    points[0].start = Some(20.0);
    let mut device = device_of(points, [once(FaultKind::Restart, 100, 10)].into(), 1);
    device.handle_command(PointId(0), &Value::Int(25)).unwrap();
    device.handle_time(seconds(99));
    assert_eq!((float(&device, 0), float(&device, 1)), (25.0, 99.0));
    device.handle_time(seconds(105));
    assert_eq!((device.conduct(seconds(105)), device.poll_restarted()), (Conduct::Off, false));
    device.handle_time(seconds(110));
    assert_eq!((float(&device, 0), float(&device, 1)), (20.0, 0.0));
    assert_eq!((device.poll_restarted(), device.poll_restarted()), (true, false));
    device.handle_time(seconds(120));
    assert_eq!(float(&device, 1), 10.0);
}

#[test]
fn random_faults_are_as_frequent_and_as_long_as_they_should_be() {
    let fault = Fault {
        kind: FaultKind::NoAnswer,
        when: When::Random { per_hour: 4.0 },
        lasts: seconds(30),
        points: [].into(),
    };
    let (mut begun, mut lasted, mut was) = (0_u32, 0_u32, false);
    for second in 0..3600 * 500 {
        let is = fault.since(Seed::of(3, "x"), seconds(second)).is_some();
        begun += u32::from(is && !was);
        lasted += u32::from(is);
        was = is;
    }
    // 4 an hour in 500 hours; some touch each other.
    assert!((1_750..2_100).contains(&begun), "{begun}");
    assert!((55_000..65_000).contains(&lasted), "{lasted}");
}
