//! Opens the ledger, reads what is in it, and holds its thread until the node stops.

use super::batches::Opened;
use super::losses::{Losses, Lost};
use super::thread::{ALIVE_EVERY, Batch, News, Open, Writer, limits};
use crate::bus::BusHandle;
use crate::config::MqttConfig;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tieline_core::{StorageError, StorageErrorKind, Timestamp};
use tieline_history::{HUNG_AFTER, Replicate};
use tieline_journal::{Fault, Item, Journal, Limits, Reader, Seq};
use tieline_ledger::{Image, Replay};
use tieline_net::Clock;
use tieline_store::FolderStorage;
use tracing::{info, warn};

/// The ledger's folder below a node's data folder.
const FOLDER: &str = "ledger";

/// Holds the ledger's thread. Dropping it waits until all is written that the bus has given it, as far as the disk answers.
#[derive(Debug)]
pub struct LedgerOwner {
    thread: Option<Thread>,
}

/// What was found at the start.
#[derive(Default)]
struct Read {
    journal: Option<Journal<FolderStorage>>,
    image: Image,
    lost: Option<Lost>,
}

#[derive(Debug)]
struct Thread {
    give: Sender<Option<Batch>>,
    handle: JoinHandle<()>,
    /// Hears of each batch, and when it has ended.
    beats: Receiver<()>,
}

impl LedgerOwner {
    /// Opens the ledger in `folder`, if there is to be one: what holds it, what the bus writes to, and what was pending
    /// when the node last ran.
    ///
    /// # Errors
    /// What is there cannot be read, in words; or the system gives no thread.
    pub fn start(
        config: &MqttConfig,
        folder: &Path,
        clock: Clock,
        bus: BusHandle,
        log: Option<Arc<dyn Replicate>>,
    ) -> Result<(Self, Option<Opened>, Image), String> {
        let Some(durability) = config.durability else {
            return Ok((Self { thread: None }, None, Image::default()));
        };
        let folder = folder.join(FOLDER);
        let Read { journal, image, lost } = read(&folder, limits(config.ledger_bytes_max), clock.now().utc)?;
        let bytes = journal.as_ref().map_or(0, Journal::bytes);
        let (give, orders) = channel();
        let limits = limits(config.ledger_bytes_max);
        let open: Open<FolderStorage> = Box::new(move || {
            let storage = FolderStorage::open(&folder).map_err(|error| full_or_io(&error))?;
            Ok(Journal::open(storage, limits, Seq(0), clock.now().utc)?.0)
        });
        let (beat, beats) = sync_channel(1);
        let writer = Writer {
            journal,
            open,
            durability,
            log,
            orders,
            tell: Box::new(move |news: News| {
                let _ = beat.try_send(());
                bus.tell_ledger(news);
            }),
            now: Box::new(move || clock.now().utc),
            begun: None,
            retry_at: None,
            alive_at: Instant::now() + ALIVE_EVERY,
        };
        let spawned = std::thread::Builder::new().name("ledger".to_owned()).spawn(move || writer.run());
        let handle = spawned.map_err(|error| format!("no thread for the ledger: {error}"))?;
        let opened = Opened { give: give.clone(), bytes, bytes_max: config.ledger_bytes_max, lost };
        Ok((Self { thread: Some(Thread { give, handle, beats }) }, Some(opened), image))
    }
}

impl Drop for LedgerOwner {
    fn drop(&mut self) {
        let Some(Thread { give, handle, beats }) = self.thread.take() else { return };
        // The bus has ended and has given all that it had.
        let _ = give.send(None);
        let end = std::iter::repeat_with(|| beats.recv_timeout(HUNG_AFTER)).find_map(Result::err);
        if end == Some(RecvTimeoutError::Timeout) {
            warn!("the disk of the ledger does not answer: the node stops without what it was given last");
        } else if handle.join().is_err() {
            warn!("the thread of the ledger panicked");
        }
    }
}

/// When the node died. A session whose client was there when the node died may be older than was last said by as much
/// as is between two such words.
#[must_use]
pub fn died_at(image: &Image, now: Timestamp) -> Timestamp {
    image.alive.later(ALIVE_EVERY + Duration::from_secs(1)).min(now)
}

/// Opens the journal and reads all of it that can be read. Without a journal where the disk is full before there was one.
fn read(folder: &Path, limits: Limits, now: Timestamp) -> Result<Read, String> {
    let open = || FolderStorage::open(folder);
    let storage = match open() {
        Ok(storage) => storage,
        Err(error) if full_or_io(&error).kind == StorageErrorKind::Full => return Ok(Read::default()),
        Err(error) => return Err(format!("{}: {error}", folder.display())),
    };
    let said = |error: StorageError| format!("the ledger cannot be read: {error}");
    let (journal, found) = Journal::open(storage, limits, Seq(0), now).map_err(said)?;
    let last = journal.last();
    let first = Seq(last.next().since(Seq(found.records)));
    let mut reader = Reader::new(open().map_err(|error| error.to_string())?, first);
    let mut losses = Losses::new(folder, open().map_err(|error| error.to_string())?);
    let mut replay = Replay::default();
    while let Some(item) = reader.next(last).map_err(said)? {
        match item {
            Item::Record { seq, payload } => replay.handle_record(payload).map_err(|error| {
                format!("record {seq} of the ledger in {} cannot be used: {error}", folder.display())
            })?,
            Item::Lost(lost) => losses.take(&mut replay, &lost.damage, lost.records),
        }
    }
    for damage in &found.damage {
        match damage.why {
            Fault::Torn => warn!(%damage, "the ledger's last record was not whole: it is cut off"),
            // What is damaged behind the last record has no number.
            Fault::Checksum | Fault::Gone => losses.take(&mut replay, damage, 1),
        }
    }
    let (image, given) = replay.finish_with_losses();
    let lost = losses.finish(&given);
    let (values, sessions) = (image.values.len(), image.sessions.len());
    info!(values, sessions, bytes = journal.bytes(), "the ledger is open");
    Ok(Read { journal: Some(journal), image, lost })
}

fn full_or_io(error: &io::Error) -> StorageError {
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let kind = if full { StorageErrorKind::Full } else { StorageErrorKind::Io };
    StorageError { kind, message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::fs;
    use tieline_core::Topic;
    use tieline_ledger::{Message, Record, Session, Value};

    const BATCHES: u64 = 6;
    const HEADER_BYTES: usize = 28;

    /// A session and a last value a batch.
    fn batch(number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        Record::begin(&mut bytes);
        let client = format!("c{number}");
        Record::Session(Session {
            number,
            client,
            user: None,
            stamp: None,
            expiry_s: 60,
            away_since: None,
            will: None,
        })
        .emit(&mut bytes);
        let topic = Topic::new(&format!("t/{number}")).unwrap();
        let (payload, properties) = (Bytes::from_static(b"on"), Bytes::new());
        let message = Message { topic, payload, properties, received: Timestamp::from_micros(2) };
        Record::Value(Value { message, qos: 1 }).emit(&mut bytes);
        bytes
    }

    #[test]
    fn whatever_byte_is_flipped_a_ledger_opens_and_says_what_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let storage = FolderStorage::open(folder.path()).unwrap();
        let (mut journal, _) = Journal::open(storage, limits(1 << 20), Seq(0), now).unwrap();
        for number in 1..=BATCHES {
            journal.append(&batch(number)).unwrap();
            journal.sync().unwrap();
        }
        drop(journal);
        let path = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let whole = fs::read(&path).unwrap();
        let kept = path.with_extension("seg.damaged");
        let found = read(folder.path(), limits(1 << 20), now).unwrap();
        assert_eq!((found.image.values.len() as u64, found.lost), (BATCHES, None));
        let frame = (whole.len() - HEADER_BYTES) / usize::try_from(BATCHES).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            fs::write(&path, &flipped).unwrap();
            let Read { image, lost, .. } = read(folder.path(), limits(1 << 20), now).unwrap();
            let Some(place) = at.checked_sub(HEADER_BYTES) else {
                assert_eq!((image.values.len() as u64, lost), (BATCHES, None), "a damaged header costs nothing");
                continue;
            };
            let hit = 1 + (place / frame) as u64;
            let lost = lost.unwrap();
            assert_eq!((lost.records, &lost.files), (1, &vec![kept.clone()]), "{at}");
            // Its own value is gone, and those of the others are there.
            let mut topics: Vec<String> = image.values.keys().map(ToString::to_string).collect();
            topics.sort();
            assert_eq!(
                topics,
                (1..=BATCHES).filter(|n| *n != hit).map(|n| format!("t/{n}")).collect::<Vec<_>>(),
                "{at}"
            );
            // What it said of a session is gone, and those of which it may have spoken.
            assert!(!image.sessions.contains_key(&hit), "{at}");
            assert!((lost.sessions as u64) < hit && image.sessions.len() as u64 >= BATCHES - hit, "{at} {lost:?}");
            assert_eq!(fs::read(&kept).unwrap(), flipped, "the damaged file is kept");
            fs::remove_file(&kept).unwrap();
        }
    }
}
