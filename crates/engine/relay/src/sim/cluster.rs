//! What the servers below keep: one stream and one lease, each with one order of changes.

extern crate std;
use crate::{AppendError, Last, Lease, LeaseError};
use std::boxed::Box;
use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

/// A message of the stream, with the writer's name beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) term: u64,
    pub(super) writer: String,
    pub(super) records: Vec<Vec<u8>>,
}

impl Message {
    /// Whether it begins a term.
    pub(super) fn is_first(&self) -> bool {
        self.records == [b"term"]
    }
}

#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) messages: Vec<Message>,
    revision: u64,
    lease: Option<Lease>,
    /// Who writes in each term.
    writers: BTreeMap<u64, String>,
    /// The records of each term, without its first.
    records: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Cluster {
    pub(super) fn append(&mut self, expected: u64, message: Message) -> Result<u64, AppendError> {
        if expected != self.messages.len() as u64 {
            return Err(AppendError::WrongLast);
        }
        let last = self.messages.last().map_or(0, |last| last.term);
        assert!(message.term >= last, "term {} after {last}", message.term);
        assert!(message.term == last || message.is_first(), "a term begins without its record: {message:?}");
        assert!(message.term > last || !message.is_first(), "a term begins twice: {message:?}");
        let writer = self.writers.entry(message.term).or_insert_with(|| message.writer.clone());
        assert_eq!(*writer, message.writer, "two writers in term {}", message.term);
        let records = self.records.entry(message.term).or_default();
        if !message.is_first() {
            records.extend_from_slice(&message.records);
        }
        self.messages.push(message);
        Ok(self.messages.len() as u64)
    }

    /// The last message, as it was `age` messages ago: a server that no longer leads the stream does not know better.
    pub(super) fn last(&self, age: usize) -> Last {
        let count = self.messages.len().saturating_sub(age);
        let term = count.checked_sub(1).map_or(0, |at| self.messages[at].term);
        Last { sequence: count as u64, term }
    }

    pub(super) fn lease(&self) -> Option<Lease> {
        self.lease.clone()
    }

    pub(super) fn write_lease(&mut self, expected: Option<u64>, holder: Box<str>) -> Result<u64, LeaseError> {
        if expected != self.lease.as_ref().map(|lease| lease.revision) {
            return Err(LeaseError::Changed);
        }
        // Other keys of the bucket count too.
        self.revision += 1 + self.messages.len() as u64 % 3;
        self.lease = Some(Lease { revision: self.revision, holder });
        Ok(self.revision)
    }

    /// Whether these are the records of a term, from one of them on.
    pub(super) fn has(&self, term: u64, from: usize, records: &[Vec<u8>]) -> bool {
        let found = self.records.get(&term).and_then(|found| found.get(from..from + records.len()));
        found.unwrap_or_default() == records
    }
}
