//! A server's side of one publisher: the values that its deltas are told against.
//!
//! ```text
//! PUBLISH, marked ─▶ whole: the topic's base from here on ──▶ the value
//!                    delta: from the base held, or refused ──▶ the value
//! ```
//!
//! The base of a delta is the value that the marked message before it said, of the same topic on the same connection:
//! never the topic's present value. So what others publish meanwhile changes nothing, and nobody's delta meets another's base.

use crate::bounded::Bounded;
use crate::{Codecs, Decoded, Decoder, DeltaError, Kind, Parts};
use bytes::Bytes;
use core::fmt;
use tieline_core::{Body, Topic};

/// What an intake holds and takes at most.
#[derive(Clone, Copy, Debug)]
pub struct IntakeLimits {
    /// Topics with a base; one more, and the one that came first is forgotten.
    pub topics_max: usize,
    /// Bytes of all bases, with their topics and bookkeeping; the same way.
    pub bytes_max: usize,
    /// Bytes of one value, whole.
    pub value_bytes_max: usize,
}

/// Why a publisher's message was not taken. It is to send the topic's value whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be applied: the first one of its topic since the last value.
    Delta(DeltaError),
    /// It follows one that was refused; so many did.
    Waiting(u32),
    /// It is a delta that was sent before, over another connection, where its base was.
    Repeated,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delta(error) => error.fmt(f),
            Self::Waiting(_) => f.write_str("a whole value is waited for"),
            Self::Repeated => f.write_str("a delta of another connection, sent again"),
        }
    }
}

impl core::error::Error for Refusal {}

/// Refused messages in a row after which a publisher that is not answered is told once more.
const TOLD_EVERY: u32 = 64;

impl Refusal {
    /// Whether a publisher that gets no answers (QoS 0) is to be asked for the whole value: once, and again where it goes
    /// on as if it had not heard.
    #[must_use]
    pub const fn is_to_be_asked(self) -> bool {
        match self {
            Self::Delta(_) => true,
            Self::Waiting(count) => count.is_multiple_of(TOLD_EVERY),
            Self::Repeated => false,
        }
    }
}

/// One connection's intake of what changed.
#[derive(Debug)]
pub struct Intake {
    topics: Bounded<Held>,
    value_bytes_max: usize,
}

#[derive(Debug)]
enum Held {
    Base(Decoder),
    /// The publisher has been told that there is none so many messages ago; never where that is none.
    Nothing {
        refused: Option<u32>,
    },
}

impl Intake {
    /// An intake without a base.
    #[must_use]
    pub fn new(limits: IntakeLimits) -> Self {
        let topics = Bounded::new(limits.topics_max, limits.bytes_max);
        Self { topics, value_bytes_max: limits.value_bytes_max }
    }

    /// Takes the payload of a marked message, and gives the value that it says: a point as JSON. `is_repeated` where the
    /// message says that it was sent before (DUP).
    ///
    /// # Errors
    /// It says no value. Deltas of the topic are refused from then on, until a whole value comes.
    pub fn take(
        &mut self,
        topic: &Topic,
        payload: &Bytes,
        is_repeated: bool,
        codecs: &mut Codecs,
    ) -> Result<Bytes, Refusal> {
        let is_whole = payload.first().is_none_or(|first| first >> 5 < 2);
        if is_repeated && !is_whole {
            return Err(Refusal::Repeated);
        }
        let bytes_max = self.value_bytes_max;
        let taken = match self.topics.get_mut(topic) {
            Some(Held::Base(decoder)) => apply(decoder, payload, codecs, bytes_max).map(|value| (value, None)),
            Some(Held::Nothing { refused: Some(count) }) if !is_whole => {
                *count = count.wrapping_add(1);
                return Err(Refusal::Waiting(*count));
            }
            Some(Held::Nothing { .. }) | None => {
                let mut decoder = Decoder::new(bytes_max);
                apply(&mut decoder, payload, codecs, bytes_max).map(|value| (value, Some(decoder)))
            }
        };
        match taken {
            Ok((value, fresh)) => {
                self.hold(topic, value.len(), fresh);
                Ok(value)
            }
            Err(error) => {
                self.topics.put(topic, 0, Held::Nothing { refused: Some(0) });
                Err(Refusal::Delta(error))
            }
        }
    }

    /// Holds the base of a topic, whose value has so many bytes now.
    fn hold(&mut self, topic: &Topic, bytes: usize, fresh: Option<Decoder>) {
        let held = self.topics.get_mut(topic).map(|held| core::mem::replace(held, Held::Nothing { refused: None }));
        let decoder = match (fresh, held) {
            (Some(decoder), _) | (None, Some(Held::Base(decoder))) => decoder,
            (None, Some(Held::Nothing { .. }) | None) => return,
        };
        self.topics.put(topic, bytes, Held::Base(decoder));
    }

    /// The topic has no base any more: a message of it was refused for another reason.
    pub fn forget(&mut self, topic: &Topic) {
        if matches!(self.topics.get(topic), Some(Held::Base(_))) {
            self.topics.put(topic, 0, Held::Nothing { refused: None });
        }
    }

    /// Bytes of the value that a delta of the topic is told against: what it may come to besides its own.
    #[must_use]
    pub fn base_bytes(&self, topic: &Topic) -> usize {
        self.topics.bytes_of(topic)
    }

    /// Bytes of all bases, with their topics and bookkeeping.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.topics.bytes()
    }

    /// Bases that were forgotten for want of room.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.topics.forgotten()
    }
}

fn apply(decoder: &mut Decoder, payload: &Bytes, codecs: &mut Codecs, bytes_max: usize) -> Result<Bytes, DeltaError> {
    if !payload.is_empty() && Parts::parse(payload)?.header.kind == Kind::Several {
        return Err(DeltaError::Malformed("several updates at once, which publishers do not send"));
    }
    match decoder.apply(payload, codecs)? {
        Decoded::Value(Body::Opaque(bytes)) => Ok(bytes),
        Decoded::Value(Body::Published(point)) => Ok(point.payload().clone()),
        Decoded::Value(Body::Point(point)) => {
            let text = point.to_json();
            if text.len() > bytes_max { Err(DeltaError::TooLong { bytes_max }) } else { Ok(text.into()) }
        }
        Decoded::Checked | Decoded::Waiting => Err(DeltaError::NoBase),
    }
}
