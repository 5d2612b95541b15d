//! Tests of curves as text, of values over time, of faults.

mod curves;
mod faults;
mod properties;

use crate::{Course, Curve, Device, Fault, Kind, Model, ModelError, PointSpec, Seed};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{PointId, Value};

const TABLE: &str = "time,value\n# a comment\n0s,1\n10s,2\n1m,3.5\n";

fn read(file: &str) -> Result<String, String> {
    if file == "table.csv" { Ok(TABLE.to_owned()) } else { Err("no such file".to_owned()) }
}

fn curve(text: &str) -> Curve {
    if text.is_empty() { Curve::Held } else { Curve::parse(text, &mut read).unwrap() }
}

/// Points by name and curve; `w` in front makes one writable. All numbers start with nothing.
fn specs(points: &[(&str, &str)]) -> Vec<PointSpec> {
    let spec = |(name, text): &(&str, &str)| {
        let (writable, name) = name.strip_prefix("w ").map_or((false, *name), |name| (true, name));
        PointSpec { curve: curve(text), writable, ..PointSpec::new(name, Kind::Float) }
    };
    points.iter().map(spec).collect()
}

fn device(points: &[(&str, &str)], faults: Vec<Fault>) -> Device {
    device_of(specs(points), faults, 1)
}

fn device_of(points: Vec<PointSpec>, faults: Vec<Fault>, seed: u64) -> Device {
    let course = Course { seed: Seed::of(seed, "device"), ..Course::default() };
    Device::new(Arc::new(Model::new(points).unwrap()), faults.into(), course)
}

fn float(device: &Device, point: u32) -> f64 {
    device.reading(PointId(point)).unwrap().value.as_f64().unwrap()
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn points_that_make_no_model_are_named() {
    let check = |points: &[(&str, &str)], point: usize, expect: &str| {
        let error = Model::new(specs(points)).unwrap_err();
        assert_eq!((error.point(), format!("{error}")), (Some(point), expect.to_owned()), "{points:?}");
    };
    check(&[("a", ""), ("b", "follow(c 1s)")], 1, "a curve with \"c\", which is no point");
    check(&[("a", "linear(b 1)"), ("b", "linear(a 1)")], 0, "a curve that needs its own value");
    check(&[("a", "linear(a 1)")], 0, "a curve that needs its own value");
    check(&[("w a", "sine(0 1 1h)")], 0, "a writable point that a command cannot set");
    check(&[("w a", "follow(b 1s)"), ("b", "sum(a)")], 0, "a writable point that a command cannot set");
    let mut points = specs(&[("a", "linear(b 1)"), ("b", "")]);
    points[1].kind = Kind::Text("x".into());
    assert_eq!(Model::new(points), Err(ModelError::TextInCurve { point: 0, name: "b".into() }));
}

#[test]
fn a_loop_with_a_lag_in_it_is_a_thermostat() {
    let mut room = device(
        &[
            ("heating", "above(cold 0 1)"),
            ("cold", "linear(room -1 20)"),
            ("target", "when(heating 40 5)"),
            ("room", "follow(target 10m)"),
        ],
        Vec::new(),
    );
    let mut switched = 0;
    let mut before = float(&room, 0);
    for minute in 1..600 {
        room.handle_time(seconds(60 * minute));
        let heating = float(&room, 0);
        switched += u32::from(heating != before);
        before = heating;
        if minute > 60 {
            assert!((17.0..24.0).contains(&float(&room, 3)), "{minute}: {}", float(&room, 3));
        }
    }
    assert!(switched > 10, "{switched}");
}

#[test]
fn kinds_say_what_values_are() {
    let of = |kind: Kind, start: f64| {
        let device = device_of([PointSpec { start: Some(start), ..PointSpec::new("a", kind) }].into(), Vec::new(), 1);
        device.reading(PointId(0)).unwrap().value
    };
    assert_eq!(of(Kind::Bool, 1.0), Value::Bool(true));
    assert_eq!(of(Kind::Bool, 0.2), Value::Bool(false));
    assert_eq!(of(Kind::Int, 2.6), Value::Int(3));
    assert_eq!(of(Kind::Float, 2.6), Value::Float(2.6));
    let rounded = |start: f64, decimals: u8| {
        let spec = PointSpec { start: Some(start), decimals: Some(decimals), ..PointSpec::new("a", Kind::Float) };
        float(&device_of([spec].into(), Vec::new(), 1), 0)
    };
    assert_eq!((rounded(19.091_436, 1), rounded(-0.26, 1), rounded(7.5, 0)), (19.1, -0.3, 8.0));
    assert_eq!((rounded(1e300, 15), rounded(0.1, 15)), (1e300, 0.1));
    assert_eq!(of(Kind::Text("VAV-7".into()), 0.0), Value::from("VAV-7"));
    assert_eq!(of(Kind::Int, 1e30), Value::Null);
}
