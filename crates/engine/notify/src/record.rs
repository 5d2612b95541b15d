//! What outlives a restart, as bytes.
//!
//! ```text
//! saved    = version(1 byte, 1) record*              record = length bytes-of-a-record
//! bytes    = 0 episode | 1 alarm | 2 message | 3 id | 4 texts      1: the episode of the alarm is over; 3: the message is;
//!                                                                  4: the receivers of a summary of the flood
//! episode  = notice is_stopped texts courses         texts: the receivers that were told
//! courses  = count (route step repeats due)*
//! message  = id to made kind route step repeats total count notice*
//! notice   = alarm seq standing priority severity state group text value since count
//! alarm    = topic kind
//! texts    = count text*          numbers are varints of `core::varint`, times signed microseconds, texts and values fields of
//!                                 `core::fields`
//! ```

mod bytes;

use self::bytes::{Malformed, Reader};
use crate::notice::{AlarmName, Message, Notice};
use crate::route::RouteId;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use tieline_core::Timestamp;
use tieline_core::varint::put_len;

const VERSION: u8 = 1;

/// Where an alarm is on a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CourseRecord {
    /// The route.
    pub route: RouteId,
    /// The step that is next; the number of steps where all are done.
    pub step: u16,
    /// How often it was repeated.
    pub repeats: u32,
    /// When what is next is due.
    pub due: Timestamp,
}

/// An alarm that calls or has called, and that has not returned.
#[derive(Clone, Debug, PartialEq)]
pub struct EpisodeRecord {
    /// The alarm as it was.
    pub notice: Notice,
    /// Whether nothing more is said until it returns or calls again.
    pub is_stopped: bool,
    /// Who was told.
    pub told: Vec<Arc<str>>,
    /// Where it is on its routes.
    pub courses: Vec<CourseRecord>,
}

/// A change of what outlives a restart.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// In place of what was known of the alarm.
    Episode(EpisodeRecord),
    /// Nobody waits for anything of the alarm.
    EpisodeOver(AlarmName),
    /// A message that has not arrived yet.
    Message(Message),
    /// It arrived, or never will.
    MessageOver(u64),
    /// The receivers of summaries of the flood; none: there is no flood.
    Flood(Vec<Arc<str>>),
}

/// Why bytes are not records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// Written by a version that this one does not know.
    Version(u8),
    /// They end too early, or have a number or a name that cannot be.
    Malformed,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "notifications of format {version}, expected {VERSION}"),
            Self::Malformed => f.write_str("the record of a notification is cut or has an illegal field"),
        }
    }
}

impl core::error::Error for RecordError {}

impl From<Malformed> for RecordError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl Record {
    /// Appends its bytes.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Episode(episode) => {
                out.push(0);
                bytes::put_episode(out, episode);
            }
            Self::EpisodeOver(alarm) => {
                out.push(1);
                bytes::put_alarm(out, alarm);
            }
            Self::Message(message) => {
                out.push(2);
                bytes::put_message(out, message);
            }
            Self::MessageOver(id) => {
                out.push(3);
                tieline_core::varint::put(out, *id);
            }
            Self::Flood(receivers) => {
                out.push(4);
                bytes::put_texts(out, receivers);
            }
        }
    }

    /// Reads the bytes of one record.
    ///
    /// # Errors
    /// They are not those of a record.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes);
        let record = match reader.byte()? {
            0 => Self::Episode(reader.episode()?),
            1 => Self::EpisodeOver(reader.alarm()?),
            2 => Self::Message(reader.message()?),
            3 => Self::MessageOver(reader.number()?),
            4 => Self::Flood(reader.texts()?),
            _ => return Err(RecordError::Malformed),
        };
        if reader.is_empty() { Ok(record) } else { Err(RecordError::Malformed) }
    }
}

/// All that outlives a restart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    pub(crate) episodes: BTreeMap<AlarmName, EpisodeRecord>,
    pub(crate) messages: BTreeMap<u64, Message>,
    pub(crate) flood: Vec<Arc<str>>,
}

impl Saved {
    /// Takes a later record in.
    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Episode(episode) => {
                self.episodes.insert(episode.notice.alarm.clone(), episode);
            }
            Record::EpisodeOver(alarm) => {
                self.episodes.remove(&alarm);
            }
            Record::Message(message) => {
                self.messages.insert(message.id, message);
            }
            Record::MessageOver(id) => {
                self.messages.remove(&id);
            }
            Record::Flood(receivers) => self.flood = receivers,
        }
    }

    /// What [`Saved::apply`] makes this of.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let episodes = self.episodes.values().cloned().map(Record::Episode);
        let messages = self.messages.values().cloned().map(Record::Message);
        let flood = (!self.flood.is_empty()).then(|| Record::Flood(self.flood.clone()));
        episodes.chain(messages).chain(flood)
    }

    /// Appends all as bytes.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        let mut bytes = Vec::new();
        for record in self.records() {
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
        let mut reader = Reader::new(bytes);
        let version = reader.byte()?;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        let mut saved = Self::default();
        while !reader.is_empty() {
            saved.apply(Record::parse(reader.counted()?)?);
        }
        Ok(saved)
    }
}

#[cfg(test)]
mod tests;
