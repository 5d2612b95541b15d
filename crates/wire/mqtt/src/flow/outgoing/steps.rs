//! What a receiver answers, and what follows: the steps of an exchange that are due, and those that are not.

use super::{Completion, InFlight, Outgoing};
use crate::flow::{emit_ack, rest};
use crate::message::{Broken, wrong};
use crate::{Packet, PacketId, Qos, ReasonCode, Version};
use alloc::vec::Vec;

impl Outgoing {
    /// PUBACK: the exchange of a QoS 1 message is over. No completion for an identifier that is not under way: it is left
    /// over from before, and nothing is to be done.
    ///
    /// # Errors
    /// The message is of QoS 2.
    pub(crate) fn acknowledged(
        &mut self,
        packet_id: PacketId,
        reason: ReasonCode,
    ) -> Result<Option<Completion>, Broken> {
        match self.flight(packet_id) {
            Some(InFlight { qos: Qos::ExactlyOnce, .. }) => Err(wrong("PUBACK for a QoS 2 message (section 4.3.3)")),
            Some(_) | None => Ok(self.finish(packet_id, reason)),
        }
    }

    /// PUBREC: PUBREL follows, or an error ends the exchange ([MQTT-4.3.3-4]).
    ///
    /// # Errors
    /// The message is of QoS 1.
    pub(crate) fn received(
        &mut self,
        version: Version,
        packet_id: PacketId,
        reason: ReasonCode,
        out: &mut Vec<u8>,
    ) -> Result<Option<Completion>, Broken> {
        if reason.is_error() && self.flight(packet_id).is_none_or(|flight| flight.qos == Qos::ExactlyOnce) {
            return Ok(self.finish(packet_id, reason));
        }
        let Some(flight) = self.in_flight.iter_mut().find(|flight| flight.packet_id == packet_id) else {
            emit_ack(Packet::Pubrel, version, packet_id, ReasonCode::PacketIdentifierNotFound, out);
            return Ok(None);
        };
        if flight.qos != Qos::ExactlyOnce {
            return Err(wrong("PUBREC for a QoS 1 message (section 4.3.2)"));
        }
        if flight.recorded.serial > 0 && flight.delivery.is_some() {
            // PUBREL follows once it is safe that no PUBLISH will.
            flight.recorded.change = self.changes.received(flight.recorded.serial);
        }
        flight.delivery = None;
        if flight.recorded.change <= self.changes.settled() {
            emit_ack(Packet::Pubrel, version, packet_id, ReasonCode::Success, out);
        }
        Ok(None)
    }

    /// PUBCOMP: the exchange of a QoS 2 message is over.
    ///
    /// # Errors
    /// PUBREC has not come, or the message is of QoS 1.
    pub(crate) fn completed(&mut self, packet_id: PacketId, reason: ReasonCode) -> Result<Option<Completion>, Broken> {
        if self.flight(packet_id).is_some_and(|flight| flight.delivery.is_some()) {
            return Err(wrong("PUBCOMP for a message without PUBREL (section 4.3.3)"));
        }
        // Section 3.7.2.1: where PUBREL is sent again it may be known no more, which is no error. PUBREC has come.
        let known_no_more = reason == ReasonCode::PacketIdentifierNotFound;
        let reason = if known_no_more { ReasonCode::Success } else { reason };
        Ok(self.finish(packet_id, reason))
    }

    fn flight(&self, packet_id: PacketId) -> Option<&InFlight> {
        self.in_flight.iter().find(|flight| flight.packet_id == packet_id)
    }

    fn finish(&mut self, packet_id: PacketId, reason: ReasonCode) -> Option<Completion> {
        let at = self.in_flight.iter().position(|flight| flight.packet_id == packet_id)?;
        let InFlight { token, recorded, .. } = self.in_flight.remove(at)?;
        rest(&mut self.in_flight);
        self.changes.done(recorded.serial);
        Some(Completion { token, reason })
    }
}
