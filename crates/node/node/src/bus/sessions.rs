//! Persistent MQTT sessions: clients that reconnect, messages for clients that are away, delayed wills
//! (MQTT 5.0 sections 3.1.2.4, 3.1.2.11.2, 3.1.3.2.2 and 4.1).
//!
//! ```text
//!             enter                leave, expiry > 0            due, or too many
//!   (none) ──────────▶ Client ────────────────────────▶ Away ─────────────────▶ (none)
//!                        ▲  └── leave, expiry 0 ──▶ (none)  │
//!                        └───────────── enter ──────────────┘
//! ```
//!
//! A session keeps its place, and with it its subscriptions in the tree, whether its client is there or not.

use super::client::Client;
use super::counters::{BusCounters, DropCause};
use super::deltas::is_marked;
use super::kept_limits::KeptLimits;
use super::persistence::written;
use super::replays::RetainedReplays;
use super::state::{Bus, Subscriber, id_of};
use super::upward::{Ticket, own_words, speak_for};
use super::wire::Wire;
use crate::access::{ClientIdentity, Guard};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Deadlines, Instant, Now, Topic, Update};
use tieline_mqtt::{
    ConnectRequest, Delivery, Message, PacketId, Property, Qos, ReasonCode, SessionState, Version, Will,
};
use tieline_net::Session;

/// A session whose client is away.
#[derive(Debug)]
pub struct Away {
    pub(super) id: Arc<str>,
    pub(super) number: u64,
    pub(super) state: SessionState,
    pub(super) snapshots: RetainedReplays,
    /// What the ledger says of it.
    pub(super) kept: Option<Box<tieline_ledger::Kept>>,
    /// Who its client is, where it had to show that.
    pub(super) identity: Option<Box<ClientIdentity>>,
    pub(super) expires: Instant,
    pub(super) will: Option<(Instant, LastWill)>,
}

/// A will that may be published.
#[derive(Clone, Debug, PartialEq)]
pub struct LastWill {
    pub(super) message: Message,
    pub(super) qos: Qos,
    pub(super) retain: bool,
    pub(super) delay_s: u32,
}

/// Sessions that outlive their connections.
#[derive(Debug, Default)]
pub struct Kept {
    limits: KeptLimits,
    /// What comes next for each that is away: its will, or its end.
    due: Deadlines<usize>,
    /// Those of each user, by when they end; of nobody, those that came in without showing who they are.
    of_user: HashMap<Option<Box<str>>, BTreeSet<(Instant, usize)>>,
    bytes: usize,
}

/// A client's place on the bus.
#[derive(Debug)]
pub struct Entered {
    /// The client's name.
    pub name: Arc<str>,
    /// The place.
    pub key: usize,
    /// The connection's number.
    pub generation: u64,
    /// The session's number.
    pub number: u64,
    /// What the session has of before.
    pub resume: Option<SessionState>,
    /// How long the session will outlive the connection, in seconds.
    pub expiry_s: u32,
}

impl LastWill {
    /// The will of a CONNECT; none where its topic is none.
    #[must_use]
    pub fn new(now: Now, will: &Will) -> Option<Self> {
        let topic = Topic::new(&will.topic).ok()?;
        let delay_s = will.properties.will_delay_s().unwrap_or(0);
        let properties =
            will.properties.iter().filter(|property| !matches!(property, Property::WillDelay(_))).collect();
        let mut message = Message { topic, payload: will.payload.bytes(), properties, received: now.mono };
        // It is the client's own.
        drop(own_words(&mut message));
        Some(Self { message, qos: will.qos, retain: will.retain, delay_s })
    }

    /// Says whose it is, for the upstream to which it will go.
    pub fn speak_for(&mut self, user: &str, client: &str) {
        speak_for(&mut self.message, user, client);
    }

    /// Whether it says that it is a delta.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        is_marked(&self.message.properties)
    }

    /// As the ledger has it.
    pub(super) fn written(&self, now: Now) -> tieline_ledger::Will {
        let Self { message, qos, retain, delay_s } = self;
        tieline_ledger::Will { message: written(now, message), qos: qos.bits(), retain: *retain, delay_s: *delay_s }
    }

    /// Where it goes.
    #[must_use]
    pub const fn topic(&self) -> &Topic {
        &self.message.topic
    }
}

impl Away {
    /// History has stored a message of the session's, or will not: what its client is told when it sends it again.
    pub(super) fn stored(&mut self, packet_id: PacketId, stored: bool) {
        let reason = if stored { ReasonCode::Success } else { ReasonCode::QuotaExceeded };
        self.state.answer(Version::V5, packet_id, reason);
    }

    /// Whose it is, where its client had to show that.
    pub(super) fn user(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| &*identity.user)
    }

    fn next(&self) -> Instant {
        self.will.as_ref().map_or(self.expires, |(at, _)| self.expires.min(*at))
    }
}

impl Kept {
    /// Clients that are away.
    pub(super) fn away(&self) -> usize {
        self.due.len()
    }

    /// Bytes that wait for them.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// When a will or a session's end is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.due.timeout()
    }

    /// Queues a message for a client that is away. QoS 0 is not kept (section 4.1 leaves it open).
    pub(super) fn queue(
        &mut self,
        away: &mut Away,
        delivery: Delivery,
        tag: u64,
        keep: bool,
        counters: &mut BusCounters,
    ) {
        if delivery.qos == Qos::AtMostOnce {
            return;
        }
        if self.bytes >= self.limits.bytes_max {
            away.state.lose();
            return counters.dropped.count(DropCause::AwayFull, 1);
        }
        let before = away.state.bytes();
        counters.deliveries += 1;
        let deliver = if keep { SessionState::deliver_kept } else { SessionState::deliver };
        let gone = deliver(&mut away.state, delivery, tag, self.limits.each);
        counters.dropped.count(DropCause::AwayQueueFull, gone);
        self.bytes = (self.bytes + away.state.bytes()).saturating_sub(before);
    }

    /// Queues a message for a client whose connection is over, or is being ended, and that the bus has here still: its
    /// session keeps what it is to deliver as if the client were away already.
    pub(super) fn queue_closing(
        &self,
        client: &Client,
        delivery: Delivery,
        tag: u64,
        keep: bool,
        counters: &mut BusCounters,
    ) {
        if delivery.qos == Qos::AtMostOnce {
            return;
        }
        if !client.lasts() {
            return counters.dropped.count(DropCause::SessionEnded, 1);
        }
        if self.bytes >= self.limits.bytes_max {
            client.session.with(|wire, _| wire.mqtt.lose());
            return counters.dropped.count(DropCause::AwayFull, 1);
        }
        let gone = client.session.with(|wire, _| wire.mqtt.deliver_closed(delivery, tag, keep, self.limits.each));
        counters.dropped.count(DropCause::AwayQueueFull, gone);
    }

    /// Drops what waits for a client that is away and that its user may not read any longer; how many messages.
    pub(super) fn withhold(&mut self, away: &mut Away) -> u64 {
        let before = away.state.bytes();
        let gone = match &away.identity {
            Some(identity) => away.state.keep_only(|delivery| identity.may_read(&delivery.message.topic)),
            None => 0,
        };
        self.bytes = (self.bytes + away.state.bytes()).saturating_sub(before);
        gone
    }

    /// The changes of a session are on the disk, or will not be.
    pub(super) fn settle(&mut self, away: &mut Away, upto: u64, kept: bool) {
        let before = away.state.bytes();
        away.state.settle(upto, kept);
        self.bytes = (self.bytes + away.state.bytes()).saturating_sub(before);
    }

    pub(super) fn add(&mut self, key: usize, away: &Away) {
        self.due.add(away.next(), key);
        self.of_user.entry(away.user().map(Into::into)).or_default().insert((away.expires, key));
        self.bytes += away.state.bytes();
    }

    pub(super) fn remove(&mut self, key: usize, away: &Away) {
        self.due.remove(away.next(), key);
        let user: Option<Box<str>> = away.user().map(Into::into);
        if let Some(own) = self.of_user.get_mut(&user) {
            own.remove(&(away.expires, key));
            if own.is_empty() {
                self.of_user.remove(&user);
            }
        }
        self.bytes = self.bytes.saturating_sub(away.state.bytes());
    }
}

impl Bus {
    /// What is kept for clients that are away.
    pub(super) const fn kept_limits(&self) -> KeptLimits {
        self.kept.limits
    }

    /// Sets what is kept for clients that are away.
    pub fn set_kept(&mut self, limits: KeptLimits) {
        self.kept.limits = limits;
    }

    /// Sessions whose clients are away, and the bytes that wait for them.
    #[must_use]
    pub fn away(&self) -> (usize, usize) {
        (self.kept.away(), self.kept.bytes())
    }

    /// Gives a client its place: that of its session, where it asks for it and there is one, or a new one. A
    /// connection that the session still has is ended ([MQTT-3.1.4-3]).
    pub fn enter(&mut self, now: Instant, session: &Session<Wire>, request: &ConnectRequest) -> Entered {
        self.begin_act();
        self.next_generation += 1;
        let generation = self.next_generation;
        let known = self.clients.get_key_value(&*request.client_id).map(|(name, key)| (Arc::clone(name), *key));
        let (name, known) = known.map_or_else(|| ((&*request.client_id).into(), None), |(name, key)| (name, Some(key)));
        let mut client = Client::new(now, session.clone(), Arc::clone(&name), generation);
        client.expiry_s = request.session_expiry_s.min(self.kept.limits.expiry_s_max);
        let expiry_s = client.expiry_s;
        self.counters.connected += 1;
        self.commands.handle_session_here(now, &name);
        let found = known.and_then(|key| self.take_over(key, request.clean_start).map(|found| (key, found)));
        let Some((key, Found { number, state, snapshots, kept })) = found else {
            let key = self.subscribers.insert(Subscriber::Client(Box::new(client)));
            self.clients.insert(Arc::clone(&name), key);
            return Entered { name, key, generation, number: generation, resume: None, expiry_s };
        };
        self.counters.resumed += 1;
        self.end_locks_of_connection(number);
        self.watchers.restart(key);
        (client.number, client.kept) = (number, kept);
        client.resume_snapshots(snapshots);
        if client.is_replaying() {
            client.listed = true;
            self.replaying.push(&client.share(), key);
        }
        if let Some(place) = self.subscribers.get_mut(key) {
            *place = Subscriber::Client(Box::new(client));
        }
        Entered { name, key, generation, number, resume: Some(state), expiry_s }
    }

    /// Takes the session of a client that comes again; none where it is to start from nothing, and then the old one has ended.
    fn take_over(&mut self, key: usize, clean_start: bool) -> Option<Found> {
        match self.subscribers.get_mut(key)? {
            Subscriber::Client(old) => {
                let words = "another client came with this identifier";
                let ended = |wire: &mut Wire| wire.mqtt.disconnect(ReasonCode::SessionTakenOver, words);
                old.session.send(|wire, _| ended(wire));
                if clean_start || old.expiry_s == 0 {
                    self.end_session(key);
                    return None;
                }
                old.count_into(&mut self.counters);
                let state = old.session.with(|wire, _| wire.mqtt.take_state());
                let snapshots = std::mem::take(&mut old.snapshots);
                Some(Found { number: old.number, state, snapshots, kept: old.kept.take() })
            }
            Subscriber::Away(away) => {
                self.kept.remove(key, away);
                // [MQTT-3.1.3-9]: a session that goes on in time takes its will back; one that ends does not.
                let will = away.will.take();
                let state = std::mem::take(&mut away.state);
                if !clean_start {
                    let snapshots = std::mem::take(&mut away.snapshots);
                    return Some(Found { number: away.number, state, snapshots, kept: away.kept.take() });
                }
                self.forget_session(key, state);
                if let Some((_, will)) = will {
                    self.publish_will(self.now(), will);
                }
                None
            }
            Subscriber::Group(_) | Subscriber::Feed(_) => None,
        }
    }

    /// The connection of a client has ended. Its session waits for another where it outlives its connections, and
    /// the will with it; otherwise the session ends, and the will is published. `expiry_s` is what the client said
    /// at last.
    pub fn leave(&mut self, now: Now, entered: (usize, u64, u64), expiry_s: Option<u32>, will: Option<LastWill>) {
        let (key, generation, number) = entered;
        let Some(client) = self.client(key, generation) else {
            // [MQTT-3.1.3-9]: a newer connection has the session, in time for a will that waits.
            let goes_on = matches!(self.subscribers.get(key), Some(Subscriber::Client(c)) if c.number == number);
            if let Some(will) = will.filter(|will| will.delay_s == 0 || !goes_on) {
                self.publish_will(now, will);
            }
            return;
        };
        // Section 3.14.2.2.2: one that was to end with its connection does.
        let asked = if client.expiry_s == 0 { 0 } else { expiry_s.unwrap_or(client.expiry_s) };
        let expiry_s = asked.min(self.kept.limits.expiry_s_max);
        let waits = will.as_ref().is_some_and(|will| will.delay_s > 0 && expiry_s > 0);
        let (delayed, at_once) = if waits { (will, None) } else { (None, will) };
        self.end_locks_of_connection(number);
        if expiry_s == 0 {
            self.end_session(key);
        } else {
            self.keep(now, key, expiry_s, delayed);
        }
        at_once.into_iter().for_each(|will| self.publish_will(now, will));
    }

    fn keep(&mut self, now: Now, key: usize, expiry_s: u32, will: Option<LastWill>) {
        let Some(place) = self.subscribers.get_mut(key) else { return };
        let Subscriber::Client(client) = place else { return };
        client.count_into(&mut self.counters);
        let state = client.session.with(|wire, _| wire.mqtt.take_state());
        let after = |s: u32| now.mono + Duration::from_secs(s.into());
        let away = Away {
            id: Arc::clone(&client.id),
            number: client.number,
            state,
            snapshots: std::mem::take(&mut client.snapshots),
            kept: client.kept.take(),
            identity: client.identity.take(),
            expires: after(expiry_s),
            will: will.map(|will| (after(will.delay_s), will)),
        };
        let will = away.will.as_ref().map(|(_, will)| will.written(now));
        self.kept.add(key, &away);
        *place = Subscriber::Away(Box::new(away));
        self.passages.forget(key);
        self.keep_away(now, key, expiry_s, will);
        self.drop_excess(now, key);
    }

    /// Where too many sessions are kept with this one, of its user or of all, ends the one of its user that would expire first:
    /// nobody's session goes for another's.
    pub(super) fn drop_excess(&mut self, now: Now, key: usize) {
        let Some(Subscriber::Away(away)) = self.subscribers.get(key) else { return };
        let user: Option<Box<str>> = away.user().map(Into::into);
        let of_user_max = self.guard().filter(|_| user.is_some()).map_or(usize::MAX, Guard::user_sessions_max);
        let Some(own) = self.kept.of_user.get(&user) else { return };
        let is_too_many = own.len() > of_user_max || self.kept.away() > self.kept.limits.sessions_max;
        if let (true, Some((_, first))) = (is_too_many, own.first().copied()) {
            self.end_away(now, first);
        }
    }

    /// Ends the session of a client that is away and whose user is gone: its will goes unpublished, and its identifier is free.
    pub(super) fn revoke_away(&mut self, now: Now, key: usize) {
        if let Some(Subscriber::Away(away)) = self.subscribers.get_mut(key) {
            self.kept.remove(key, away);
            away.will = None;
            self.kept.add(key, away);
            self.end_away(now, key);
        }
    }

    /// Publishes the wills whose delay has passed, and ends the sessions whose time has.
    pub(super) fn end_due_sessions(&mut self, now: Now) {
        while let Some((_, key)) = self.kept.due.due(now.mono).map(|(at, key)| (at, *key)) {
            let Some(Subscriber::Away(away)) = self.subscribers.get_mut(key) else { return };
            if away.expires <= now.mono {
                self.end_away(now, key);
            } else {
                self.kept.due.remove(away.next(), key);
                let will = away.will.take();
                self.kept.due.add(away.next(), key);
                let session = away.kept.as_ref().and_then(|kept| kept.session.as_ref());
                let expiry_s = session.map_or(0, |session| session.expiry_s);
                self.keep_away(now, key, expiry_s, None);
                if let Some((_, will)) = will {
                    self.publish_will(now, will);
                }
            }
        }
    }

    /// Ends the session of a client that is away; the will goes out with it at the latest.
    fn end_away(&mut self, now: Now, key: usize) {
        let Some(Subscriber::Away(away)) = self.subscribers.get_mut(key) else { return };
        self.kept.remove(key, away);
        let (state, will) = (std::mem::take(&mut away.state), away.will.take());
        self.counters.sessions_expired += 1;
        self.forget_session(key, state);
        if let Some((_, will)) = will {
            self.publish_will(now, will);
        }
    }

    /// Ends the session of a client that is here.
    fn end_session(&mut self, key: usize) {
        let Some(Subscriber::Client(client)) = self.subscribers.get(key) else { return };
        client.count_into(&mut self.counters);
        let state = client.session.with(|wire, _| wire.mqtt.take_state());
        self.forget_session(key, state);
    }

    fn forget_session(&mut self, key: usize, state: SessionState) {
        let (id, number, kept) = match self.subscribers.get_mut(key) {
            Some(Subscriber::Client(client)) => (Arc::clone(&client.id), client.number, client.kept.take()),
            Some(Subscriber::Away(away)) => (Arc::clone(&away.id), away.number, away.kept.take()),
            Some(Subscriber::Group(_) | Subscriber::Feed(_)) | None => return,
        };
        self.clients.remove(&id);
        self.commands.handle_session_gone(self.now(), &id);
        self.end_locks_of_session(number);
        self.forget_kept(self.now(), number, kept);
        self.tree.drop_subscriber(id_of(key));
        self.watchers.forget(key);
        self.remove_of(self.now(), key);
        self.subscribers.remove(key);
        self.passages.forget(key);
        self.leave_shares(key);
        self.redeliver(state);
    }

    /// The client of a key, if it is still the same one.
    pub fn client(&mut self, key: usize, generation: u64) -> Option<&mut Client> {
        match self.subscribers.get_mut(key) {
            Some(Subscriber::Client(client)) if client.generation == generation => Some(client),
            Some(_) | None => None,
        }
    }

    pub(super) fn publish_will(&mut self, now: Now, will: LastWill) {
        self.counters.wills += 1;
        // Its expiry counts from here: it is published when it is sent (section 3.1.3.2.4).
        let LastWill { message, qos, retain, .. } = will;
        let message = Message { received: now.mono, ..message };
        if self.is_of_upstream(&message.topic) {
            let topic = message.topic.clone();
            if let Err((_, why)) = self.publish_up(now, message, qos, retain, Ticket::Nobody) {
                tracing::debug!(%topic, why, "will not published");
            }
            return;
        }
        let body = match self.admit(&message, retain) {
            Ok(body) => body,
            Err(why) => {
                tracing::debug!(topic = %message.topic, %why, "will not published");
                return;
            }
        };
        let update = Update { topic: message.topic.clone(), body };
        if self.apply_message(now, message, &update.body, qos, retain, None).is_ok() {
            self.record(now, &update, None);
        }
    }
}

/// A session that goes on.
struct Found {
    number: u64,
    state: SessionState,
    snapshots: RetainedReplays,
    kept: Option<Box<tieline_ledger::Kept>>,
}
