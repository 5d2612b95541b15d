//! What a message does to a connector.

use super::config::link_error;
use super::{Connector, Event, Hub, Reason, State};
use crate::names::ErrorCode;
use crate::sc::{Advertisement, Body, Connect, Malformed, Message, Nak, Vmac};
use tieline_core::Now;

/// The function of an answer that is not answered.
const RESULT: u8 = 0x00;

impl Connector {
    /// Takes one whole message of the WebSocket.
    pub fn handle_message(&mut self, now: Now, bytes: &[u8]) {
        if matches!(self.state, State::Down | State::Closing) {
            return;
        }
        self.counters.received += 1;
        if let State::Up { heard, asked, .. } = &mut self.state {
            (*heard, *asked) = (now.mono, None);
        }
        match Message::parse(bytes) {
            Ok(message) => self.take(now, &message),
            Err(malformed) => self.refuse_malformed(&malformed),
        }
    }

    /// The WebSocket brought a message that is longer than is taken.
    pub const fn handle_too_long(&mut self) {
        self.counters.received += 1;
        self.counters.malformed += 1;
    }

    fn refuse_malformed(&mut self, malformed: &Malformed) {
        self.counters.malformed += 1;
        let Malformed { function: Some(function), id, origin, is_unicast: true, code, .. } = *malformed else { return };
        self.refuse(origin, function, id, 0, code);
    }

    /// Answers a message with an error. An answer gets none.
    fn refuse(&mut self, to: Option<Vmac>, function: u8, id: u16, marker: u8, code: ErrorCode) {
        if function == RESULT || !matches!(self.state, State::Up { .. }) {
            return;
        }
        self.counters.refusals += 1;
        let nak = Nak { marker, error: link_error(code), details: "" };
        self.emit(&Message::new(id, Body::Result(function, Err(nak))).to(to));
    }

    fn take(&mut self, now: Now, message: &Message<'_>) {
        let is_broadcast = message.destination == Some(Vmac::BROADCAST);
        if message.destination.is_some_and(|destination| !is_broadcast && destination != self.vmac) {
            self.counters.unexpected += 1;
            return;
        }
        let options = match message.body {
            Body::Npdu(_) => [message.destination_options, message.data_options],
            _ => [message.destination_options, message.destination_options],
        };
        if let Some(option) = options.iter().find_map(|options| options.not_understood()) {
            self.counters.malformed += 1;
            if !is_broadcast {
                let function = message.body.function();
                self.refuse(message.origin, function, message.id, option.marker(), ErrorCode::HEADER_NOT_UNDERSTOOD);
            }
            return;
        }
        match self.state {
            State::Connecting { hub, id, .. } => self.take_connecting(now, message, hub, id),
            State::Leaving { hub, id, .. } => self.take_leaving(now, message, hub, id),
            State::Up { hub, .. } => self.take_up(now, message, hub, is_broadcast),
            State::Down | State::Closing => {}
        }
    }

    fn take_connecting(&mut self, now: Now, message: &Message<'_>, hub: Hub, id: u16) {
        match message.body {
            Body::ConnectAccept(connect) if message.id == id => self.accepted(now, hub, connect),
            Body::Result(_, Err(nak)) if message.id == id => {
                let is_duplicate = nak.error.code == ErrorCode::NODE_DUPLICATE_VMAC;
                self.end(now, hub, if is_duplicate { Reason::DuplicateVmac } else { Reason::Refused(nak.error) });
            }
            Body::DisconnectRequest => self.let_go(now, message.id, hub),
            _ => self.counters.unexpected += 1,
        }
    }

    fn accepted(&mut self, now: Now, hub: Hub, connect: Connect) {
        self.counters.connects += 1;
        // A hub that says that it takes less than every node must take does not mean it.
        let npdu_bytes_max = connect.npdu_bytes_max.max(NPDU_BYTES_MIN);
        self.state = State::Up { hub, npdu_bytes_max, heard: now.mono, asked: None };
        self.events.push_back(Event::Up(hub, connect));
    }

    fn take_leaving(&mut self, now: Now, message: &Message<'_>, hub: Hub, id: u16) {
        match message.body {
            Body::DisconnectAck | Body::Result(_, Err(_)) if message.id == id => self.end(now, hub, Reason::Left),
            Body::DisconnectRequest => self.let_go(now, message.id, hub),
            // What was on its way.
            _ => {}
        }
    }

    /// The hub wants the node to go.
    fn let_go(&mut self, now: Now, id: u16, hub: Hub) {
        self.emit(&Message::new(id, Body::DisconnectAck));
        self.end(now, hub, Reason::Disconnected);
    }

    fn take_up(&mut self, now: Now, message: &Message<'_>, hub: Hub, is_broadcast: bool) {
        let Message { id, origin, .. } = *message;
        match message.body {
            Body::Npdu(npdu) => self.take_npdu(origin, npdu, !is_broadcast),
            Body::HeartbeatRequest => self.emit(&Message::new(id, Body::HeartbeatAck).to(origin)),
            Body::HeartbeatAck | Body::Result(_, Ok(())) | Body::Advertisement(_) => {}
            Body::Result(function, Err(nak)) => self.tell(Event::Refused(origin, function, nak.error)),
            Body::DisconnectRequest if origin.is_none() => self.let_go(now, id, hub),
            Body::AdvertisementSolicitation => {
                let hub = if hub == Hub::Primary { 1 } else { 2 };
                let (bvlc_bytes_max, npdu_bytes_max) = (self.config.bvlc_bytes_max, self.config.npdu_bytes_max);
                let advertisement = Advertisement { hub, takes_direct: false, bvlc_bytes_max, npdu_bytes_max };
                self.emit(&Message::new(id, Body::Advertisement(advertisement)).to(origin));
            }
            Body::AddressResolution if !is_broadcast => {
                self.refuse(origin, message.body.function(), id, 0, ErrorCode::OPTIONAL_FUNCTIONALITY_NOT_SUPPORTED);
            }
            Body::Proprietary { .. } if !is_broadcast => {
                self.refuse(origin, message.body.function(), id, 0, ErrorCode::BVLC_PROPRIETARY_FUNCTION_UNKNOWN);
            }
            Body::Other(function, _) if !is_broadcast => {
                self.refuse(origin, function, id, 0, ErrorCode::BVLC_FUNCTION_UNKNOWN);
            }
            Body::AddressResolution
            | Body::AddressResolutionAck(_)
            | Body::ConnectRequest(_)
            | Body::ConnectAccept(_)
            | Body::DisconnectRequest
            | Body::DisconnectAck
            | Body::Proprietary { .. }
            | Body::Other(..) => self.counters.unexpected += 1,
        }
    }

    fn take_npdu(&mut self, origin: Option<Vmac>, npdu: &[u8], is_unicast: bool) {
        // A hub says who sent it; what a node says itself has no origin.
        match origin {
            Some(from) if from != self.vmac && npdu.len() <= usize::from(self.config.npdu_bytes_max) => {
                self.tell(Event::Npdu { from, is_unicast, npdu: npdu.to_vec() });
            }
            Some(_) | None => self.counters.unexpected += 1,
        }
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() >= self.config.events_max {
            self.counters.dropped += 1;
        } else {
            self.events.push_back(event);
        }
    }
}

/// Bytes of a message of the network layer that every node takes: one with 50 bytes for an application, and all addresses.
const NPDU_BYTES_MIN: u16 = 71;
