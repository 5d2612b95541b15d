//! The exchange of QoS 1 and 2 messages (MQTT 5.0 section 4.3), the same for server and client.

mod incoming;
mod outgoing;

pub(crate) use incoming::{Arrival, Incoming};
pub(crate) use outgoing::{Completion, Outgoing, OutgoingLimits, Polled};

use crate::{Ack, Packet, PacketId, ReasonCode, Version};
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
    // Four octets at most: never longer than MQTT can say.
    let _ = wrap(Ack::new(packet_id, reason)).emit(version, out);
}
