//! Messages that arrive: acknowledged in the order in which they came, and QoS 2 ones only once.

use super::session_changes::SessionChanges;
use super::{emit_ack, emit_ack_because, rest};
use crate::message::{Broken, wrong};
use crate::{Guarantee, Packet, PacketId, Qos, ReasonCode, Version};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// What to do with a message that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Hand it to the owner.
    New,
    /// It was handed over before the server ended, which may not have done all with it: hand it to the owner as such.
    Again,
    /// It was handed over before: nothing to do but what was written already.
    Duplicate,
    /// The sender has more unacknowledged messages under way than it may.
    TooMany,
}

/// The receiving half of an exchange.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// Handed to the owner, not answered; in the order of arrival ([MQTT-4.6.0-2], [MQTT-4.6.0-3]).
    waiting: VecDeque<Waiting>,
    /// QoS 2, answered with PUBREC; PUBREL to come.
    held: Vec<PacketId>,
    /// The same of before the server ended; the owner is to hear of those that come again.
    unsure: Vec<PacketId>,
    /// PUBREL has come; PUBCOMP waits for its change to be durable, or else a message with the same identifier could be
    /// taken for this one after the server has ended.
    releasing: Vec<(PacketId, u64)>,
}

#[derive(Debug)]
struct Waiting {
    packet_id: PacketId,
    qos: Qos,
    answer: Option<ReasonCode>,
    /// Why it was refused, in words; often empty.
    words: Box<str>,
}

impl Incoming {
    /// Takes note of a message; `max` of them may be unacknowledged.
    pub(crate) fn receive(&mut self, version: Version, guarantee: Guarantee, max: usize, out: &mut Vec<u8>) -> Arrival {
        let Some(packet_id) = guarantee.packet_id() else { return Arrival::New };
        let qos = guarantee.qos();
        if qos == Qos::ExactlyOnce {
            // [MQTT-4.3.3-10]: until PUBREL, the same identifier is the same message.
            if self.held.contains(&packet_id) {
                emit_ack(Packet::Pubrec, version, packet_id, ReasonCode::Success, out);
                return Arrival::Duplicate;
            }
            if self.waiting.iter().any(|w| w.packet_id == packet_id && w.qos == qos) {
                return Arrival::Duplicate;
            }
            if take(&mut self.unsure, packet_id) {
                self.waiting.push_back(Waiting { packet_id, qos, answer: None, words: Box::default() });
                return Arrival::Again;
            }
        }
        if self.under_way() >= max {
            return Arrival::TooMany;
        }
        self.waiting.push_back(Waiting { packet_id, qos, answer: None, words: Box::default() });
        Arrival::New
    }

    /// The owner has taken a message, or refused it with words that fit: answers it and all that waited behind it.
    pub(crate) fn acknowledge(
        &mut self,
        version: Version,
        packet_id: PacketId,
        reason: ReasonCode,
        words: &str,
        out: &mut Vec<u8>,
    ) {
        let unanswered = self.waiting.iter_mut().find(|w| w.packet_id == packet_id && w.answer.is_none());
        let Some(waiting) = unanswered else { return };
        (waiting.answer, waiting.words) = (Some(reason), words.into());
        while let Some(Waiting { packet_id, qos, answer: Some(reason), words }) = self.waiting.front() {
            match qos {
                Qos::AtMostOnce => {}
                Qos::AtLeastOnce => emit_ack_because(Packet::Puback, version, *packet_id, *reason, words, out),
                Qos::ExactlyOnce => {
                    emit_ack_because(Packet::Pubrec, version, *packet_id, *reason, words, out);
                    // [MQTT-4.3.3-8] and figure 4.3: an error in PUBREC ends the exchange. 3.1.1 knows no errors.
                    if !reason.is_error() || version == Version::V311 {
                        self.held.push(*packet_id);
                    }
                }
            }
            self.waiting.pop_front();
        }
        rest(&mut self.waiting);
    }

    /// PUBREL: the identifier is free again ([MQTT-4.3.3-11]), and PUBCOMP says so once that is safe.
    ///
    /// # Errors
    /// The message was not answered with PUBREC.
    pub(crate) fn release(
        &mut self,
        version: Version,
        packet_id: PacketId,
        changes: &mut SessionChanges,
        out: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        let held = take(&mut self.held, packet_id) || take(&mut self.unsure, packet_id);
        let reason = if held { ReasonCode::Success } else { ReasonCode::PacketIdentifierNotFound };
        if held {
            if changes.is_on() {
                self.releasing.push((packet_id, changes.released(packet_id)));
                return Ok(());
            }
        } else if self.releasing.iter().any(|(id, _)| *id == packet_id) {
            return Ok(());
        } else if self.waiting.iter().any(|waiting| waiting.packet_id == packet_id) {
            return Err(wrong("PUBREL for a message without PUBREC [MQTT-4.3.3-4]"));
        }
        emit_ack(Packet::Pubcomp, version, packet_id, reason, out);
        Ok(())
    }

    /// Changes up to this one are settled.
    pub(crate) fn settle(&mut self, version: Version, upto: u64, out: &mut Vec<u8>) {
        self.releasing.retain(|(packet_id, change)| {
            if *change <= upto {
                emit_ack(Packet::Pubcomp, version, *packet_id, ReasonCode::Success, out);
            }
            *change > upto
        });
    }

    /// A message that was taken before the server ended, and was not released; whether the owner has done all with it.
    pub(crate) fn restore(&mut self, packet_id: PacketId, sure: bool) {
        if sure { self.held.push(packet_id) } else { self.unsure.push(packet_id) }
    }

    /// Messages that count against the receive maximum.
    pub(crate) fn under_way(&self) -> usize {
        self.waiting.len() + self.held.len() + self.unsure.len() + self.releasing.len()
    }

    /// The connection is gone. What was answered is remembered, and so is what the owner has of QoS 2, or will have: when it
    /// comes again it is the same message. What was not answered of QoS 1 comes again as another.
    pub(crate) fn disconnect(&mut self) {
        self.waiting.retain(|waiting| waiting.qos == Qos::ExactlyOnce);
        // What waited for the answer of one before it waits no more; one that was refused is new when it comes again.
        while let Some(Waiting { packet_id, answer: Some(reason), .. }) = self.waiting.front() {
            if !reason.is_error() {
                self.held.push(*packet_id);
            }
            self.waiting.pop_front();
        }
        rest(&mut self.waiting);
    }

    /// The owner has not looked at this one: when it comes again it is what it was.
    pub(crate) fn forget(&mut self, packet_id: PacketId, again: bool) {
        self.waiting.retain(|waiting| waiting.packet_id != packet_id);
        if again {
            self.unsure.push(packet_id);
        }
    }
}

/// Whether an identifier was in the list; it is not any longer.
fn take(list: &mut Vec<PacketId>, packet_id: PacketId) -> bool {
    let found = list.iter().position(|id| *id == packet_id);
    found.map(|at| list.swap_remove(at)).is_some()
}
