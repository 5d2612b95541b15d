//! The receiver's side of a connection: which messages are deltas, the decoders of their topics, and whose value is to be
//! asked for.

#[cfg(doc)]
use crate::VERSION;
use crate::{CodecSet, Codecs, Decoded, Decoder, DeltaError, MARK, PROPERTY, ReadyDelta};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;
use hashbrown::HashMap;
use tieline_core::{Body, Filter, Topic};

/// What a receiver holds at most.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverLimits {
    /// Topics whose last value is held. One more, and another is forgotten: its next delta is answered with a request
    /// for the whole value.
    pub topics_max: usize,
    /// Bytes of one value.
    pub value_bytes_max: usize,
}

impl Default for ReceiverLimits {
    fn default() -> Self {
        Self { topics_max: 1 << 20, value_bytes_max: 16 << 20 }
    }
}

/// What a PUBLISH was.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A value of a topic, whole.
    Value {
        /// Whose.
        topic: Topic,
        /// Bytes that came plain are opaque too.
        body: Body,
    },
    /// A topic's value is unknown until the next [`Event::Value`] of it. The whole value was asked for.
    Lost {
        /// Whose.
        topic: Topic,
        /// Why.
        error: DeltaError,
    },
}

/// A PUBLISH.
#[derive(Clone, Copy, Debug)]
pub struct Publish<'a> {
    /// Its topic, by name even where an alias stood for it.
    pub topic: &'a Topic,
    /// Its topic alias, where it has one.
    pub alias: Option<u16>,
    /// Whether it has the user property that marks it ([`is_mark`]).
    pub is_marked: bool,
    /// What it carries.
    pub payload: &'a Bytes,
    /// The version of its value, where it tells that and is marked ([`VERSION`]).
    pub version: Option<u64>,
}

/// What is known of a topic.
#[derive(Debug)]
struct Known {
    decoder: Decoder,
    /// The version of the value held.
    version: Option<u64>,
}

/// Whether a user property of a PUBLISH says that its payload is one of docs/delta.md.
#[must_use]
pub fn is_mark(name: &str, value: &str) -> bool {
    name == PROPERTY && value == MARK
}

/// Counters of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Payloads that were whole values, plain ones among them.
    pub values: u64,
    /// Values rebuilt from deltas.
    pub deltas: u64,
    /// Topics whose value was lost, and asked for.
    pub lost: u64,
    /// Deltas dropped while a whole value was waited for.
    pub waiting: u64,
    /// Topics forgotten for want of room.
    pub forgotten: u64,
}

/// One connection's receiver. The owner tells it what was agreed and what came; it says what that means, and which
/// topics to ask for ([`Receiver::poll_resync`]).
#[derive(Debug)]
pub struct Receiver {
    codecs: Codecs,
    limits: ReceiverLimits,
    /// What was asked for with deltas; what none of them selects is forgotten.
    filters: Vec<Filter>,
    topics: HashMap<Topic, Known>,
    /// Aliases that were set by a marked message.
    aliases: HashMap<u16, Topic>,
    ask: VecDeque<Topic>,
    /// What the last message was told by, where it is to be passed on.
    ready: Option<ReadyDelta>,
    /// The version of the last message's value, where it is known.
    version: Option<u64>,
    passes_on: bool,
    stats: ReceiverStats,
}

impl Receiver {
    /// A receiver without filters.
    #[must_use]
    pub fn new(codecs: Codecs, limits: ReceiverLimits) -> Self {
        let (filters, topics, aliases, ask) = Default::default();
        let (ready, version, passes_on, stats) = Default::default();
        Self { codecs, limits, filters, topics, aliases, ask, ready, version, passes_on, stats }
    }

    /// The same for one that passes deltas on: [`Receiver::take_ready`].
    #[must_use]
    pub fn passing_on(self) -> Self {
        Self { passes_on: true, ..self }
    }

    /// The delta of bytes by which the last message told its value; none where it told it in another way.
    pub const fn take_ready(&mut self) -> Option<ReadyDelta> {
        self.ready.take()
    }

    /// The version of the last message's value: told with it, or counted on from one that was. None where neither is so.
    #[must_use]
    pub const fn version(&self) -> Option<u64> {
        self.version
    }

    /// The value of the user property for SUBSCRIBE.
    #[must_use]
    pub fn offer(&self) -> Option<alloc::string::String> {
        self.codecs.offer(self.codecs.set())
    }

    /// Takes a SUBACK: the server granted `filter`, with this user property or without. What it will use.
    pub fn handle_suback(&mut self, filter: &Filter, property: Option<&str>) -> CodecSet {
        let set = property.map_or(CodecSet::NONE, |property| self.codecs.agree(property));
        self.filters.retain(|known| known != filter);
        if !set.is_empty() {
            self.filters.push(filter.clone());
        }
        self.forget_unselected();
        set
    }

    /// Takes an UNSUBACK.
    pub fn handle_unsuback(&mut self, filter: &Filter) {
        self.filters.retain(|known| known != filter);
        self.forget_unselected();
    }

    /// The connection ended: all state ends with it.
    pub fn handle_disconnect(&mut self) {
        self.filters.clear();
        self.topics.clear();
        self.aliases.clear();
        self.ask.clear();
    }

    /// Takes a PUBLISH.
    pub fn handle_publish(&mut self, publish: Publish<'_>, events: &mut Vec<Event>) {
        let Publish { topic, payload, .. } = publish;
        (self.ready, self.version) = (None, None);
        if self.is_delta(publish) {
            return self.handle_payload(publish, events);
        }
        self.stats.values += 1;
        events.push(Event::Value { topic: topic.clone(), body: Body::Opaque(payload.clone()) });
    }

    /// Whether the payload is one of docs/delta.md, and so the topic's last value. Asked before it is taken.
    #[must_use]
    pub fn is_of_deltas(&self, publish: Publish<'_>) -> bool {
        let known = publish.alias.and_then(|alias| self.aliases.get(&alias));
        publish.is_marked || known == Some(publish.topic)
    }

    /// The next topic whose name is to be published to [`crate::RESYNC_TOPIC`].
    pub fn poll_resync(&mut self) -> Option<Topic> {
        self.ask.pop_front()
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Topics held.
    #[must_use]
    pub fn topics(&self) -> usize {
        self.topics.len()
    }

    /// Whether the payload is one of docs/delta.md: the message says so, or the one that set its alias did.
    fn is_delta(&mut self, publish: Publish<'_>) -> bool {
        let Publish { topic, alias, is_marked, .. } = publish;
        let known = alias.and_then(|alias| self.aliases.get(&alias));
        if !is_marked {
            return known == Some(topic);
        }
        if let Some(alias) = alias.filter(|_| known != Some(topic)) {
            self.aliases.insert(alias, topic.clone());
        }
        true
    }

    fn handle_payload(
        &mut self,
        Publish { topic, payload, version, is_marked, .. }: Publish<'_>,
        events: &mut Vec<Event>,
    ) {
        if !self.topics.contains_key(topic) {
            self.make_room();
        }
        let fresh = || Known { decoder: Decoder::new(self.limits.value_bytes_max), version: None };
        let known = self.topics.entry(topic.clone()).or_insert_with(fresh);
        let decoder = &mut known.decoder;
        let (was_waiting, before) = (decoder.is_waiting(), decoder.revision());
        let base = if self.passes_on { decoder.bytes().cloned() } else { None };
        match decoder.apply(payload, &mut self.codecs) {
            Ok(Decoded::Value(body)) => {
                let count = if is_whole(payload) { &mut self.stats.values } else { &mut self.stats.deltas };
                *count += 1;
                self.ready = base.and_then(|base| ReadyDelta::of(payload, base));
                // What is told with a name begins a count; what has only an alias goes on with it. How many were lost is not known.
                known.version = match known.version.filter(|_| !is_marked && !was_waiting && !payload.is_empty()) {
                    Some(counted) => Some(counted.wrapping_add(decoder.revision().since(before).into())),
                    None => version,
                };
                self.version = known.version;
                events.push(Event::Value { topic: topic.clone(), body });
            }
            Ok(Decoded::Checked) => (),
            Ok(Decoded::Waiting) => self.stats.waiting += 1,
            Err(_) if was_waiting => self.stats.waiting += 1,
            Err(error) => {
                self.stats.lost += 1;
                // An owner that never asks has nothing to gain from the names.
                if self.ask.len() >= self.limits.topics_max {
                    self.ask.pop_front();
                }
                self.ask.push_back(topic.clone());
                events.push(Event::Lost { topic: topic.clone(), error });
            }
        }
    }

    fn make_room(&mut self) {
        if self.topics.len() < self.limits.topics_max.max(1) {
            return;
        }
        let oldest = self.topics.keys().next().cloned();
        if let Some(topic) = oldest {
            self.topics.remove(&topic);
            self.stats.forgotten += 1;
        }
    }

    /// Topics that no filter with deltas selects: their next message is a whole value.
    fn forget_unselected(&mut self) {
        let Self { topics, filters, .. } = self;
        topics.retain(|topic, _| filters.iter().any(|filter| filter.matches(topic)));
    }
}

fn is_whole(payload: &[u8]) -> bool {
    payload.first().is_none_or(|first| first >> 5 < 2)
}
