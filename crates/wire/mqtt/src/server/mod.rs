//! The server's side of one connection.
//!
//! ```text
//!            connected          CONNECT           accept
//!   Idle ──────────────▶ Greeting ─────▶ Deciding ──────▶ Open ──▶ Closed
//!                           └── timeout, broken rule, refuse ────────▶┘
//! ```
//!
//! The session knows the rules of one connection: order of packets, identifiers, acknowledgements, flow control,
//! keep alive. Its owner knows topics, subscriptions, retained messages, wills and rights.
//!
//! While the owner has a CONNECT to answer, what the client sends ahead (section 3.1.4 lets it) waits, up to
//! `connect_bytes_max`. No input is taken while [`CONTROL_BYTES_MAX`] bytes of answers wait to be sent.

mod answers;
mod aside;
mod auth;
mod config;
mod connect;
mod deadline;
mod event;
mod receive;
mod state;

pub use auth::AuthRequest;
pub use config::{ServerConfig, ServerCounters};
pub use connect::Accept;
pub use event::{
    ConnectRequest, EndCause, Ended, PublishRequest, ServerEvent, SharedFilter, SubscribeRequest, UnsubscribeRequest,
};
pub use state::{AwayLimits, SessionState};

use crate::flow::{Allowed, Polled};
use crate::message::{Aliases, Delivery, Numbered};
use crate::{DecodeError, Decoder, Disconnect, Packet, PacketType, Properties, ReasonCode};
use crate::{Text, Version};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use auth::Method;
use bytes::{Buf, BytesMut};
use core::fmt;
use tieline_core::{Instant, Machine, Now};

/// Bytes of answers that may wait to be sent before no more input is taken.
pub const CONTROL_BYTES_MAX: usize = 16_384;
/// Bytes of messages that one `poll_transmit` writes before it leaves the rest to the next.
const TRANSMIT_BYTES: usize = 16_384;

/// The server's side of one connection.
#[derive(Debug)]
pub struct ServerSession {
    config: Arc<ServerConfig>,
    /// What an assigned client identifier is made from.
    random: u64,
    phase: Phase,
    decoder: Decoder,
    /// What came before the owner answered CONNECT.
    early: Option<Box<BytesMut>>,
    /// Answers to be sent.
    control: Vec<u8>,
    /// Boxed: a session has one for as long as it is being handed over.
    event: Option<Box<ServerEvent>>,
    ended: Option<Box<Ended>>,
    link: Link,
    /// None while there was nothing to remember: most subscribers take QoS 0 alone.
    state: Option<Box<SessionState>>,
    packets_in: u64,
    /// Whether the peer spoke HTTP.
    is_http: bool,
    /// What was done with messages of the session's own; most subscribers have none.
    counters: Option<Box<ServerCounters>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Greeting {
        deadline: Instant,
    },
    Deciding,
    /// Asked for more, and waiting for AUTH.
    Authenticating {
        deadline: Instant,
    },
    Open {
        greeted: bool,
    },
    Closed,
}

/// What was agreed with the client.
#[derive(Debug, Default)]
struct Link {
    version: Version,
    /// Bytes of the largest packet that the client takes.
    packet_bytes_max: u32,
    keep_alive_s: u16,
    last_packet: Instant,
    /// When the packet began that is not whole.
    packet_began: Option<Instant>,
    session_expiry_s: u32,
    /// The window that the client asked for.
    receive_max: u16,
    /// QoS 1 and 2 messages that may be under way to the client.
    window: u16,
    /// A name that the client is to be told.
    assigned: Option<Box<Text>>,
    /// A keep alive that the client is to be told.
    keep_alive_imposed: bool,
    /// Topics that the client numbered, where it did.
    aliases: Option<Box<Aliases>>,
    /// The highest topic alias that the client takes.
    alias_max: u16,
    /// Topics that were numbered for the client, where it takes numbers.
    numbered: Option<Box<Numbered>>,
    /// Whether reasons may be put into words outside CONNACK and DISCONNECT ([MQTT-3.1.2-29]).
    problem_information: bool,
    /// Whether the client asked for response information.
    response_information: bool,
    method: Method,
}

/// Why a message was not taken for delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliverError {
    /// The queue holds as many messages or bytes as it may; the message was counted.
    Full,
    /// There is no connection that was accepted.
    Closed,
}

impl fmt::Display for DeliverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the session's queue is full",
            Self::Closed => "the session is not connected",
        })
    }
}

impl core::error::Error for DeliverError {}

impl ServerSession {
    /// A session for one connection. `random` must differ from session to session: clients without a name get one
    /// made from it.
    #[must_use]
    pub fn new(config: Arc<ServerConfig>, random: u64) -> Self {
        let decoder = Decoder::new(config.connect_bytes_max);
        Self {
            config,
            random,
            phase: Phase::Idle,
            decoder,
            early: None,
            control: Vec::new(),
            event: None,
            ended: None,
            link: Link::default(),
            state: None,
            packets_in: 0,
            is_http: false,
            counters: None,
        }
    }

    /// Ends the connection. 5.0 clients are told the reason and, where it is not empty, the text. One that is not
    /// in yet is closed on without a word.
    pub fn disconnect(&mut self, reason: ReasonCode, text: &str) {
        self.end(EndCause::Server(reason), Some((reason, text)));
        self.close();
    }

    /// Queues a message for the client.
    ///
    /// # Errors
    /// The queue is full of QoS 1 and 2 messages, or nobody is connected. QoS 0 messages are never Full: the oldest
    /// of them is dropped and counted.
    pub fn deliver(&mut self, delivery: Delivery) -> Result<(), DeliverError> {
        self.deliver_tagged(delivery, 0)
    }

    /// The same, with a tag that [`SessionState::undelivered`] gives back.
    ///
    /// # Errors
    /// As with `deliver`.
    pub fn deliver_tagged(&mut self, delivery: Delivery, tag: u64) -> Result<(), DeliverError> {
        self.queue(delivery, tag, false)
    }

    /// The same with a [`crate::SessionChange`] of it, where changes are recorded.
    ///
    /// # Errors
    /// As with `deliver`.
    pub fn deliver_kept(&mut self, delivery: Delivery, tag: u64) -> Result<(), DeliverError> {
        self.queue(delivery, tag, true)
    }

    fn queue(&mut self, delivery: Delivery, tag: u64, keep: bool) -> Result<(), DeliverError> {
        if !self.is_open() {
            return Err(DeliverError::Closed);
        }
        let limits = self.limits();
        let counters = self.counters.get_or_insert_default();
        let SessionState { outgoing, displaced, .. } = &mut **self.state.get_or_insert_default();
        outgoing.open(self.link.window);
        let queued = outgoing.push(delivery, tag, keep, limits, |tag, delivery| {
            counters.dropped_full += 1;
            displaced.extend(delivery.map(|delivery| (tag, delivery)));
        });
        queued.map_err(|()| {
            counters.refused_full += 1;
            DeliverError::Full
        })
    }

    /// Whether a frame of this many bytes, made by [`crate::encode_publish`] for [`ServerSession::version`], may be
    /// written straight to the client: it was greeted, and takes packets of this size ([MQTT-3.1.2-24]).
    #[must_use]
    pub fn can_take_shared_frame(&self, bytes: usize) -> bool {
        self.shared_frame_max().is_some_and(|max| bytes <= max)
    }

    /// The version that the client speaks; 5.0 before it has said.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.link.version
    }

    /// Whether the client was accepted and the connection is not over.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    /// Whether the peer took this for a server of HTTP.
    #[must_use]
    pub const fn is_http(&self) -> bool {
        self.is_http
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> ServerCounters {
        let counters = self.counters.as_deref().copied().unwrap_or_default();
        ServerCounters { packets_in: self.packets_in, ..counters }
    }

    /// Messages that wait in the queue, and QoS 1 and 2 messages that were sent and are not acknowledged.
    #[must_use]
    pub fn backlog(&self) -> (usize, usize) {
        self.state.as_ref().map_or((0, 0), |state| state.backlog())
    }

    /// Bytes that wait in the queue, with 64 for each message's bookkeeping.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.bytes())
    }

    /// Takes what outlives the connection, for the next session of the same client. Nothing is left for this one.
    #[must_use]
    pub fn take_state(&mut self) -> SessionState {
        let mut state = self.state.take().map_or_else(SessionState::default, |state| *state);
        state.incoming.disconnect();
        // A message that the owner has not looked at comes again, and is looked at then.
        if let Some(ServerEvent::Publish(PublishRequest { packet_id: Some(packet_id), again, .. })) =
            self.event.as_deref()
        {
            state.incoming.forget(*packet_id, *again);
            self.event = None;
        }
        state
    }

    /// Queues an answer. One that would be larger than the client takes loses its properties by the callers' care;
    /// what has none is small.
    fn send(&mut self, packet: &Packet) {
        if self.is_open() {
            // Too long for MQTT can only be a SUBACK of millions of reasons, which no SUBSCRIBE asks for.
            let _ = packet.emit(self.link.version, &mut self.control);
        }
    }

    /// Ends the connection, once. `told` is what a 5.0 client is told.
    fn end(&mut self, cause: EndCause, told: Option<(ReasonCode, &str)>) {
        let told = told.map(|(reason, text)| (reason, self.reason_text(text, 0)));
        self.end_with(cause, told);
    }

    fn end_with(&mut self, cause: EndCause, told: Option<(ReasonCode, Properties)>) {
        if !self.is_open() {
            return;
        }
        if let Some((reason, properties)) = told.filter(|_| self.link.version == Version::V5) {
            self.send(&Packet::Disconnect(Disconnect { reason, properties }));
        }
        let publish_will = cause != EndCause::Client(ReasonCode::Success);
        self.ended = Some(Box::new(Ended { cause, publish_will, session_expiry_s: None }));
        self.close();
    }

    fn close(&mut self) {
        self.phase = Phase::Closed;
        self.early = None;
        self.decoder.reset();
        self.link.aliases = None;
        self.link.numbered = None;
    }

    /// The client broke a rule: it is told which, and the connection ends ([MQTT-4.13.1-1]).
    fn broken(&mut self, reason: ReasonCode, detail: String) {
        match self.phase {
            Phase::Open { .. } => {
                let text = detail.clone();
                self.end(EndCause::Broken { reason, detail }, Some((reason, &text)));
            }
            Phase::Authenticating { .. } => self.turn_away(reason, &detail),
            Phase::Idle | Phase::Greeting { .. } | Phase::Deciding | Phase::Closed => self.close(),
        }
    }

    /// Whether packets are read after CONNECT.
    const fn reads_on(&self) -> bool {
        matches!(self.phase, Phase::Open { .. } | Phase::Authenticating { .. })
    }

    /// Keeps what comes before the owner has answered; how much.
    fn take_early(&mut self, bytes: &[u8]) -> usize {
        let max = usize::try_from(self.config.connect_bytes_max).unwrap_or(usize::MAX);
        let early = self.early.get_or_insert_default();
        let kept = bytes.get(..max.saturating_sub(early.len())).unwrap_or(bytes);
        early.extend_from_slice(kept);
        kept.len()
    }

    /// Handles what came before the owner had answered, up to the next event.
    fn handle_early(&mut self) {
        let now = Now { mono: self.link.last_packet, ..Now::default() };
        let Some(mut early) = self.early.take() else { return };
        let used = self.handle_bytes(now, &early);
        early.advance(used);
        self.early = Some(early).filter(|early| !early.is_empty());
    }

    fn handle_bytes(&mut self, now: Now, bytes: &[u8]) -> usize {
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            match self.phase {
                Phase::Closed => return bytes.len(),
                Phase::Deciding if self.event.is_none() => return used + self.take_early(rest),
                Phase::Deciding | Phase::Idle => break,
                Phase::Greeting { .. } | Phase::Authenticating { .. } | Phase::Open { .. } => {}
            }
            if self.event.is_some() || self.control.len() >= CONTROL_BYTES_MAX {
                break;
            }
            used += self.take_bytes(now, rest);
        }
        used
    }

    fn take_bytes(&mut self, now: Now, bytes: &[u8]) -> usize {
        // Section 3.1: what does not begin like a CONNECT is not read any further ([MQTT-3.1.0-1]).
        let greeting = matches!(self.phase, Phase::Greeting { .. });
        if greeting
            && self.decoder.is_idle()
            && bytes.first().is_some_and(|first| first >> 4 != PacketType::Connect.number())
        {
            return self.turn_away_foreign(bytes);
        }
        match self.decoder.feed(bytes) {
            Ok((used, None)) => {
                self.link.packet_began.get_or_insert(now.mono);
                used
            }
            Ok((used, Some(frame))) => {
                self.link.packet_began = None;
                self.packets_in += 1;
                self.link.last_packet = now.mono;
                match self.phase {
                    Phase::Greeting { .. } => self.handle_connect(&frame),
                    Phase::Open { .. } => self.handle_frame(now, &frame),
                    Phase::Authenticating { .. } => self.handle_authenticating(&frame),
                    Phase::Idle | Phase::Deciding | Phase::Closed => {}
                }
                used
            }
            Err(e) => {
                self.broken_bytes(e);
                bytes.len()
            }
        }
    }

    fn broken_bytes(&mut self, error: DecodeError) {
        self.broken(error.reason(), error.to_string());
    }

    fn count(&mut self, polled: Polled) -> bool {
        if matches!(polled, Polled::Idle) {
            return false;
        }
        let counters = self.counters.get_or_insert_default();
        match polled {
            Polled::Idle => {}
            Polled::Sent { .. } => counters.publishes_out += 1,
            Polled::Expired { .. } => counters.dropped_expired += 1,
            Polled::TooLarge { .. } | Polled::Refused { .. } => counters.dropped_too_large += 1,
        }
        true
    }
}

impl Machine for ServerSession {
    type Event = ServerEvent;

    fn handle_connected(&mut self, now: Now) {
        self.decoder = Decoder::new(self.config.connect_bytes_max);
        self.link = Link { last_packet: now.mono, ..Link::default() };
        self.control = Vec::new();
        (self.event, self.ended) = (None, None);
        self.phase = Phase::Greeting { deadline: now.mono + self.config.connect_timeout };
    }

    fn handle_disconnected(&mut self, _: Now) {
        self.end(EndCause::Lost, None);
        if matches!(self.phase, Phase::Deciding | Phase::Authenticating { .. }) {
            self.event = None;
        }
        self.close();
        self.control = Vec::new();
        if let Some(state) = &mut self.state {
            state.incoming.disconnect();
        }
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        if self.reads_on() && self.early.is_some() && self.event.is_none() {
            self.handle_early();
        }
        let blocked = self.reads_on() && self.early.is_some();
        if blocked { 0 } else { self.handle_bytes(now, bytes) }
    }

    fn handle_timeout(&mut self, now: Now) {
        if self.deadline().is_none_or(|deadline| deadline > now.mono) {
            return;
        }
        match self.phase {
            Phase::Greeting { .. } | Phase::Authenticating { .. } => self.close(),
            Phase::Open { .. } => {
                let words = if self.link.packet_began.is_some() { "a packet was not whole in time" } else { "" };
                self.end(EndCause::Silent, Some((ReasonCode::KeepAliveTimeout, words)));
            }
            Phase::Idle | Phase::Deciding | Phase::Closed => {}
        }
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        out.append(&mut core::mem::take(&mut self.control));
        if self.is_open() {
            self.phase = Phase::Open { greeted: true };
            while out.len() - start < TRANSMIT_BYTES
                && let Some(state) = &mut self.state
            {
                let (version, bytes_max) = (self.link.version, self.link.packet_bytes_max);
                let aliases = self.link.numbered.as_deref_mut();
                let polled = state.outgoing.poll(version, now.mono, (bytes_max, Allowed::ALL), aliases, out);
                if !self.count(polled) {
                    break;
                }
            }
        }
        out.len() > start
    }

    fn poll_event(&mut self) -> Option<ServerEvent> {
        if self.event.is_none() && self.reads_on() && self.early.is_some() {
            self.handle_early();
        }
        let event = self.event.take().map(|event| *event);
        event.or_else(|| self.ended.take().map(|ended| ServerEvent::Ended(*ended)))
    }

    fn timeout(&self) -> Option<Instant> {
        self.deadline()
    }

    fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }
}
