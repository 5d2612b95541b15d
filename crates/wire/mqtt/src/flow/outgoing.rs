//! Messages to be sent: a bounded queue, a window of those under way, and what each waits for.
//!
//! A session that outlives the server keeps [`SessionChanges`] of its messages: a QoS 2 message goes out, and PUBREL
//! does, once the its change is durable. Or else a server that ends there would send a message twice.

mod steps;

use super::identifiers::Identifiers;
use super::session_changes::SessionChanges;
use super::{emit_ack, rest};
use crate::message::{Delivery, Emitted, Numbered, emit_message};
use crate::{Guarantee, Message, Packet, PacketId, Qos, ReasonCode, Version};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use tieline_core::Instant;

/// Bounds of the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingLimits {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
}

/// The sending half of an exchange.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    window: u16,
    ids: Identifiers,
    in_flight: VecDeque<InFlight>,
    pending: VecDeque<Pending>,
    pending_bytes: usize,
    /// How many of `pending` are of QoS 0.
    loose: usize,
    /// Of what waits, messages and bytes that waited when the connection began: the client has room for as many
    /// besides.
    inherited: (usize, usize),
    /// QoS 1 and 2 messages that the client was to get and never will.
    lost: u64,
    /// SUBSCRIBE and UNSUBSCRIBE under way (a client's).
    requests: Vec<(PacketId, Request)>,
    /// What of a session is to outlive the server.
    pub(crate) changes: SessionChanges,
}

/// What a client asks for with a packet identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Subscribe,
    Unsubscribe,
}

#[derive(Debug)]
struct Pending {
    delivery: Delivery,
    token: u64,
    recorded: Recorded,
    /// Whether it may have been sent before.
    again: bool,
}

/// What is recorded of a message.
#[derive(Clone, Copy, Debug, Default)]
struct Recorded {
    /// Its number in the session; 0 where nothing is recorded of it.
    serial: u64,
    /// What its packets are known by, where that is decided.
    packet_id: Option<PacketId>,
    /// The change that has to be durable before it goes on.
    change: u64,
    /// Whether it says that the message may have been sent.
    sent: bool,
}

#[derive(Debug)]
struct InFlight {
    packet_id: PacketId,
    qos: Qos,
    token: u64,
    /// Kept until PUBACK or PUBREC, for a session that goes on over another connection; gone once PUBREL was sent.
    delivery: Option<Delivery>,
    /// To be sent again on this connection ([MQTT-4.4.0-1]).
    again: bool,
    recorded: Recorded,
}

/// The end of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) token: u64,
    pub(crate) reason: ReasonCode,
}

/// What [`Outgoing::poll`] did with the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// Nothing can go.
    Idle,
    /// Written; a QoS 0 message is complete with that.
    Sent { token: u64, qos: Qos },
    /// Dropped: its expiry has passed.
    Expired { token: u64 },
    /// Dropped: larger than the peer takes ([MQTT-3.1.2-25]).
    TooLarge { token: u64 },
    /// Dropped: the peer said that it takes no such messages.
    Refused { token: u64, reason: ReasonCode },
}

/// What the peer takes of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) qos_max: Qos,
    pub(crate) retain: bool,
}

impl Allowed {
    /// Everything, as servers may send.
    pub(crate) const ALL: Self = Self { qos_max: Qos::ExactlyOnce, retain: true };

    /// Why a message may not go ([MQTT-3.2.2-11], [MQTT-3.2.2-14]); none where it may.
    fn refuses(self, delivery: &Delivery) -> Option<ReasonCode> {
        if delivery.qos > self.qos_max {
            return Some(ReasonCode::QosNotSupported);
        }
        (delivery.retain && !self.retain).then_some(ReasonCode::RetainNotSupported)
    }
}

impl Outgoing {
    /// Sets how many QoS 1 and 2 messages may be under way.
    pub(crate) fn open(&mut self, window: u16) {
        self.window = window;
    }

    /// Queues a message, and records it where it is to be kept. A full queue drops its oldest QoS 0 messages and gives
    /// them back with their tokens; a QoS 0 message for which there is still no room is dropped itself.
    ///
    /// # Errors
    /// The queue is full of QoS 1 and 2 messages.
    pub(crate) fn push(
        &mut self,
        delivery: Delivery,
        token: u64,
        keep: bool,
        limits: OutgoingLimits,
        mut dropped: impl FnMut(u64, Option<Delivery>),
    ) -> Result<(), ()> {
        let (messages, bytes) = self.inherited;
        self.inherited = (messages.min(self.pending.len()), bytes.min(self.pending_bytes));
        while !self.has_room(&delivery, limits) {
            let Some(oldest) = self.pending.iter().position(|p| p.delivery.qos == Qos::AtMostOnce) else {
                if delivery.qos != Qos::AtMostOnce {
                    return Err(());
                }
                dropped(token, None);
                return Ok(());
            };
            if let Some(gone) = self.take_pending(oldest) {
                dropped(gone.token, Some(gone.delivery));
            }
        }
        let goes_now = self.pending.is_empty() && self.is_open();
        self.queue(delivery, token, keep, goes_now);
        Ok(())
    }

    /// Queues a message of a session whose client is away; what is oldest goes to make room. How many went.
    pub(crate) fn push_away(&mut self, delivery: Delivery, token: u64, keep: bool, limits: OutgoingLimits) -> u64 {
        let mut dropped = 0;
        self.inherited = (0, 0);
        while !self.has_room(&delivery, limits)
            && let Some(gone) = self.take_pending(0)
        {
            self.changes.done(gone.recorded.serial);
            dropped += 1;
        }
        self.lost += dropped;
        self.queue(delivery, token, keep, false);
        dropped
    }

    /// Counts a message that the client was to get and that had no room.
    pub(crate) const fn lose(&mut self) {
        self.lost += 1;
    }

    /// QoS 1 and 2 messages that the client was to get and never will.
    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Puts back what was pending for a session when the server ended, oldest first: a message, or none where its
    /// receiver has it and PUBREL is due; and whether it may have been `sent`.
    pub(crate) fn restore(
        &mut self,
        serial: u64,
        packet_id: PacketId,
        qos: Qos,
        delivery: Option<Delivery>,
        sent: bool,
    ) {
        self.ids.forget();
        let recorded = Recorded { serial, packet_id: Some(packet_id), change: 0, sent };
        self.changes.goes_on_after(serial);
        match delivery {
            Some(delivery) => {
                self.pending_bytes += weight(&delivery);
                self.pending.push_back(Pending { delivery, token: 0, recorded, again: sent });
            }
            None => {
                self.in_flight.push_back(InFlight { packet_id, qos, token: 0, delivery: None, again: true, recorded })
            }
        }
    }

    /// Drops the messages that wait and were never sent, but for those that may stay; how many went.
    pub(crate) fn keep_only(&mut self, mut may_stay: impl FnMut(&Delivery) -> bool) -> u64 {
        let mut gone = 0;
        for waiting in core::mem::take(&mut self.pending) {
            let delivery = &waiting.delivery;
            if may_stay(delivery) {
                self.pending.push_back(waiting);
                continue;
            }
            gone += 1;
            self.pending_bytes = self.pending_bytes.saturating_sub(weight(delivery));
            self.loose -= usize::from(delivery.qos == Qos::AtMostOnce);
            self.changes.done(waiting.recorded.serial);
        }
        gone
    }

    fn queue(&mut self, delivery: Delivery, token: u64, keep: bool, goes_now: bool) {
        self.pending_bytes += weight(&delivery);
        self.loose += usize::from(delivery.qos == Qos::AtMostOnce);
        let mut recorded = Recorded::default();
        if keep && self.changes.is_on() && delivery.qos != Qos::AtMostOnce {
            // The identifier is decided here, so that it is the same after the server has ended.
            if let Some(packet_id) = self.free_id() {
                let (serial, change) = self.changes.pending(packet_id, delivery.clone(), goes_now);
                recorded = Recorded { serial, packet_id: Some(packet_id), change, sent: goes_now };
            }
        }
        self.pending.push_back(Pending { delivery, token, recorded, again: false });
    }

    /// The changes up to this one are durable, or (not `kept`) cannot be made so: what waited for them goes on, but for
    /// QoS 2 messages whose sender is told that they were not taken.
    pub(crate) fn settle(&mut self, version: Version, upto: u64, kept: bool, out: &mut Vec<u8>) {
        let before = self.changes.settle(upto);
        if !kept {
            let unsafe_one =
                |p: &Pending| p.delivery.qos == Qos::ExactlyOnce && (before + 1..=upto).contains(&p.recorded.change);
            while let Some(at) = self.pending.iter().position(unsafe_one) {
                let gone = self.take_pending(at).map_or(0, |gone| gone.recorded.serial);
                self.changes.done(gone);
            }
        }
        for flight in &self.in_flight {
            if flight.delivery.is_none() && !flight.again && (before + 1..=upto).contains(&flight.recorded.change) {
                emit_ack(Packet::Pubrel, version, flight.packet_id, ReasonCode::Success, out);
            }
        }
    }

    fn take_pending(&mut self, at: usize) -> Option<Pending> {
        let taken = self.pending.remove(at)?;
        self.pending_bytes = self.pending_bytes.saturating_sub(weight(&taken.delivery));
        self.loose -= usize::from(taken.delivery.qos == Qos::AtMostOnce);
        rest(&mut self.pending);
        Some(taken)
    }

    pub(crate) fn has_room(&self, delivery: &Delivery, limits: OutgoingLimits) -> bool {
        let (messages, bytes) = self.inherited;
        let limits = OutgoingLimits {
            messages: limits.messages.saturating_add(messages),
            bytes: limits.bytes.saturating_add(bytes),
        };
        let fits = self.pending_bytes + weight(delivery) <= limits.bytes || self.pending.is_empty();
        // What is recorded needs an identifier.
        let has_id = !self.changes.is_on() || self.pending.len() + self.in_flight.len() < usize::from(u16::MAX);
        self.pending.len() < limits.messages && fits && has_id
    }

    /// Appends the next message that may go.
    pub(crate) fn poll(
        &mut self,
        version: Version,
        now: Instant,
        (bytes_max, allowed): (u32, Allowed),
        aliases: Option<&mut Numbered>,
        out: &mut Vec<u8>,
    ) -> Polled {
        if let Some(at) = self.next_again() {
            return self.send_again(at, version, now, bytes_max, out);
        }
        let Some(next) = self.next_pending() else { return Polled::Idle };
        let known = self.pending.get(next).map(|next| (next.delivery.qos, next.recorded.packet_id));
        let (qos, known) = known.unwrap_or((Qos::AtMostOnce, None));
        let packet_id = if qos == Qos::AtMostOnce { None } else { known.or_else(|| self.free_id()) };
        if qos != Qos::AtMostOnce && packet_id.is_none() {
            return Polled::Idle;
        }
        let Some(Pending { delivery, token, recorded, again: dup }) = self.take_pending(next) else {
            return Polled::Idle;
        };
        if let Some(reason) = allowed.refuses(&delivery) {
            self.give_up(qos, recorded.serial);
            return Polled::Refused { token, reason };
        }
        let guarantee = match (qos, packet_id) {
            (Qos::AtMostOnce, _) | (_, None) => Guarantee::AtMostOnce,
            (Qos::AtLeastOnce, Some(packet_id)) => Guarantee::AtLeastOnce { packet_id, dup },
            (Qos::ExactlyOnce, Some(packet_id)) => Guarantee::ExactlyOnce { packet_id, dup },
        };
        let Delivery { message, retain, subscription_ids, .. } = &delivery;
        match emit_message(version, message, guarantee, *retain, subscription_ids, aliases, now, bytes_max, out) {
            Emitted::Whole => {}
            Emitted::Expired => {
                self.give_up(qos, recorded.serial);
                return Polled::Expired { token };
            }
            Emitted::TooLarge => {
                self.give_up(qos, recorded.serial);
                return Polled::TooLarge { token };
            }
        }
        if let Some(packet_id) = packet_id {
            if recorded.serial > 0 && !recorded.sent {
                self.changes.sent(recorded.serial);
            }
            let recorded = Recorded { change: 0, ..recorded };
            self.in_flight.push_back(InFlight {
                packet_id,
                qos,
                token,
                delivery: Some(delivery),
                again: false,
                recorded,
            });
        }
        Polled::Sent { token, qos }
    }

    /// The message that goes next: the oldest, or the oldest of QoS 0 where the window is closed for the others
    /// ([MQTT-4.9.0-2] holds those alone), or the oldest of them is not safe yet.
    fn next_pending(&self) -> Option<usize> {
        let settled = self.changes.settled();
        let waits = |p: &Pending| p.delivery.qos == Qos::ExactlyOnce && p.recorded.change > settled;
        if self.is_open() && !self.pending.front().is_some_and(waits) {
            return (!self.pending.is_empty()).then_some(0);
        }
        if self.loose == 0 {
            return None;
        }
        self.pending.iter().position(|p| p.delivery.qos == Qos::AtMostOnce)
    }

    /// Whether the window has room, and nothing is sent again before.
    fn is_open(&self) -> bool {
        self.in_flight.len() < usize::from(self.window) && self.in_flight.iter().all(|f| !f.again)
    }

    /// What is sent again next. The window of the new connection holds for it too ([MQTT-3.3.4-9]), but for PUBREL.
    fn next_again(&self) -> Option<usize> {
        let settled = self.changes.settled();
        let next = self.in_flight.iter().position(|f| f.again && f.recorded.change <= settled)?;
        let sent = self.in_flight.iter().filter(|f| !f.again).count();
        let is_release = self.in_flight.get(next).is_some_and(|f| f.delivery.is_none());
        (is_release || sent < usize::from(self.window)).then_some(next)
    }

    fn send_again(&mut self, at: usize, version: Version, now: Instant, bytes_max: u32, out: &mut Vec<u8>) -> Polled {
        let Some(flight) = self.in_flight.get_mut(at) else { return Polled::Idle };
        flight.again = false;
        let (packet_id, token, qos) = (flight.packet_id, flight.token, flight.qos);
        let Some(Delivery { message, retain, subscription_ids, .. }) = &flight.delivery else {
            emit_ack(Packet::Pubrel, version, packet_id, ReasonCode::Success, out);
            return Polled::Sent { token, qos };
        };
        let guarantee = match qos {
            Qos::AtMostOnce => Guarantee::AtMostOnce,
            Qos::AtLeastOnce => Guarantee::AtLeastOnce { packet_id, dup: true },
            Qos::ExactlyOnce => Guarantee::ExactlyOnce { packet_id, dup: true },
        };
        // It was sent in time once; its delivery has begun ([MQTT-3.3.2-5]), so that it may be sent again.
        let now = if message.is_expired(now) { message.received } else { now };
        match emit_message(version, message, guarantee, *retain, subscription_ids, None, now, bytes_max, out) {
            Emitted::Whole => return Polled::Sent { token, qos },
            Emitted::Expired | Emitted::TooLarge => {}
        }
        // The client takes smaller packets than before: it is done with ([MQTT-3.1.2-25]).
        let serial = self.in_flight.remove(at).map_or(0, |gone| gone.recorded.serial);
        self.give_up(qos, serial);
        Polled::TooLarge { token }
    }

    /// The receiver never gets a message.
    fn give_up(&mut self, qos: Qos, serial: u64) {
        self.lost += u64::from(qos != Qos::AtMostOnce);
        self.changes.done(serial);
    }

    /// An identifier for a SUBSCRIBE or UNSUBSCRIBE; none when all are under way.
    pub(crate) fn request(&mut self, kind: Request) -> Option<PacketId> {
        let packet_id = self.free_id()?;
        self.requests.push((packet_id, kind));
        Some(packet_id)
    }

    /// SUBACK or UNSUBACK: whether a request of this kind was under way with the identifier.
    pub(crate) fn answered(&mut self, packet_id: PacketId, kind: Request) -> bool {
        let at = self.requests.iter().position(|&request| request == (packet_id, kind));
        at.map(|at| self.requests.swap_remove(at)).is_some()
    }

    fn free_id(&mut self) -> Option<PacketId> {
        let Self { ids, in_flight, pending, requests, .. } = self;
        let taken = || {
            let queued = pending.iter().filter_map(|p| p.recorded.packet_id);
            in_flight.iter().map(|f| f.packet_id).chain(queued).chain(requests.iter().map(|(id, _)| *id))
        };
        ids.next(taken)
    }

    /// The session goes on over a new connection: what was under way is sent again. What waits has its place besides what
    /// comes, up to `most`: who comes again and again and reads nothing gets no more room each time.
    pub(crate) fn resume(&mut self, most: OutgoingLimits) {
        self.inherited = (self.pending.len().min(most.messages), self.pending_bytes.min(most.bytes));
        self.in_flight.iter_mut().for_each(|f| f.again = true);
    }

    /// The connection is gone: answers to requests will not come.
    pub(crate) fn disconnect(&mut self) {
        self.requests = Vec::new();
    }

    /// The session is gone: the tokens of what was under way.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = u64> + use<> {
        core::mem::take(&mut self.in_flight).into_iter().map(|f| f.token)
    }

    /// Drops what was not sent: its tokens.
    pub(crate) fn forget_pending(&mut self) -> impl Iterator<Item = u64> + use<> {
        self.pending_bytes = 0;
        core::mem::take(&mut self.pending).into_iter().map(|p| p.token)
    }

    /// The session is gone: what another session may be sent in its place, with the tokens. What was sent with QoS 2
    /// may have arrived, and goes to nobody else ([MQTT-4.8.2-5]).
    pub(crate) fn undelivered(self) -> impl Iterator<Item = (u64, Delivery)> {
        let sent = self.in_flight.into_iter().filter(|f| f.qos == Qos::AtLeastOnce);
        let sent = sent.filter_map(|f| f.delivery.map(|delivery| (f.token, delivery)));
        sent.chain(self.pending.into_iter().map(|p| (p.token, p.delivery)))
    }

    /// Bytes of the messages queued, with their bookkeeping.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Messages queued and not sent.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// QoS 1 and 2 messages sent and not completed.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
}

/// What a queued message costs: its bytes and the bookkeeping.
fn weight(delivery: &Delivery) -> usize {
    const OVERHEAD_BYTES: usize = 64;
    let Message { topic, payload, properties, .. } = &*delivery.message;
    payload.len() + topic.len() + properties.len() + OVERHEAD_BYTES
}
