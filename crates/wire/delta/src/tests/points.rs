//! Points as devices send them, and as nobody does.

use proptest::prelude::*;
use tieline_core::{Point, Quality, Timestamp, Value};

pub(crate) fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        2 => any::<bool>().prop_map(Value::Bool),
        4 => any::<i64>().prop_map(Value::Int),
        4 => (-50..50_i64).prop_map(Value::Int),
        20 => (-3000..3000_i32, 0..4_u32).prop_map(|(n, places)| Value::Float(f64::from(n) / 10_f64.powi(places.cast_signed()))),
        4 => any::<f64>().prop_map(Value::Float),
        2 => any::<u64>().prop_map(|bits| Value::Float(f64::from_bits(bits))),
        1 => ".{0,20}".prop_map(|text| Value::Text(text.into())),
        1 => prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| Value::Bytes(bytes.into())),
    ]
}

pub(crate) fn point() -> impl Strategy<Value = Point> {
    let micros = prop_oneof![
        8 => (0..600_000_i64).prop_map(|ms| 1_795_167_360_000_000 + ms * 1000),
        4 => (0..600_i64).prop_map(|s| 1_795_167_360_000_000 + s * 1_000_000),
        4 => (0..600_000_000_i64).prop_map(|us| 1_795_167_360_000_000 + us),
        1 => any::<i64>(),
    ];
    let quality = prop_oneof![8 => Just(0_u16), 1 => 0_u16..1 << 13];
    (value(), quality, micros).prop_map(|(value, bits, micros)| Point {
        value,
        quality: Quality::from_bits(bits),
        time: Timestamp::from_micros(micros),
    })
}
