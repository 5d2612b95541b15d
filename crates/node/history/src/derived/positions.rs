//! Up to when each series is calculated, over restarts of the node.
//!
//! ```text
//! { "site/total": { "made_of": "93ab…", "from": "…", "upto": "…", "live_since": "…" } }      no upto: results are to be deleted first
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use tieline_core::{Timestamp, Topic, json_string};

/// The file below a node's data folder.
const FILE: &str = "derived.json";

/// What is kept of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Its fingerprint.
    pub(super) print: u64,
    /// The times that are calculated; none: older results are to be deleted first.
    pub(super) span: Option<(Timestamp, Timestamp)>,
    /// Since when it makes its results live.
    pub(super) live_since: Option<Timestamp>,
}

/// What is kept of all series.
#[derive(Debug)]
pub(super) struct Positions {
    path: PathBuf,
    all: BTreeMap<Topic, Kept>,
    is_changed: bool,
}

impl Positions {
    /// A file that is not there, or cannot be read, says nothing: then all is calculated again, and equal results are one.
    pub(super) fn read(data: &Path) -> Self {
        let path = data.join(FILE);
        let all = match fs::read_to_string(&path) {
            Ok(text) => parse(&text).unwrap_or_else(|| {
                tracing::warn!(file = %path.display(), "the file cannot be understood: derived series are calculated again");
                BTreeMap::new()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "the file cannot be read: derived series are calculated again");
                BTreeMap::new()
            }
        };
        Self { path, all, is_changed: false }
    }

    pub(super) fn get(&self, topic: &Topic) -> Option<Kept> {
        self.all.get(topic).copied()
    }

    pub(super) fn set(&mut self, topic: &Topic, kept: Kept) {
        self.is_changed |= self.all.insert(topic.clone(), kept) != Some(kept);
    }

    /// Forgets all series but these.
    pub(super) fn keep(&mut self, topics: &[Topic]) {
        let before = self.all.len();
        self.all.retain(|topic, _| topics.contains(topic));
        self.is_changed |= self.all.len() != before;
    }

    /// Writes another file and puts it in the place of the old one, where something has changed.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        let beside = self.path.with_extension("json.new");
        let mut file = fs::File::create(&beside)?;
        file.write_all(text(&self.all).as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        self.is_changed = false;
        Ok(())
    }
}

fn text(all: &BTreeMap<Topic, Kept>) -> String {
    let mut out = String::from("{");
    for (count, (topic, kept)) in all.iter().enumerate() {
        out.push_str(if count == 0 { "\n" } else { ",\n" });
        json_string(topic, &mut out);
        out.push_str(&format!(": {{\"made_of\": \"{:016x}\"", kept.print));
        if let Some((from, upto)) = kept.span {
            out.push_str(&format!(", \"from\": \"{from}\", \"upto\": \"{upto}\""));
        }
        if let Some(since) = kept.live_since {
            out.push_str(&format!(", \"live_since\": \"{since}\""));
        }
        out.push('}');
    }
    out.push_str("\n}\n");
    out
}

fn parse(text: &str) -> Option<BTreeMap<Topic, Kept>> {
    let all: serde_json::Value = serde_json::from_str(text).ok()?;
    let each = |(topic, kept): (&String, &serde_json::Value)| {
        let time = |name: &str| kept.get(name).and_then(serde_json::Value::as_str)?.parse().ok();
        let print = u64::from_str_radix(kept.get("made_of")?.as_str()?, 16).ok()?;
        Some((
            Topic::new(topic).ok()?,
            Kept { print, span: time("from").zip(time("upto")), live_since: time("live_since") },
        ))
    };
    all.as_object()?.iter().map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let mut positions = Positions::read(folder.path());
        let at = Timestamp::from_micros;
        let (a, b) = (Topic::new("a\"b").unwrap(), Topic::new("b").unwrap());
        let kept = Kept { print: u64::MAX, span: Some((at(5), at(7_000_001))), live_since: Some(at(9)) };
        let deleting = Kept { print: 3, span: None, live_since: None };
        positions.set(&a, kept);
        positions.set(&b, deleting);
        positions.write().unwrap();
        let mut again = Positions::read(folder.path());
        assert_eq!((again.get(&a), again.get(&b)), (Some(kept), Some(deleting)));
        again.keep(&[b]);
        again.write().unwrap();
        assert_eq!(Positions::read(folder.path()).all.len(), 1);
        fs::write(folder.path().join(FILE), "{\"a\": 5}").unwrap();
        assert_eq!(Positions::read(folder.path()).all.len(), 0);
    }
}
