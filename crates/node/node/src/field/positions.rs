//! Up to when the past of devices is known, over restarts of the node.
//!
//! In: a device answers, or has gone, or what it had kept meanwhile is stored. Out: from when on a device that keeps its own
//! past is to be asked for it.
//!
//! A device that answers is known up to the present; of it the file says no more, and what was between the last minute of the
//! node and its next start is found by when the node last ran. So the file is written when a device comes or goes, not
//! meanwhile:
//!
//! ```text
//! { "site/ahu1": null, "site/ahu2": "2026-11-25T20:00:00.000Z" }        null: it answered when this was written
//! ```

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tieline_core::{Timestamp, Topic};

/// The file below a node's data folder.
const FILE: &str = "trend-logs.json";
/// Changes that wait to be written; more are left out, and the past is read again after a restart.
const CHANGES_MAX: usize = 4096;

/// Up to when the past of a device is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Up to the present.
    Present,
    /// Up to then.
    Until(Timestamp),
}

type All = BTreeMap<String, Known>;

/// What is known of all devices. Copies are handles of the same.
#[derive(Clone, Debug)]
pub struct Positions(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    all: Mutex<All>,
    /// What the thread that writes is told; none before a device keeps its past.
    changes: Mutex<Option<SyncSender<Change>>>,
}

/// A device is known up to then; none: it is forgotten.
type Change = (String, Option<Known>);

impl Positions {
    /// Of no device, and written nowhere.
    #[cfg(test)]
    #[must_use]
    pub fn none() -> Self {
        Self(Arc::new(Shared { path: PathBuf::new(), all: Mutex::default(), changes: Mutex::default() }))
    }

    /// Of devices that keep their own past. `last_ran` is when the node last ran before it started.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(data: &Path, devices: &[Topic], last_ran: Option<Timestamp>) -> io::Result<Self> {
        let path = data.join(FILE);
        let known = if devices.is_empty() { All::new() } else { read(&path) };
        let until = |known| match known {
            Known::Present => last_ran.map(Known::Until),
            known @ Known::Until(_) => Some(known),
        };
        let all = known.into_iter().filter_map(|(device, known)| Some((device, until(known)?))).collect();
        let positions = Self(Arc::new(Shared { path, all: Mutex::new(all), changes: Mutex::default() }));
        positions.begin(devices)?;
        positions.keep(devices);
        Ok(positions)
    }

    /// Starts the thread that writes, where devices keep their past and it does not run. It ends with the last handle.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn begin(&self, devices: &[Topic]) -> io::Result<()> {
        let mut running = locked(&self.0.changes);
        if running.is_none() && !devices.is_empty() {
            let (changes, incoming) = sync_channel(CHANGES_MAX);
            let (path, all) = (self.0.path.clone(), locked(&self.0.all).clone());
            std::thread::Builder::new().name("positions".to_owned()).spawn(move || keep(&path, all, &incoming))?;
            *running = Some(changes);
        }
        Ok(())
    }

    /// Forgets all devices but these.
    pub fn keep(&self, devices: &[Topic]) {
        let kept: HashSet<&str> = devices.iter().map(Topic::as_str).collect();
        let gone = |device: &String, _: &mut Known| !kept.contains(device.as_str());
        let gone: Vec<String> = locked(&self.0.all).extract_if(.., gone).map(|(device, _)| device).collect();
        gone.into_iter().for_each(|device| self.tell(device, None));
    }

    /// Up to when the past of a device is known that does not answer yet; none where nothing is known of it.
    #[must_use]
    pub fn known_until(&self, device: &Topic) -> Option<Timestamp> {
        match locked(&self.0.all).get(device.as_str())? {
            Known::Present => None,
            Known::Until(until) => Some(*until),
        }
    }

    /// Writes down what is known of a device, in a while.
    pub fn set(&self, device: &Topic, known: Known) {
        let device = device.as_str().to_owned();
        locked(&self.0.all).insert(device.clone(), known);
        self.tell(device, Some(known));
    }

    fn tell(&self, device: String, known: Option<Known>) {
        if let Some(changes) = &*locked(&self.0.changes)
            && let Err(TrySendError::Full((device, _)) | TrySendError::Disconnected((device, _))) =
                changes.try_send((device, known))
        {
            tracing::warn!(device, "up to when the trend logs of the device are read is not written down");
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(path: &Path, mut all: All, incoming: &Receiver<Change>) {
    while let Ok(change) = incoming.recv() {
        // What waits goes with it.
        for (device, known) in std::iter::once(change).chain(incoming.try_iter()) {
            match known {
                Some(known) => drop(all.insert(device, known)),
                None => drop(all.remove(&device)),
            }
        }
        if let Err(error) = write(path, &all) {
            tracing::warn!(file = %path.display(), %error, "up to when trend logs are read cannot be written down");
        }
    }
}

/// A file that is not there, or cannot be read, says nothing: then logs are read from as long ago as is configured.
fn read(path: &Path) -> All {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(file = %path.display(), %error, "the file cannot be read");
            }
            return All::new();
        }
    };
    match serde_json::from_str::<BTreeMap<String, Option<String>>>(&text) {
        Ok(all) => all.into_iter().filter_map(|(device, until)| Some((device, known(until)?))).collect(),
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "the file cannot be understood");
            All::new()
        }
    }
}

/// A time that cannot be read says nothing.
fn known(until: Option<String>) -> Option<Known> {
    match until {
        None => Some(Known::Present),
        Some(until) => until.parse().ok().map(Known::Until),
    }
}

/// Writes another file and puts it in the place of the old one: a crash leaves one of the two.
fn write(path: &Path, all: &All) -> io::Result<()> {
    let shown = |known: &Known| match known {
        Known::Present => None,
        Known::Until(until) => Some(until.to_string()),
    };
    let all: BTreeMap<&String, Option<String>> = all.iter().map(|(device, known)| (device, shown(known))).collect();
    let text = serde_json::to_string_pretty(&all).map_err(io::Error::other)?;
    let beside: PathBuf = path.with_extension("json.new");
    let mut file = fs::File::create(&beside)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(text: &str) -> Topic {
        Topic::new(text).unwrap()
    }

    #[test]
    fn what_is_known_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let until = |text: &str| Known::Until(text.parse().unwrap());
        let all = All::from([
            ("a".to_owned(), Known::Present),
            ("b".to_owned(), until("2026-11-25T20:00:00Z")),
            ("gone".to_owned(), Known::Present),
        ]);
        write(&path, &all).unwrap();
        assert_eq!(read(&path), all);
        let last_ran = "2026-11-25T21:00:00Z".parse().ok();
        let positions = Positions::start(folder.path(), &[topic("a"), topic("b"), topic("c")], last_ran).unwrap();
        assert_eq!(positions.known_until(&topic("a")), last_ran);
        assert_eq!(positions.known_until(&topic("b")), "2026-11-25T20:00:00Z".parse().ok());
        assert_eq!(positions.known_until(&topic("c")), None);
        assert_eq!(positions.known_until(&topic("gone")), None);
        // A device that goes and comes again goes on; one that is no more is forgotten.
        positions.set(&topic("a"), Known::Present);
        positions.set(&topic("c"), until("2026-11-25T21:30:00Z"));
        positions.keep(&[topic("a"), topic("c")]);
        assert_eq!(positions.known_until(&topic("a")), None);
        assert_eq!(positions.known_until(&topic("b")), None);
        assert_eq!(positions.known_until(&topic("c")), "2026-11-25T21:30:00Z".parse().ok());
    }

    #[test]
    fn changes_are_written_and_damage_is_survived() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        fs::write(&path, "{ no file of ours").unwrap();
        let (changes, incoming) = sync_channel(4);
        changes.send(("b".to_owned(), Some(Known::Present))).unwrap();
        changes.send(("a".to_owned(), Some(Known::Present))).unwrap();
        changes.send(("b".to_owned(), None)).unwrap();
        drop(changes);
        keep(&path, read(&path), &incoming);
        assert_eq!(read(&path), All::from([("a".to_owned(), Known::Present)]));
        fs::write(&path, r#"{"a": "yesterday", "b": null}"#).unwrap();
        assert_eq!(read(&path), All::from([("b".to_owned(), Known::Present)]));
    }
}
