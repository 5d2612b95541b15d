//! Messages that an owner writes by itself, past the queue, and what it agreed on with the client for them.

use super::{Phase, ServerSession};
use crate::message::Aside;
use crate::{Packet, PacketId, Property, ReasonCode, Suback, Text};
use alloc::vec::Vec;
use tieline_core::Instant;

impl ServerSession {
    /// Appends a QoS 0 message that goes past the queue, with the alias that its owner chose from
    /// [`ServerSession::own_aliases`]; false where the client is not to have it: it takes no packet as long, or the
    /// message has expired.
    pub fn emit_aside(&self, now: Instant, aside: &Aside<'_>, out: &mut Vec<u8>) -> bool {
        self.phase == Phase::Open { greeted: true }
            && aside.emit(self.link.version, now, self.link.packet_bytes_max, out)
    }

    /// The topic aliases that the owner may give out in [`ServerSession::emit_aside`].
    #[must_use]
    pub fn own_aliases(&self) -> core::ops::RangeInclusive<u16> {
        self.config.topic_alias_out_max.saturating_add(1)..=self.link.alias_max
    }

    /// Answers a SUBSCRIBE as `suback_because` does, with a user property. Words go where the client takes no packet
    /// with both.
    pub fn suback_agreeing(&mut self, packet_id: PacketId, reasons: &[ReasonCode], text: &str, agreed: (Text, Text)) {
        let others = reasons.len() + agreed.0.len() + agreed.1.len();
        let text = if self.may_tell(text, others) { text } else { "" };
        let words = self.reason_text(text, others);
        let properties = words.with(&Property::UserProperty(agreed));
        self.answer(&Packet::Suback(Suback { packet_id, properties, reasons: reasons.to_vec() }));
    }
}
