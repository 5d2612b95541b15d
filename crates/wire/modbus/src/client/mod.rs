//! A client of the devices behind one connection: transactions in, their ends out.
//!
//! ```text
//!  submit ─▶ Queue ─(a place in flight, a quiet line)─▶ Flight ─ answer ────────────▶ Answer, Exception
//!              ▲                                          ├──── nothing, a read ──┐
//!              └──────────── again, `retries` times ──────┼───────────────────────┘
//!                                                         └──── nothing ──────────▶ Failed
//! ```
//!
//! Every transaction that was taken ends with one event. A write goes out once: where its answer is lost, nobody knows
//! whether it was done, and [`ClientEvent::Failed`] says `sent`.

mod config;
mod flight;
mod line;
mod losses;
mod queue;

pub use config::{
    ClientConfig, ClientCounters, ClientEvent, Failure, IN_FLIGHT_MAX, Priority, SubmitError, Transaction,
};

use crate::frame::{Mbap, MbapDecoder, RtuWindow, rtu_frame, tcp_frame};
use crate::pdu::EXCEPTION_BIT;
use crate::{Framing, Reply, Response, Unit};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use flight::Flight;
use line::Line;
use losses::Losses;
use queue::{Job, Queue};
use tieline_core::{Instant, Machine, Now};

/// No moment.
const NEVER: Instant = Instant(u64::MAX);

/// A client of the devices behind one connection.
#[derive(Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    /// Transactions that wait, fly, or have ended with an event that was not taken yet.
    queue_max: usize,
    /// Requests that may be in flight: as configured, until an answer was lost among several.
    window: u8,
    queue: Queue,
    flights: Vec<Flight>,
    next_transaction: u16,
    mbap: MbapDecoder,
    rtu: RtuWindow,
    line: Line,
    losses: Losses,
    events: VecDeque<ClientEvent>,
    is_connected: bool,
    is_closing: bool,
    counters: ClientCounters,
    /// When a request that waits for a quiet line can go.
    wake: Instant,
    /// An answer was lost, and may come while the next request leaves.
    is_late_possible: bool,
}

impl Client {
    /// Before its first connection. Clients may share how they work.
    pub fn new(config: impl Into<Arc<ClientConfig>>) -> Self {
        let config = config.into();
        let window = if config.framing.is_rtu() { 1 } else { config.in_flight.clamp(1, IN_FLIGHT_MAX) };
        Self {
            window,
            line: Line::default(),
            queue_max: config.queue_max,
            config,
            queue: Queue::default(),
            flights: Vec::new(),
            next_transaction: 0,
            mbap: MbapDecoder::default(),
            rtu: RtuWindow::default(),
            losses: Losses::default(),
            events: VecDeque::new(),
            is_connected: false,
            is_closing: false,
            counters: ClientCounters::default(),
            wake: NEVER,
            is_late_possible: false,
        }
    }

    /// Takes a transaction, which ends with one event.
    ///
    /// # Errors
    /// There is no connection, too many wait already, or the request is not legal; nothing happens then.
    pub fn submit(&mut self, transaction: Transaction) -> Result<(), SubmitError> {
        if !self.is_connected || self.is_closing {
            return Err(SubmitError::Disconnected);
        }
        if self.queue.len() + self.flights.len() + self.events.len() >= self.queue_max {
            return Err(SubmitError::Full);
        }
        transaction.request.check().map_err(SubmitError::Request)?;
        if self.is_broadcast(transaction.unit) && transaction.request.is_read() {
            return Err(SubmitError::Broadcast);
        }
        self.queue.push(Box::new(Job { transaction, attempts: 0 }));
        Ok(())
    }

    /// Says how many transactions may wait from here on: devices have come or gone.
    pub const fn set_queue_max(&mut self, queue_max: usize) {
        self.queue_max = queue_max;
    }

    /// Gives up transactions that are not wanted any more; they end without an event. Of each whether it was sent: its
    /// place in flight, or the line, is left to the answer, which may still come.
    pub fn cancel(&mut self, mut is_over: impl FnMut(u64) -> bool) -> Vec<(u64, bool)> {
        let waiting = self.queue.take_if(|job| is_over(job.transaction.id));
        let mut cancelled: Vec<_> = waiting.map(|job| (job.transaction.id, job.attempts > 0)).collect();
        for flight in self.flights.iter_mut().filter(|flight| !flight.is_told) {
            if is_over(flight.job.transaction.id) {
                flight.is_told = true;
                cancelled.push((flight.job.transaction.id, true));
            }
        }
        cancelled
    }

    /// Transactions that were taken and have not ended.
    #[must_use]
    pub fn open(&self) -> usize {
        self.queue.len() + self.flights.iter().filter(|flight| !flight.is_told).count()
    }

    /// Requests that may be in flight at a time.
    #[must_use]
    pub const fn window(&self) -> u8 {
        self.window
    }

    /// What was counted since the start.
    #[must_use]
    pub const fn counters(&self) -> &ClientCounters {
        &self.counters
    }

    fn is_broadcast(&self, unit: Unit) -> bool {
        unit == Unit::BROADCAST && self.config.framing.is_rtu()
    }

    fn tell(&mut self, event: ClientEvent) {
        push_lean(&mut self.events, event);
    }

    fn fail(&mut self, id: u64, reason: Failure, sent: bool) {
        self.counters.failures += 1;
        self.tell(ClientEvent::Failed { id, reason, sent });
    }

    /// Fails what has waited too long for its turn.
    fn expire_queue(&mut self, now: Instant) {
        while let Some(job) = self.queue.take_expired(now) {
            self.fail(job.transaction.id, Failure::TimedOut, job.attempts > 0);
        }
    }

    fn expire_flights(&mut self, now: Instant) {
        let mut at = 0;
        while let Some(flight) = self.flights.get(at) {
            if flight.answer_deadline <= now {
                let flight = self.flights.remove(at);
                self.end_without_answer(now, flight);
            } else if !flight.is_told && flight.job.transaction.deadline <= now {
                self.abandon(at);
            } else {
                at += 1;
            }
        }
    }

    /// The owner waits no longer, but the answer may still come: its place in flight, or the line, is left to it.
    fn abandon(&mut self, at: usize) {
        let Some(flight) = self.flights.get_mut(at) else { return };
        flight.is_told = true;
        let id = flight.job.transaction.id;
        self.fail(id, Failure::TimedOut, true);
    }

    fn end_without_answer(&mut self, now: Instant, flight: Flight) {
        if flight.is_broadcast {
            self.counters.broadcasts += 1;
            if !flight.is_told {
                self.tell(ClientEvent::Sent { id: flight.job.transaction.id });
            }
            return;
        }
        self.counters.lost += 1;
        // Where the request after a loss is answered too early as well, the line is none: a pseudo-terminal, a virtual port.
        self.is_late_possible = !flight.is_guarded;
        self.counters.noise_bytes += self.rtu.clear() as u64;
        self.line.handle_lost(now + self.config.answer_timeout);
        if flight.is_crowded && self.window > 1 {
            self.tell(ClientEvent::WindowReduced { from: self.window });
            self.window = 1;
        }
        self.losses.handle_lost(flight.job.transaction.unit);
        if self.losses.is_fatal() && !matches!(self.config.framing, Framing::Rtu(_)) {
            self.close();
        }
        let reason = if flight.is_noisy { Failure::Garbage } else { Failure::Lost };
        self.end_or_retry(now, flight, reason);
    }

    fn close(&mut self) {
        if !self.is_closing {
            self.is_closing = true;
            self.tell(ClientEvent::Closing);
        }
    }

    /// A read is sent again while it may; anything else ends.
    fn end_or_retry(&mut self, now: Instant, flight: Flight, reason: Failure) {
        let Flight { job, is_told, .. } = flight;
        if is_told {
            return;
        }
        let again = job.transaction.request.is_read()
            && job.attempts <= self.config.retries
            && job.transaction.deadline > now
            && !self.is_closing;
        if again {
            self.counters.retries += 1;
            self.queue.push_front(job);
        } else {
            self.fail(job.transaction.id, reason, true);
        }
    }

    fn finish(&mut self, flight: &Flight, reply: Reply) {
        self.losses.handle_answer(flight.job.transaction.unit);
        self.is_late_possible = false;
        if flight.is_told {
            self.counters.stale += 1;
            return;
        }
        let id = flight.job.transaction.id;
        let event = match reply {
            Reply::Done(response) => {
                self.counters.answers += 1;
                ClientEvent::Answer { id, response }
            }
            Reply::Refused(code) => {
                self.counters.exceptions += 1;
                ClientEvent::Exception { id, code }
            }
        };
        self.tell(event);
    }

    fn handle_mbap(&mut self, now: Instant, frame: Mbap<'_>) {
        let Some(at) = self.flights.iter().position(|flight| flight.number == frame.transaction) else {
            self.counters.stale += 1;
            return;
        };
        let flight = self.flights.remove(at);
        let Job { transaction, .. } = &*flight.job;
        // Some gateways refuse in their own name.
        let is_refusal = frame.pdu.first().is_some_and(|code| code & EXCEPTION_BIT != 0);
        let is_ours = is_refusal || frame.unit == transaction.unit;
        let reply = is_ours.then(|| Response::parse(&transaction.request, frame.pdu).ok()).flatten();
        match reply {
            Some(reply) => self.finish(&flight, reply),
            None => {
                self.counters.mismatches += 1;
                self.end_or_retry(now, flight, Failure::Garbage);
            }
        }
    }

    fn handle_tcp(&mut self, now: Instant, bytes: &[u8]) {
        let mut mbap = core::mem::take(&mut self.mbap);
        let (_, dropped) = mbap.decode(bytes, |frame| {
            self.handle_mbap(now, frame);
            true
        });
        self.counters.noise_bytes += dropped as u64;
        if mbap.is_lost() {
            self.close();
        }
        self.mbap = mbap;
    }

    fn handle_rtu(&mut self, now: Instant, bytes: &[u8]) {
        for byte in bytes {
            // What comes before the request has left is the answer that was lost.
            let answers = |flight: &&mut Flight| !flight.is_broadcast && (!flight.is_guarded || flight.opens <= now);
            let Some(flight) = self.flights.first_mut().filter(answers) else {
                self.counters.noise_bytes += 1;
                continue;
            };
            let Some((_, pdu, noise)) = self.rtu.push(*byte, |unit, pdu| flight.answer_bytes(unit, pdu)) else {
                continue;
            };
            let reply = Response::parse(&flight.job.transaction.request, pdu);
            self.counters.noise_bytes += noise as u64;
            self.rtu.clear();
            match reply {
                Ok(reply) => {
                    let flight = self.flights.remove(0);
                    self.finish(&flight, reply);
                }
                Err(_) => {
                    // It may be a late answer to an earlier request: the one of this request can still come.
                    flight.is_noisy = true;
                    self.counters.mismatches += 1;
                }
            }
        }
        if let Some(flight) = self.flights.first_mut() {
            flight.is_noisy |= !self.rtu.is_empty();
        }
    }

    /// The next job that may go, given what is in flight; those that are too late fail.
    fn next_job(&mut self, now: Instant) -> Option<Box<Job>> {
        self.expire_queue(now);
        let flights = &self.flights;
        self.queue.pop(|job| flights.iter().all(|flight| flight.may_fly_beside(job)))
    }

    fn send(&mut self, now: Instant, mut job: Box<Job>, out: &mut Vec<u8>) {
        job.attempts = job.attempts.saturating_add(1);
        let start = out.len();
        let Transaction { unit, request, .. } = &job.transaction;
        let number = self.next_transaction;
        if self.config.framing.is_rtu() {
            rtu_frame(*unit, out, |out| request.emit(out));
            self.counters.noise_bytes += self.rtu.clear() as u64;
        } else {
            tcp_frame(number, *unit, out, |out| request.emit(out));
            self.next_transaction = self.next_transaction.wrapping_add(1);
        }
        let opens = now + self.config.framing.of_bytes(out.len() - start);
        self.line.handle_sent(opens);
        let is_broadcast = self.is_broadcast(*unit);
        let wait = if is_broadcast { self.config.turnaround } else { self.config.answer_timeout };
        let is_crowded = !self.flights.is_empty();
        for flight in &mut self.flights {
            flight.is_crowded = true;
        }
        self.counters.requests += 1;
        // Most connections have one in flight at a time.
        self.flights.reserve_exact(1);
        self.flights.push(Flight {
            job,
            number,
            opens,
            is_guarded: self.is_late_possible,
            answer_deadline: opens + wait,
            is_broadcast,
            is_crowded,
            is_noisy: false,
            is_told: false,
        });
    }
}

/// Appends to a queue that mostly holds one item: it takes memory for several only where there are several.
fn push_lean<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.capacity() == 0 {
        queue.reserve_exact(1);
    }
    queue.push_back(item);
}

impl Machine for Client {
    type Event = ClientEvent;

    fn handle_connected(&mut self, now: Now) {
        self.mbap.clear();
        self.rtu.clear();
        self.line = Line::default();
        self.line.handle_input(now.mono);
        self.losses = Losses::default();
        (self.is_connected, self.is_closing, self.wake) = (true, false, NEVER);
    }

    fn handle_disconnected(&mut self, _now: Now) {
        (self.is_connected, self.is_closing, self.wake) = (false, false, NEVER);
        self.mbap.clear();
        self.rtu.clear();
        for flight in core::mem::take(&mut self.flights) {
            if !flight.is_told {
                self.fail(flight.job.transaction.id, Failure::Disconnected, true);
            }
        }
        for job in self.queue.take_all() {
            self.fail(job.transaction.id, Failure::Disconnected, job.attempts > 0);
        }
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        if self.is_connected && !self.is_closing {
            self.line.handle_input(now.mono);
            if self.config.framing.is_rtu() {
                self.handle_rtu(now.mono, bytes);
            } else {
                self.handle_tcp(now.mono, bytes);
            }
        }
        bytes.len()
    }

    fn handle_timeout(&mut self, now: Now) {
        if self.wake <= now.mono {
            self.wake = NEVER;
        }
        self.expire_flights(now.mono);
        self.expire_queue(now.mono);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        self.wake = NEVER;
        if !self.is_connected || self.is_closing || self.flights.len() >= usize::from(self.window) {
            return false;
        }
        let ready = self.line.ready(&self.config);
        if ready > now.mono {
            self.wake = if self.queue.len() > 0 { ready } else { NEVER };
            return false;
        }
        let Some(job) = self.next_job(now.mono) else { return false };
        self.send(now.mono, job, out);
        true
    }

    fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    fn timeout(&self) -> Option<Instant> {
        let waiting = self.queue.deadline().min(self.wake);
        let first = self.flights.iter().fold(waiting, |first, flight| first.min(flight.deadline()));
        (first != NEVER).then_some(first)
    }

    fn is_closed(&self) -> bool {
        self.is_closing
    }
}
