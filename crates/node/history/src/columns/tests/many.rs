//! Questions about many topics, which several threads answer; and days of few samples.

use super::super::in_order::{InOrder, Worker, WorkerOf};
use super::super::listing::Recorded;
use super::*;
use std::num::NonZero;
use tieline_store::StoreError as FileError;

const HOUR: i64 = 3_600_000_000;
const TOPICS: i64 = 3000;

fn name(topic: i64) -> String {
    format!("t/{topic:04}")
}

/// Three samples of each topic; a third of all in memory once the day is closed.
fn many() -> Vec<Entry> {
    let sample = |n: i64, topic: i64| entry(2, &name(topic), n * 7 * HOUR + topic, n * 10_000 + topic, Quality::GOOD);
    let closed = (0..3).flat_map(|n| (0..TOPICS).map(move |topic| (n, topic)));
    closed.map(|(n, topic)| sample(n, topic)).collect()
}

#[test]
fn several_threads_answer_what_one_does() {
    let mut stored = stored(&many());
    let instant = 7 * HOUR + TOPICS / 2;
    let expect: Vec<_> = (0..TOPICS)
        .map(|topic| {
            let n = i64::from(topic <= TOPICS / 2);
            (name(topic), (n * 7 * HOUR + topic, Value::Int(n * 10_000 + topic), Quality::GOOD))
        })
        .collect();
    let hourly = HistoryQuery { every: Some(Duration::from_secs(3600)), aggregate: Aggregate::Mean, ..all("t/#") };
    let check = |stored: &Stored| {
        assert_eq!(latest(&stored.source.reader().unwrap(), "t/#", instant), expect);
        let rows = stored.ask(hourly.clone());
        assert_eq!(rows.len() as i64, TOPICS * 3);
        let limit = HistoryQuery { limit: Some(2000), ..hourly.clone() };
        assert_eq!(stored.ask(limit)[..], rows[..2000]);
        for (row, place) in rows.iter().zip(0..) {
            let (topic, n) = (place / 3, place % 3);
            assert_eq!((row.topic.to_string(), row.point.time), (name(topic), at(n * 7 * HOUR)));
            assert_eq!(row.point.value, Value::Float((n * 10_000 + topic) as f64));
        }
    };
    check(&stored);
    compact(&mut stored.store, at(30 * HOUR)).unwrap();
    check(&stored);
    // The store is closed: the journal is read, which has nothing here.
    stored.store.live.close();
    check(&stored);
}

#[test]
fn an_answer_that_nobody_takes_ends_its_threads() {
    let mut stored = stored(&many());
    compact(&mut stored.store, at(30 * HOUR)).unwrap();
    let reader = stored.source.reader().unwrap();
    let mut latest = reader.at(&Filter::new("t/#").unwrap(), at(30 * HOUR), |_| true).unwrap();
    assert_eq!(latest.by_ref().take(2000).count(), 2000);
    drop(latest);
}

/// Says the names of its topics, and fails or panics at some.
struct Names {
    group: Vec<Recorded>,
}

impl Worker for Names {
    type Part = String;

    fn begin(&mut self, mut group: Vec<Recorded>) {
        group.reverse();
        self.group = group;
    }

    fn part(&mut self) -> Result<Option<String>, FileError> {
        let Some(Recorded { topic, .. }) = self.group.pop() else { return Ok(None) };
        match &*topic {
            "fails" => Err(FileError::Question("so it is")),
            "panics" => panic!("so it is"),
            name => Ok(Some(name.to_owned())),
        }
    }

    fn damaged(&self) -> u64 {
        0
    }
}

fn names(_: &HistoryReader) -> Result<WorkerOf<'_, String>, FileError> {
    Ok(Box::new(Names { group: Vec::new() }))
}

#[test]
fn parts_come_in_the_order_of_the_topics_and_no_end_is_taken_for_another() {
    let stored = stored(&[entry(1, "a", 1, 1, Quality::GOOD)]);
    let reader = stored.source.reader().unwrap();
    let ask = |groups: &[&[&str]], threads| {
        let recorded = |name: &&str| Recorded { topic: Topic::new(name).unwrap(), number: None };
        let groups = groups.iter().map(|group| group.iter().map(recorded).collect()).collect();
        let mut parts = InOrder::start(&reader, groups, NonZero::new(threads).unwrap(), names).unwrap();
        std::iter::from_fn(|| match parts.part() {
            Ok(part) => part,
            Err(error) => Some(error.to_string()),
        })
        .take(12)
        .collect::<Vec<_>>()
        .join(" ")
    };
    for threads in 1..5 {
        let groups: &[&[&str]] = &[&["a", "b", "c", "d"], &[], &["e"], &["f", "g"], &["h"]];
        assert_eq!(ask(groups, threads), "a b c d e f g h", "{threads}");
    }
    assert!(ask(&[&["a"], &["b", "fails", "c"], &["d"]], 2).starts_with("a b so it is"));
    assert!(ask(&[&["a"], &["b", "panics", "c"], &["d"]], 2).starts_with("a b the history store failed: a thread"));
}

#[test]
fn a_store_that_is_closed_leaves_no_thread_that_writes_a_day() {
    let of_day = (0..4_000).map(|n| entry(2, "a", n * 1_000_000, n, Quality::GOOD)).collect::<Vec<_>>();
    let Stored { folder, source, store } = stored(&of_day);
    let days = || {
        let names = std::fs::read_dir(folder_of(folder.path())).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| [".part", ".parquet"].iter().any(|end| name.to_string_lossy().ends_with(end))).count()
    };
    drop(store);
    let open = || Columns::open(folder.path(), source.live().clone(), MEMORY, FILE);
    for _ in 0..20 {
        let mut store = open().expect("what is left of the one before is removed");
        store.append(&[], Seq(2)).unwrap();
        store.caught_up();
        assert!(store.compact(at(30 * HOUR)).unwrap(), "a day is being written");
        let held = store.compaction.as_ref().unwrap().held();
        drop(store);
        assert_eq!((held.strong_count(), days()), (0, 0), "a thread that writes, and files of days");
    }
    let mut store = open().unwrap();
    store.append(&of_day, Seq(2)).unwrap();
    store.caught_up();
    compact(&mut store, at(30 * HOUR)).unwrap();
    assert_eq!((days(), ask(&source.reader().unwrap(), all("a")).len()), (1, 4_000));
}

#[test]
fn a_day_of_few_samples_is_in_the_index_too() {
    let few = (0..10).map(|n| entry(2, "a", n * HOUR, n, Quality::GOOD));
    let mut stored = stored(&few.collect::<Vec<_>>());
    compact(&mut stored.store, at(30 * HOUR)).unwrap();
    let told = |stored: &Stored| {
        let hourly = HistoryQuery { every: Some(Duration::from_secs(7200)), aggregate: Aggregate::Sum, ..all("a") };
        let part = HistoryQuery { from: Some(at(2 * HOUR)), to: Some(at(5 * HOUR)), ..all("a") };
        let instants = [0, 4 * HOUR + 1, 20 * HOUR].map(|time| latest(&stored.source.reader().unwrap(), "a", time));
        (stored.ask(all("a")), stored.ask(hourly), stored.ask(part), instants)
    };
    let expect = told(&stored);
    assert_eq!((expect.0.len(), expect.1.len(), expect.2.len()), (10, 5, 3));
    let file = day_file(stored.folder.path());
    let (whole, index) = (std::fs::read(&file).unwrap(), folder_of(stored.folder.path()).join("index.db"));
    let index = rusqlite::Connection::open(index).unwrap();
    let summary: Vec<u8> = index.query_row("SELECT summary FROM chunks", [], |row| row.get(0)).unwrap();
    assert!(summary.starts_with(&[u8::MAX; 10]));
    // Without the file the index answers, and without the index the file.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(told(&stored), expect);
    std::fs::write(&file, whole).unwrap();
    for place in 0..summary.len() {
        let mut damaged = summary.clone();
        damaged[place] ^= 0x40;
        index.execute("UPDATE chunks SET summary = ?", [damaged]).unwrap();
        assert_eq!(told(&stored), expect, "{place}");
    }
}
