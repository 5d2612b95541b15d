//! Samples from a time on, and then each as it is recorded: nothing is missing between the two, and nothing is there twice.
//!
//! ```text
//!              S              E
//! journal ─────┼──────────────┼──────────▶ … each record that comes: is it new, or up to E and in the answer already?
//!              │    answer    │
//! durable ◀────┘ before it    └──▶ durable behind it
//! ```

use crate::edits::{ActiveEdits, row_of};
use crate::store_thread::entry_of;
use crate::writer::HistoryHandle;
use crate::{HistoryQuery, HistorySource, Order};
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Filter, Timestamp, Topic, Value};
use tieline_journal::{Item, Reader, Seq, decode};
use tieline_series::Sample;
use tieline_store::{FolderStorage, JOURNAL_FOLDER, Row, StoreError};

/// Samples of the time before.
pub const TAIL_ROWS_MAX: usize = 1_000_000;
/// How long the store may take for what the journal has.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is said that nothing has come.
const IDLE: Duration = Duration::from_secs(1);

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub enum Tailed {
    /// A sample.
    Row(Row),
    /// All samples so far were given; those that follow are given as they are recorded.
    Live,
    /// So many records of the journal cannot be read: what they had is missing.
    Lost(u64),
    /// Nothing has come for a moment.
    Idle,
}

/// Gives the samples of topics from a time on to `give`, in order of time, edited or raw, and then each as it is recorded, in the order of the journal;
/// until `give` says that it wants no more, or the history is closed.
///
/// # Errors
/// There are more than [`TAIL_ROWS_MAX`] samples before, the store is behind, or a file failed.
pub fn tail(
    handle: &HistoryHandle,
    source: &HistorySource,
    topics: &[Filter],
    (from, is_raw): (Timestamp, bool),
    mut give: impl FnMut(Tailed) -> bool,
) -> Result<(), StoreError> {
    let start = handle.status().durable;
    if !handle.wait_stored(start, PATIENCE) {
        return Err(StoreError::Question("the store is behind the journal; ask again later"));
    }
    let mut given = Given::default();
    let query = HistoryQuery { from: Some(from), order: Order::Time, ..HistoryQuery::of_several(topics.to_vec()) };
    let edits = || if is_raw { Ok(Arc::default()) } else { source.active_edits() };
    let known: Arc<ActiveEdits> = edits()?;
    let reader = source.reader()?.or_raw(true);
    let (mut added, cutoffs) = (known.added(topics, from), reader.cutoffs());
    added.retain(|row| Some(row.point.time) >= cutoffs.of(&row.topic));
    let key = |row: &Row| (row.point.time, row.topic.clone());
    // Raw: what the journal gives once more is known by what was recorded.
    for row in reader.query(query)? {
        let row = row?;
        while let Some(row) = added.pop_front_if(|added| key(added) < key(&row)) {
            if !give(Tailed::Row(row)) {
                return Ok(());
            }
        }
        if given.hashes.len() >= TAIL_ROWS_MAX {
            return Err(StoreError::Question("there are more than 1000000 samples since then, expected a later start"));
        }
        given.add(&row);
        if known.shown(row).is_some_and(|row| !give(Tailed::Row(row))) {
            return Ok(());
        }
    }
    for row in added {
        if !give(Tailed::Row(row)) {
            return Ok(());
        }
    }
    // What the answer had was durable.
    given.upto = handle.status().durable;
    if !give(Tailed::Live) {
        return Ok(());
    }
    follow(handle, (source, &edits), topics, (start, given), give)
}

/// What the answer had.
#[derive(Default)]
struct Given {
    state: RandomState,
    hashes: HashSet<u64>,
    /// Records behind it came later.
    upto: Seq,
}

impl Given {
    fn hash(&self, row: &Row) -> u64 {
        let mut hasher = self.state.build_hasher();
        hasher.write(row.topic.as_bytes());
        hasher.write_u8(0xff);
        hasher.write_i64(row.point.time.micros());
        hasher.write_u16(row.point.quality.bits());
        hasher.write_u8(u8::from(row.is_payload));
        std::mem::discriminant(&row.point.value).hash(&mut hasher);
        match &row.point.value {
            Value::Null => {}
            Value::Bool(state) => hasher.write_u8(u8::from(*state)),
            Value::Int(integer) => hasher.write_i64(*integer),
            Value::Float(double) => hasher.write_u64(double.to_bits()),
            Value::Text(text) => hasher.write(text.as_bytes()),
            Value::Bytes(bytes) => hasher.write(bytes),
        }
        hasher.finish()
    }

    fn add(&mut self, row: &Row) {
        let hash = self.hash(row);
        self.hashes.insert(hash);
    }

    fn has(&self, seq: Seq, row: &Row) -> bool {
        seq <= self.upto && self.hashes.contains(&self.hash(row))
    }
}

fn follow(
    handle: &HistoryHandle,
    (source, edits): (&HistorySource, &dyn Fn() -> Result<Arc<ActiveEdits>, StoreError>),
    topics: &[Filter],
    (start, mut given): (Seq, Given),
    mut give: impl FnMut(Tailed) -> bool,
) -> Result<(), StoreError> {
    let mut reader = Reader::new(FolderStorage::reading(&source.data().join(JOURNAL_FOLDER)), start.next());
    loop {
        let (durable, is_closed) = handle.wait_durable(reader.place(), IDLE);
        let mut rows = Vec::new();
        match reader.next(durable)? {
            Some(Item::Record { seq, payload }) => {
                let samples = decode(payload).unwrap_or_default().into_iter();
                let meant = |topic: &Topic| topics.iter().any(|filter| filter.matches(topic));
                let entries = samples.map(|sample| entry_of(seq, sample)).filter(|entry| meant(&entry.topic));
                rows.extend(entries.map(|entry| row_of(entry.topic, Sample::new(entry.time, &entry.body), None)));
                rows.retain(|row| !given.has(seq, row));
                if seq > given.upto && !given.hashes.is_empty() {
                    given.hashes = HashSet::new();
                }
            }
            Some(Item::Lost(lost)) if !give(Tailed::Lost(lost.records)) => return Ok(()),
            Some(Item::Lost(_)) => {}
            None if is_closed || !give(Tailed::Idle) => return Ok(()),
            None => {}
        }
        if rows.is_empty() {
            continue;
        }
        // A late sample may be of a time that was edited.
        let known = edits()?;
        for row in rows.into_iter().filter_map(|row| known.shown(row)) {
            if !give(Tailed::Row(row)) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistoryOptions, HistoryWriter};
    use std::path::Path;
    use std::sync::mpsc;
    use tieline_core::{Body, Point, Quality, Update};

    const COUNT: i64 = 600;

    fn history(folder: &Path) -> (HistorySource, HistoryWriter) {
        let source = HistorySource::new(folder);
        let may_remove = std::sync::Arc::new(|| true);
        let writer = HistoryWriter::open_guarded(&source, HistoryOptions::default(), may_remove).unwrap();
        (source, writer)
    }

    fn record(handle: &HistoryHandle, topic: &str, micros: i64, value: i64) {
        let time = Timestamp::from_micros(micros);
        let point = Point { value: Value::Int(value), quality: Quality::GOOD, time };
        let update = Update { topic: Topic::new(topic).unwrap(), body: Body::Point(point) };
        handle.record(vec![tieline_journal::Sample::new(time, update)]);
    }

    fn from_start() -> (Vec<Filter>, Timestamp) {
        (vec![Filter::new("a").unwrap()], Timestamp::from_micros(0))
    }

    /// Samples that come before, during and behind the answer, some of them late: each is given once.
    #[test]
    fn each_sample_is_given_once() {
        let folder = tempfile::tempdir().unwrap();
        let (source, writer) = history(folder.path());
        let handle = writer.handle();
        let late = |n: i64| if n % 7 == 0 { 1 + n / 7 } else { 1000 + n };
        (0..COUNT / 3).for_each(|n| record(handle, "a", late(n), n));
        let (told, durable) = mpsc::channel();
        handle.submit(Vec::new(), Box::new(move |done| drop(told.send(done))));
        durable.recv_timeout(PATIENCE).unwrap().unwrap();
        let (mut found, mut live_from) = (Vec::new(), None);
        std::thread::scope(|scope| {
            let mut writing = None;
            let (topics, from) = from_start();
            let given = tail(handle, &source, &topics, (from, false), |tailed| {
                writing.get_or_insert_with(|| {
                    scope.spawn(|| {
                        for n in COUNT / 3..COUNT {
                            record(handle, "a", late(n), n);
                            record(handle, "b", n, n);
                        }
                    })
                });
                match tailed {
                    Tailed::Row(row) => found.push(row.point.value),
                    Tailed::Live => live_from = Some(found.len()),
                    Tailed::Lost(records) => panic!("{records} records are lost"),
                    Tailed::Idle => {}
                }
                found.len() < COUNT as usize || live_from.is_none()
            });
            given.unwrap();
        });
        assert!(live_from.unwrap() >= COUNT as usize / 3);
        found.sort_by(|one, other| one.as_f64().partial_cmp(&other.as_f64()).unwrap());
        assert_eq!(found, (0..COUNT).map(Value::Int).collect::<Vec<_>>());
    }

    /// Before the store has read what the journal had at the start, readers take it from the file, where records may be that are not
    /// durable yet.
    #[test]
    fn a_history_that_was_just_opened_answers_from_memory() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let (source, writer) = history(folder.path());
            assert!(writer.handle().wait_stored(Seq(0), PATIENCE));
            assert!(source.live().columns(0, Timestamp::from_micros(0)).is_some());
        }
    }

    #[test]
    fn it_ends_with_the_history() {
        let folder = tempfile::tempdir().unwrap();
        let (source, writer) = history(folder.path());
        let handle = writer.handle().clone();
        record(&handle, "a", 5, 1);
        let (mut found, mut writer) = (Vec::new(), Some(writer));
        let (topics, from) = from_start();
        let given = tail(&handle, &source, &topics, (from, false), |tailed| {
            if tailed == Tailed::Live {
                record(&handle, "a", 3, 2);
                drop(writer.take());
            }
            found.push(tailed);
            true
        });
        given.unwrap();
        let values = found.iter().filter_map(|tailed| match tailed {
            Tailed::Row(row) => Some(row.point.value.clone()),
            Tailed::Live | Tailed::Lost(_) | Tailed::Idle => None,
        });
        assert_eq!(values.collect::<Vec<_>>(), [Value::Int(1), Value::Int(2)]);
    }
}
