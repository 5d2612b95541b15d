//! Values of many topics, one a second: the same each time.
//!
//! A quarter each of temperatures in steps of 0.1, powers in steps of 0.01, doubles with a full mantissa, and states that change every
//! half hour; times are up to 4 ms late, in microseconds.

use crate::rounds::number;
use anyhow::Result;
use tieline_core::{Body, Point, Quality, Timestamp, Topic, Update, Value};
use tieline_journal::Sample;

/// The first of the days, 2025-01-01: they were over long ago.
pub const FIRST_DAY_S: i64 = 1_735_689_600;
/// Seconds of a day.
pub const DAY_S: i64 = 86_400;

/// The topics, 18 of a device.
pub fn topics(count: usize) -> Result<Vec<Topic>> {
    let names = (0..count).map(|topic| Topic::new(&format!("bench/device{:03}/point{:02}", topic / 18, topic % 18)));
    Ok(names.collect::<Result<_, _>>()?)
}

/// Cheap, and the same each time.
const fn noise(topic: u64, second: u64) -> u64 {
    let mixed = (topic.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ second).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 16
}

/// The value of a topic, by its number, in a second.
pub fn value(topic: u64, second: u64) -> Value {
    let random = noise(topic, second);
    // A slow wave with noise on it.
    let wave = (number(second % 7200) / 7200.0 * std::f64::consts::TAU).sin();
    match topic % 4 {
        0 => Value::Float((200.0 + 30.0 * wave + number(random % 5)).round() / 10.0),
        1 => Value::Float((50_000.0 + 20_000.0 * wave + number(random % 200)).round() / 100.0),
        2 => Value::Float(230.0 + wave + number(random % 1_000_000_007) / 1e9),
        _ => Value::Bool((second / 1800 + topic).is_multiple_of(3)),
    }
}

/// When a topic has its value of a second, in microseconds.
pub fn micros(topic: u64, second: u64) -> i64 {
    let late = i64::try_from(noise(topic, second ^ 0x5555) % 4000).unwrap_or(0);
    (FIRST_DAY_S + i64::try_from(second).unwrap_or(0)) * 1_000_000 + late
}

/// The samples of all topics in a second.
pub fn batch(topics: &[Topic], second: u64) -> Vec<Sample> {
    let sample = |(number, topic): (u64, &Topic)| {
        let time = Timestamp::from_micros(micros(number, second));
        let point = Point { value: value(number, second), quality: Quality::GOOD, time };
        Sample::new(time, Update { topic: topic.clone(), body: Body::Point(point) })
    };
    (0..).zip(topics).map(sample).collect()
}
