//! A server of one connection, or of one serial line: requests out, answers in.
//!
//! ```text
//! bytes ─▶ frame ─▶ one of our units? ─▶ legal? ─▶ Request event ─▶ the owner's `answer` ─▶ bytes
//!                     └ no: silence, or       └ no: an exception
//!                       the gateway's exception
//! ```

mod bank;
mod config;

pub use bank::Bank;
pub use config::{ServerConfig, ServerCounters, ServerEvent};

use crate::frame::{Mbap, MbapDecoder, RtuWindow, rtu_frame, tcp_frame};
use crate::pdu::request_bytes;
use crate::{ExceptionCode, Request, Response, Unit};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use tieline_core::{Instant, Machine, Now};

/// A request that the owner has not answered yet.
#[derive(Debug)]
struct Pending {
    id: u64,
    /// The transaction identifier on TCP.
    number: u16,
    unit: Unit,
    request: Request,
}

/// A server of one connection, or of one serial line.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    mbap: MbapDecoder,
    rtu: RtuWindow,
    pending: Vec<Pending>,
    events: VecDeque<ServerEvent>,
    /// Whole frames that were not sent yet.
    answers: VecDeque<Vec<u8>>,
    next_id: u64,
    /// When the last byte came.
    heard: Instant,
    /// When the pause ends a frame that is not whole.
    partial_deadline: Option<Instant>,
    /// When an answer that waits for the pause can go.
    wake: Option<Instant>,
    is_connected: bool,
    is_closing: bool,
    counters: ServerCounters,
}

impl Server {
    /// Before its first connection.
    #[must_use]
    pub fn new(config: ServerConfig) -> Self {
        Self {
            config,
            mbap: MbapDecoder::default(),
            rtu: RtuWindow::default(),
            pending: Vec::new(),
            events: VecDeque::new(),
            answers: VecDeque::new(),
            next_id: 0,
            heard: Instant::ZERO,
            partial_deadline: None,
            wake: None,
            is_connected: false,
            is_closing: false,
            counters: ServerCounters::default(),
        }
    }

    /// Answers the request of a [`ServerEvent::Request`]. Nothing happens where there is no such request: its connection has
    /// ended. A response that does not fit the request goes out as a device failure, and is counted.
    pub fn answer(&mut self, id: u64, result: Result<Response, ExceptionCode>) {
        let Some(at) = self.pending.iter().position(|pending| pending.id == id) else { return };
        let Pending { number, unit, request, .. } = self.pending.remove(at);
        let mut pdu = Vec::new();
        let emitted = match result {
            Ok(response) => response.emit(&request, &mut pdu).map_err(|_| {
                self.counters.misfits += 1;
                ExceptionCode::SERVER_DEVICE_FAILURE
            }),
            Err(code) => Err(code),
        };
        match emitted {
            Ok(()) => self.counters.answers += 1,
            Err(code) => {
                self.counters.exceptions += 1;
                code.emit(request.function().code(), &mut pdu);
            }
        }
        self.push_answer(number, unit, &pdu);
    }

    /// Ends a request without an answer, as a device does that fails: these bytes go out in its place, if there are any.
    pub fn fail(&mut self, id: u64, bytes: &[u8]) {
        let Some(at) = self.pending.iter().position(|pending| pending.id == id) else { return };
        self.pending.remove(at);
        if !bytes.is_empty() {
            self.answers.push_back(bytes.into());
        }
    }

    /// What was counted since the start.
    #[must_use]
    pub const fn counters(&self) -> &ServerCounters {
        &self.counters
    }

    fn push_answer(&mut self, number: u16, unit: Unit, pdu: &[u8]) {
        let mut frame = Vec::with_capacity(pdu.len() + 7);
        if self.config.framing.is_rtu() {
            rtu_frame(unit, &mut frame, |out| out.extend_from_slice(pdu));
        } else {
            tcp_frame(number, unit, &mut frame, |out| out.extend_from_slice(pdu));
        }
        self.answers.push_back(frame);
    }

    fn refuse(&mut self, number: u16, unit: Unit, pdu: &[u8], code: ExceptionCode) {
        self.counters.exceptions += 1;
        let mut answer = Vec::new();
        code.emit(pdu.first().copied().unwrap_or(0), &mut answer);
        self.push_answer(number, unit, &answer);
    }

    /// Whether another request can be taken.
    fn has_room(&self) -> bool {
        let max = usize::from(self.config.requests_max.max(1));
        self.pending.len() + self.answers.len() < max && self.events.len() < max
    }

    fn handle_request(&mut self, number: u16, unit: Unit, pdu: &[u8]) {
        self.counters.requests += 1;
        let is_broadcast = unit == Unit::BROADCAST && self.config.framing.is_rtu();
        if !is_broadcast && !self.config.units.has(unit) {
            if let Some(code) = self.config.other_units {
                self.refuse(number, unit, pdu, code);
            }
            return;
        }
        match Request::parse(pdu) {
            Ok(request) if is_broadcast => {
                if !request.is_read() {
                    self.events.push_back(ServerEvent::Broadcast { request });
                }
            }
            Ok(request) => {
                let id = self.next_id;
                self.next_id += 1;
                self.events.push_back(ServerEvent::Request { id, unit, request: request.clone() });
                self.pending.push(Pending { id, number, unit, request });
            }
            Err(_) if is_broadcast => {}
            Err(error) => self.refuse(number, unit, pdu, error.exception()),
        }
    }

    fn handle_tcp(&mut self, bytes: &[u8]) -> usize {
        let mut mbap = core::mem::take(&mut self.mbap);
        let (used, dropped) = mbap.decode(bytes, |Mbap { transaction, unit, pdu }| {
            self.handle_request(transaction, unit, pdu);
            self.has_room()
        });
        self.counters.noise_bytes += dropped as u64;
        self.is_closing |= mbap.is_lost();
        self.mbap = mbap;
        used
    }

    fn handle_rtu(&mut self, bytes: &[u8]) -> usize {
        for (at, byte) in bytes.iter().enumerate() {
            let units = self.config.units;
            let length_of = |unit: Unit, pdu: &[u8]| {
                let is_ours = unit == Unit::BROADCAST || units.has(unit);
                is_ours.then(|| request_bytes(pdu).ok().flatten())?
            };
            let Some((unit, pdu, noise)) = self.rtu.push(*byte, length_of) else { continue };
            let pdu = Vec::from(pdu);
            self.counters.noise_bytes += noise as u64;
            self.rtu.clear();
            self.handle_request(0, unit, &pdu);
            if !self.has_room() {
                return at + 1;
            }
        }
        bytes.len()
    }

    /// A pause: what came is a frame of a function without a known length, or noise, or for another unit.
    fn handle_pause(&mut self) {
        let whole = self.rtu.whole().map(|(unit, pdu)| (unit, Vec::from(pdu)));
        let count = self.rtu.clear();
        match whole {
            Some((unit, pdu)) if self.config.units.has(unit) && unit != Unit::BROADCAST => {
                self.handle_request(0, unit, &pdu);
            }
            _ => self.counters.noise_bytes += count as u64,
        }
    }
}

impl Machine for Server {
    type Event = ServerEvent;

    fn handle_connected(&mut self, now: Now) {
        self.handle_disconnected(now);
        (self.is_connected, self.heard) = (true, now.mono);
    }

    fn handle_disconnected(&mut self, _now: Now) {
        self.mbap.clear();
        self.rtu.clear();
        self.pending.clear();
        self.events.clear();
        self.answers.clear();
        (self.partial_deadline, self.wake) = (None, None);
        (self.is_connected, self.is_closing) = (false, false);
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        if !self.is_connected || self.is_closing {
            return bytes.len();
        }
        if !self.has_room() {
            return 0;
        }
        self.heard = now.mono;
        if !self.config.framing.is_rtu() {
            return self.handle_tcp(bytes);
        }
        let used = self.handle_rtu(bytes);
        self.partial_deadline = (!self.rtu.is_empty()).then(|| now.mono + self.config.framing.partial());
        used
    }

    fn handle_timeout(&mut self, now: Now) {
        if self.wake.is_some_and(|at| at <= now.mono) {
            self.wake = None;
        }
        if self.partial_deadline.is_some_and(|at| at <= now.mono) {
            self.partial_deadline = None;
            self.handle_pause();
        }
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        self.wake = None;
        if self.answers.is_empty() {
            return false;
        }
        let ready = self.heard + self.config.framing.silence();
        if ready > now.mono {
            self.wake = Some(ready);
            return false;
        }
        let Some(frame) = self.answers.pop_front() else { return false };
        out.extend_from_slice(&frame);
        true
    }

    fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    fn timeout(&self) -> Option<Instant> {
        self.partial_deadline.into_iter().chain(self.wake).min()
    }

    fn is_waiting(&self) -> bool {
        self.is_connected && !self.is_closing && !self.has_room()
    }

    fn is_closed(&self) -> bool {
        self.is_closing
    }
}
