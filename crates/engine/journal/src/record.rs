//! The record of history: a batch of updates, small.
//!
//! ```text
//!  +---------+- - - -+-------+- - - - - -
//!  | version | note? | count | samples …
//!  +---------+- - - -+-------+- - - - - -
//!
//!  sample
//!  +-----+-----------+-----------+-------------+---------+- - - -
//!  | tag | topic?    | topic     | quality?    | time?   | value
//!  |     | number    | name?     |             |         |
//!  +-----+-----------+-----------+-------------+---------+- - - -
//! ```
//!
//! `version` is 1, or 2 where a note follows (length, then bytes): what its writer keeps together with the samples. In a core with
//! standbys the record has its place in the log before it: the byte 3, and 8 bytes, low byte first. Numbers are varints of base 128, low group first; signed ones fold their sign into the lowest bit
//! (zigzag). Times are in microseconds since 1970.
//!
//! | tag bits | meaning |
//! |---|---|
//! | 0-3 | kind: 0 null, 1 false, 2 true, 3 integer (signed varint), 4 double (8 bytes), 5 double that a single holds exactly (4 bytes), 6 text, 7 bytes, 8 opaque payload (6 to 8: length, then bytes) |
//! | 4 | a quality follows (varint of the bits); else good |
//! | 5 | a time follows: signed, added to that of the sample before (the first: to 0); else the same time |
//! | 6 | a topic number follows; else the number after that of the sample before (the first: 0) |
//! | 7 | the sample may be here already: the same topic, time, quality and value are this one |
//!
//! A batch numbers its topics from 0 as they appear. Where the number is that of no topic yet, it is the next free one
//! and the name follows: how many bytes it shares with the name numbered before it, how many are its own, those
//! bytes. An opaque payload has no quality; its time is when this node received it. A payload that is a point is recorded
//! as the point; earlier releases recorded it as an opaque payload.

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use hashbrown::{HashMap, HashSet};
use tieline_core::varint::{self, VarintError};
use tieline_core::{Body, Cursor, Point, Quality, Timestamp, Topic, TopicError, Truncated, Update, Value};

const VERSION: u8 = 1;
/// The version of a record with a note.
const NOTED: u8 = 2;
/// What stands before a record that has a place in a log.
const PLACED: u8 = 3;
const KIND: u8 = 0x0f;
const HAS_QUALITY: u8 = 0x10;
const HAS_TIME: u8 = 0x20;
const HAS_TOPIC: u8 = 0x40;
const AGAIN: u8 = 0x80;
/// The fewest bytes that a sample takes: a tag.
const SAMPLE_BYTES_MIN: usize = 1;
/// Names that a [`Decoder`] keeps, give or take those of a record; above it all are read again.
const NAMES_MAX: usize = 1 << 16;
/// Bytes of the longest of them.
const NAME_BYTES_MAX: usize = 256;

/// One update of a batch, with its time: of a point the point's own, of any other payload when it was received.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub time: Timestamp,
    /// What.
    pub update: Update,
    /// Whether it may have been recorded before: history takes it only where it has none that is equal.
    pub again: bool,
}

impl Sample {
    /// An update that this node received at a time.
    #[must_use]
    pub fn new(received: Timestamp, update: Update) -> Self {
        let time = match &update.body {
            Body::Point(point) => point.time,
            Body::Published(point) => point.time(received),
            Body::Opaque(_) => received,
        };
        Self { time, update, again: false }
    }
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// They end too early.
    Truncated,
    /// A version that this release does not know.
    Version(u8),
    /// A member that no writer makes; which.
    Illegal(&'static str),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("a record of history ends too early"),
            Self::Version(found) => {
                write!(f, "a record of history has version {found}, expected {VERSION}, {NOTED} or {PLACED}")
            }
            Self::Illegal(what) => write!(f, "a record of history has an illegal {what}"),
        }
    }
}

impl core::error::Error for RecordError {}

impl From<VarintError> for RecordError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated,
            VarintError::TooLarge => Self::Illegal("number"),
        }
    }
}

impl From<Truncated> for RecordError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

/// Appends the record of the samples to `out`. The time of a point is that of its sample.
pub fn encode(samples: &[Sample], out: &mut Vec<u8>) {
    out.push(VERSION);
    push_samples(samples, out);
}

/// The same with a note, which is on the disk when the samples are, or neither is.
pub fn encode_noted(note: &[u8], samples: &[Sample], out: &mut Vec<u8>) {
    out.push(NOTED);
    push_bytes(note, out);
    push_samples(samples, out);
}

/// Begins a record that has a place in a log: that which is encoded follows.
pub fn begin_placed(place: u64, out: &mut Vec<u8>) {
    out.push(PLACED);
    out.extend_from_slice(&place.to_le_bytes());
}

/// The place that a record has in a log; none where it has none.
#[must_use]
pub fn place_of(record: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(record);
    (cursor.u8().ok()? == PLACED).then(|| cursor.u64_le().ok())?
}

/// A record without its place.
fn without_place(record: &[u8]) -> &[u8] {
    let place = 1 + size_of::<u64>();
    if record.first() == Some(&PLACED) { record.get(place..).unwrap_or_default() } else { record }
}

/// The note of a record; none where it has none, or is no record.
#[must_use]
pub fn note_of(record: &[u8]) -> Option<&[u8]> {
    let mut cursor = Cursor::new(without_place(record));
    if cursor.u8().ok()? != NOTED {
        return None;
    }
    let len = varint::get_len(&mut cursor).ok()?;
    cursor.take(len).ok()
}

fn push_samples(samples: &[Sample], out: &mut Vec<u8>) {
    varint::put(out, samples.len() as u64);
    let mut topics: HashMap<&str, usize> = HashMap::new();
    let (mut next_topic, mut last_name, mut time) = (0, "", 0);
    for Sample { time: at, update, again } in samples {
        let at = at.micros();
        let fresh = topics.len();
        let number = *topics.entry(update.topic.as_str()).or_insert(fresh);
        let (kind, quality) = match &update.body {
            Body::Point(point) => (kind_of(&point.value), point.quality),
            Body::Published(point) => (kind_of(point.value()), point.quality()),
            Body::Opaque(_) => (8, Quality::GOOD),
        };
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.push(
            kind | flag(quality != Quality::GOOD, HAS_QUALITY)
                | flag(at != time, HAS_TIME)
                | flag(number != next_topic, HAS_TOPIC)
                | flag(*again, AGAIN),
        );
        if number != next_topic {
            varint::put(out, number as u64);
        }
        if number == fresh {
            push_name(last_name, &update.topic, out);
            last_name = &update.topic;
        }
        if quality != Quality::GOOD {
            varint::put(out, u64::from(quality.bits()));
        }
        if at != time {
            varint::put_signed(out, at.wrapping_sub(time));
        }
        push_body(&update.body, kind, out);
        (next_topic, time) = (number + 1, at);
    }
}

/// Reads a record.
///
/// # Errors
/// The bytes are no record; nothing is taken from them then.
pub fn decode(bytes: &[u8]) -> Result<Vec<Sample>, RecordError> {
    decode_with(bytes, Topic::new)
}

/// Reads one record after another: samples of a topic share its name, also those of different records.
#[derive(Debug, Default)]
pub struct Decoder {
    names: HashSet<Topic>,
}

impl Decoder {
    /// Reads a record.
    ///
    /// # Errors
    /// The bytes are no record; nothing is taken from them then.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Vec<Sample>, RecordError> {
        if self.names.len() > NAMES_MAX {
            self.names.clear();
        }
        let names = &mut self.names;
        decode_with(bytes, |name| {
            if let Some(topic) = names.get(name) {
                return Ok(topic.clone());
            }
            let topic = Topic::new(name)?;
            if name.len() <= NAME_BYTES_MAX {
                names.insert(topic.clone());
            }
            Ok(topic)
        })
    }
}

/// Reads a record whose topics the caller makes of their names, each once.
///
/// # Errors
/// The bytes are no record, or the caller makes no topic of a name.
pub fn decode_with(
    bytes: &[u8],
    topic_of: impl FnMut(&str) -> Result<Topic, TopicError>,
) -> Result<Vec<Sample>, RecordError> {
    let mut cursor = Cursor::new(without_place(bytes));
    match cursor.u8()? {
        VERSION => {}
        NOTED => {
            let len = varint::get_len(&mut cursor)?;
            cursor.take(len)?;
        }
        version => return Err(RecordError::Version(version)),
    }
    let count = varint::get_len(&mut cursor)?;
    if count > cursor.left() / SAMPLE_BYTES_MIN {
        return Err(RecordError::Truncated);
    }
    let mut record = Record { topic_of, topics: Vec::new(), name: String::new(), next_topic: 0, time: 0 };
    // A hostile count of empty samples must not cost more memory than its bytes warrant at once.
    let mut samples = Vec::with_capacity(count.min(4096));
    for _ in 0..count {
        samples.push(record.sample(&mut cursor)?);
    }
    if !cursor.is_empty() {
        return Err(RecordError::Illegal("rest"));
    }
    Ok(samples)
}

/// A record that is being read.
struct Record<F> {
    topic_of: F,
    topics: Vec<Topic>,
    /// The name of the last of them.
    name: String,
    next_topic: usize,
    time: i64,
}

impl<F: FnMut(&str) -> Result<Topic, TopicError>> Record<F> {
    fn sample(&mut self, cursor: &mut Cursor<'_>) -> Result<Sample, RecordError> {
        let tag = cursor.u8()?;
        let number = if tag & HAS_TOPIC == 0 { self.next_topic } else { varint::get_len(cursor)? };
        let topic = self.topic(number, cursor)?;
        let quality = if tag & HAS_QUALITY == 0 { 0 } else { varint::get(cursor)? };
        let quality = u16::try_from(quality).map_err(|_| RecordError::Illegal("quality"))?;
        if tag & HAS_TIME != 0 {
            self.time = self.time.wrapping_add(varint::get_signed(cursor)?);
        }
        self.next_topic = number.saturating_add(1);
        let time = Timestamp::from_micros(self.time);
        let body = match tag & KIND {
            8 => {
                let len = varint::get_len(cursor)?;
                Body::Opaque(Bytes::copy_from_slice(cursor.take(len)?))
            }
            kind => Body::Point(Point { value: value(kind, cursor)?, quality: Quality::from_bits(quality), time }),
        };
        Ok(Sample { time, update: Update { topic, body }, again: tag & AGAIN != 0 })
    }

    fn topic(&mut self, number: usize, cursor: &mut Cursor<'_>) -> Result<Topic, RecordError> {
        if let Some(topic) = self.topics.get(number) {
            return Ok(topic.clone());
        }
        if number != self.topics.len() {
            return Err(RecordError::Illegal("topic number"));
        }
        let shared = varint::get_len(cursor)?;
        let own = varint::get_len(cursor)?;
        let own = core::str::from_utf8(cursor.take(own)?).map_err(|_| RecordError::Illegal("topic name"))?;
        if !self.name.is_char_boundary(shared) {
            return Err(RecordError::Illegal("shared part of a topic name"));
        }
        self.name.truncate(shared);
        self.name.push_str(own);
        let topic = (self.topic_of)(&self.name).map_err(|_| RecordError::Illegal("topic name"))?;
        self.topics.push(topic.clone());
        Ok(topic)
    }
}

fn kind_of(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(false) => 1,
        Value::Bool(true) => 2,
        Value::Int(_) => 3,
        Value::Float(x) if single(*x).is_some() => 5,
        Value::Float(_) => 4,
        Value::Text(_) => 6,
        Value::Bytes(_) => 7,
    }
}

/// The single that holds the same bits of information, where there is one.
#[expect(clippy::cast_possible_truncation, reason = "the way back is compared bit by bit")]
fn single(x: f64) -> Option<f32> {
    let short = x as f32;
    (f64::from(short).to_bits() == x.to_bits()).then_some(short)
}

fn push_body(body: &Body, kind: u8, out: &mut Vec<u8>) {
    let value = match body {
        Body::Opaque(bytes) => return push_bytes(bytes, out),
        Body::Published(point) => point.value(),
        Body::Point(point) => &point.value,
    };
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Int(i) => varint::put_signed(out, *i),
        Value::Float(x) => match single(*x).filter(|_| kind == 5) {
            Some(short) => out.extend_from_slice(&short.to_le_bytes()),
            None => out.extend_from_slice(&x.to_le_bytes()),
        },
        Value::Text(text) => push_bytes(text.as_bytes(), out),
        Value::Bytes(bytes) => push_bytes(bytes, out),
    }
}

fn value(kind: u8, cursor: &mut Cursor<'_>) -> Result<Value, RecordError> {
    Ok(match kind {
        0 => Value::Null,
        1 => Value::Bool(false),
        2 => Value::Bool(true),
        3 => Value::Int(varint::get_signed(cursor)?),
        4 => Value::Float(cursor.f64_le()?),
        5 => Value::Float(f64::from(cursor.f32_le()?)),
        6 => {
            let len = varint::get_len(cursor)?;
            let text = core::str::from_utf8(cursor.take(len)?).map_err(|_| RecordError::Illegal("text"))?;
            Value::Text(text.into())
        }
        7 => {
            let len = varint::get_len(cursor)?;
            Value::Bytes(cursor.take(len)?.into())
        }
        _ => return Err(RecordError::Illegal("kind")),
    })
}

fn push_name(before: &str, name: &str, out: &mut Vec<u8>) {
    let mut shared = before.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    while !name.is_char_boundary(shared) {
        shared -= 1;
    }
    varint::put(out, shared as u64);
    push_bytes(name.as_bytes().get(shared..).unwrap_or_default(), out);
}

fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
