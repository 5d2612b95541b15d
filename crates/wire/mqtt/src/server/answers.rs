//! Answers to what a client asked for or sent, with the reasons in words where it wants them.

use super::{Phase, ServerSession};
use crate::{Packet, PacketId, Properties, Property, ReasonCode, Suback, Text, Unsuback};

/// Bytes of an answer besides its words and its list of reasons.
const FIXED_BYTES: usize = 16;

impl ServerSession {
    /// Whether it has something to say to the client.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.control.is_empty() || self.backlog().0 > 0
    }

    /// The longest frame that may be written straight to the client ([`ServerSession::can_take_shared_frame`]); none where none
    /// may be.
    #[must_use]
    pub fn shared_frame_max(&self) -> Option<usize> {
        let may = self.phase == Phase::Open { greeted: true };
        may.then(|| usize::try_from(self.link.packet_bytes_max).unwrap_or(usize::MAX))
    }

    /// Answers a SUBSCRIBE: one reason a subscription, in their order.
    pub fn suback(&mut self, packet_id: PacketId, reasons: &[ReasonCode]) {
        self.suback_because(packet_id, reasons, "");
    }

    /// The same with words, which the client is told where it wants them and takes a packet with them.
    pub fn suback_because(&mut self, packet_id: PacketId, reasons: &[ReasonCode], text: &str) {
        let words = if self.may_tell(text, reasons.len()) { text } else { "" };
        let (properties, reasons) = (self.reason_text(words, reasons.len()), reasons.to_vec());
        self.answer(&Packet::Suback(Suback { packet_id, properties, reasons }));
    }

    /// Answers an UNSUBSCRIBE: one reason a filter, in their order.
    pub fn unsuback(&mut self, packet_id: PacketId, reasons: &[ReasonCode]) {
        self.unsuback_because(packet_id, reasons, "");
    }

    /// The same with words, which the client is told where it wants them and takes a packet with them
    /// ([MQTT-3.11.2-1]).
    pub fn unsuback_because(&mut self, packet_id: PacketId, reasons: &[ReasonCode], text: &str) {
        let words = if self.may_tell(text, reasons.len()) { text } else { "" };
        let (properties, reasons) = (self.reason_text(words, reasons.len()), reasons.to_vec());
        self.answer(&Packet::Unsuback(Unsuback { packet_id, properties, reasons }));
    }

    /// Sends an answer whose length the client decides, unless it takes no packet that long ([MQTT-3.1.2-24]): then
    /// the exchange cannot be finished.
    pub(super) fn answer(&mut self, packet: &Packet) {
        if self.fits(packet) { self.send(packet) } else { self.disconnect(ReasonCode::PacketTooLarge, "") }
    }

    pub(super) fn fits(&self, packet: &Packet) -> bool {
        u32::try_from(packet.len(self.link.version)).is_ok_and(|bytes| bytes <= self.link.packet_bytes_max)
    }

    /// Answers a QoS 1 or 2 message, once it is safe, or with why it was not taken. The client is told in the order
    /// in which its messages came ([MQTT-4.6.0-2]); 3.1.1 has no way to be told a refusal ([MQTT-3.3.5-2] there).
    pub fn acknowledge(&mut self, packet_id: PacketId, reason: ReasonCode) {
        self.acknowledge_because(packet_id, reason, "");
    }

    /// The same with words, which the client is told where it wants them and takes a packet with them
    /// ([MQTT-3.1.2-29], [MQTT-3.4.2-2], [MQTT-3.5.2-2]).
    pub fn acknowledge_because(&mut self, packet_id: PacketId, reason: ReasonCode, text: &str) {
        let version = self.link.version;
        if self.is_open() {
            let words = if self.may_tell(text, 0) { text } else { "" };
            let incoming = &mut self.state.get_or_insert_default().incoming;
            incoming.acknowledge(version, packet_id, reason, words, &mut self.control);
        } else if let Some(state) = &mut self.state {
            state.answer(version, packet_id, reason);
        }
    }

    /// Ends the connection because a message was not taken, where the version has no answer that says so: when it comes again it
    /// is new.
    pub fn disconnect_refusing(&mut self, packet_id: PacketId, reason: ReasonCode, text: &str) {
        if let Some(state) = &mut self.state {
            state.incoming.forget(packet_id, false);
        }
        self.disconnect(reason, text);
    }

    /// Whether words beside so many reasons may be in a packet other than CONNACK and DISCONNECT.
    pub(super) fn may_tell(&self, text: &str, reasons: usize) -> bool {
        self.link.problem_information && self.has_room(text, reasons)
    }

    fn has_room(&self, text: &str, reasons: usize) -> bool {
        usize::try_from(self.link.packet_bytes_max).is_ok_and(|max| text.len() + reasons + FIXED_BYTES <= max)
    }

    /// A reason in words, where there are any and the client takes a packet with them ([MQTT-3.14.2-3]).
    pub(super) fn reason_text(&self, text: &str, reasons: usize) -> Properties {
        let told = !text.is_empty() && self.has_room(text, reasons);
        told.then(|| Property::ReasonString(Text::truncated(text))).into_iter().collect()
    }
}
