//! The data folder of a standby: what the log says is written into its ledger and its journal, so that a node can start on it at any
//! time as after a restart.

use super::parts::{Joiner, Taken, place};
use super::places::{LEDGER_FOLDER, Places};
use super::{ClusterBoard, ClusterParts};
use crate::control::audit::AuditCopy;
use crate::control::state::{StateChange, StateFile};
use crate::history::options_of;
use crate::sites::StandbyMarks;
use crate::sites::joining::{FabricFiles, SiteList};
use crate::wall_clock::{WallClock, last_known};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use tieline_fabric::Entry;
use tieline_history::{DatabaseKeeper, HistorySource, HistoryWriter, Placed, ReplicaFile, ReplicaKind, Replication};
use tieline_journal::{Journal, JournalError, Limits, Seq, encode, note_of};
use tieline_ledger::Record;
use tieline_net::Clock;
use tieline_relay::message_records;
use tieline_store::FolderStorage;
use tokio::sync::{mpsc, oneshot, watch};

/// Messages that wait for the disk.
const ENTRIES_MAX: usize = 16;
/// How often the ledger is synced at least, while messages come. The log has what a power cut takes.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// The thread that has the folder.
#[derive(Debug)]
pub struct Replica {
    /// Takes messages, in their order; the thread ends when it is dropped.
    pub entries: mpsc::Sender<Entry>,
}

/// What becomes of a replica.
#[derive(Debug)]
pub struct Replicating {
    /// The last message that is in the folder.
    pub applied: watch::Receiver<u64>,
    /// Tells once where it begins.
    pub opened: oneshot::Receiver<Places>,
    /// Tells once that the folder is closed, and how far it is, or why it had to be.
    pub ended: oneshot::Receiver<Result<Places, String>>,
}

impl Replica {
    /// Opens the folder in a thread of its own.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(parts: ClusterParts, clock: Clock) -> std::io::Result<(Self, Replicating)> {
        let (sender, entries) = mpsc::channel(ENTRIES_MAX);
        let (told, applied) = watch::channel(0);
        let ((tell_opened, opened), (tell_ended, ended)) = (oneshot::channel(), oneshot::channel());
        let body = move || {
            let done = Folder::open(&parts, clock).and_then(|(folder, places)| {
                let _ = told.send(places.sequence());
                // Who has gone needs none.
                let _ = tell_opened.send(places);
                folder.run(entries, &told)
            });
            let _ = tell_ended.send(done);
        };
        std::thread::Builder::new().name("replica".to_owned()).spawn(body)?;
        Ok((Self { entries: sender }, Replicating { applied, opened, ended }))
    }
}

struct Folder {
    ledger: Journal<FolderStorage>,
    /// The last records that are written.
    places: Places,
    /// Where the compaction began that has not ended.
    begun: Option<Seq>,
    synced_at: Instant,
    source: HistorySource,
    history: Option<HistoryWriter>,
    /// How far the sites of a centre are.
    marks: Option<StandbyMarks>,
    control: StateFile,
    audit: AuditCopy,
    /// What the journal keeps for databases.
    databases: Option<DatabaseKeeper>,
    data: PathBuf,
    board: Arc<ClusterBoard>,
    joiner: Joiner,
}

impl Folder {
    fn open(parts: &ClusterParts, clock: Clock) -> Result<(Self, Places), String> {
        std::fs::create_dir_all(&parts.folder).map_err(|error| error.to_string())?;
        let places = Places::read(&parts.folder, parts.history.enabled)?;
        let folder = parts.folder.join(LEDGER_FOLDER);
        let storage = FolderStorage::open(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // Segments as those of a ledger that a node has.
        let segment_bytes = (parts.ledger_bytes_max / 8).min(8 << 20);
        let limits = Limits { segment_bytes, total_bytes: u64::MAX, ..Limits::default() };
        let (ledger, _) = Journal::open(storage, limits, Seq(0), clock.now().utc).map_err(|error| error.to_string())?;
        let source = HistorySource::new(&parts.folder);
        let history = places.history.map(|place| {
            source.set_rules(parts.history.retention.clone());
            let wall = WallClock::new(clock, last_known(&parts.folder));
            let may_remove = Arc::new(move || wall.doubt().is_none());
            let replication = Replication { log: None, place };
            HistoryWriter::open_replicated(&source, options_of(&parts.history, &[]), may_remove, replication)
        });
        let history = history.transpose().map_err(|error| error.to_string())?;
        let of_centre = history.as_ref().filter(|_| parts.is_centre);
        let marks = of_centre.map(|history| StandbyMarks::open(&parts.folder, history, &source)).transpose()?;
        let (synced_at, joiner) = (Instant::now(), Joiner::default());
        let (control, data) = (StateFile::new(parts.folder.clone()), parts.folder.clone());
        let names: Vec<String> = parts.history.databases.iter().map(|database| database.name.clone()).collect();
        let databases = history.as_ref().map(|history| history.keep_for(&source, names)).transpose();
        let databases = databases.map_err(|error| error.to_string())?;
        let audit = AuditCopy::new(parts.folder.clone(), parts.audit);
        let board = Arc::clone(&parts.board);
        Ok((
            Self {
                ledger,
                places,
                begun: None,
                synced_at,
                source,
                history,
                marks,
                control,
                audit,
                databases,
                data,
                board,
                joiner,
            },
            places,
        ))
    }

    fn run(mut self, mut entries: mpsc::Receiver<Entry>, applied: &watch::Sender<u64>) -> Result<Places, String> {
        while let Some(entry) = entries.blocking_recv() {
            self.apply(&entry).map_err(|why| format!("message {} of the log: {why}", entry.sequence))?;
            applied.send_replace(entry.sequence);
        }
        self.ledger.sync().map_err(|error| error.to_string())?;
        Ok(self.places)
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), String> {
        let records = message_records(&entry.body).map_err(|_| "it is no message".to_owned())?;
        let mut placed = Vec::new();
        for (index, record) in (0..).zip(&records) {
            let place = place(entry.sequence, index);
            match self.joiner.take(record)? {
                Taken::Nothing | Taken::Whole(ReplicaKind::Commands, _) => {}
                Taken::Whole(ReplicaKind::History, record) => placed.push(Placed { place, record }),
                Taken::Whole(ReplicaKind::Ledger { begins, ends }, record) => {
                    self.write_ledger(place, &record, (begins, ends))?;
                }
                Taken::Whole(ReplicaKind::File { file, replaces }, record) => {
                    self.write_file(file, record, replaces)?;
                }
                Taken::Term => {
                    // Both have a place of this term, whatever is said in it.
                    let (mut samples, mut changes) = (Vec::new(), Vec::new());
                    encode(&[], &mut samples);
                    Record::begin(&mut changes);
                    placed.push(Placed { place, record: samples });
                    self.write_ledger(place, &changes, (false, false))?;
                }
            }
        }
        self.ledger.write().map_err(|error| error.to_string())?;
        if self.synced_at.elapsed() >= SYNC_EVERY {
            self.synced_at = Instant::now();
            self.ledger.sync().map_err(|error| error.to_string())?;
        }
        self.write_history(placed)
    }

    fn write_ledger(&mut self, place: u64, record: &[u8], (begins, ends): (bool, bool)) -> Result<(), String> {
        if place <= self.places.ledger {
            return Ok(());
        }
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let record = Record::placed(place, record);
        let mut taken = self.ledger.append(&record);
        if matches!(taken, Err(JournalError::Unsynced(_))) && self.ledger.sync().is_ok() {
            taken = self.ledger.append(&record);
        }
        let seq = taken.map_err(|error| said(&error))?;
        self.places.ledger = place;
        if begins {
            self.begun = Some(seq);
        }
        if ends {
            self.ledger.sync().map_err(|error| said(&error))?;
            if let Some(begun) = self.begun.take() {
                self.ledger.release(begun.previous());
            }
        }
        Ok(())
    }

    /// On the disk before any record behind it: a place never says that the folder has a file that it has not.
    fn write_file(&mut self, file: ReplicaFile, record: Vec<u8>, replaces: bool) -> Result<(), String> {
        match file {
            ReplicaFile::Control => {
                let change = if replaces { StateChange::Replace(record) } else { StateChange::Append(record) };
                self.control.write(&change).map_err(|error| format!("control.jsonl: {error}"))
            }
            ReplicaFile::Sites => {
                let files = FabricFiles::of(&self.data);
                if !files.issuer().exists() {
                    let why =
                        "the leader lets sites in with keys that are not here: copy fabric/*.nk of its data folder";
                    self.board.note(|seen| why.clone_into(&mut seen.trouble));
                }
                SiteList::take_replicated(&files.sites(), &record, replaces).map_err(|error| error.to_string())
            }
            // Without a history there is nothing that they change.
            ReplicaFile::Edits if self.history.is_none() => Ok(()),
            ReplicaFile::Databases => match &mut self.databases {
                Some(databases) => databases.take(&record).map_err(|error| format!("databases: {error}")),
                None => Ok(()),
            },
            ReplicaFile::Audit => self.audit.take(&record).map_err(|error| format!("audit log: {error}")),
            ReplicaFile::Edits => self.source.take_edit(&record).map_err(|error| error.to_string()),
        }
    }

    fn write_history(&mut self, placed: Vec<Placed>) -> Result<(), String> {
        let (Some(history), Some(last)) = (&self.history, placed.last().map(|record| record.place)) else {
            return Ok(());
        };
        // A record that is there already has a mark that may be an older one.
        let is_new = |record: &&Placed| Some(record.place) > self.places.history;
        let fresh = placed.iter().filter(|_| self.marks.is_some()).filter(is_new);
        let notes: Vec<_> = fresh.filter_map(|record| note_of(&record.record).map(<[u8]>::to_vec)).collect();
        let (told, done) = sync_channel(1);
        history.handle().submit_placed(placed, Box::new(move |stored| drop(told.send(stored))));
        match done.recv() {
            Ok(Ok(seq)) => {
                self.places.history = self.places.history.max(Some(last));
                self.databases.iter_mut().for_each(|databases| databases.note_place(last, seq));
                self.marks.as_mut().map_or(Ok(()), |marks| marks.take(&notes, seq))
            }
            Ok(Err(why)) => Err(why.to_string()),
            Err(_) => Err("the history has ended".to_owned()),
        }
    }
}
