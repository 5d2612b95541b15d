//! Lean messages behind an endpoint: who offers, who accepts, and what is taken from then on.
//!
//! ```text
//! offers:   Offering ─ hello of the peer ─▶ Lean          accepts:  Listening ─ offer ─▶ Lean
//!              └─ status of its link, or nothing in time ─▶ Standard     └─ anything else ─▶ Standard
//! ```
//!
//! While it offers, link frames are taken and nothing but the offer is sent. A side that accepts decides by the first
//! bytes of a connection; on datagrams, where there is none, each datagram decides.

use super::extras::{Boundary, Extras, OFFERS_MAX, Phase, Trace};
use super::{Endpoint, Received, Role, Service, queue};
use crate::lean::{
    Carrier, DATAGRAM_START, HELLO_BYTES, HELLO_START, Head, Hello, Kind, LeanConfig, Message, OFFER_BYTES,
    STREAM_HEADER_BYTES, Side, may_be_hello,
};
use crate::link::{AddressKind, Control, Function, HEADER_BYTES, LinkAddress};
use alloc::boxed::Box;
use alloc::vec::Vec;
use tieline_core::Instant;

impl Endpoint {
    /// Offers or accepts lean messages from the next connection on.
    pub fn set_lean(&mut self, lean: Option<LeanConfig>) {
        if lean.is_none() && self.extras.is_none() {
            return;
        }
        let extras = self.extras.get_or_insert_with(|| Box::new(Extras::new()));
        extras.reset();
        extras.config = lean;
    }

    /// Calls `trace` at every boundary from the next call on.
    pub fn set_trace(&mut self, trace: Trace) {
        self.extras.get_or_insert_with(|| Box::new(Extras::new())).trace = Some(trace);
    }

    /// A connection begins.
    pub fn handle_connected(&mut self, now: Instant) {
        if let Some(primary) = &mut self.primary {
            primary.reset(Some(now));
        }
        let Some(extras) = &mut self.extras else { return };
        extras.offers = 0;
        match extras.config.map(|config| config.side) {
            Some(Side::Offers) if extras.connections_without_offer > 0 => extras.connections_without_offer -= 1,
            Some(Side::Offers) => extras.offer(now),
            Some(Side::Accepts) => extras.phase = Phase::Listening,
            None => {}
        }
    }

    /// When [`Endpoint::handle_timeout`] has something to do.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        let primary = self.primary.as_ref().and_then(|primary| primary.timeout());
        self.extras.as_ref().and_then(|extras| extras.deadline).into_iter().chain(primary).min()
    }

    /// Ends the wait for an answer to an offer, if it was long enough.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(primary) = &mut self.primary
            && primary.handle_timeout(now)
        {
            self.request_link_status(self.config.remote.unwrap_or(LinkAddress::OWN));
        }
        let Some(extras) = &mut self.extras else { return };
        if extras.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        if extras.has_datagrams() && extras.offers < OFFERS_MAX {
            extras.offer(now);
        } else {
            extras.fall_back();
        }
    }

    /// Whether only [`Endpoint::poll_transmit`] may send: a hello is due, or its answer is not here.
    #[must_use]
    pub fn is_negotiating(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.phase == Phase::Offering || extras.hello_due)
    }

    /// Whether fragments travel in lean messages.
    #[must_use]
    pub fn is_lean(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.phase == Phase::Lean)
    }

    /// Whether the connection must end: the peer's bytes make no sense any more.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.phase == Phase::Broken)
            || self.primary.as_ref().is_some_and(|primary| primary.is_lost())
    }

    /// [`Endpoint::handle_input`] of an endpoint with extras.
    pub(super) fn handle_extra_input(&mut self, mut extras: Box<Extras>, bytes: &[u8]) -> (usize, Option<Received>) {
        if extras.short.fragment().is_some() {
            self.extras = Some(extras);
            return (0, None);
        }
        if let Some(trace) = extras.trace {
            trace(Boundary::Arrived);
        }
        let taken = match self.take_short(&mut extras, bytes) {
            Some((used, source)) => (used, Some(Received::Fragment { source, broadcast: None })),
            None => self.take_bytes(&mut extras, bytes),
        };
        if let ((_, Some(Received::Fragment { .. })), Some(trace)) = (taken, extras.trace) {
            trace(Boundary::Found);
        }
        self.extras = Some(extras);
        taken
    }

    fn take_bytes(&mut self, extras: &mut Extras, bytes: &[u8]) -> (usize, Option<Received>) {
        let mut used = 0;
        loop {
            let before = (extras.phase, extras.replays, used);
            let rest = bytes.get(used..).unwrap_or_default();
            let (taken, received) = if extras.replays {
                (0, self.replay(extras))
            } else if extras.has_datagrams() {
                self.take_datagram(extras, rest)
            } else {
                match extras.phase {
                    Phase::Standard => self.take_frames(rest),
                    Phase::Offering => self.take_offering(extras, rest),
                    Phase::Listening => (self.listen(extras, rest), None),
                    Phase::Lean => self.take_stream(extras, rest),
                    Phase::Broken => (rest.len(), None),
                }
            };
            used += taken;
            if received.is_some() || before == (extras.phase, extras.replays, used) {
                return (used, received);
            }
        }
    }

    /// Bytes that were held for a hello are link frames, or noise.
    fn replay(&mut self, extras: &mut Extras) -> Option<Received> {
        let (taken, received) = self.take_frames(&extras.held);
        extras.held.drain(..taken);
        if extras.held.is_empty() {
            (extras.held, extras.replays) = (Vec::new(), false);
        }
        received
    }

    /// Holds bytes as long as they may become an offer; returns how many were used.
    fn listen(&mut self, extras: &mut Extras, bytes: &[u8]) -> usize {
        let used = hold(&mut extras.held, bytes, OFFER_BYTES);
        if extras.held.is_empty() {
            if !bytes.is_empty() {
                extras.phase = Phase::Standard;
            }
            return 0;
        }
        if may_be_hello(&extras.held) && extras.held.len() < OFFER_BYTES {
            return used;
        }
        match self.offer_of(Carrier::Stream, &extras.held) {
            Some(peer) => {
                extras.held = Vec::new();
                extras.hello_due = true;
                extras.agree(peer);
            }
            None => {
                extras.counters.refused += 1;
                (extras.phase, extras.replays) = (Phase::Standard, true);
            }
        }
        used
    }

    /// Who offers, if these bytes are an offer to this station.
    fn offer_of(&self, carrier: Carrier, bytes: &[u8]) -> Option<LinkAddress> {
        let (hello, request) = bytes.split_first_chunk::<HELLO_BYTES>()?;
        let hello = Hello::parse(hello).ok()?;
        (request.len() >= HEADER_BYTES && request.starts_with(&[0x05, 0x64]) && !hello.answer)
            .then(|| self.peer_of(carrier, &hello))
            .flatten()
    }

    /// Who says hello, if it is one that this station talks to.
    fn peer_of(&self, carrier: Carrier, hello: &Hello) -> Option<LinkAddress> {
        let config = &self.config;
        let to_us = match hello.destination.kind() {
            AddressKind::Station => hello.destination == config.local,
            AddressKind::Own => config.self_address,
            AddressKind::Broadcast(_) | AddressKind::Reserved => false,
        };
        let from_peer = hello.source.is_station() && config.remote.is_none_or(|remote| remote == hello.source);
        let other_role = hello.from_master != (config.role == Role::Master);
        (to_us && from_peer && other_role && carrier == hello.carrier).then_some(hello.source)
    }

    /// Link frames until a hello comes, or the status that says that none will.
    fn take_offering(&mut self, extras: &mut Extras, bytes: &[u8]) -> (usize, Option<Received>) {
        let mut rest = bytes;
        loop {
            let at_start = !self.decoder.is_partial() && rest.first() == HELLO_START.first();
            if !extras.held.is_empty() || at_start {
                let used = hold(&mut extras.held, rest, HELLO_BYTES);
                rest = rest.get(used..).unwrap_or_default();
                self.judge_answer(extras);
                return (bytes.len() - rest.len(), None);
            }
            let Self { config, decoder, reassembler, reset_by, broadcast, replies, service, primary, .. } = self;
            let Some(decoded) = decoder.decode(&mut rest) else { return (bytes.len(), None) };
            let Ok(frame) = decoded else { continue };
            if !frame.header().control.primary() {
                extras.fall_back();
            }
            let mut link = Service { config, reassembler, reset_by, broadcast, replies, primary, counters: service };
            let received = link.handle_frame(&frame);
            if received.is_some() || extras.phase != Phase::Offering {
                return (bytes.len() - rest.len(), received);
            }
        }
    }

    fn judge_answer(&mut self, extras: &mut Extras) {
        let answer = extras.held.first_chunk::<HELLO_BYTES>().map(Hello::parse);
        match answer {
            None if may_be_hello(&extras.held) => {}
            Some(Ok(hello)) if hello.answer && self.peer_of(Carrier::Stream, &hello).is_some() => {
                extras.held = Vec::new();
                extras.agree(hello.source);
            }
            None | Some(Ok(_) | Err(_)) => {
                extras.counters.refused += 1;
                extras.replays = true;
            }
        }
    }

    fn take_stream(&mut self, extras: &mut Extras, bytes: &[u8]) -> (usize, Option<Received>) {
        let mut rest = bytes;
        loop {
            if extras.missing == 0 {
                let used = STREAM_HEADER_BYTES.saturating_sub(extras.held.len()).min(rest.len());
                let (more, after) = rest.split_at_checked(used).unwrap_or_default();
                let head = match (&extras.held[..], more) {
                    ([], [a, b]) => [*a, *b],
                    ([a], [b]) => [*a, *b],
                    _ => {
                        extras.held.extend_from_slice(more);
                        return (bytes.len(), None);
                    }
                };
                (extras.held, rest) = (Vec::new(), after);
                let Ok(head) = Head::parse(head) else {
                    extras.counters.malformed += 1;
                    extras.phase = Phase::Broken;
                    return (bytes.len(), None);
                };
                if let Some(received) = self.begin_message(extras, head, rest.len()) {
                    return (bytes.len() - rest.len(), Some(received));
                }
            }
            let (body, after) = rest.split_at_checked(extras.missing.min(rest.len())).unwrap_or_default();
            rest = after;
            extras.missing -= body.len();
            if !extras.passes_over {
                self.reassembler.append(body, extras.missing == 0);
            }
            if self.reassembler.is_complete() {
                let received = Received::Fragment { source: extras.peer, broadcast: broadcast_of(extras.arriving) };
                return (bytes.len() - rest.len(), Some(received));
            }
            if rest.is_empty() {
                return (bytes.len(), None);
            }
        }
    }

    /// A message begins, with so many bytes of it at hand.
    fn begin_message(&mut self, extras: &mut Extras, head: Head, at_hand: usize) -> Option<Received> {
        let bytes = usize::from(head.bytes);
        match head.kind {
            Kind::Fragment | Kind::Broadcast(_) => {
                extras.passes_over = !self.takes(head.kind, bytes);
                (extras.missing, extras.arriving) = (bytes, head.kind);
                if !extras.passes_over {
                    self.reassembler.begin((extras.peer, self.config.local), bytes.min(at_hand.max(1)));
                }
                None
            }
            Kind::StatusRequest => {
                self.queue_status(extras.peer);
                None
            }
            Kind::Status => Some(Received::LinkStatus { source: extras.peer }),
        }
    }

    /// Whether a fragment is of a length and a kind that this station takes.
    fn takes(&mut self, kind: Kind, bytes: usize) -> bool {
        if bytes > usize::from(self.config.fragment_max) {
            self.reassembler.count_too_long();
            return false;
        }
        let ours = broadcast_of(kind).is_none() || self.config.role == Role::Outstation;
        self.service.not_ours += u64::from(!ours);
        ours
    }

    fn queue_status(&mut self, to: LinkAddress) {
        let control = Control::new(self.config.role == Role::Master, Function::Status);
        queue(&mut self.replies, &mut self.service, control, to);
    }

    /// The first message, hello or run of link frames of a datagram; what cannot be read costs the rest of it.
    fn take_datagram(&mut self, extras: &mut Extras, bytes: &[u8]) -> (usize, Option<Received>) {
        match bytes {
            [] => (0, None),
            [DATAGRAM_START, ..] => match Message::parse(bytes) {
                Some((message, used)) => (used, self.take_message(extras, &message)),
                None => {
                    extras.counters.malformed += 1;
                    (bytes.len(), None)
                }
            },
            _ if bytes.starts_with(&HELLO_START) => (self.greet(extras, bytes), None),
            _ => {
                // A peer that speaks in link frames has never agreed to anything else, or has forgotten it.
                match (extras.phase, extras.offers()) {
                    (Phase::Lean, true) => (extras.phase, extras.hello_due) = (Phase::Offering, true),
                    (Phase::Lean | Phase::Listening, false) => extras.phase = Phase::Standard,
                    (Phase::Listening | Phase::Standard | Phase::Offering | Phase::Broken, _) => {}
                }
                match extras.phase {
                    Phase::Offering => self.take_offering(extras, bytes),
                    Phase::Standard | Phase::Listening | Phase::Lean | Phase::Broken => self.take_frames(bytes),
                }
            }
        }
    }

    /// A datagram begins with a hello; returns how many of its bytes were used.
    fn greet(&mut self, extras: &mut Extras, bytes: &[u8]) -> usize {
        if extras.offers() {
            let hello = bytes.first_chunk::<HELLO_BYTES>().and_then(|hello| Hello::parse(hello).ok());
            match hello.filter(|hello| hello.answer).and_then(|hello| self.peer_of(Carrier::Datagrams, &hello)) {
                Some(peer) if extras.phase == Phase::Offering => extras.agree(peer),
                Some(_) => {}
                None => extras.counters.refused += 1,
            }
            return bytes.len().min(HELLO_BYTES);
        }
        match bytes.get(..OFFER_BYTES).and_then(|offer| self.offer_of(Carrier::Datagrams, offer)) {
            Some(peer) => {
                extras.hello_due = true;
                extras.agree(peer);
                OFFER_BYTES
            }
            None => {
                extras.counters.refused += 1;
                bytes.len().min(HELLO_BYTES)
            }
        }
    }

    fn take_message(&mut self, extras: &mut Extras, message: &Message<'_>) -> Option<Received> {
        let Message { kind, destination, source, fragment } = *message;
        if destination != self.config.local && broadcast_of(kind).is_none() {
            self.service.not_ours += 1;
            return None;
        }
        if !source.is_station() || self.config.remote.is_some_and(|remote| remote != source) {
            self.service.unknown_source += 1;
            return None;
        }
        // A side that accepts and has forgotten (it restarted) learns from the message that its peer has not.
        if extras.phase != Phase::Lean {
            if extras.offers() {
                return None;
            }
            extras.agree(source);
        }
        match kind {
            Kind::Fragment | Kind::Broadcast(_) => {
                if !self.takes(kind, fragment.len()) {
                    return None;
                }
                self.reassembler.begin((source, destination), fragment.len());
                self.reassembler.append(fragment, true);
                Some(Received::Fragment { source, broadcast: broadcast_of(kind) })
            }
            Kind::StatusRequest => {
                self.queue_status(source);
                None
            }
            Kind::Status => Some(Received::LinkStatus { source }),
        }
    }
}

const fn broadcast_of(kind: Kind) -> Option<crate::link::Broadcast> {
    match kind {
        Kind::Broadcast(broadcast) => Some(broadcast),
        Kind::Fragment | Kind::StatusRequest | Kind::Status => None,
    }
}

/// Moves bytes to `held`, up to `max`, as long as they may begin a hello; returns how many.
fn hold(held: &mut Vec<u8>, bytes: &[u8], max: usize) -> usize {
    let before = held.len();
    for byte in bytes {
        if held.len() >= max || !may_be_hello(held) {
            break;
        }
        if held.is_empty() && Some(byte) != HELLO_START.first() {
            break;
        }
        held.push(*byte);
    }
    held.len() - before
}

#[cfg(test)]
mod tests;
