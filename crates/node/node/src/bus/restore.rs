//! Restores what was pending when the node last ran: last values, and sessions whose clients have not come back yet.

use super::ledger::{LedgerBatches, died_at};
use super::replays::RetainedReplay;
use super::reserved::REPLAY_PREFIX;
use super::sessions::{Away, LastWill};
use super::state::{Bus, Subscriber};
use super::{declared, delivery_options};
use crate::access::{ClientIdentity, Guard};
use crate::control::audit::AuditLine;
use std::sync::Arc;
use std::time::Duration;
use tieline_access::Verb;
use tieline_core::{Filter, Now, Timestamp};
use tieline_ledger::{Image, Kept, PendingMessage, Record, Session, Subscription, Value};
use tieline_mqtt::{
    Delivery, Message, PacketId, Properties, Property, Qos, SessionState, SubscriptionId, SubscriptionOptions, Text,
};
use tieline_topics::Snapshot;

/// The default of what a message is worth that was kept.
const QOS: Qos = Qos::AtLeastOnce;

/// What became of a session.
enum Restored {
    /// It waits for its client.
    Waits,
    /// Its time passed while the node was not there.
    Over(Option<LastWill>),
    /// It cannot be used.
    Lost,
}

impl Bus {
    /// Restores what was pending, and writes into `batches` from here on. Topics that only the node publishes to now
    /// are left out.
    pub fn restore(&mut self, now: Now, mut image: Image, batches: LedgerBatches) {
        let died = died_at(&image, now.utc);
        self.locks.begin_after(image.lock_numbers);
        let mut gone = self.restore_alarms(now, &mut image);
        for (topic, value) in image.values {
            let is_free = !self.is_reserved(&topic) && !self.derives(&topic) && !topic.starts_with(REPLAY_PREFIX);
            let is_taken = is_free && self.restore_value(now, value);
            if !is_taken {
                gone.push(Record::Cleared(topic));
            }
        }
        let mut wills = Vec::new();
        // Of two with one client, which cannot be, the later one counts.
        for (number, kept) in image.sessions.into_iter().rev() {
            self.next_generation = self.next_generation.max(number);
            let had_expiry = kept.session.as_ref().is_some_and(|session| session.expiry_s > 0);
            match self.restore_session(now, died, number, kept) {
                Restored::Waits => {}
                Restored::Over(will) => {
                    self.counters.sessions_expired += u64::from(had_expiry);
                    wills.extend(will);
                    gone.push(Record::Ended(number));
                }
                Restored::Lost => {
                    tracing::warn!(session = number, "a session of before cannot be used, and has ended");
                    gone.push(Record::Ended(number));
                }
            }
        }
        self.set_ledger(batches);
        gone.iter().for_each(|record| self.ledger.batches.write(now, record));
        wills.into_iter().for_each(|will| self.publish_will(now, will));
        let kept: Vec<usize> = self.subscribers.iter().map(|(key, _)| key).collect();
        kept.into_iter().for_each(|key| self.drop_excess(now, key));
    }

    /// A clock that was in doubt when the node started is right: sessions whose time passed while the node was not there end,
    /// and wills that were due then are published. `line` says who confirmed it.
    pub fn confirm_clock(&mut self, now: Now, line: AuditLine) {
        tracing::info!(who = line.who, detail = line.detail, "the clock was confirmed");
        self.commands.note(line);
        let Self { subscribers, kept, .. } = self;
        for (key, subscriber) in subscribers.iter_mut() {
            let Subscriber::Away(away) = subscriber else { continue };
            let Some(session) = away.kept.as_ref().and_then(|kept| kept.session.clone()) else { continue };
            let Some(since) = session.away_since else { continue };
            let left = |seconds| now.mono + left_of(now, since, seconds).unwrap_or_default();
            kept.remove(key, away);
            away.expires = away.expires.min(left(session.expiry_s));
            away.will = away.will.take().map(|(at, will)| (at.min(left(will.delay_s)), will));
            kept.add(key, away);
        }
        self.work.notify_one();
    }

    /// True where the value is there again.
    fn restore_value(&mut self, now: Now, Value { message, qos }: Value) -> bool {
        let (at, qos) = (message.received, Qos::from_bits(qos).unwrap_or(QOS));
        let Some(message) = read(now, message) else { return false };
        // The value is as old as it is.
        let body = declared::read(&message.payload, true);
        let taken = self.apply_message(Now { utc: at, ..now }, message, &body, qos, true, None);
        taken.inspect_err(|error| tracing::warn!(%error, "a last value of before has no room")).is_ok()
    }

    fn restore_session(&mut self, now: Now, died: Timestamp, number: u64, mut kept: Kept) -> Restored {
        let Some(session) = kept.session.clone() else { return Restored::Lost };
        let Ok(id) = Text::new(&session.client) else { return Restored::Lost };
        let id: Arc<str> = (&*id).into();
        let is_revoked = |user: &String| self.guard().is_some_and(|guard| !guard.may_stay(user, session.stamp));
        if session.user.as_ref().is_some_and(is_revoked) {
            tracing::info!(session = number, "a session of before ends: its user is gone or has changed");
            return Restored::Over(None);
        }
        let since = session.away_since.unwrap_or(died);
        let will = session.will.clone().and_then(|will| read_will(now, will));
        let will = will.filter(|will| self.may_publish_late(now, &session, will));
        let expiry_s = session.expiry_s.min(self.kept_limits().expiry_s_max);
        let Some(left) = left_of(now, since, expiry_s) else { return Restored::Over(will) };
        if self.clients.contains_key(&id) {
            return Restored::Lost;
        }
        let due = will.map(|will| (now.mono + left_of(now, since, will.delay_s).unwrap_or_default(), will));
        let state = restore_state(now, &kept);
        kept.session = Some(Session { away_since: Some(since), ..session.clone() });
        // Where nobody shows who it is, it is nobody's.
        let identity = session.user.zip(self.guard()).map(|(user, guard): (String, &Guard)| {
            let read_filter = Some(guard.read_filter_of_user(&user));
            Box::new(ClientIdentity { user: user.into(), stamp: session.stamp.unwrap_or(0), read_filter })
        });
        let subscriptions: Vec<(String, Subscription)> = kept.subscriptions.clone().into_iter().collect();
        let away = Away {
            id: Arc::clone(&id),
            number,
            state,
            snapshots: std::collections::VecDeque::new(),
            kept: Some(Box::new(kept)),
            identity,
            expires: now.mono + left,
            will: due,
        };
        let key = self.subscribers.insert(Subscriber::Away(Box::new(away)));
        self.clients.insert(id, key);
        if let Some(Subscriber::Away(away)) = self.subscribers.get(key) {
            self.kept.add(key, away);
        }
        for (filter, subscription) in subscriptions {
            if self.restore_subscription(key, &filter, subscription).is_none() {
                tracing::warn!(session = number, filter, "a subscription of before cannot be used");
            }
        }
        Restored::Waits
    }

    /// Whether a will of before may be published: its client was there when the node ended, so that nobody has judged it.
    fn may_publish_late(&mut self, now: Now, session: &Session, will: &LastWill) -> bool {
        let topic = will.topic();
        if self.is_reserved(topic) || self.derives(topic) {
            return false;
        }
        let (Some(user), Some(guard)) = (session.user.as_deref(), self.guard()) else { return true };
        let may = guard.user_may(user, &session.client, Verb::Publish, topic);
        if !may {
            let who = format!("mqtt {user} {}", session.client);
            self.deny(now, user, &who, Verb::Publish, topic);
        }
        may
    }

    fn restore_subscription(&mut self, key: usize, text: &str, subscription: Subscription) -> Option<()> {
        let properties = Properties::of_subscribe(subscription.properties).ok()?;
        let options = SubscriptionOptions::from_bits(subscription.options).ok()?;
        let (delivery_options, selector) =
            (delivery_options::read(&properties).ok()?, delivery_options::selector(&properties).ok()?);
        let last = delivery_options::last(&properties).ok()?;
        let (share, filter) = match text.strip_prefix("$share/").and_then(|rest| rest.split_once('/')) {
            Some((share, filter)) => (Some(Text::new(share).ok()?), filter),
            None => (None, text),
        };
        let filter = Filter::new(filter).ok()?;
        let offer = properties.own_property(tieline_delta::PROPERTY);
        let has_deltas = share.is_none() && offer.is_some_and(|offer| self.deltas.agree(offer).is_some());
        let qos = if has_deltas || super::watch_of(&filter).is_some() { Qos::AtMostOnce } else { options.qos };
        let delivery_options = if has_deltas { delivery_options.deltas() } else { delivery_options };
        let options = SubscriptionOptions { qos, ..options };
        let wanted = delivery_options::options_of(
            &options,
            properties.subscription_id().map(SubscriptionId::number),
            delivery_options,
        );
        let Some(share) = share else {
            self.subscribe_narrowed(key, &filter, selector.as_ref(), wanted).ok()?;
            if let (true, Some(Subscriber::Away(away))) = (subscription.due, self.subscribers.get_mut(key)) {
                // Some of them its client may have: it gets them twice.
                let walk = Snapshot::new(filter).narrowed(selector);
                away.snapshots.push_back(RetainedReplay::new(walk, qos, properties.subscription_id(), last));
            }
            return Some(());
        };
        self.share(key, &share, &filter, wanted).map(drop).ok()
    }
}

/// What was pending for a session, and what its client was answered.
fn restore_state(now: Now, kept: &Kept) -> SessionState {
    let mut state = SessionState::default();
    for (serial, PendingMessage { packet_id, qos, retain, unsent, subscription_ids, message }) in &kept.pending {
        let (Some(packet_id), Some(qos)) = (PacketId::new(*packet_id), Qos::from_bits(*qos)) else { continue };
        let subscription_ids = subscription_ids.iter().filter_map(|id| SubscriptionId::new(*id)).collect();
        let delivery =
            |message: Message| Delivery { message: Arc::new(message), qos, retain: *retain, subscription_ids };
        // One that has expired goes out with no time left, or not at all.
        let read = message.clone().map(|message| read_late(now, message));
        state.restore_pending(*serial, packet_id, qos, read.map(delivery), !unsent);
    }
    for (packet_id, sample) in &kept.held {
        if let Some(packet_id) = PacketId::new(*packet_id) {
            // History may lack what it was to have.
            state.restore_held(packet_id, sample.is_none());
        }
    }
    state.record_changes(true);
    state
}

/// What is left of so many seconds from a moment on; none where nothing is.
fn left_of(now: Now, since: Timestamp, seconds: u32) -> Option<Duration> {
    let over = since.later(Duration::from_secs(seconds.into())).micros();
    let left = u64::try_from(over.saturating_sub(now.utc.micros())).ok().filter(|left| *left > 0);
    // A moment that is still to come gives no more than there is.
    left.map(|left| Duration::from_micros(left).min(Duration::from_secs(seconds.into())))
}

/// A message of before, where its time has not passed.
fn read(now: Now, message: tieline_ledger::Message) -> Option<Message> {
    let tieline_ledger::Message { topic, payload, properties, received } = message;
    let properties = Properties::of_message(properties).ok()?;
    let Some(expiry_s) = properties.message_expiry_s() else {
        return Some(Message { topic, payload, properties, received: now.mono });
    };
    // The clock of this run has not seen when it came: what is left counts from here.
    let left_s = u32::try_from(left_of(now, received, expiry_s)?.as_secs()).ok().filter(|s| *s > 0)?;
    let counted_down = properties.iter().map(|property| match property {
        Property::MessageExpiry(_) => Property::MessageExpiry(left_s),
        other => other,
    });
    Some(Message { topic, payload, properties: counted_down.collect(), received: now.mono })
}

/// The same with a time of zero where it has passed.
fn read_late(now: Now, message: tieline_ledger::Message) -> Message {
    let (topic, payload) = (message.topic.clone(), message.payload.clone());
    let over = || std::iter::once(Property::MessageExpiry(0)).collect();
    read(now, message).unwrap_or_else(|| Message { topic, payload, properties: over(), received: now.mono })
}

fn read_will(now: Now, will: tieline_ledger::Will) -> Option<LastWill> {
    let tieline_ledger::Will { message, qos, retain, delay_s } = will;
    let tieline_ledger::Message { topic, payload, properties, .. } = message;
    let properties = Properties::of_message(properties).ok()?;
    let message = Message { topic, payload, properties, received: now.mono };
    Some(LastWill { message, qos: Qos::from_bits(qos)?, retain, delay_s })
}
