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

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use tieline_core::{Timestamp, Topic};

/// The file below a node's data folder.
const FILE: &str = "trend-logs.json";
/// Changes of a device that wait to be written; more are left out, and the past is read again after a restart.
const CHANGES_OF_DEVICE: usize = 4;

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
pub struct Positions {
    /// When the node started.
    at_start: Arc<All>,
    /// When the node last ran before.
    last_ran: Option<Timestamp>,
    changes: Option<SyncSender<(String, Known)>>,
}

impl Positions {
    /// Of no device.
    #[must_use]
    pub fn none() -> Self {
        Self { at_start: Arc::default(), last_ran: None, changes: None }
    }

    /// Of devices that keep their own past, with a thread that writes, which ends with the last handle. `last_ran` is when
    /// the node last ran before it started.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(data: &Path, devices: &[Topic], last_ran: Option<Timestamp>) -> io::Result<Self> {
        if devices.is_empty() {
            return Ok(Self::none());
        }
        let path = data.join(FILE);
        let mut all = read(&path);
        all.retain(|device, _| devices.iter().any(|topic| topic.as_str() == device));
        let (changes, incoming) = sync_channel(devices.len().saturating_mul(CHANGES_OF_DEVICE));
        let at_start = Arc::new(all.clone());
        std::thread::Builder::new().name("positions".to_owned()).spawn(move || keep(&path, all, &incoming))?;
        Ok(Self { at_start, last_ran, changes: Some(changes) })
    }

    /// Up to when the past of a device was known when the node started; none where nothing is known of it.
    #[must_use]
    pub fn at_start(&self, device: &Topic) -> Option<Timestamp> {
        match self.at_start.get(device.as_str())? {
            Known::Present => self.last_ran,
            Known::Until(until) => Some(*until),
        }
    }

    /// Writes down what is known of a device, in a while.
    pub fn set(&self, device: &Topic, known: Known) {
        if let Some(changes) = &self.changes
            && changes.try_send((device.as_str().to_owned(), known)).is_err()
        {
            tracing::warn!(%device, "up to when the trend logs of the device are read is not written down");
        }
    }
}

fn keep(path: &Path, mut all: All, incoming: &Receiver<(String, Known)>) {
    while let Ok((device, known)) = incoming.recv() {
        all.insert(device, known);
        // What waits goes with it.
        all.extend(incoming.try_iter());
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
        assert_eq!(positions.at_start(&topic("a")), last_ran);
        assert_eq!(positions.at_start(&topic("b")), "2026-11-25T20:00:00Z".parse().ok());
        assert_eq!(positions.at_start(&topic("c")), None);
        assert_eq!(positions.at_start(&topic("gone")), None);
    }

    #[test]
    fn changes_are_written_and_damage_is_survived() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        fs::write(&path, "{ no file of ours").unwrap();
        let (changes, incoming) = sync_channel(4);
        changes.send(("a".to_owned(), Known::Present)).unwrap();
        drop(changes);
        keep(&path, read(&path), &incoming);
        assert_eq!(read(&path), All::from([("a".to_owned(), Known::Present)]));
        fs::write(&path, r#"{"a": "yesterday", "b": null}"#).unwrap();
        assert_eq!(read(&path), All::from([("b".to_owned(), Known::Present)]));
    }
}
