//! An MQTT session as the bus sees it: the protocol's machine, and frames that it shares with other sessions.

use bytes::Bytes;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use tieline_core::{Instant, Machine, Now};
use tieline_mqtt::{ConnectRequest, ServerEvent, ServerSession};
use tieline_websocket::{CloseCode, Offer, WebSocket};

/// The protocol's machine with a queue of shared frames behind it.
#[derive(Debug)]
pub struct Wire {
    /// The protocol.
    pub mqtt: ServerSession,
    shared: RefCell<Shared>,
    /// A CONNECT whose owner can answer it.
    again: Option<Box<ConnectRequest>>,
    /// The WebSocket around it, where the client came over one.
    web: Option<Box<WebSocket>>,
}

/// Frames on their way to one socket.
#[derive(Debug)]
struct Shared {
    frames: VecDeque<Bytes>,
    octets: usize,
    octets_max: usize,
    dropped: u64,
}

impl Wire {
    /// A session whose shared frames may take up `octets_max` while they wait.
    #[must_use]
    pub fn new(mqtt: ServerSession, octets_max: usize) -> Self {
        let shared = Shared { frames: VecDeque::new(), octets: 0, octets_max, dropped: 0 };
        Self { mqtt, shared: RefCell::new(shared), again: None, web: None }
    }

    /// The same inside a WebSocket, where one is offered.
    #[must_use]
    pub fn over(self, offer: Option<&Arc<Offer>>) -> Self {
        Self { web: offer.map(|offer| Box::new(WebSocket::new(Arc::clone(offer)))), ..self }
    }

    /// Lets the owner see a CONNECT a second time.
    pub fn ask_again(&mut self, request: ConnectRequest) {
        self.again = Some(Box::new(request));
    }

    /// Queues a frame that other sessions get too. When the queue is full the oldest frames go: what waits is old.
    pub fn push_shared(&self, frame: Bytes) {
        let mut shared = self.shared.borrow_mut();
        shared.octets += frame.len();
        shared.frames.push_back(frame);
        while shared.octets > shared.octets_max && shared.frames.len() > 1 {
            let oldest = shared.frames.pop_front().map_or(0, |frame| frame.len());
            shared.octets -= oldest;
            shared.dropped += 1;
        }
    }

    /// Octets of shared frames that wait.
    #[must_use]
    pub fn waiting_octets(&self) -> usize {
        self.shared.borrow().octets
    }

    /// Shared frames dropped because the queue was full.
    #[must_use]
    pub fn shared_dropped(&self) -> u64 {
        self.shared.borrow().dropped
    }
}

impl Machine for Wire {
    type Event = ServerEvent;

    fn handle_connected(&mut self, now: Now) {
        self.mqtt.handle_connected(now);
    }

    fn handle_disconnected(&mut self, now: Now) {
        let shared = self.shared.get_mut();
        (shared.frames, shared.octets) = (VecDeque::new(), 0);
        self.again = None;
        self.mqtt.handle_disconnected(now);
    }

    fn handle_input(&mut self, now: Now, octets: &[u8]) -> usize {
        let Self { mqtt, web, .. } = self;
        match web {
            None => mqtt.handle_input(now, octets),
            Some(web) => web.handle_input(octets, |plain| mqtt.handle_input(now, plain)),
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        self.mqtt.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let Self { mqtt, shared, web, .. } = self;
        let shared = shared.get_mut();
        let Some(web) = web else { return transmit(mqtt, shared, now, out) };
        if web.poll_transmit(out, |out| transmit(mqtt, shared, now, out)) {
            return true;
        }
        if mqtt.is_closed() && web.is_open() {
            web.close(CloseCode::Normal);
        }
        web.poll_transmit(out, |_| false)
    }

    fn poll_event(&mut self) -> Option<ServerEvent> {
        self.again.take().map(ServerEvent::Connect).or_else(|| self.mqtt.poll_event())
    }

    fn timeout(&self) -> Option<Instant> {
        self.mqtt.timeout()
    }

    fn is_closed(&self) -> bool {
        self.mqtt.is_closed() || self.web.as_ref().is_some_and(|web| web.is_closed())
    }
}

/// Appends what the session has to say, or the next shared frame.
fn transmit(mqtt: &mut ServerSession, shared: &mut Shared, now: Now, out: &mut Vec<u8>) -> bool {
    if mqtt.poll_transmit(now, out) {
        return true;
    }
    let Some(frame) = shared.frames.pop_front() else { return false };
    shared.octets -= frame.len();
    out.extend_from_slice(&frame);
    if shared.frames.is_empty() {
        shared.frames = VecDeque::new();
    }
    true
}
