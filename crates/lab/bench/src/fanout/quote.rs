//! A value of about a kilobyte: JSON of which an update changes the time and one number.

use super::plan::number;

/// Bytes of a value.
pub const VALUE_BYTES: usize = TEMPLATE.len();
/// A quote of two pairs with three tiers each, as the published experiment sends it: 950 bytes without spaces. The
/// time and the first points change.
const TEMPLATE: &[u8] = br#"{"timestamp":"0000000000000","pairName":"AAA-BBB","pairs":[{"timestamp":"1763636521137","pairName":"AAA-BBB","tiers":[{"high":"1.10412","open":"1.10633","low":"1.10752","bid":{"big":"1.10","points":"000"},"offer":{"big":"1.10","points":"614"}},{"high":"1.10412","open":"1.10633","low":"1.10752","bid":{"big":"1.0455","points":"613"},"offer":{"big":"1.1555","points":"614"}},{"high":"1.10412","open":"1.10633","low":"1.10752","bid":{"big":"0.991","points":"613"},"offer":{"big":"1.211","points":"614"}}]},{"timestamp":"1763636529409","pairName":"AAA-CCC","tiers":[{"high":"0.87864","open":"0.88017","low":"0.88143","bid":{"big":"0.88","points":"204"},"offer":{"big":"0.88","points":"208"}},{"high":"0.87864","open":"0.88017","low":"0.88143","bid":{"big":"0.8366","points":"204"},"offer":{"big":"0.9247","points":"208"}},{"high":"0.87864","open":"0.88017","low":"0.88143","bid":{"big":"0.791","points":"204"},"offer":{"big":"0.969","points":"208"}}]}]}"#;
const TIME_AT: usize = 14;
const TIME_DIGITS: usize = 13;
const POINTS_AT: usize = 199;
const POINTS_DIGITS: usize = 3;

/// Writes the value of a topic at a time, in µs, over one that was written before, or over [`blank`].
pub fn stamp(value: &mut [u8], topic: usize, time_us: u64) {
    digits(value, TIME_AT, TIME_DIGITS, time_us);
    digits(value, POINTS_AT, POINTS_DIGITS, points(topic, time_us));
}

/// A value without a time.
pub fn blank() -> Vec<u8> {
    TEMPLATE.to_vec()
}

/// The time of a value, in µs, where it is exactly what [`stamp`] makes of it.
pub fn read(value: &[u8], topic: usize) -> Option<u64> {
    let time_us = number(value.get(TIME_AT..TIME_AT + TIME_DIGITS)?)?;
    let same = |from: usize, to: usize| value.get(from..to) == TEMPLATE.get(from..to);
    let whole = value.len() == VALUE_BYTES
        && number(value.get(POINTS_AT..POINTS_AT + POINTS_DIGITS)?)? == points(topic, time_us)
        && same(0, TIME_AT)
        && same(TIME_AT + TIME_DIGITS, POINTS_AT)
        && same(POINTS_AT + POINTS_DIGITS, VALUE_BYTES);
    whole.then_some(time_us)
}

fn points(topic: usize, time_us: u64) -> u64 {
    // 997 divides no power of ten: every digit of the time counts.
    (topic as u64 + time_us % 997) % 1000
}

fn digits(value: &mut [u8], at: usize, count: usize, mut number: u64) {
    for place in value.iter_mut().skip(at).take(count).rev() {
        *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_the_published_size_and_read_back() {
        assert_eq!(VALUE_BYTES, 950);
        let mut value = blank();
        stamp(&mut value, 7, 1_234_567_890_123);
        assert_eq!(read(&value, 7), Some(1_234_567_890_123));
        assert_eq!(read(&value, 8), None);
        for at in [0, 20, 100, 198, 949] {
            let mut wrong = value.clone();
            wrong[at] ^= 1;
            assert_eq!(read(&wrong, 7), None, "{at}");
        }
        serde_json::from_slice::<serde::de::IgnoredAny>(&value).unwrap();
    }
}
