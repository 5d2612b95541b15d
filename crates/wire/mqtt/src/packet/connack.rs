//! CONNACK (MQTT 5.0 section 3.2).

use super::connect::{read_properties, write_properties};
use super::{Properties, Version, place, read_reason};
use crate::cursor::{Reader, Sink};
use crate::{DecodeError, ReasonCode};

/// The server answers a CONNECT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connack {
    /// Whether a session of before goes on.
    pub session_present: bool,
    /// Success, or why not. In 3.1.1 the nearest of its six return codes.
    pub reason: ReasonCode,
    /// Properties; empty in 3.1.1.
    pub properties: Properties,
}

impl Connack {
    pub(super) fn read(version: Version, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let session_present = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(DecodeError::ConnackFlags),
        };
        let code = reader.u8()?;
        let reason = match version {
            Version::V311 => ReasonCode::from_return_code(code).ok_or(DecodeError::Reason(code))?,
            Version::V5 => read_reason(place::CONNACK, code)?,
        };
        // [MQTT-3.2.2-6]: a refusal does not speak of a session.
        if session_present && reason != ReasonCode::Success {
            return Err(DecodeError::ConnackFlags);
        }
        Ok(Self { session_present, reason, properties: read_properties(version, place::CONNACK, reader)? })
    }

    pub(super) fn write(&self, version: Version, out: &mut impl Sink) {
        out.u8(u8::from(self.session_present && self.reason == ReasonCode::Success));
        out.u8(match version {
            Version::V311 => self.reason.to_return_code(),
            Version::V5 => self.reason.code(),
        });
        write_properties(version, &self.properties, out);
    }
}
