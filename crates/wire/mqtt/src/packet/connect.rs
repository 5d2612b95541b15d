//! CONNECT (MQTT 5.0 section 3.1).

use super::{Properties, Qos, Version, place};
use crate::cursor::{Reader, Sink, is_topic_name};
use crate::{Binary, DecodeError, Text};

const CLEAN_START: u8 = 0x02;
const WILL: u8 = 0x04;
const WILL_RETAIN: u8 = 0x20;
const PASSWORD: u8 = 0x40;
const USER_NAME: u8 = 0x80;

/// A message that the server publishes when the client is gone without a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will {
    /// Where to.
    pub topic: Text,
    /// What.
    pub payload: Binary,
    /// How surely.
    pub qos: Qos,
    /// Whether it becomes the topic's retained message.
    pub retain: bool,
    /// Delay, expiry and what else belongs to it; empty in 3.1.1.
    pub properties: Properties,
}

/// A client asks for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The version that it speaks.
    pub version: Version,
    /// Whether a session of before is to be forgotten ("clean session" in 3.1.1).
    pub clean_start: bool,
    /// The longest silence of the client in seconds; 0 is without limit.
    pub keep_alive_s: u16,
    /// Properties; empty in 3.1.1.
    pub properties: Properties,
    /// The client's name; empty asks the server for one.
    pub client_id: Text,
    /// The will, if any.
    pub will: Option<Will>,
    /// The user's name.
    pub user_name: Option<Text>,
    /// The password or another credential.
    pub password: Option<Binary>,
}

impl Connect {
    /// The version that a CONNECT speaks, as far as its first bytes tell: it decides in which form a refusal goes
    /// out when the rest is wrong.
    pub(crate) fn version_of(body: &bytes::Bytes) -> Option<Version> {
        Self::read_version(&mut Reader::new(body)).ok()
    }

    fn read_version(reader: &mut Reader<'_>) -> Result<Version, DecodeError> {
        let name =
            reader.text().map_err(|e| if e == DecodeError::Truncated { e } else { DecodeError::ProtocolName })?;
        match (name.as_str(), reader.u8()?) {
            ("MQTT", 4) => Ok(Version::V311),
            ("MQTT", 5) => Ok(Version::V5),
            ("MQTT" | "MQIsdp", level) => Err(DecodeError::ProtocolVersion(level)),
            _ => Err(DecodeError::ProtocolName),
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = Self::read_version(reader)?;
        let flags = reader.u8()?;
        let has = |bit: u8| flags & bit != 0;
        if has(1) {
            return Err(DecodeError::ConnectFlags);
        }
        let will_qos = Qos::from_bits(flags >> 3 & 3).ok_or(DecodeError::Qos)?;
        if !has(WILL) && (has(WILL_RETAIN) || will_qos != Qos::AtMostOnce) {
            return Err(DecodeError::WillFlags);
        }
        if version == Version::V311 && has(PASSWORD) && !has(USER_NAME) {
            return Err(DecodeError::PasswordAlone);
        }
        let keep_alive_s = reader.u16()?;
        let properties = read_properties(version, place::CONNECT, reader)?;
        if properties.authentication_data().is_some() && properties.authentication_method().is_none() {
            return Err(DecodeError::PropertyValue(0x16));
        }
        let client_id = reader.text()?;
        let will = if has(WILL) { Some(Will::read(version, will_qos, has(WILL_RETAIN), reader)?) } else { None };
        let user_name = if has(USER_NAME) { Some(reader.text()?) } else { None };
        let password = if has(PASSWORD) { Some(reader.binary()?) } else { None };
        let clean_start = has(CLEAN_START);
        Ok(Self { version, clean_start, keep_alive_s, properties, client_id, will, user_name, password })
    }

    pub(super) fn write(&self, out: &mut impl Sink) {
        out.field(b"MQTT");
        out.u8(match self.version {
            Version::V311 => 4,
            Version::V5 => 5,
        });
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        // In 3.1.1 a password needs a user name ([MQTT-3.1.2-22] there), if only an empty one.
        let named = self.user_name.is_some() || (self.version == Version::V311 && self.password.is_some());
        let mut flags = bit(self.clean_start, CLEAN_START) | bit(named, USER_NAME);
        flags |= bit(self.password.is_some(), PASSWORD);
        if let Some(will) = &self.will {
            flags |= WILL | will.qos.bits() << 3 | bit(will.retain, WILL_RETAIN);
        }
        out.u8(flags);
        out.u16(self.keep_alive_s);
        write_properties(self.version, &self.properties, out);
        out.field(self.client_id.as_bytes());
        if let Some(will) = &self.will {
            write_properties(self.version, &will.properties, out);
            out.field(will.topic.as_bytes());
            out.field(&will.payload);
        }
        if named {
            out.field(self.user_name.as_deref().unwrap_or_default().as_bytes());
        }
        if let Some(password) = &self.password {
            out.field(password);
        }
    }
}

impl Will {
    fn read(version: Version, qos: Qos, retain: bool, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let properties = read_properties(version, place::WILL, reader)?;
        let topic = reader.text()?;
        if !is_topic_name(topic.bytes()) {
            return Err(DecodeError::TopicName);
        }
        Ok(Self { topic, payload: reader.binary()?, qos, retain, properties })
    }
}

/// Properties where the version has them.
pub(super) fn read_properties(
    version: Version,
    place: u16,
    reader: &mut Reader<'_>,
) -> Result<Properties, DecodeError> {
    match version {
        Version::V311 => Ok(Properties::default()),
        Version::V5 => Properties::read(reader, place),
    }
}

pub(super) fn write_properties(version: Version, properties: &Properties, out: &mut impl Sink) {
    match version {
        Version::V311 => {}
        Version::V5 => properties.write(out),
    }
}
