//! What is kept: history's journal and the ledger's records.

use crate::meter::Operation;
use crate::values::{point, table};
use std::collections::BTreeMap;
use std::fmt::Display;
use tieline_core::{Body, Storage, StorageError, StorageErrorKind, Timestamp, Topic, Update};
use tieline_journal::{Journal, Limits, Sample, Seq, encode};
use tieline_ledger::{Message, Record, Value};

/// Samples of a record.
const SAMPLES: u32 = 100;

/// Counts a batch, from samples to what is durable.
pub fn journal() -> Result<Operation, String> {
    let topics = (0..SAMPLES).map(|number| Topic::new(&format!("plant/1/unit/{}/point {number}", number / 10)));
    let topics: Vec<Topic> = topics.collect::<Result<_, _>>().map_err(words)?;
    let opened = Journal::open(Lengths::default(), Limits::default(), Seq::default(), Timestamp::default());
    let (mut journal, _) = opened.map_err(words)?;
    let (mut n, mut record) = (0, Vec::new());
    Ok(Box::new(move |meter| {
        n += SAMPLES;
        let update = |(number, topic): (u32, &Topic)| Update { topic: topic.clone(), body: Body::Point(point(number)) };
        let updates = (n..).zip(&topics).map(update);
        let samples: Vec<Sample> = updates.map(|update| Sample::new(Timestamp::default(), update)).collect();
        record.clear();
        let durable = meter.count(|| {
            encode(&samples, &mut record);
            let last = journal.append(&record)?;
            journal.sync().map(|durable| durable == last)
        });
        if durable.map_err(words)? { Ok(()) } else { Err("a record is not durable".to_owned()) }
    }))
}

/// Counts what a message to a session that is away costs.
pub fn ledger() -> Result<Operation, String> {
    let topic = Topic::new("plant/1/unit/2/table").map_err(words)?;
    let message =
        Message { topic, payload: table(1).into(), properties: [].as_slice().into(), received: Timestamp::default() };
    let value = Record::Value(Value { message: message.clone(), qos: 1 });
    let pending = Record::Pending {
        session: 7,
        serial: 12_345,
        packet_id: 99,
        qos: 1,
        retain: false,
        unsent: false,
        subscription_ids: vec![1, 2],
        message,
    };
    let records = [value, pending, Record::Done { session: 7, serial: 12_345 }];
    let mut out = Vec::new();
    Ok(Box::new(move |meter| {
        out.clear();
        let back = meter.count(|| {
            Record::begin(&mut out);
            records.iter().for_each(|record| record.emit(&mut out));
            Record::parse_all(&out)
        });
        if back.is_ok_and(|back| back == records) { Ok(()) } else { Err("other records".to_owned()) }
    }))
}

fn words(error: impl Display) -> String {
    error.to_string()
}

/// Files of which only the length is kept: the storage is to cost nothing.
#[derive(Debug, Default)]
struct Lengths(BTreeMap<String, u64>);

impl Lengths {
    fn of(&mut self, name: &str) -> Result<&mut u64, StorageError> {
        let missing = || StorageError { kind: StorageErrorKind::Missing, message: "no such file".to_owned() };
        self.0.get_mut(name).ok_or_else(missing)
    }
}

impl Storage for Lengths {
    fn list(&mut self) -> Result<Vec<String>, StorageError> {
        Ok(self.0.keys().cloned().collect())
    }

    fn len(&mut self, name: &str) -> Result<u64, StorageError> {
        self.of(name).copied()
    }

    fn read(&mut self, name: &str, _offset: u64, _out: &mut [u8]) -> Result<usize, StorageError> {
        self.of(name).map(|_| 0)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        match self.0.get_mut(name) {
            Some(length) => *length += bytes.len() as u64,
            None => _ = self.0.insert(name.to_owned(), bytes.len() as u64),
        }
        Ok(())
    }

    fn sync(&mut self, name: &str) -> Result<(), StorageError> {
        self.of(name).map(|_| ())
    }

    fn truncate(&mut self, name: &str, len: u64) -> Result<(), StorageError> {
        self.of(name).map(|length| *length = len)
    }

    fn remove(&mut self, name: &str) -> Result<(), StorageError> {
        self.0.remove(name);
        Ok(())
    }
}
