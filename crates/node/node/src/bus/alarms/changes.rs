//! What comes out of the alarms: into the ledger, then to topics, journal and history.

use super::super::control::Callback;
use super::super::ledger::PendingAck;
use super::super::state::Bus;
use super::Alarming;
use crate::control::alarms::{ALARM_PREFIX, AlarmResult, AlarmShown, JOURNAL_TOPIC, JournalRow};
use bytes::Bytes;
use std::fmt;
use std::time::Duration;
use tieline_alarms::{AlarmId, Change, Event, Transition};
use tieline_core::{Body, Now, Timestamp, Topic, Update};
use tieline_ledger::Record;

/// Changes that wait for the disk; beyond them, they are told without waiting.
const WAITING_MAX: usize = 100_000;

/// What waits until what came before it is on the disk.
pub(super) enum Waiting {
    /// A change is told.
    Change(Box<Change>),
    /// An alarm is no more.
    Removed(AlarmId),
    /// A flood has begun, or has ended.
    Flood(bool),
    /// A request is answered.
    Answer(Callback<Vec<AlarmResult>>, Vec<AlarmResult>),
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(change) => f.debug_tuple("Change").field(change).finish(),
            Self::Removed(id) => f.debug_tuple("Removed").field(id).finish(),
            Self::Flood(is_on) => f.debug_tuple("Flood").field(is_on).finish(),
            Self::Answer(_, results) => f.debug_tuple("Answer").field(results).finish(),
        }
    }
}

impl Alarming {
    /// What comes next out of the engine, and its record; none where there is nothing.
    fn next(&mut self) -> Option<(Waiting, Option<Record>)> {
        Some(match self.engine.poll_event()? {
            // It is not a change that outlives a restart: it follows from the consequences.
            Event::Change(change) if change.transition == Transition::Counted => (Waiting::Change(change), None),
            Event::Change(change) => {
                let record = record_of(&change.alarm.record);
                (Waiting::Change(change), Some(record))
            }
            Event::Removed(id) => {
                let record = gone(&id);
                (Waiting::Removed(id), Some(record))
            }
            Event::Flood(is_on) => {
                tracing::warn!(is_on, "a flood of alarms has begun, or has ended");
                (Waiting::Flood(is_on), None)
            }
        })
    }

    /// The time of the next row of the journal: no two rows have the same.
    fn row_time(&mut self, at: Timestamp) -> Timestamp {
        let is_taken = at <= self.last_row && self.last_row < at.later(Duration::from_secs(1));
        self.last_row = if is_taken { self.last_row.later(Duration::from_micros(1)) } else { at };
        self.last_row
    }
}

impl Bus {
    /// Takes what has come out of the engine; it is told when it is on the disk, and the answer behind it.
    pub(super) fn wait_for_alarms(&mut self, now: Now, answer: Option<Waiting>) {
        let Self { alarming: Some(alarming), ledger, .. } = self else { return };
        let before = alarming.waiting.len();
        while let Some((waiting, record)) = alarming.next() {
            if let Some(record) = record.filter(|_| ledger.batches.is_on()) {
                ledger.batches.write(now, &record);
            }
            alarming.waiting.push_back(waiting);
        }
        alarming.waiting.extend(answer);
        if alarming.waiting.len() == before {
            return;
        }
        let upto = alarming.first_waiting + alarming.waiting.len() as u64;
        if !ledger.batches.is_on() || alarming.waiting.len() > WAITING_MAX {
            return self.tell_alarms(now, upto);
        }
        let number = ledger.batches.batch_number();
        self.ack(now, number, PendingAck::Alarms { upto });
    }

    /// Changes of alarms up to one are on the disk, or cannot be: they are told.
    pub(in crate::bus) fn tell_alarms(&mut self, now: Now, upto: u64) {
        loop {
            let Some(alarming) = &mut self.alarming else { return };
            if alarming.first_waiting >= upto {
                return;
            }
            let Some(waiting) = alarming.waiting.pop_front() else { return };
            alarming.first_waiting += 1;
            match waiting {
                Waiting::Change(change) => self.tell_change(now, &change),
                Waiting::Removed(id) => {
                    self.show_alarm(now, &id, Body::empty());
                    self.notifying.give_removed(now, &id);
                }
                Waiting::Flood(is_on) => self.notifying.give_flood(now, is_on),
                Waiting::Answer(answer, results) => answer(self, results),
            }
        }
    }

    fn tell_change(&mut self, now: Now, change: &Change) {
        let record = &change.alarm.record;
        let body = match record.flags.is_normal() {
            true => Body::empty(),
            false => Body::Opaque(Bytes::from(AlarmShown::of(&change.alarm).payload())),
        };
        self.show_alarm(now, &record.id, body);
        self.notifying.give_change(now, &change.alarm);
        if change.transition == Transition::Counted {
            return;
        }
        let (Some(alarming), Ok(topic)) = (&mut self.alarming, Topic::new(JOURNAL_TOPIC)) else { return };
        let time = alarming.row_time(change.at);
        let body = Body::Opaque(Bytes::from(JournalRow::of(change, time).payload()));
        self.recorder.record_own(time, Update { topic: topic.clone(), body: body.clone() });
        self.apply_value(now, topic, body, false);
    }

    /// Gives the topic of an alarm a value, or takes it away.
    pub(super) fn show_alarm(&mut self, now: Now, id: &AlarmId, body: Body) {
        let name = format!("{ALARM_PREFIX}{id}");
        let Ok(topic) = Topic::new(&name) else { return };
        if !body.is_empty() || self.tree.get(&topic).is_some() {
            self.apply_value(now, topic, body, true);
        }
    }
}

/// What the ledger keeps of an alarm.
pub(super) fn record_of(record: &tieline_alarms::Record) -> Record {
    let mut state = Vec::new();
    if !record.flags.is_normal() {
        record.emit(&mut state);
    }
    Record::Alarm { name: record.id.to_string(), occurrence: record.seq, state: state.into() }
}

/// It is no more.
fn gone(id: &AlarmId) -> Record {
    Record::Alarm { name: id.to_string(), occurrence: 0, state: Bytes::new() }
}
