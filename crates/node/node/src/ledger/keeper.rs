//! Opens the ledger, reads what is in it, and holds its thread until the node stops.

use super::book::Opened;
use super::thread::{ALIVE_EVERY, Batch, News, Open, Writer, limits};
use crate::bus::BusHandle;
use crate::config::MqttConfig;
use std::io;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tieline_core::{StorageError, StorageErrorKind, Timestamp};
use tieline_journal::{Fault, Item, Journal, Limits, Reader, Seq};
use tieline_ledger::{Image, Replay};
use tieline_net::Clock;
use tieline_store::FolderStorage;
use tracing::{info, warn};

/// The ledger's folder below a node's data folder.
const FOLDER: &str = "ledger";

/// Holds the ledger's thread. Dropping it waits until all is written that the bus has given it.
#[derive(Debug)]
pub struct LedgerKeeper {
    thread: Option<(SyncSender<Option<Batch>>, JoinHandle<()>)>,
}

impl LedgerKeeper {
    /// Opens the ledger in `folder`, if there is to be one: what holds it, what the bus writes to, and what was owed when
    /// the node last ran.
    ///
    /// # Errors
    /// What is there cannot be read, in words; or the system gives no thread.
    pub fn start(
        config: &MqttConfig,
        folder: &Path,
        clock: Clock,
        bus: BusHandle,
    ) -> Result<(Self, Option<Opened>, Image), String> {
        let Some(durability) = config.durability else {
            return Ok((Self { thread: None }, None, Image::default()));
        };
        let folder = folder.join(FOLDER);
        let (journal, image) = read(&folder, limits(config.ledger_octets_max), clock.now().utc)?;
        let octets = journal.as_ref().map_or(0, Journal::octets);
        let (give, orders) = sync_channel(1);
        let limits = limits(config.ledger_octets_max);
        let open: Open<FolderStorage> = Box::new(move || {
            let storage = FolderStorage::open(&folder).map_err(|error| full_or_io(&error))?;
            Ok(Journal::open(storage, limits, Seq(0), clock.now().utc)?.0)
        });
        let writer = Writer {
            journal,
            open,
            durability,
            orders,
            tell: Box::new(move |news: News| bus.tell_ledger(news)),
            now: Box::new(move || clock.now().utc),
            begun: None,
            retry_at: None,
            alive_at: Instant::now() + ALIVE_EVERY,
        };
        let spawned = std::thread::Builder::new().name("ledger".to_owned()).spawn(move || writer.run());
        let thread = spawned.map_err(|error| format!("no thread for the ledger: {error}"))?;
        let opened = Opened { give: give.clone(), octets, octets_max: config.ledger_octets_max };
        Ok((Self { thread: Some((give, thread)) }, Some(opened), image))
    }
}

impl Drop for LedgerKeeper {
    fn drop(&mut self) {
        let Some((give, thread)) = self.thread.take() else { return };
        // The bus has ended and has given all that it had.
        let _ = give.send(None);
        if thread.join().is_err() {
            warn!("the thread of the ledger panicked");
        }
    }
}

/// What was owed. A session whose client was there when the node died may be older than was last said by as much as is
/// between two such words.
#[must_use]
pub fn died_at(image: &Image, now: Timestamp) -> Timestamp {
    image.alive.later(ALIVE_EVERY + Duration::from_secs(1)).min(now)
}

/// Opens the journal and reads all of it. Without a journal where the disk is full before there was one.
fn read(folder: &Path, limits: Limits, now: Timestamp) -> Result<(Option<Journal<FolderStorage>>, Image), String> {
    let open = || FolderStorage::open(folder);
    let storage = match open() {
        Ok(storage) => storage,
        Err(error) if full_or_io(&error).kind == StorageErrorKind::Full => return Ok((None, Image::default())),
        Err(error) => return Err(format!("{}: {error}", folder.display())),
    };
    let said = |error: StorageError| format!("the ledger cannot be read: {error}");
    let (journal, found) = Journal::open(storage, limits, Seq(0), now).map_err(said)?;
    for damage in &found.damage {
        match damage.why {
            Fault::Torn => warn!(%damage, "the ledger's last record was not whole: it is cut off"),
            Fault::Checksum | Fault::Gone => warn!(%damage, "the ledger holds octets that are no record"),
        }
    }
    let last = journal.last();
    let first = Seq(last.next().since(Seq(found.records)));
    let mut reader = Reader::new(open().map_err(|error| error.to_string())?, first);
    let mut replay = Replay::default();
    while let Some(item) = reader.next(last).map_err(said)? {
        match item {
            Item::Record { seq, payload } => replay.handle_record(payload).map_err(|error| {
                format!("record {seq} of the ledger in {} cannot be used: {error}", folder.display())
            })?,
            Item::Lost(lost) => {
                let (path, what) = (folder.join(&lost.damage.segment), &lost.damage);
                return Err(format!(
                    "the ledger is damaged: {} at octet {}: {}; {} records from {} on are lost. Move {} away to start \
                     without last values and sessions",
                    path.display(),
                    what.at,
                    what.why,
                    lost.records,
                    lost.first,
                    folder.display()
                ));
            }
        }
    }
    let image = replay.finish();
    let (values, sessions) = (image.values.len(), image.sessions.len());
    info!(values, sessions, octets = journal.octets(), "the ledger is open");
    Ok((Some(journal), image))
}

fn full_or_io(error: &io::Error) -> StorageError {
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let kind = if full { StorageErrorKind::Full } else { StorageErrorKind::Io };
    StorageError { kind, message: error.to_string() }
}
