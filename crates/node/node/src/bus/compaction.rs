//! Compaction: writes all state that is kept over restarts again while changes go on, so that older segments can be
//! removed.

use super::ledger::Compaction;
use super::persistence::Ledger;
use super::state::{Bus, Subscriber};
use tieline_core::{Filter, Now};
use tieline_ledger::Record;
use tieline_topics::{Snapshot, TopicId};

/// Topics that are looked at at a time.
const CHUNK: usize = 256;
/// Bytes of a batch.
const COMPACTION_BYTES: usize = 1 << 20;

impl Bus {
    pub(super) fn begin_compaction(&mut self, now: Now) {
        let Ok(all) = Filter::new("#") else { return };
        let is_kept = |subscriber: &Subscriber| match subscriber {
            Subscriber::Client(client) => client.kept.is_some(),
            Subscriber::Away(away) => away.kept.is_some(),
            Subscriber::Group(_) | Subscriber::Feed(_) => false,
        };
        let sessions = self.subscribers.iter().filter(|(_, subscriber)| is_kept(subscriber)).map(|(key, _)| key);
        let (sessions, alarms) = (sessions.collect(), self.alarm_ids());
        let compaction = Compaction { sessions, alarms, values: Snapshot::new(all), bytes: 0 };
        self.ledger.batches.begin_compaction(now, compaction);
        self.write_lock_numbers(now);
        self.write_alarm_occurrence(now);
    }

    /// Writes some of the state again, while a compaction is running.
    pub(super) fn compaction(&mut self, now: Now) {
        let Some(mut compaction) = self.ledger.batches.take_compaction() else { return };
        let end = self.ledger.batches.batch_bytes() + COMPACTION_BYTES;
        while self.ledger.batches.batch_bytes() < end {
            let before = self.ledger.batches.batch_bytes();
            if let Some(key) = compaction.sessions.pop() {
                self.write_session(now, key);
            } else if let Some(id) = compaction.alarms.pop() {
                self.write_alarm(now, &id);
            } else if !compaction.values.is_done() {
                let topics: Vec<TopicId> =
                    self.tree.next(&mut compaction.values, CHUNK).iter().map(|view| view.id).collect();
                for value in topics.iter().filter_map(|topic| self.value_of(now, *topic)).collect::<Vec<_>>() {
                    self.ledger.batches.write(now, &Record::Value(value));
                }
            } else {
                return self.ledger.batches.end_compaction(now, &compaction);
            }
            // A batch that is closed meanwhile ends this stretch.
            let Some(said) = self.ledger.batches.batch_bytes().checked_sub(before) else { break };
            compaction.bytes += said as u64;
        }
        self.ledger.batches.put_compaction(compaction);
    }

    fn write_session(&mut self, now: Now, key: usize) {
        let Self { subscribers, ledger: Ledger { batches, .. }, .. } = self;
        let (kept, number) = match subscribers.get(key) {
            Some(Subscriber::Client(client)) => (&client.kept, client.number),
            Some(Subscriber::Away(away)) => (&away.kept, away.number),
            Some(Subscriber::Group(_) | Subscriber::Feed(_)) | None => return,
        };
        kept.iter().flat_map(|kept| kept.records(number)).for_each(|record| batches.write(now, &record));
    }
}
