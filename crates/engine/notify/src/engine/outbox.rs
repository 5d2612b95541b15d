//! Messages until they have arrived: one at a time for each receiver, and again after a pause.

use crate::notice::{AlarmName, Message};
use crate::record::Record;
use crate::settings::{Settings, Stats};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use tieline_core::{Deadlines, Instant, Words};

/// What became of an attempt to send a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its receiver has it.
    Delivered,
    /// Not this time.
    Failed,
    /// Its receiver will never take it.
    Refused,
    /// Nobody is on call.
    Nobody,
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its receiver has it.
    Delivered,
    /// It failed for too long.
    GivenUp,
    /// Its receiver will never take it.
    Refused,
    /// Nobody was on call.
    Nobody,
}

impl Words for End {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("delivered", Self::Delivered),
        ("given_up", Self::GivenUp),
        ("refused", Self::Refused),
        ("nobody", Self::Nobody),
    ];
}

/// All messages that have not arrived yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    messages: BTreeMap<u64, Waiting>,
    receivers: BTreeMap<Arc<str>, Receiver>,
    last_id: u64,
    /// Messages without a record yet.
    new: BTreeSet<u64>,
    /// Messages that ended, without a record of it yet.
    over: BTreeSet<u64>,
}

#[derive(Debug)]
struct Waiting {
    message: Message,
    failures: u32,
    failed_first: Option<Instant>,
    /// The message before it about the same alarm.
    after: Option<u64>,
}

#[derive(Debug, Default)]
struct Receiver {
    /// The message whose outcome is not known.
    sending: Option<u64>,
    /// Its messages.
    waiting: usize,
    due: Deadlines<u64>,
    /// The last message about each alarm.
    last: BTreeMap<AlarmName, u64>,
}

impl Outbox {
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn waiting_for(&self, receiver: &str) -> usize {
        self.receivers.get(receiver).map_or(0, |receiver| receiver.waiting)
    }

    /// Takes a message in and gives it its number; none where there are too many.
    pub fn add(&mut self, now: Instant, draft: Message, settings: &Settings, stats: &mut Stats) -> Option<u64> {
        if self.messages.len() >= settings.messages_max {
            stats.dropped += 1;
            return None;
        }
        stats.made += 1;
        self.last_id += 1;
        let id = self.last_id;
        self.new.insert(id);
        self.insert(now, Message { id, ..draft });
        Some(id)
    }

    /// The numbers of later messages are greater.
    pub fn restore(&mut self, now: Instant, message: Message) {
        self.last_id = self.last_id.max(message.id);
        self.insert(now, message);
    }

    fn insert(&mut self, now: Instant, message: Message) {
        let id = message.id;
        let receiver = self.receivers.entry(Arc::clone(&message.to)).or_default();
        receiver.waiting += 1;
        let alarm = message.alarms.first().filter(|_| message.total == 1).map(|notice| notice.alarm.clone());
        let after = alarm.and_then(|alarm| receiver.last.insert(alarm, id));
        if after.is_none() {
            receiver.due.add(now, id);
        }
        self.messages.insert(id, Waiting { message, failures: 0, failed_first: None, after });
    }

    pub fn poll_record(&mut self) -> Option<Record> {
        while let Some(id) = self.new.pop_first() {
            if let Some(waiting) = self.messages.get(&id) {
                return Some(Record::Message(waiting.message.clone()));
            }
        }
        None
    }

    pub fn poll_over(&mut self) -> Option<Record> {
        self.over.pop_first().map(Record::MessageOver)
    }

    pub fn poll_send(&mut self, now: Instant) -> Option<Message> {
        let free = self.receivers.values_mut().filter(|receiver| receiver.sending.is_none());
        for receiver in free {
            if let Some((_, id)) = receiver.due.take_next(now) {
                receiver.sending = Some(id);
                return self.messages.get(&id).map(|waiting| waiting.message.clone());
            }
        }
        None
    }

    pub fn timeout(&self) -> Option<Instant> {
        let free = self.receivers.values().filter(|receiver| receiver.sending.is_none());
        free.filter_map(|receiver| receiver.due.timeout()).min()
    }

    /// Takes the outcome of an attempt; the message with its end, where this is the end.
    pub fn finish(
        &mut self,
        now: Instant,
        id: u64,
        outcome: Outcome,
        settings: &Settings,
        stats: &mut Stats,
    ) -> Option<(Message, End)> {
        let waiting = self.messages.get_mut(&id)?;
        let receiver = self.receivers.get_mut(&waiting.message.to)?;
        receiver.sending.take_if(|sending| *sending == id)?;
        let end = match outcome {
            Outcome::Delivered => {
                stats.delivered += 1;
                End::Delivered
            }
            Outcome::Refused => {
                stats.refused += 1;
                End::Refused
            }
            Outcome::Nobody => {
                stats.nobody += 1;
                End::Nobody
            }
            Outcome::Failed => {
                stats.failures += 1;
                let first = *waiting.failed_first.get_or_insert(now);
                if now.since(first) < settings.retry_for {
                    let doubled = settings.retry_min.saturating_mul(1 << waiting.failures.min(20));
                    waiting.failures = waiting.failures.saturating_add(1);
                    receiver.due.add(now + doubled.min(settings.retry_max), id);
                    return None;
                }
                stats.given_up += 1;
                End::GivenUp
            }
        };
        self.remove(now, id).map(|message| (message, end))
    }

    /// Messages of receivers that are configured no longer.
    pub fn retain(&mut self, now: Instant, is_known: &dyn Fn(&str) -> bool, stats: &mut Stats) {
        let unknown = self.messages.iter().filter(|(_, waiting)| !is_known(&waiting.message.to));
        let unknown: Vec<_> = unknown.map(|(id, _)| *id).collect();
        for id in unknown {
            stats.dropped += 1;
            self.remove(now, id);
        }
        self.receivers.retain(|name, _| is_known(name));
    }

    fn remove(&mut self, now: Instant, id: u64) -> Option<Message> {
        let waiting = self.messages.remove(&id)?;
        self.over.insert(id);
        if let Some(receiver) = self.receivers.get_mut(&waiting.message.to) {
            receiver.waiting = receiver.waiting.saturating_sub(1);
            receiver.last.retain(|_, last| *last != id);
            if let Some((next, follower)) = self.messages.iter_mut().find(|(_, other)| other.after == Some(id)) {
                follower.after = None;
                receiver.due.add(now, *next);
            }
        }
        Some(waiting.message)
    }
}
