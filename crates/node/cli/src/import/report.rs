//! What became of every line of the input.

use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::fmt;
use tieline_node::config::Finding;

/// A line of a file, or a key in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file as it is shown.
    pub file: String,
    /// The first line, from 1; 0 is the whole file.
    pub line: usize,
    /// The last line.
    pub last_line: usize,
    /// The key in a JSON file; empty elsewhere.
    pub key: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match (self.line, self.last_line) {
            (0, _) => {}
            (line, last) if last > line => write!(f, ":{line}-{last}")?,
            (line, _) => write!(f, ":{line}")?,
        }
        if self.key.is_empty() { Ok(()) } else { write!(f, ": {}", self.key) }
    }
}

/// Where something was written; lines are known when the files are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A key of a device.
    Key {
        /// Its place among the devices.
        device: usize,
        /// The key below the device, as in `modbus` or `poll`.
        key: &'static str,
    },
    /// A row of a point list.
    Row {
        /// The list's place among the lists.
        list: usize,
        /// The row, from 0, the header not counted; none is the header.
        row: Option<usize>,
    },
}

/// What became of a place for one of those who use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was written there.
    Mapped(Target),
    /// Nothing is lost without it.
    NotNeeded(String),
    /// It is lost.
    LeftOut(String),
    /// A word on what was mapped.
    Note(String),
}

/// What became of it for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Mapped,
    NotNeeded,
    LeftOut,
}

impl Status {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::NotNeeded => "not_needed",
            Self::LeftOut => "left_out",
        }
    }
}

/// An entry of the report.
#[derive(Clone, Debug)]
pub struct Entry {
    pub place: Place,
    pub targets: Vec<Target>,
    not_needed: Vec<String>,
    left_out: Vec<String>,
    pub notes: Vec<String>,
}

impl Entry {
    /// What is lost for one is lost, and what is mapped for one is mapped.
    pub fn status(&self) -> Status {
        match (self.left_out.is_empty(), self.targets.is_empty()) {
            (false, _) => Status::LeftOut,
            (true, false) => Status::Mapped,
            (true, true) => Status::NotNeeded,
        }
    }

    /// Why it was not mapped.
    pub fn why(&self) -> String {
        match self.status() {
            Status::LeftOut => self.left_out.join("; "),
            Status::NotNeeded => self.not_needed.join("; "),
            Status::Mapped => String::new(),
        }
    }
}

/// All entries, in the order in which their places were met.
#[derive(Debug, Default)]
pub struct Report {
    pub entries: Vec<Entry>,
    at: HashMap<Place, usize>,
}

impl Report {
    /// Adds to the entry of a place.
    pub fn add(&mut self, place: &Place, outcome: Outcome) {
        let at = *self.at.entry(place.clone()).or_insert_with(|| {
            let (targets, not_needed, left_out, notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            self.entries.push(Entry { place: place.clone(), targets, not_needed, left_out, notes });
            self.entries.len() - 1
        });
        let Some(entry) = self.entries.get_mut(at) else { return };
        match outcome {
            Outcome::Mapped(target) => push(&mut entry.targets, target),
            Outcome::NotNeeded(why) => push(&mut entry.not_needed, why),
            Outcome::LeftOut(why) => push(&mut entry.left_out, why),
            Outcome::Note(note) => push(&mut entry.notes, note),
        }
    }

    /// How many entries have a status.
    pub fn count(&self, status: Status) -> usize {
        self.entries.iter().filter(|entry| entry.status() == status).count()
    }

    /// Sorted by file and line.
    pub fn sort(&mut self) {
        self.entries.sort_by(|a, b| (&a.place.file, a.place.line).cmp(&(&b.place.file, b.place.line)));
        self.at.clear();
    }
}

fn push<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if !all.contains(&one) {
        all.push(one);
    }
}

/// An entry with the places it was written to.
pub fn as_text(entry: &Entry, to: &[(String, usize)]) -> String {
    let to: Vec<String> = to.iter().map(|(file, line)| format!("{file}:{line}")).collect();
    let mut text = match (entry.status(), to.is_empty()) {
        (Status::Mapped, _) => format!("{}: mapped {}", entry.place, to.join(", ")),
        (Status::NotNeeded, _) => format!("{}: not needed: {}", entry.place, entry.why()),
        (Status::LeftOut, true) => format!("{}: left out: {}", entry.place, entry.why()),
        (Status::LeftOut, false) => format!("{}: mapped {}; left out: {}", entry.place, to.join(", "), entry.why()),
    };
    for note in &entry.notes {
        text.push_str("; ");
        text.push_str(note);
    }
    text
}

/// The same for programs.
pub fn as_json(entry: &Entry, to: &[(String, usize)]) -> Json {
    let Place { file, line, last_line, key } = &entry.place;
    let to: Vec<Json> = to.iter().map(|(file, line)| json!({ "file": file, "line": line })).collect();
    json!({
        "file": file, "line": line, "last_line": last_line, "key": key, "status": entry.status().word(),
        "to": to, "why": entry.why(), "notes": entry.notes,
    })
}

/// What is wrong in a file that was written.
pub fn finding_as_json(finding: &Finding) -> Json {
    let mut json = crate::answer::finding(finding);
    json["status"] = "error".into();
    json
}
