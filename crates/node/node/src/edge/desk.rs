//! What the session at the upstream says, and what it is told.

use super::chain::{Chain, NODES_TOPIC};
use super::inbox::Inbox;
use super::received::{is_marked, publish_of, read, resync};
use super::{ANSWER_TOPIC, RELEASE_TOPIC};
use super::{EdgeCounters, EdgeInput, EdgeLink, EdgeNews, LinkState};
use crate::config::TopicPrefix;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Body, Filter, Now, Topic};
use tieline_delta::{
    CAUGHT_UP, CAUGHT_UP_TOPIC, Codecs, Event, MARK, PROPERTY, ReadyDelta, Receiver, ReceiverLimits, VERSION,
};
use tieline_mqtt::{
    ClientEnd, ClientEvent, ClientSession, Message, PacketId, Properties, Property, PublishOutcome, Qos, ReasonCode,
    Received, RetainHandling, SubscriptionOptions, Text,
};
use tieline_net::{Closed, Owner, Session};

/// The session at the upstream.
pub type Upward = Session<ClientSession>;

/// Filters of one SUBSCRIBE.
const FILTERS_MAX: usize = 256;
/// What is told of a client's message that cannot go upward.
const AWAY: &str = "the upstream is away";
const CIRCLE: &str = "the upstream has its values from this node: see tieline status";
const MAYBE: &str = "the connection to the upstream was lost before it answered: it may have the message";

/// Topics whose values were removed without a message, and what says that some were not told.
const REMOVED: &str = "$topics/removed/";
const ALL_AGAIN_TOPIC: &str = "$topics/anew";

/// What stands between the session and the bus.
pub struct Desk {
    inbox: Rc<RefCell<Inbox>>,
    counters: Arc<EdgeCounters>,
    codecs: Codecs,
    receiver: Receiver,
    /// What it is called here.
    name: String,
    /// What its topics begin with here: the bus knows no others.
    prefix: TopicPrefix,
    /// The topics that are the upstream's, by their names there.
    topics: Vec<Filter>,
    /// What is wanted, by the names there.
    filters: BTreeSet<Filter>,
    chain: Chain,
    /// SUBSCRIBE under way.
    asked: HashMap<PacketId, Vec<Filter>>,
    /// Filters that the upstream has refused.
    refused: BTreeSet<Filter>,
    /// Messages on their way up, by what `publish` gave.
    tickets: HashMap<u64, u64>,
    /// The upstream that is tried, or that is connected.
    upstream: String,
    /// Whether the session was let in.
    is_connected: bool,
    /// Connections that were let in: the number of the present one.
    connection: u64,
    /// Times that all last values were asked for.
    asked_all: u64,
    /// Why the connection has ended, or did not come about.
    why: String,
}

impl Desk {
    /// Nothing is wanted of the topics that are the upstream's.
    #[must_use]
    pub fn new(inbox: &Rc<RefCell<Inbox>>, counters: Arc<EdgeCounters>, link: &EdgeLink, chain: Chain) -> Self {
        inbox.borrow_mut().push(EdgeNews::Nodes(chain.taken()));
        let EdgeLink { upstream: config, .. } = link;
        let (prefix, topics) = (config.prefix.clone(), config.topics.clone());
        Self {
            inbox: Rc::clone(inbox),
            counters,
            codecs: Codecs::built_in(),
            receiver: receiver(),
            name: config.name.clone(),
            prefix,
            topics,
            filters: BTreeSet::new(),
            chain,
            asked: HashMap::new(),
            refused: BTreeSet::new(),
            tickets: HashMap::new(),
            upstream: String::new(),
            is_connected: false,
            connection: 0,
            asked_all: 0,
            why: String::new(),
        }
    }

    /// Takes what the bus wants.
    pub fn take(&mut self, session: &Upward, inputs: impl Iterator<Item = EdgeInput>) {
        let mut fresh = Vec::new();
        for input in inputs {
            match input {
                EdgeInput::Begin(filter) => {
                    // System topics of the upstream are no topics here, wherever a filter with wildcards begins.
                    let Some(filter) = self.prefix.filter_there(&filter) else { continue };
                    if self.filters.insert(filter.clone()) {
                        fresh.push(filter);
                    }
                }
                EdgeInput::End(filter) => {
                    self.ask(session, &std::mem::take(&mut fresh));
                    if let Some(filter) = self.prefix.filter_there(&filter) {
                        self.end(session, &filter);
                    }
                }
                EdgeInput::Publish { ticket, message, qos, retain, connection } => {
                    self.ask(session, &std::mem::take(&mut fresh));
                    self.publish(session, (ticket, connection), *message, (qos, retain));
                }
            }
        }
        self.ask(session, &fresh);
    }

    /// An upstream is tried.
    pub fn tries(&mut self, upstream: String) {
        self.upstream = upstream;
        self.why = String::new();
    }

    /// Nothing came of the connection that was tried or was there; whether it was there.
    pub fn away(&mut self, why: &str) -> bool {
        let why = if self.why.is_empty() { why.to_owned() } else { std::mem::take(&mut self.why) };
        tracing::warn!(name = self.name, upstream = self.upstream, why, "the upstream is away");
        if self.chain.clear() {
            self.tell(EdgeNews::Nodes(self.chain.taken()));
        }
        self.tell(EdgeNews::Link(LinkState::Away { upstream: self.upstream.clone(), why }));
        std::mem::take(&mut self.is_connected)
    }

    /// Whether topics of the upstream are taken, and messages go there.
    fn is_up(&self) -> bool {
        self.is_connected && self.chain.circle().is_none()
    }

    fn tell(&self, news: EdgeNews) {
        self.inbox.borrow_mut().push(news);
    }

    fn tell_refused(&self, filter: &Filter, why: Option<String>) {
        if let Some(filter) = self.prefix.filter_here(filter) {
            self.tell(EdgeNews::Refused(filter, why));
        }
    }

    fn ask(&mut self, session: &Upward, filters: &[Filter]) {
        // Without a connection, all are asked for by the next one.
        if self.is_up() {
            self.subscribe(session, filters, None);
        }
    }

    /// Asks for all that is wanted, and to be told when all last values have been sent.
    fn subscribe_all(&mut self, session: &Upward) {
        self.asked_all += 1;
        let (all, word): (Vec<Filter>, _) = (self.filters.iter().cloned().collect(), self.asked_all.to_string());
        self.subscribe(session, &all, Some(&word));
    }

    /// Asks for what the upstream says of itself: which nodes are above it, and which values it removes without a message. What it
    /// does not let this node have, it does without.
    fn subscribe_aside(&self, session: &Upward) {
        let removed = self.topics.iter().map(|filter| format!("{REMOVED}{filter}"));
        let removed = removed.filter_map(|filter| Some((Filter::new(&filter).ok()?, RetainHandling::Never)));
        let nodes = Filter::new(NODES_TOPIC).ok().map(|filter| (filter, RetainHandling::Always));
        let wanted: Vec<_> = nodes
            .into_iter()
            .chain(removed)
            .map(|(filter, retain_handling)| (filter, SubscriptionOptions { retain_handling, ..Default::default() }))
            .collect();
        for wanted in wanted.chunks(FILTERS_MAX) {
            let _ = session.with(|m, _| m.subscribe(wanted, None));
        }
    }

    /// Asks for filters, and with a word to be told it when all last values have been sent.
    fn subscribe(&mut self, session: &Upward, filters: &[Filter], word: Option<&str>) {
        let offer = self.codecs.offer(self.codecs.set()).unwrap_or_default();
        let pair = |name: &str, value: &str| Property::UserProperty((Text::truncated(name), Text::truncated(value)));
        let properties: Properties = [pair(PROPERTY, &offer), pair(VERSION, MARK)].into_iter().collect();
        let options = SubscriptionOptions { qos: Qos::AtMostOnce, retain_as_published: true, ..Default::default() };
        let mut chunks = filters.chunks(FILTERS_MAX).peekable();
        while let Some(filters) = chunks.next() {
            let word = word.filter(|_| chunks.peek().is_none());
            let properties = word.map_or_else(|| properties.clone(), |word| properties.with(&pair(CAUGHT_UP, word)));
            let wanted: Vec<_> = filters.iter().map(|filter| (filter.clone(), options)).collect();
            if let Ok(packet_id) = session.with(|m, _| m.subscribe_with(&wanted, properties)) {
                self.asked.insert(packet_id, filters.to_vec());
            }
        }
    }

    /// What the receiver holds of topics that nobody wants any more stays until the connection ends: it is bounded there.
    fn end(&mut self, session: &Upward, filter: &Filter) {
        self.filters.remove(filter);
        if self.refused.remove(filter) {
            self.tell_refused(filter, None);
        }
        if self.is_up() {
            let _ = session.with(|m, _| m.unsubscribe(core::slice::from_ref(filter)));
        }
    }

    fn publish(
        &mut self,
        session: &Upward,
        (ticket, connection): (u64, u64),
        message: Message,
        (qos, retain): (Qos, bool),
    ) {
        // Locks are given back in a circle, too: nobody else gets them before.
        let goes = self.is_up() || (self.is_connected && *message.topic == *RELEASE_TOPIC);
        let token = match goes && connection == self.connection && session.look(|m| m.is_open()) {
            true => session.with(|m, _| m.publish(message, qos, retain)).ok(),
            false => None,
        };
        let why = if self.chain.circle().is_some() { CIRCLE } else { AWAY };
        match token {
            Some(token) => drop(self.tickets.insert(token, ticket)),
            None => self.answer(ticket, Some((ReasonCode::ImplementationSpecificError, why.to_owned()))),
        }
    }

    fn answer(&self, ticket: u64, refused: Option<(ReasonCode, String)>) {
        self.tell(EdgeNews::Answer { ticket, refused });
    }

    fn connected(&mut self, session: &Upward) {
        self.is_connected = true;
        self.connection += 1;
        self.tell(EdgeNews::Connected(self.connection));
        EdgeCounters::add(&self.counters.connected, 1);
        tracing::info!(
            name = self.name,
            upstream = self.upstream,
            filters = self.filters.len(),
            "the upstream is there"
        );
        self.tell(EdgeNews::Link(LinkState::Up { upstream: self.upstream.clone() }));
        self.subscribe_aside(session);
        self.subscribe_all(session);
    }

    /// The upstream has said which nodes are above it.
    fn chained(&mut self, session: &Upward, payload: &[u8]) {
        let was_up = self.is_up();
        if !self.chain.set_above(payload) {
            return;
        }
        self.tell(EdgeNews::Nodes(self.chain.taken()));
        let upstream = self.upstream.clone();
        match self.chain.circle() {
            Some(nodes) => {
                tracing::error!(
                    upstream,
                    ?nodes,
                    "the upstreams form a circle: this node takes nothing of its upstream"
                );
                self.tell(EdgeNews::Link(LinkState::Circle { upstream, nodes }));
                if was_up && !self.filters.is_empty() {
                    let all: Vec<Filter> = self.filters.iter().cloned().collect();
                    let _ = session.with(|m, _| m.unsubscribe(&all));
                }
            }
            None if was_up => {}
            None => {
                tracing::info!(upstream, "the upstreams form no circle any more");
                self.tell(EdgeNews::Link(LinkState::Up { upstream }));
                self.subscribe_all(session);
            }
        }
    }

    /// What the upstream says of itself, and no value; false where it is none of that.
    fn is_aside(&mut self, session: &Upward, Message { topic, payload, properties, .. }: &Message) -> bool {
        if **topic == *CAUGHT_UP_TOPIC {
            if *payload == self.asked_all.to_string() {
                self.tell(EdgeNews::CaughtUp);
            }
        } else if **topic == *ANSWER_TOPIC {
            let request = properties.correlation_data().and_then(|data| <[u8; 8]>::try_from(&data[..]).ok());
            if let Some(request) = request.map(u64::from_be_bytes) {
                self.tell(EdgeNews::Reply { request, payload: payload.clone() });
            }
        } else if **topic == *NODES_TOPIC {
            self.chained(session, payload);
        } else if **topic == *ALL_AGAIN_TOPIC {
            self.tell(EdgeNews::Again);
            self.subscribe_all(session);
        } else if let Some(removed) = topic.strip_prefix(REMOVED) {
            if let Some(topic) = Topic::new(removed).ok().and_then(|topic| self.prefix.here(&topic)) {
                self.tell(EdgeNews::Removed(topic));
            }
        } else {
            return false;
        }
        true
    }

    fn subscribed(&mut self, packet_id: PacketId, reasons: &[ReasonCode], properties: &Properties) {
        let Some(filters) = self.asked.remove(&packet_id) else { return };
        for (filter, reason) in filters.into_iter().zip(reasons) {
            if !self.filters.contains(&filter) {
                continue;
            }
            if reason.is_error() {
                let words = properties.reason_string().map_or_else(|| reason.to_string(), |words| words.to_string());
                tracing::warn!(%filter, words, "the upstream refuses a subscription");
                self.refused.insert(filter.clone());
                self.tell_refused(&filter, Some(words));
            } else if self.refused.remove(&filter) {
                self.tell_refused(&filter, None);
            }
        }
    }

    fn published(&mut self, session: &Upward, token: u64, outcome: PublishOutcome) {
        let Some(ticket) = self.tickets.remove(&token) else { return };
        let because = |reason, words: &str| Some((reason, words.to_owned()));
        let unspecific = ReasonCode::ImplementationSpecificError;
        let refused = match outcome {
            PublishOutcome::Answered(reason) if reason.is_error() => {
                let words = session.look(|m| m.refusal(token).map(str::to_owned)).unwrap_or_default();
                Some((reason, words))
            }
            PublishOutcome::Answered(_) => None,
            PublishOutcome::Unknown => because(unspecific, MAYBE),
            PublishOutcome::Unsent => because(unspecific, AWAY),
            PublishOutcome::Dropped => because(ReasonCode::QuotaExceeded, "too much waits for the upstream"),
            PublishOutcome::Expired => because(unspecific, "the message has expired on its way to the upstream"),
            PublishOutcome::TooLarge => because(unspecific, "the message is larger than the upstream takes"),
        };
        self.answer(ticket, refused);
    }

    fn message(&mut self, session: &Upward, received: Received) {
        // What was on its way when it was no longer asked for is not taken.
        if self.is_aside(session, &received.message) || !self.is_up() {
            return;
        }
        let before = self.receiver.stats();
        let is_delta = self.receiver.is_of_deltas(publish_of(&received));
        let mut events = Vec::new();
        self.receiver.handle_publish(publish_of(&received), &mut events);
        while let Some(topic) = self.receiver.poll_resync() {
            session.with(|m, now| {
                // What cannot be sent is asked for by the next connection's first value.
                let ask = resync(&topic, now);
                let _ = ask.map(|message| m.publish(message, Qos::AtMostOnce, false));
            });
        }
        let after = self.receiver.stats();
        let counts = [
            (&self.counters.values, after.values - before.values),
            (&self.counters.deltas, after.deltas - before.deltas),
            (&self.counters.lost, after.lost - before.lost),
        ];
        for (counter, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            counter.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
        }
        let mut ready = self.receiver.take_ready().map(Box::new);
        for event in events {
            // A value that was lost was asked for; the one before stays until it comes.
            if let Event::Value { topic, body } = event {
                self.value(&received, topic, body, (is_delta, ready.take()));
            }
        }
        self.inbox.borrow_mut().hold(session);
    }

    /// Tells of a value or a message. Payloads are read here, and not on the bus.
    fn value(&self, received: &Received, topic: Topic, body: Body, (is_delta, ready): (bool, Option<Box<ReadyDelta>>)) {
        // A name that is too long with the prefix is no topic here.
        let Some(topic) = self.prefix.here(&topic) else { return };
        // What comes as a delta is a last value, and so is what has RETAIN as it was published.
        let retain = is_delta || received.retain;
        let (properties, version) =
            (received.message.properties.without_user_property(PROPERTY), self.receiver.version());
        // What stands in other messages is their publisher's.
        let is_told = is_marked(received);
        let properties = if is_told { properties.without_user_property(VERSION) } else { properties };
        let properties = self.properties_here(properties);
        let body = match body {
            Body::Opaque(bytes) => read(bytes, is_delta),
            body => body,
        };
        if retain && properties.is_empty() {
            return self.tell(EdgeNews::Value { topic, body, ready, version });
        }
        if !retain {
            EdgeCounters::add(&self.counters.messages, 1);
        }
        let received = received.message.received;
        let message = Box::new(Message { topic, payload: body.to_payload(), properties, received });
        self.tell(EdgeNews::Message { message, body, retain, version });
    }

    /// An answer to a message goes to the topic that the upstream's topic is here.
    fn properties_here(&self, properties: Properties) -> Properties {
        if self.prefix.is_empty() {
            return properties;
        }
        let Some(to) = properties.response_topic().and_then(|to| Topic::new(&to).ok()) else { return properties };
        let is_selected = self.topics.iter().any(|filter| filter.matches(&to));
        match self.prefix.here(&to).filter(|_| is_selected) {
            Some(here) => with_response_topic(&properties, &here),
            None => properties,
        }
    }

    /// What both sides know of topics ends with the connection.
    fn closed(&mut self) {
        self.receiver = receiver();
        self.asked.clear();
    }
}

/// Properties with another topic for the answer.
#[must_use]
pub fn with_response_topic(properties: &Properties, to: &Topic) -> Properties {
    let other = |property| match property {
        Property::ResponseTopic(_) => Property::ResponseTopic(Text::truncated(to)),
        property => property,
    };
    properties.iter().map(other).collect()
}

fn receiver() -> Receiver {
    Receiver::new(Codecs::built_in(), ReceiverLimits::default()).passing_on()
}

/// Where the session's events arrive.
pub struct Front(pub Rc<RefCell<Desk>>);

impl Owner<ClientSession> for Front {
    fn event(&mut self, session: &Upward, _: Now, event: ClientEvent) {
        let mut desk = self.0.borrow_mut();
        match event {
            ClientEvent::Connected(_) => desk.connected(session),
            ClientEvent::Refused { reason, text } => {
                desk.why = if text.is_empty() {
                    format!("it refuses this node: {reason}")
                } else {
                    format!("it refuses this node: {reason}, {text}")
                };
            }
            ClientEvent::Message(received) => desk.message(session, received),
            ClientEvent::Published { token, outcome } => desk.published(session, token, outcome),
            ClientEvent::Subscribed { packet_id, reasons, properties } => {
                desk.subscribed(packet_id, &reasons, &properties);
            }
            ClientEvent::Unsubscribed { .. } | ClientEvent::Ended(ClientEnd::Asked) => {}
            ClientEvent::Ended(end) if desk.why.is_empty() => desk.why = end.to_string(),
            ClientEvent::Ended(_) => {}
        }
    }

    fn closed(&mut self, _: &Upward, _: Now, _: Closed) {
        self.0.borrow_mut().closed();
    }

    fn connect_failed(&mut self, _: &Upward, _: Now, _: &std::io::Error, _: Duration) {}
}
