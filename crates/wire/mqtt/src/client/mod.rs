//! A client's side of a connection, or of one after another: what is queued waits for the next.
//!
//! ```text
//!         connected            CONNACK
//!   Idle ──────────▶ Greeting ────────▶ Open ──▶ Closed ──(disconnected, connected)──▶ Greeting …
//! ```
//!
//! It knows no subscriptions beyond their answers: after a connection without a session of before, the owner
//! subscribes again.

mod event;
mod receive;

pub use event::{ClientConfig, ClientEnd, ClientEvent, Connected, PublishOutcome, Received};

use crate::flow::{Allowed, Completion, Incoming, Outgoing, OutgoingLimits, Polled, Request};
use crate::message::Aliases;
use crate::{
    Binary, Connect, Decoder, DeliverError, Delivery, Disconnect, Message, Packet, PacketId, Properties, Property,
};
use crate::{Qos, ReasonCode, Subscribe, SubscriptionFilter, SubscriptionId, SubscriptionOptions, Text, Unsubscribe};
use crate::{Version, cursor};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::{NonZeroU16, NonZeroU32};
use core::time::Duration;
use tieline_core::{Filter, Instant, Machine, Now};

/// Bytes that one `poll_transmit` writes before it leaves the rest to the next.
const TRANSMIT_BYTES: usize = 65_536;
/// Events that may wait before no more is sent or read.
const EVENTS_MAX: usize = 256;

/// A client's side of a connection.
#[derive(Debug)]
pub struct ClientSession {
    config: ClientConfig,
    phase: Phase,
    decoder: Decoder,
    /// Packets to be sent, other than messages.
    control: Vec<u8>,
    events: VecDeque<ClientEvent>,
    outgoing: Outgoing,
    incoming: Incoming,
    aliases: Aliases,
    next_token: u64,
    /// Bytes of the largest packet that the server takes.
    peer_bytes_max: u32,
    /// What it takes of messages.
    allowed: Allowed,
    keep_alive_s: u16,
    last_sent: Instant,
    /// PINGREQ was sent, nothing came since: until when.
    ping_deadline: Option<Instant>,
    dropped_full: u64,
    /// Whether the owner takes no more for now.
    is_held: bool,
    /// The server's words of the last refusal that had any, and the message that they are of.
    refusal: Option<(u64, Text)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Greeting { deadline: Instant },
    Open,
    Closed,
}

impl ClientSession {
    /// A session that has not connected.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        Self {
            decoder: Decoder::new(config.packet_bytes_max),
            keep_alive_s: config.keep_alive_s,
            config,
            phase: Phase::Idle,
            control: Vec::new(),
            events: VecDeque::new(),
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            aliases: Aliases::default(),
            next_token: 0,
            peer_bytes_max: u32::MAX,
            allowed: Allowed::ALL,
            last_sent: Instant::ZERO,
            ping_deadline: None,
            dropped_full: 0,
            is_held: false,
            refusal: None,
        }
    }

    /// What the next CONNECT says of the user.
    pub fn set_credentials(&mut self, user_name: Option<Text>, password: Option<Binary>) {
        (self.config.user_name, self.config.password) = (user_name, password);
    }

    /// Why the server refused a message, in its own words, as long as no other was refused after it.
    #[must_use]
    pub fn refusal(&self, token: u64) -> Option<&str> {
        self.refusal.as_ref().filter(|(of, _)| *of == token).map(|(_, words)| &**words)
    }

    /// Queues a message, connected or not, and returns what [`ClientEvent::Published`] will name.
    ///
    /// # Errors
    /// The queue is full of QoS 1 and 2 messages. Otherwise a full queue drops its oldest QoS 0 message.
    pub fn publish(&mut self, message: Message, qos: Qos, retain: bool) -> Result<u64, DeliverError> {
        let limits = OutgoingLimits { messages: self.config.pending_max, bytes: self.config.pending_bytes_max };
        let delivery = Delivery { message: Arc::new(message), qos, retain, subscription_ids: Vec::new() };
        self.next_token += 1;
        let (events, dropped_full) = (&mut self.events, &mut self.dropped_full);
        let dropped = |token, _| {
            *dropped_full += 1;
            events.push_back(ClientEvent::Published { token, outcome: PublishOutcome::Dropped });
        };
        self.outgoing.push(delivery, self.next_token, false, limits, dropped).map_err(|()| DeliverError::Full)?;
        Ok(self.next_token)
    }

    /// Asks for messages, and returns what [`ClientEvent::Subscribed`] will name. The identifier, 5.0 only, comes
    /// back with each message.
    ///
    /// # Errors
    /// There is no connection that was let in.
    pub fn subscribe(
        &mut self,
        filters: &[(Filter, SubscriptionOptions)],
        subscription_id: Option<SubscriptionId>,
    ) -> Result<PacketId, DeliverError> {
        self.subscribe_with(filters, subscription_id.map(Property::SubscriptionIdentifier).into_iter().collect())
    }

    /// As [`ClientSession::subscribe`], with any properties of SUBSCRIBE.
    ///
    /// # Errors
    /// There is no connection that was let in.
    pub fn subscribe_with(
        &mut self,
        filters: &[(Filter, SubscriptionOptions)],
        properties: Properties,
    ) -> Result<PacketId, DeliverError> {
        let wanted = |(filter, options): &(Filter, SubscriptionOptions)| SubscriptionFilter {
            filter: Text::truncated(filter),
            options: *options,
        };
        let filters = filters.iter().map(wanted).collect();
        let packet_id = self.request(Request::Subscribe)?;
        self.send(&Packet::Subscribe(Subscribe { packet_id, properties, filters }));
        Ok(packet_id)
    }

    /// Asks for no more of them, and returns what [`ClientEvent::Unsubscribed`] will name.
    ///
    /// # Errors
    /// There is no connection that was let in.
    pub fn unsubscribe(&mut self, filters: &[Filter]) -> Result<PacketId, DeliverError> {
        let filters = filters.iter().map(|filter| Text::truncated(filter)).collect();
        let packet_id = self.request(Request::Unsubscribe)?;
        self.send(&Packet::Unsubscribe(Unsubscribe { packet_id, properties: Properties::default(), filters }));
        Ok(packet_id)
    }

    fn request(&mut self, kind: Request) -> Result<PacketId, DeliverError> {
        if !self.is_open() {
            return Err(DeliverError::Closed);
        }
        self.outgoing.request(kind).ok_or(DeliverError::Full)
    }

    /// Says goodbye and closes: the server forgets the will.
    pub fn disconnect(&mut self) {
        if self.is_open() {
            self.send(&Packet::Disconnect(Disconnect::default()));
        }
        self.end(ClientEnd::Asked);
    }

    /// Whether the server has let the client in and the connection is not over.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Messages queued and not sent, and QoS 1 and 2 messages that were sent and not answered.
    #[must_use]
    pub fn backlog(&self) -> (usize, usize) {
        (self.outgoing.pending(), self.outgoing.in_flight())
    }

    /// Takes no input for now, or takes it again: the server then sends no more than the system keeps for the connection. What the
    /// server owes an answer to may be among what is not taken, so its silence is no fault meanwhile.
    pub const fn hold_input(&mut self, is_held: bool) {
        self.is_held = is_held;
        self.ping_deadline = None;
    }

    /// QoS 0 messages dropped because the queue was full.
    #[must_use]
    pub const fn dropped_full(&self) -> u64 {
        self.dropped_full
    }

    fn send(&mut self, packet: &Packet) {
        // Only a SUBSCRIBE beyond 268,435,455 bytes is too long, which no caller has memory to ask for.
        let _ = packet.emit(self.config.version, &mut self.control);
    }

    fn greet(&mut self) {
        let config = &self.config;
        let mut properties = Vec::new();
        if config.version == Version::V5 {
            if config.session_expiry_s > 0 {
                properties.push(Property::SessionExpiry(config.session_expiry_s));
            }
            properties.extend(NonZeroU16::new(config.receive_max).map(Property::ReceiveMaximum));
            properties.extend(NonZeroU32::new(config.packet_bytes_max).map(Property::MaximumPacketSize));
            properties.push(Property::TopicAliasMaximum(config.topic_alias_max));
            properties.extend(config.user_properties.iter().cloned().map(Property::UserProperty));
        }
        let connect = Connect {
            version: config.version,
            clean_start: config.clean_start,
            keep_alive_s: config.keep_alive_s,
            properties: properties.into_iter().collect(),
            client_id: config.client_id.clone(),
            will: config.will.clone(),
            user_name: config.user_name.clone(),
            password: config.password.clone(),
        };
        self.send(&Packet::Connect(Box::new(connect)));
    }

    /// Ends the connection, once.
    fn end(&mut self, cause: ClientEnd) {
        if matches!(self.phase, Phase::Greeting { .. } | Phase::Open) {
            self.events.push_back(ClientEvent::Ended(cause));
            self.phase = Phase::Closed;
        }
    }

    /// The server broke a rule: it is told, and the connection ends.
    fn broken(&mut self, reason: ReasonCode, detail: alloc::string::String) {
        if self.config.version == Version::V5 && self.is_open() {
            self.send(&Packet::Disconnect(Disconnect { reason, properties: Properties::default() }));
        }
        self.end(ClientEnd::Broken(detail));
    }

    fn completed(&mut self, completion: Option<Completion>, properties: &Properties) {
        if let Some(Completion { token, reason }) = completion {
            if let Some(words) = properties.reason_string().filter(|_| reason.is_error()) {
                self.refusal = Some((token, words));
            }
            self.events.push_back(ClientEvent::Published { token, outcome: PublishOutcome::Answered(reason) });
        }
    }

    /// The session is gone: nothing will answer what was under way.
    fn abandon(&mut self) {
        for token in self.outgoing.abandon() {
            self.events.push_back(ClientEvent::Published { token, outcome: PublishOutcome::Unknown });
        }
        self.incoming = Incoming::default();
    }

    /// Until when the server must have sent something.
    fn answer_deadline(&self) -> Option<Instant> {
        let deadline = match self.phase {
            Phase::Greeting { deadline } => Some(deadline),
            Phase::Open => self.ping_deadline,
            Phase::Idle | Phase::Closed => None,
        };
        deadline.filter(|_| !self.is_held)
    }

    /// When PINGREQ is due: at three quarters of the keep alive since anything was sent ([MQTT-3.1.2-20]).
    fn ping_due(&self) -> Option<Instant> {
        let quarters = u64::from(self.keep_alive_s) * 3;
        let waits = self.is_open() && quarters > 0 && self.ping_deadline.is_none();
        waits.then(|| self.last_sent + Duration::from_millis(quarters * 250))
    }

    /// Takes note of a polled message; whether there may be more.
    fn polled(&mut self, polled: Polled) -> bool {
        let (token, outcome) = match polled {
            Polled::Idle => return false,
            Polled::Sent { token, qos: Qos::AtMostOnce } => (token, PublishOutcome::Answered(ReasonCode::Success)),
            Polled::Sent { .. } => return true,
            Polled::Expired { token } => (token, PublishOutcome::Expired),
            Polled::TooLarge { token } => (token, PublishOutcome::TooLarge),
            Polled::Refused { token, reason } => (token, PublishOutcome::Answered(reason)),
        };
        self.events.push_back(ClientEvent::Published { token, outcome });
        true
    }
}

impl Machine for ClientSession {
    type Event = ClientEvent;

    fn handle_connected(&mut self, now: Now) {
        self.decoder.reset();
        self.aliases = Aliases::default();
        self.control = Vec::new();
        self.peer_bytes_max = u32::MAX;
        self.ping_deadline = None;
        self.last_sent = now.mono;
        self.phase = Phase::Greeting { deadline: now.mono + self.config.answer_timeout };
        self.greet();
    }

    fn handle_disconnected(&mut self, _: Now) {
        self.end(ClientEnd::Lost);
        self.phase = Phase::Idle;
        self.control = Vec::new();
        self.decoder.reset();
        self.incoming.disconnect();
        self.outgoing.disconnect();
        let kept = !self.config.clean_start;
        if !kept {
            self.abandon();
        }
        if self.config.forgets_unsent {
            for token in self.outgoing.forget_pending() {
                self.events.push_back(ClientEvent::Published { token, outcome: PublishOutcome::Unsent });
            }
        }
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            if matches!(self.phase, Phase::Closed | Phase::Idle) {
                return bytes.len();
            }
            if !self.events.is_empty() || self.is_held {
                break;
            }
            match self.decoder.feed(rest) {
                Ok((count, frame)) => {
                    used += count;
                    if let Some(frame) = frame {
                        self.ping_deadline = None;
                        self.handle_frame(now, &frame);
                    }
                }
                Err(e) => {
                    self.broken(e.reason(), alloc::format!("{e}"));
                    return bytes.len();
                }
            }
        }
        used
    }

    fn handle_timeout(&mut self, now: Now) {
        if self.answer_deadline().is_some_and(|deadline| deadline <= now.mono) {
            return self.end(ClientEnd::Silent);
        }
        if self.ping_due().is_some_and(|due| due <= now.mono) {
            self.ping_deadline = Some(now.mono + self.config.answer_timeout);
            self.send(&Packet::Pingreq);
        }
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        out.append(&mut core::mem::take(&mut self.control));
        while self.is_open() && out.len() - start < TRANSMIT_BYTES && self.events.len() < EVENTS_MAX {
            let bytes_max = self.peer_bytes_max.min(cursor::VARIABLE_MAX);
            let polled = self.outgoing.poll(self.config.version, now.mono, (bytes_max, self.allowed), None, out);
            if !self.polled(polled) {
                break;
            }
        }
        if out.len() > start {
            self.last_sent = now.mono;
        }
        out.len() > start
    }

    fn poll_event(&mut self) -> Option<ClientEvent> {
        let event = self.events.pop_front()?;
        if let ClientEvent::Message(Received { packet_id: Some(packet_id), .. }) = &event {
            // Without a connection the server sends it again, and is answered then ([MQTT-4.3.3-10]).
            let mut unsent = Vec::new();
            let out = if self.is_open() { &mut self.control } else { &mut unsent };
            self.incoming.acknowledge(self.config.version, *packet_id, ReasonCode::Success, "", out);
        }
        Some(event)
    }

    fn timeout(&self) -> Option<Instant> {
        self.answer_deadline().or_else(|| self.ping_due())
    }

    fn is_waiting(&self) -> bool {
        self.is_held
    }

    fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }
}
