//! Persistence of the bus over restarts: changes go into the ledger as they happen, and acknowledgements wait for them.
//!
//! A session that outlives its connections has a copy of all that the ledger says of it, [`tieline_ledger::Kept`], so
//! that it can be said again.

use super::ledger::{BATCH_BYTES, LedgerBatches, LedgerStatus, MESSAGE_BYTES_MAX, News, PendingAck};
use super::reasons;
use super::receipts::Receipt;
use super::sessions::LastWill;
use super::state::{Bus, Subscriber};
use super::wire::Wire;
use std::cell::RefCell;
use std::rc::Rc;
use tieline_core::{Filter, Instant, Now, Timestamp, Topic, Update};
use tieline_journal::RECORD_BYTES_MAX;
use tieline_ledger::{Kept, Record, Value};
use tieline_mqtt::{Message, PacketId, Properties, Qos, SessionChange, SharedFilter, SubscriptionOptions, Text};
use tieline_net::Session;
use tieline_topics::TopicId;
use tokio::sync::Notify;

/// The longest payload that is recorded: what a record of the journal holds with a topic before it.
const HISTORY_BYTES_MAX: usize = RECORD_BYTES_MAX - (256 << 10);

/// The ledger, and the sessions that have something for it.
#[derive(Debug)]
pub struct Ledger {
    pub(super) batches: LedgerBatches,
    changed: Rc<ChangedSessions>,
}

/// Sessions that have changed, by their place on the bus.
#[derive(Debug)]
pub struct ChangedSessions {
    pub(super) places: RefCell<Vec<usize>>,
    pub(super) work: Rc<Notify>,
}

/// What a session is to the ledger.
type Part<'a> = (Option<&'a mut Box<Kept>>, u64);

impl Ledger {
    /// None yet.
    #[must_use]
    pub fn new(work: &Rc<Notify>) -> Self {
        Self {
            batches: LedgerBatches::default(),
            changed: Rc::new(ChangedSessions { places: RefCell::default(), work: Rc::clone(work) }),
        }
    }

    /// Whether something is to be written before its time.
    pub(super) fn has_work(&self, now: Now) -> bool {
        let Self { batches, changed } = self;
        let is_more = || batches.wants_batch(now) || batches.wants_compaction() || !changed.places.borrow().is_empty();
        batches.is_on() && is_more()
    }
}

/// A message as the ledger has it.
pub(super) fn written(now: Now, message: &Message) -> tieline_ledger::Message {
    tieline_ledger::Message {
        topic: message.topic.clone(),
        payload: message.payload.clone(),
        properties: message.properties.bytes(),
        received: utc_of(now, message.received),
    }
}

/// When something was on the wall clock.
fn utc_of(now: Now, at: Instant) -> Timestamp {
    let ago = i64::try_from(now.mono.since(at).as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.utc.micros().saturating_sub(ago))
}

/// A filter as SUBSCRIBE has it.
fn filter_text(share: Option<&Text>, filter: &Filter) -> String {
    share.map_or_else(|| filter.to_string(), |share| format!("$share/{}/{filter}", &**share))
}

impl Bus {
    /// From here on, what is to be kept over restarts goes into these batches.
    pub fn set_ledger(&mut self, batches: LedgerBatches) {
        self.ledger.batches = batches;
    }

    /// How the ledger does.
    #[must_use]
    pub fn ledger_status(&self, now: Now) -> LedgerStatus {
        self.ledger.batches.status(now)
    }

    /// Begins an action that may have to wait until its changes are on the disk.
    pub fn begin_act(&mut self) {
        self.ledger.batches.begin_act();
    }

    /// Ends an action; gives the batch that has to be on the disk before the action is acknowledged, none when it
    /// changed nothing.
    pub fn end_act(&mut self, now: Now) -> Option<u64> {
        if !self.ledger.batches.is_on() {
            return None;
        }
        self.take_all_changes(now);
        self.ledger.batches.end_act()
    }

    /// Holds a connection's output until what was done for it is on the disk.
    pub fn hold_output(&mut self, now: Now, key: usize, session: &Session<Wire>) {
        let Some(batch_number) = self.end_act(now) else { return };
        let ack = PendingAck::HeldOutput { key, session: session.clone() };
        if self.ledger.batches.ack(batch_number, ack).is_none() {
            session.with(|wire, _| wire.hold_output());
        }
        self.work.notify_one();
    }

    /// Acknowledges once the batch is on the disk; at once when it already is, or cannot be.
    pub(super) fn ack(&mut self, now: Now, batch_number: u64, ack: PendingAck) {
        if let Some((ack, kept)) = self.ledger.batches.ack(batch_number, ack) {
            self.settle(now, ack, kept);
        }
        self.work.notify_one();
    }

    /// Whether a message that is to be acknowledged is short enough for all that it has to be in before that.
    ///
    /// # Errors
    /// It is not; the words name the limit.
    pub fn check_length(&self, message: &Message, update: &Update) -> Result<(), String> {
        let (payload, properties) = (message.payload.len(), message.properties.len());
        let (found, max) = (payload + properties, MESSAGE_BYTES_MAX);
        if self.ledger.batches.is_on() && found > max {
            return Err(format!("{found} bytes with its properties, at most {max} are kept over a restart"));
        }
        let max = HISTORY_BYTES_MAX;
        if payload > max && self.recorder.records(update) {
            return Err(format!("{payload} bytes, at most {max} are recorded in history"));
        }
        Ok(())
    }

    /// A client's message is its topic's value.
    pub(super) fn keep_value(&mut self, now: Now, topic: TopicId, message: &Message, qos: Qos) {
        let batches = &mut self.ledger.batches;
        if !batches.is_on() {
            return;
        }
        if qos == Qos::AtMostOnce {
            return batches.changed(now, topic);
        }
        batches.settled(topic);
        let value = Value { message: written(now, message), qos: qos.bits() };
        batches.write_awaited(now, &Record::Value(value));
    }

    /// A topic has no value any longer.
    pub(super) fn forget_value(&mut self, now: Now, id: TopicId, topic: &Topic) {
        if self.ledger.batches.is_on() {
            self.ledger.batches.settled(id);
            self.ledger.batches.write_awaited(now, &Record::Cleared(topic.clone()));
        }
    }

    /// A client is in, with this will: its session is kept, where it outlives the connection, and its will in any case.
    pub fn keep_session(&mut self, now: Now, key: usize, will: Option<&LastWill>) {
        let Self { subscribers, guard, ledger: Ledger { batches, changed }, .. } = self;
        let Some(Subscriber::Client(client)) = subscribers.get_mut(key).filter(|_| batches.is_on()) else { return };
        let keeps = client.lasts();
        client.session.with(|wire, _| {
            wire.mqtt.record_changes(keeps);
            wire.report_changes(keeps.then(|| (key, Rc::clone(changed))));
        });
        // Of one that ends with its connection there is the will to be published, where the node ends first.
        if !keeps && will.is_none() {
            if client.kept.take().is_some() {
                batches.write_awaited(now, &Record::Ended(client.number));
            }
            return;
        }
        let session = tieline_ledger::Session {
            number: client.number,
            client: client.id.to_string(),
            user: client.identity.as_ref().map(|identity| identity.user.to_string()),
            stamp: guard.as_ref().map(|_| client.identity.as_ref().map_or(0, |identity| identity.stamp)),
            expiry_s: client.expiry_s,
            away_since: None,
            will: will.map(|will| will.written(now)),
        };
        let kept = client.kept.get_or_insert_default();
        write(batches, now, Some(kept), Record::Session(session));
    }

    /// A client is away, or something of its will has changed.
    pub(super) fn keep_away(&mut self, now: Now, key: usize, expiry_s: u32, will: Option<tieline_ledger::Will>) {
        let Self { subscribers, ledger: Ledger { batches, .. }, .. } = self;
        let Some(Subscriber::Away(away)) = subscribers.get_mut(key) else { return };
        let Some(session) = away.kept.as_ref().and_then(|kept| kept.session.clone()) else { return };
        let away_since = session.away_since.or(Some(now.utc));
        let session = tieline_ledger::Session { expiry_s, away_since, will, ..session };
        write(batches, now, away.kept.as_mut(), Record::Session(session));
    }

    /// A session has ended.
    pub(super) fn forget_kept(&mut self, now: Now, number: u64, kept: Option<Box<Kept>>) {
        if kept.is_some() {
            self.ledger.batches.write_awaited(now, &Record::Ended(number));
        }
    }

    /// A client has subscribed; `due` where it is to be given last values that are not to be lost.
    pub fn keep_subscription(
        &mut self,
        now: Now,
        key: usize,
        SharedFilter { share, filter }: &SharedFilter,
        (options, properties): (&SubscriptionOptions, &Properties),
        due: bool,
    ) {
        let (options, properties) = (options.bits(), properties.bytes());
        let filter = filter_text(share.as_ref(), filter);
        self.write_of(now, key, |session| Record::Subscribed { session, filter, options, properties, due });
    }

    /// All last values of a client's subscription are messages that are pending for its session.
    pub(super) fn keep_caught_up(&mut self, now: Now, key: usize, filter: &Filter) {
        self.take_changes(now, key);
        let Self { subscribers, ledger: Ledger { batches, .. }, .. } = self;
        let Some(Subscriber::Client(client)) = subscribers.get_mut(key) else { return };
        // It may have subscribed again meanwhile.
        if client.snapshots.iter().any(|replay| replay.filter() == filter) {
            return;
        }
        let (Some(kept), number) = (client.kept.as_mut(), client.number) else { return };
        if let Some(subscription) = kept.subscriptions.get_mut(&**filter).filter(|subscription| subscription.due) {
            subscription.due = false;
            batches.write(now, &subscription.record(number, filter));
        }
    }

    /// A client has ended a subscription.
    pub fn forget_subscription(&mut self, now: Now, key: usize, SharedFilter { share, filter }: &SharedFilter) {
        let filter = filter_text(share.as_ref(), filter);
        self.write_of(now, key, |session| Record::Unsubscribed { session, filter });
    }

    /// A QoS 2 message of a client is taken: its identifier is known until the client has released it, and so is the time of
    /// its sample in history. False where the session is not kept.
    pub(super) fn keep_held(&mut self, now: Now, key: usize, packet_id: PacketId, sample: Option<Timestamp>) -> bool {
        let packet_id = packet_id.get();
        self.write_of(now, key, |session| Record::Held { session, packet_id, sample })
    }

    /// The time of the sample in history of a QoS 2 message that was taken; none where it is not recorded.
    pub(super) fn held_sample(&self, key: usize, packet_id: PacketId) -> Option<Timestamp> {
        let kept = match self.subscribers.get(key)? {
            Subscriber::Client(client) => client.kept.as_ref(),
            Subscriber::Away(_) | Subscriber::Group(_) | Subscriber::Feed(_) => None,
        };
        kept.and_then(|kept| kept.held.get(&packet_id.get()).copied().flatten())
    }

    /// A QoS 2 message that was taken before is refused: what comes with the identifier is another message.
    pub fn forget_held(&mut self, now: Now, key: usize, packet_id: PacketId) {
        let packet_id = packet_id.get();
        self.write_of(now, key, |session| Record::Released { session, packet_id });
    }

    /// Writes a change of a session that is kept; false where it is not.
    fn write_of(&mut self, now: Now, key: usize, record: impl FnOnce(u64) -> Record) -> bool {
        let Self { subscribers, ledger: Ledger { batches, .. }, .. } = self;
        let Some((Some(kept), number)) = subscribers.get_mut(key).and_then(part_of) else { return false };
        write(batches, now, Some(kept), record(number));
        true
    }

    /// Takes the session changes since the last time.
    pub(super) fn take_all_changes(&mut self, now: Now) {
        let places = std::mem::take(&mut *self.ledger.changed.places.borrow_mut());
        places.into_iter().for_each(|key| self.take_changes(now, key));
    }

    /// A session that is kept was given a message, or has lost one.
    pub(super) fn session_changed(&self, key: usize) {
        self.ledger.changed.places.borrow_mut().push(key);
    }

    fn take_changes(&mut self, now: Now, key: usize) {
        let Self { subscribers, ledger: Ledger { batches, .. }, .. } = self;
        let Some(subscriber) = subscribers.get_mut(key) else { return };
        let (changes, upto) = match subscriber {
            Subscriber::Client(client) => client.session.with(|wire, _| wire.take_changes()),
            Subscriber::Away(away) => away.state.take_changes(),
            Subscriber::Group(_) | Subscriber::Feed(_) => return,
        };
        let Some((mut kept, session)) = part_of(subscriber) else { return };
        let mut awaited = false;
        for change in changes {
            let record = match change {
                SessionChange::Void => continue,
                SessionChange::Done { serial } => {
                    let done = Record::Done { session, serial };
                    if let Some(kept) = kept.as_deref_mut() {
                        kept.handle_change(done.clone());
                    }
                    batches.write(now, &done);
                    continue;
                }
                SessionChange::Received { serial } => Record::Received { session, serial },
                SessionChange::Released { packet_id } => Record::Released { session, packet_id: packet_id.get() },
                SessionChange::Sent { serial } => Record::Sent { session, serial },
                SessionChange::Pending { serial, packet_id, delivery, sent } => Record::Pending {
                    session,
                    serial,
                    packet_id: packet_id.get(),
                    qos: delivery.qos.bits(),
                    retain: delivery.retain,
                    unsent: !sent,
                    subscription_ids: delivery.subscription_ids.iter().map(|id| id.number()).collect(),
                    message: written(now, &delivery.message),
                },
            };
            awaited |= !matches!(&record, Record::Pending { qos: 1, .. });
            write(batches, now, kept.as_deref_mut(), record);
        }
        if awaited {
            let batch_number = batches.batch_number();
            self.ack(now, batch_number, PendingAck::SessionChanges { key, number: session, upto });
        }
    }

    /// Takes news of the ledger's thread.
    pub fn handle_ledger(&mut self, now: Now, news: News) {
        for (ack, kept) in self.ledger.batches.handle_news(news) {
            self.settle(now, ack, kept);
        }
    }

    fn settle(&mut self, now: Now, ack: PendingAck, kept: bool) {
        match ack {
            PendingAck::Receipt(Receipt::Client { key, number, packet_id, .. }) => {
                self.answer_client(now, (key, number), packet_id, kept.then_some(()).ok_or(reasons::NOT_KEPT));
            }
            PendingAck::Receipt(Receipt::Call { answer, .. }) => drop(answer.send(kept)),
            PendingAck::Receipt(Receipt::Field(_)) => {}
            PendingAck::Record { sample, receipt } => {
                if kept {
                    self.recorder.record_sample(*sample, Some(receipt));
                } else {
                    self.settle(now, PendingAck::Receipt(receipt), false);
                }
            }
            PendingAck::HeldOutput { key, session } => {
                session.send(|wire, _| wire.release_output());
                self.push_dirty(key);
            }
            PendingAck::SessionChanges { key, number, upto } => self.settle_changes(key, number, upto, kept),
            PendingAck::LockNumbers => self.handle_lock_numbers(now, kept),
            PendingAck::Alarms { upto } => self.tell_alarms(now, upto),
        }
    }

    /// What is pending for a client may go.
    fn push_dirty(&mut self, key: usize) {
        if let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key)
            && !std::mem::replace(&mut client.dirty, true)
        {
            self.dirty.push(key);
        }
    }

    fn settle_changes(&mut self, key: usize, number: u64, upto: u64, kept: bool) {
        match self.subscribers.get_mut(key) {
            Some(Subscriber::Client(client)) if client.number == number => {
                client.session.send(|wire, _| wire.mqtt.settle(upto, kept));
            }
            Some(Subscriber::Away(away)) if away.number == number => self.kept.settle(away, upto, kept),
            Some(_) | None => return,
        }
        if !kept {
            self.session_changed(key);
        }
    }

    /// Answers a message of a session's client, which was stored, or was not for a reason. The session's connection may be
    /// another by now, or none.
    pub(super) fn answer_client(
        &mut self,
        now: Now,
        (key, number): (usize, u64),
        packet_id: PacketId,
        stored: Result<(), &str>,
    ) {
        self.durations.publish_answered((key, number), packet_id, || self.shard.now().mono);
        let kept = match self.subscribers.get_mut(key) {
            Some(Subscriber::Client(client)) if client.number == number => {
                client.stored(packet_id, stored);
                &client.kept
            }
            Some(Subscriber::Away(away)) if away.number == number => {
                away.stored(packet_id, stored.is_ok());
                &away.kept
            }
            Some(_) | None => return,
        };
        let held = kept.as_ref().is_some_and(|kept| kept.held.contains_key(&packet_id.get()));
        if stored.is_err() && held {
            self.forget_held(now, key, packet_id);
        }
    }

    /// Hands the ledger what this turn has made.
    pub(super) fn write_ledger(&mut self, now: Now) {
        if !self.ledger.batches.is_on() {
            return;
        }
        self.take_all_changes(now);
        self.ledger.batches.handle_timeout(now);
        for (ack, kept) in self.ledger.batches.take_released() {
            self.settle(now, ack, kept);
        }
        if self.ledger.batches.wants_compaction() {
            self.begin_compaction(now);
        }
        if !self.ledger.batches.wants_batch(now) {
            return;
        }
        if !self.ledger.batches.has_closed() {
            self.write_changed(now);
            self.compaction(now);
            self.ledger.batches.close();
        }
        self.ledger.batches.submit(now);
    }

    fn write_changed(&mut self, now: Now) {
        while self.ledger.batches.batch_bytes() < BATCH_BYTES
            && let Some(topic) = self.ledger.batches.next_changed(now)
        {
            if let Some(value) = self.value_of(now, topic) {
                self.ledger.batches.write(now, &Record::Value(value));
            }
        }
    }

    /// The value of a topic, where a client has set it.
    pub(super) fn value_of(&self, now: Now, topic: TopicId) -> Option<Value> {
        let view = self.tree.view(topic).filter(|view| view.mark != 0)?;
        let payload = view.body.published()?;
        let metadata = self.retained.metadata(&view, now.mono);
        let received = if metadata.properties.is_empty() { view.time } else { utc_of(now, metadata.received) };
        let (topic, payload, properties) = (view.topic.clone(), payload.clone(), metadata.properties.bytes());
        let message = tieline_ledger::Message { topic, payload, properties, received };
        Some(Value { message, qos: metadata.qos.bits() })
    }

    /// The bus ends: all that it knows goes to the ledger's thread.
    fn finish_ledger(&mut self) {
        if !self.ledger.batches.is_on() {
            return;
        }
        let now = self.now();
        self.take_all_changes(now);
        // What nobody waits for is due.
        let later = now.later(std::time::Duration::from_secs(3600));
        while let Some(topic) = self.ledger.batches.next_changed(later) {
            if let Some(value) = self.value_of(now, topic) {
                self.ledger.batches.write(now, &Record::Value(value));
            }
        }
        self.ledger.batches.finish();
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.finish_ledger();
    }
}

/// Writes a change that the present action has to wait for, and keeps a copy where it is one of a session.
fn write(batches: &mut LedgerBatches, now: Now, kept: Option<&mut Box<Kept>>, record: Record) {
    batches.write_awaited(now, &record);
    if let Some(kept) = kept {
        kept.handle_change(record);
    }
}

/// A session that may outlive its connection, and what the ledger says of it.
fn part_of(subscriber: &mut Subscriber) -> Option<Part<'_>> {
    match subscriber {
        Subscriber::Client(client) => {
            let lasts = client.lasts();
            Some((client.kept.as_mut().filter(|_| lasts), client.number))
        }
        Subscriber::Away(away) => Some((away.kept.as_mut(), away.number)),
        Subscriber::Group(_) | Subscriber::Feed(_) => None,
    }
}
