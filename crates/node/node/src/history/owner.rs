//! The owner of history: opens it, and holds it open until the node stops.
//!
//! A disk that is full or fails does not stop a node from starting: live values flow, history says what is wrong, and
//! it is opened as soon as that passes.

use super::databases::forwarding_of;
use crate::config::{DatabaseConfig, HistoryConfig};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tieline_core::StorageErrorKind;
use tieline_history::JournalFeed;
use tieline_history::{
    DATABASES_FOLDER, HistoryError, HistoryHandle, HistoryOptions, HistorySource, HistoryState, HistoryWriter,
    MayRemove, Replication, Retention, StoreError,
};
use tieline_journal::Limits;
use tokio::sync::mpsc;

/// How soon a history that could not be opened is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Called when history was opened, or cannot be opened for another reason than before.
pub type OnChange = Box<dyn Fn(Result<HistoryHandle, HistoryState>) + Send>;

/// Another reader of the journal, which is given it once history is open.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Takes it.
    pub opened: mpsc::UnboundedSender<(HistoryHandle, JournalFeed)>,
    /// Whether records that it wants are never given up.
    pub is_held: bool,
    /// Bytes of the journal that are kept for it otherwise.
    pub kept_bytes: u64,
    /// Records must not be longer, roughly.
    pub record_bytes: usize,
}

/// Holds history open. Dropping it closes history: what was recorded is stored first, as far as the disk lets.
#[derive(Debug)]
pub enum HistoryOwner {
    /// History is off.
    Off,
    /// It is open.
    Open(HistoryWriter),
    /// It is tried again and again.
    Opening(Opening),
}

/// A thread that opens history when it can.
#[derive(Debug)]
pub struct Opening {
    state: HistoryState,
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HistoryOwner {
    /// Opens the journal and the store of `source`, or goes on trying and says when it has succeeded. `may_remove` says
    /// whether samples may be removed by their age now.
    ///
    /// # Errors
    /// What is there was written by a newer release, or the system gives no thread.
    pub fn start(
        config: &HistoryConfig,
        source: &HistorySource,
        may_remove: MayRemove,
        on_change: OnChange,
        joined: Vec<Joined>,
        replication: Replication,
    ) -> Result<Self, HistoryError> {
        if !config.enabled {
            return Ok(Self::Off);
        }
        let options = options_of(config, &joined);
        source.set_rules(config.retention.clone());
        let databases = config.databases.clone();
        let error = match open(source, (options, &may_remove, &replication), &databases, &joined) {
            Ok(writer) => return Ok(Self::Open(writer)),
            Err(error @ HistoryError::Store(StoreError::Newer(_))) => return Err(error),
            Err(error) => error,
        };
        let state = state_of(&error);
        tracing::warn!(%error, "history cannot be opened; the node goes on without and tries again");
        let (stop, stopped) = sync_channel(0);
        let (source, known) = (source.clone(), state.clone());
        let open = move || open(&source, (options, &may_remove, &replication), &databases, &joined);
        let body = move || open_when_possible(open, known, &on_change, &stopped);
        let thread = std::thread::Builder::new().name("history-open".to_owned()).spawn(body)?;
        Ok(Self::Opening(Opening { state, stop: Some(stop), thread: Some(thread) }))
    }

    /// Where updates go in, or why they cannot; none where history is off.
    #[must_use]
    pub fn handle(&self) -> Option<Result<HistoryHandle, HistoryState>> {
        match self {
            Self::Off => None,
            Self::Open(writer) => Some(Ok(writer.handle().clone())),
            Self::Opening(opening) => Some(Err(opening.state.clone())),
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the thread that opens history panicked");
        }
    }
}

/// How history is kept by a configuration, with what other readers of the journal need.
pub fn options_of(config: &HistoryConfig, joined: &[Joined]) -> HistoryOptions {
    let default = HistoryOptions::default();
    let databases_bytes = if config.databases.is_empty() { 0 } else { config.databases_bytes_max };
    HistoryOptions {
        durability: config.durability,
        journal: Limits {
            total_bytes: config.journal_bytes_max,
            kept_bytes: joined.iter().map(|joined| joined.kept_bytes).fold(databases_bytes, u64::max),
            ..Limits::default()
        },
        retention: Retention { age: config.keep, bytes: config.store_bytes_max },
        memory_bytes: config.memory_bytes_max,
        record_bytes: joined.iter().map(|joined| joined.record_bytes).min().unwrap_or(default.record_bytes),
        ..default
    }
}

/// Opens history, and begins to write it to databases.
fn open(
    source: &HistorySource,
    (options, may_remove, replication): (HistoryOptions, &MayRemove, &Replication),
    databases: &[DatabaseConfig],
    joined: &[Joined],
) -> Result<HistoryWriter, HistoryError> {
    let mut writer = HistoryWriter::open_replicated(source, options, Arc::clone(may_remove), replication.clone())?;
    if !databases.is_empty() {
        let folder = source.data().join(DATABASES_FOLDER);
        writer.forward(source, databases.iter().map(|config| forwarding_of(config, &folder)).collect())?;
    }
    for Joined { opened, is_held, .. } in joined {
        // Who has gone needs none.
        drop(opened.send((writer.handle().clone(), writer.feed(source, *is_held))));
    }
    Ok(writer)
}

fn open_when_possible(
    open: impl Fn() -> Result<HistoryWriter, HistoryError>,
    mut known: HistoryState,
    on_change: &OnChange,
    stopped: &Receiver<()>,
) {
    while stopped.recv_timeout(RETRY) == Err(RecvTimeoutError::Timeout) {
        let opened = open();
        let seen = match &opened {
            Ok(writer) => Ok(writer.handle().clone()),
            Err(error) => Err(state_of(error)),
        };
        if seen.as_ref().err() != Some(&known) {
            known = seen.as_ref().err().cloned().unwrap_or_default();
            on_change(seen);
        }
        if let Ok(_writer) = opened {
            // Held open until the node stops.
            let _ = stopped.recv();
            return;
        }
    }
}

fn state_of(error: &HistoryError) -> HistoryState {
    let full = match error {
        HistoryError::Store(error) => matches!(error, StoreError::Full(_)),
        HistoryError::Journal(error) => error.kind == StorageErrorKind::Full,
        HistoryError::System(error) => matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded),
    };
    if full { HistoryState::DiskFull } else { HistoryState::Failed { why: error.to_string() } }
}
