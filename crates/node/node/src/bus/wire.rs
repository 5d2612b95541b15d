//! An MQTT session as the bus sees it: the protocol's machine, and frames that it shares with other sessions.

use bytes::Bytes;
use std::cell::RefCell;
use std::collections::VecDeque;
use tieline_core::{Instant, Machine, Now};
use tieline_mqtt::{ConnectRequest, ServerEvent, ServerSession};

/// The protocol's machine with a queue of shared frames behind it.
#[derive(Debug)]
pub struct Wire {
    /// The protocol.
    pub mqtt: ServerSession,
    shared: RefCell<Shared>,
    /// A CONNECT whose owner can answer it.
    again: Option<Box<ConnectRequest>>,
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
        Self { mqtt, shared: RefCell::new(shared), again: None }
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
        self.mqtt.handle_input(now, octets)
    }

    fn handle_timeout(&mut self, now: Now) {
        self.mqtt.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if self.mqtt.poll_transmit(now, out) {
            return true;
        }
        let shared = self.shared.get_mut();
        let Some(frame) = shared.frames.pop_front() else { return false };
        shared.octets -= frame.len();
        out.extend_from_slice(&frame);
        if shared.frames.is_empty() {
            shared.frames = VecDeque::new();
        }
        true
    }

    fn poll_event(&mut self) -> Option<ServerEvent> {
        self.again.take().map(ServerEvent::Connect).or_else(|| self.mqtt.poll_event())
    }

    fn timeout(&self) -> Option<Instant> {
        self.mqtt.timeout()
    }

    fn is_closed(&self) -> bool {
        self.mqtt.is_closed()
    }
}
