//! The thread that writes: records and what control keeps, durable before what follows them.

use super::files::{self, Open, RECENT_MAX};
use super::{AuditLead, AuditLine, ChainedLine, Entry, Shown, lock};
use crate::config::AuditConfig;
use crate::control::state::StateFile;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tieline_core::Timestamp;
use tieline_history::RunningInstant;

/// How soon a file that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// What must fit before commands go out again.
const PROBE: [u8; 512] = [b' '; 512];

/// The owner of the files, on a thread of its own.
pub(super) struct Writer {
    folder: PathBuf,
    config: AuditConfig,
    file: Option<Open>,
    state: StateFile,
    lead: Option<AuditLead>,
    shown: Arc<Mutex<Shown>>,
}

impl Writer {
    /// Opens the file, which may fail; then it is tried again.
    pub(super) fn start(
        folder: &Path,
        config: AuditConfig,
        (state, lead): (StateFile, Option<AuditLead>),
        shown: Arc<Mutex<Shown>>,
    ) -> Self {
        let mut writer = Self { folder: folder.to_owned(), config, file: None, state, lead, shown };
        writer.recover();
        writer
    }

    /// Writes what comes, until nobody gives any more.
    pub(super) fn run(mut self, incoming: &Receiver<Entry>) {
        loop {
            let in_trouble = lock(&self.shown).trouble.is_some();
            let first = match in_trouble {
                false => incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
                true => incoming.recv_timeout(RETRY),
            };
            match first {
                Ok(first) => self.write(std::iter::once(first).chain(incoming.try_iter()).collect()),
                Err(RecvTimeoutError::Timeout) => self.recover(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Opens the file where that failed, and looks whether it takes a record.
    fn recover(&mut self) {
        let opened = match self.file.take() {
            Some(open) => Ok((open, None)),
            None => Open::new(&self.folder, self.config, self.lead.clone()).map(|(open, recent)| (open, Some(recent))),
        };
        let tried = opened.and_then(|(mut open, recent)| {
            let (probed, cut) = (open.append(&PROBE), open.cut());
            if let Some(recent) = recent {
                lock(&self.shown).recent = recent;
            }
            let begun = probed.and(cut).and_then(|()| {
                let settled = open.settle()?;
                self.show(settled);
                open.begin()
            });
            lock(&self.shown).files = open.counts();
            self.file = Some(open);
            begun
        });
        match tried {
            Ok(lines) => {
                self.show(lines);
                self.note(None);
            }
            Err(error) => self.note(Some(error)),
        }
    }

    fn note(&self, error: Option<io::Error>) {
        let trouble = error.map(|error| error.to_string());
        let known = std::mem::replace(&mut lock(&self.shown).trouble, trouble.clone());
        match (known, trouble) {
            (known, Some(error)) if known.as_ref() != Some(&error) => {
                tracing::warn!(error, "the audit log cannot be written; commands are refused");
            }
            (Some(_), None) => tracing::info!("the audit log goes on"),
            _ => {}
        }
    }

    fn write(&mut self, entries: Vec<Entry>) {
        lock(&self.shown).under_way = Some(RunningInstant::now());
        // What the log of the core has must be here before anything else goes there.
        if self.owes() {
            self.recover();
        }
        let stored = !self.owes() && self.store(&entries);
        let durable = self.write_durably(&entries);
        lock(&self.shown).under_way = None;
        for Entry { state, afterwards, .. } in entries {
            if let Some(run) = afterwards {
                run(durable && (stored || state.is_none()));
            }
        }
    }

    /// Writes what control keeps; false where some of it could not be.
    fn store(&mut self, entries: &[Entry]) -> bool {
        let mut changes = entries.iter().filter_map(|entry| entry.state.as_ref()).peekable();
        if changes.peek().is_none() {
            return true;
        }
        // After one that failed, those that follow would leave a gap.
        let written = changes.try_for_each(|change| self.state.write(change));
        let trouble = written.as_ref().err().map(|error| format!("control.jsonl: {error}"));
        let known = std::mem::replace(&mut lock(&self.shown).state_trouble, trouble.clone());
        match (known, trouble) {
            (known, Some(error)) if known.as_ref() != Some(&error) => {
                tracing::warn!(
                    error,
                    "the state of control cannot be written; commands under reservations are refused"
                );
            }
            (Some(_), None) => tracing::info!("the state of control is written again"),
            _ => {}
        }
        written.is_ok()
    }

    fn write_durably(&mut self, entries: &[Entry]) -> bool {
        if lock(&self.shown).trouble.is_some() {
            self.recover();
        }
        let written = match &mut self.file {
            Some(open) if lock(&self.shown).trouble.is_none() => {
                let written = open.write(entries);
                self.note(written.as_ref().err().map(|error| io::Error::new(error.kind(), error.to_string())));
                written.ok()
            }
            Some(_) | None => None,
        };
        let durable = written.is_some();
        if let Some(lines) = written {
            self.show(lines);
            lock(&self.shown).files = self.file.as_ref().map(Open::counts).unwrap_or_default();
        }
        durable
    }

    fn owes(&self) -> bool {
        self.file.as_ref().is_some_and(Open::owes)
    }

    fn show(&self, lines: Vec<ChainedLine>) {
        let mut shown = lock(&self.shown);
        shown.recent.extend(lines);
        let over = shown.recent.len().saturating_sub(RECENT_MAX);
        shown.recent.drain(..over);
    }
}

/// Notes the last record of each command under way: a point takes one at a time.
pub(super) fn follow(unfinished: &mut BTreeMap<String, AuditLine>, line: &AuditLine) {
    match line.phase.as_str() {
        "requested" | "sent" => drop(unfinished.insert(line.topic.clone(), line.clone())),
        // Of another request, which was not taken.
        "refused"
        | "denied"
        | "login_refused"
        | "session_ended"
        | "policy"
        | "clock"
        // Of a command that has ended, or of none.
        | "confirmed"
        | "unconfirmed"
        | "reserved"
        | "preempted"
        | "reservation_ended"
        | "holder_gone"
        | "lease_expired"
        | "override_on"
        | "override_off"
        | files::CONTINUED
        | files::LEADS
        | files::REMOVED => {}
        _ => drop(unfinished.remove(&line.topic)),
    }
}

/// The last record of a command that was under way when the node stopped.
pub(super) fn end_of(line: AuditLine, id: u64) -> AuditLine {
    let (phase, detail) = match line.phase.as_str() {
        "sent" => ("unanswered", "the node stopped before the outcome came; the command may have been carried out"),
        _ => ("dropped", "the node stopped before it was sent"),
    };
    let time = now().to_string();
    let (phase, reason, detail) = (phase.to_owned(), "restart".to_owned(), detail.to_owned());
    AuditLine { id, time, phase, reason, detail, ..line }
}

/// The time of the system.
pub(super) fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::default().later(since_1970)
}
