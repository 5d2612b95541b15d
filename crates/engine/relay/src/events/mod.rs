//! Messages that programs publish at one site and programs at other sites receive, as bytes on a link.
//!
//! ```text
//!  batch     +---------+------+-------+-----+----+-------+----------+-------+
//!            | version | kind | class | run | to | count | events … | check |
//!            | 1 byte  | 1    | 1     | 8   | 8  | 2     | …        | 4     |
//!            +---------+------+-------+-----+----+-------+----------+-------+
//!  event     +-------+-----+--------+--------+--------+-------+------------+---------+
//!            | flags | run | number | source | topic  | props | payload    |
//!            | 1     | 8   | 8      | 2 + …  | 2 + …  | 2 + … | 4 + …      |
//!            +-------+-----+--------+--------+--------+-------+------------+---------+
//!  interest  +---------+------+-----+---------+-------+-----------------+-------+
//!            | version | kind | run | session | count | filters, 2 + …  | check |
//!            | 1       | 1    | 8   | 8       | 2     | …               | 4     |
//!            +---------+------+-----+---------+-------+-----------------+-------+
//!  answer    +---------+------+-----+-------+
//!            | version | kind | run | check |
//!            | 1       | 1    | 8   | 4     |
//!            +---------+------+-----+-------+
//! ```
//!
//! An event is named by its source site, the `run` of the source and, in each class, a `number` that only grows. It keeps that name over
//! all hops: an [`EventInbox`] takes each at most once, and no event can travel in a circle unseen. `to` is the run of the receiver that
//! the sender knows: another process takes nothing, so that the sender learns that what it has sent may be lost. On the first hop the
//! source is empty: the subject names it.
//!
//! | bits of `flags` | meaning |
//! |---|---|
//! | 0, 1 | QoS with which it was published |
//! | 2 | it is the last value of its topic |
//! | 3 | it is a last value from before: `number` is that of the last event before it |
//!
//! Numbers have their low byte first; `check` is the CRC-32 of all bytes before it.

mod inbox;
mod outbox;
#[cfg(test)]
mod tests;

pub use inbox::{EventInbox, InboxStats};
pub use outbox::{EventOutbox, OutboxLimits, OutboxStats};

use crate::BatchError;
use crate::frame::{checked, covered};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use tieline_core::{Cursor, Filter, Topic};

const VERSION: u8 = 1;
const KIND_BATCH: u8 = 1;
const KIND_INTEREST: u8 = 2;
/// A message is at most so long: less than what a server of the fabric takes.
pub const EVENTS_BYTES_MAX: usize = 900_000;
/// The longest event: a batch takes each.
pub const EVENT_BYTES_MAX: usize = 800_000;
/// Filters of an interest.
pub const FILTERS_MAX: usize = 256;
/// What an event takes besides its texts.
const EVENT_OVERHEAD: usize = 27;
const RETAIN: u8 = 4;
const STATE: u8 = 8;

/// How urgent an event is. Each class has numbers and batches of its own, so that none waits for a less urgent one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventClass {
    /// Trips and commands.
    Protection,
    /// Reports of states and measurements.
    #[default]
    Monitoring,
    /// Samples and files.
    Bulk,
}

impl EventClass {
    /// All, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Protection, Self::Monitoring, Self::Bulk];

    /// Its place in [`EventClass::ALL`].
    #[must_use]
    pub const fn place(self) -> usize {
        match self {
            Self::Protection => 0,
            Self::Monitoring => 1,
            Self::Bulk => 2,
        }
    }

    fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// A message of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The site that published it; empty on the first hop.
    pub source: Arc<str>,
    /// The run of the source.
    pub run: u64,
    /// Its number in its class.
    pub number: u64,
    /// How urgent it is.
    pub class: EventClass,
    /// The QoS with which it was published: 0 to 2.
    pub qos: u8,
    /// Whether it is the last value of its topic.
    pub retain: bool,
    /// Whether it is a last value from before.
    pub is_state: bool,
    /// The topic at the source.
    pub topic: Topic,
    /// The properties of the message, as MQTT 5.0 has them on the wire.
    pub properties: Bytes,
    /// The payload.
    pub payload: Bytes,
}

impl Event {
    /// Bytes that it takes in a batch.
    #[must_use]
    pub fn bytes(&self) -> usize {
        EVENT_OVERHEAD + self.source.len() + self.topic.len() + self.properties.len() + self.payload.len()
    }

    /// Whether it can be in a batch at all.
    #[must_use]
    pub fn fits(&self) -> bool {
        let short = |length: usize| u16::try_from(length).is_ok();
        self.bytes() <= EVENT_BYTES_MAX
            && short(self.source.len())
            && short(self.topic.len())
            && short(self.properties.len())
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let flags = (self.qos & 3) | if self.retain { RETAIN } else { 0 } | if self.is_state { STATE } else { 0 };
        out.push(flags);
        out.extend(self.run.to_le_bytes());
        out.extend(self.number.to_le_bytes());
        for text in [self.source.as_bytes(), self.topic.as_bytes(), &self.properties] {
            // What does not fit is not queued.
            out.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
            out.extend(text);
        }
        out.extend(u32::try_from(self.payload.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend(&self.payload);
    }

    fn parse(cursor: &mut Cursor<'_>, class: EventClass) -> Result<Self, BatchError> {
        let flags = cursor.u8()?;
        let (run, number) = (cursor.u64_le()?, cursor.u64_le()?);
        let source = text(short(cursor)?)?.into();
        let topic = Topic::new(&text(short(cursor)?)?).map_err(|_| BatchError::Illegal("topic"))?;
        let properties = Bytes::copy_from_slice(short(cursor)?);
        let length = usize::try_from(cursor.u32_le()?).map_err(|_| BatchError::Illegal("length"))?;
        let payload = Bytes::copy_from_slice(cursor.take(length)?);
        let (qos, retain, is_state) = (flags & 3, flags & RETAIN != 0, flags & STATE != 0);
        if qos > 2 || flags > 15 {
            return Err(BatchError::Illegal("flags of an event"));
        }
        Ok(Self { source, run, number, class, qos, retain, is_state, topic, properties, payload })
    }
}

/// Events of one class on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBatch {
    /// The run of the sender.
    pub run: u64,
    /// The run of the receiver, as the sender knows it; 0: it knows none.
    pub to: u64,
    /// How urgent they are.
    pub class: EventClass,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// What a node wants of the other end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    /// The run of the node.
    pub run: u64,
    /// Another number asks for last values again: some may have been missed.
    pub session: u64,
    /// Topics.
    pub filters: Vec<Filter>,
}

/// What a link carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventMessage {
    /// Events.
    Batch(EventBatch),
    /// What is wanted.
    Interest(Interest),
}

impl EventBatch {
    /// The bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.events.iter().map(Event::bytes).sum::<usize>());
        out.extend([VERSION, KIND_BATCH, u8::try_from(self.class.place()).unwrap_or_default()]);
        out.extend(self.run.to_le_bytes());
        out.extend(self.to.to_le_bytes());
        out.extend(u16::try_from(self.events.len()).unwrap_or(u16::MAX).to_le_bytes());
        self.events.iter().for_each(|event| event.emit(&mut out));
        checked(out)
    }
}

impl Interest {
    /// The bytes; beyond [`FILTERS_MAX`] filters are left out.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.extend([VERSION, KIND_INTEREST]);
        out.extend(self.run.to_le_bytes());
        out.extend(self.session.to_le_bytes());
        let filters = self.filters.get(..FILTERS_MAX).unwrap_or(&self.filters);
        out.extend(u16::try_from(filters.len()).unwrap_or(u16::MAX).to_le_bytes());
        for filter in filters {
            out.extend(u16::try_from(filter.len()).unwrap_or(u16::MAX).to_le_bytes());
            out.extend(filter.as_bytes());
        }
        checked(out)
    }
}

impl EventMessage {
    /// Reads a message.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let mut cursor = Cursor::new(covered(bytes, VERSION, EVENTS_BYTES_MAX)?);
        match cursor.u8()? {
            KIND_BATCH => {
                let class = EventClass::of_number(cursor.u8()?).ok_or(BatchError::Illegal("class"))?;
                let (run, to) = (cursor.u64_le()?, cursor.u64_le()?);
                let count = cursor.u16_le()?;
                let events =
                    (0..count).map(|_| Event::parse(&mut cursor, class)).collect::<Result<Vec<_>, BatchError>>()?;
                ended(&cursor)?;
                Ok(Self::Batch(EventBatch { run, to, class, events }))
            }
            KIND_INTEREST => {
                let (run, session) = (cursor.u64_le()?, cursor.u64_le()?);
                let count = usize::from(cursor.u16_le()?);
                if count > FILTERS_MAX {
                    return Err(BatchError::Illegal("number of filters"));
                }
                let filter = |cursor: &mut Cursor<'_>| {
                    Filter::new(&text(short(cursor)?)?).map_err(|_| BatchError::Illegal("filter"))
                };
                let filters = (0..count).map(|_| filter(&mut cursor)).collect::<Result<Vec<_>, BatchError>>()?;
                ended(&cursor)?;
                Ok(Self::Interest(Interest { run, session, filters }))
            }
            _ => Err(BatchError::Illegal("kind of message")),
        }
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    /// It was taken.
    Taken,
    /// It was meant for another run: nothing was taken.
    OtherRun,
    /// Nothing was taken; it is to be sent again.
    Later,
    /// It cannot be read, or is not allowed: nothing was taken.
    Refused,
}

/// The answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventAnswer {
    /// What became of it.
    pub outcome: EventOutcome,
    /// The run that answers.
    pub run: u64,
}

impl EventAnswer {
    const KINDS: [EventOutcome; 4] =
        [EventOutcome::Taken, EventOutcome::OtherRun, EventOutcome::Later, EventOutcome::Refused];

    /// The bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let kind = match self.outcome {
            EventOutcome::Taken => 0,
            EventOutcome::OtherRun => 1,
            EventOutcome::Later => 2,
            EventOutcome::Refused => 3,
        };
        let mut out = Vec::from([VERSION, kind]);
        out.extend(self.run.to_le_bytes());
        checked(out)
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let mut cursor = Cursor::new(covered(bytes, VERSION, EVENTS_BYTES_MAX)?);
        let outcome = Self::KINDS.get(usize::from(cursor.u8()?)).copied();
        let answer = Self { outcome: outcome.ok_or(BatchError::Illegal("kind of answer"))?, run: cursor.u64_le()? };
        ended(&cursor)?;
        Ok(answer)
    }
}

fn short<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], BatchError> {
    let length = usize::from(cursor.u16_le()?);
    Ok(cursor.take(length)?)
}

fn text(bytes: &[u8]) -> Result<String, BatchError> {
    core::str::from_utf8(bytes).map(ToString::to_string).map_err(|_| BatchError::Illegal("text"))
}

const fn ended(cursor: &Cursor<'_>) -> Result<(), BatchError> {
    if cursor.is_empty() { Ok(()) } else { Err(BatchError::Illegal("bytes behind the end")) }
}
