//! What the changes of a log make, one after the other.
//!
//! A compaction ([`Record::Begin`] … [`Record::End`]) writes all state again while changes go on, so that what is older
//! can be let go. Until its end is there, what was before holds; then all that it did not say is void. So a log may be
//! cut at any
//! record and leaves a state that once was.

use crate::RecordError;
use crate::loss::{Doubt, GivenUp};
use crate::record::{Message, Record, Session, Value};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use hashbrown::HashMap;
use tieline_core::{Timestamp, Topic};

/// A subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    /// The byte of options of SUBSCRIBE.
    pub options: u8,
    /// The properties of SUBSCRIBE.
    pub properties: Bytes,
    /// Whether the session is still to be given the last values that it selects.
    pub due: bool,
}

/// A message that is pending for a session.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingMessage {
    /// What its packets are known by; 0 where that is not decided yet.
    pub packet_id: u16,
    /// How surely, 1 or 2.
    pub qos: u8,
    /// Whether it is sent as a retained message.
    pub retain: bool,
    /// Whether it was not sent yet.
    pub unsent: bool,
    /// The subscriptions that it matches.
    pub subscription_ids: Vec<u32>,
    /// What; none once its client has it.
    pub message: Option<Message>,
}

/// A session and what it has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// What is said of the session itself; none where only parts of it were said, as within a compaction.
    pub session: Option<Session>,
    /// Its subscriptions, by filter.
    pub subscriptions: BTreeMap<String, Subscription>,
    /// Messages pending for it, in the order in which they came.
    pub pending: BTreeMap<u64, PendingMessage>,
    /// Packet identifiers of QoS 2 messages of its client, with the time of the sample in history of each that is recorded.
    pub held: BTreeMap<u16, Option<Timestamp>>,
}

/// A state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Image {
    /// When the node was last known to be alive.
    pub alive: Timestamp,
    /// The last values.
    pub values: HashMap<Topic, Value>,
    /// The sessions, by number.
    pub sessions: BTreeMap<u64, Kept>,
    /// Numbers of locks up to this one may have been given out.
    pub lock_numbers: u64,
    /// The alarms that are not normal, by name.
    pub alarms: BTreeMap<String, (u64, Bytes)>,
    /// The number of the last occurrence of any alarm.
    pub alarm_occurrence: u64,
}

/// Reads a log from its first record to its last.
#[derive(Debug, Default)]
pub struct Replay {
    image: Image,
    /// What an unfinished compaction has written.
    walked: Option<Image>,
    /// What a part of the log that cannot be read makes doubtful, where there was one.
    doubt: Option<Doubt>,
}

impl Replay {
    /// Takes the next record of the log.
    ///
    /// # Errors
    /// It is none that any release up to this one has written; nothing of it is taken.
    pub fn handle_record(&mut self, bytes: &[u8]) -> Result<(), RecordError> {
        Record::parse_all(bytes)?.into_iter().for_each(|record| self.handle_change(record));
        Ok(())
    }

    /// The next record of the log is lost; its bytes as far as there are any. A compaction that it interrupts is void.
    pub fn handle_lost(&mut self, bytes: Option<&[u8]>) {
        self.walked = None;
        self.doubt.get_or_insert_default().handle_lost(bytes, &self.image);
    }

    /// Takes the next change.
    pub fn handle_change(&mut self, record: Record) {
        if let Some(doubt) = &mut self.doubt {
            doubt.handle_change(&record, &self.image);
        }
        match record {
            Record::Begin => self.walked = Some(Image { alive: self.image.alive, ..Image::default() }),
            Record::End => {
                if let Some(walked) = self.walked.take() {
                    self.image = walked;
                    // All was said again by a node that knew it.
                    self.doubt = None;
                }
            }
            record => {
                if let Some(walked) = &mut self.walked {
                    walked.handle_change(record.clone());
                }
                self.image.handle_change(record);
            }
        }
    }

    /// The state at the log's end.
    #[must_use]
    pub fn finish(self) -> Image {
        self.finish_with_losses().0
    }

    /// The state at the log's end, and what was given up because parts of the log are lost.
    #[must_use]
    pub fn finish_with_losses(self) -> (Image, GivenUp) {
        let mut image = self.image;
        let given = self.doubt.map_or_else(GivenUp::default, |doubt| doubt.settle(&mut image));
        // Parts of sessions that ended.
        image.sessions.retain(|_, kept| kept.session.is_some());
        (image, given)
    }
}

impl Image {
    /// Takes a change that is not part of a compaction.
    fn handle_change(&mut self, record: Record) {
        match record {
            Record::Alive(at) => self.alive = at,
            Record::Value(value) => drop(self.values.insert(value.message.topic.clone(), value)),
            Record::Cleared(topic) => drop(self.values.remove(&topic)),
            Record::Ended(number) => drop(self.sessions.remove(&number)),
            Record::LockNumbers(upto) => self.lock_numbers = self.lock_numbers.max(upto),
            Record::Alarm { name, occurrence, state } => {
                self.alarm_occurrence = self.alarm_occurrence.max(occurrence);
                if state.is_empty() {
                    self.alarms.remove(&name);
                } else {
                    self.alarms.insert(name, (occurrence, state));
                }
            }
            record => {
                if let Some(session) = record.session() {
                    self.sessions.entry(session).or_default().handle_change(record);
                }
            }
        }
    }

    /// All that is here, as the changes that make it: what a compaction writes.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let values = self.values.values().cloned().map(Record::Value);
        let sessions = self.sessions.iter().flat_map(|(number, kept)| kept.records(*number));
        let lock_numbers = (self.lock_numbers > 0).then_some(Record::LockNumbers(self.lock_numbers));
        core::iter::once(Record::Alive(self.alive))
            .chain(lock_numbers)
            .chain(self.alarm_records())
            .chain(values)
            .chain(sessions)
    }

    /// The alarms, and the number of the last occurrence, which an alarm without a name says.
    pub fn alarm_records(&self) -> impl Iterator<Item = Record> + '_ {
        let last = Record::Alarm { name: String::new(), occurrence: self.alarm_occurrence, state: Bytes::new() };
        let alarms = self.alarms.iter().map(|(name, (occurrence, state))| Record::Alarm {
            name: name.clone(),
            occurrence: *occurrence,
            state: state.clone(),
        });
        (self.alarm_occurrence > 0).then_some(last).into_iter().chain(alarms)
    }
}

impl Kept {
    /// Takes a change of this session.
    pub fn handle_change(&mut self, record: Record) {
        match record {
            Record::Session(session) => self.session = Some(session),
            Record::Subscribed { filter, options, properties, due, .. } => {
                self.subscriptions.insert(filter, Subscription { options, properties, due });
            }
            Record::Unsubscribed { filter, .. } => drop(self.subscriptions.remove(&filter)),
            Record::Pending { serial, packet_id, qos, retain, unsent, subscription_ids, message, .. } => {
                let pending =
                    PendingMessage { packet_id, qos, retain, unsent, subscription_ids, message: Some(message) };
                self.pending.insert(serial, pending);
            }
            Record::Sent { serial, .. } => {
                self.pending.range_mut(..=serial).for_each(|(_, pending)| pending.unsent = false)
            }
            Record::Received { serial, .. } => {
                if let Some(pending) = self.pending.get_mut(&serial) {
                    pending.message = None;
                }
            }
            Record::Done { serial, .. } => drop(self.pending.remove(&serial)),
            Record::Held { packet_id, sample, .. } => drop(self.held.insert(packet_id, sample)),
            Record::Released { packet_id, .. } => drop(self.held.remove(&packet_id)),
            Record::Begin
            | Record::End
            | Record::Alive(_)
            | Record::Value(_)
            | Record::Cleared(_)
            | Record::Ended(_)
            | Record::LockNumbers(_)
            | Record::Alarm { .. } => {}
        }
    }

    /// All of a session, as the changes that make it.
    pub fn records(&self, session: u64) -> impl Iterator<Item = Record> + '_ {
        let subscriptions = self.subscriptions.iter();
        let subscriptions = subscriptions.map(move |(filter, subscription)| subscription.record(session, filter));
        let held = self.held.iter();
        let held =
            held.map(move |(packet_id, sample)| Record::Held { session, packet_id: *packet_id, sample: *sample });
        let pending = self.pending.iter().flat_map(move |(serial, pending)| pending.records(session, *serial));
        self.session.iter().cloned().map(Record::Session).chain(subscriptions).chain(held).chain(pending)
    }
}

impl Subscription {
    /// As a change that makes it.
    #[must_use]
    pub fn record(&self, session: u64, filter: &str) -> Record {
        let Self { options, properties, due } = self.clone();
        Record::Subscribed { session, filter: filter.into(), options, properties, due }
    }
}

impl PendingMessage {
    fn records(&self, session: u64, serial: u64) -> impl Iterator<Item = Record> + use<> {
        let Self { packet_id, qos, retain, unsent, subscription_ids, message } = self.clone();
        let received = message.is_none().then_some(Record::Received { session, serial });
        // What its client has is known by its identifier alone.
        let nothing = || {
            Topic::new("-").ok().map(|topic| Message {
                topic,
                payload: Bytes::new(),
                properties: Bytes::new(),
                received: Timestamp::default(),
            })
        };
        let message = message.or_else(nothing);
        let pending = message.map(|message| Record::Pending {
            session,
            serial,
            packet_id,
            qos,
            retain,
            unsent,
            subscription_ids,
            message,
        });
        pending.into_iter().chain(received)
    }
}
