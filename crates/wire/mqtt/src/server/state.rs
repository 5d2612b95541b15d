//! What of a session outlives its connections.

use super::ServerSession;
use crate::flow::{Incoming, Outgoing, OutgoingLimits};
use crate::message::Delivery;
use crate::{PacketId, Qos, ReasonCode, SessionChange, Version};
use alloc::vec::Vec;

/// What of a session outlives a connection: messages under way and queued. A persistent session's owner takes it
/// from one [`crate::ServerSession`], queues messages while the client is away, and hands it to the next.
#[derive(Debug, Default)]
pub struct SessionState {
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    /// QoS 0 messages that went from the queue to make room, with their tags.
    pub(super) displaced: Vec<(u64, Delivery)>,
}

/// What may wait for a client that is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwayLimits {
    /// Messages.
    pub messages: usize,
    /// Bytes, with 64 for each message's bookkeeping.
    pub bytes: usize,
}

impl SessionState {
    /// Queues a message while the client is away, and says how many of the oldest that wait had to go for it. What
    /// was sent and not acknowledged stays.
    pub fn deliver(&mut self, delivery: Delivery, tag: u64, limits: AwayLimits) -> u64 {
        let AwayLimits { messages, bytes } = limits;
        self.outgoing.push_away(delivery, tag, false, OutgoingLimits { messages, bytes })
    }

    /// The same with a [`SessionChange`] of it, where changes are recorded.
    pub fn deliver_kept(&mut self, delivery: Delivery, tag: u64, limits: AwayLimits) -> u64 {
        let AwayLimits { messages, bytes } = limits;
        self.outgoing.push_away(delivery, tag, true, OutgoingLimits { messages, bytes })
    }

    /// Counts a message for the client that there was no room for.
    pub const fn lose(&mut self) {
        self.outgoing.lose();
    }

    /// QoS 1 and 2 messages that the client was to get and never will, over all its connections: there was no room, their
    /// expiry passed, or they were longer than the client takes.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.outgoing.lost()
    }

    /// Puts back what was pending for the session when the server ended, oldest first: a message, or none where its
    /// client has it and PUBREL is due. One that may have been `sent` goes out with DUP.
    pub fn restore_pending(
        &mut self,
        serial: u64,
        packet_id: PacketId,
        qos: Qos,
        delivery: Option<Delivery>,
        sent: bool,
    ) {
        self.outgoing.restore(serial, packet_id, qos, delivery, sent);
    }

    /// Puts back a QoS 2 message of the client that was taken when the server ended, and not released. Where it is not
    /// `sure` that all was done with it, the owner hears of it when it comes again ([`crate::PublishRequest::again`]).
    pub fn restore_held(&mut self, packet_id: PacketId, sure: bool) {
        self.incoming.restore(packet_id, sure);
    }

    /// Whether changes are recorded from here on: the session is to outlive the server.
    pub fn record_changes(&mut self, on: bool) {
        self.outgoing.changes.keep(on);
    }

    /// What has changed since the last time, and the number of the last change.
    pub fn take_changes(&mut self) -> (Vec<SessionChange>, u64) {
        self.outgoing.changes.take()
    }

    /// The changes up to this one are durable, or (not `kept`) cannot be made so.
    pub fn settle(&mut self, upto: u64, kept: bool) {
        // Nobody is here to be answered: what is due is sent when the session goes on.
        self.settle_into(Version::V5, upto, kept, &mut Vec::new());
    }

    pub(super) fn settle_into(&mut self, version: Version, upto: u64, kept: bool, out: &mut Vec<u8>) {
        self.outgoing.settle(version, upto, kept, out);
        self.incoming.settle(version, upto, out);
    }

    /// Drops the messages that wait but for those that may stay, as when rights have changed, and says how many went.
    /// What was sent and not acknowledged is completed all the same.
    pub fn keep_only(&mut self, may_stay: impl FnMut(&Delivery) -> bool) -> u64 {
        self.outgoing.keep_only(may_stay)
    }

    /// Answers a message of the client's that came before it was away. When it is sent again, it gets that answer
    /// ([MQTT-4.3.3-10]), or is taken as new where that is an error.
    pub fn answer(&mut self, version: Version, packet_id: PacketId, reason: ReasonCode) {
        self.incoming.acknowledge(version, packet_id, reason, "", &mut Vec::new());
    }

    /// Messages that wait, and QoS 1 and 2 messages that were sent and are not acknowledged.
    #[must_use]
    pub fn backlog(&self) -> (usize, usize) {
        (self.outgoing.pending(), self.outgoing.in_flight())
    }

    /// Bytes of the messages that wait, with 64 for each message's bookkeeping.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.outgoing.pending_bytes()
    }

    /// What the session, which has ended, did not get and another may get in its place (section 4.8.2), with the tag
    /// of each: what waited, and what was sent with QoS 1 and not acknowledged.
    pub fn undelivered(self) -> impl Iterator<Item = (u64, Delivery)> {
        self.outgoing.undelivered()
    }
}

impl ServerSession {
    pub(super) fn limits(&self) -> OutgoingLimits {
        OutgoingLimits { messages: self.config.pending_max, bytes: self.config.pending_bytes_max }
    }

    /// Whether the queue has room for a message without dropping another. One that is empty has room for any.
    #[must_use]
    pub fn can_queue(&self, delivery: &Delivery) -> bool {
        self.is_open() && self.state.as_ref().is_none_or(|state| state.outgoing.has_room(delivery, self.limits()))
    }

    /// The QoS 0 messages that went from the queue to make room since the last time, with their tags; they are the owner's from
    /// here on, and not counted any longer.
    pub fn take_displaced(&mut self) -> Vec<(u64, Delivery)> {
        let displaced = self.state.as_mut().map(|state| core::mem::take(&mut state.displaced)).unwrap_or_default();
        if let Some(counters) = &mut self.counters {
            counters.dropped_full -= displaced.len() as u64;
        }
        displaced
    }

    /// Whether [`ServerSession::take_displaced`] gives any.
    #[must_use]
    pub fn has_displaced(&self) -> bool {
        self.state.as_ref().is_some_and(|state| !state.displaced.is_empty())
    }

    /// Queues a message for a session whose connection is over while its owner still has it here, as
    /// [`SessionState::deliver`] does, or `keep` [`SessionState::deliver_kept`], while the client is away.
    pub fn deliver_closed(&mut self, delivery: Delivery, tag: u64, keep: bool, limits: AwayLimits) -> u64 {
        let AwayLimits { messages, bytes } = limits;
        let outgoing = &mut self.state.get_or_insert_default().outgoing;
        outgoing.push_away(delivery, tag, keep, OutgoingLimits { messages, bytes })
    }

    /// As [`SessionState::lose`], while the client is here.
    pub fn lose(&mut self) {
        self.state.get_or_insert_default().lose();
    }

    /// As [`SessionState::lost`], while the client is here.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.lost())
    }

    /// Whether something has changed of a session that records its changes.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.state.as_ref().is_some_and(|state| !state.outgoing.changes.is_empty())
    }

    /// As [`SessionState::record_changes`], while the client is here.
    pub fn record_changes(&mut self, on: bool) {
        if on || self.state.is_some() {
            self.state.get_or_insert_default().record_changes(on);
        }
    }

    /// As [`SessionState::take_changes`], while the client is here.
    pub fn take_changes(&mut self) -> (Vec<SessionChange>, u64) {
        self.state.as_mut().map_or((Vec::new(), 0), |state| state.take_changes())
    }

    /// As [`SessionState::settle`], while the client is here: what waited goes out.
    pub fn settle(&mut self, upto: u64, kept: bool) {
        let (version, is_open) = (self.version(), self.is_open());
        let Self { state: Some(state), control, .. } = self else { return };
        // Who has ended is sent what is due when the session goes on.
        let mut nowhere = Vec::new();
        state.settle_into(version, upto, kept, if is_open { control } else { &mut nowhere });
    }

    /// As [`SessionState::keep_only`], while the client is here.
    pub fn keep_only(&mut self, may_stay: impl FnMut(&Delivery) -> bool) -> u64 {
        self.state.as_mut().map_or(0, |state| state.keep_only(may_stay))
    }
}
