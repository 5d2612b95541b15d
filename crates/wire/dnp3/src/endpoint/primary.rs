//! The link layer as primary station beyond unconfirmed user data (IEEE 1815 9.2.6, 13.2): confirmed user data, one frame
//! at a time, and keep-alive. Off, it is one empty pointer in the endpoint.
//!
//! ```text
//! idle ── frames ──▶ resetting ── ACK ──▶ sending ── ACK, FCB turns ──▶ sending the next, or idle
//!                       ▲                    │ ACK or NACK with DFC ──▶ asking for the status ── DFC clear ──▶ on
//!                       └──────── NACK ──────┘
//! silence repeats the frame with the same FCB; after the last repetition all frames are dropped
//! ```

use super::{Endpoint, Role};
use crate::crc;
use crate::link::{Control, Frame, Function, HEADER_BYTES, Header, LinkAddress, frame_bytes};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::Instant;

/// What the link layer does beyond sending unconfirmed user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkService {
    /// Whether user data is sent as confirmed user data; broadcasts and FFFC are not.
    pub confirms: bool,
    /// How long an acknowledgement or a status may take. Default 1 s.
    pub timeout: Duration,
    /// How often a frame is repeated that was not acknowledged. Default 2.
    pub retries: u8,
    /// Silence after which the link is asked for its status; a link that does not answer either ends the connection.
    /// Default none.
    pub keep_alive: Option<Duration>,
}

impl Default for LinkService {
    fn default() -> Self {
        Self { confirms: false, timeout: Duration::from_secs(1), retries: 2, keep_alive: None }
    }
}

/// What the primary station has seen, in events since it was set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrimaryCounters {
    /// Frames of confirmed user data that were acknowledged.
    pub confirmed: u64,
    /// Frames that were repeated.
    pub retries: u64,
    /// Times that frames were dropped because nothing, or a refusal, came back.
    pub given_up: u64,
    /// Answers that said that the peer's buffers are full.
    pub busy: u64,
    /// Links that did not answer a keep-alive.
    pub links_lost: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Resetting,
    Sending,
    /// The peer's buffers are full: until its status says otherwise.
    Asking,
}

/// What goes out while others wait: the frames of what the machine above has written, one after another.
#[derive(Clone, Debug)]
pub(super) struct Primary {
    config: LinkService,
    /// Whole frames; the first is the one that is out. At most one call's output, as more is not taken while any is here.
    frames: Vec<u8>,
    state: State,
    is_reset: bool,
    /// Of the frame that is out.
    fcb: bool,
    retries_left: u8,
    /// What the state says must go out.
    due: bool,
    deadline: Option<Instant>,
    /// Of the last call that brought it.
    now: Instant,
    /// None without a connection.
    heard_at: Option<Instant>,
    frames_heard: u64,
    /// The keep-alive that is out must be answered by then.
    probe: Option<Instant>,
    lost: bool,
    counters: PrimaryCounters,
}

impl Primary {
    pub(super) fn new(config: LinkService) -> Self {
        Self {
            config,
            frames: Vec::new(),
            state: State::Idle,
            is_reset: false,
            fcb: true,
            retries_left: 0,
            due: false,
            deadline: None,
            now: Instant::ZERO,
            heard_at: None,
            frames_heard: 0,
            probe: None,
            lost: false,
            counters: PrimaryCounters::default(),
        }
    }

    /// The connection is gone, or begins.
    pub(super) fn reset(&mut self, now: Option<Instant>) {
        let (config, counters, frames_heard) = (self.config, self.counters, self.frames_heard);
        *self = Self { counters, frames_heard, ..Self::new(config) };
        self.now = now.unwrap_or_default();
        self.heard_at = now;
    }

    fn begin(&mut self) {
        self.deadline = None;
        self.retries_left = self.config.retries;
        self.due = !self.frames.is_empty();
        self.state = match (self.due, self.is_reset) {
            (false, _) => State::Idle,
            (true, false) => State::Resetting,
            (true, true) => State::Sending,
        };
        if !self.due {
            self.frames = Vec::new();
        }
    }

    fn give_up(&mut self) {
        self.counters.given_up += 1;
        self.frames = Vec::new();
        self.is_reset = false;
        self.begin();
    }

    fn retry(&mut self) {
        if self.retries_left == 0 {
            return self.give_up();
        }
        self.counters.retries += 1;
        self.retries_left -= 1;
        self.due = true;
    }

    /// Bytes of the frame that is out.
    fn first_bytes(&self) -> usize {
        let length = self.frames.get(2).copied().unwrap_or_default();
        frame_bytes(usize::from(length).saturating_sub(5)).min(self.frames.len())
    }

    /// The peer has answered as secondary station.
    pub(super) fn handle_answer(&mut self, function: Function, busy: bool) {
        match (function, self.state) {
            (Function::Ack, State::Resetting) => (self.is_reset, self.fcb) = (true, true),
            (Function::Ack, State::Sending) => {
                let bytes = self.first_bytes();
                self.frames.drain(..bytes);
                self.counters.confirmed += 1;
                self.fcb = !self.fcb;
            }
            // It has not taken the frame, and will when its buffers are free.
            (Function::Nack, State::Sending) if busy => {}
            (Function::Nack, State::Sending | State::Resetting) => {
                self.is_reset = false;
                self.state = State::Resetting;
                return self.retry();
            }
            (Function::NotSupported, State::Sending | State::Resetting | State::Asking) => return self.give_up(),
            (Function::Status, State::Asking) => {}
            _ => return,
        }
        if busy {
            self.counters.busy += 1;
            if self.state != State::Asking {
                self.retries_left = self.config.retries;
            }
            (self.state, self.due) = (State::Asking, false);
            self.deadline = Some(self.now + self.config.timeout);
        } else {
            self.begin();
        }
    }

    /// Whether the link did not answer a keep-alive.
    pub(super) const fn is_lost(&self) -> bool {
        self.lost
    }

    /// When silence has lasted for too long.
    fn silent_at(&self) -> Option<Instant> {
        Some(self.heard_at? + self.config.keep_alive?)
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        let silent = match self.probe {
            Some(probe) => Some(probe),
            None => self.silent_at(),
        };
        [self.deadline.filter(|_| !self.due), silent.filter(|_| !self.lost)].into_iter().flatten().min()
    }

    /// Says whether the link's status is to be asked for.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        self.now = now;
        if !self.due && self.deadline.take_if(|deadline| *deadline <= now).is_some() {
            if self.state == State::Asking && self.frames.is_empty() {
                self.begin();
            } else {
                self.retry();
            }
        }
        if self.probe.is_some_and(|probe| probe <= now) {
            self.counters.links_lost += u64::from(!self.lost);
            self.lost = true;
            return false;
        }
        let asks = self.probe.is_none() && self.silent_at().is_some_and(|at| at <= now);
        if asks {
            self.probe = Some(now + self.config.timeout);
        }
        asks
    }

    /// Notes the time, and whether a frame came since the last call.
    fn tell(&mut self, now: Instant, frames_heard: u64) {
        self.now = now;
        if frames_heard != self.frames_heard {
            (self.frames_heard, self.heard_at, self.probe) = (frames_heard, Some(now), None);
        }
    }

    /// Appends what the state says must go out.
    fn transmit(&mut self, from_master: bool, local: LinkAddress, out: &mut Vec<u8>) {
        if !core::mem::take(&mut self.due) {
            return;
        }
        self.deadline = Some(self.now + self.config.timeout);
        let first = self.frames.get(..self.first_bytes()).unwrap_or_default();
        let Some(frame) = Frame::parse(first) else { return };
        let destination = frame.header().destination;
        let function = match self.state {
            State::Idle => return,
            State::Resetting => Function::ResetLink,
            State::Asking => Function::RequestStatus,
            State::Sending => {
                let control = Control::new(from_master, Function::ConfirmedUserData).with_frame_count(self.fcb);
                let start = out.len();
                out.extend_from_slice(first);
                if let Some([head @ .., c1, c2]) = out.get_mut(start..start + HEADER_BYTES) {
                    head.iter_mut().skip(3).take(1).for_each(|byte| *byte = control.0);
                    [*c1, *c2] = crc::crc(head).to_le_bytes();
                }
                return;
            }
        };
        Header::new(from_master, function, destination, local).emit(&[], out);
    }
}

impl Endpoint {
    /// Lets the link layer do more than send unconfirmed user data; none is the default.
    pub fn set_link_service(&mut self, service: Option<LinkService>) {
        let wanted = service.filter(|service| service.confirms || service.keep_alive.is_some());
        self.primary = wanted.map(|service| Box::new(Primary::new(service)));
    }

    /// What the primary station has seen.
    #[must_use]
    pub fn primary_counters(&self) -> PrimaryCounters {
        self.primary.as_ref().map(|primary| primary.counters).unwrap_or_default()
    }

    /// Whether only [`Endpoint::poll_transmit`] may send: frames of what was written before await their
    /// acknowledgement, or a hello its answer.
    pub fn holds_back(&mut self, now: Instant) -> bool {
        let frames = self.decoder.counters().frames;
        let waits = self.primary.as_mut().is_some_and(|primary| {
            primary.tell(now, frames);
            !primary.frames.is_empty()
        });
        waits || self.is_negotiating()
    }

    /// Takes the frames `out[start..]` back, to send them one by one, each when the one before was acknowledged.
    #[cold]
    pub(super) fn hold_frames(&mut self, destination: LinkAddress, out: &mut Vec<u8>, start: usize) {
        let confirms = self.primary.as_mut().filter(|primary| primary.config.confirms && destination.is_station());
        let Some(primary) = confirms else { return };
        primary.frames.extend_from_slice(out.get(start..).unwrap_or_default());
        out.truncate(start);
        if primary.state == State::Idle {
            primary.begin();
        }
        primary.transmit(self.config.role == Role::Master, self.config.local, out);
    }

    #[cold]
    pub(super) fn transmit_primary(&mut self, out: &mut Vec<u8>) {
        if let Some(primary) = &mut self.primary {
            primary.transmit(self.config.role == Role::Master, self.config.local, out);
        }
    }
}

#[cfg(test)]
mod tests;
