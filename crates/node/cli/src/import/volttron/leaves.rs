//! The keys of a JSON file, each of which is mapped, not needed or left out.

use super::jsonc::{Json, Value};
use crate::import::report::{Outcome, Place, Report, Target};

/// A key with its value: no object, unless an empty one.
#[derive(Debug)]
struct Leaf<'a> {
    /// As it is written, with dots.
    shown: String,
    /// In lower case.
    path: String,
    json: &'a Json,
    outcomes: Vec<Outcome>,
}

/// All keys of a file, for one device.
#[derive(Debug)]
pub struct Leaves<'a> {
    file: &'a str,
    all: Vec<Leaf<'a>>,
}

impl<'a> Leaves<'a> {
    /// Arrays of objects are left to who reads them as a registry.
    pub fn new(file: &'a str, json: &'a Json) -> Self {
        let mut leaves = Self { file, all: Vec::new() };
        leaves.collect("", json);
        leaves
    }

    fn collect(&mut self, prefix: &str, json: &'a Json) {
        let Value::Object(members) = &json.value else { return };
        for (name, json) in members {
            let shown = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            match &json.value {
                Value::Object(below) if !below.is_empty() => self.collect(&shown, json),
                _ => self.all.push(Leaf { path: shown.to_lowercase(), shown, json, outcomes: Vec::new() }),
            }
        }
    }

    /// The value of a key, the last where there are several, as in Python.
    pub fn get(&self, path: &str) -> Option<&'a Json> {
        self.all.iter().rev().find(|leaf| leaf.path == path).map(|leaf| leaf.json)
    }

    /// The same of the first of several names for one thing; it is written to a key of a device.
    pub fn map(&mut self, paths: &[&str], target: Target) -> Option<&'a Json> {
        let path = paths.iter().find(|path| self.get(path).is_some_and(|json| json.value != Value::Null))?;
        self.mark(path, Outcome::Mapped(target));
        self.get(path)
    }

    /// Says what became of a key, where it is there.
    pub fn mark(&mut self, path: &str, outcome: Outcome) {
        for leaf in self.all.iter_mut().filter(|leaf| leaf.path == path) {
            leaf.outcomes.push(outcome.clone());
        }
    }

    /// Says it of all keys that begin so.
    pub fn mark_below(&mut self, prefix: &str, outcome: &Outcome) {
        for leaf in self.all.iter_mut().filter(|leaf| leaf.path.starts_with(prefix)) {
            leaf.outcomes.push(outcome.clone());
        }
    }

    /// None of the keys is used, for a reason that one of them has, or the first.
    pub fn refuse(mut self, path: &str, why: &str, report: &mut Report) {
        let at = self.all.iter().position(|leaf| leaf.path == path).unwrap_or_default();
        for (place, leaf) in self.all.iter_mut().enumerate() {
            let why = if place == at { why } else { "its device is left out" };
            leaf.outcomes = vec![Outcome::LeftOut(why.to_owned())];
        }
        self.finish(report);
    }

    /// Reports all; what nobody has looked at is left out.
    pub fn finish(self, report: &mut Report) {
        for leaf in self.all {
            let line = leaf.json.line;
            let place = Place { file: self.file.to_owned(), line, last_line: line, key: leaf.shown };
            let unknown = leaf.outcomes.is_empty();
            for outcome in leaf.outcomes {
                report.add(&place, outcome);
            }
            if unknown {
                report.add(&place, Outcome::LeftOut("a key without a counterpart in Tieline".to_owned()));
            }
        }
    }
}
