//! What of an alarm outlives a restart, as bytes.
//!
//! ```text
//! saved   = version(1 byte, 1) seq record*          seq: the last occurrence that was given
//! record  = length bytes-of-a-record
//! bytes   = topic kind seq flags since changed time value acked_by repeats
//!           [until once who why]                    where shelved
//!           [until who why]                         where out of service; until 0: none
//!           cause                                   0: none; 1 topic kind
//! numbers are varints of `core::varint`, times signed microseconds, texts and values fields of `core::fields`
//! ```

use crate::Kind;
use crate::alarm::{AlarmId, Flags, Service, Shelf};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use tieline_core::fields::{FieldError, get_text, get_value, put_text, put_value};
use tieline_core::varint::{VarintError, get, get_len, get_signed, put, put_len, put_signed};
use tieline_core::{Cursor, Timestamp, Topic, Truncated, Value, Words};

const VERSION: u8 = 1;

/// What of an alarm outlives a restart.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The alarmed topic, and the kind.
    pub id: AlarmId,
    /// The number of the last occurrence: later ones have greater numbers, of all alarms together.
    pub seq: u64,
    /// What holds.
    pub flags: Flags,
    /// When the occurrence began.
    pub since: Timestamp,
    /// When it last changed.
    pub changed: Timestamp,
    /// The time of the value that raised it, as its device says.
    pub time: Timestamp,
    /// The value that raised it.
    pub value: Value,
    /// Who acknowledged it.
    pub acked_by: Option<Arc<str>>,
    /// Activations of this occurrence after the first: those of a chattering alarm.
    pub repeats: u32,
    /// Until when it is shelved.
    pub shelf: Option<Shelf>,
    /// Until when it is out of service.
    pub service: Option<Service>,
    /// The alarm whose consequence it is.
    pub cause: Option<AlarmId>,
}

/// Why bytes are not records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// They end too early.
    Truncated,
    /// Written by a version that this one does not know.
    Version(u8),
    /// A number, a name or a flag that cannot be.
    Malformed,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the record of an alarm ends too early"),
            Self::Version(version) => write!(f, "alarms of format {version}, expected {VERSION}"),
            Self::Malformed => f.write_str("the record of an alarm has an illegal field"),
        }
    }
}

impl core::error::Error for RecordError {}

impl From<Truncated> for RecordError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

impl From<VarintError> for RecordError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated,
            VarintError::TooLarge => Self::Malformed,
        }
    }
}

impl From<FieldError> for RecordError {
    fn from(error: FieldError) -> Self {
        match error {
            FieldError::Truncated => Self::Truncated,
            FieldError::Malformed => Self::Malformed,
        }
    }
}

impl Record {
    /// Appends its bytes.
    pub fn emit(&self, out: &mut Vec<u8>) {
        put_id(out, &self.id);
        put(out, self.seq);
        put(out, self.flags.kept().bits().into());
        for time in [self.since, self.changed, self.time] {
            put_signed(out, time.micros());
        }
        put_value(out, &self.value);
        put_text(out, self.acked_by.as_deref().unwrap_or_default());
        put(out, self.repeats.into());
        if let Some(shelf) = &self.shelf {
            put_signed(out, shelf.until.micros());
            out.push(shelf.once.into());
            put_text(out, &shelf.who);
            put_text(out, &shelf.why);
        }
        if let Some(service) = &self.service {
            put_signed(out, service.until.map_or(0, Timestamp::micros));
            put_text(out, &service.who);
            put_text(out, &service.why);
        }
        out.push(self.cause.is_some().into());
        if let Some(cause) = &self.cause {
            put_id(out, cause);
        }
    }

    /// Reads the bytes of one record.
    ///
    /// # Errors
    /// They are not those of a record.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut cursor = Cursor::new(bytes);
        let record = Self::read(&mut cursor)?;
        if cursor.is_empty() { Ok(record) } else { Err(RecordError::Malformed) }
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, RecordError> {
        let id = read_id(cursor)?;
        let seq = get(cursor)?;
        let flags = u16::try_from(get(cursor)?).ok().and_then(Flags::from_bits).ok_or(RecordError::Malformed)?;
        let (since, changed, time) = (read_time(cursor)?, read_time(cursor)?, read_time(cursor)?);
        let value = get_value(cursor)?;
        let acked_by = Some(get_text(cursor)?).filter(|who| !who.is_empty()).map(Arc::from);
        let repeats = u32::try_from(get(cursor)?).map_err(|_| RecordError::Malformed)?;
        let shelf = if flags.has(Flags::SHELVED) { Some(read_shelf(cursor)?) } else { None };
        let service = if flags.has(Flags::OUT_OF_SERVICE) { Some(read_service(cursor)?) } else { None };
        let cause = if read_bool(cursor)? { Some(read_id(cursor)?) } else { None };
        Ok(Self { id, seq, flags, since, changed, time, value, acked_by, repeats, shelf, service, cause })
    }
}

/// All that outlives a restart: the alarms that are not normal, and the last occurrence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    pub(crate) seq: u64,
    pub(crate) records: BTreeMap<AlarmId, Record>,
}

impl Saved {
    /// Takes a later record in; one of a normal alarm takes it away.
    pub fn apply(&mut self, record: Record) {
        self.seq = self.seq.max(record.seq);
        if record.flags.is_normal() {
            self.records.remove(&record.id);
        } else {
            self.records.insert(record.id.clone(), record);
        }
    }

    /// Takes an alarm away that is no more.
    pub fn remove(&mut self, id: &AlarmId) {
        self.records.remove(id);
    }

    /// Occurrences up to this one were given, also of alarms that are normal now.
    pub fn advance(&mut self, seq: u64) {
        self.seq = self.seq.max(seq);
    }

    /// The last occurrence that was given.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The records, in the order of their topics.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Appends all as bytes.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put(out, self.seq);
        let mut bytes = Vec::new();
        for record in self.records.values() {
            bytes.clear();
            record.emit(&mut bytes);
            put_len(out, bytes.len());
            out.extend_from_slice(&bytes);
        }
    }

    /// Reads what [`Saved::emit`] wrote.
    ///
    /// # Errors
    /// They are other bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut cursor = Cursor::new(bytes);
        let version = cursor.u8()?;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        let mut saved = Self { seq: get(&mut cursor)?, records: BTreeMap::new() };
        while !cursor.is_empty() {
            let length = get_len(&mut cursor)?;
            saved.apply(Record::parse(cursor.take(length)?)?);
        }
        Ok(saved)
    }
}

fn put_id(out: &mut Vec<u8>, id: &AlarmId) {
    put_text(out, &id.topic);
    put_text(out, id.kind.word());
}

fn read_id(cursor: &mut Cursor<'_>) -> Result<AlarmId, RecordError> {
    let topic = Topic::new(get_text(cursor)?).map_err(|_| RecordError::Malformed)?;
    let kind = Kind::of_word(get_text(cursor)?).ok_or(RecordError::Malformed)?;
    Ok(AlarmId { topic, kind })
}

fn read_time(cursor: &mut Cursor<'_>) -> Result<Timestamp, RecordError> {
    Ok(Timestamp::from_micros(get_signed(cursor)?))
}

fn read_bool(cursor: &mut Cursor<'_>) -> Result<bool, RecordError> {
    match cursor.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(RecordError::Malformed),
    }
}

fn read_shelf(cursor: &mut Cursor<'_>) -> Result<Shelf, RecordError> {
    let (until, once) = (read_time(cursor)?, read_bool(cursor)?);
    Ok(Shelf { until, once, who: get_text(cursor)?.into(), why: get_text(cursor)?.into() })
}

fn read_service(cursor: &mut Cursor<'_>) -> Result<Service, RecordError> {
    let until = Some(get_signed(cursor)?).filter(|micros| *micros != 0).map(Timestamp::from_micros);
    Ok(Service { until, who: get_text(cursor)?.into(), why: get_text(cursor)?.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            (-1e12..1e12_f64).prop_map(Value::Float),
            "[a-z]{0,9}".prop_map(|text| Value::from(&*text)),
            prop::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| Value::Bytes(bytes.into())),
        ]
    }

    fn record() -> impl Strategy<Value = Record> {
        let id = || {
            ("[a-c]{1,3}/[a-c]", 0..Kind::WORDS.len())
                .prop_map(|(topic, kind)| AlarmId { topic: Topic::new(&topic).unwrap(), kind: Kind::WORDS[kind].1 })
        };
        let time = || (1..2_000_000_000_000_000_i64).prop_map(Timestamp::from_micros);
        let text = || "[a-z]{1,9}".prop_map(|text| Arc::<str>::from(&*text));
        let times = (time(), time(), time(), time());
        let shelf = (any::<bool>(), any::<bool>());
        (
            id(),
            any::<u64>(),
            0..=0xFF_u16,
            times,
            value(),
            proptest::option::of(text()),
            any::<u32>(),
            shelf,
            text(),
            proptest::option::of(id()),
        )
            .prop_map(
                |(
                    id,
                    seq,
                    bits,
                    (since, changed, time, until),
                    value,
                    acked_by,
                    repeats,
                    (once, ends),
                    text,
                    cause,
                )| {
                    let flags = Flags::from_bits(bits).unwrap();
                    let who = text.clone();
                    let shelf = Shelf { until, once, who: who.clone(), why: text.clone() };
                    let service = Service { until: ends.then_some(until), who, why: text };
                    Record {
                        id,
                        seq,
                        flags,
                        since,
                        changed,
                        time,
                        value,
                        acked_by,
                        repeats,
                        cause,
                        shelf: flags.has(Flags::SHELVED).then_some(shelf),
                        service: flags.has(Flags::OUT_OF_SERVICE).then_some(service),
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn records_round_trip(records in prop::collection::vec(record(), 0..9)) {
            let mut saved = Saved::default();
            for record in records {
                let mut bytes = Vec::new();
                record.emit(&mut bytes);
                prop_assert_eq!(Record::parse(&bytes), Ok(record.clone()));
                for end in 0..bytes.len() {
                    prop_assert!(Record::parse(&bytes[..end]).is_err());
                }
                saved.apply(record);
            }
            let mut bytes = Vec::new();
            saved.emit(&mut bytes);
            prop_assert_eq!(Saved::parse(&bytes), Ok(saved));
        }

        #[test]
        fn any_bytes_are_a_record_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Record::parse(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            let _ = Saved::parse(&bytes);
        }

        #[test]
        fn a_changed_byte_never_panics(record in record(), at in any::<prop::sample::Index>(), with: u8) {
            let mut bytes = Vec::new();
            record.emit(&mut bytes);
            let at = at.index(bytes.len());
            bytes[at] = with;
            let _ = Record::parse(&bytes);
        }
    }

    #[test]
    fn other_formats_are_refused() {
        assert_eq!(Saved::parse(&[2, 0]), Err(RecordError::Version(2)));
        assert_eq!(Saved::parse(&[]), Err(RecordError::Truncated));
        assert_eq!(Saved::parse(&[1, 0]), Ok(Saved::default()));
        assert_eq!(Saved::parse(&[1, 0, 5]), Err(RecordError::Truncated));
    }
}
