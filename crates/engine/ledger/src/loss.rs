//! What a part of the log that cannot be read makes doubtful, and what is given up because of it.
//!
//! A lost batch may have said anything of a session: a message pending for it, the end of one, a subscription, an
//! identifier of a QoS 2 message. A session that goes on without it could swallow a message, give one twice, or never
//! get those of a
//! subscription, and nobody would know. So a session of which a lost batch may have spoken ends: its client is told that there
//! is none, and begins again. A last value that was changed there is given up: none is better than one that is old.
//!
//! Of what a lost batch spoke is read from its bytes, as far as they can be read; they are believed in nothing else.
//! Where they are not there, it may have spoken of every session that was there, and last values stay: they may be
//! older than what was published last.

use crate::RecordError;
use crate::record::{PLACED, Record, VERSION};
use crate::replay::Image;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use hashbrown::HashSet;
use tieline_core::{Cursor, Topic, varint};

/// What was given up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenUp {
    /// The clients whose sessions ended.
    pub clients: Vec<String>,
    /// Messages that were pending for these sessions.
    pub messages: usize,
    /// Topics whose last value is gone.
    pub topics: Vec<Topic>,
}

/// What is doubtful.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    sessions: BTreeSet<u64>,
    topics: HashSet<Topic>,
    /// Whether a batch was lost of which nothing is known: what is first heard of a session then may not be its beginning.
    blind: bool,
}

impl Doubt {
    /// A batch of the log is lost; its bytes as far as there are any.
    pub(crate) fn handle_lost(&mut self, bytes: Option<&[u8]>, image: &Image) {
        let (records, whole) = bytes.map_or_else(|| (Vec::new(), false), parse_some);
        for record in &records {
            match record {
                Record::Value(value) => drop(self.topics.insert(value.message.topic.clone())),
                Record::Cleared(topic) => drop(self.topics.insert(topic.clone())),
                record => self.sessions.extend(record.session()),
            }
        }
        if !whole {
            self.blind = true;
            self.sessions.extend(image.sessions.keys());
        }
    }

    /// A change that was read after it.
    pub(crate) fn handle_change(&mut self, record: &Record, image: &Image) {
        match record {
            Record::Value(value) => drop(self.topics.remove(&value.message.topic)),
            Record::Cleared(topic) => drop(self.topics.remove(topic)),
            Record::Ended(session) => drop(self.sessions.remove(session)),
            record => {
                let begins = matches!(record, Record::Session(session) if session.away_since.is_none());
                let unknown = |number: &u64| self.blind && !begins && !image.sessions.contains_key(number);
                let doubted = record.session().filter(unknown);
                self.sessions.extend(doubted);
            }
        }
    }

    /// Takes away what is doubtful.
    pub(crate) fn settle(self, image: &mut Image) -> GivenUp {
        let mut given = GivenUp::default();
        for number in self.sessions {
            let Some(kept) = image.sessions.remove(&number) else { continue };
            given.messages += kept.pending.len();
            given.clients.extend(kept.session.map(|session| session.client));
        }
        given.topics = self.topics.into_iter().filter(|topic| image.values.remove(topic).is_some()).collect();
        given.topics.sort();
        given
    }
}

/// Reads changes as far as the bytes are any, and says whether that was to their end.
fn parse_some(bytes: &[u8]) -> (Vec<Record>, bool) {
    let mut cursor = Cursor::new(bytes);
    let mut records = Vec::new();
    let begins = match cursor.u8() {
        Ok(VERSION) => true,
        Ok(PLACED) => cursor.u64_le().is_ok(),
        Ok(_) | Err(_) => false,
    };
    if !begins {
        return (records, false);
    }
    while !cursor.is_empty() {
        match parse_next(&mut cursor) {
            Ok(record) => records.push(record),
            Err(_) => return (records, false),
        }
    }
    (records, true)
}

fn parse_next(cursor: &mut Cursor<'_>) -> Result<Record, RecordError> {
    let len = varint::get_len(cursor)?;
    let mut fields = Cursor::new(cursor.take(len)?);
    let record = Record::parse(&mut fields)?;
    if fields.is_empty() { Ok(record) } else { Err(RecordError::Illegal("rest")) }
}

impl Record {
    /// The session that a change is of.
    pub(crate) const fn session(&self) -> Option<u64> {
        match self {
            Self::Begin
            | Self::End
            | Self::Alive(_)
            | Self::Value(_)
            | Self::Cleared(_)
            | Self::LockNumbers(_)
            | Self::Alarm { .. } => None,
            Self::Session(session) => Some(session.number),
            Self::Ended(session)
            | Self::Subscribed { session, .. }
            | Self::Unsubscribed { session, .. }
            | Self::Pending { session, .. }
            | Self::Sent { session, .. }
            | Self::Received { session, .. }
            | Self::Done { session, .. }
            | Self::Held { session, .. }
            | Self::Released { session, .. } => Some(*session),
        }
    }
}
