//! The connection of a node to its hub (clauses AB.5.2 and AB.6.2): the primary one, else the failover hub.
//!
//! ```text
//!            dial                opened               accepted
//!   Down ───────────▶ (owner) ───────────▶ Connecting ────────▶ Up ──▶ Leaving
//!    ▲                  │ failed                │ refused, late  │ lost, silent │
//!    └──────────────────┴───────────────────────┴────────────────┴──────────────┘
//! ```
//!
//! The owner dials the hub of [`Connector::next_dial`] when its time has come: over the failover hub, too, as the primary hub
//! may be back. It says what came of it ([`Connector::dial_failed`], [`Connector::opened`]), gives whole messages of the
//! WebSocket, and closes it when [`Connector::is_closing`] and all was sent.

mod config;
mod dial;
mod receive;

pub use config::{ConnectorConfig, Counters, Event, Hub, Reason, SendError};

use crate::sc::{Body, Connect, Message, Vmac};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use dial::Dial;
use tieline_core::{Instant, Now};

/// The connection of a node to its hub: see the head of the module.
#[derive(Debug)]
pub struct Connector {
    config: ConnectorConfig,
    state: State,
    dial: Dial,
    vmac: Vmac,
    next_id: u16,
    transmits: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is no connection.
    Down,
    /// The hub is asked.
    Connecting { hub: Hub, id: u16, until: Instant },
    /// The hub accepted.
    Up { hub: Hub, npdu_bytes_max: u16, heard: Instant, asked: Option<Instant> },
    /// The hub is told that the node goes.
    Leaving { hub: Hub, id: u16, until: Instant },
    /// The WebSocket is to be closed.
    Closing,
}

impl Connector {
    /// A connector that dials the primary hub at once.
    #[must_use]
    pub fn new(config: ConnectorConfig) -> Self {
        Self {
            dial: Dial::new(&config),
            vmac: config.vmac,
            config,
            state: State::Down,
            next_id: 0,
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// The virtual address that the node has.
    #[must_use]
    pub const fn vmac(&self) -> Vmac {
        self.vmac
    }

    /// The hub that has accepted the node.
    #[must_use]
    pub const fn hub(&self) -> Option<Hub> {
        match self.state {
            State::Up { hub, .. } => Some(hub),
            State::Down | State::Connecting { .. } | State::Leaving { .. } | State::Closing => None,
        }
    }

    /// What was counted.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Which hub to dial, and when; none while the primary hub has a connection.
    #[must_use]
    pub const fn next_dial(&self) -> Option<(Hub, Instant)> {
        match self.state {
            State::Down => Some(self.dial.next()),
            State::Connecting { hub: Hub::Failover, .. } | State::Up { hub: Hub::Failover, .. } => {
                Some((Hub::Primary, self.dial.return_at()))
            }
            State::Connecting { .. } | State::Up { .. } | State::Leaving { .. } | State::Closing => None,
        }
    }

    /// A hub could not be reached, or its WebSocket was not opened.
    pub fn dial_failed(&mut self, now: Now, hub: Hub) {
        self.counters.failures += 1;
        self.dial.failed(now.mono, hub, self.state == State::Down);
    }

    /// The WebSocket to a hub is open: it is asked to accept the node.
    pub fn opened(&mut self, now: Now, hub: Hub) {
        self.transmits.clear();
        self.dial.opened(now.mono);
        let id = self.id();
        self.state = State::Connecting { hub, id, until: now.mono + self.config.connect_timeout };
        let connect = self.connect();
        self.emit(&Message::new(id, Body::ConnectRequest(connect)));
    }

    /// The WebSocket is gone.
    pub fn closed(&mut self, now: Now) {
        match self.state {
            State::Down => {}
            State::Connecting { hub, .. } | State::Up { hub, .. } => self.end(now, hub, Reason::Lost),
            State::Leaving { hub, .. } => self.end(now, hub, Reason::Left),
            State::Closing => {}
        }
        self.state = State::Down;
        self.transmits.clear();
    }

    /// Tells the hub that the node goes, and has the WebSocket closed.
    pub fn leave(&mut self, now: Now) {
        match self.state {
            State::Up { hub, .. } => {
                let id = self.id();
                self.emit(&Message::new(id, Body::DisconnectRequest));
                self.state = State::Leaving { hub, id, until: now.mono + self.config.connect_timeout };
            }
            State::Connecting { hub, .. } => self.end(now, hub, Reason::Left),
            State::Down | State::Leaving { .. } | State::Closing => {}
        }
    }

    /// Whether the WebSocket is to be closed, after what [`Connector::poll_transmit`] still gives.
    #[must_use]
    pub const fn is_closing(&self) -> bool {
        matches!(self.state, State::Closing)
    }

    /// Sends a message of the network layer.
    ///
    /// # Errors
    /// No hub is connected, it is too long, or too many wait.
    pub fn send(&mut self, to: Vmac, npdu: &[u8]) -> Result<(), SendError> {
        let sent = match self.state {
            State::Up { npdu_bytes_max, .. } if npdu.len() > usize::from(npdu_bytes_max) => Err(SendError::TooLong),
            State::Up { .. } if self.transmits.len() >= self.config.transmits_max => Err(SendError::Full),
            State::Up { .. } => Ok(()),
            State::Down | State::Connecting { .. } | State::Leaving { .. } | State::Closing => Err(SendError::NoHub),
        };
        if sent.is_err() {
            self.counters.dropped += 1;
            return sent;
        }
        let id = self.id();
        self.emit(&Message::new(id, Body::Npdu(npdu)).to(Some(to)));
        Ok(())
    }

    /// Lets deadlines that have passed take effect.
    pub fn handle_timeout(&mut self, now: Now) {
        match self.state {
            State::Down | State::Closing => {}
            State::Connecting { hub, until, .. } if until <= now.mono => self.end(now, hub, Reason::NotAccepted),
            State::Leaving { hub, until, .. } if until <= now.mono => self.end(now, hub, Reason::Left),
            State::Connecting { .. } | State::Leaving { .. } => {}
            State::Up { hub, asked: Some(until), .. } if until <= now.mono => self.end(now, hub, Reason::Silent),
            State::Up { hub, npdu_bytes_max, heard, asked: None } if heard + self.config.heartbeat <= now.mono => {
                let asked = Some(now.mono + self.config.connect_timeout);
                self.state = State::Up { hub, npdu_bytes_max, heard, asked };
                let id = self.id();
                self.emit(&Message::new(id, Body::HeartbeatRequest));
            }
            State::Up { .. } => {}
        }
    }

    /// When [`Connector::handle_timeout`] must be called at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        match self.state {
            State::Down | State::Closing => None,
            State::Connecting { until, .. } | State::Leaving { until, .. } => Some(until),
            State::Up { asked: Some(until), .. } => Some(until),
            State::Up { heard, asked: None, .. } => Some(heard + self.config.heartbeat),
        }
    }

    /// Appends the next message for the WebSocket.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(message) = self.transmits.pop_front() else { return false };
        self.counters.sent += 1;
        out.extend_from_slice(&message);
        true
    }

    /// The next thing that the owner must know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The hub is none of this node from here on.
    fn end(&mut self, now: Now, hub: Hub, reason: Reason) {
        self.counters.failures += u64::from(reason != Reason::Left);
        self.state = State::Closing;
        self.dial.ended(now.mono, hub, reason);
        self.events.push_back(Event::Down(hub, reason));
        if reason == Reason::DuplicateVmac {
            self.vmac = Vmac::random(self.dial.random());
            self.events.push_back(Event::Renamed(self.vmac));
        }
    }

    const fn connect(&self) -> Connect {
        let ConnectorConfig { uuid, bvlc_bytes_max, npdu_bytes_max, .. } = self.config;
        Connect { vmac: self.vmac, uuid, bvlc_bytes_max, npdu_bytes_max }
    }

    const fn id(&mut self) -> u16 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }

    fn emit(&mut self, message: &Message<'_>) {
        if self.transmits.len() > self.config.transmits_max {
            self.counters.dropped += 1;
            return;
        }
        let mut bytes = Vec::new();
        message.emit(&mut bytes);
        self.transmits.push_back(bytes);
    }
}
