//! The exchange of QoS 1 and 2 messages (MQTT 5.0 section 4.3), the same for server and client.

mod identifiers;
mod incoming;
mod outgoing;
mod session_changes;

pub(crate) use incoming::{Arrival, Incoming};
pub(crate) use outgoing::{Allowed, Completion, Outgoing, OutgoingLimits, Polled, Request};
pub use session_changes::SessionChange;

use crate::{Ack, Packet, PacketId, Property, ReasonCode, Text, Version};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Gives back the memory of a queue that has run empty, unless it is small.
fn rest<T>(queue: &mut VecDeque<T>) {
    const KEPT: usize = 8;
    if queue.is_empty() && queue.capacity() > KEPT {
        *queue = VecDeque::new();
    }
}

/// Appends a step of an exchange to `out`. Without words it is short enough for any peer.
fn emit_ack(wrap: fn(Ack) -> Packet, version: Version, packet_id: PacketId, reason: ReasonCode, out: &mut Vec<u8>) {
    emit_ack_because(wrap, version, packet_id, reason, "", out);
}

/// The same with words for 5.0, which the caller knows to fit.
fn emit_ack_because(
    wrap: fn(Ack) -> Packet,
    version: Version,
    packet_id: PacketId,
    reason: ReasonCode,
    words: &str,
    out: &mut Vec<u8>,
) {
    let told = (!words.is_empty() && version == Version::V5).then(|| Property::ReasonString(Text::truncated(words)));
    // Some bytes and a text: never longer than MQTT can say.
    let _ = wrap(Ack { packet_id, reason, properties: told.into_iter().collect() }).emit(version, out);
}
