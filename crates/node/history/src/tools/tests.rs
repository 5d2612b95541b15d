//! Damage is found, named and repaired, and what is not damaged stays.

use crate::columns::reader::{HistoryReader, HistorySource};
use crate::columns::{Columns, folder_of};
use crate::store::{Entry, Store};
use crate::{HistoryQuery, StoreError, repair};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tieline_core::{Body, Filter, Point, Quality, Timestamp, Topic, Value};
use tieline_journal::Seq;
use tieline_store::{DAY_US, FolderStorage, INDEX_FILE, file_name};

fn entry(topic: &str, micros: i64, value: i64) -> Entry {
    let time = Timestamp::from_micros(micros);
    let point = Point { value: Value::Int(value), quality: Quality::GOOD, time };
    Entry { seq: Seq(7), topic: Topic::new(topic).unwrap(), time, body: Body::Point(point) }
}

fn open(data: &Path, source: &HistorySource) -> Result<Columns<FolderStorage>, StoreError> {
    Columns::open(data, source.live().clone(), 1 << 20, 30_000)
}

/// Writes what is in memory.
fn seal(store: &mut Columns<FolderStorage>) {
    store.live.with(|heads| heads.seal_all());
    store.relieve_journal().unwrap();
}

const TOPICS: [&str; 3] = ["a", "b/c", "$SYS/x"];

/// A history of three topics in several files, closed: each write has a chunk of each topic.
fn stored() -> TempDir {
    let data = tempfile::tempdir().unwrap();
    let mut store = open(data.path(), &HistorySource::new(data.path())).unwrap();
    for write in 0..20 {
        let times = (0..500).map(|n| (write * 500 + n) * 1000);
        // Values that take bytes.
        let value = |time: i64| (time / 1000).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed()) >> 8;
        let entries: Vec<Entry> = times.flat_map(|time| TOPICS.map(|topic| entry(topic, time, value(time)))).collect();
        store.append(&entries, Seq(7)).unwrap();
        seal(&mut store);
    }
    data
}

fn samples(data: &Path) -> Vec<String> {
    let reader = HistoryReader::open(data).unwrap();
    let rows = TOPICS.map(|topic| reader.query(HistoryQuery::of(Filter::new(topic).unwrap())).unwrap());
    let shown = |row: tieline_store::Row| format!("{} {} {:?}", row.topic, row.point.time.micros(), row.point.value);
    rows.into_iter().flatten().map(|row| shown(row.unwrap())).collect()
}

fn file(data: &Path, name: &str) -> PathBuf {
    folder_of(data).join(name)
}

fn no_watch() -> impl FnMut(u64, u64) {
    |done, total| assert!(done <= total)
}

/// What is found by a look, as text.
fn faults(data: &Path) -> Vec<String> {
    let seen = HistoryReader::open(data).unwrap().verify(&mut no_watch()).unwrap();
    assert_eq!(seen.is_whole(), seen.faults.is_empty());
    seen.faults.iter().map(ToString::to_string).collect()
}

#[test]
fn what_was_written_is_whole_and_counted() {
    let data = stored();
    let reader = HistoryReader::open(data.path()).unwrap();
    let seen = reader.verify(&mut no_watch()).unwrap();
    assert!(seen.is_whole() && seen.files > 3, "{seen:?}");
    assert_eq!((seen.topics, seen.chunks, seen.samples, seen.overlaps, seen.lost_samples), (3, 60, 30_000, 0, 0));
    let stats = reader.stats(&Filter::new("#").unwrap(), 1).unwrap();
    assert_eq!((stats.topics.len(), stats.topic_count, stats.files), (1, 2, seen.files));
    let all = stats.total;
    assert_eq!((all.samples, all.chunks, all.waiting, all.damaged), (20_000, 40, 0, 0));
    assert!(all.bytes < stats.file_bytes && stats.index_bytes > 0, "{stats:?}");
    let micros = |micros| Timestamp::from_micros(micros);
    assert_eq!(all.span, Some((micros(0), micros(9_999_000))));
    // What comes late overlaps, and what is in memory waits.
    let source = HistorySource::new(data.path());
    let mut store = open(data.path(), &source).unwrap();
    store.append(&[entry("a", 5, 1), entry("new", -3, 1)], Seq(8)).unwrap();
    let stats = source.reader().unwrap().stats(&Filter::new("#").unwrap(), 10).unwrap();
    assert_eq!((stats.topic_count, stats.total.waiting), (3, 2));
    assert_eq!(stats.topics.last().unwrap().1.span, Some((micros(-3), micros(-3))));
    seal(&mut store);
    let seen = source.reader().unwrap().verify(&mut no_watch()).unwrap();
    assert_eq!((seen.is_whole(), seen.overlaps, seen.samples), (true, 1, 30_002));
}

#[test]
fn a_damaged_chunk_is_named_and_removed() {
    let data = stored();
    let before = samples(data.path());
    let path = file(data.path(), &file_name(1, None));
    let mut bytes = fs::read(&path).unwrap();
    bytes[200] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let found = faults(data.path());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("0000000001.chunks at ") && found[0].contains("500 samples of a: "), "{found:?}");
    let done = repair(data.path(), &mut no_watch()).unwrap();
    assert_eq!((done.rebuilt, done.removed_chunks, done.lost_samples), (false, 1, 500));
    assert_eq!((done.chunks, done.samples), (59, 29_500));
    assert_eq!(faults(data.path()), Vec::<String>::new());
    assert_eq!(samples(data.path()), before[500..]);
    let again = repair(data.path(), &mut no_watch()).unwrap();
    assert_eq!((again.rebuilt, again.removed_chunks, again.faults), (false, 0, vec![]));
}

#[test]
fn a_file_that_is_lost_or_too_short_costs_its_own_samples() {
    let data = stored();
    let count = samples(data.path()).len();
    fs::remove_file(file(data.path(), &file_name(1, None))).unwrap();
    let second = file(data.path(), &file_name(2, None));
    fs::OpenOptions::new().write(true).open(&second).unwrap().set_len(5000).unwrap();
    let stats = HistoryReader::open(data.path()).unwrap().stats(&Filter::new("#").unwrap(), 10).unwrap();
    assert!(stats.total.damaged > 0 && stats.topics.iter().all(|(_, taken)| taken.damaged > 0));
    let found = faults(data.path());
    assert!(found[0] == "0000000001.chunks is lost" && found[1].contains("has 5000 bytes, expected "), "{found:?}");
    let done = repair(data.path(), &mut no_watch()).unwrap();
    assert!(done.removed_chunks > 3 && done.samples + done.lost_samples == 30_000, "{done:?}");
    assert_eq!(faults(data.path()), Vec::<String>::new());
    assert_eq!(samples(data.path()).len() as u64, count as u64 - done.lost_samples);
    // A store opens and goes on.
    let mut store = open(data.path(), &HistorySource::new(data.path())).unwrap();
    store.append(&[entry("a", 1, 1)], Seq(8)).unwrap();
    seal(&mut store);
}

#[test]
fn a_lost_index_is_made_again_and_no_store_opens_without_one() {
    let data = stored();
    let before = samples(data.path());
    for part in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(file(data.path(), &format!("{INDEX_FILE}{part}")));
    }
    let files = fs::read_dir(folder_of(data.path())).unwrap().count();
    let error = open(data.path(), &HistorySource::new(data.path())).err().unwrap().to_string();
    assert!(error.contains("tieline history repair"), "{error}");
    assert_eq!(fs::read_dir(folder_of(data.path())).unwrap().count(), files, "nothing was removed");
    let done = repair(data.path(), &mut no_watch()).unwrap();
    assert_eq!((done.rebuilt, done.chunks, done.lost_samples, done.unnamed_bytes), (true, 60, 0, 0));
    assert_eq!(samples(data.path()), before);
    assert_eq!(faults(data.path()), Vec::<String>::new());
    let store = open(data.path(), &HistorySource::new(data.path())).unwrap();
    assert_eq!(store.position(), Seq(7), "no record number is given again");
}

#[test]
fn a_damaged_index_is_made_again_wherever_the_damage_is() {
    let whole = stored();
    let before = samples(whole.path());
    let index = fs::read(file(whole.path(), INDEX_FILE)).unwrap();
    for page in 0..index.len() / 4096 {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir(folder_of(data.path())).unwrap();
        for entry in fs::read_dir(folder_of(whole.path())).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), file(data.path(), entry.file_name().to_str().unwrap())).unwrap();
        }
        let mut bytes = index.clone();
        bytes[page * 4096..][..4096].fill(0xA5);
        fs::write(file(data.path(), INDEX_FILE), &bytes).unwrap();
        let done = repair(data.path(), &mut no_watch()).unwrap();
        assert_eq!((done.chunks, done.lost_samples), (60, 0), "page {page}: {done:?}");
        assert_eq!(samples(data.path()), before, "page {page}");
    }
}

#[test]
fn a_repair_that_was_killed_is_begun_again() {
    let data = stored();
    let before = samples(data.path());
    let index = |name: &str| file(data.path(), name);
    // Killed while the new index was written, and between the two renames.
    fs::write(index("index.db.new"), b"half").unwrap();
    fs::rename(index(INDEX_FILE), index("index.db.damaged")).unwrap();
    assert!(open(data.path(), &HistorySource::new(data.path())).is_err());
    let done = repair(data.path(), &mut no_watch()).unwrap();
    assert_eq!((done.rebuilt, done.chunks), (true, 60));
    assert_eq!(samples(data.path()), before);
}

#[test]
fn samples_whose_name_is_lost_are_kept() {
    let data = stored();
    // The first record of each file is damaged, which has the names.
    for number in 1.. {
        let path = file(data.path(), &file_name(number, None));
        let Ok(mut bytes) = fs::read(&path) else { break };
        bytes[8] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    fs::remove_file(file(data.path(), INDEX_FILE)).unwrap();
    let _ = fs::remove_file(file(data.path(), "index.db-wal"));
    let done = repair(data.path(), &mut no_watch()).unwrap();
    assert!(done.chunks > 20 && done.unnamed_bytes > 0, "{done:?}");
    let topics = HistoryReader::open(data.path()).unwrap().topics(&Filter::new("lost-and-found/#").unwrap()).unwrap();
    let expect = [1, 2, 3].map(|number| format!("lost-and-found/topic-{number}"));
    assert_eq!(topics.iter().map(|topic| topic.to_string()).collect::<Vec<_>>(), expect);
}

/// The same in a closed day, with late samples behind it.
fn closed() -> TempDir {
    let data = stored();
    let mut store = open(data.path(), &HistorySource::new(data.path())).unwrap();
    let days = Timestamp::from_micros(3 * DAY_US);
    let text = |n: i64| Entry {
        body: Body::Point(Point { value: Value::Text("état".into()), quality: Quality::AWAY, time: days }),
        ..entry("b/c", n, 0)
    };
    store.append(&(0..50).map(|n| text(n * 7001)).collect::<Vec<_>>(), Seq(7)).unwrap();
    while store.compact(days).unwrap() {
        std::thread::yield_now();
    }
    store.append(&[entry("a", 77, 1), entry("b/c", 4 * DAY_US, 2)], Seq(8)).unwrap();
    seal(&mut store);
    data
}

fn day_file(data: &Path) -> PathBuf {
    let files = fs::read_dir(folder_of(data)).unwrap().map(|file| file.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "parquet")).unwrap()
}

#[test]
fn a_lost_index_is_made_again_of_day_files_too() {
    let data = closed();
    let before = samples(data.path());
    let reader = HistoryReader::open(data.path()).unwrap();
    let seen = reader.verify(&mut no_watch()).unwrap();
    assert!(seen.is_whole(), "{seen:?}");
    assert_eq!((seen.day_files, seen.unchecked_files, seen.samples, seen.chunks), (1, 0, 30_052, 5));
    let stats = reader.stats(&Filter::new("#").unwrap(), 10).unwrap();
    assert_eq!((stats.day_files, stats.total.samples, stats.total.damaged), (1, 20_052, 0));
    drop(reader);
    for part in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(file(data.path(), &format!("{INDEX_FILE}{part}")));
    }
    assert!(open(data.path(), &HistorySource::new(data.path())).is_err());
    let done = repair(data.path(), &mut no_watch()).unwrap();
    assert!(done.rebuilt && done.lost_samples == 0 && done.samples >= 30_052, "{done:?}");
    assert_eq!((samples(data.path()), faults(data.path())), (before.clone(), vec![]));
    // Files and topics get no number again; a late sample is merged into another day file.
    let mut store = open(data.path(), &HistorySource::new(data.path())).unwrap();
    store.append(&[entry("new", 78, 1)], Seq(9)).unwrap();
    seal(&mut store);
    while store.compact(Timestamp::from_micros(3 * DAY_US)).unwrap() {
        std::thread::yield_now();
    }
    drop(store);
    assert_eq!((samples(data.path()), faults(data.path())), (before, vec![]));
    let topics = HistoryReader::open(data.path()).unwrap().topics(&Filter::new("#").unwrap()).unwrap();
    assert_eq!(topics.len(), 3);
}

#[test]
fn a_damaged_day_file_is_named_and_costs_what_cannot_be_read() {
    let whole = closed();
    let all = samples(whole.path());
    let bytes = fs::read(day_file(whole.path())).unwrap();
    let mut taken_as_it_is = 0;
    for place in (0..bytes.len()).step_by(bytes.len() / 60) {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir(folder_of(data.path())).unwrap();
        for entry in fs::read_dir(folder_of(whole.path())).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), file(data.path(), entry.file_name().to_str().unwrap())).unwrap();
        }
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x20;
        fs::write(day_file(data.path()), &damaged).unwrap();
        let found = faults(data.path());
        assert!(found.iter().any(|what| what.contains("CRC-32")), "{place}: {found:?}");
        let done = repair(data.path(), &mut no_watch()).unwrap();
        assert_eq!(done.samples + done.lost_samples, 30_052, "{place}: {done:?}");
        taken_as_it_is += usize::from(done.lost_samples == 0);
        assert_eq!(faults(data.path()), Vec::<String>::new(), "{place}");
        let left = samples(data.path());
        assert!(left.len() <= all.len() && left.iter().any(|row| row.starts_with("a 77 ")), "{place}");
        // With a lost index the same can be read, and what cannot be opened at all gets another name.
        for part in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(file(data.path(), &format!("{INDEX_FILE}{part}")));
        }
        repair(data.path(), &mut no_watch()).unwrap();
        assert_eq!(faults(data.path()), Vec::<String>::new(), "{place}");
        drop(open(data.path(), &HistorySource::new(data.path())).unwrap());
    }
    assert!(taken_as_it_is < 50, "{taken_as_it_is}");
}
