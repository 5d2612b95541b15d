//! One MQTT client that is connected.

use super::counters::{BusCounters, DropCause};
use super::deltas::Follower;
use super::flow::{Flow, FlowCounters, Source, Whom};
use super::replays::{DeltaStart, RetainedReplay, RetainedReplays};
use super::state::{Bus, Subscriber};
use super::statistics::SessionRate;
use super::wire::Wire;
use crate::access::ClientIdentity;
use std::collections::VecDeque;
use std::sync::Arc;
use tieline_core::{Filter, Instant, Now, Topic};
use tieline_delta::CAUGHT_UP_TOPIC;
use tieline_ledger::Kept;
use tieline_mqtt::{Aside, Delivery, Message, PacketId, Qos, ReasonCode, ServerSession, SubscriptionId, Version};
use tieline_net::Session;
use tieline_topics::{Last, Series, Snapshot, TopicId};

/// Topics of a snapshot that are queued at a time.
pub(super) const CHUNK: usize = 256;
/// The fewest of them.
pub(super) const CHUNK_MIN: usize = 8;
/// A snapshot goes on once fewer bytes than this wait for the socket, and fewer messages than half of a queue.
const RESUME_BYTES: usize = 16 * 1024;
const RESUME_MESSAGES: usize = 256;

/// One client.
#[derive(Debug)]
pub struct Client {
    /// Its session.
    pub session: Session<Wire>,
    /// Its name.
    pub id: Arc<str>,
    /// Rises with every client, so that a receipt of one never reaches the next in its place.
    pub generation: u64,
    /// Whether its session is on the list of those to be flushed.
    pub dirty: bool,
    /// The session's number, which the session keeps over its connections.
    pub number: u64,
    /// Seconds that the session outlives this connection; all ones is for ever.
    pub expiry_s: u32,
    /// Who it is, where it had to show that.
    pub identity: Option<Box<ClientIdentity>>,
    /// What the ledger says of its session, where that outlives the connection.
    pub(super) kept: Option<Box<Kept>>,
    /// Whether it is on the list of those with last values to be sent.
    pub(super) listed: bool,
    /// Last values that it has not been sent yet.
    pub(super) snapshots: RetainedReplays,
    /// What is pending for it besides, while there is something.
    pub(super) flow: Option<Box<Flow>>,
    /// Counters of what was pending for it before.
    pub(super) flow_counters: Option<Box<FlowCounters>>,
    /// What it takes as deltas, where it has asked for some.
    pub(super) follower: Option<Box<Follower>>,
    /// How much it is sent.
    pub(super) rate: SessionRate,
}

impl Client {
    /// A client that has just been let in.
    #[must_use]
    pub fn new(now: Instant, session: Session<Wire>, id: Arc<str>, generation: u64) -> Self {
        Self {
            session,
            id,
            generation,
            dirty: false,
            number: generation,
            expiry_s: 0,
            identity: None,
            kept: None,
            listed: false,
            snapshots: VecDeque::new(),
            flow: None,
            flow_counters: None,
            follower: None,
            rate: SessionRate::begin(now),
        }
    }

    /// Whether its session outlives the connection.
    #[must_use]
    pub const fn lasts(&self) -> bool {
        self.expiry_s > 0
    }

    /// The last values that a new subscription selects are due.
    pub fn replay_retained(
        &mut self,
        snapshot: Snapshot,
        qos: Qos,
        id: Option<SubscriptionId>,
        (deltas, last): (Option<DeltaStart>, Option<Last>),
        upto: u64,
    ) {
        self.snapshots.push_back(RetainedReplay {
            deltas,
            upto: Some(upto),
            ..RetainedReplay::new(snapshot, qos, id, last)
        });
    }

    /// Goes on with last values that another connection of the session was not sent.
    pub(super) fn resume_snapshots(&mut self, snapshots: RetainedReplays) {
        self.snapshots = snapshots;
        // Updates at QoS 0 did not reach who was away.
        self.snapshots.iter_mut().for_each(|replay| replay.upto = None);
    }

    /// Whose turn it is when it is sent last values: the user's, or its own where nobody shows who it is.
    pub(super) fn share(&self) -> Arc<str> {
        self.identity.as_ref().map_or_else(|| Arc::clone(&self.id), |identity| (&*identity.user).into())
    }

    /// Whether last values wait to be sent.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// Queues last values as far as the client keeps up, until its time is over. Returns the filters of subscriptions that
    /// have got all of theirs.
    pub(super) fn send_snapshots(
        &mut self,
        key: usize,
        source: &mut Source<'_>,
        series: &Series,
        is_over: impl Fn() -> bool,
    ) -> Vec<Filter> {
        let mut done = Vec::new();
        let mut is_first = true;
        while let Some(replay) = self.snapshots.front_mut() {
            if !std::mem::take(&mut is_first) && is_over() {
                return done;
            }
            let (bytes, (pending, in_flight)) = self.session.look(|wire| (wire.waiting_bytes(), wire.mqtt.backlog()));
            // What its session is still to get waits until its client comes again.
            let is_held = self.session.look(|wire| wire.is_output_held() || !wire.mqtt.is_open());
            if is_held || bytes > RESUME_BYTES || pending + in_flight > RESUME_MESSAGES {
                return done;
            }
            if replay.deltas.is_some() {
                self.begin_anew(key, source);
                continue;
            }
            let identity = self.identity.as_deref();
            let is_full = self.session.send(|wire, _| {
                let queue = |delivery: Delivery| queue(&mut wire.mqtt, delivery);
                match replay.last {
                    Some(last) => replay.events(last, source, series, identity, queue),
                    None => replay.values(source, identity, queue),
                }
            });
            if replay.snapshot.is_done() && replay.within.is_none() {
                done.extend(self.snapshots.pop_front().map(|replay| replay.filter().clone()));
            }
            if is_full && self.session.look(|wire| wire.mqtt.backlog().0 > 0) {
                return done;
            }
        }
        // Most subscriptions are made at once, and then no more.
        self.snapshots = VecDeque::new();
        done
    }

    /// Restarts some delta topics of the first snapshot.
    fn begin_anew(&mut self, key: usize, source: &mut Source<'_>) {
        let Some(mut replay) = self.snapshots.pop_front() else { return };
        let views = source.tree.next(&mut replay.snapshot, replay.chunk);
        let seen: Vec<(TopicId, bool)> = views.iter().map(|view| (view.id, replay.is_due(view.stamp))).collect();
        let of = |due| seen.iter().filter(|seen| seen.1 == due).map(|seen| seen.0).collect::<Vec<_>>();
        let (topics, updated) = (of(true), of(false));
        match replay.deltas {
            Some(DeltaStart::Sent) => {
                // An update that went out meanwhile was whole; one that waits is to be.
                let owed = |topic: &&TopicId| self.flow.as_ref().is_some_and(|flow| flow.pending.contains(**topic));
                let follower = self.follower.as_deref();
                updated.iter().filter(owed).for_each(|topic| source.deltas.void(follower, *topic));
                let sent = self.send_first(key, &topics, source);
                // What one write holds is what is looked at for the next.
                let place = sent.and_then(|last| topics.iter().position(|topic| *topic == last));
                replay.chunk = place.map_or(2 * replay.chunk, |place| place + CHUNK_MIN).clamp(CHUNK_MIN, CHUNK);
                if let Some(view) = sent.and_then(|last| source.tree.view(last)) {
                    replay.snapshot.go_back(view.topic);
                }
            }
            Some(DeltaStart::Later) | None => {
                let follower = self.follower.as_deref();
                topics.iter().chain(&updated).for_each(|id| source.deltas.void(follower, *id));
            }
        }
        if !replay.snapshot.is_done() {
            self.snapshots.push_front(replay);
        } else if let Some(word) = replay.word {
            self.tell_caught_up(source.now.mono, &word);
        }
    }

    /// Tells the client that it has been sent all last values.
    fn tell_caught_up(&self, now: Instant, word: &str) {
        let Ok(topic) = Topic::new(CAUGHT_UP_TOPIC) else { return };
        let message = Message::new(topic, word.as_bytes().to_vec(), now);
        self.session.send(|wire, _| {
            let mut out = Vec::new();
            let aside = Aside { message: &message, retain: false, subscription_ids: &[], alias: None };
            wire.mqtt.emit_aside(now, &aside, &mut out);
            wire.push_shared(out.into());
        });
    }

    /// Sends the first values of topics that will come as deltas, about as many as one write may hold; the last one of
    /// those where it was not the last of all.
    fn send_first(&mut self, key: usize, topics: &[TopicId], source: &mut Source<'_>) -> Option<TopicId> {
        let Self { session, flow, identity, follower, snapshots, .. } = self;
        let mut whom =
            Whom { key, identity: identity.as_deref(), follower: follower.as_deref_mut(), replays: snapshots };
        let mut out = Vec::new();
        let full = session.look(|wire| {
            topics.iter().copied().find(|topic| {
                if let Some(flow) = flow {
                    flow.pending.forget(*topic);
                }
                whom.emit_value(*topic, (true, 0), wire, source, &mut out);
                out.len() >= RESUME_BYTES
            })
        });
        session.send(|wire, _| wire.push_shared(out.into()));
        full.filter(|last| topics.last() != Some(last))
    }

    /// What is pending for it, to be added to: no frame may go past it from here on.
    pub(super) fn flow_mut(&mut self) -> &mut Flow {
        self.session.close_passage();
        self.flow.get_or_insert_default()
    }

    /// Gives back the memory of what was pending, when only counters are left.
    pub(super) fn rest(&mut self) {
        if let Some(flow) = self.flow.take_if(|flow| flow.is_spent()) {
            let counted = flow.flow_counters();
            if counted != FlowCounters::default() {
                self.flow_counters.get_or_insert_default().add(counted);
            }
        }
    }

    /// Counters of what was pending for it.
    fn flow_counters(&self) -> FlowCounters {
        let mut flow_counters = self.flow_counters.as_deref().copied().unwrap_or_default();
        flow_counters.add(self.flow.as_ref().map(|flow| flow.flow_counters()).unwrap_or_default());
        flow_counters
    }

    /// QoS 0 messages dropped because the queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.flow_counters().dropped.total() + self.session.look(|wire| wire.mqtt.counters().dropped_full)
    }

    /// Messages of QoS 1 and 2 that its session was to get and never will, over all its connections.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.session.look(|wire| wire.mqtt.lost())
    }

    /// Values that were never sent because a newer one came first.
    #[must_use]
    pub fn conflated(&self) -> u64 {
        self.flow_counters().conflated
    }

    /// Topics and messages that wait for the client.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let (pending, in_flight) = self.session.look(|wire| wire.mqtt.backlog());
        pending + in_flight + self.flow.as_ref().map_or(0, |flow| flow.waiting())
    }

    /// Bytes of messages that are kept one by one until its socket takes them.
    #[must_use]
    pub fn log_bytes(&self) -> usize {
        self.flow.as_ref().map_or(0, |flow| flow.log_bytes())
    }

    /// Counts what the client sent and did not get, before it goes.
    pub(super) fn count_into(&self, counters: &mut BusCounters) {
        let of_session = self.session.look(|wire| wire.mqtt.counters());
        let flow_counters = self.flow_counters();
        counters.dropped.add(flow_counters.dropped);
        counters.dropped.count(DropCause::QueueFull, of_session.dropped_full);
        counters.dropped.count(DropCause::Expired, of_session.dropped_expired);
        counters.dropped.count(DropCause::TooLarge, of_session.dropped_too_large);
        counters.conflated += flow_counters.conflated;
        counters.packets_in += of_session.packets_in;
    }

    /// Answers a message: history and the ledger have stored it, or will not, for a reason in words. A 3.1.1 client cannot be told the latter, and would take
    /// an answer for success: it is ended, and knows then that its message may be lost.
    pub fn stored(&self, packet_id: PacketId, stored: Result<(), &str>) {
        self.session.with(|wire, _| match (stored, wire.mqtt.version()) {
            (Ok(()), _) => wire.mqtt.acknowledge(packet_id, ReasonCode::Success),
            (Err(why), Version::V5) => wire.mqtt.acknowledge_because(packet_id, ReasonCode::QuotaExceeded, why),
            (Err(_), Version::V311) => wire.mqtt.disconnect_refusing(packet_id, ReasonCode::QuotaExceeded, ""),
        });
    }

    /// Refuses a message; a 3.1.1 client cannot be told, and loses its connection.
    pub fn refuse(&self, packet_id: PacketId, reason: ReasonCode, why: &str) {
        self.session.with(|wire, _| match wire.mqtt.version() {
            Version::V5 => wire.mqtt.acknowledge_because(packet_id, reason, why),
            Version::V311 => wire.mqtt.disconnect_refusing(packet_id, reason, why),
        });
    }

    /// Ends the connection: more waits for the client than may.
    pub(super) fn end_full(&self, counters: &mut BusCounters) {
        if !self.session.look(|wire| wire.mqtt.is_open()) {
            return;
        }
        counters.ended_full += 1;
        tracing::warn!(client = %*self.id, waiting = self.waiting(), "a subscriber is ended: too much waits for it");
        self.disconnect(ReasonCode::QuotaExceeded, "too many messages wait for this client");
    }

    /// Ends the session with a reason that 5.0 clients are told.
    pub fn disconnect(&self, reason: ReasonCode, text: &str) {
        self.session.send(|wire, _| wire.mqtt.disconnect(reason, text));
    }
}

/// Queues a last value or an event where there is room for it; a client takes a QoS 2 message that was lost for the next of
/// the same identifier.
fn queue(mqtt: &mut ServerSession, delivery: Delivery) -> bool {
    if !mqtt.can_queue(&delivery) {
        return false;
    }
    let queued = match delivery.qos {
        Qos::ExactlyOnce => mqtt.deliver_kept(delivery, 0),
        Qos::AtMostOnce | Qos::AtLeastOnce => mqtt.deliver(delivery),
    };
    queued.is_ok()
}

impl Bus {
    /// A client that takes deltas is told a word when all last values that are due have been sent.
    pub fn tell_caught_up(&mut self, now: Now, key: usize, word: &str) {
        let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key) else { return };
        match client.snapshots.back_mut() {
            Some(replay) => replay.word = Some(word.into()),
            None => client.tell_caught_up(now.mono, word),
        }
    }

    /// The last values that a client's new subscription selects are due; events besides, where it asks for some.
    pub fn replay_retained(
        &mut self,
        key: usize,
        snapshot: Snapshot,
        qos: Qos,
        id: Option<SubscriptionId>,
        (deltas, last): (Option<DeltaStart>, Option<Last>),
    ) {
        if let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key) {
            if let (Some(DeltaStart::Later), Some(topic)) = (deltas, snapshot.topic()) {
                if let Some(topic) = self.tree.find(topic) {
                    self.deltas.void(client.follower.as_deref(), topic);
                }
                return;
            }
            client.replay_retained(snapshot, qos, id, (deltas, last), self.tree.stamp());
            if !std::mem::replace(&mut client.listed, true) {
                self.replaying.push(&client.share(), key);
            }
        }
    }
}
