//! The format of one change. A record of the log holds any number of them, one behind the other; docs/ledger.md says the
//! same for other languages.
//!
//! ```text
//!  +---------+- - - - - - - - - -
//!  | version | changes …                      a record of the log
//!  +---------+- - - - - - - - - -
//!
//!  +--------+-----+- - - - - - -
//!  | length | tag | fields                    a change; the length counts tag and fields
//!  +--------+-----+- - - - - - -
//! ```
//!
//! | tag | change | fields |
//! |---|---|---|
//! | 1 | a compaction begins | |
//! | 2 | that compaction has ended: what was written before it began is void | |
//! | 3 | the node is alive | time |
//! | 4 | a topic's last value | message, QoS |
//! | 5 | a topic has none | topic |
//! | 6 | a session, with all that is said of it here | number, client, user?, expiry in seconds, away since? (time), will? |
//! | 7 | a session has ended | number |
//! | 8 | a subscription | number, filter, options, properties |
//! | 9 | a subscription has ended | number, filter |
//! | 10 | a message that is pending for a session | number, serial, packet identifier, flags, identifiers of subscriptions, message |
//! | 11 | its client has it, and is to be told that it may forget it (QoS 2) | number, serial |
//! | 12 | it is no longer pending | number, serial |
//! | 13 | a QoS 2 message of the session's client is taken | number, packet identifier |
//! | 14 | the client has forgotten it | number, packet identifier |
//! | 15 | as 13, and history has it, or is to have it, with this time | number, packet identifier, time |
//! | 16 | as 8, and the session is to be given the last values that the subscription selects | as 8 |
//! | 17 | the messages pending for the session, up to this one, may have been sent | number, serial |
//! | 18 | as 6, of a node where somebody has to show who it is | as 6, stamp |
//! | 19 | numbers of locks up to this one may have been given out | number |
//! | 20 | an alarm is as these bytes say; without bytes it is normal | name, number of its last occurrence, bytes |
//!
//! `version` is 1, or 2 where the record has a place in the log of a core with standbys: 8 bytes, low byte first, follow. Numbers are varints of base 128, low group first. Texts and bytes have their length before them. `?`
//! is a byte, 0 or 1, and with 1 the field. Times are microseconds since 1970, as 8 bytes, low byte first. A message
//! is its topic, payload, properties (MQTT 5.0 section 2.2.2.2, without the length) and when it was received. A will is a
//! message, QoS, a byte that is 1 where it is retained, and when it is due. A stamp is 8 bytes, low byte first. Flags
//! are the QoS (bits 0 and 1), whether it is sent as retained (bit 2), and whether it was not sent yet (bit 3).

use crate::RecordError;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use tieline_core::{Cursor, Timestamp, Topic, varint};

/// Of the format.
pub(crate) const VERSION: u8 = 1;
/// The version of a record that has a place in a log.
pub(crate) const PLACED: u8 = 2;
const RETAIN: u8 = 4;
const UNSENT: u8 = 8;

/// A change of what is pending.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// All state follows, together with what changes meanwhile.
    Begin,
    /// All state has been said: what was before [`Record::Begin`] is void.
    End,
    /// The node is alive.
    Alive(Timestamp),
    /// A topic has a last value.
    Value(Value),
    /// A topic has none any longer.
    Cleared(Topic),
    /// A session began, or something of it has changed.
    Session(Session),
    /// A session has ended, with all that it had.
    Ended(u64),
    /// A session has a subscription.
    Subscribed {
        /// The session's number.
        session: u64,
        /// The filter, with `$share/NAME/` before it where it is shared.
        filter: String,
        /// The byte of options of SUBSCRIBE.
        options: u8,
        /// The properties of SUBSCRIBE.
        properties: Bytes,
        /// Whether the session is still to be given the last values that it selects.
        due: bool,
    },
    /// A session has it no longer.
    Unsubscribed {
        /// The session's number.
        session: u64,
        /// The filter.
        filter: String,
    },
    /// A message is pending for a session.
    Pending {
        /// The session's number.
        session: u64,
        /// Rises with every message of the session.
        serial: u64,
        /// What its packets are known by; 0 where that is not decided yet.
        packet_id: u16,
        /// How surely, 1 or 2.
        qos: u8,
        /// Whether it is sent as a retained message.
        retain: bool,
        /// Whether it was not sent yet: one that may have been is sent again with DUP.
        unsent: bool,
        /// The subscriptions that it matches.
        subscription_ids: Vec<u32>,
        /// What.
        message: Message,
    },
    /// The messages pending for a session, up to this one, may have been sent.
    Sent {
        /// The session's number.
        session: u64,
        /// The last of them.
        serial: u64,
    },
    /// The session's client has a QoS 2 message: its bytes are not needed any longer.
    Received {
        /// The session's number.
        session: u64,
        /// Which.
        serial: u64,
    },
    /// A message is no longer pending for a session.
    Done {
        /// The session's number.
        session: u64,
        /// Which.
        serial: u64,
    },
    /// A QoS 2 message of the session's client was taken: the same identifier is the same message.
    Held {
        /// The session's number.
        session: u64,
        /// Its packet identifier.
        packet_id: u16,
        /// The time of its sample in history, where it is recorded: history may lack it, and knows it by that time.
        sample: Option<Timestamp>,
    },
    /// The identifier stands for another message from here on.
    Released {
        /// The session's number.
        session: u64,
        /// The packet identifier.
        packet_id: u16,
    },
    /// Numbers of locks up to this one may have been given out.
    LockNumbers(u64),
    /// An alarm has changed.
    Alarm {
        /// Its name.
        name: String,
        /// The number of its last occurrence: later ones of any alarm have greater numbers.
        occurrence: u64,
        /// What there is to know of it; nothing where it is normal, or is no more.
        state: Bytes,
    },
}

/// A message as MQTT has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Where it was published.
    pub topic: Topic,
    /// What the application says.
    pub payload: Bytes,
    /// Its properties, in the bytes of MQTT 5.
    pub properties: Bytes,
    /// When it arrived: its expiry counts from here.
    pub received: Timestamp,
}

/// A topic's last value.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The message that set it.
    pub message: Message,
    /// How surely it was published.
    pub qos: u8,
}

/// A session that outlives its connections.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its number; none is used again.
    pub number: u64,
    /// The client identifier.
    pub client: String,
    /// Who the client is, where it had to show that.
    pub user: Option<String>,
    /// Changes with what the user shows itself by, and is 0 where that is in no file of users, or nobody showed anything. None
    /// where nobody had to, or where an earlier release wrote it.
    pub stamp: Option<u64>,
    /// Seconds that it outlives a connection; all ones is for ever.
    pub expiry_s: u32,
    /// When its client went; none while it is connected.
    pub away_since: Option<Timestamp>,
    /// What is to be published if its client does not come back.
    pub will: Option<Will>,
}

/// A will.
#[derive(Clone, Debug, PartialEq)]
pub struct Will {
    /// What.
    pub message: Message,
    /// How surely.
    pub qos: u8,
    /// Whether it becomes the topic's last value.
    pub retain: bool,
    /// Seconds from the end of the connection to the will.
    pub delay_s: u32,
}

impl Record {
    /// Begins the bytes of a record of the log.
    pub fn begin(out: &mut Vec<u8>) {
        out.push(VERSION);
    }

    /// A record of the log with the place that it has in the log of all nodes.
    #[must_use]
    pub fn placed(place: u64, record: &[u8]) -> Vec<u8> {
        let changes = record.get(1..).unwrap_or_default();
        let mut out = Vec::with_capacity(1 + size_of::<u64>() + changes.len());
        out.push(PLACED);
        out.extend_from_slice(&place.to_le_bytes());
        out.extend_from_slice(changes);
        out
    }

    /// The place of a record; none where it has none.
    #[must_use]
    pub fn place_of(record: &[u8]) -> Option<u64> {
        let mut cursor = Cursor::new(record);
        (cursor.u8().ok()? == PLACED).then(|| cursor.u64_le().ok())?
    }

    /// Appends the change to a record of the log.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let at = out.len();
        // Room for the longest length, closed up where the change is short.
        out.extend_from_slice(&[0; LENGTH_BYTES]);
        self.emit_fields(out);
        let mut length = Vec::with_capacity(LENGTH_BYTES);
        varint::put(&mut length, (out.len() - at - LENGTH_BYTES) as u64);
        out.splice(at..at + LENGTH_BYTES, length);
    }

    /// Reads all changes of a record of the log.
    ///
    /// # Errors
    /// The bytes are no record; nothing is taken from them then.
    pub fn parse_all(bytes: &[u8]) -> Result<Vec<Self>, RecordError> {
        let mut cursor = Cursor::new(bytes);
        match cursor.u8()? {
            VERSION => {}
            PLACED => {
                cursor.u64_le()?;
            }
            version => return Err(RecordError::Version(version)),
        }
        let mut records = Vec::new();
        while !cursor.is_empty() {
            let len = varint::get_len(&mut cursor)?;
            let mut fields = Cursor::new(cursor.take(len)?);
            records.push(Self::parse(&mut fields)?);
            if !fields.is_empty() {
                return Err(RecordError::Illegal("rest"));
            }
        }
        Ok(records)
    }

    fn emit_fields(&self, out: &mut Vec<u8>) {
        match self {
            Self::Begin => out.push(1),
            Self::End => out.push(2),
            Self::Alive(at) => {
                out.push(3);
                push_time(*at, out);
            }
            Self::Value(Value { message, qos }) => {
                out.push(4);
                push_message(message, out);
                out.push(*qos);
            }
            Self::Cleared(topic) => {
                out.push(5);
                push_bytes(topic.as_bytes(), out);
            }
            Self::Session(session) => {
                out.push(if session.stamp.is_some() { 18 } else { 6 });
                push_session(session, out);
                session.stamp.iter().for_each(|stamp| out.extend_from_slice(&stamp.to_le_bytes()));
            }
            Self::Ended(session) => push_numbers(7, &[*session], out),
            Self::Subscribed { session, filter, options, properties, due } => {
                push_numbers(if *due { 16 } else { 8 }, &[*session], out);
                push_bytes(filter.as_bytes(), out);
                out.push(*options);
                push_bytes(properties, out);
            }
            Self::Unsubscribed { session, filter } => {
                push_numbers(9, &[*session], out);
                push_bytes(filter.as_bytes(), out);
            }
            Self::Pending { session, serial, packet_id, qos, retain, unsent, subscription_ids, message } => {
                push_numbers(10, &[*session, *serial, u64::from(*packet_id)], out);
                let flag = |on: bool, bit: u8| if on { bit } else { 0 };
                out.push(qos | flag(*retain, RETAIN) | flag(*unsent, UNSENT));
                varint::put(out, subscription_ids.len() as u64);
                subscription_ids.iter().for_each(|id| varint::put(out, u64::from(*id)));
                push_message(message, out);
            }
            Self::Received { session, serial } => push_numbers(11, &[*session, *serial], out),
            Self::Done { session, serial } => push_numbers(12, &[*session, *serial], out),
            Self::Held { session, packet_id, sample: None } => {
                push_numbers(13, &[*session, u64::from(*packet_id)], out);
            }
            Self::Held { session, packet_id, sample: Some(time) } => {
                push_numbers(15, &[*session, u64::from(*packet_id)], out);
                push_time(*time, out);
            }
            Self::Released { session, packet_id } => push_numbers(14, &[*session, u64::from(*packet_id)], out),
            Self::Sent { session, serial } => push_numbers(17, &[*session, *serial], out),
            Self::LockNumbers(upto) => push_numbers(19, &[*upto], out),
            Self::Alarm { name, occurrence, state } => {
                out.push(20);
                push_bytes(name.as_bytes(), out);
                varint::put(out, *occurrence);
                push_bytes(state, out);
            }
        }
    }

    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, RecordError> {
        Ok(match cursor.u8()? {
            1 => Self::Begin,
            2 => Self::End,
            3 => Self::Alive(time(cursor)?),
            4 => Self::Value(Value { message: message(cursor)?, qos: qos(cursor.u8()?)? }),
            5 => Self::Cleared(topic(cursor)?),
            6 => Self::Session(session(cursor)?),
            7 => Self::Ended(varint::get(cursor)?),
            tag @ (8 | 16) => Self::Subscribed {
                session: varint::get(cursor)?,
                filter: text(cursor)?.into(),
                options: cursor.u8()?,
                properties: bytes(cursor)?,
                due: tag == 16,
            },
            9 => Self::Unsubscribed { session: varint::get(cursor)?, filter: text(cursor)?.into() },
            10 => pending(cursor)?,
            11 => Self::Received { session: varint::get(cursor)?, serial: varint::get(cursor)? },
            12 => Self::Done { session: varint::get(cursor)?, serial: varint::get(cursor)? },
            13 => Self::Held { session: varint::get(cursor)?, packet_id: packet_id(cursor)?, sample: None },
            14 => Self::Released { session: varint::get(cursor)?, packet_id: packet_id(cursor)? },
            15 => {
                let (session, packet_id) = (varint::get(cursor)?, packet_id(cursor)?);
                Self::Held { session, packet_id, sample: Some(time(cursor)?) }
            }
            17 => Self::Sent { session: varint::get(cursor)?, serial: varint::get(cursor)? },
            18 => {
                let session = session(cursor)?;
                Self::Session(Session { stamp: Some(cursor.u64_le()?), ..session })
            }
            19 => Self::LockNumbers(varint::get(cursor)?),
            20 => Self::Alarm { name: text(cursor)?.into(), occurrence: varint::get(cursor)?, state: bytes(cursor)? },
            tag => return Err(RecordError::Tag(tag)),
        })
    }
}

/// Bytes of the longest length that a change has.
const LENGTH_BYTES: usize = 5;

fn push_numbers(tag: u8, numbers: &[u64], out: &mut Vec<u8>) {
    out.push(tag);
    numbers.iter().for_each(|number| varint::put(out, *number));
}

fn push_time(at: Timestamp, out: &mut Vec<u8>) {
    out.extend_from_slice(&at.micros().to_le_bytes());
}

fn push_message(message: &Message, out: &mut Vec<u8>) {
    push_bytes(message.topic.as_bytes(), out);
    push_bytes(&message.payload, out);
    push_bytes(&message.properties, out);
    push_time(message.received, out);
}

fn push_session(session: &Session, out: &mut Vec<u8>) {
    varint::put(out, session.number);
    push_bytes(session.client.as_bytes(), out);
    out.push(u8::from(session.user.is_some()));
    if let Some(user) = &session.user {
        push_bytes(user.as_bytes(), out);
    }
    varint::put(out, u64::from(session.expiry_s));
    out.push(u8::from(session.away_since.is_some()));
    if let Some(since) = session.away_since {
        push_time(since, out);
    }
    out.push(u8::from(session.will.is_some()));
    if let Some(will) = &session.will {
        push_message(&will.message, out);
        out.extend_from_slice(&[will.qos, u8::from(will.retain)]);
        varint::put(out, u64::from(will.delay_s));
    }
}

fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn pending(cursor: &mut Cursor<'_>) -> Result<Record, RecordError> {
    let (session, serial) = (varint::get(cursor)?, varint::get(cursor)?);
    let packet_id = u16::try_from(varint::get(cursor)?).map_err(|_| RecordError::Illegal("packet identifier"))?;
    let flags = cursor.u8()?;
    if flags & !(RETAIN | UNSENT | 3) != 0 {
        return Err(RecordError::Illegal("flag"));
    }
    let qos = qos(flags & 3)?;
    let count = varint::get_len(cursor)?;
    if count > cursor.left() {
        return Err(RecordError::Truncated);
    }
    let ids = (0..count).map(|_| number(cursor, "subscription identifier"));
    let subscription_ids = ids.collect::<Result<_, _>>()?;
    let message = message(cursor)?;
    let (retain, unsent) = (flags & RETAIN != 0, flags & UNSENT != 0);
    Ok(Record::Pending { session, serial, packet_id, qos, retain, unsent, subscription_ids, message })
}

fn message(cursor: &mut Cursor<'_>) -> Result<Message, RecordError> {
    Ok(Message { topic: topic(cursor)?, payload: bytes(cursor)?, properties: bytes(cursor)?, received: time(cursor)? })
}

fn session(cursor: &mut Cursor<'_>) -> Result<Session, RecordError> {
    let (number, client) = (varint::get(cursor)?, text(cursor)?.into());
    let user = if flag(cursor)? { Some(text(cursor)?.into()) } else { None };
    let expiry_s = self::number(cursor, "expiry")?;
    let away_since = if flag(cursor)? { Some(time(cursor)?) } else { None };
    let will = if flag(cursor)? { Some(will(cursor)?) } else { None };
    Ok(Session { number, client, user, stamp: None, expiry_s, away_since, will })
}

fn will(cursor: &mut Cursor<'_>) -> Result<Will, RecordError> {
    let message = message(cursor)?;
    Ok(Will { message, qos: qos(cursor.u8()?)?, retain: flag(cursor)?, delay_s: number(cursor, "delay")? })
}

fn flag(cursor: &mut Cursor<'_>) -> Result<bool, RecordError> {
    match cursor.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(RecordError::Illegal("flag")),
    }
}

fn qos(byte: u8) -> Result<u8, RecordError> {
    if byte <= 2 { Ok(byte) } else { Err(RecordError::Illegal("QoS")) }
}

fn packet_id(cursor: &mut Cursor<'_>) -> Result<u16, RecordError> {
    let id = u16::try_from(varint::get(cursor)?).ok().filter(|id| *id > 0);
    id.ok_or(RecordError::Illegal("packet identifier"))
}

fn number(cursor: &mut Cursor<'_>, what: &'static str) -> Result<u32, RecordError> {
    u32::try_from(varint::get(cursor)?).map_err(|_| RecordError::Illegal(what))
}

fn topic(cursor: &mut Cursor<'_>) -> Result<Topic, RecordError> {
    Topic::new(text(cursor)?).map_err(|_| RecordError::Illegal("topic name"))
}

fn text<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, RecordError> {
    let len = varint::get_len(cursor)?;
    core::str::from_utf8(cursor.take(len)?).map_err(|_| RecordError::Illegal("text"))
}

fn bytes(cursor: &mut Cursor<'_>) -> Result<Bytes, RecordError> {
    let len = varint::get_len(cursor)?;
    Ok(Bytes::copy_from_slice(cursor.take(len)?))
}

fn time(cursor: &mut Cursor<'_>) -> Result<Timestamp, RecordError> {
    let micros = cursor.u64_le()?.cast_signed();
    let time = Timestamp::from_micros(micros);
    if time.micros() == micros { Ok(time) } else { Err(RecordError::Illegal("time")) }
}
