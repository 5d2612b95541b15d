//! Samples as documents, and back.

use super::bson::{Bson, Document, Writer};
use crate::Row;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tieline_core::{Quality, Timestamp, Topic, Value};

const HOUR_MICROS: i64 = 3_600_000_000;
/// Samples of one document.
const SAMPLES_MAX: usize = 4096;
/// Bytes of texts of one document, give or take one.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// Bytes of documents that are sent at once, give or take one document.
const MESSAGE_BYTES_MAX: usize = 8 << 20;
/// Documents that are sent at once.
const MESSAGE_DOCUMENTS_MAX: usize = 10_000;

/// The documents of a batch.
#[derive(Default)]
pub(super) struct Documents {
    messages: Vec<Writer>,
    /// The names of the elements of arrays.
    numbers: Vec<String>,
}

impl Documents {
    /// Topics and hours whose samples may be there already.
    pub(super) fn again(rows: &[Row]) -> BTreeSet<(&str, i64)> {
        rows.iter().filter(|row| row.again).map(|row| (row.topic.as_str(), hour(row.time))).collect()
    }

    /// Makes the documents of a batch. Samples that may be there again are left out where they are among those that are there.
    pub(super) fn make(&mut self, rows: &[Row], there: &HashSet<Vec<u8>>, journal: &str, start: i64, epoch: i64) {
        if self.numbers.is_empty() {
            self.numbers = (0..SAMPLES_MAX).map(|number| number.to_string()).collect();
        }
        let mut groups: BTreeMap<(i64, &Topic), Vec<&Row>> = BTreeMap::new();
        let mut repeated = HashSet::new();
        for row in rows {
            if row.again {
                let shown = shown(row);
                if there.contains(&shown) || !repeated.insert(shown) {
                    continue;
                }
            }
            groups.entry((hour(row.time), &row.topic)).or_default().push(row);
        }
        self.messages.clear();
        let mut number = 0;
        let mut documents = 0;
        for ((hour, topic), rows) in groups {
            let mut rows = rows.as_slice();
            while !rows.is_empty() {
                let (these, rest) = rows.split_at(fitting(rows));
                rows = rest;
                let is_full = self.messages.last().is_none_or(|message| message.bytes().len() > MESSAGE_BYTES_MAX);
                if is_full || documents >= MESSAGE_DOCUMENTS_MAX {
                    self.messages.push(Writer::default());
                    documents = 0;
                }
                let Some(out) = self.messages.last_mut() else { return };
                out.begin().text("_id", &format!("{journal}/{start}/{epoch}/{number}"));
                out.text("journal", journal).int64("start", start).int64("epoch", epoch);
                out.text("topic", topic).date("hour", hour);
                push(out, these, &self.numbers);
                out.end();
                (number, documents) = (number + 1, documents + 1);
            }
        }
    }

    /// The documents, as they are sent at once.
    pub(super) fn messages(&self) -> impl Iterator<Item = &[u8]> {
        self.messages.iter().map(Writer::bytes)
    }
}

/// How many of the rows fit in a document: one at least.
fn fitting(rows: &[&Row]) -> usize {
    let mut bytes = 0;
    let count = rows.iter().take(SAMPLES_MAX).take_while(|row| {
        let fits = bytes < TEXT_BYTES_MAX;
        bytes += match &row.value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
        };
        fits
    });
    count.count().max(1)
}

/// Appends the arrays of a document.
fn push(out: &mut Writer, rows: &[&Row], numbers: &[String]) {
    let all = || rows.iter().zip(numbers);
    let times = || rows.iter().map(|row| row.time);
    let (first, last) = (times().min().unwrap_or_default(), times().max().unwrap_or_default());
    out.date("first", first.millis()).date("last", last.millis());
    out.array("t");
    for (row, name) in all() {
        out.date(name, row.time.millis());
    }
    out.end().array("v");
    for (row, name) in all() {
        push_value(out, name, &row.value);
    }
    out.end();
    if rows.iter().any(|row| micros(row.time) != 0) {
        out.array("us");
        for (row, name) in all() {
            out.int32(name, micros(row.time));
        }
        out.end();
    }
    if rows.iter().any(|row| row.quality != Quality::GOOD) {
        out.array("q");
        for (row, name) in all() {
            out.text(name, row.quality.validity().name());
        }
        out.end().array("reasons");
        for (row, name) in all() {
            out.int32(name, i32::from(row.quality.bits()));
        }
        out.end();
    }
}

fn push_value(out: &mut Writer, name: &str, value: &Value) {
    match value {
        Value::Null => out.null(name),
        Value::Bool(truth) => out.bool(name, *truth),
        Value::Int(n) => out.int64(name, *n),
        Value::Float(x) => out.double(name, *x),
        Value::Text(text) => out.text(name, text),
        Value::Bytes(bytes) => out.binary(name, bytes),
    };
}

fn hour(time: Timestamp) -> i64 {
    time.micros().div_euclid(HOUR_MICROS) * (HOUR_MICROS / 1000)
}

/// Microseconds within the millisecond.
fn micros(time: Timestamp) -> i32 {
    i32::try_from(time.micros() - time.millis() * 1000).unwrap_or_default()
}

/// A sample as bytes that are equal where topic, time and value are.
fn shown(row: &Row) -> Vec<u8> {
    let mut out = Writer::default();
    out.begin().text("topic", &row.topic).date("t", row.time.millis());
    push_value(&mut out, "v", &row.value);
    out.int32("us", micros(row.time)).int32("r", i32::from(row.quality.bits())).end();
    out.bytes().to_vec()
}

/// Adds the samples of a document, as `shown` makes them.
pub(super) fn sample_of(document: Document<'_>, there: &mut HashSet<Vec<u8>>) {
    let array = |name| match document.get(name) {
        Some(Bson::Array(array)) => array.iter().map_while(Result::ok).map(|(_, value)| value).collect(),
        _ => Vec::new(),
    };
    let (times, values, micros, reasons) = (array("t"), array("v"), array("us"), array("reasons"));
    let topic = document.get("topic").and_then(Bson::text).unwrap_or_default();
    for (at, (time, value)) in times.into_iter().zip(values).enumerate() {
        let Bson::Date(time) = time else { continue };
        let whole = |from: &[Bson<'_>]| from.get(at).and_then(|n| n.int()).and_then(|n| i32::try_from(n).ok());
        let mut out = Writer::default();
        out.begin().text("topic", topic).date("t", time);
        match value {
            Bson::Double(x) => out.double("v", x),
            Bson::Text(text) => out.text("v", text),
            Bson::Bytes(bytes) => out.binary("v", bytes),
            Bson::Bool(truth) => out.bool("v", truth),
            Bson::Int64(n) => out.int64("v", n),
            Bson::Int32(n) => out.int64("v", n.into()),
            _ => out.null("v"),
        };
        out.int32("us", whole(&micros).unwrap_or_default()).int32("r", whole(&reasons).unwrap_or_default()).end();
        there.insert(out.bytes().to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(topic: &str, micros: i64, value: Value) -> Row {
        let (topic, time) = (Topic::new(topic).unwrap(), Timestamp::from_micros(micros));
        Row { topic, time, value, quality: Quality::GOOD, again: false }
    }

    fn read(documents: &Documents) -> Vec<Document<'_>> {
        let mut all = Vec::new();
        for mut rest in documents.messages() {
            while !rest.is_empty() {
                let (document, behind) = Document::read(rest).unwrap();
                all.push(document);
                rest = behind;
            }
        }
        all
    }

    fn length(document: Document<'_>, name: &str) -> usize {
        let Some(Bson::Array(array)) = document.get(name) else { return 0 };
        array.iter().map(Result::unwrap).count()
    }

    #[test]
    fn a_topic_and_an_hour_are_a_document() {
        let mut documents = Documents::default();
        let bad = Row { quality: Quality::AWAY, ..row("b", 5, Value::Null) };
        let rows = [
            row("a", 1000, Value::Int(1)),
            bad,
            row("a", 2000, Value::Text("x".into())),
            row("a", HOUR_MICROS, Value::Bool(true)),
            row("a", -1, Value::Float(0.5)),
        ];
        documents.make(&rows, &HashSet::new(), "j", 7, 9);
        let all = read(&documents);
        let ids: Vec<&str> = all.iter().map(|document| document.get("_id").unwrap().text().unwrap()).collect();
        assert_eq!(ids, ["j/7/9/0", "j/7/9/1", "j/7/9/2", "j/7/9/3"]);
        let hours: Vec<_> = all.iter().map(|document| document.get("hour").unwrap()).collect();
        assert_eq!(hours, [Bson::Date(-3_600_000), Bson::Date(0), Bson::Date(0), Bson::Date(3_600_000)]);
        assert_eq!(all.iter().map(|document| length(*document, "t")).collect::<Vec<_>>(), [1, 2, 1, 1]);
        assert_eq!(all.iter().map(|document| length(*document, "us")).collect::<Vec<_>>(), [1, 0, 1, 0]);
        assert_eq!(all.iter().map(|document| length(*document, "q")).collect::<Vec<_>>(), [0, 0, 1, 0]);
        // What is there is told as it is written.
        let mut there = HashSet::new();
        all.iter().for_each(|document| sample_of(*document, &mut there));
        assert_eq!(there, rows.iter().map(shown).collect());
        let again: Vec<Row> = rows.iter().map(|row| Row { again: true, ..row.clone() }).collect();
        assert_eq!(Documents::again(&again).len(), 4);
        let more = [again.clone(), again, vec![row("a", 1000, Value::Int(1))]].concat();
        documents.make(&more, &there, "j", 8, 9);
        assert_eq!(read(&documents).len(), 1);
    }

    #[test]
    fn documents_and_messages_have_limits() {
        let mut documents = Documents::default();
        let long = Value::Text("x".repeat(1 << 20).into());
        let rows: Vec<Row> =
            (0..9000).map(|n| row("a", n, Value::Int(n))).chain((0..12).map(|n| row("b", n, long.clone()))).collect();
        documents.make(&rows, &HashSet::new(), "j", 0, 0);
        let all = read(&documents);
        let sizes: Vec<usize> = all.iter().map(|document| length(*document, "t")).collect();
        assert_eq!(sizes, [4096, 4096, 808, 4, 4, 4]);
        assert!(documents.messages().count() >= 2);
        assert!(documents.messages().all(|message| message.len() < 13 << 20));
    }
}
