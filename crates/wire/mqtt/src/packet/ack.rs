//! PUBACK, PUBREC, PUBREL and PUBCOMP (MQTT 5.0 sections 3.4 to 3.7).

use super::{PacketId, Properties, Version, read_reason_and_properties, write_reason_and_properties};
use crate::cursor::{Reader, Sink};
use crate::{DecodeError, ReasonCode};

/// A step in the exchange of a QoS 1 or 2 message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Which message.
    pub packet_id: PacketId,
    /// Success, or why not; always success in 3.1.1.
    pub reason: ReasonCode,
    /// Properties; empty in 3.1.1.
    pub properties: Properties,
}

impl Ack {
    /// A step without words.
    #[must_use]
    pub fn new(packet_id: PacketId, reason: ReasonCode) -> Self {
        Self { packet_id, reason, properties: Properties::default() }
    }

    pub(super) fn read(version: Version, place: u16, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let packet_id = reader.packet_id()?;
        let (reason, properties) = read_reason_and_properties(version, place, reader)?;
        Ok(Self { packet_id, reason, properties })
    }

    pub(super) fn write(&self, version: Version, out: &mut impl Sink) {
        out.u16(self.packet_id.get());
        write_reason_and_properties(version, self.reason, &self.properties, out);
    }
}
