//! One MQTT client that is connected.

use super::counters::BusCounters;
use super::deltas::Follower;
use super::fanout::{lower, payload_of};
use super::flow::{Flow, Source, Whom};
use super::retained::{Manner, Retained};
use super::state::{Bus, Subscriber};
use super::statistics::SessionRate;
use super::wire::Wire;
use crate::access::Badge;
use std::collections::VecDeque;
use std::sync::Arc;
use tieline_core::{Filter, Now, Topic};
use tieline_ledger::Kept;
use tieline_mqtt::{Delivery, Message, PacketId, Property, Qos, ReasonCode, SubscriptionId, Text, Version};
use tieline_net::Session;
use tieline_topics::{Event, Last, Series, Snapshot, TopicId, View};

/// Topics of a snapshot that are queued at a time.
const CHUNK: usize = 256;
/// A snapshot goes on once fewer octets than this wait for the socket, and fewer messages than half of a queue.
const RESUME_OCTETS: usize = 16 * 1024;
const RESUME_MESSAGES: usize = 256;
/// The user properties that say which event a message is, and when the node got it.
const SEQ: &str = "tieline-seq";
const TIME: &str = "tieline-time";

/// One client.
#[derive(Debug)]
pub struct Client {
    /// Its session.
    pub session: Session<Wire>,
    /// Its name.
    pub id: Text,
    /// Rises with every client, so that a receipt of one never reaches the next in its place.
    pub generation: u64,
    /// Whether its session is on the list of those to be flushed.
    pub dirty: bool,
    /// The session's number, which the session keeps over its connections.
    pub number: u64,
    /// Seconds that the session outlives this connection; all ones is for ever.
    pub expiry_s: u32,
    /// Who it is, where it had to show that.
    pub badge: Option<Box<Badge>>,
    /// What the ledger says of its session, where that outlives the connection.
    pub(super) kept: Option<Box<Kept>>,
    /// Whether it is on the list of those with last values to be sent.
    pub(super) listed: bool,
    /// Last values that it has not been sent yet.
    pub(super) snapshots: Behind,
    /// What it is owed besides, where there was ever something.
    pub(super) flow: Option<Box<Flow>>,
    /// What it takes as deltas, where it has asked for some.
    pub(super) follower: Option<Box<Follower>>,
    /// How much it is sent.
    pub(super) rate: SessionRate,
}

/// Last values that a session has not been sent yet, of each subscription that asked for them.
pub(super) type Behind = VecDeque<Catchup>;

/// A subscription's last values, being sent.
#[derive(Debug)]
pub(super) struct Catchup {
    walk: Snapshot,
    qos: Qos,
    ids: Vec<SubscriptionId>,
    /// What topics that come as deltas begin anew with.
    deltas: Option<Anew>,
    /// Which events of topics that keep some are sent.
    last: Option<Last>,
    /// The topic whose events are being sent, and the number of the last one that was.
    within: Option<(TopicId, u64)>,
}

/// How topics that come as deltas begin anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anew {
    /// Their last values are sent now.
    Sent,
    /// Their next values are whole.
    Later,
}

impl Client {
    /// A client that has just been let in.
    #[must_use]
    pub fn new(session: Session<Wire>, id: Text, generation: u64) -> Self {
        Self {
            session,
            id,
            generation,
            dirty: false,
            number: generation,
            expiry_s: 0,
            badge: None,
            kept: None,
            listed: false,
            snapshots: VecDeque::new(),
            flow: None,
            follower: None,
            rate: SessionRate::default(),
        }
    }

    /// The last values that a new subscription selects are due.
    pub fn catch_up(
        &mut self,
        walk: Snapshot,
        qos: Qos,
        id: Option<SubscriptionId>,
        (deltas, last): (Option<Anew>, Option<Last>),
    ) {
        self.snapshots.push_back(Catchup { deltas, ..Catchup::new(walk, qos, id, last) });
    }

    /// Whether last values wait to be sent.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// Queues last values as far as the client keeps up. Returns the filters of subscriptions that have got all of theirs.
    pub fn send_snapshots(&mut self, key: usize, source: &mut Source<'_>, series: &Series) -> Vec<Filter> {
        let mut done = Vec::new();
        while let Some(catchup) = self.snapshots.front_mut() {
            let (octets, (pending, in_flight)) = self.session.look(|wire| (wire.waiting_octets(), wire.mqtt.backlog()));
            let is_corked = self.session.look(Wire::is_corked);
            if is_corked || octets > RESUME_OCTETS || pending + in_flight > RESUME_MESSAGES {
                return done;
            }
            if catchup.deltas.is_some() {
                self.begin_anew(key, source);
                continue;
            }
            let badge = self.badge.as_deref();
            let deliveries = match catchup.last {
                Some(last) => catchup.events(last, source, series, badge),
                None => catchup.values(source, badge),
            };
            if catchup.walk.is_done() && catchup.within.is_none() {
                done.extend(self.snapshots.pop_front().map(|catchup| catchup.filter().clone()));
            }
            self.session.send(|wire, _| {
                for delivery in deliveries {
                    // A chunk is smaller than the queue, which was less than half full. A client takes a QoS 2 message
                    // that was lost for the next of the same identifier.
                    let _ = match delivery.qos {
                        Qos::ExactlyOnce => wire.mqtt.deliver_kept(delivery, 0),
                        Qos::AtMostOnce | Qos::AtLeastOnce => wire.mqtt.deliver(delivery),
                    };
                }
            });
        }
        // Most subscriptions are made at once, and then no more.
        self.snapshots = VecDeque::new();
        done
    }

    /// Lets some topics of the first snapshot begin anew that come as deltas.
    fn begin_anew(&mut self, key: usize, source: &mut Source<'_>) {
        let Some(mut catchup) = self.snapshots.pop_front() else { return };
        let topics: Vec<_> = source.tree.next(&mut catchup.walk, CHUNK).iter().map(|view| view.id).collect();
        match catchup.deltas {
            Some(Anew::Sent) => {
                let sent = self.send_first(key, &topics, source);
                if let Some(view) = sent.and_then(|last| source.tree.view(last)) {
                    catchup.walk.go_back(view.topic);
                }
            }
            Some(Anew::Later) | None => {
                let follower = self.follower.as_deref();
                topics.iter().for_each(|id| source.deltas.void(follower, *id));
            }
        }
        if !catchup.walk.is_done() {
            self.snapshots.push_front(catchup);
        }
    }

    /// Sends the first values of topics that will come as deltas, about as many as one write may hold; the last one of
    /// those where it was not the last of all.
    fn send_first(&mut self, key: usize, topics: &[TopicId], source: &mut Source<'_>) -> Option<TopicId> {
        let Self { session, flow, badge, follower, snapshots, .. } = self;
        let mut whom = Whom { key, badge: badge.as_deref(), follower: follower.as_deref_mut(), behind: snapshots };
        let mut out = Vec::new();
        let full = session.look(|wire| {
            topics.iter().copied().find(|topic| {
                if let Some(flow) = flow {
                    flow.arrears.forget(*topic);
                }
                whom.emit_value(*topic, true, wire, source, &mut out);
                out.len() >= RESUME_OCTETS
            })
        });
        session.send(|wire, _| wire.push_shared(out.into()));
        full.filter(|last| topics.last() != Some(last))
    }

    /// QoS 0 messages dropped because the queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let kept = self.flow.as_ref().map_or(0, |flow| flow.dropped);
        kept + self.session.look(|wire| wire.shared_dropped() + wire.mqtt.counters().dropped_full)
    }

    /// Values that were never sent because a newer one came first.
    #[must_use]
    pub fn conflated(&self) -> u64 {
        self.flow.as_ref().map_or(0, |flow| flow.arrears.conflated())
    }

    /// Topics and messages that wait for the client.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let (pending, in_flight) = self.session.look(|wire| wire.mqtt.backlog());
        pending + in_flight + self.flow.as_ref().map_or(0, |flow| flow.waiting())
    }

    /// Octets of messages that are kept one by one until its socket takes them.
    #[must_use]
    pub fn log_octets(&self) -> usize {
        self.flow.as_ref().map_or(0, |flow| flow.log_octets())
    }

    /// Counts what the client sent and did not get, before it goes.
    pub(super) fn count_into(&self, counters: &mut BusCounters) {
        counters.dropped += self.dropped();
        counters.conflated += self.conflated();
        counters.packets_in += self.session.look(|wire| wire.mqtt.counters().packets_in);
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

    /// Ends the session with a reason that 5.0 clients are told.
    pub fn disconnect(&self, reason: ReasonCode, text: &str) {
        self.session.send(|wire, _| wire.mqtt.disconnect(reason, text));
    }
}

impl Bus {
    /// The last values that a client's new subscription selects are due; events besides, where it asks for some.
    pub fn catch_up(
        &mut self,
        key: usize,
        walk: Snapshot,
        qos: Qos,
        id: Option<SubscriptionId>,
        (deltas, last): (Option<Anew>, Option<Last>),
    ) {
        if let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key) {
            if let (Some(Anew::Later), Some(topic)) = (deltas, walk.topic()) {
                if let Some(topic) = self.tree.find(topic) {
                    self.deltas.void(client.follower.as_deref(), topic);
                }
                return;
            }
            client.catch_up(walk, qos, id, (deltas, last));
            if !std::mem::replace(&mut client.listed, true) {
                self.behind.push_back(key);
            }
        }
    }
}

impl Catchup {
    /// From the first on.
    pub(super) fn new(walk: Snapshot, qos: Qos, id: Option<SubscriptionId>, last: Option<Last>) -> Self {
        Self { walk, qos, ids: id.into_iter().collect(), deltas: None, last, within: None }
    }

    /// The subscription's filter.
    pub(super) const fn filter(&self) -> &Filter {
        self.walk.filter()
    }

    /// Whether the topic is to begin anew.
    pub(super) fn renews(&self, topic: &Topic) -> bool {
        self.deltas.is_some() && self.walk.awaits(topic)
    }

    /// The next last values.
    fn values(&mut self, source: &mut Source<'_>, badge: Option<&Badge>) -> Vec<Delivery> {
        let (now, retained) = (source.now, source.retained);
        let views = source.tree.next(&mut self.walk, CHUNK);
        let may = views.iter().filter(|view| badge.is_none_or(|badge| badge.may_read(view.topic)));
        may.map(|view| self.delivery(view, retained, now)).collect()
    }

    /// The next events of topics that keep some, oldest first, and the next last values of others.
    fn events(&mut self, last: Last, source: &mut Source<'_>, series: &Series, badge: Option<&Badge>) -> Vec<Delivery> {
        let (now, retained) = (source.now, source.retained);
        let mut deliveries = Vec::new();
        while deliveries.len() < CHUNK {
            let (id, seq) = match self.within.take() {
                Some(within) => within,
                None => {
                    let Some(view) = source.tree.next(&mut self.walk, 1).pop() else { break };
                    if badge.is_some_and(|badge| !badge.may_read(view.topic)) {
                        continue;
                    }
                    let Some(seq) = series.before_last(view.id, last) else {
                        deliveries.push(self.delivery(&view, retained, now));
                        continue;
                    };
                    (view.id, seq)
                }
            };
            // Its value may have gone, and its events with it.
            let Some(view) = source.tree.view(id) else { continue };
            let room = CHUNK - deliveries.len();
            let mut sent = seq;
            for event in series.behind(id, seq).take(room) {
                sent = event.seq;
                deliveries.push(self.event(&view, event, retained, now));
            }
            self.within = series.behind(id, sent).next().map(|_| (id, sent));
        }
        deliveries
    }

    /// An event, with its number and its time.
    fn event(&self, view: &View<'_>, event: &Event, retained: &Retained, now: Now) -> Delivery {
        let (topic, payload) = (view.topic.clone(), payload_of(&event.body));
        let text = |text: &str| Text::truncated(text);
        let seq = Property::UserProperty((text(SEQ), text(&event.seq.to_string())));
        let time = Property::UserProperty((text(TIME), text(&event.time.to_string())));
        let message = Message { topic, payload, properties: [seq, time].into_iter().collect(), received: now.mono };
        let qos = lower(retained.manner(view, now.mono).qos, self.qos.bits());
        Delivery { message: Arc::new(message), qos, retain: true, subscription_ids: self.ids.clone() }
    }

    fn delivery(&self, view: &View<'_>, retained: &Retained, now: Now) -> Delivery {
        let (topic, payload) = (view.topic.clone(), payload_of(view.body));
        let Manner { qos, properties, received } = retained.manner(view, now.mono);
        let message = Message { topic, payload, properties, received };
        // [MQTT-3.8.4-8]: the lower of how it was published and how it is subscribed.
        let (qos, subscription_ids) = (lower(qos, self.qos.bits()), self.ids.clone());
        Delivery { message: Arc::new(message), qos, retain: true, subscription_ids }
    }
}
