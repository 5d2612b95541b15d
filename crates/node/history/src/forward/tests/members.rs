//! Members of a core: one after another writes to the database.

use super::{PATIENCE, World, forwarding, numbers, open, options, record, wait_written};
use crate::forward::DatabaseKeeper;
use crate::{HistorySource, HistoryWriter, Placed, ReplicaFile, ReplicaKind, Replicate, Replication};
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use tieline_journal::Seq;

/// What is in the log: a record's place is 10 for each before it.
#[derive(Default)]
struct Log {
    records: Mutex<Vec<(ReplicaKind, Vec<u8>)>>,
    /// Records that it takes.
    room: Mutex<Option<usize>>,
}

impl Replicate for Log {
    fn replicate(&self, kind: ReplicaKind, record: &[u8]) -> Result<u64, String> {
        if !self.leads() {
            return Err("over".to_owned());
        }
        let mut records = self.records.lock().unwrap();
        records.push((kind, record.to_vec()));
        Ok(10 * records.len() as u64)
    }

    fn leads(&self) -> bool {
        self.room.lock().unwrap().is_none_or(|room| self.records.lock().unwrap().len() < room)
    }
}

/// Reads the log into a folder from a place on, as a standby; the place of the last record of the journal.
fn follow(folder: &Path, log: &Log, place: u64) -> u64 {
    let source = HistorySource::new(folder);
    let replication = Replication { log: None, place };
    let writer = HistoryWriter::open_replicated(&source, options(1 << 20), Arc::new(|| true), replication).unwrap();
    let mut keeper = writer.keep_for(&source, vec!["d".to_owned()]).unwrap();
    let mut last = place;
    for (index, (kind, record)) in (1..).zip(log.records.lock().unwrap().iter()) {
        match kind {
            ReplicaKind::History => {
                let (told, done) = mpsc::channel();
                let placed = vec![Placed { place: 10 * index, record: record.clone() }];
                writer.handle().submit_placed(placed, Box::new(move |stored| told.send(stored).unwrap()));
                let seq = done.recv_timeout(PATIENCE).unwrap().unwrap();
                last = last.max(10 * index);
                keeper.note_place(last, seq);
            }
            ReplicaKind::File { file: ReplicaFile::Databases, .. } => keeper.take(record).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    last
}

/// The place of the last record of history.
fn last_place(log: &Log) -> u64 {
    let records = log.records.lock().unwrap();
    10 * (1 + records.iter().rposition(|(kind, _)| *kind == ReplicaKind::History).unwrap() as u64)
}

/// Leads with a folder that has everything, and records some numbers; closed once the database has what it gets.
fn lead(
    folder: &Path,
    log: &Arc<Log>,
    world: &Arc<Mutex<World>>,
    (place, waits): (u64, bool),
    some: std::ops::Range<i64>,
) {
    let source = HistorySource::new(folder);
    let replication = Replication { log: Some(Arc::<Log>::clone(log) as _), place };
    let mut writer = HistoryWriter::open_replicated(&source, options(1 << 20), Arc::new(|| true), replication).unwrap();
    writer.forward(&source, vec![forwarding(world)]).unwrap();
    record(&writer, some);
    if waits {
        wait_written(&writer);
    }
}

#[test]
fn the_next_leader_goes_on_where_the_last_one_stopped() {
    for seed in 0..2 {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let (log, world) = (Arc::new(Log::default()), Arc::new(Mutex::new(World::default())));
        // The second has a journal of its own before: its sequences are others.
        {
            let own = HistoryWriter::open(second.path(), options(0)).unwrap();
            record(&own, 1000..1007);
        }
        world.lock().unwrap().dice = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed);
        let mut places = [0, 0];
        let folders = [first.path(), second.path()];
        for round in 0..5_i64 {
            let (own, other) = if round % 2 == 0 { (0, 1) } else { (1, 0) };
            places[own] = follow(folders[own], &log, places[own]);
            lead(folders[own], &log, &world, (places[own], round % 3 != 1), 40 * round..40 * round + 40);
            places[own] = last_place(&log);
            places[other] = follow(folders[other], &log, places[other]);
        }
        places[0] = follow(folders[0], &log, places[0]);
        lead(folders[0], &log, &world, (places[0], true), 200..201);
        assert_eq!(numbers(&world), (0..201).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(world.lock().unwrap().stored.positions.len(), 1, "all members have one name");
    }
}

#[test]
fn a_node_that_leads_no_longer_writes_nothing() {
    let (folder, log, world) = (tempfile::tempdir().unwrap(), Arc::new(Log::default()), Arc::default());
    lead(folder.path(), &log, &world, (0, true), 0..10);
    let records = log.records.lock().unwrap().len();
    *log.room.lock().unwrap() = Some(records);
    world.lock().unwrap().stored.positions.clear();
    let source = HistorySource::new(folder.path());
    let replication = Replication { log: Some(Arc::<Log>::clone(&log) as _), place: 10 * records as u64 };
    let mut writer = HistoryWriter::open_replicated(&source, options(1 << 20), Arc::new(|| true), replication).unwrap();
    writer.forward(&source, vec![forwarding(&world)]).unwrap();
    drop(writer);
    assert_eq!(numbers(&world), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_standby_lets_go_of_what_the_database_has() {
    let folder = tempfile::tempdir().unwrap();
    let source = HistorySource::new(folder.path());
    let writer = HistoryWriter::open(folder.path(), options(1 << 20)).unwrap();
    let mut keeper: DatabaseKeeper = writer.keep_for(&source, vec!["d".to_owned(), "e".to_owned()]).unwrap();
    keeper.note_place(100, Seq(7));
    let identity = "0123456789abcdef0123456789abcdef";
    for wrong in ["d", "d x 1", "../d 0123456789abcdef0123456789abcdef 1", &format!("d {identity} x")] {
        assert!(keeper.take(wrong.as_bytes()).is_err(), "{wrong}");
    }
    keeper.take(format!("d {identity} 99").as_bytes()).unwrap();
    assert_eq!(keeper.wanted(), [Seq(0), Seq(0)]);
    keeper.take(format!("d {identity} 100").as_bytes()).unwrap();
    assert_eq!(keeper.wanted(), [Seq(8), Seq(0)]);
    assert_eq!(std::fs::read_to_string(folder.path().join("databases/d.core")).unwrap().trim_end(), identity);
}

/// A node of its own becomes a member, another member has a copy of its folder; both leave, one while the core goes on, and one comes back.
#[test]
fn nodes_that_join_and_leave_a_core_write_each_sample_once() {
    for seed in 0..6 {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let (log, world) = (Arc::new(Log::default()), Arc::new(Mutex::new(World::default())));
        world.lock().unwrap().dice = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed);
        let waits = seed % 2 == 0;
        let alone = |folder: &Path, some: std::ops::Range<i64>, waits: bool| {
            let writer = open(folder, &world, 1 << 20);
            record(&writer, some);
            if waits {
                wait_written(&writer);
            }
        };
        alone(first.path(), 0..40, waits);
        super::copy(first.path(), second.path());
        crate::note_restored(second.path()).unwrap();
        let place = follow(first.path(), &log, 0);
        lead(first.path(), &log, &world, (place, waits), 40..80);
        let had = last_place(&log);
        let place = follow(second.path(), &log, 0);
        alone(first.path(), 80..120, waits);
        lead(second.path(), &log, &world, (place, waits), 120..160);
        alone(first.path(), 160..170, true);
        alone(second.path(), 170..180, waits);
        // What the other member recorded for the core is in the database; here it is in the journal.
        let place = follow(first.path(), &log, had);
        lead(first.path(), &log, &world, (place, true), 180..190);
        alone(second.path(), 190..200, true);
        let mut found = numbers(&world);
        found.sort_unstable();
        assert_eq!(found, (0..200).collect::<Vec<_>>(), "seed {seed}");
    }
}

/// Databases are configured when the node has left the core: they get what the journal has of both times, and so do later ones.
#[test]
fn a_database_that_no_core_knew_gets_what_the_journal_has() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Arc::new(Log::default()));
    let source = HistorySource::new(folder.path());
    let replication = Replication { log: Some(Arc::<Log>::clone(&log) as _), place: 0 };
    let writer = HistoryWriter::open_replicated(&source, options(1 << 20), Arc::new(|| true), replication).unwrap();
    record(&writer, 0..10);
    drop(writer);
    for later in [10, 20] {
        let world = Arc::new(Mutex::new(World::default()));
        let writer = open(folder.path(), &world, 1 << 20);
        record(&writer, later..later + 10);
        let status = wait_written(&writer);
        let mut found = numbers(&world);
        found.sort_unstable();
        assert_eq!((found, status.missing_records), ((0..later + 10).collect(), 0));
    }
}
