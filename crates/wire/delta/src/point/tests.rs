use super::*;
use crate::DeltaError;
use crate::tests::points::point;
use alloc::vec;
use proptest::prelude::*;
use tieline_core::Value;
use tieline_core::varint;

const LIMIT: usize = 1 << 16;

fn whole(state: &PointState) -> Vec<u8> {
    let mut out = Vec::new();
    state.emit(&mut out);
    out
}

proptest! {
    #[test]
    fn the_whole_form_round_trips(points in prop::collection::vec(point(), 1..5)) {
        let mut encoder = PointEncoder::new(&points[0]);
        for point in &points {
            encoder.next(point);
            let state = encoder.state();
            let bytes = whole(state);
            let back = PointState::parse(&bytes, LIMIT).unwrap();
            prop_assert_eq!(&back, state);
            prop_assert_eq!(whole(&back), bytes);
            let (got, sent) = (back.to_point(), point);
            prop_assert_eq!((got.quality, got.time), (sent.quality, sent.time));
            match (got.value, &sent.value) {
                (Value::Float(a), Value::Float(b)) => prop_assert_eq!(a.to_bits(), b.to_bits()),
                (a, b) => prop_assert_eq!(&a, b),
            }
        }
    }

    /// Between any two states that a sender had, not only neighbours.
    #[test]
    fn a_delta_leads_to_exactly_the_senders_state(points in prop::collection::vec(point(), 2..12)) {
        let mut encoder = PointEncoder::new(&points[0]);
        let mut states = vec![encoder.state().clone()];
        for point in &points {
            encoder.next(point);
            states.push(encoder.state().clone());
        }
        for (at, base) in states.iter().enumerate() {
            for (next, neighbour) in states.iter().enumerate().skip(at).map(|(to, next)| (next, to == at + 1)) {
                let mut delta = Vec::new();
                let told = base.diff(next, &mut delta);
                prop_assert!(told || !neighbour, "no delta between neighbours");
                if told {
                    prop_assert_eq!(&base.apply(&delta, LIMIT).unwrap(), next);
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_survived(point in point(), bytes: Vec<u8>) {
        let base = PointEncoder::new(&point).state().clone();
        if let Ok(next) = base.apply(&bytes, LIMIT) {
            let _ = next.to_point();
        }
        if let Ok(state) = PointState::parse(&bytes, LIMIT) {
            prop_assert_eq!(PointState::parse(&whole(&state), LIMIT), Ok(state));
        }
    }
}

#[test]
fn what_a_point_cannot_be_is_refused() {
    let base = |value: Value| PointEncoder::new(&Point { value, ..Point::default() }).state().clone();
    let check = |value: Value, delta: &[u8]| {
        let refused = base(value).apply(delta, 3);
        assert!(refused.is_err(), "{delta:?}: {refused:?}");
    };
    check(Value::Null, &[]);
    check(Value::Null, &[4]);
    check(Value::Bool(true), &[4]);
    check(Value::Bool(false), &[2]);
    check(Value::Int(i64::MAX), &[4]);
    check(Value::Float(9_007_199_254_740_992.0), &[4]);
    check(Value::Int(1), &[0, 0, 0]);
    check(Value::Int(1), &[32 << 1 | 1]);
    check(Value::Int(1), &[2 << 1 | 1, 0x71, 1]);
    check(Value::Float(0.1 + 0.2), &[2 << 1 | 1, 0x10]);
    check(Value::Float(0.1 + 0.2), &[2 << 1 | 1, 0x81]);
    check(Value::Int(1), &[3 << 1 | 1, 8]);
    check(Value::Int(1), &[3 << 1 | 1, 6, 4, b'l', b'o', b'n', b'g']);
    check(Value::Int(1), &[3 << 1 | 1, 6, 1, 0xFF]);
    check(Value::Int(1), &[3 << 1 | 1, 4, 16, 0]);
    check(Value::Int(1), &[4 << 1 | 1, 0xFF, 0x7F]);
    check(Value::Int(1), &[8 << 1 | 1, 3]);
    let mut far = vec![0];
    varint::put_signed(&mut far, i64::MAX);
    check(Value::Int(1), &far);
    let whole = PointState::parse(&[0x80, 0], 3);
    assert_eq!(whole, Err(DeltaError::Malformed("not a point's whole form")));
    assert!(PointState::parse(&[0x18, 0], 3).is_err());
    assert!(PointState::parse(&[0x00, 0, 0], 3).is_err());
}

/// The node stamps what a device has not: microseconds once, and milliseconds ever after.
#[test]
fn a_finer_stamp_does_not_make_all_that_follow_longer() {
    let check = |first_micros: i64, apart_millis: &[i64], bytes_max: usize| {
        let mut micros = 1_700_000_000_000_000;
        let point =
            |micros: i64| Point { value: Value::Int(7), time: Timestamp::from_micros(micros), ..Point::default() };
        let mut encoder = PointEncoder::new(&point(micros + first_micros));
        let mut bytes = Vec::new();
        for at in 0..100 {
            micros += apart_millis[at % apart_millis.len()] * 1000;
            let before = encoder.next(&point(micros));
            let mut delta = Vec::new();
            assert!(before.diff(encoder.state(), &mut delta));
            bytes.push(delta.len());
        }
        let most = bytes[3..].iter().max().copied();
        assert!(most <= Some(bytes_max), "{first_micros} µs, {apart_millis:?}: {bytes:?}");
    };
    check(123_456, &[1000], 1);
    check(123_456, &[1003, 998, 1001, 995], 2);
    check(1, &[20_000, 20_031, 19_990], 2);
    check(0, &[60_000, 61_000, 59_000, 62_000], 2);
}
