//! The store as its users see it.

use crate::{
    Aggregate, Format, HistoryQuery, Order, Place, Retention, Row, STORE_FILE, Sample, Store, StoreError, StoreReader,
    export,
};
use proptest::prelude::*;
use std::time::Duration;
use tempfile::TempDir;
use tieline_core::{Body, Filter, Point, Quality, Timestamp, Topic, Value};

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn sample(topic: &str, micros: i64, value: impl Into<Value>, quality: Quality) -> Sample {
    let point = Point { value: value.into(), quality, time: at(micros) };
    Sample { topic: Topic::new(topic).unwrap(), time: at(micros), body: Body::Point(point), again: false }
}

fn stored(samples: &[Sample]) -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join(STORE_FILE)).unwrap();
    assert!(store.insert(samples, 1).unwrap());
    (folder, store)
}

fn all(filter: &str) -> HistoryQuery {
    HistoryQuery::of(Filter::new(filter).unwrap())
}

fn ask(folder: &TempDir, query: HistoryQuery) -> Vec<Row> {
    StoreReader::open(folder.path()).unwrap().query(query).unwrap().collect::<Result<_, _>>().unwrap()
}

/// `time value` of each row.
fn shown(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| format!("{} {}", row.point.time.micros(), crate::export::plain(&row.point.value))).collect()
}

#[test]
fn every_kind_of_value_comes_back() {
    let values = [
        Value::Null,
        Value::Bool(true),
        Value::Bool(false),
        Value::Int(i64::MIN),
        Value::Int(0),
        Value::Float(59.98),
        Value::Float(60.0),
        Value::Float(-0.0),
        Value::Float(0.0),
        Value::Float(1e300),
        Value::Float(140_737_488_355_328.0),
        Value::Float(f64::NAN),
        Value::Float(f64::NEG_INFINITY),
        Value::Text("closed".into()),
        Value::Text("".into()),
        Value::Bytes([0, 255].into()),
    ];
    let quality = Quality::AWAY.with(Quality::INITIAL);
    let samples: Vec<Sample> = (0..).zip(&values).map(|(t, v)| sample("a", t, v.clone(), quality)).collect();
    let (folder, _store) = stored(&samples);
    let rows = ask(&folder, all("a"));
    for (row, value) in rows.iter().zip(&values) {
        assert_eq!(format!("{:?}", row.point.value), format!("{value:?}"));
        assert_eq!((row.point.quality, row.count), (quality, 1));
    }
    assert_eq!(rows.len(), values.len());
}

#[test]
fn payloads_as_published_are_text_or_bytes() {
    let opaque = |micros, bytes: &'static [u8]| Sample {
        topic: Topic::new("x").unwrap(),
        time: at(micros),
        body: Body::Opaque(bytes::Bytes::from_static(bytes)),
        again: false,
    };
    let (folder, _store) = stored(&[opaque(1, b"on"), opaque(2, &[0xff])]);
    assert_eq!(shown(&ask(&folder, all("#"))), ["1 on", "2 ff"]);
}

#[test]
fn a_batch_is_stored_once() {
    let batch = [sample("a", 1, 1, Quality::GOOD)];
    let (folder, mut store) = stored(&batch);
    assert!(!store.insert(&batch, 1).unwrap());
    assert_eq!(store.position().unwrap(), 1);
    drop(store);
    let mut store = Store::open(&folder.path().join(STORE_FILE)).unwrap();
    assert!(!store.insert(&batch, 1).unwrap());
    assert!(store.insert(&batch, 2).unwrap());
    assert_eq!((store.position().unwrap(), ask(&folder, all("a")).len()), (2, 2));
}

#[test]
fn what_may_be_stored_already_is_stored_once() {
    let again = |of: &Sample| Sample { again: true, ..of.clone() };
    let open = Quality::GOOD;
    let opaque = |bytes: &'static [u8]| Sample {
        body: Body::Opaque(bytes::Bytes::from_static(bytes)),
        ..sample("o", 1, 0, open)
    };
    // Those that differ in one thing from the first are others.
    let first =
        [sample("a", 1, 1, open), opaque(b"on"), sample("n", 1, f64::NAN, open), sample("z", 1, Value::Null, open)];
    let others = [
        sample("b", 1, 1, open),
        sample("a", 2, 1, open),
        sample("a", 1, 2, open),
        sample("a", 1, 1.0, open),
        sample("a", 1, 1, Quality::AWAY),
        opaque(b"off"),
    ];
    let (folder, mut store) = stored(&first);
    let count = |expect: usize| assert_eq!(ask(&folder, all("#")).len(), expect);
    assert!(store.insert(&first.each_ref().map(again), 2).unwrap());
    count(4);
    assert!(store.insert(&others.each_ref().map(again), 3).unwrap());
    count(10);
    // Of one batch, and whatever else is stored at the time.
    let repeated: Vec<Sample> = first.iter().chain(&others).map(again).collect();
    assert!(store.insert(&repeated, 4).unwrap());
    count(10);
    let new = sample("c", 1, 1, open);
    assert!(store.insert(&[new.clone(), again(&new), new.clone()], 5).unwrap());
    count(12);
}

#[test]
fn a_full_disk_stores_nothing_of_a_batch_and_passes() {
    let (folder, mut store) = stored(&[sample("a", 0, 0, Quality::GOOD)]);
    let batch: Vec<Sample> = (1..5000).map(|n| sample(&format!("t{n}"), n, 1.5, Quality::GOOD)).collect();
    store.db.pragma_update(None, "max_page_count", 20).unwrap();
    for _ in 0..3 {
        assert!(matches!(store.insert(&batch, 2), Err(StoreError::Full)));
        assert_eq!((store.position().unwrap(), ask(&folder, all("#")).len()), (1, 1));
    }
    store.db.pragma_update(None, "max_page_count", 1_000_000).unwrap();
    assert!(store.insert(&batch, 2).unwrap());
    assert_eq!((store.position().unwrap(), ask(&folder, all("#")).len()), (2, 5000));
}

#[test]
fn samples_of_one_moment_are_kept_in_order() {
    let (folder, mut store) = stored(&[1, 0, 1].map(|v| sample("breaker", 5, v, Quality::GOOD)));
    store.insert(&[sample("breaker", 5, 2, Quality::GOOD)], 2).unwrap();
    assert_eq!(shown(&ask(&folder, all("breaker"))), ["5 1", "5 0", "5 1", "5 2"]);
    assert_eq!(shown(&ask(&folder, HistoryQuery { order: Order::Down, limit: Some(2), ..all("#") })), ["5 2", "5 1"]);
}

fn ramp() -> (TempDir, Store) {
    let mut samples = Vec::new();
    for n in 0..3000 {
        samples.push(sample("b/2", n * 10, n, Quality::GOOD));
        samples.push(sample("b/1", n * 10, n, Quality::GOOD));
    }
    samples.push(sample("a", 0, 7, Quality::GOOD));
    stored(&samples)
}

#[test]
fn questions_select_by_topic_time_and_number() {
    let (folder, _store) = ramp();
    let range = |from, to| HistoryQuery { from: Some(at(from)), to: Some(at(to)), ..all("b/1") };
    assert_eq!(shown(&ask(&folder, range(20, 50))), ["20 2", "30 3", "40 4"]);
    assert_eq!(shown(&ask(&folder, HistoryQuery { order: Order::Down, ..range(20, 50) })), ["40 4", "30 3", "20 2"]);
    assert_eq!(shown(&ask(&folder, range(50, 20))), [""; 0]);
    assert_eq!(ask(&folder, all("b/+")).len(), 6000);
    assert_eq!(ask(&folder, HistoryQuery { limit: Some(2500), ..all("#") }).len(), 2500);
    assert_eq!(ask(&folder, all("none")).len(), 0);
    let reader = StoreReader::open(folder.path()).unwrap();
    let names: Vec<String> = reader.topics(&Filter::new("#").unwrap()).unwrap().iter().map(|t| t.to_string()).collect();
    assert_eq!(names, ["a", "b/1", "b/2"]);
    assert!(matches!(
        reader.query(HistoryQuery { every: Some(Duration::ZERO), ..all("a") }),
        Err(StoreError::Question(_))
    ));
}

#[test]
fn an_answer_goes_on_behind_any_row() {
    let (folder, _store) = ramp();
    for (order, every) in [(Order::Up, None), (Order::Down, None), (Order::Up, Some(95)), (Order::Down, Some(95))] {
        let query = HistoryQuery { order, every: every.map(Duration::from_micros), ..all("b/#") };
        let whole = ask(&folder, query.clone());
        let mut pieces: Vec<Row> = Vec::new();
        loop {
            let after: Option<Place> = pieces.last().map(|row| row.place.to_string().parse().unwrap());
            let piece = ask(&folder, HistoryQuery { after, limit: Some(701), ..query.clone() });
            if piece.is_empty() {
                break;
            }
            pieces.extend(piece);
        }
        assert_eq!(pieces, whole, "{order:?} {every:?}");
    }
}

fn check(aggregate: &str, with_bad: bool, expect: &[&str]) {
    let (folder, _store) = stored(&[
        sample("a", -5, 100, Quality::GOOD),
        sample("a", 10, 4, Quality::GOOD),
        sample("a", 12, 2.5, Quality::STALE),
        sample("a", 15, 1000, Quality::AWAY),
        sample("a", 16, "text", Quality::GOOD),
        sample("a", 18, 1, Quality::GOOD),
        sample("a", 30, true, Quality::GOOD),
        sample("a", 41, f64::NAN, Quality::GOOD),
    ]);
    let aggregate = Aggregate::from_name(aggregate).unwrap();
    let every = Some(Duration::from_micros(10));
    let query = HistoryQuery { every, aggregate, with_bad, from: Some(at(0)), ..all("a") };
    let mut rows = shown(&ask(&folder, query.clone()));
    assert_eq!(rows, expect, "{aggregate:?}");
    if aggregate != Aggregate::TimeWeighted {
        rows.reverse();
        assert_eq!(shown(&ask(&folder, HistoryQuery { order: Order::Down, ..query })), rows, "{aggregate:?} down");
    }
}

#[test]
fn buckets_stand_for_their_samples() {
    check("mean", false, &["10 2.5", "30 1.0"]);
    check("mean", true, &["10 251.875", "30 1.0"]);
    check("min", false, &["10 1", "30 true"]);
    check("max", false, &["10 4", "30 true"]);
    check("max", true, &["10 1000", "30 true"]);
    check("sum", false, &["10 7.5", "30 1.0"]);
    check("first", false, &["10 4", "30 true", "40 nan"]);
    check("last", false, &["10 1", "30 true", "40 nan"]);
    check("count", false, &["10 4", "30 1", "40 1"]);
    check("count", true, &["10 5", "30 1", "40 1"]);
    // 4 for 2, 2.5 for 6, 1 for 2.
    check("time_weighted", false, &["10 2.5", "30 1.0"]);
}

#[test]
fn a_value_stands_until_the_next() {
    let (folder, _store) = stored(&[sample("a", 3, 8, Quality::GOOD), sample("a", 15, 0, Quality::GOOD)]);
    let every = Some(Duration::from_micros(10));
    let query = HistoryQuery { every, aggregate: Aggregate::TimeWeighted, ..all("a") };
    assert_eq!(shown(&ask(&folder, query.clone())), ["0 8.0", "10 4.0"]);
    assert_eq!(shown(&ask(&folder, HistoryQuery { from: Some(at(5)), ..query.clone() })), ["10 4.0"]);
    assert_eq!(shown(&ask(&folder, HistoryQuery { from: Some(at(11)), ..query })), ["10 3.5555555555555554"]);
}

#[test]
fn buckets_carry_the_reasons_of_their_samples() {
    let (folder, _store) = stored(&[sample("a", 1, 1, Quality::STALE), sample("a", 2, 3, Quality::LOCAL_FORCED)]);
    let rows = ask(&folder, HistoryQuery { every: Some(Duration::from_secs(1)), ..all("a") });
    assert_eq!((rows[0].point.quality, rows[0].count), (Quality::STALE.with(Quality::LOCAL_FORCED), 2));
}

#[test]
fn old_samples_go() {
    let (folder, mut store) = ramp();
    let retention = Retention { age: Some(Duration::from_micros(10_000)), bytes: None };
    let step = store.retain(&retention, at(30_000), 1_000).unwrap();
    assert!(step.more && step.removed >= 1_000, "{step:?}");
    while store.retain(&retention, at(30_000), 1_000).unwrap().more {}
    let rows = ask(&folder, all("#"));
    assert_eq!((rows.len(), rows[0].point.time), (2_000, at(20_000)));
    assert_eq!(store.retain(&retention, at(30_000), 1_000).unwrap().removed, 0);
}

#[test]
fn the_oldest_samples_go_beyond_a_size() {
    let (folder, mut store) = ramp();
    let before = store.bytes().unwrap();
    let retention = Retention { age: None, bytes: Some(before / 2) };
    let mut steps = 0;
    while store.retain(&retention, at(30_000), 100_000).unwrap().more {
        steps += 1;
        assert!(steps < 200);
    }
    assert!(store.bytes().unwrap() <= before / 2);
    let rows = ask(&folder, all("b/1"));
    assert_eq!(rows.last().unwrap().point.time, at(29_990));
    assert!(rows.len() > 500, "{}", rows.len());
}

#[test]
fn a_newer_store_is_refused() {
    let (folder, store) = stored(&[]);
    drop(store);
    let path = folder.path().join(STORE_FILE);
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(Store::open(&path), Err(StoreError::Newer(99, 1))));
    assert!(matches!(StoreReader::open(folder.path()), Err(StoreError::Newer(99, 1))));
    std::fs::write(&path, [7; 5000]).unwrap();
    assert!(matches!(Store::open(&path), Err(StoreError::Damaged(_))));
    let nothing = tempfile::tempdir().unwrap();
    assert!(StoreReader::open(nothing.path()).is_err());
}

fn exported(folder: &TempDir, format: &str) -> Vec<u8> {
    let reader = StoreReader::open(folder.path()).unwrap();
    let mut out = Vec::new();
    let count = export(reader.query(all("#")).unwrap(), Format::from_name(format).unwrap(), &mut out).unwrap();
    assert_eq!(count, 4);
    out
}

fn for_export() -> (TempDir, Store) {
    stored(&[
        sample("site/p", 0, 59.98, Quality::GOOD),
        sample("site/p", 1_500_000, i64::MAX, Quality::AWAY.with(Quality::STALE)),
        sample("site/q", 0, "a \"b\", c", Quality::GOOD),
        sample("site/q", 1, Value::Null, Quality::INITIAL),
    ])
}

#[test]
fn rows_are_written_as_text() {
    let (folder, _store) = for_export();
    let text = |format| String::from_utf8(exported(&folder, format)).unwrap();
    assert_eq!(
        text("csv"),
        "topic,time,value,quality,why,count\n\
         site/p,1970-01-01T00:00:00.000Z,59.98,good,,1\n\
         site/p,1970-01-01T00:00:01.500Z,9223372036854775807,bad,away stale,1\n\
         site/q,1970-01-01T00:00:00.000Z,\"a \"\"b\"\", c\",good,,1\n\
         site/q,1970-01-01T00:00:00.000001Z,null,bad,initial,1\n"
    );
    assert_eq!(
        text("table"),
        "topic   time                                       value  quality\n\
         site/p  1970-01-01T00:00:00.000Z                   59.98  good\n\
         site/p  1970-01-01T00:00:01.500Z     9223372036854775807  bad away stale\n\
         site/q  1970-01-01T00:00:00.000Z                a \"b\", c  good\n\
         site/q  1970-01-01T00:00:00.000001Z                 null  bad initial\n"
    );
    let json: serde_json::Value = serde_json::from_str(&text("json")).unwrap();
    assert_eq!(json[1]["why"][0], "away");
    assert_eq!(json[2]["v"], "a \"b\", c");
    assert_eq!((&json[3]["topic"], &json[3]["count"]), (&"site/q".into(), &1.into()));
}

#[test]
fn a_spreadsheet_computes_nothing_of_an_export() {
    let (folder, _store) = stored(&[
        sample("=site", 0, "=HYPERLINK(\"x\")", Quality::GOOD),
        sample("site/p", 0, -59.98, Quality::GOOD),
        sample("site/p", 1, "-59.98", Quality::GOOD),
        sample("site/q", 0, "@SUM(A1)", Quality::GOOD),
    ]);
    assert_eq!(
        String::from_utf8(exported(&folder, "csv")).unwrap(),
        "topic,time,value,quality,why,count\n\
         '=site,1970-01-01T00:00:00.000Z,\"'=HYPERLINK(\"\"x\"\")\",good,,1\n\
         site/p,1970-01-01T00:00:00.000Z,-59.98,good,,1\n\
         site/p,1970-01-01T00:00:00.000001Z,-59.98,good,,1\n\
         site/q,1970-01-01T00:00:00.000Z,'@SUM(A1),good,,1\n"
    );
}

#[test]
fn parquet_says_what_the_rows_say() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    let (folder, _store) = for_export();
    let bytes = bytes::Bytes::from(exported(&folder, "parquet"));
    let reader = SerializedFileReader::new(bytes).unwrap();
    let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    assert_eq!(rows.len(), 4);
    assert!(rows[0].contains("topic: \"site/p\"") && rows[0].contains("value: 59.98, text: null"), "{}", rows[0]);
    assert!(rows[1].contains("text: \"9223372036854775807\", quality: \"bad\", why: 1536"), "{}", rows[1]);
    assert!(rows[3].contains("value: null, text: null, quality: \"bad\""), "{}", rows[3]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn what_is_stored_is_answered(
        samples in prop::collection::vec((0u8..4, -50i64..50, -5i64..5), 0..200), batches in 1usize..5,
        from in -60i64..60, to in -60i64..60, every in 1i64..30,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join(STORE_FILE)).unwrap();
        let topics = ["a", "b/c", "b/d", "é"];
        let samples: Vec<(usize, i64, i64)> = samples.into_iter().map(|(n, t, v)| (n.into(), t, v)).collect();
        for (position, batch) in (1..).zip(samples.chunks(samples.len() / batches + 1)) {
            let batch: Vec<Sample> = batch.iter().map(|(n, t, v)| sample(topics[*n], *t, *v, Quality::GOOD)).collect();
            store.insert(&batch, position).unwrap();
        }
        let mut expect: Vec<_> = samples.iter().filter(|(_, t, _)| (from..to).contains(t)).copied().collect();
        expect.sort_by_key(|(n, t, _)| (*n, *t));
        let query = HistoryQuery { from: Some(at(from)), to: Some(at(to)), ..all("#") };
        let plain: Vec<_> = ask(&folder, query.clone()).into_iter()
            .map(|row| (row.topic.to_string(), row.point.time.micros(), row.point.value)).collect();
        let wanted: Vec<_> = expect.iter().map(|(n, t, v)| (topics[*n].to_owned(), *t, Value::Int(*v))).collect();
        prop_assert_eq!(plain, wanted);

        let width = Some(Duration::from_micros(every.cast_unsigned()));
        let sums = ask(&folder, HistoryQuery { every: width, aggregate: Aggregate::Sum, ..query });
        let mut buckets = std::collections::BTreeMap::new();
        for (n, t, v) in &expect {
            *buckets.entry((topics[*n].to_owned(), t.div_euclid(every) * every)).or_insert(0.0) += *v as f64;
        }
        let sums: Vec<_> = sums.into_iter().map(|row| ((row.topic.to_string(), row.point.time.micros()), row.point.value)).collect();
        let wanted: Vec<_> = buckets.into_iter().map(|(key, sum)| (key, Value::Float(sum))).collect();
        prop_assert_eq!(sums, wanted);
    }
}
