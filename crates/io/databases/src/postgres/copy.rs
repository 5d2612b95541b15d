//! Rows as binary COPY takes them.
//!
//! ```text
//!  "PGCOPY\n\xff\r\n\0" | flags 0 (4) | length of more 0 (4)
//!  a row: count of columns (2), of each: length (4), bytes      length -1: null
//!  -1 (2)
//! ```
//! Integers have the high byte first. Columns: time (microseconds since 2000), value, topic, quality, text, bytes.

use crate::Row;
use crate::sql::{number, words};
use bytes::{BufMut as _, Bytes, BytesMut};
use tieline_core::Value;

/// The columns, in the order in which [`push`] writes them.
pub(super) const COLUMNS: &str = "time, value, topic, quality, text, bytes";
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// 2000-01-01 in microseconds since 1970.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
/// Bytes of a part that is handed over.
const PART_BYTES: usize = 64 << 10;

/// The bytes of a COPY, in parts.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) done: Vec<Bytes>,
    part: BytesMut,
}

impl Parts {
    pub(super) fn begin() -> Self {
        let mut parts = Self { done: Vec::new(), part: BytesMut::with_capacity(PART_BYTES + (PART_BYTES >> 2)) };
        parts.part.put_slice(SIGNATURE);
        parts.part.put_bytes(0, 8);
        parts
    }

    /// Appends a row of the topic with this number.
    pub(super) fn push(&mut self, row: &Row, topic: i32) {
        let part = &mut self.part;
        part.put_slice(&[0, 6, 0, 0, 0, 8]);
        part.put_i64(row.time.micros() - EPOCH_MICROS);
        match number(&row.value) {
            Some(number) => {
                part.put_i32(8);
                part.put_f64(number);
            }
            None => part.put_i32(-1),
        }
        part.put_i32(4);
        part.put_i32(topic);
        part.put_i32(4);
        part.put_i32(i32::from(row.quality.bits()));
        if matches!(row.value, Value::Float(_) | Value::Bool(_) | Value::Null) {
            part.put_slice(&[0xff; 8]);
        } else {
            push_words(part, &row.value);
        }
        if part.len() >= PART_BYTES {
            self.done.push(part.split().freeze());
        }
    }

    pub(super) fn end(mut self) -> Vec<Bytes> {
        self.part.put_i16(-1);
        self.done.push(self.part.freeze());
        self.done
    }
}

fn push_words(part: &mut BytesMut, value: &Value) {
    let (text, bytes) = words(value);
    for column in [text, bytes] {
        match column.and_then(|column| Some((i32::try_from(column.len()).ok()?, column))) {
            Some((len, column)) => {
                part.put_i32(len);
                part.put_slice(&column);
            }
            None => part.put_i32(-1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::{Quality, Timestamp, Topic};

    #[test]
    fn rows_are_as_the_manual_says() {
        let row = |value| {
            let (topic, time) = (Topic::new("x").unwrap(), Timestamp::from_micros(EPOCH_MICROS + 5));
            Row { topic, time, value, quality: Quality::AWAY, again: false }
        };
        let check = |value: Value, tail: &[u8]| {
            let mut parts = Parts::begin();
            parts.push(&row(value), 7);
            let bytes: Vec<u8> = parts.end().concat();
            let head = [&SIGNATURE[..], &[0; 8], &[0, 6, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 5]].concat();
            assert_eq!(bytes, [&head, tail, &[0xff, 0xff]].concat());
        };
        const NULL: [u8; 4] = [0xff; 4];
        const BETWEEN: [u8; 16] = [0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 2, 0];
        let one = [0, 0, 0, 8, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0];
        check(Value::Float(1.0), &[&one[..], &BETWEEN, &NULL, &NULL].concat());
        check(Value::Bool(true), &[&one[..], &BETWEEN, &NULL, &NULL].concat());
        check(Value::Int(1), &[&one[..], &BETWEEN, &NULL, &NULL].concat());
        check(Value::Text("a".into()), &[&NULL[..], &BETWEEN, &[0, 0, 0, 1, b'a'], &NULL].concat());
        check(Value::Text("\0".into()), &[&NULL[..], &BETWEEN, &NULL, &[0, 0, 0, 1, 0]].concat());
        let big =
            [&[0, 0, 0, 8, 0x43, 0x40, 0, 0, 0, 0, 0, 0][..], &BETWEEN, &[0, 0, 0, 16], b"9007199254740993", &NULL];
        check(Value::Int((1 << 53) + 1), &big.concat());
        check(Value::Null, &[&NULL[..], &BETWEEN, &NULL, &NULL].concat());
    }
}
