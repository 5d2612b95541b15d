//! What must hold for any device, any seed and any order of looks.

use super::device_of;
use crate::{Curve, Device, Fault, FaultKind, Kind, Model, PointSpec, When};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use proptest::prelude::*;
use tieline_core::{PointId, Reading, Value};

const CURVES: [&str; 10] = [
    "walk(0 100 3)",
    "sine(20 5 1h)",
    "follow(p0 5m)",
    "sum(p1)",
    "linear(p2 2 1)",
    "above(p0 50 5)",
    "when(p5 p0 7)",
    "product(p0 p1)",
    "toggle(7s)",
    "lag(1m)",
];

fn any_device(seed: u64) -> Device {
    let spec = |(at, text): (usize, &&str)| {
        let curve = Curve::parse(text, &mut |_| Err(String::new())).unwrap();
        PointSpec { curve, noise: 0.1, writable: *text == "lag(1m)", ..PointSpec::new(&format!("p{at}"), Kind::Float) }
    };
    let fault = |kind, per_hour, seconds| Fault {
        kind,
        when: When::Random { per_hour },
        lasts: Duration::from_secs(seconds),
        points: [].into(),
    };
    let faults =
        [fault(FaultKind::Stuck, 20.0, 10), fault(FaultKind::Restart, 5.0, 7), fault(FaultKind::Drift(3.0), 9.0, 60)];
    device_of(CURVES.iter().enumerate().map(spec).collect(), faults.into(), seed)
}

fn readings(device: &Device) -> Vec<Reading> {
    (0..10).map(|point| device.reading(PointId(point)).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Values do not depend on when somebody looked before.
    #[test]
    fn looks_change_nothing(seed: u64, mut looks in prop::collection::vec(0_u64..3_000_000, 1..30)) {
        looks.sort_unstable();
        let last = Duration::from_millis(*looks.last().unwrap_or(&0));
        let (mut looked_at, mut alone) = (any_device(seed), any_device(seed));
        for look in looks {
            looked_at.handle_time(Duration::from_millis(look));
        }
        alone.handle_time(last);
        prop_assert_eq!(readings(&looked_at), readings(&alone));
        prop_assert_eq!(looked_at.poll_restarted(), alone.poll_restarted());
    }

    /// One seed gives one run, and another seed another.
    #[test]
    fn seeds_make_runs(seed: u64) {
        let run = |seed| { let mut device = any_device(seed); device.handle_time(Duration::from_secs(100)); readings(&device) };
        prop_assert_eq!(run(seed), run(seed));
        prop_assert_ne!(run(seed), run(seed.wrapping_add(1)));
    }

    /// No time and no command makes a panic or a loop, and a walk stays within its bounds.
    #[test]
    fn any_time_and_any_command(seed: u64, acts in prop::collection::vec((any::<u64>(), any::<u32>(), any::<f64>()), 1..20)) {
        let mut device = any_device(seed);
        for (at, point, number) in acts {
            let _ = device.handle_command(PointId(point % 12), &Value::Float(number));
            device.handle_time(Duration::from_micros(at));
            let _ = (device.conduct(Duration::from_micros(at)), readings(&device));
            device.handle_time(Duration::from_nanos(at));
        }
    }

    /// Any text is a curve or an error.
    #[test]
    fn any_text(text in "[a-z]{0,8}\\(?[ -~]{0,40}\\)?") {
        let _ = Curve::parse(&text, &mut |_| Ok(text.clone()));
    }

    /// Arguments of all sorts are a curve or an error, and what is a curve has a value.
    #[test]
    fn any_arguments(word in "ramp|triangle|sine|square|toggle|day|steps|walk|lag|sum|linear|product|when|above|follow",
                     parts in prop::collection::vec("-?[0-9]{1,19}(ms|s|m|h|d|\\.5|e300|)", 0..6), at: u64) {
        let text = format!("{word}({})", parts.join(" "));
        if let Ok(curve) = Curve::parse(&text, &mut |_| Ok("1s,5\n18446744073709551s,6".into())) {
            let spec = PointSpec { curve, ..PointSpec::new("p", Kind::Float) };
            prop_assume!(Model::new([spec.clone()].into()).is_ok());
            let mut device = device_of([spec].into(), Vec::new(), 1);
            device.handle_time(Duration::from_micros(at));
            prop_assert!(device.reading(PointId(0)).is_some());
        }
    }
}
