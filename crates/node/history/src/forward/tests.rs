//! Forwarding to a database in memory that fails in every way, and is restored from older copies.

mod members;

use crate::forward::{DatabaseStatus, Forwarding};
use crate::{HistoryOptions, HistorySource, HistoryWriter};
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use tieline_core::{Body, Filter, Point, Quality, Timestamp, Topic, Update, Value};
use tieline_databases::{Database, DatabaseError, Row};
use tieline_journal::{Limits, Sample, Seq};

const PATIENCE: Duration = Duration::from_secs(60);

/// What survives: rows and positions, as of one transaction.
#[derive(Clone, Default)]
struct Stored {
    rows: Vec<Row>,
    positions: Vec<(String, u64)>,
}

#[derive(Default)]
struct World {
    stored: Stored,
    /// Whether nobody is there.
    is_away: bool,
    /// The value that is refused.
    refused: Option<Value>,
    /// Dice: one in four calls fails while it is not zero.
    dice: u64,
}

impl World {
    fn fails(&mut self) -> u64 {
        if self.dice == 0 {
            return 0;
        }
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        if self.dice.is_multiple_of(4) { 1 + self.dice / 4 % 2 } else { 0 }
    }
}

struct Memory {
    world: Arc<Mutex<World>>,
    /// The journal, and the position read at the connection.
    session: Option<(String, Option<u64>)>,
}

fn away() -> DatabaseError {
    DatabaseError::Away("gone".to_owned())
}

impl Database for Memory {
    fn connect(&mut self, journal: &str) -> Result<Option<u64>, DatabaseError> {
        let mut world = self.world.lock().unwrap();
        self.session = None;
        if world.is_away || world.fails() > 0 {
            return Err(away());
        }
        let found = world.stored.positions.iter().find(|(of, _)| of == journal).map(|(_, seq)| *seq);
        self.session = Some((journal.to_owned(), found));
        Ok(found)
    }

    fn write(&mut self, rows: &[Row], upto: u64) -> Result<u64, DatabaseError> {
        let mut world = self.world.lock().unwrap();
        let (journal, position) = self.session.take().ok_or_else(away)?;
        let failure = world.fails();
        if world.is_away || failure == 1 {
            return Err(away());
        }
        if rows.iter().any(|row| Some(&row.value) == world.refused.as_ref()) {
            return Err(DatabaseError::Rejected("a value".to_owned()));
        }
        let positions = &mut world.stored.positions;
        let at = positions.iter().position(|(of, _)| *of == journal);
        if at.map(|at| positions[at].1) != position {
            return Err(DatabaseError::Away("moved".to_owned()));
        }
        match at {
            Some(at) => positions[at].1 = upto,
            None => positions.push((journal.clone(), upto)),
        }
        world.stored.rows.extend_from_slice(rows);
        // It was written, and nobody hears of it.
        if failure == 2 {
            return Err(away());
        }
        self.session = Some((journal, Some(upto)));
        Ok(0)
    }
}

fn options(kept_bytes: u64) -> HistoryOptions {
    let journal = Limits { segment_bytes: 4 << 10, total_bytes: 1 << 20, kept_bytes, ..Limits::default() };
    HistoryOptions { journal, memory_bytes: 4 << 10, ..HistoryOptions::default() }
}

fn open(folder: &Path, world: &Arc<Mutex<World>>, kept_bytes: u64) -> HistoryWriter {
    let source = HistorySource::new(folder);
    let mut writer = HistoryWriter::open_guarded(&source, options(kept_bytes), Arc::new(|| true)).unwrap();
    writer.forward(&source, vec![forwarding(world)]).unwrap();
    writer
}

fn forwarding(world: &Arc<Mutex<World>>) -> Forwarding {
    Forwarding {
        name: "d".to_owned(),
        kind: "memory",
        topics: vec![Filter::new("a/#").unwrap()],
        batch_rows: 500,
        every: Duration::from_millis(1),
        timeout: Duration::from_secs(10),
        retry: Duration::from_millis(1),
        database: Box::new(Memory { world: Arc::clone(world), session: None }),
    }
}

/// Records a number under a topic that is forwarded, and one that is not.
fn record(writer: &HistoryWriter, numbers: std::ops::Range<i64>) {
    for number in numbers {
        let sample = |topic: &str, value| {
            let time = Timestamp::from_micros(number);
            let body = Body::Point(Point { value, quality: Quality::GOOD, time });
            Sample::new(time, Update { topic: Topic::new(topic).unwrap(), body })
        };
        let (told, receipt) = mpsc::channel();
        let samples = vec![sample("a/x", Value::Int(number)), sample("b", Value::Text("x".repeat(100).into()))];
        writer.handle().submit(samples, Box::new(move |done| drop(told.send(done))));
        receipt.recv_timeout(PATIENCE).unwrap().unwrap();
    }
}

fn status(writer: &HistoryWriter) -> DatabaseStatus {
    writer.handle().status().databases.remove(0)
}

fn wait(writer: &HistoryWriter, ready: impl Fn(&DatabaseStatus) -> bool) -> DatabaseStatus {
    let start = Instant::now();
    loop {
        let status = status(writer);
        if ready(&status) {
            return status;
        }
        assert!(start.elapsed() < PATIENCE, "{status:?}");
        std::thread::yield_now();
    }
}

fn wait_written(writer: &HistoryWriter) -> DatabaseStatus {
    let durable = writer.handle().status().durable;
    wait(writer, |status| status.trouble.is_none() && status.position.is_some_and(|seq| seq >= durable))
}

fn numbers(world: &Mutex<World>) -> Vec<i64> {
    let world = world.lock().unwrap();
    let number = |row: &Row| match row.value {
        Value::Int(number) => number,
        _ => panic!("{row:?}"),
    };
    world.stored.rows.iter().map(number).collect()
}

#[test]
fn each_sample_is_there_once_whatever_fails() {
    for seed in 1..=8 {
        let (folder, world) = (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(World::default())));
        world.lock().unwrap().dice = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed);
        for round in 0..4 {
            let writer = open(folder.path(), &world, 1 << 20);
            record(&writer, round * 40..round * 40 + 40);
            if round % 2 == 1 {
                wait_written(&writer);
            }
        }
        assert_eq!(numbers(&world), (0..160).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn a_database_that_is_restored_gets_what_the_journal_has() {
    let (folder, world) = (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(World::default())));
    let writer = open(folder.path(), &world, 1 << 20);
    record(&writer, 0..20);
    wait_written(&writer);
    let copy = world.lock().unwrap().stored.clone();
    record(&writer, 20..60);
    wait_written(&writer);
    assert_eq!(numbers(&world).len(), 60);
    world.lock().unwrap().stored = copy;
    record(&writer, 60..70);
    let status = wait_written(&writer);
    assert_eq!((numbers(&world), status.missing_records), ((0..70).collect(), 0));
    assert!(status.failures >= 1 && status.connects >= 2, "{status:?}");
}

/// A data folder is restored from a copy; the database is not. What was recorded before the copy and after the restore is there once, and
/// so is what only the database has, whether the database is reached at the first start or after many records and a restart.
#[test]
fn a_data_folder_that_is_restored_writes_each_sample_once() {
    for is_away_at_first in [false, true] {
        let (folder, world) = (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(World::default())));
        let writer = open(folder.path(), &world, 1 << 20);
        record(&writer, 0..20);
        wait_written(&writer);
        drop(writer);
        let restored = tempfile::tempdir().unwrap();
        copy(folder.path(), restored.path());
        let writer = open(folder.path(), &world, 1 << 20);
        record(&writer, 20..60);
        wait_written(&writer);
        drop(writer);
        crate::note_restored(restored.path()).unwrap();
        world.lock().unwrap().is_away = is_away_at_first;
        let mut writer = open(restored.path(), &world, 1 << 20);
        if is_away_at_first {
            // More records than the other journal had, so that sequences say nothing.
            record(&writer, 60..200);
            drop(writer);
            writer = open(restored.path(), &world, 1 << 20);
            world.lock().unwrap().is_away = false;
        }
        record(&writer, 200..220);
        wait_written(&writer);
        let expect: Vec<i64> = if is_away_at_first { (0..220).collect() } else { (0..60).chain(200..220).collect() };
        assert_eq!(numbers(&world), expect, "{is_away_at_first}");
        drop(writer);
        // It was settled: from here on the position is believed.
        let writer = open(restored.path(), &world, 1 << 20);
        record(&writer, 220..230);
        wait_written(&writer);
        assert_eq!(numbers(&world), [expect, (220..230).collect()].concat());
        assert!(!restored.path().join("databases/d.restored").exists());
    }
}

/// A copy and its original go on beside each other, and reach the database in either order. What both have is there once, and what each
/// has recorded since, too.
#[test]
fn a_copy_and_its_original_write_each_sample_once() {
    for case in 0..16_u64 {
        let [is_away_at_the_copy, copy_is_first, restarts, fails] = [1, 2, 4, 8].map(|bit| case & bit != 0);
        let (world, folders) = (Arc::new(Mutex::new(World::default())), [(); 2].map(|()| tempfile::tempdir().unwrap()));
        if fails {
            world.lock().unwrap().dice = 0x9e37_79b9_7f4a_7c15 ^ case;
        }
        let run = |folder: usize, numbers: std::ops::Range<i64>, waits: bool| {
            let writer = open(folders[folder].path(), &world, 1 << 20);
            record(&writer, numbers);
            if waits {
                wait_written(&writer);
            }
        };
        run(0, 0..20, true);
        world.lock().unwrap().is_away = is_away_at_the_copy;
        run(0, 20..40, !is_away_at_the_copy);
        copy(folders[0].path(), folders[1].path());
        crate::note_restored(folders[1].path()).unwrap();
        if restarts {
            // The first start of the copy says what both have.
            world.lock().unwrap().is_away = true;
            run(1, 40..50, false);
        }
        let mut last = 50;
        world.lock().unwrap().is_away = false;
        for round in 0..4 {
            let folder = usize::from(copy_is_first != (round % 2 == 1));
            let count = 10 + 7 * round;
            run(folder, last..last + count, true);
            last += count;
        }
        let mut found = numbers(&world);
        found.sort_unstable();
        let expect: Vec<i64> = (0..if restarts { 50 } else { 40 }).chain(50..last).collect();
        assert_eq!(found, expect, "case {case}");
        assert!(!folders[1].path().join("databases/d.restored").exists(), "case {case}");
        let mut names: Vec<String> =
            world.lock().unwrap().stored.positions.iter().map(|(name, _)| name.clone()).collect();
        names.dedup();
        // An attempt that failed may leave a name that nobody has.
        assert!(names.len() == 2 || (fails && names.len() > 2), "case {case}: {names:?}");
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let path = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&path).unwrap();
            copy(&entry.path(), &path);
        } else {
            std::fs::copy(entry.path(), path).unwrap();
        }
    }
}

#[test]
fn a_database_that_is_away_costs_its_oldest_records_and_no_message() {
    let (folder, world) = (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(World::default())));
    let writer = open(folder.path(), &world, 20 << 10);
    record(&writer, 0..5);
    wait_written(&writer);
    world.lock().unwrap().is_away = true;
    // More than the journal may keep for it.
    record(&writer, 5..600);
    writer.handle().wait_stored(writer.handle().status().durable, PATIENCE);
    let status = wait(&writer, |status| status.given_up_records > 0 && status.trouble.is_some());
    assert!(status.backlog_records > Some(status.given_up_records) && status.missing_records == 0, "{status:?}");
    world.lock().unwrap().is_away = false;
    let status = wait_written(&writer);
    let found = numbers(&world);
    assert!(status.missing_records > 0 && status.given_up_records == 0, "{status:?}");
    assert_eq!(found.len() as u64 + status.missing_records, 600);
    assert_eq!((found[..5].to_vec(), found.last()), ((0..5).collect::<Vec<_>>(), Some(&599)));
    assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "each once, in order");
}

#[test]
fn a_record_that_is_refused_is_left_out() {
    let (folder, world) = (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(World::default())));
    let writer = open(folder.path(), &world, 1 << 20);
    record(&writer, 0..3);
    wait_written(&writer);
    {
        let mut world = world.lock().unwrap();
        (world.refused, world.is_away) = (Some(Value::Int(10)), true);
    }
    record(&writer, 3..20);
    world.lock().unwrap().is_away = false;
    let status = wait_written(&writer);
    assert_eq!(numbers(&world), (0..20).filter(|n| *n != 10).collect::<Vec<_>>());
    assert_eq!((status.rejected_points, status.written_points), (1, 19));
}

#[test]
fn a_journal_that_went_back_in_time_is_another_one() {
    let world = Arc::new(Mutex::new(World::default()));
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let writer = open(folder.path(), &world, 1 << 20);
    record(&writer, 0..10);
    wait_written(&writer);
    drop(writer);
    copy_folder(folder.path(), copy.path());
    let writer = open(folder.path(), &world, 1 << 20);
    record(&writer, 10..30);
    wait_written(&writer);
    drop(writer);
    // The copy gives the same sequences to other samples.
    let writer = open(copy.path(), &world, 1 << 20);
    record(&writer, 30..80);
    wait_written(&writer);
    drop(writer);
    assert_eq!(numbers(&world), (0..80).collect::<Vec<_>>());
    let journals = world.lock().unwrap().stored.positions.len();
    assert_eq!(journals, 2);
    // And a new folder begins at its first record.
    let fresh = tempfile::tempdir().unwrap();
    let writer = open(fresh.path(), &world, 1 << 20);
    record(&writer, 80..90);
    wait_written(&writer);
    assert_eq!(numbers(&world), (0..90).collect::<Vec<_>>());
    assert!(writer.handle().status().durable < Seq(80));
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
