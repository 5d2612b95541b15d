use super::{curve, device, device_of, float, read, seconds, specs};
use crate::{CommandError, Curve, Kind, PointSpec};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;
use tieline_core::{PointId, Value};

#[test]
fn curves_have_their_values_at_their_times() {
    let check = |text: &str, expect: &[(u64, f64)]| {
        let mut device = device(&[("a", text), ("two", "linear(2 1)")], Vec::new());
        for (at, value) in expect {
            device.handle_time(seconds(*at));
            let found = float(&device, 0);
            assert!((found - value).abs() < 1e-6, "{text} at {at}: {found}, expected {value}");
        }
    };
    check("", &[(0, 0.0), (9, 0.0)]);
    check("ramp(10 20 10s)", &[(0, 10.0), (1, 11.0), (9, 19.0), (10, 10.0)]);
    check("triangle(0, 4, 8s)", &[(0, 0.0), (2, 2.0), (4, 4.0), (6, 2.0), (8, 0.0)]);
    check("sine(20;5;24h)", &[(0, 20.0), (6 * 3600, 25.0), (18 * 3600, 15.0)]);
    check("sine(20 5 24h 6h)", &[(0, 15.0), (6 * 3600, 20.0), (12 * 3600, 25.0)]);
    check("square(1 7 10s)", &[(0, 7.0), (4, 7.0), (5, 1.0), (9, 1.0), (10, 7.0)]);
    check("toggle(10s 0.2)", &[(0, 1.0), (1, 1.0), (2, 0.0), (11, 1.0)]);
    check("day(0 24)", &[(0, 0.0), (6 * 3600, 12.0), (12 * 3600, 24.0), (18 * 3600, 12.0), (86_400, 0.0)]);
    check("steps(table.csv)", &[(0, 1.0), (9, 1.0), (10, 2.0), (60, 3.5), (9999, 3.5)]);
    check("steps(table.csv 2m)", &[(0, 1.0), (60, 3.5), (119, 3.5), (120, 1.0), (130, 2.0)]);
    check("sum(two)", &[(0, 0.0), (1800, 1.0), (3600, 2.0)]);
    check("sum(3 1s)", &[(5, 15.0)]);
    check("linear(two 3 -1)", &[(0, 5.0), (4, 5.0)]);
    check("product(two two)", &[(3, 4.0)]);
    check("when(two 5 6)", &[(0, 5.0), (3, 5.0)]);
    check("above(two 2)", &[(0, 0.0)]);
    check("above(two 1.5)", &[(0, 1.0)]);
}

#[test]
fn what_is_no_curve_is_refused_with_what_was_expected() {
    let check = |text: &str, found: &str, expected: &str| {
        let error = Curve::parse(text, &mut read).unwrap_err();
        assert!(error.found == found && error.expected.contains(expected), "{text}: {error}");
    };
    check("sin(1 2 3s)", "\"sin(1 2 3s)\"", "ramp, triangle");
    check("sine", "\"sine\"", "ramp, triangle");
    check("", "\"\"", "ramp, triangle");
    check("sine(20 x 24h)", "\"x\" in \"sine(20 x 24h)\"", "amplitude, a number");
    check("sine(20 5 24)", "\"24\" in \"sine(20 5 24)\"", "period, a duration");
    check("sine(20 5 0s)", "\"0s\" in \"sine(20 5 0s)\"", "period, a duration");
    check("sine(20 5)", "nothing more in \"sine(20 5)\"", "period");
    check("sine(20 5 1h 2h 3h)", "\"3h\" in \"sine(20 5 1h 2h 3h)\"", "nothing more");
    check("square(0 1 1h 2)", "2 in \"square(0 1 1h 2)\"", "a share from 0 to 1");
    check("walk(5 1 1)", "5 to 1 at 1 in \"walk(5 1 1)\"", "min below max");
    check("above(a 1 -1)", "-1 in \"above(a 1 -1)\"", "a band that is not below 0");
    check("steps(other.csv)", "\"other.csv\" (no such file) in \"steps(other.csv)\"", "a readable file");
    check("ramp(nan 1 1s)", "\"nan\" in \"ramp(nan 1 1s)\"", "from, a number");
    let table = |text: &str, found: &str| {
        let error = Curve::parse("steps(t)", &mut |_| Ok(text.to_owned())).unwrap_err();
        assert_eq!(error.found, format!("{found} of \"t\""), "{text}");
    };
    table("", "no rows");
    table("0s,1\n0s,2\n", "\"0s,2\" in line 2, which is not later");
    table("0s,1\nx,2\n", "\"x,2\" in line 2");
    table("0s;1\n", "\"0s;1\" in line 1");
}

#[test]
fn commands_set_values_and_what_values_follow() {
    let points =
        [("w setpoint", ""), ("w room", "follow(setpoint 100s)"), ("w valve", "lag(10s)"), ("meter", "sum(1)")];
    let mut device = device(&points, Vec::new());
    assert_eq!(device.handle_command(PointId(0), &Value::Float(10.0)), Ok(PointId(0)));
    assert_eq!((float(&device, 0), float(&device, 1)), (10.0, 0.0));
    device.handle_time(seconds(100));
    assert!((float(&device, 1) - 10.0 * (1.0 - (-1.0_f64).exp())).abs() < 0.1, "{}", float(&device, 1));
    // A command of a point that follows goes to what it follows.
    assert_eq!(device.handle_command(PointId(1), &Value::Int(-5)), Ok(PointId(0)));
    assert_eq!(float(&device, 0), -5.0);
    device.handle_time(seconds(2000));
    assert!((float(&device, 1) + 5.0).abs() < 1e-3);
    device.handle_command(PointId(2), &Value::Bool(true)).unwrap();
    assert_eq!(float(&device, 2), 0.0);
    device.handle_time(seconds(2010));
    assert!((float(&device, 2) - 0.632).abs() < 0.001);
    let refused = |device: &mut super::Device, point, value| device.handle_command(PointId(point), &value).unwrap_err();
    assert_eq!(refused(&mut device, 3, Value::Int(1)), CommandError::NotWritable);
    assert_eq!(refused(&mut device, 4, Value::Int(1)), CommandError::UnknownPoint);
    assert_eq!(refused(&mut device, 0, Value::Float(f64::NAN)), CommandError::NoNumber);
    assert_eq!(refused(&mut device, 0, Value::from("on")), CommandError::NoNumber);
}

#[test]
fn walks_and_noise_have_the_spread_that_was_asked_for() {
    let mut points = specs(&[("noisy", ""), ("walk", "walk(-1e6 1e6 2)"), ("narrow", "walk(0 1 5)")]);
    points[0].noise = 0.5;
    let mut device = device_of(points, Vec::new(), 7);
    let (mut noise, mut changes, mut before) = (Vec::new(), Vec::new(), float(&device, 1));
    for second in 1..=20_000 {
        device.handle_time(seconds(second));
        noise.push(float(&device, 0));
        changes.push(float(&device, 1) - before);
        before = float(&device, 1);
        assert!((0.0..=1.0).contains(&float(&device, 2)));
    }
    let deviation = |values: &[f64]| {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt()
    };
    assert!((deviation(&noise) - 0.5).abs() < 0.02, "{}", deviation(&noise));
    assert!((deviation(&changes) - 2.0).abs() < 0.06, "{}", deviation(&changes));
}

#[test]
fn a_start_value_is_where_a_curve_with_memory_begins() {
    let start = |text: &str, start: Option<f64>| {
        let spec = PointSpec { start, curve: curve(text), ..PointSpec::new("a", Kind::Float) };
        float(&device_of([spec].into(), Vec::new(), 1), 0)
    };
    assert_eq!(start("", Some(3.0)), 3.0);
    assert_eq!(start("lag(1m)", Some(3.0)), 3.0);
    assert_eq!(start("walk(0 10 1)", None), 5.0);
    assert_eq!(start("walk(0 10 1)", Some(2.0)), 2.0);
    assert_eq!(start("sum(5)", Some(100.0)), 100.0);
    assert_eq!(start("follow(7 1h)", None), 7.0);
    assert_eq!(start("follow(7 1h)", Some(1.0)), 1.0);
}
