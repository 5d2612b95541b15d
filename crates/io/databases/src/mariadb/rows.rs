//! Rows as LOAD DATA and as INSERT take them.
//!
//! A line of LOAD DATA: fields between tabs, with a line feed at the end; `\N` is a null, and `\` stands before what would end a
//! field. A row of INSERT is a list of literals. Columns: topic, time, hash, value, quality, text, bytes.

use crate::Row;
use crate::sql::{Column, number, words};
use bytes::{Bytes, BytesMut};
use std::fmt::Write as _;

/// The columns, in the order of the fields.
pub(super) const COLUMNS: &str = "topic, time, hash, value, quality, text, bytes";
/// Bytes of a part that is handed over; a packet holds 16 MiB.
const PART_BYTES: usize = 64 << 10;
/// The offset and the prime of FNV-1a, 64 bits.
const FNV: (u64, u64) = (0xcbf2_9ce4_8422_2325, 0x0000_0100_0000_01b3);

/// A row as the table has it.
pub(super) struct Columns<'a> {
    row: &'a Row,
    topic: u32,
    value: Option<f64>,
    text: Option<Column<'a>>,
    bytes: Option<Column<'a>>,
}

impl<'a> Columns<'a> {
    /// What is not finite has no place in a column of numbers: its name is a text.
    pub(super) fn of(row: &'a Row, topic: u32) -> Self {
        let (text, bytes) = words(&row.value);
        match number(&row.value) {
            Some(x) if !x.is_finite() => {
                let name: &[u8] = if x.is_nan() {
                    b"NaN"
                } else if x > 0.0 {
                    b"Infinity"
                } else {
                    b"-Infinity"
                };
                Self { row, topic, value: None, text: Some(name.into()), bytes }
            }
            value => Self { row, topic, value, text, bytes },
        }
    }

    /// Tells samples of one topic and time apart: FNV-1a of value, quality, text and bytes.
    fn hash(&self) -> u64 {
        let (mut hash, prime) = FNV;
        let mut add =
            |bytes: &[u8]| hash = bytes.iter().fold(hash, |hash, b| (hash ^ u64::from(*b)).wrapping_mul(prime));
        let tags = [self.value.is_some(), self.text.is_some(), self.bytes.is_some()].map(u8::from);
        add(&tags);
        add(&self.row.quality.bits().to_le_bytes());
        // Zero has two signs, and the table one.
        add(&(self.value.unwrap_or_default() + 0.0).to_bits().to_le_bytes());
        for column in [&self.text, &self.bytes].into_iter().flatten() {
            add(column);
        }
        hash
    }

    /// Appends the topic, the time and the hash, between them what separates fields, and the time in quotes or without.
    fn push_key(&self, out: &mut BytesMut, between: char, quote: &str) {
        let _ = write!(out, "{}{between}{quote}{}", self.topic, self.row.time);
        // The time ends with a Z, which these databases do not know.
        out.truncate(out.len() - 1);
        let _ = write!(out, "{quote}{between}{}{between}", self.hash());
    }

    fn push_line(&self, out: &mut BytesMut) {
        self.push_key(out, '\t', "");
        match self.value {
            Some(x) => drop(write!(out, "{x:e}")),
            None => out.extend_from_slice(b"\\N"),
        }
        let _ = write!(out, "\t{}", self.row.quality.bits());
        for column in [&self.text, &self.bytes] {
            out.extend_from_slice(b"\t");
            match column {
                Some(column) => escape(out, column, b"\\\t\n"),
                None => out.extend_from_slice(b"\\N"),
            }
        }
        out.extend_from_slice(b"\n");
    }

    /// Appends the row as literals in parentheses.
    pub(super) fn push_literals(&self, out: &mut BytesMut) {
        out.extend_from_slice(b"(");
        self.push_key(out, ',', "'");
        match self.value {
            Some(x) => drop(write!(out, "{x:e}")),
            None => out.extend_from_slice(b"NULL"),
        }
        let _ = write!(out, ",{},", self.row.quality.bits());
        match &self.text {
            Some(text) => quote(out, text),
            None => out.extend_from_slice(b"NULL"),
        }
        out.extend_from_slice(b",");
        match &self.bytes {
            Some(bytes) => {
                out.extend_from_slice(b"x'");
                for byte in bytes.iter() {
                    let _ = write!(out, "{byte:02x}");
                }
                out.extend_from_slice(b"'");
            }
            None => out.extend_from_slice(b"NULL"),
        }
        out.extend_from_slice(b")");
    }
}

/// The lines of a LOAD DATA, in parts.
#[derive(Default)]
pub(super) struct Lines {
    done: Vec<Bytes>,
    part: BytesMut,
}

impl Lines {
    pub(super) fn push(&mut self, columns: &Columns<'_>) {
        columns.push_line(&mut self.part);
        if self.part.len() >= PART_BYTES {
            let mut rest = self.part.split().freeze();
            while !rest.is_empty() {
                self.done.push(rest.split_to(rest.len().min(PART_BYTES * 2)));
            }
            self.part.reserve(PART_BYTES * 2);
        }
    }

    pub(super) fn end(mut self) -> Vec<Bytes> {
        self.done.push(self.part.freeze());
        self.done
    }
}

/// A text as a literal, where a backslash escapes.
pub(super) fn quote(out: &mut BytesMut, text: &[u8]) {
    out.extend_from_slice(b"'");
    escape(out, text, b"\\'");
    out.extend_from_slice(b"'");
}

fn escape(out: &mut BytesMut, text: &[u8], special: &[u8]) {
    for piece in text.split_inclusive(|byte| special.contains(byte)) {
        match piece.split_last() {
            Some((last, rest)) if special.contains(last) => {
                out.extend_from_slice(rest);
                out.extend_from_slice(&[b'\\', *last]);
            }
            _ => out.extend_from_slice(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::{Quality, Timestamp, Topic, Value};

    fn row(value: Value) -> Row {
        let (topic, time) = (Topic::new("x").unwrap(), Timestamp::from_micros(1_795_651_199_999_999));
        Row { topic, time, value, quality: Quality::AWAY, again: false }
    }

    #[test]
    fn rows_are_lines_and_literals() {
        let check = |value: Value, fields: [&str; 3], literals: [&str; 3]| {
            let (row, mut lines, mut insert) = (row(value), Lines::default(), BytesMut::new());
            let columns = Columns::of(&row, 7);
            lines.push(&columns);
            columns.push_literals(&mut insert);
            let (hash, quality, lines) = (columns.hash(), Quality::AWAY.bits(), lines.end().concat());
            let [value, text, bytes] = fields;
            let expect = format!("7\t2026-11-25T23:59:59.999999\t{hash}\t{value}\t{quality}\t{text}\t{bytes}\n");
            assert_eq!(std::str::from_utf8(&lines).unwrap(), expect);
            let [value, text, bytes] = literals;
            let expect = format!("(7,'2026-11-25T23:59:59.999999',{hash},{value},{quality},{text},{bytes})");
            assert_eq!(std::str::from_utf8(&insert).unwrap(), expect);
        };
        const NULLS: [&str; 3] = ["NULL"; 3];
        const NONE: [&str; 3] = ["\\N"; 3];
        check(Value::Null, NONE, NULLS);
        for (value, number) in [(Value::Float(-0.1), "-1e-1"), (Value::Bool(true), "1e0"), (Value::Int(12), "1.2e1")] {
            check(value, [number, "\\N", "\\N"], [number, "NULL", "NULL"]);
        }
        let big = "9.007199254740992e15";
        check(Value::Int((1 << 53) + 1), [big, "9007199254740993", "\\N"], [big, "'9007199254740993'", "NULL"]);
        check(Value::Float(f64::NEG_INFINITY), ["\\N", "-Infinity", "\\N"], ["NULL", "'-Infinity'", "NULL"]);
        check(Value::Text("\\N\t'\nü".into()), ["\\N", "\\\\N\\\t'\\\nü", "\\N"], ["NULL", "'\\\\N\t\\'\nü'", "NULL"]);
        check(Value::Text("".into()), ["\\N", "", "\\N"], ["NULL", "''", "NULL"]);
        check(Value::Text("a\0".into()), ["\\N", "\\N", "a\0"], ["NULL", "NULL", "x'6100'"]);
        check(Value::Bytes([9].into()), ["\\N", "\\N", "\\\t"], ["NULL", "NULL", "x'09'"]);
    }

    #[test]
    fn equal_rows_have_equal_hashes() {
        let hash = |value| Columns::of(&row(value), 1).hash();
        assert_eq!(hash(Value::Int(1)), hash(Value::Bool(true)));
        assert_eq!(hash(Value::Float(0.0)), hash(Value::Float(-0.0)));
        assert_ne!(hash(Value::Float(1.0)), hash(Value::Float(2.0)));
        assert_ne!(hash(Value::Text("a".into())), hash(Value::Bytes([b'a'].into())));
        assert_ne!(hash(Value::Null), hash(Value::Int(0)));
    }

    #[test]
    fn long_values_go_in_parts() {
        let (row, mut lines) = (row(Value::Text("\t".repeat(PART_BYTES * 2).into())), Lines::default());
        lines.push(&Columns::of(&row, 1));
        let parts = lines.end();
        assert!(parts.len() > 2 && parts.iter().all(|part| part.len() <= PART_BYTES * 2), "{}", parts.len());
    }
}
