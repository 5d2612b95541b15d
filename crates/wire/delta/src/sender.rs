//! A publisher's side of a connection: which values go as what changed, and which are to be sent again, whole.

use crate::bounded::Bounded;
use crate::stream::VALUE_BYTES_MIN;
use crate::{CodecSet, Codecs, Revision, Stream};
use alloc::boxed::Box;
use alloc::string::String;
use bytes::Bytes;
use tieline_core::{Body, Topic};

/// After `n` refusals that follow one another closely, `2^(n-1) - 1` values of the topic go plain; n is at most this.
const PAUSE_MAX: u8 = 7;
/// Values of a topic between two refusals that do not follow one another closely.
const CALM: u32 = 256;

/// What a sender holds at most.
#[derive(Clone, Copy, Debug)]
pub struct SenderLimits {
    /// Topics whose last value is held; one more, and the one that came first is forgotten.
    pub topics_max: usize,
    /// Bytes of all values held, with their topics and bookkeeping; the same way.
    pub bytes_max: usize,
}

impl Default for SenderLimits {
    fn default() -> Self {
        Self { topics_max: 65_536, bytes_max: 16 << 20 }
    }
}

/// How a value goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saying {
    /// The payload of PUBLISH.
    pub payload: Bytes,
    /// Whether PUBLISH is to have the user property [`crate::PROPERTY`] = [`crate::MARK`].
    pub is_marked: bool,
    /// What [`Sender::handle_refused`] takes. No two are the same.
    pub number: u64,
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Values that went whole, plain ones among them.
    pub values: u64,
    /// Values that went as what changed.
    pub deltas: u64,
    /// Messages that the server refused.
    pub refused: u64,
}

/// One connection's sender. `T` is what the owner needs to know to publish a topic's value once more.
#[derive(Debug)]
pub struct Sender<T> {
    codecs: Codecs,
    accepts: CodecSet,
    topics: Bounded<Said<T>>,
    next_number: u64,
    stats: SenderStats,
}

#[derive(Debug)]
struct Said<T> {
    /// What the server holds of this connection, if anything.
    stream: Option<Box<Stream>>,
    /// The number of the whole value that the stream began with.
    began: u64,
    revision: Revision,
    value: Body,
    how: T,
    number: u64,
    /// Values that are to go plain.
    pause: u8,
    /// Refusals that followed one another closely.
    refusals: u8,
    /// Values since the last refusal.
    calm: u32,
}

impl<T: Clone> Sender<T> {
    /// A sender that has agreed on nothing: all goes plain.
    #[must_use]
    pub fn new(codecs: Codecs, limits: SenderLimits) -> Self {
        let topics = Bounded::new(limits.topics_max, limits.bytes_max);
        Self { codecs, accepts: CodecSet::NONE, topics, next_number: 0, stats: SenderStats::default() }
    }

    /// The value of the user property for CONNECT.
    #[must_use]
    pub fn offer(&self) -> Option<String> {
        self.codecs.offer(self.codecs.set())
    }

    /// Takes a CONNACK with this user property or without: what will be used.
    pub fn handle_connack(&mut self, property: Option<&str>) -> CodecSet {
        self.handle_disconnect();
        self.accepts = property.map_or(CodecSet::NONE, |property| self.codecs.agree(property));
        self.accepts
    }

    /// The connection ended, and what the server held with it.
    pub fn handle_disconnect(&mut self) {
        self.accepts = CodecSet::NONE;
        for said in self.topics.values_mut() {
            said.stream = None;
        }
    }

    /// How a topic's next value goes out. `may_mark` where it will go over this connection, in its turn: not while the
    /// connection is away, while messages wait, or while marked ones of an older connection are not answered.
    pub fn say(&mut self, topic: &Topic, value: &Body, how: T, may_mark: bool) -> Saying {
        self.next_number += 1;
        let number = self.next_number;
        let plain = Saying { payload: value.to_payload(), is_marked: false, number };
        let held = self.topics.get_mut(topic);
        if self.accepts.is_empty() && held.is_none() {
            self.stats.values += 1;
            return plain;
        }
        let mut said = match held {
            Some(said) => {
                let stream = said.stream.take();
                Said { stream, value: value.clone(), how, number, calm: said.calm.saturating_add(1), ..*said }
            }
            None => Said {
                stream: None,
                began: 0,
                revision: Revision::default(),
                value: value.clone(),
                how,
                number,
                pause: 0,
                refusals: 0,
                calm: 0,
            },
        };
        // Requests to the server are no values.
        let may_mark = may_mark && !self.accepts.is_empty() && !topic.starts_with('$');
        let is_marked = may_mark && said.pause == 0 && is_worth_it(value);
        said.pause = said.pause.saturating_sub(1);
        let payload = if is_marked { said.next(self.accepts, &mut self.codecs) } else { plain.payload };
        let is_delta = is_marked && payload.first().is_some_and(|first| first >> 5 > 1);
        *(if is_delta { &mut self.stats.deltas } else { &mut self.stats.values }) += 1;
        self.topics.put(topic, bytes_of_held(value), said);
        Saying { payload, is_marked, number }
    }

    /// The server refused a marked message of a topic: the one with this number, or an unknown one. What to publish once
    /// more, with [`Sender::say`]: the topic's last value, unless a newer one than the one refused has gone out.
    pub fn handle_refused(&mut self, topic: &Topic, number: Option<u64>) -> Option<(Body, T)> {
        self.stats.refused += 1;
        let said = self.topics.get_mut(topic)?;
        // One from before the present whole value was about a base that is given up already.
        let is_about_base = number.is_none_or(|number| number >= said.began);
        if is_about_base && said.stream.take().is_some() {
            said.refusals = if said.calm > CALM { 1 } else { (said.refusals + 1).min(PAUSE_MAX) };
            said.pause = (1 << (said.refusals - 1)) - 1;
            said.calm = 0;
        }
        let is_last = number.is_none_or(|number| number == said.number);
        is_last.then(|| (said.value.clone(), said.how.clone()))
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> SenderStats {
        self.stats
    }

    /// Topics held.
    #[must_use]
    pub fn topics(&self) -> usize {
        self.topics.len()
    }
}

impl<T> Said<T> {
    /// The payload that leads to the value.
    fn next(&mut self, accepts: CodecSet, codecs: &mut Codecs) -> Bytes {
        self.revision = self.revision.next();
        let payload = match &mut self.stream {
            Some(stream) => {
                let base = stream.revision();
                stream.update(&self.value, accepts, codecs);
                stream.since(Some(base), accepts)
            }
            None => {
                self.began = self.number;
                self.stream.insert(Box::new(Stream::new(self.revision, &self.value))).since(None, accepts)
            }
        };
        if let Some(stream) = &mut self.stream {
            self.revision = stream.revision();
            stream.settle();
        }
        payload.to_bytes()
    }
}

/// What is shorter than a mark goes as it is; so does what clears a topic.
fn is_worth_it(value: &Body) -> bool {
    match value {
        Body::Opaque(bytes) => bytes.len() >= VALUE_BYTES_MIN,
        Body::Published(point) => point.payload().len() >= VALUE_BYTES_MIN,
        Body::Point(_) => true,
    }
}

fn bytes_of_held(value: &Body) -> usize {
    match value {
        Body::Opaque(bytes) => bytes.len(),
        Body::Published(point) => point.payload().len(),
        Body::Point(_) => size_of::<tieline_core::Point>(),
    }
}
