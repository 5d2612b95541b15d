//! DISCONNECT and AUTH (MQTT 5.0 sections 3.14 and 3.15).

use super::{Properties, Version, place, read_reason_and_properties, write_reason_and_properties};
use crate::cursor::{Reader, Sink};
use crate::{DecodeError, ReasonCode};

/// The connection ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disconnect {
    /// Why; always success in 3.1.1.
    pub reason: ReasonCode,
    /// Properties; empty in 3.1.1.
    pub properties: Properties,
}

impl Disconnect {
    pub(super) fn read(version: Version, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (reason, properties) = read_reason_and_properties(version, place::DISCONNECT, reader)?;
        Ok(Self { reason, properties })
    }

    pub(super) fn write(&self, version: Version, out: &mut impl Sink) {
        write_reason_and_properties(version, self.reason, &self.properties, out);
    }
}

/// A step of extended authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auth {
    /// Success, go on, or start again.
    pub reason: ReasonCode,
    /// Method and data.
    pub properties: Properties,
}

impl Auth {
    pub(super) fn read(version: Version, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if version == Version::V311 {
            return Err(DecodeError::PacketType);
        }
        let (reason, properties) = read_reason_and_properties(version, place::AUTH, reader)?;
        Ok(Self { reason, properties })
    }

    pub(super) fn write(&self, version: Version, out: &mut impl Sink) {
        write_reason_and_properties(version, self.reason, &self.properties, out);
    }
}
