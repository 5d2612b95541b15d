//! Values that are the same in every run.

use std::fmt::Write as _;
use tieline_core::{Point, Quality, Timestamp, Value};

/// The bytes of [`table`].
pub const TABLE_BYTES: usize = 950;

/// A table of twelve rows as JSON; a time and three numbers of it follow `n`.
pub fn table(n: u32) -> Vec<u8> {
    let mut text = format!("{{\"stamp\":\"2026-11-20T09:{:02}:{:02}Z\",\"rows\":[", n / 60 % 60, n % 60);
    for row in 0..12 {
        let number = if row % 4 == 0 { 100 + n * (row + 7) * 31 % 900 } else { 100 + row };
        let id = 4000 + row;
        let _ = write!(
            text,
            "{{\"id\":{id},\"name\":\"feeder {row:02}\",\"unit\":\"kvar\",\"points\":{number},\"rank\":{row:02}}},"
        );
    }
    text.pop();
    text.push_str("],\"from\":\"");
    text.extend(std::iter::repeat_n('x', TABLE_BYTES.saturating_sub(text.len() + 2)));
    text.push_str("\"}");
    text.into_bytes()
}

/// A measurement that moves by hundredths, about a second apart.
pub fn point(n: u32) -> Point {
    let cents = 4_990 + n.wrapping_mul(2_654_435_761) / 65_536 % 20;
    let millis = 1_795_167_360_000 + i64::from(n) * 1000 + i64::from(n % 7);
    let value = Value::Float(f64::from(cents) / 100.0);
    Point { value, quality: Quality::GOOD, time: Timestamp::from_millis(millis) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_their_length() {
        assert!((0..1000).all(|n| table(n).len() == TABLE_BYTES));
    }
}
