//! Says all that is kept over restarts anew while changes go on, so that what is older can be let go.

use super::kept::Ledger;
use super::state::{Bus, Subscriber};
use crate::ledger::Walk;
use tieline_core::{Filter, Now};
use tieline_ledger::Record;
use tieline_topics::{Snapshot, TopicId};

/// Topics that are looked at at a time.
const CHUNK: usize = 256;
/// Bytes of a batch.
const WALK_BYTES: usize = 1 << 20;

impl Bus {
    pub(super) fn begin_walk(&mut self, now: Now) {
        let Ok(all) = Filter::new("#") else { return };
        let is_kept = |subscriber: &Subscriber| match subscriber {
            Subscriber::Client(client) => client.kept.is_some(),
            Subscriber::Away(away) => away.kept.is_some(),
            Subscriber::Group(_) | Subscriber::Feed(_) => false,
        };
        let sessions = self.subscribers.iter().filter(|(_, subscriber)| is_kept(subscriber)).map(|(key, _)| key);
        let walk = Walk { sessions: sessions.collect(), values: Snapshot::new(all), bytes: 0 };
        self.ledger.book.begin_walk(now, walk);
    }

    /// Says some of the state anew, where a walk is under way.
    pub(super) fn walk(&mut self, now: Now) {
        let Some(mut walk) = self.ledger.book.take_walk() else { return };
        let end = self.ledger.book.batch_bytes() + WALK_BYTES;
        while self.ledger.book.batch_bytes() < end {
            let before = self.ledger.book.batch_bytes();
            if let Some(key) = walk.sessions.pop() {
                self.say_session(now, key);
            } else if !walk.values.is_done() {
                let topics: Vec<TopicId> = self.tree.next(&mut walk.values, CHUNK).iter().map(|view| view.id).collect();
                for value in topics.iter().filter_map(|topic| self.value_of(now, *topic)).collect::<Vec<_>>() {
                    self.ledger.book.write(now, &Record::Value(value));
                }
            } else {
                return self.ledger.book.end_walk(now, &walk);
            }
            // A batch that is closed meanwhile ends this stretch.
            let Some(said) = self.ledger.book.batch_bytes().checked_sub(before) else { break };
            walk.bytes += said as u64;
        }
        self.ledger.book.put_walk(walk);
    }

    fn say_session(&mut self, now: Now, key: usize) {
        let Self { subscribers, ledger: Ledger { book, .. }, .. } = self;
        let (kept, number) = match subscribers.get(key) {
            Some(Subscriber::Client(client)) => (&client.kept, client.number),
            Some(Subscriber::Away(away)) => (&away.kept, away.number),
            Some(Subscriber::Group(_) | Subscriber::Feed(_)) | None => return,
        };
        kept.iter().flat_map(|kept| kept.records(number)).for_each(|record| book.write(now, &record));
    }
}
