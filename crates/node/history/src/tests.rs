//! The history as a node uses it: over a real folder, over a disk that fills up, and killed.

use crate::columns::Columns;
use crate::store::{Deleting, Deletion, Entry, Migration, Progress, Retained, Size, Store, StoreError};
use crate::{
    Durability, HistoryHandle, HistoryOptions, HistoryQuery, HistoryReader, HistorySource, HistoryState, HistoryWriter,
    NotRecorded, Retention, repair,
};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tieline_core::{
    Body, Filter, Point, Quality, Storage, StorageError, StorageErrorKind, Timestamp, Topic, Update, Value,
};
use tieline_journal::{Limits, Sample, Seq};
use tieline_store::{FolderStorage, JOURNAL_FOLDER};

/// Longer than anything here takes; a test that gets there fails.
const PATIENCE: Duration = Duration::from_secs(30);

fn point(topic: &str, micros: i64, value: i64) -> Update {
    let time = Timestamp::from_micros(micros);
    let point = Point { value: Value::Int(value), quality: Quality::GOOD, time };
    Update { topic: Topic::new(topic).unwrap(), body: Body::Point(point) }
}

/// Updates as they are recorded that the node received at one time.
fn received_at(micros: i64, updates: Vec<Update>) -> Vec<Sample> {
    updates.into_iter().map(|update| Sample::new(Timestamp::from_micros(micros), update)).collect()
}

/// Submits and waits for the receipt.
fn submit(history: &HistoryHandle, updates: Vec<Update>) -> Result<Seq, NotRecorded> {
    let (told, receipt) = mpsc::channel();
    history.submit(received_at(0, updates), Box::new(move |done| drop(told.send(done))));
    receipt.recv_timeout(PATIENCE).expect("a receipt is always called")
}

fn values(data: &Path, filter: &str) -> Vec<Value> {
    let reader = HistoryReader::open(data).unwrap();
    let rows = reader.query(HistoryQuery::of(Filter::new(filter).unwrap())).unwrap();
    rows.map(|row| row.unwrap().point.value).collect()
}

fn wait_until(history: &HistoryHandle, mut ready: impl FnMut(&HistoryHandle) -> bool) {
    let start = Instant::now();
    while !ready(history) {
        assert!(start.elapsed() < PATIENCE, "{:?}", history.status());
        std::thread::yield_now();
    }
}

fn check_round_trip(durability: Durability) {
    let folder = tempfile::tempdir().unwrap();
    let options = HistoryOptions { durability, ..HistoryOptions::default() };
    for round in 0..3 {
        let history = HistoryWriter::open(folder.path(), options).unwrap();
        let handle = history.handle();
        for n in 0..50 {
            let n = round * 50 + n;
            let updates = vec![point("a", n, n), point("b", n, n)];
            if n % 3 == 0 { handle.record(received_at(0, updates)) } else { assert!(submit(handle, updates).is_ok()) }
        }
        let seq = submit(handle, vec![]).unwrap();
        assert!(handle.wait_stored(seq, PATIENCE));
        assert_eq!(handle.status().state, HistoryState::Ok);
        let expect: Vec<Value> = (0..(round + 1) * 50).map(Value::Int).collect();
        assert_eq!(values(folder.path(), "a"), expect);
        assert_eq!(values(folder.path(), "b"), expect);
    }
}

#[test]
fn what_is_acknowledged_is_in_the_store() {
    check_round_trip(Durability::Synced);
    check_round_trip(Durability::Written);
}

#[test]
fn payloads_as_published_have_the_time_of_their_receipt() {
    let folder = tempfile::tempdir().unwrap();
    let history = HistoryWriter::open(folder.path(), HistoryOptions::default()).unwrap();
    let opaque =
        || vec![Update { topic: Topic::new("x").unwrap(), body: Body::Opaque(bytes::Bytes::from_static(b"hi")) }];
    history.handle().record(received_at(5, opaque()));
    history.handle().record(received_at(9, opaque()));
    drop(history);
    let reader = HistoryReader::open(folder.path()).unwrap();
    let rows = reader.query(HistoryQuery::of(Filter::new("#").unwrap())).unwrap();
    let times: Vec<i64> = rows.map(|row| row.unwrap().point.time.micros()).collect();
    assert_eq!(times, [5, 9]);
}

/// What is deleted is in the journal no longer: a repair of a lost index does not bring it back.
#[test]
fn what_is_deleted_is_not_in_the_journal_either() {
    let folder = tempfile::tempdir().unwrap();
    let history = HistoryWriter::open(folder.path(), HistoryOptions::default()).unwrap();
    let handle = history.handle();
    submit(handle, (0..50).flat_map(|n| [point("a", n, n), point("b", n, n)]).collect()).unwrap();
    let meant = Deletion {
        topics: Filter::new("a").unwrap(),
        from: Timestamp::from_micros(10),
        to: Timestamp::from_micros(60),
    };
    assert_eq!(handle.delete(meant).recv().unwrap().unwrap().samples, 40);
    wait_until(handle, |history| history.status().journal_segments == 1);
    assert_eq!((handle.status().deleted_samples, handle.close_days().recv().unwrap()), (40, Ok(1)));
    drop(history);
    for part in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(folder.path().join("history").join(part));
    }
    assert!(repair(folder.path(), &mut |_, _| {}).unwrap().rebuilt);
    drop(HistoryWriter::open(folder.path(), HistoryOptions::default()).unwrap());
    assert_eq!(values(folder.path(), "a"), (0..10).map(Value::Int).collect::<Vec<_>>());
    assert_eq!(values(folder.path(), "b").len(), 50);
}

/// A message that was recorded when its sender did not hear of it is the same one when it comes again, whatever a payload
/// reads as, and whether the store has the first by then.
#[test]
fn what_is_recorded_again_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = [&b"4.5"[..], b"{\"v\":7,\"t\":\"1970-01-01T00:00:00.002Z\"}", b"{\"a\":1}", b"\xff"];
    let sample = |payload: &'static [u8], again| {
        let update = Update { topic: Topic::new("x").unwrap(), body: Body::Opaque(bytes::Bytes::from_static(payload)) };
        Sample { again, ..Sample::new(Timestamp::from_micros(5), update) }
    };
    let all = |again| payloads.map(|payload| sample(payload, again)).to_vec();
    for (round, expect) in [(0, 4), (1, 4), (2, 4)] {
        let history = HistoryWriter::open(folder.path(), HistoryOptions::default()).unwrap();
        // At first it is recorded, and recorded again behind that; then again only.
        if round == 0 {
            history.handle().record(all(false));
        }
        history.handle().record(all(true));
        drop(history);
        assert_eq!(values(folder.path(), "x").len(), expect, "round {round}");
    }
    // What is lost is recorded.
    let lost = tempfile::tempdir().unwrap();
    let history = HistoryWriter::open(lost.path(), HistoryOptions::default()).unwrap();
    history.handle().record(all(true));
    drop(history);
    assert_eq!(values(lost.path(), "x").len(), 4);
}

#[test]
fn payloads_that_read_as_points_are_stored_as_points() {
    let folder = tempfile::tempdir().unwrap();
    let history = HistoryWriter::open(folder.path(), HistoryOptions::default()).unwrap();
    for payload in [&b"4.5"[..], b"{\"v\":7,\"q\":\"bad\",\"t\":\"1970-01-01T00:00:00.002Z\"}", b"{\"a\":1}"] {
        let body = Body::Opaque(bytes::Bytes::from_static(payload));
        let update = Update { topic: Topic::new("x").unwrap(), body };
        history.handle().record(received_at(5, vec![update]));
    }
    drop(history);
    let reader = HistoryReader::open(folder.path()).unwrap();
    let rows = reader.query(HistoryQuery::of(Filter::new("#").unwrap())).unwrap();
    let mut shown: Vec<String> = rows.map(|row| row.unwrap().point.to_json()).collect();
    shown.sort();
    assert_eq!(
        shown,
        [
            "{\"v\":\"{\\\"a\\\":1}\",\"q\":\"good\",\"t\":\"1970-01-01T00:00:00.000005Z\"}",
            "{\"v\":4.5,\"q\":\"good\",\"t\":\"1970-01-01T00:00:00.000005Z\"}",
            "{\"v\":7,\"q\":\"bad\",\"t\":\"1970-01-01T00:00:00.002Z\"}",
        ]
    );
}

/// A folder on a disk that is full when told.
struct Filling(FolderStorage, Arc<AtomicBool>);

impl Storage for Filling {
    fn list(&mut self) -> Result<Vec<String>, StorageError> {
        self.0.list()
    }
    fn len(&mut self, name: &str) -> Result<u64, StorageError> {
        self.0.len(name)
    }
    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, StorageError> {
        self.0.read(name, offset, out)
    }
    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        if self.1.load(Ordering::SeqCst) {
            self.0.append(name, &bytes[..bytes.len() / 2])?;
            return Err(StorageError { kind: StorageErrorKind::Full, message: "full".into() });
        }
        self.0.append(name, bytes)
    }
    fn sync(&mut self, name: &str) -> Result<(), StorageError> {
        self.0.sync(name)
    }
    fn truncate(&mut self, name: &str, len: u64) -> Result<(), StorageError> {
        self.0.truncate(name, len)
    }
    fn remove(&mut self, name: &str) -> Result<(), StorageError> {
        self.0.remove(name)
    }
}

#[test]
fn a_full_disk_is_said_and_passes() {
    let folder = tempfile::tempdir().unwrap();
    let full = Arc::new(AtomicBool::new(false));
    let journal = folder.path().join(JOURNAL_FOLDER);
    let write = Filling(FolderStorage::open(&journal).unwrap(), Arc::clone(&full));
    let read = Filling(FolderStorage::open(&journal).unwrap(), Arc::clone(&full));
    let options = HistoryOptions { retry: Duration::from_millis(5), ..HistoryOptions::default() };
    let store = Box::new(columns(&HistorySource::new(folder.path())));
    let history = HistoryWriter::over(write, read, store, options, Arc::new(|| true)).unwrap();
    let handle = history.handle();
    submit(handle, vec![point("a", 1, 1)]).unwrap();

    full.store(true, Ordering::SeqCst);
    let (told, receipt) = mpsc::channel();
    handle.submit(received_at(0, vec![point("a", 2, 2)]), Box::new(move |done| drop(told.send(done))));
    wait_until(handle, |history| history.status().state == HistoryState::DiskFull);
    assert_eq!(receipt.try_recv(), Err(mpsc::TryRecvError::Empty), "held, not acknowledged");
    assert_eq!(submit(handle, vec![point("a", 3, 3)]), Err(NotRecorded::DiskFull));
    handle.record(received_at(0, vec![point("a", 4, 4)]));
    wait_until(handle, |history| history.status().dropped_points == 1);
    assert_eq!(handle.status().refused_points, 1);

    full.store(false, Ordering::SeqCst);
    receipt.recv_timeout(PATIENCE).unwrap().unwrap();
    wait_until(handle, |history| history.status().state == HistoryState::Ok);
    let last = submit(handle, vec![point("a", 5, 5)]).unwrap();
    assert!(handle.wait_stored(last, PATIENCE));
    assert_eq!(values(folder.path(), "a"), [1, 2, 5].map(Value::Int));
    assert_eq!(handle.status().journal.recoveries, 1);
}

/// A store that is full when told, and whose closing hangs where that is so, until the sender is dropped.
struct FillingStore(Box<dyn Store>, Arc<AtomicBool>, Option<mpsc::Receiver<()>>);

impl Drop for FillingStore {
    fn drop(&mut self) {
        let _ = self.2.take().map(|hangs| hangs.recv());
    }
}

fn columns(source: &HistorySource) -> Columns<FolderStorage> {
    Columns::open(source.data(), source.live().clone(), 1 << 20, 1 << 20).unwrap()
}

impl FillingStore {
    fn open(source: &HistorySource) -> Self {
        Self(Box::new(columns(source)), Arc::default(), None)
    }
}

impl Store for FillingStore {
    fn position(&self) -> Seq {
        self.0.position()
    }
    fn topic(&self, name: &str) -> Option<&Topic> {
        self.0.topic(name)
    }
    fn append(&mut self, entries: &[Entry], upto: Seq) -> Result<(), StoreError> {
        if self.1.load(Ordering::SeqCst) { Err(StoreError::Full("full".into())) } else { self.0.append(entries, upto) }
    }
    fn caught_up(&mut self) {
        self.0.caught_up();
    }
    fn relieve_journal(&mut self) -> Result<(), StoreError> {
        self.0.relieve_journal()
    }
    fn retain(&mut self, retention: &Retention, now: Timestamp, samples_max: u64) -> Result<Retained, StoreError> {
        self.0.retain(retention, now, samples_max)
    }
    fn compact(&mut self, now: Timestamp) -> Result<bool, StoreError> {
        self.0.compact(now)
    }
    fn delete(&mut self, what: &Deletion, deleting: &mut Deleting, now: Timestamp) -> Result<Progress, StoreError> {
        self.0.delete(what, deleting, now)
    }
    fn close_days(&mut self, now: Timestamp) -> Result<(), StoreError> {
        self.0.close_days(now)
    }
    fn migrate(&mut self) -> Result<Option<Migration>, StoreError> {
        self.0.migrate()
    }
    fn size(&self) -> Size {
        self.0.size()
    }
}

#[test]
fn what_a_full_store_does_not_take_the_journal_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join(JOURNAL_FOLDER);
    let [write, read] = [(); 2].map(|()| FolderStorage::open(&journal).unwrap());
    let source = HistorySource::new(folder.path());
    let store = FillingStore::open(&source);
    let in_store = || source.reader().unwrap().query(HistoryQuery::of(Filter::new("a").unwrap())).unwrap().count();
    let full = Arc::clone(&store.1);
    full.store(true, Ordering::SeqCst);
    let options = HistoryOptions { retry: Duration::from_millis(5), ..HistoryOptions::default() };
    let history = HistoryWriter::over(write, read, Box::new(store), options, Arc::new(|| true)).unwrap();
    let handle = history.handle();
    let last = submit(handle, vec![point("a", 1, 1), point("a", 2, 2)]).expect("the journal has it");
    wait_until(handle, |history| history.status().state == HistoryState::DiskFull);
    assert_eq!((handle.status().stored, in_store()), (Seq(0), 0));
    // Who reads the folder finds them in the journal.
    assert_eq!(values(folder.path(), "a").len(), 2);

    full.store(false, Ordering::SeqCst);
    assert!(handle.wait_stored(last, PATIENCE));
    wait_until(handle, |history| history.status().state == HistoryState::Ok);
    assert_eq!((in_store(), values(folder.path(), "a")), (2, [1, 2].map(Value::Int).to_vec()));
}

/// The journal has all that was acknowledged: a node stops all the same.
#[test]
fn a_store_that_hangs_while_it_closes_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join(JOURNAL_FOLDER);
    let [write, read] = [(); 2].map(|()| FolderStorage::open(&journal).unwrap());
    let (answers, hangs) = mpsc::channel();
    let mut store = FillingStore::open(&HistorySource::new(folder.path()));
    store.2 = Some(hangs);
    let history = HistoryWriter::over(write, read, Box::new(store), HistoryOptions::default(), Arc::new(|| true));
    let history = history.unwrap();
    let last = submit(history.handle(), vec![point("a", 1, 1)]).unwrap();
    assert!(history.handle().wait_stored(last, PATIENCE));
    let (closed, closes) = mpsc::channel();
    std::thread::spawn(move || {
        drop(history);
        closed.send(())
    });
    closes.recv_timeout(PATIENCE).expect("the disk does not answer, and nobody waits for it");
    drop(answers);
}

/// By blame, and in the store's own words.
#[test]
fn a_store_says_why_it_cannot_be_used() {
    let newer = || tieline_store::StoreError::Newer(9, 1);
    assert!(matches!(StoreError::from(newer()), StoreError::Newer(_)));
    assert_eq!(StoreError::from(newer()).to_string(), newer().to_string());
    assert!(matches!(StoreError::from(tieline_store::StoreError::Full), StoreError::Full(_)));
}

/// A small disk of its own, where this machine lets a test mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={bytes}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).output();
        mount.is_ok_and(|done| done.status.success()).then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_real_disk_fills_and_empties() {
    let Some(disk) = SmallDisk::mount(16 << 20) else {
        println!("no disk can be mounted here: skipped");
        return;
    };
    let data = disk.0.path().join("data");
    let ballast = disk.0.path().join("ballast");
    let options = HistoryOptions { retry: Duration::from_millis(20), ..HistoryOptions::default() };
    let history = HistoryWriter::open(&data, options).unwrap();
    let handle = history.handle();
    let (mut acknowledged, mut n) = (Vec::new(), 0);
    for _ in 0..3 {
        assert!(std::fs::write(&ballast, vec![1; 16 << 20]).is_err(), "the ballast takes all that is left");
        wait_until(handle, |history| {
            let (told, receipt) = mpsc::channel();
            let updates = (n..n + 100).map(|n| point(&format!("p{}", n % 7), n, n)).collect();
            history.submit(received_at(0, updates), Box::new(move |done| drop(told.send(done))));
            // A batch that meets the full disk is held.
            if let Ok(Ok(_)) = receipt.recv_timeout(Duration::from_millis(100)) {
                acknowledged.extend(n..n + 100);
            }
            n += 100;
            history.status().state == HistoryState::DiskFull
        });
        std::fs::remove_file(&ballast).unwrap();
        wait_until(handle, |history| history.status().state == HistoryState::Ok);
        for _ in 0..10 {
            submit(handle, (n..n + 100).map(|n| point(&format!("p{}", n % 7), n, n)).collect()).unwrap();
            acknowledged.extend(n..n + 100);
            n += 100;
        }
    }
    drop(history);
    let stored: std::collections::HashSet<i64> = values(&data, "#")
        .into_iter()
        .map(|value| match value {
            Value::Int(n) => n,
            other => panic!("{other:?} was never written"),
        })
        .collect();
    let missing = acknowledged.iter().filter(|n| !stored.contains(n)).count();
    assert_eq!((missing, acknowledged.len() >= 3000), (0, true), "{}", acknowledged.len());
}

#[test]
fn a_journal_at_its_limit_refuses_and_never_acknowledges_a_part() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Limits { segment_bytes: 1 << 20, total_bytes: 4 << 20, ..Limits::default() };
    let options = HistoryOptions { journal, ..HistoryOptions::default() };
    let history = HistoryWriter::open(folder.path(), options).unwrap();
    // Three records: the first is beyond all limits, the rest would fit.
    let text = "x".repeat(5 << 20);
    let mut updates = vec![point("a", 1, 1)];
    updates[0].body = Body::Opaque(text.into_bytes().into());
    updates.extend((0..20_000).map(|n| point("b", n, n)));
    assert_eq!(submit(history.handle(), updates), Err(NotRecorded::Full));
    let huge = Body::Opaque(vec![0; tieline_journal::RECORD_BYTES_MAX].into());
    let update = Update { topic: Topic::new("a").unwrap(), body: huge };
    assert_eq!(submit(history.handle(), vec![update]), Err(NotRecorded::TooLong));
    assert!(submit(history.handle(), vec![point("a", 1, 1)]).is_ok());
}

#[test]
fn what_the_store_had_no_time_for_is_there_after_the_next_start() {
    const POINTS: i64 = 50_000;
    let folder = tempfile::tempdir().unwrap();
    let hasty = HistoryOptions { close_patience: Duration::ZERO, ..HistoryOptions::default() };
    let history = HistoryWriter::open(folder.path(), hasty).unwrap();
    submit(history.handle(), (0..POINTS).map(|n| point("a", n, n)).collect()).unwrap();
    drop(history);
    let history = HistoryWriter::open(folder.path(), HistoryOptions::default()).unwrap();
    let seq = submit(history.handle(), vec![point("b", 1, 1)]).unwrap();
    assert!(history.handle().wait_stored(seq, PATIENCE));
    assert_eq!(values(folder.path(), "a"), (0..POINTS).map(Value::Int).collect::<Vec<_>>());
}

#[test]
fn a_long_queue_refuses_and_drops() {
    let queue = crate::queue::Queue::new(10, 1 << 20);
    let batch = |receipt| crate::queue::Batch {
        samples: received_at(0, (0..8).map(|n| point("a", n, n)).collect()),
        receipt,
        noted: Vec::new(),
        placed: Vec::new(),
    };
    let (told, receipt) = mpsc::channel();
    queue.put(batch(None));
    queue.put(batch(None));
    queue.put(batch(Some(Box::new(move |done| drop(told.send(done))))));
    assert_eq!(receipt.try_recv(), Ok(Err(NotRecorded::Full)));
    let (points, turned) = queue.counts();
    assert_eq!((points, turned.dropped, turned.refused), (8, 8, 8));
    assert_eq!(queue.take(Duration::ZERO).unwrap().len(), 1);
    queue.close();
    assert!(queue.take(PATIENCE).is_none());
}

#[test]
fn damage_in_the_journal_is_said_and_the_rest_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join(JOURNAL_FOLDER);
    let now = Timestamp::from_micros(1);
    let storage = FolderStorage::open(&journal).unwrap();
    let (mut log, _) = tieline_journal::Journal::open(storage, Limits::default(), Seq(0), now).unwrap();
    for n in 0..3 {
        let mut bytes = Vec::new();
        tieline_journal::encode(&[Sample::new(now, point("a", n, n))], &mut bytes);
        log.append(&bytes).unwrap();
    }
    log.append(b"no record of history").unwrap();
    log.sync().unwrap();
    let file = std::fs::read_dir(&journal).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&file).unwrap();
    let second = bytes.len() / 2 - 10;
    bytes[second] ^= 1;
    bytes.extend_from_slice(&[1, 2, 3]);
    std::fs::write(&file, bytes).unwrap();

    let history = HistoryWriter::open(folder.path(), HistoryOptions::default()).unwrap();
    assert!(history.handle().wait_stored(Seq(4), PATIENCE));
    let status = history.handle().status();
    assert_eq!((status.lost_records, status.unreadable_records, status.damage_found), (1, 1, 2), "{status:?}");
    assert_eq!(values(folder.path(), "a").len(), 2);
}

const CHILD: &str = "TIELINE_HISTORY_CHILD";

/// Run by the test below in a process of its own: records batches and prints what is acknowledged, until it is killed.
#[test]
fn child_records_until_it_is_killed() {
    let Some(data) = std::env::var_os(CHILD) else { return };
    let history = HistoryWriter::open(Path::new(&data), HistoryOptions::default()).unwrap();
    for batch in 0.. {
        let start = Instant::now();
        let base = i64::from(std::process::id()) * 1_000_000_000 + batch * 10;
        let updates = (0..10).map(|n| point(&format!("p{n}"), base + n, base + n)).collect();
        let acknowledged = Box::new(move |done: Result<Seq, NotRecorded>| {
            if done.is_ok() {
                println!("acknowledged {base}");
            }
        });
        history.handle().submit(received_at(0, updates), acknowledged);
        while history.handle().status().queued_points > 1000 && start.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged: Vec<i64> = Vec::new();
    for round in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::child_records_until_it_is_killed", "--nocapture"])
            .env(CHILD, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let wanted = 200 + 377 * round;
        let read = |line: String| -> Option<i64> { line.split("acknowledged ").nth(1)?.parse().ok() };
        acknowledged.extend(lines.by_ref().filter_map(read).take(wanted));
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(lines.filter_map(read));
    }
    drop(HistoryWriter::open(folder.path(), HistoryOptions::default()).unwrap());
    let mut stored = std::collections::HashMap::new();
    for value in values(folder.path(), "#") {
        let Value::Int(n) = value else { panic!("{value:?} was never written") };
        *stored.entry(n).or_insert(0) += 1;
    }
    let missing = acknowledged.iter().flat_map(|base| *base..*base + 10).filter(|n| !stored.contains_key(n)).count();
    let duplicate = stored.values().filter(|count| **count > 1).count();
    println!("{} acknowledged, {} stored, {missing} missing, {duplicate} twice", acknowledged.len() * 10, stored.len());
    assert_eq!((missing, duplicate), (0, 0));
    assert!(acknowledged.len() >= 1000);
}

/// Age goes by a clock that may be wrong.
#[test]
fn nothing_is_removed_while_the_clock_is_in_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let retention = Retention { age: Some(Duration::from_secs(1)), bytes: Some(1) };
    let options = HistoryOptions { retention, retain_every: Duration::from_millis(1), ..HistoryOptions::default() };
    let (believed, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (believes, asks) = (Arc::clone(&believed), Arc::clone(&asked));
    let may_remove = Arc::new(move || {
        asks.store(true, Ordering::Relaxed);
        believes.load(Ordering::Relaxed)
    });
    let history = HistoryWriter::open_guarded(&HistorySource::new(folder.path()), options, may_remove).unwrap();
    let seq = submit(history.handle(), vec![point("a", 1, 1)]).unwrap();
    assert!(history.handle().wait_stored(seq, PATIENCE));
    for _ in 0..3 {
        asked.store(false, Ordering::Relaxed);
        wait_until(history.handle(), |_| asked.load(Ordering::Relaxed));
        assert_eq!(values(folder.path(), "a"), [Value::Int(1)]);
    }
    believed.store(true, Ordering::Relaxed);
    wait_until(history.handle(), |history| history.status().removed_samples == 1);
    assert!(values(folder.path(), "a").is_empty());
}

/// Queries are whole while a store that was opened reads the journal, however long that takes.
#[test]
fn what_the_journal_has_is_read_before_the_store_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let history = HistoryWriter::open(folder.path(), HistoryOptions::default()).unwrap();
    submit(history.handle(), (0..1000).map(|n| point("a", n, n)).collect()).unwrap();
    drop(history);
    let source = HistorySource::new(folder.path());
    let journal = folder.path().join(JOURNAL_FOLDER);
    let [write, read] = [(); 2].map(|()| FolderStorage::open(&journal).unwrap());
    let store = FillingStore::open(&source);
    let full = Arc::clone(&store.1);
    full.store(true, Ordering::SeqCst);
    let options = HistoryOptions { retry: Duration::from_millis(5), ..HistoryOptions::default() };
    let history = HistoryWriter::over(write, read, Box::new(store), options, Arc::new(|| true)).unwrap();
    let count = || source.reader().unwrap().query(HistoryQuery::of(Filter::new("a").unwrap())).unwrap().count();
    assert_eq!(count(), 1000);
    full.store(false, Ordering::SeqCst);
    let last = submit(history.handle(), vec![point("a", 2000, 1)]).unwrap();
    assert!(history.handle().wait_stored(last, PATIENCE));
    assert_eq!(count(), 1001);
}

/// Slow topics hold their records back: the store writes them before the journal is full, and not again and again.
#[test]
fn a_slow_topic_does_not_fill_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Limits { segment_bytes: 1 << 20, total_bytes: 4 << 20, ..Limits::default() };
    let options = HistoryOptions { journal, ..HistoryOptions::default() };
    let history = HistoryWriter::open(folder.path(), options).unwrap();
    let handle = history.handle();
    let mut last = Seq(0);
    for turn in 0..300 {
        // One sample of each slow topic, and many of a fast one.
        let mut updates: Vec<Update> = (0..20).map(|n| point(&format!("slow{n}"), turn * 1000, turn)).collect();
        updates.extend((0..5000).map(|n| point("fast", (turn * 5000 + n) * 1000, n)));
        last = submit(handle, updates).expect("the journal has room");
        assert!(handle.wait_stored(last, PATIENCE));
    }
    let status = handle.status();
    assert!(status.journal.written_bytes > 2 * options.journal.total_bytes, "{status:?}");
    assert!(status.journal_bytes < options.journal.total_bytes && status.released < last, "{status:?}");
    assert!(status.chunks < 1000, "{status:?}");
    drop(history);
    assert_eq!(values(folder.path(), "slow7").len(), 300);
    assert_eq!(values(folder.path(), "fast").len(), 1_500_000);
}
