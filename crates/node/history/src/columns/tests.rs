//! The store against a list of samples that computes every answer naively.

mod many;
mod rules;

use super::live::Live;
use super::reader::{HistoryReader, HistorySource};
use super::{Columns, folder_of};
use crate::store::{Deleted, Deleting, Deletion, Entry, Progress, Retention, Store};
use crate::{Aggregate, EditError, Fill, HistoryQuery, Order, StoreError};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tieline_core::{
    Body, Filter, Point, Quality, Storage, StorageError, StorageErrorKind, Timestamp, Topic, Validity, Value,
    Words as _,
};
use tieline_journal::Seq;
use tieline_series::Sample;
use tieline_store::{
    Answer as _, DAY_US, EditKind, EditQuery, EditRecord, Ended, Fields, FolderStorage, NewEdit, OLDER_FILE, Piece,
    Place, Row, StateRow,
};

const MEMORY: usize = 1 << 20;
const FILE: u64 = 1 << 20;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn entry(seq: u64, topic: &str, micros: i64, value: impl Into<Value>, quality: Quality) -> Entry {
    let point = Point { value: value.into(), quality, time: at(micros) };
    Entry { seq: Seq(seq), topic: Topic::new(topic).unwrap(), time: at(micros), body: Body::Point(point) }
}

/// A store with samples in memory, and as many in chunks.
struct Stored {
    folder: TempDir,
    source: HistorySource,
    store: Columns<FolderStorage>,
}

fn stored(entries: &[Entry]) -> Stored {
    let folder = tempfile::tempdir().unwrap();
    let source = HistorySource::new(folder.path());
    let mut store = Columns::open(folder.path(), source.live().clone(), MEMORY, FILE).unwrap();
    let (old, new) = entries.split_at(entries.len() / 2);
    store.append(old, Seq(1)).unwrap();
    store.live.with(|heads| heads.seal_all());
    store.append(new, Seq(2)).unwrap();
    store.caught_up();
    Stored { folder, source, store }
}

fn all(filter: &str) -> HistoryQuery {
    HistoryQuery::of(Filter::new(filter).unwrap())
}

impl Stored {
    fn ask(&self, query: HistoryQuery) -> Vec<Row> {
        ask(&self.source.reader().unwrap(), query)
    }
}

/// Rows, one by one and as they lie together.
fn ask(reader: &HistoryReader, query: HistoryQuery) -> Vec<Row> {
    let mut answer = reader.query(query.clone()).unwrap();
    let mut pieces = Vec::new();
    let topics = answer.topics();
    while let Some(piece) = answer.piece() {
        pieces.push(piece.unwrap());
    }
    let rows: Vec<Row> = reader.query(query).unwrap().collect::<Result<_, _>>().unwrap();
    assert!(rows.iter().all(|row| topics.contains(&row.topic)));
    let plain = |row: &Row| format!("{} {:?} {} {}", row.topic, row.point, row.is_payload, row.count);
    let spread: Vec<String> = pieces.into_iter().flat_map(rows_of).map(|row| plain(&row)).collect();
    assert_eq!(spread, rows.iter().map(plain).collect::<Vec<_>>());
    rows
}

fn rows_of(piece: Piece) -> Vec<Row> {
    match piece {
        Piece::Row(row) => vec![row],
        Piece::Samples(topic, Fields { times, kinds, qualities, floats, integers, blobs }) => {
            let fields = tieline_series::Fields { times, kinds, qualities, floats, integers, blobs };
            let column = tieline_series::Column::try_from(fields).unwrap();
            let row = |sample: Sample| Row {
                topic: topic.clone(),
                point: Point { value: sample.datum.into_value(), quality: sample.quality, time: sample.time },
                is_payload: false,
                count: 1,
                number: 0,
                edited: None,
            };
            column.iter().map(row).collect()
        }
    }
}

/// `topic start state seconds entered` of each.
fn states(stored: &Stored, query: HistoryQuery) -> Vec<String> {
    let reader = stored.source.reader().unwrap();
    let found: Result<Vec<StateRow>, _> = reader.states(query).unwrap().collect();
    let state = |state: &Option<Value>| match state {
        Some(Value::Int(state)) => state.to_string(),
        other => format!("{other:?}"),
    };
    let line = |row: &StateRow| {
        let (micros, start) = (row.seconds * 1e6, row.start.micros());
        format!("{} {start} {} {micros} {}", row.topic, state(&row.state), row.count)
    };
    found.unwrap().iter().map(line).collect()
}

#[test]
fn states_stand_until_the_next_one() {
    let bad = Quality::COMM_LOST;
    let stored = stored(&[
        entry(1, "a", 10, 1, Quality::GOOD),
        entry(1, "b", 5, 7, Quality::GOOD),
        entry(1, "a", 40, 0, Quality::GOOD),
        entry(2, "a", 60, 0, bad),
        entry(2, "a", 70, 1, Quality::GOOD),
        entry(2, "c", 75, 3, Quality::GOOD),
        entry(2, "d", 200, 4, Quality::GOOD),
    ]);
    let between = |from, to| HistoryQuery { from: Some(at(from)), to: Some(at(to)), ..all("#") };
    let found = states(&stored, between(20, 100));
    let expected = ["a 20 1 50 1", "a 20 0 20 1", "a 20 None 10 1", "b 20 7 80 0", "c 20 3 25 1"];
    assert_eq!(found, expected);
    // Of one time, the sample counts once.
    assert_eq!(states(&stored, between(10, 20)), ["a 10 1 10 1", "b 10 7 10 0"]);
    let buckets = HistoryQuery { every: Some(Duration::from_micros(50)), ..between(20, 100) };
    let found = states(&stored, HistoryQuery { topics: vec![Filter::new("a").unwrap()], ..buckets });
    assert_eq!(found, ["a 0 1 20 0", "a 0 0 10 1", "a 50 0 10 0", "a 50 None 10 1", "a 50 1 30 1"]);
    assert_eq!(states(&stored, HistoryQuery { limit: Some(1), ..between(20, 100) }), ["a 20 1 50 1"]);
    assert!(stored.source.reader().unwrap().states(all("#")).is_err());
    let many: Vec<Entry> = (0..1001).map(|n| entry(1, "a", n, n, Quality::GOOD)).collect();
    let many = self::stored(&many);
    let error = many.source.reader().unwrap().states(between(0, 5000)).unwrap().find_map(Result::err).unwrap();
    assert_eq!(error.to_string(), "a has more than 1000 different values in a bucket, expected a topic of states");
}

/// `time value` of each row.
fn shown(rows: &[Row]) -> Vec<String> {
    let value = |value: &Value| match value {
        Value::Text(text) => text.to_string(),
        Value::Float(x) => format!("{x:?}").to_lowercase(),
        Value::Int(i) => i.to_string(),
        other => format!("{other:?}"),
    };
    rows.iter().map(|row| format!("{} {}", row.point.time.micros(), value(&row.point.value))).collect()
}

#[test]
fn every_kind_of_value_comes_back() {
    let values = [
        Value::Null,
        Value::Bool(true),
        Value::Int(i64::MIN),
        Value::Float(59.98),
        Value::Float(-0.0),
        Value::Float(1e300),
        Value::Float(f64::NAN),
        Value::Float(f64::NEG_INFINITY),
        Value::Text("closed".into()),
        Value::Text("".into()),
        Value::Bytes([0, 255].into()),
        Value::Bool(false),
    ];
    let quality = Quality::AWAY.with(Quality::INITIAL);
    let mut entries: Vec<Entry> =
        (0..).zip(&values).map(|(time, value)| entry(1, "a", time, value.clone(), quality)).collect();
    let opaque = |micros, bytes: &'static [u8]| {
        let body = Body::Opaque(bytes::Bytes::from_static(bytes));
        Entry { seq: Seq(1), topic: Topic::new("x").unwrap(), time: at(micros), body }
    };
    entries.extend([opaque(1, b"on"), opaque(2, &[0xff])]);
    let stored = stored(&entries);
    let rows = stored.ask(all("a"));
    assert_eq!(rows.len(), values.len());
    for (row, value) in rows.iter().zip(&values) {
        assert_eq!(format!("{:?}", row.point.value), format!("{value:?}"));
        assert_eq!((row.point.quality, row.count), (quality, 1));
    }
    assert_eq!(shown(&stored.ask(all("x"))), ["1 on", "2 Bytes([255])"]);
}

#[test]
fn equal_samples_of_one_time_are_one() {
    let first = entry(1, "a", 1, 1, Quality::GOOD);
    let others = [
        entry(1, "b", 1, 1, Quality::GOOD),
        entry(1, "a", 2, 1, Quality::GOOD),
        entry(1, "a", 1, 2, Quality::GOOD),
        entry(1, "a", 1, 1.0, Quality::GOOD),
        entry(1, "a", 1, 1, Quality::AWAY),
    ];
    // In one record, in memory and in a chunk, in two chunks.
    let mut entries = vec![first.clone(), first.clone()];
    entries.extend(others.clone());
    entries.extend([first.clone(), first.clone()]);
    let mut stored = stored(&entries);
    assert_eq!(stored.ask(all("#")).len(), 6);
    stored.store.live.with(|heads| heads.seal_all());
    stored.store.append(&[first], Seq(3)).unwrap();
    assert_eq!(shown(&stored.ask(all("a"))), ["1 1", "1 2", "1 1.0", "1 1", "2 1"]);
    let every = Some(Duration::from_secs(1));
    let rows = stored.ask(HistoryQuery { every, aggregate: Aggregate::Count, ..all("a") });
    assert_eq!(shown(&rows), ["0 4"], "the bad one does not count");
}

fn ramp() -> Stored {
    let points = (0..3000).flat_map(|n| ["b/2", "b/1"].map(|topic| entry(1, topic, n * 10, n, Quality::GOOD)));
    let mut entries: Vec<Entry> = points.collect();
    entries.push(entry(1, "a", 0, 7, Quality::GOOD));
    stored(&entries)
}

#[test]
fn questions_select_by_topic_time_and_number() {
    let stored = ramp();
    let range = |from, to| HistoryQuery { from: Some(at(from)), to: Some(at(to)), ..all("b/1") };
    assert_eq!(shown(&stored.ask(range(20, 50))), ["20 2", "30 3", "40 4"]);
    assert_eq!(shown(&stored.ask(range(50, 20))), [""; 0]);
    assert_eq!(stored.ask(all("b/+")).len(), 6000);
    assert_eq!(stored.ask(HistoryQuery { limit: Some(2500), ..all("#") }).len(), 2500);
    assert_eq!(stored.ask(all("none")).len(), 0);
    let reader = stored.source.reader().unwrap();
    let names: Vec<String> = reader.topics(&Filter::new("#").unwrap()).unwrap().iter().map(|t| t.to_string()).collect();
    assert_eq!(names, ["a", "b/1", "b/2"]);
    let zero = HistoryQuery { every: Some(Duration::ZERO), ..all("a") };
    assert!(matches!(reader.query(zero), Err(tieline_store::StoreError::Question(_))));
}

#[test]
fn an_answer_goes_on_behind_any_row() {
    let mut entries: Vec<Entry> = (0..700).map(|n| entry(1, "b/1", n / 3, n, Quality::GOOD)).collect();
    entries.extend((0..2000).map(|n| entry(1, "b/2", n * 10, n, Quality::GOOD)));
    let stored = stored(&entries);
    for every in [None, Some(95)] {
        let query = HistoryQuery { every: every.map(Duration::from_micros), ..all("b/#") };
        let whole = stored.ask(query.clone());
        let mut pieces: Vec<Row> = Vec::new();
        loop {
            let after: Option<Place> = pieces.last().map(|row| row.place().to_string().parse().unwrap());
            let piece = stored.ask(HistoryQuery { after, limit: Some(101), ..query.clone() });
            if piece.is_empty() {
                break;
            }
            pieces.extend(piece);
        }
        assert_eq!(pieces, whole, "{every:?}");
    }
}

#[test]
fn buckets_stand_for_their_samples() {
    let stored = stored(&[
        entry(1, "a", -5, 100, Quality::GOOD),
        entry(1, "a", 10, 4, Quality::GOOD),
        entry(1, "a", 12, 2.5, Quality::STALE),
        entry(1, "a", 15, 1000, Quality::AWAY),
        entry(1, "a", 16, "text", Quality::GOOD),
        entry(1, "a", 18, 1, Quality::GOOD),
        entry(1, "a", 30, true, Quality::GOOD),
        entry(1, "a", 41, f64::NAN, Quality::GOOD),
    ]);
    let check = |aggregate: &str, expect: &[&str]| {
        let aggregate = Aggregate::of_word(aggregate).unwrap();
        let every = Some(Duration::from_micros(10));
        let rows = stored.ask(HistoryQuery { every, aggregate, from: Some(at(0)), ..all("a") });
        assert_eq!(shown(&rows), expect, "{aggregate:?}");
    };
    check("mean", &["10 2.5", "30 1.0"]);
    check("min", &["10 1", "30 Bool(true)"]);
    check("max", &["10 4", "30 Bool(true)"]);
    check("sum", &["10 7.5", "30 1.0"]);
    check("first", &["10 4", "30 Bool(true)", "40 nan"]);
    check("last", &["10 1", "30 Bool(true)", "40 nan"]);
    check("count", &["10 4", "30 1", "40 1"]);
    check("median", &["10 2.5", "30 1.0"]);
    // 4 for 2, 2.5 for 6, 1 for 2.
    check("time_weighted", &["10 2.5", "30 1.0"]);
    check("integral", &["10 2.5e-5", "30 1e-5"]);
}

#[test]
fn samples_come_in_order_of_time_however_many_there_are() {
    let points = (0..3000).flat_map(|n| ["b/2", "b/1"].map(|topic| entry(1, topic, n / 2, n, Quality::GOOD)));
    let mut entries: Vec<Entry> = points.collect();
    // A gap, and then more of one time than a slice holds.
    entries.extend((0..1500).map(|n| entry(1, &format!("c/{n:04}"), 90_000_000_000, n, Quality::GOOD)));
    let stored = stored(&entries);
    let key = |row: &Row| (row.place().time_us, row.topic.to_string(), row.number);
    let in_order = || HistoryQuery { order: Order::Time, from: Some(at(0)), ..all("#") };
    let whole = stored.ask(in_order());
    assert_eq!(whole.len(), entries.len());
    assert!(whole.is_sorted_by_key(key));
    let reader = stored.source.reader().unwrap();
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = ask(&reader, HistoryQuery { limit: Some(499), after, ..in_order() });
        after = page.last().map(|row| row.place());
        paged.extend(page);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paged, whole);
    let some = ["c/0001", "b/1", "b/#"].map(|filter| Filter::new(filter).unwrap()).to_vec();
    let within = HistoryQuery { to: Some(at(3)), order: Order::Time, ..HistoryQuery::of_several(some) };
    assert_eq!(
        stored.ask(within).iter().map(|row| row.topic.to_string()).collect::<String>(),
        "b/1b/1b/2b/2".repeat(3)
    );
    let buckets = HistoryQuery { every: Some(Duration::from_secs(1)), ..in_order() };
    assert!(matches!(reader.query(buckets), Err(tieline_store::StoreError::Question(_))));
}

#[test]
fn buckets_without_samples_are_filled() {
    let mut stored = stored(&[entry(1, "a", 15, 10, Quality::GOOD), entry(1, "a", 45, 40, Quality::GOOD)]);
    stored.store.append(&[entry(3, "a", 46, 99, Quality::AWAY)], Seq(3)).unwrap();
    let every = Some(Duration::from_micros(10));
    let ten = HistoryQuery { from: Some(at(0)), to: Some(at(65)), every, ..all("a") };
    let check = |fill, expect: &[&str]| {
        let rows = stored.ask(HistoryQuery { fill, ..ten.clone() });
        assert_eq!(shown(&rows), expect, "{fill:?}");
        let made = rows.iter().filter(|row| row.count == 0);
        made.for_each(|row| assert_eq!(row.point.quality.validity(), Validity::Uncertain));
    };
    check(Fill::None, &["10 10.0", "40 40.0"]);
    check(Fill::Null, &["0 Null", "10 10.0", "20 Null", "30 Null", "40 40.0", "50 Null", "60 Null"]);
    check(Fill::Previous, &["0 Null", "10 10.0", "20 10.0", "30 10.0", "40 40.0", "50 40.0", "60 40.0"]);
    check(Fill::Linear, &["0 Null", "10 10.0", "20 20.0", "30 30.0", "40 40.0", "50 Null", "60 Null"]);
    let starts: Option<std::sync::Arc<[Timestamp]>> = Some([0, 12, 13, 50].map(at).into());
    let calendar = HistoryQuery { every: None, starts, fill: Fill::Null, ..ten.clone() };
    let whole = stored.ask(calendar.clone());
    assert_eq!(shown(&whole), ["0 Null", "12 Null", "13 25.0", "50 Null"]);
    for (row, behind) in whole.iter().zip(1..) {
        let after = Some(row.place());
        assert_eq!(stored.ask(HistoryQuery { after, ..calendar.clone() }), whole[behind..], "{behind}");
    }
    let reader = stored.source.reader().unwrap();
    for wrong in [
        HistoryQuery { fill: Fill::Null, to: None, ..ten.clone() },
        HistoryQuery { fill: Fill::Linear, after: Some(whole[0].place()), ..ten },
    ] {
        assert!(matches!(reader.query(wrong), Err(tieline_store::StoreError::Question(_))));
    }
}

#[test]
fn a_value_stands_until_the_next() {
    const DAY: i64 = 86_400_000_000;
    let entries = [entry(1, "a", 3, 8, Quality::GOOD), entry(1, "a", 15, 0, Quality::GOOD)];
    let every = Some(Duration::from_micros(10));
    let query = HistoryQuery { every, aggregate: Aggregate::TimeWeighted, ..all("a") };
    for in_memory in [true, false] {
        let mut stored = stored(&entries);
        if !in_memory {
            stored.store.live.with(|heads| heads.seal_all());
            stored.store.append(&[], Seq(3)).unwrap();
        }
        assert_eq!(shown(&stored.ask(query.clone())), ["0 8.0", "10 4.0"]);
        assert_eq!(shown(&stored.ask(HistoryQuery { from: Some(at(5)), ..query.clone() })), ["10 4.0"]);
        let from_eleven = HistoryQuery { from: Some(at(11)), ..query.clone() };
        assert_eq!(shown(&stored.ask(from_eleven)), ["10 3.5555555555555554"]);
        // Days later, behind days without a number.
        let later = 9 * DAY;
        stored
            .store
            .append(
                &[entry(3, "a", 4 * DAY, "text", Quality::GOOD), entry(3, "a", later + 5, 4, Quality::GOOD)],
                Seq(3),
            )
            .unwrap();
        assert_eq!(
            shown(&stored.ask(HistoryQuery { from: Some(at(later)), ..query.clone() })),
            [format!("{later} 2.0")]
        );
    }
}

#[test]
fn old_samples_go() {
    let mut stored = ramp();
    let retention = Retention { age: Some(Duration::from_micros(10_000)), bytes: None };
    while stored.store.retain(&retention, at(30_000), 1_000).unwrap().more {}
    let rows = stored.ask(all("#"));
    assert_eq!((rows.len(), rows[0].point.time), (2_000, at(20_000)));
    assert_eq!(stored.store.retain(&retention, at(30_000), 1_000).unwrap().removed, 0);
    // All of it, in memory too; the file goes with its last chunk.
    while stored.store.retain(&retention, at(100_000_000), 1_000).unwrap().more {}
    assert!(stored.ask(all("#")).is_empty());
    let left = std::fs::read_dir(folder_of(stored.folder.path())).unwrap().map(|file| file.unwrap().file_name());
    let chunks: Vec<_> = left.filter(|name| name.to_string_lossy().ends_with(".chunks")).collect();
    assert!(chunks.is_empty(), "{chunks:?}");
    stored.store.append(&[entry(9, "a", 100_000_000, 1, Quality::GOOD)], Seq(9)).unwrap();
    assert_eq!(stored.ask(all("#")).len(), 1);
}

#[test]
fn edits_end_with_their_samples() {
    let mut stored = ramp();
    let edit = |topic: &str, (from, to): (i64, i64), kind: EditKind| NewEdit {
        topic: Topic::new(topic).unwrap(),
        kind,
        from: at(from),
        to: at(to),
        value: (kind == EditKind::Insert).then_some(Value::Int(7)),
        quality: None,
        text: (kind == EditKind::Annotation).then(|| "lightning".to_owned()),
        who: "anna".into(),
        made: at(30_000),
        why: "read by hand".into(),
    };
    let edits = [
        edit("a", (500, 501), EditKind::Insert),
        edit("a", (600, 700), EditKind::Annotation),
        edit("a", (19_000, 21_000), EditKind::Exclude),
        edit("a", (25_000, 25_001), EditKind::Insert),
        // Of a topic that has nothing else.
        edit("z", (500, 501), EditKind::Insert),
    ];
    for edit in edits {
        stored.source.make_edit(edit).unwrap();
    }
    let ended = |stored: &Stored| {
        let all = EditQuery {
            topics: Filter::new("#").unwrap(),
            from: at(i64::MIN),
            to: at(i64::MAX),
            who: None,
            kind: None,
            active: None,
            before: None,
            limit: 10,
        };
        let mut trail = stored.source.edits(&all).unwrap().0;
        trail.reverse();
        assert!(trail.iter().all(|record| record.edit.who == "anna" && record.edit.why == "read by hand"));
        let is_gone =
            |record: &EditRecord| record.is_erased && record.edit.value.is_none() && record.edit.text.is_none();
        assert!(trail.iter().all(|record| record.ended.is_some() == is_gone(record)), "{trail:?}");
        trail.iter().filter(|record| record.ended.is_some()).map(|record| record.id).collect::<Vec<_>>()
    };
    let retention = Retention { age: Some(Duration::from_micros(10_000)), bytes: None };
    while stored.store.retain(&retention, at(30_000), 1_000).unwrap().more {}
    assert_eq!(ended(&stored), [1, 2, 5]);
    // What counts against the limits is known at once.
    assert_eq!(stored.source.live().edits().counters(stored.folder.path()).0, 2);
    while stored.store.retain(&retention, at(2_000_000_000), 1_000).unwrap().more {}
    assert_eq!(ended(&stored), [1, 2, 3, 4, 5]);
}

#[test]
fn the_oldest_samples_go_beyond_a_size() {
    let mut store = stored(&[]);
    let values = (0..60_000_i64).map(|n| entry(3, "a", n * 1_000_000, (n * 7919 % 60_013) as f64 * 0.3, Quality::GOOD));
    store.store.append(&values.collect::<Vec<_>>(), Seq(3)).unwrap();
    store.store.flush().unwrap();
    let before = store.store.size().disk_bytes;
    let retention = Retention { age: None, bytes: Some(before * 2 / 3) };
    let mut steps = 0;
    while store.store.retain(&retention, at(60_000_000_000), 100_000).unwrap().more {
        steps += 1;
        assert!(steps < 200);
    }
    assert!(store.store.size().disk_bytes <= before * 2 / 3);
    let rows = store.ask(all("a"));
    assert_eq!(rows.last().unwrap().point.time, at(59_999_000_000));
    assert!(rows.len() > 20_000, "{}", rows.len());
}

#[test]
fn a_damaged_chunk_costs_itself() {
    let mut stored = stored(&[]);
    for part in 0..3 {
        let samples: Vec<Entry> =
            (0..100).map(|n| entry(part + 2, "a", part as i64 * 1000 + n, n, Quality::GOOD)).collect();
        stored.store.append(&samples, Seq(part + 2)).unwrap();
        stored.store.live.with(|heads| heads.seal_all());
        stored.store.append(&[], Seq(part + 2)).unwrap();
    }
    let file = folder_of(stored.folder.path()).join("0000000001.chunks");
    let whole = std::fs::read(&file).unwrap();
    let reader = stored.source.reader().unwrap();
    let check = |bytes: &[u8], expect: (usize, u64)| {
        std::fs::write(&file, bytes).unwrap();
        let mut rows = reader.query(all("a")).unwrap();
        let count = rows.by_ref().map(Result::unwrap).count();
        assert_eq!((count, rows.damaged()), expect, "{}", bytes.len());
    };
    check(&whole, (300, 0));
    let rows = reader.index.chunks(1, at(0), at(9999)).unwrap();
    let span = |row: &tieline_store::ChunkRow| (row.extent.offset, row.extent.offset + u64::from(row.extent.bytes));
    let chunks: Vec<(u64, u64)> = rows.iter().map(span).collect();
    // A flipped bit at every place, and a file that ends at every place.
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        // Between chunks are their names, which nobody needs while there is an index.
        let is_chunk = chunks.iter().any(|(start, end)| (*start..*end).contains(&(place as u64)));
        check(&bytes, if is_chunk { (200, 100) } else { (300, 0) });
    }
    // The last sample before a damaged chunk stands then.
    let offset = |n: usize| reader.index.chunks(1, at(0), at(9999)).unwrap()[n].extent.offset as usize + 20;
    let mut bytes = whole.clone();
    for (part, instant, stood) in [(2, 2050, 1099), (1, 1050, 99)] {
        bytes[offset(part)] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(latest(&reader, "a", instant), [("a".to_owned(), (stood, Value::Int(99), Quality::GOOD))]);
    }
    let ends: Vec<u64> = reader
        .index
        .chunks(1, at(0), at(9999))
        .unwrap()
        .iter()
        .map(|row| row.extent.offset + u64::from(row.extent.bytes))
        .collect();
    for place in 0..whole.len() {
        let kept = ends.iter().filter(|end| **end <= place as u64).count();
        check(&whole[..place], (kept * 100, 300 - kept as u64 * 100));
    }
    std::fs::remove_file(&file).unwrap();
    let mut rows = reader.query(HistoryQuery { every: Some(Duration::from_micros(1000)), ..all("a") }).unwrap();
    assert_eq!((rows.by_ref().count(), rows.damaged()), (3, 0), "summaries are in the index");
}

/// The file of a day that is closed.
fn day_file(data: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder_of(data)).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|end| end == "parquet")).unwrap()
}

#[test]
fn a_damaged_day_file_says_so_or_answers_what_it_had() {
    const HOUR: i64 = 3_600_000_000;
    let floats = (0..60).map(|n| entry(2, "a", n * 7 * 60_000_000, 0.1 * n as f64, Quality::GOOD));
    let integers = (0..30).map(|n| entry(2, "b", n * 11 * 60_000_000, n << 40, Quality::GOOD));
    let states = (0..30).map(|n| entry(2, "c", n * 13 * 60_000_000, n % 3 == 0, Quality::STALE));
    let texts = (0..8).map(|n| entry(2, "d", n * 60_000_000, format!("text {n}").as_str(), Quality::GOOD));
    let all_of_it: Vec<_> = floats.chain(integers).chain(states).chain(texts).collect();
    let mut stored = stored(&all_of_it);
    compact(&mut stored.store, at(30 * HOUR)).unwrap();
    let file = day_file(stored.folder.path());
    let whole = std::fs::read(&file).unwrap();
    let expect = stored.ask(all("#"));
    assert_eq!(expect.len(), 128);
    let mut damages = 0;
    let mut check = |bytes: &[u8], place: usize| {
        std::fs::write(&file, bytes).unwrap();
        let reader = stored.source.reader().unwrap();
        let mut rows = reader.query(all("#")).unwrap();
        let found: Vec<Row> = rows.by_ref().map(Result::unwrap).collect();
        let damaged = usize::try_from(rows.damaged()).unwrap();
        assert_eq!(found.len() + damaged, expect.len(), "{place} of {}", whole.len());
        assert!(found.iter().all(|row| expect.contains(row)), "{place} of {}: samples that nobody gave", whole.len());
        damages += damaged.min(1);
    };
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        check(&bytes, place);
    }
    for place in 0..whole.len() {
        check(&whole[..place], place);
    }
    check(&whole, whole.len());
    assert!(damages > whole.len());
}

/// What another program reads in day files: topic, time and value.
fn day_files(data: &Path) -> Vec<String> {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    let files = std::fs::read_dir(folder_of(data)).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "parquet")).collect();
    files.sort();
    let rows = |path| {
        let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect::<Vec<_>>()
    };
    files.into_iter().flat_map(rows).collect()
}

#[test]
fn closed_days_are_parquet_and_late_samples_join_them() {
    const HOUR: i64 = 3_600_000_000;
    let points = |topic: &'static str, hours: std::ops::Range<i64>| {
        let minutes = (hours.start * 60)..(hours.end * 60);
        minutes.map(move |n| entry(2, topic, n * 60_000_000, n, Quality::GOOD)).collect::<Vec<_>>()
    };
    let mut stored = stored(&[points("a", 0..40), points("b", 20..25)].concat());
    stored.store.append(&[entry(3, "b", 5, "text", Quality::STALE)], Seq(3)).unwrap();
    let whole = stored.ask(all("#"));
    let hourly = |stored: &Stored, aggregate| {
        stored.ask(HistoryQuery { every: Some(Duration::from_secs(3600)), aggregate, ..all("#") })
    };
    let sums = hourly(&stored, Aggregate::Sum);
    // The first day is closed, the second is not.
    compact(&mut stored.store, at(30 * HOUR)).unwrap();
    assert_eq!((stored.ask(all("#")), hourly(&stored, Aggregate::Sum)), (whole.clone(), sums.clone()));
    let found = day_files(stored.folder.path());
    assert_eq!(found.len(), 24 * 60 + 4 * 60 + 1);
    assert!(
        found[1].contains("topic: \"a\"") && found[1].contains("value: 1.0, integer: 1, text: null"),
        "{}",
        found[1]
    );
    let text = found.iter().find(|row| row.contains("text: \"text\"")).unwrap();
    assert!(text.contains("topic: \"b\"") && text.contains("quality: \"uncertain\""), "{text}");
    let reader = stored.source.reader().unwrap();
    let rows_of = |topic| reader.index.chunks(topic, at(0), at(24 * HOUR)).unwrap();
    assert_eq!((rows_of(1).len(), rows_of(1)[0].samples, rows_of(1)[0].day), (1, 24 * 60, Some(0)));
    // A late sample: in a chunk at first, merged later.
    stored.store.append(&[entry(4, "a", 3 * HOUR + 7, 9, Quality::GOOD)], Seq(4)).unwrap();
    compact(&mut stored.store, at(30 * HOUR)).unwrap();
    assert_eq!(stored.ask(all("a")).len(), 40 * 60 + 1);
    stored.store.live.with(|heads| heads.seal_all());
    stored.store.append(&[], Seq(4)).unwrap();
    compact(&mut stored.store, at(35 * HOUR)).unwrap();
    assert_eq!(day_files(stored.folder.path()).len(), found.len());
    // A reader that began before the file was replaced goes on in the new one.
    let mut begun = reader.query(all("a")).unwrap();
    begun.next().unwrap().unwrap();
    let mut buckets = reader
        .query(HistoryQuery {
            every: Some(Duration::from_secs(7200)),
            aggregate: Aggregate::Percentile(50),
            ..all("a")
        })
        .unwrap();
    buckets.next().unwrap().unwrap();
    compact(&mut stored.store, at(37 * HOUR)).unwrap();
    assert_eq!(day_files(stored.folder.path()).len(), found.len() + 1);
    assert_eq!((begun.by_ref().map(Result::unwrap).count(), begun.damaged()), (40 * 60, 0));
    assert_eq!((buckets.by_ref().map(|row| row.unwrap().count).sum::<u64>(), buckets.damaged()), (38 * 60 + 1, 0));
    // Retention removes the day with its file.
    let retention = Retention { age: Some(Duration::from_secs(3600)), bytes: None };
    while stored.store.retain(&retention, at(25 * HOUR), 1_000_000).unwrap().more {}
    assert_eq!((day_files(stored.folder.path()).len(), stored.ask(all("a")).len()), (0, 16 * 60));
    // A restart finds what there is.
    let Stored { folder, source, store } = stored;
    drop(store);
    let mut store = Columns::open(folder.path(), source.live().clone(), MEMORY, FILE).unwrap();
    compact(&mut store, at(60 * HOUR)).unwrap();
    assert_eq!(ask(&source.reader().unwrap(), all("a")).len(), 16 * 60);
}

#[test]
fn where_the_index_says_nonsense_of_a_day_its_samples_are_read() {
    const HOUR: i64 = 3_600_000_000;
    let minutes: Vec<_> = (0..24 * 60).map(|n| entry(2, "a", n * 60_000_000 + 7, n, Quality::GOOD)).collect();
    let mut stored = stored(&minutes);
    compact(&mut stored.store, at(30 * HOUR)).unwrap();
    let hourly = |aggregate| HistoryQuery { every: Some(Duration::from_secs(3600)), aggregate, ..all("a") };
    let told = |stored: &Stored| {
        let (rows, sums) = (stored.ask(all("a")), stored.ask(hourly(Aggregate::Sum)));
        let from_noon = HistoryQuery { from: Some(at(12 * HOUR)), ..hourly(Aggregate::Integral) };
        (rows, sums, stored.ask(from_noon), latest(&stored.source.reader().unwrap(), "a", 5 * HOUR))
    };
    let expect = told(&stored);
    assert_eq!((expect.0.len(), expect.1.len()), (24 * 60, 24));
    let index = rusqlite::Connection::open(folder_of(stored.folder.path()).join(tieline_store::INDEX_FILE)).unwrap();
    for damage in ["substr(summary, 1, 500)", "x'ff'", "x''"] {
        assert_eq!(index.execute(&format!("UPDATE chunks SET summary = {damage}"), []).unwrap(), 1);
        assert_eq!(told(&stored), expect, "{damage}");
    }
}

#[test]
fn an_hour_of_a_closed_day_is_read_alone() {
    const HOUR: i64 = 3_600_000_000;
    let value = |n: i64| (n as f64 * 0.37).sin();
    let dense = (0..24 * 360).map(|n| entry(2, "a", n * 10_000_000, value(n), Quality::GOOD));
    let sparse = (0..24).map(|n| entry(2, "b", n * HOUR, n, Quality::GOOD));
    let mut stored = stored(&dense.chain(sparse).collect::<Vec<_>>());
    compact(&mut stored.store, at(30 * HOUR)).unwrap();
    let summaries = |stored: &Stored| {
        let rows = stored.source.reader().unwrap().index.chunks(1, at(0), at(24 * HOUR)).unwrap();
        rows.into_iter().map(|row| row.summary).collect::<Vec<_>>()
    };
    let is_alone = |summary: &[u8]| super::parts::hours(summary).unwrap().iter().all(|part| part.check.is_some());
    assert!(is_alone(&summaries(&stored)[0]));
    let told = |stored: &Stored| {
        let reader = stored.source.reader().unwrap();
        for hour in 0..24 {
            let n = hour * 360 + 100;
            let expect = (n * 10_000_000, Value::Float(value(n)), Quality::GOOD);
            assert_eq!(latest(&reader, "a", n * 10_000_000 + 7), [("a".to_owned(), expect)]);
            let (from, to) = (at(n * 10_000_000), at((n + 400) * 10_000_000));
            let rows = stored.ask(HistoryQuery { from: Some(from), to: Some(to), ..all("a") });
            assert_eq!(rows.len() as i64, 400.min(24 * 360 - n));
        }
    };
    told(&stored);
    // The page of another hour is damaged: what is asked for can be read still. Its own: that is said.
    let file = day_file(stored.folder.path());
    let whole = std::fs::read(&file).unwrap();
    let (mut answers, mut losses) = (0, 0);
    for place in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x10;
        std::fs::write(&file, &bytes).unwrap();
        let reader = stored.source.reader().unwrap();
        let mut found = reader.at(&Filter::new("a").unwrap(), at(23 * HOUR + 1000), |_| true).unwrap();
        match found.next().map(Result::unwrap) {
            Some((_, sample, _)) if sample.time == at(23 * HOUR) => {
                assert_eq!(sample.datum.into_value(), Value::Float(value(23 * 360)), "{place}");
                answers += 1;
            }
            _ => {
                assert!(found.damaged() > 0, "{place}");
                losses += 1;
            }
        }
    }
    assert!(answers > 0 && losses > 0, "{answers} and {losses}");
    std::fs::write(&file, &whole).unwrap();
    // An earlier release did not write the numbers of hours.
    let index = rusqlite::Connection::open(folder_of(stored.folder.path()).join(tieline_store::INDEX_FILE)).unwrap();
    let cut =
        format!("UPDATE chunks SET summary = substr(summary, 1, length(summary) - {}) WHERE topic_id = 1", 24 * 8);
    assert_eq!(index.execute(&cut, []).unwrap(), 1);
    assert!(!is_alone(&summaries(&stored)[0]));
    told(&stored);
}

#[test]
fn a_store_that_is_none_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Columns::open(folder.path(), Live::default(), MEMORY, FILE).map(drop);
    open().unwrap();
    // Without its index, what is there is not taken for rubbish.
    let mut store = Columns::open(folder.path(), Live::default(), MEMORY, FILE).unwrap();
    store.append(&[entry(1, "a", 1, 1, Quality::GOOD)], Seq(1)).unwrap();
    store.live.with(|heads| heads.seal_all());
    store.flush().unwrap();
    drop(store);
    for part in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(folder_of(folder.path()).join(part));
    }
    let error = open().unwrap_err();
    assert!(error.to_string().contains("index.db is lost; tieline history repair"), "{error}");
    let error = HistorySource::new(folder.path()).reader().map(drop).unwrap_err();
    assert_eq!(error.to_string(), format!("the history store is damaged: {}", super::INDEX_IS_LOST));
    assert!(folder_of(folder.path()).join("0000000001.chunks").exists());
    // Nor with that of another store.
    let other = tempfile::tempdir().unwrap();
    drop(Columns::open(other.path(), Live::default(), MEMORY, FILE).unwrap());
    std::fs::copy(folder_of(other.path()).join("index.db"), folder_of(folder.path()).join("index.db")).unwrap();
    let error = open().unwrap_err();
    assert!(error.to_string().contains("0000000001.chunks is not of this index"), "{error}");
    assert!(folder_of(folder.path()).join("0000000001.chunks").exists());
    std::fs::write(folder_of(folder.path()).join("index.db"), [7; 4096]).unwrap();
    let error = open().unwrap_err();
    assert!(matches!(error, StoreError::Failed(_)) && error.to_string().contains("is damaged"), "{error}");
    assert!(HistoryReader::open(folder.path()).is_err());
}

/// As an earlier release wrote it.
fn older(data: &Path, topics: usize, samples: usize) {
    let db = rusqlite::Connection::open(data.join(OLDER_FILE)).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.execute_batch(
        "CREATE TABLE topics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
         CREATE TABLE samples (topic_id INTEGER NOT NULL, time_us INTEGER NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL,
             value, quality INTEGER NOT NULL, PRIMARY KEY (topic_id, time_us, seq)) WITHOUT ROWID;
         CREATE TABLE state (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
         INSERT INTO state VALUES ('journal', 42); BEGIN;",
    )
    .unwrap();
    for topic in 0..topics {
        db.execute("INSERT INTO topics VALUES (?, ?)", (topic as i64, format!("t/{topic}"))).unwrap();
        let mut insert = db.prepare_cached("INSERT INTO samples VALUES (?, ?, 0, 1, ?, 0)").unwrap();
        for n in 0..samples {
            insert.execute((topic as i64, n as i64 * 60_000_000, n as i64)).unwrap();
        }
    }
    db.execute_batch("COMMIT").unwrap();
}

#[test]
fn what_an_earlier_release_stored_is_moved_and_a_move_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    older(folder.path(), 4, 5000);
    let source = HistorySource::new(folder.path());
    let open = || Columns::open(folder.path(), source.live().clone(), MEMORY, FILE).unwrap();
    let mut store = open();
    assert_eq!(store.position(), Seq(42));
    // What comes in meanwhile is stored, too.
    store.append(&[entry(43, "t/1", -7, 7, Quality::GOOD)], Seq(43)).unwrap();
    let step = store.migrate().unwrap().unwrap();
    assert_eq!((step.topics, step.topics_done, step.samples), (4, 0, 5000));
    store.migrate().unwrap().unwrap();
    drop(store);
    let mut store = open();
    store.append(&[entry(43, "t/1", -7, 7, Quality::GOOD)], Seq(43)).unwrap();
    store.caught_up();
    let mut steps = 0;
    while store.migrate().unwrap().is_some() {
        steps += 1;
    }
    assert_eq!(steps, 2);
    let rows = ask(&source.reader().unwrap(), all("#"));
    assert_eq!(rows.len(), 20_001);
    let values = ask(&source.reader().unwrap(), all("t/3"));
    assert!(values.iter().zip(0..).all(|(row, n)| row.point.value == Value::Int(n)));
    assert!(!folder.path().join(OLDER_FILE).exists() && folder.path().join("history.db.moved").exists());
    assert_eq!((store.migrate().unwrap(), store.position()), (None, Seq(42)));
    drop(store);
    assert_eq!(open().position(), Seq(42));
}

/// A folder whose calls fail from a certain one on, the first of them half done: a process that is killed there.
struct Dying {
    folder: FolderStorage,
    calls_left: Arc<AtomicU32>,
}

impl Dying {
    fn is_dead(&self) -> Result<(), StorageError> {
        let left = self.calls_left.load(Ordering::Relaxed);
        self.calls_left.store(left.saturating_sub(1), Ordering::Relaxed);
        if left > 0 { Ok(()) } else { Err(StorageError { kind: StorageErrorKind::Io, message: "dead".into() }) }
    }
}

impl Storage for Dying {
    fn list(&mut self) -> Result<Vec<String>, StorageError> {
        self.folder.list()
    }
    fn len(&mut self, name: &str) -> Result<u64, StorageError> {
        self.folder.len(name)
    }
    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, StorageError> {
        self.folder.read(name, offset, out)
    }
    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        let dead = self.is_dead();
        if dead.is_err() {
            let _ = self.folder.append(name, &bytes[..bytes.len() / 2]);
        }
        dead.and_then(|()| self.folder.append(name, bytes))
    }
    fn sync(&mut self, name: &str) -> Result<(), StorageError> {
        self.is_dead().and_then(|()| self.folder.sync(name))
    }
    fn truncate(&mut self, name: &str, len: u64) -> Result<(), StorageError> {
        self.is_dead().and_then(|()| self.folder.truncate(name, len))
    }
    fn remove(&mut self, name: &str) -> Result<(), StorageError> {
        self.is_dead().and_then(|()| self.folder.remove(name))
    }
    fn erase(&mut self, name: &str, offset: u64, bytes: u64) -> Result<(), StorageError> {
        self.is_dead().and_then(|()| self.folder.erase(name, offset, bytes))
    }
}

/// Whether a file of the history has bytes.
fn holds(data: &Path, words: &[u8]) -> bool {
    let files = std::fs::read_dir(folder_of(data)).unwrap();
    let mut bytes = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
    bytes.any(|bytes| bytes.windows(words.len()).any(|found| found == words))
}

/// Samples of two topics, those of one with secrets between others.
fn secrets() -> Vec<Entry> {
    let mut entries: Vec<Entry> = (0..600).map(|n| entry(1, "a", n, "before-or-after", Quality::GOOD)).collect();
    for (place, entry) in entries.iter_mut().enumerate().filter(|(place, _)| (100..500).contains(place)) {
        let text = format!("secret-{place}");
        entry.body = Body::Point(Point { value: Value::Text(text.into()), quality: Quality::GOOD, time: entry.time });
    }
    entries.extend((0..600).map(|n| entry(1, "b", n, 1234.5 + n as f64, Quality::GOOD)));
    entries
}

fn of(topic: &str, from: i64, to: i64) -> Deletion {
    Deletion { topics: Filter::new(topic).unwrap(), from: at(from), to: at(to) }
}

#[test]
fn what_is_deleted_is_in_no_file() {
    for is_closed in [false, true] {
        let mut stored = stored(&secrets());
        let data = stored.folder.path().to_owned();
        stored.store.live.with(|heads| heads.seal_all());
        stored.store.append(&[], Seq(2)).unwrap();
        assert!(holds(&data, b"secret-") && holds(&data, b"before-or-after"));
        assert!(holds(&data, &1234.5_f64.to_le_bytes()));
        let now = at(DAY_US * 3);
        if is_closed {
            // Late samples, and those of another day in the same file of chunks: it stays.
            stored.store.append(&[entry(2, "c", DAY_US * 3, 1, Quality::GOOD)], Seq(2)).unwrap();
            stored.store.live.with(|heads| heads.seal_all());
            compact(&mut stored.store, now).unwrap();
            assert_eq!((day_files(&data).len(), holds(&data, b"secret-")), (1200, true));
            stored.store.append(&[entry(3, "a", 300, "secret-late", Quality::GOOD)], Seq(3)).unwrap();
        }
        let late = usize::from(is_closed);
        for (topic, from, to, samples) in [("a", 100, 500, 400 + late), ("b", 0, 600, 600)] {
            let done = delete(&mut stored.store, &of(topic, from, to), now).unwrap();
            assert_eq!((done.samples, done.damaged), (samples as u64, 0), "{is_closed}");
        }
        // Neither in chunks, nor in what the index says of them, nor in chunks that became a day file.
        assert!(!holds(&data, b"secret-") && !holds(&data, &1234.5_f64.to_le_bytes()));
        assert!(is_closed || holds(&data, b"before-or-after"));
        assert_eq!(day_files(&data).len(), if is_closed { 200 } else { 0 });
        let reader = stored.source.reader().unwrap();
        let left = ask(&reader, all("a"));
        assert_eq!((left.len(), ask(&reader, all("#")).len()), (200, 200 + late));
        assert!(left.iter().all(|row| row.point.value == Value::Text("before-or-after".into())));
        let seen = reader.verify(&mut |_, _| {}).unwrap();
        assert!(seen.is_whole() && seen.unchecked_files == 0, "{seen:?}");
        // Of a day all can be deleted: its file goes.
        delete(&mut stored.store, &of("#", 0, DAY_US), now).unwrap();
        assert_eq!((day_files(&data).len(), ask(&reader, all("#")).len()), (0, late));
    }
}

/// A deletion is killed at each call of the storage: what is not meant is all there, and once it was asked for again, what is meant is
/// in no file.
#[test]
fn a_deletion_that_is_killed_is_finished_when_it_is_asked_for_again() {
    let now = at(DAY_US * 3);
    for calls in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let source = HistorySource::new(folder.path());
        let mut world = World {
            folder,
            source,
            calls_left: Arc::default(),
            store: None,
            journal: secrets(),
            edits: Vec::new(),
            deleted: HashSet::new(),
            last: 3,
            now,
        };
        // The first day is closed, with late samples; another is not.
        world.start();
        world.act(&Act::Compact);
        let late = (0..600).map(|n| entry(2, "a", 7000 + n, "late-secret", Quality::GOOD));
        let open = (0..600).map(|n| entry(3, "a", 3 * DAY_US + n * 7_000_000, "other-secret", Quality::GOOD));
        for entries in [late.collect::<Vec<_>>(), open.collect()] {
            world.store.as_mut().unwrap().append(&entries, entries[0].seq).unwrap();
            world.journal.extend(entries);
            world.act(&Act::SealAll);
        }
        assert_eq!(day_files(world.folder.path()).len(), 1200);
        let before = world.expect();
        let what = of("a", 100, 3 * DAY_US + 2_000_000_000);
        world.calls_left.store(calls, Ordering::Relaxed);
        let is_killed = delete(world.store.as_mut().unwrap(), &what, now).is_err();
        world.calls_left.store(u32::MAX, Ordering::Relaxed);
        if is_killed {
            world.start();
        }
        let rows = |world: &World, topic: &str| -> Vec<i64> {
            ask(&world.source.reader().unwrap(), all(topic)).into_iter().map(|row| row.point.time.micros()).collect()
        };
        let times = |topic: &str| before[topic].iter().map(|(time, ..)| *time).collect::<Vec<_>>();
        let is_meant = |time: &i64| (100..3 * DAY_US + 2_000_000_000).contains(time);
        let found = rows(&world, "a");
        let others = |times: &[i64]| times.iter().copied().filter(|time| !is_meant(time)).collect::<Vec<_>>();
        assert_eq!((others(&found), rows(&world, "b")), (others(&times("a")), times("b")), "killed at {calls}");
        assert!(found.iter().all(|time| times("a").contains(time)));
        delete(world.store.as_mut().unwrap(), &what, now).unwrap();
        assert_eq!(rows(&world, "a"), others(&times("a")), "killed at {calls}");
        let data = world.folder.path();
        assert!(!holds(data, b"secret-") && !holds(data, b"late-secret"), "killed at {calls}");
        assert!(day_files(data).iter().all(|row| !row.contains("secret")), "killed at {calls}");
        let seen = world.source.reader().unwrap().verify(&mut |_, _| {}).unwrap();
        assert!(seen.is_whole(), "killed at {calls}: {seen:?}");
        let files = std::fs::read_dir(folder_of(data)).unwrap().filter(|file| {
            let name = file.as_ref().unwrap().file_name();
            !name.to_string_lossy().starts_with("index.db")
        });
        assert_eq!(files.count() as u64, seen.files + seen.day_files, "killed at {calls}");
        if !is_killed {
            assert!(calls > 4, "{calls}");
            return;
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    /// A record, by topic, time and value.
    Record(Vec<(u8, i64, i8)>),
    SealAll,
    Relieve,
    /// Closed days are written.
    Compact,
    /// Samples of a topic, from a time on and for so long, are deleted.
    Delete(u8, i64, i64),
    /// An edit of a topic, from a time on and for so long; a value for those that give one.
    Edit(u8, EditKind, i64, i64, i8),
    /// One of the edits is undone.
    Undo(usize),
    /// The process ends, and another starts.
    Restart,
    /// The disk fails from so many calls on, until the process was started again.
    DieAfter(u32),
}

fn act() -> impl Strategy<Value = Act> {
    // Times close to the boundaries of hours and days, and everywhere else.
    let near = prop_oneof![3 => -40..40_i64, 2 => 3_600_000_000 - 20..3_600_000_020_i64, 1 => 86_400_000_000 - 20..86_400_000_020_i64];
    let time = prop_oneof![8 => near, 1 => -300_000_000_000..300_000_000_000_i64];
    let length = prop_oneof![4 => 1..30_i64, 1 => 0..4_000_000_000_i64];
    let kind = prop::sample::select(EditKind::WORDS.iter().map(|(_, kind)| *kind).collect::<Vec<_>>());
    prop_oneof![
        8 => prop::collection::vec((0..3_u8, time.clone(), -3..3_i8), 0..30).prop_map(Act::Record),
        4 => (0..3_u8, kind, time, length, 10..20_i8)
            .prop_map(|(topic, kind, from, length, value)| Act::Edit(topic, kind, from, length, value)),
        1 => (0..20_usize).prop_map(Act::Undo),
        2 => Just(Act::SealAll),
        1 => Just(Act::Relieve),
        2 => Just(Act::Compact),
        1 => (0..3_u8, -50..3_600_000_030_i64, prop_oneof![1..100_i64, 0..90_000_000_000_i64])
            .prop_map(|(topic, from, length)| Act::Delete(topic, from, length)),
        1 => Just(Act::Restart),
        1 => (0..6_u32).prop_map(Act::DieAfter),
    ]
}

/// Samples as they are shown, and the edit that changed each last.
type Marked = Vec<((i64, Value, Quality), Option<u64>)>;

/// A store, and the journal that a node would have beside it.
struct World {
    folder: TempDir,
    source: HistorySource,
    calls_left: Arc<AtomicU32>,
    store: Option<Columns<Dying>>,
    journal: Vec<Entry>,
    edits: Vec<EditRecord>,
    /// What was deleted of it.
    deleted: HashSet<usize>,
    last: u64,
    now: Timestamp,
}

/// Deletes until all is done.
fn delete<S: Storage + Send>(store: &mut Columns<S>, what: &Deletion, now: Timestamp) -> Result<Deleted, StoreError> {
    let mut deleting = Deleting::default();
    loop {
        match store.delete(what, &mut deleting, now)? {
            Progress::More => {}
            Progress::Waits => std::thread::yield_now(),
            Progress::Done => return Ok(deleting.done),
        }
    }
}

/// Closes days until there is none left.
fn compact<S: Storage + Send>(store: &mut Columns<S>, now: Timestamp) -> Result<(), StoreError> {
    while store.compact(now)? {
        std::thread::yield_now();
    }
    Ok(())
}

const NAMES: [&str; 3] = ["a", "b/c", "é"];

impl World {
    fn start(&mut self) {
        self.store = None;
        self.calls_left.store(u32::MAX, Ordering::Relaxed);
        let folder = FolderStorage::open(&folder_of(self.folder.path())).unwrap();
        let storage = Dying { folder, calls_left: Arc::clone(&self.calls_left) };
        let live = self.source.live().clone();
        let mut store = Columns::over(storage, self.folder.path(), live, 60_000, FILE).unwrap();
        let behind: Vec<Entry> = self.journal.iter().filter(|entry| entry.seq > store.position()).cloned().collect();
        for records in behind.chunk_by(|one, next| one.seq.0 / 3 == next.seq.0 / 3) {
            store.append(records, records.last().unwrap().seq).unwrap();
        }
        store.caught_up();
        self.store = Some(store);
    }

    /// Says false where the process died of it, and was started again.
    fn act(&mut self, act: &Act) -> bool {
        let Some(store) = &mut self.store else {
            self.start();
            return false;
        };
        let done = match act {
            Act::Record(samples) => {
                self.last += 1;
                let entries = samples.iter().map(|(topic, time, value)| {
                    let value = if *value == 2 { Value::Text("t".into()) } else { Value::Int((*value).into()) };
                    let quality = if *time % 5 == 0 { Quality::AWAY } else { Quality::GOOD };
                    entry(self.last, NAMES[usize::from(*topic)], *time, value, quality)
                });
                let entries: Vec<Entry> = entries.collect();
                // The journal has it before the store.
                self.journal.extend(entries.clone());
                store.append(&entries, Seq(self.last))
            }
            Act::SealAll => {
                store.live.with(|heads| heads.seal_all());
                store.append(&[], Seq(self.last))
            }
            Act::Relieve => store.relieve_journal(),
            Act::Compact => {
                self.now = self.now.later(Duration::from_secs(7 * 3600));
                compact(store, self.now)
            }
            Act::DieAfter(calls) => {
                self.calls_left.store(*calls, Ordering::Relaxed);
                Ok(())
            }
            Act::Delete(topic, from, length) => {
                let topic = NAMES[usize::from(*topic)];
                self.delete(topic, *from, from + length);
                return true;
            }
            Act::Restart => {
                self.start();
                return true;
            }
            Act::Edit(topic, kind, from, length, value) => {
                self.edit((*topic, *kind), (*from, *length), *value);
                return true;
            }
            Act::Undo(place) => {
                self.undo(*place);
                return true;
            }
        };
        if done.is_err() {
            self.start();
        }
        done.is_ok()
    }

    fn edit(&mut self, (topic, kind): (u8, EditKind), (from, length): (i64, i64), value: i8) {
        let length = if kind == EditKind::Insert { 1 } else { length.max(1) };
        let is_even = value % 2 == 0;
        let quality = match kind {
            EditKind::Quality => Some(if is_even { Quality::AWAY } else { Quality::STALE }),
            EditKind::Value | EditKind::Insert => is_even.then(|| Quality::GOOD.with_validity(Validity::Bad)),
            EditKind::Exclude | EditKind::Annotation => None,
        };
        let new = NewEdit {
            topic: Topic::new(NAMES[usize::from(topic)]).unwrap(),
            kind,
            from: at(from),
            to: at(from + length),
            value: matches!(kind, EditKind::Value | EditKind::Insert).then(|| Value::Int(value.into())),
            quality,
            text: (kind == EditKind::Annotation).then(|| "said".to_owned()),
            who: "anna".into(),
            made: self.now,
            why: "a test".into(),
        };
        match self.source.make_edit(new.clone()) {
            Ok(record) => {
                assert_eq!((record.id, &record.edit), (self.edits.len() as u64 + 1, &new));
                self.edits.push(record);
            }
            // The topic has no history yet.
            Err(EditError::Wrong(words)) => assert!(words.contains("has no history"), "{words}"),
            Err(error) => panic!("{error}"),
        }
    }

    fn undo(&mut self, place: usize) {
        let end = Ended { who: "ben".into(), time: self.now, why: "it was right".into() };
        let done = self.source.undo_edit(place as u64 + 1, end.clone());
        match (self.edits.get_mut(place), done) {
            (Some(edit), Ok(record)) => {
                assert!(edit.ended.replace(end).is_none());
                assert_eq!(record, *edit);
            }
            (Some(edit), Err(EditError::Over(..))) => assert!(edit.ended.is_some()),
            (None, Err(EditError::Unknown(_))) => {}
            (_, done) => panic!("{done:?}"),
        }
    }

    /// Deletes until it is done, whatever dies meanwhile.
    fn delete(&mut self, topic: &str, from: i64, to: i64) {
        let meant =
            |(_, entry): &(usize, &Entry)| entry.topic.as_str() == topic && (from..to).contains(&entry.time.micros());
        self.deleted.extend(self.journal.iter().enumerate().filter(meant).map(|(place, _)| place));
        let what = Deletion { topics: Filter::new(topic).unwrap(), from: at(from), to: at(to) };
        let mut deleting = Deleting::default();
        while let Some(store) = &mut self.store {
            match store.delete(&what, &mut deleting, self.now) {
                Ok(Progress::More) => {}
                Ok(Progress::Waits) => std::thread::yield_now(),
                Ok(Progress::Done) => {
                    let is_within =
                        |edit: &NewEdit| edit.topic.as_str() == topic && edit.from >= at(from) && edit.to <= at(to);
                    for record in self.edits.iter_mut().filter(|record| is_within(&record.edit)) {
                        (record.is_erased, record.edit.value, record.edit.text) = (true, None, None);
                        let why = format!("samples were deleted from {} to {}", at(from), at(to));
                        record.ended.get_or_insert(Ended { who: "history delete".into(), time: self.now, why });
                    }
                    break;
                }
                Err(_) => {
                    self.start();
                    deleting = Deleting::default();
                }
            }
        }
    }

    /// All samples of a topic as they are shown, and the edit that changed each last.
    fn expect_marked(&self) -> BTreeMap<String, Marked> {
        let mut topics: BTreeMap<String, Marked> = self
            .expect_raw()
            .into_iter()
            .map(|(topic, all)| (topic, all.into_iter().map(|sample| (sample, None)).collect()))
            .collect();
        for EditRecord { id, edit, .. } in self.edits.iter().filter(|record| record.ended.is_none()) {
            let (from, to) = (edit.from.micros(), edit.to.micros());
            let all = topics.entry(edit.topic.to_string()).or_default();
            match edit.kind {
                EditKind::Annotation => {}
                EditKind::Exclude => all.retain(|((time, ..), _)| !(from..to).contains(time)),
                EditKind::Insert => {
                    let sample = (from, edit.value.clone().unwrap(), edit.quality.unwrap_or_default());
                    all.push((sample, Some(*id)));
                    all.sort_by_key(|((time, ..), _)| *time);
                }
                EditKind::Value | EditKind::Quality => {
                    for (sample, by) in all.iter_mut().filter(|((time, ..), _)| (from..to).contains(time)) {
                        sample.1 = edit.value.clone().unwrap_or(sample.1.clone());
                        sample.2 = edit.quality.unwrap_or(sample.2);
                        *by = Some(*id);
                    }
                }
            }
        }
        topics.retain(|_, all| !all.is_empty());
        topics
    }

    fn expect(&self) -> BTreeMap<String, Vec<(i64, Value, Quality)>> {
        let plain = |all: Marked| all.into_iter().map(|(sample, _)| sample).collect();
        self.expect_marked().into_iter().map(|(topic, all)| (topic, plain(all))).collect()
    }

    /// All samples of a topic as they were recorded, settled.
    fn expect_raw(&self) -> BTreeMap<String, Vec<(i64, Value, Quality)>> {
        let mut topics: BTreeMap<String, Vec<(i64, Value, Quality)>> = BTreeMap::new();
        for (_, entry) in self.journal.iter().enumerate().filter(|(place, _)| !self.deleted.contains(place)) {
            let Body::Point(point) = &entry.body else { panic!("points only") };
            let all = topics.entry(entry.topic.to_string()).or_default();
            let sample = (entry.time.micros(), point.value.clone(), point.quality);
            if !all.contains(&sample) {
                all.push(sample);
            }
        }
        topics.values_mut().for_each(|all| all.sort_by_key(|(time, ..)| *time));
        topics
    }
}

fn latest(reader: &HistoryReader, filter: &str, micros: i64) -> Vec<(String, (i64, Value, Quality))> {
    let found = reader.at(&Filter::new(filter).unwrap(), at(micros), |_| true).unwrap();
    let plain = |sample: Sample| (sample.time.micros(), sample.datum.into_value(), sample.quality);
    found.map(Result::unwrap).map(|(topic, sample, _)| (topic.to_string(), plain(sample))).collect()
}

fn naive_buckets(samples: &[(i64, Value, Quality)], every: i64, aggregate: Aggregate) -> Vec<(i64, String)> {
    let mut buckets: BTreeMap<i64, Vec<&(i64, Value, Quality)>> = BTreeMap::new();
    for sample in samples.iter().filter(|(_, _, quality)| quality.validity() != Validity::Bad) {
        buckets.entry(sample.0.div_euclid(every) * every).or_default().push(sample);
    }
    let of = |samples: Vec<&(i64, Value, Quality)>| -> Option<Value> {
        let numbers = || samples.iter().filter_map(|(_, value, _)| value.as_f64());
        Some(match aggregate {
            Aggregate::Sum => Value::Float(numbers().reduce(|all, number| all + number)?),
            Aggregate::Max => {
                Value::Int(numbers().fold(None, |most: Option<f64>, x| Some(most.map_or(x, |m| m.max(x))))? as i64)
            }
            Aggregate::Last => samples.last()?.1.clone(),
            Aggregate::Count => Value::Int(samples.len() as i64),
            Aggregate::Percentile(50) => {
                let mut numbers: Vec<f64> = numbers().collect();
                numbers.sort_by(f64::total_cmp);
                let middle = numbers.len().checked_sub(1)? as f64 / 2.0;
                let [low, high] = [middle.floor(), middle.ceil()].map(|place| numbers[place as usize]);
                Value::Float(low + (high - low) * middle.fract())
            }
            _ => panic!("no oracle"),
        })
    };
    buckets.into_iter().filter_map(|(start, samples)| Some((start, format!("{:?}", of(samples)?)))).collect()
}

/// Each number for as long as it stands, up to the end of its bucket.
fn naive_time_weighted(samples: &[(i64, Value, Quality)], (from, to): (i64, i64), every: i64) -> Vec<(i64, String)> {
    let numbers: Vec<(i64, f64)> = samples
        .iter()
        .filter(|(.., quality)| quality.validity() != Validity::Bad)
        .filter_map(|(time, value, _)| Some((*time, value.as_f64()?)))
        .collect();
    let within = numbers.iter().filter(|(time, _)| (from..to).contains(time));
    let mut starts: Vec<i64> = within.map(|(time, _)| time.div_euclid(every) * every).collect();
    starts.dedup();
    let bucket = |start: i64| {
        let (begin, end) = (start.max(from), (start + every).min(to));
        let standing = numbers.iter().rfind(|(time, _)| *time < begin).map(|(_, number)| (begin, *number));
        let own = numbers.iter().copied().filter(|(time, _)| (begin..end).contains(time));
        let all: Vec<(i64, f64)> = standing.into_iter().chain(own.clone()).collect();
        let ends = all.iter().skip(1).map(|(time, _)| *time).chain([end]);
        let parts: Vec<(f64, f64)> = all
            .iter()
            .zip(ends)
            .map(|((time, number), end)| ((end - time) as f64 * number, (end - time) as f64))
            .collect();
        let (area, width) = parts.iter().fold((0.0, 0.0), |(area, width), part| (area + part.0, width + part.1));
        let mean = own.clone().map(|(_, number)| number).sum::<f64>() / own.count() as f64;
        (start, format!("{:?}", Value::Float(if width > 0.0 { area / width } else { mean })))
    };
    starts.into_iter().map(bucket).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn whatever_happens_the_store_answers_as_its_samples_do(
        acts in prop::collection::vec(act(), 1..25),
        (from, length) in (-60..60_i64, prop_oneof![1..120_i64, Just(3_600_000_100)]),
        every in prop_oneof![1..40_i64, Just(3_600_000_000)],
        // Whether the store is open in this process when it is read.
        open in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let source = HistorySource::new(folder.path());
        let mut world = World { folder, source, calls_left: Arc::default(), store: None, journal: Vec::new(), edits: Vec::new(), deleted: HashSet::new(), last: 0, now: at(400_000_000_000) };
        world.start();
        for act in &acts {
            world.act(act);
        }
        if !open {
            // Everything is in chunks, for there is no real journal to read the rest of.
            world.start();
            world.act(&Act::SealAll);
            world.store = None;
        }
        let reader = world.source.reader().unwrap();
        let seen = reader.verify(&mut |_, _| {}).unwrap();
        prop_assert!(seen.is_whole(), "{:?}", seen);
        for instant in [from, from + length, -50_000_000_000, 86_400_000_001] {
            let last = |samples: &Vec<(i64, Value, Quality)>| samples.iter().rfind(|(time, ..)| *time <= instant).cloned();
            let expect: Vec<_> = world.expect().into_iter().filter_map(|(topic, all)| Some((topic, last(&all)?))).collect();
            prop_assert_eq!(latest(&reader, "#", instant), expect, "at {}", instant);
        }
        let mut in_order: Vec<_> =
            world.expect().into_iter().flat_map(|(topic, all)| all.into_iter().map(move |sample| (sample.0, topic.clone(), sample.1))).collect();
        in_order.sort_by_key(|(time, ..)| *time);
        let rows = ask(&reader, HistoryQuery { order: Order::Time, ..all("#") });
        let rows: Vec<_> = rows.into_iter().map(|row| (row.point.time.micros(), row.topic.to_string(), row.point.value)).collect();
        prop_assert_eq!(rows, in_order);
        let trail = EditQuery {
            topics: Filter::new("#").unwrap(), from: at(i64::MIN), to: at(i64::MAX), who: None, kind: None, active: None, before: None,
            limit: 1000,
        };
        let mut trail = world.source.edits(&trail).unwrap().0;
        trail.reverse();
        prop_assert_eq!(&trail, &world.edits);
        // What was recorded stays as it is.
        let raw = world.source.reader().unwrap().or_raw(true);
        let mut recorded: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for row in ask(&raw, all("#")) {
            prop_assert_eq!(row.edited, None);
            recorded.entry(row.topic.to_string()).or_default().push((row.point.time.micros(), row.point.value, row.point.quality));
        }
        prop_assert_eq!(recorded, world.expect_raw());
        for (topic, marked) in world.expect_marked() {
            let marks: Vec<Option<u64>> = ask(&reader, all(&topic)).iter().map(|row| row.edited).collect();
            prop_assert_eq!(&marks, &marked.iter().map(|(_, by)| *by).collect::<Vec<_>>());
            let samples: Vec<_> = marked.into_iter().map(|(sample, _)| sample).collect();
            let query = || all(&topic);
            let rows = |query| ask(&reader, query).into_iter().map(|row| (row.point.time.micros(), row.point.value, row.point.quality));
            prop_assert_eq!(rows(query()).collect::<Vec<_>>(), samples.clone());
            for instant in [from, from + length, 0, 86_400_000_000] {
                let last = samples.iter().rfind(|(time, ..)| *time <= instant).cloned();
                let found = reader.at(&Filter::new(&topic).unwrap(), at(instant), |_| true).unwrap().next();
                let found = found.map(|found| found.unwrap().1);
                let found = found.map(|sample| (sample.time.micros(), sample.datum.into_value(), sample.quality));
                prop_assert_eq!(found, last, "at {}", instant);
            }
            let (from, to) = (from, from + length);
            let standing = samples.clone();
            let within: Vec<_> = samples.into_iter().filter(|(time, ..)| (from..to).contains(time)).collect();
            let ranged = || HistoryQuery { from: Some(at(from)), to: Some(at(to)), ..query() };
            prop_assert_eq!(rows(ranged()).collect::<Vec<_>>(), within.clone());
            let weighted = HistoryQuery { every: Some(Duration::from_micros(every.unsigned_abs())), aggregate: Aggregate::TimeWeighted, ..ranged() };
            let found: Vec<_> = rows(weighted).map(|(start, value, _)| (start, format!("{value:?}"))).collect();
            prop_assert_eq!(found, naive_time_weighted(&standing, (from, to), every), "time weighted");
            for aggregate in [Aggregate::Sum, Aggregate::Max, Aggregate::Last, Aggregate::Count, Aggregate::Percentile(50)] {
                let asked = HistoryQuery { every: Some(Duration::from_micros(every.unsigned_abs())), aggregate, ..ranged() };
                let found: Vec<_> = rows(asked).map(|(start, value, _)| (start, format!("{value:?}"))).collect();
                prop_assert_eq!(found, naive_buckets(&within, every, aggregate), "{:?}", aggregate);
            }
        }
    }
}
