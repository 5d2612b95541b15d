//! A controlling station: requests in, their ends and what stations report out.
//!
//! Once connected it starts data transfer, then asks each station what [`ClientConfig::at_start`] says. Every request that was
//! taken ends with one event. A command is sent once: where no answer comes, nobody knows whether it was done, and
//! [`Outcome::Failed`] says so.
//!
//! Of several connections to one station one is started (IEC 60870-5-104 10): each has a client whose [`ClientConfig::starts`]
//! is false, and the owner starts one of them. The others are tested at t3.

mod answers;
mod config;
mod tasks;

pub use config::{
    ClientConfig, ClientCounters, ClientEvent, CommandEnd, CommandRequest, Failure, Origin, Outcome, Procedure,
    Request, SubmitError,
};

use self::config::Task;
use self::tasks::{Active, Step, Tasks};
use crate::apdu::{Apdu, ApduError, Framer};
use crate::asdu::{Address, Cause, CauseCode, Cp56, Element, Header, Object, TimeForm, TimeTag, TypeId, emit};
use crate::link::{Link, LinkCounters, LinkError, Received};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use tieline_core::{Instant, Machine, Now};

/// Events that wait; no more input is taken then.
const EVENTS_MAX: usize = 256;

/// A controlling station on one connection.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    link: Link,
    framer: Framer,
    tasks: Tasks,
    events: VecDeque<ClientEvent>,
    is_connected: bool,
    /// The start of data transfer was asked for.
    is_start_asked: bool,
    is_started: bool,
    /// What is asked at the start is not over.
    is_starting: bool,
    is_closing: bool,
    clock_due: Option<Instant>,
    /// The number of the next test.
    test: u16,
    counters: ClientCounters,
}

impl Client {
    /// Before its first connection.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        Self {
            link: Link::new(config.link),
            config,
            framer: Framer::default(),
            tasks: Tasks::default(),
            events: VecDeque::new(),
            is_connected: false,
            is_start_asked: false,
            is_started: false,
            is_starting: false,
            is_closing: false,
            clock_due: None,
            test: 0,
            counters: ClientCounters::default(),
        }
    }

    /// Takes a request, which ends with one event. Nothing is sent for it from `until` on.
    ///
    /// # Errors
    /// There is no connection, too many wait already, or a command is none; nothing happens then.
    pub fn submit(&mut self, id: u64, request: Request, until: Instant) -> Result<(), SubmitError> {
        if !self.is_online() {
            return Err(SubmitError::Disconnected);
        }
        if self.tasks.len() >= self.config.queue_max || self.events.len() >= self.config.queue_max + EVENTS_MAX {
            return Err(SubmitError::Full);
        }
        if !request.is_legal() {
            return Err(SubmitError::NoCommand);
        }
        self.tasks.push(Task { origin: Origin::Owner(id), request, until });
        Ok(())
    }

    /// Starts data transfer on the connection that there is; [`ClientEvent::Started`] follows.
    pub fn start(&mut self) {
        if self.is_connected && !self.is_closing && !self.is_start_asked {
            self.is_start_asked = true;
            self.link.start();
        }
    }

    /// Whether data transfer is started.
    #[must_use]
    pub const fn is_online(&self) -> bool {
        self.is_started && !self.is_closing
    }

    /// What was counted since the start.
    #[must_use]
    pub const fn counters(&self) -> &ClientCounters {
        &self.counters
    }

    /// What the link counted since the start.
    #[must_use]
    pub const fn link_counters(&self) -> &LinkCounters {
        self.link.counters()
    }

    /// Asks a station what it is asked at the start.
    fn ask_start(&mut self, common_address: u16) {
        for procedure in self.config.at_start.clone() {
            self.ask_own(procedure, common_address);
        }
        self.is_starting = true;
    }

    fn ask_own(&mut self, procedure: Procedure, common_address: u16) {
        let origin = Origin::Own(procedure, common_address);
        for request in procedure.requests(&self.config, common_address) {
            if !self.tasks.is_queued(origin, &request) {
                self.tasks.push(Task { origin, request, until: Instant(u64::MAX) });
            }
        }
    }

    fn started(&mut self, now: Instant) {
        if self.is_started {
            return;
        }
        self.is_started = true;
        self.events.push_back(ClientEvent::Started);
        for common_address in self.config.common_addresses.clone() {
            self.ask_start(common_address);
        }
        self.clock_due = self.config.clock_every.map(|every| now + every);
        self.look_ready();
    }

    /// What is asked at the start may be over.
    fn look_ready(&mut self) {
        if self.is_starting && !self.tasks.has_own() {
            self.is_starting = false;
            self.events.push_back(ClientEvent::Ready);
        }
    }

    fn end(&mut self, origin: Origin, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Done => &mut self.counters.done,
            Outcome::Refused { .. } => &mut self.counters.refused,
            Outcome::Failed { .. } => &mut self.counters.failed,
        };
        *counter += 1;
        self.events.push_back(ClientEvent::Ended { origin, outcome });
        if matches!(origin, Origin::Own(..)) {
            self.look_ready();
        }
    }

    fn close(&mut self, error: LinkError) {
        if !self.is_closing {
            self.is_closing = true;
            self.counters.broken += 1;
            self.events.push_back(ClientEvent::Closing(error));
        }
    }

    /// Takes a frame; whether another one can be taken.
    fn handle_frame(&mut self, now: Instant, frame: Result<Apdu<'_>, ApduError>) -> bool {
        let received =
            frame.map_or_else(|error| Received::Broken(LinkError::Frame(error)), |apdu| self.link.receive(now, apdu));
        match received {
            Received::Nothing => {}
            Received::Asdu(asdu) => self.handle_asdu(now, asdu),
            Received::Started if self.is_start_asked => self.started(now),
            // No controlled station starts a controlling one.
            Received::Started => self.close(LinkError::NotStarted),
            // No controlled station stops a controlling one.
            Received::Stopped => self.close(LinkError::NotStarted),
            Received::Broken(error) => self.close(error),
        }
        !self.is_closing && self.events.len() < EVENTS_MAX
    }

    /// The ASDU that a request is sent as, at this step.
    fn write(&mut self, now: Now, active: &Active, out: &mut Vec<u8>) {
        let time = Cp56::new(now.utc, self.config.utc_offset_minutes);
        let none = TimeTag::None;
        let (code, address, element, time) = match active.task.request {
            Request::Interrogation { qualifier, .. } => {
                (CauseCode::ACTIVATION, Address::default(), Element::Interrogation { qualifier }, none)
            }
            Request::Counters { qualifier, .. } => {
                (CauseCode::ACTIVATION, Address::default(), Element::CounterInterrogation { qualifier }, none)
            }
            Request::Clock { .. } => {
                (CauseCode::ACTIVATION, Address::default(), Element::ClockSynchronization { time }, none)
            }
            Request::Read { address, .. } => (CauseCode::REQUEST, address, Element::Read, none),
            Request::Test { .. } => {
                self.test = self.test.wrapping_add(1);
                let element = Element::TestCounter { count: self.test };
                (CauseCode::ACTIVATION, Address::default(), element, TimeTag::Cp56(time))
            }
            Request::Command(command) => {
                let element = command.element.with_select(active.step == Step::Selecting);
                let time = if command.with_time { TimeTag::Cp56(time) } else { none };
                (CauseCode::ACTIVATION, command.address, element, time)
            }
        };
        let cause = Cause { originator: self.config.originator, ..Cause::of(code) };
        let common_address = active.task.request.common_address();
        let header = Header { type_id: type_of(&active.task.request), is_sequence: false, cause, common_address };
        // One object of the type that its element has is always an ASDU.
        let _ = emit(&header, &[Object { address, element, time }], out);
    }

    /// Sends the next request, where there is one and it may go.
    fn send_request(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if !self.link.may_send() {
            return false;
        }
        let Some(mut active) = self.tasks.next() else { return false };
        let is_selected = active.step == Step::Selected;
        let needs_select = active.task.request.command().is_some_and(CommandRequest::needs_select);
        active.step = if needs_select && !is_selected { Step::Selecting } else { Step::Asked };
        active.by = now.mono + self.config.answer_timeout;
        let mut asdu = Vec::new();
        self.write(now, &active, &mut asdu);
        self.link.send(now.mono, &asdu, out);
        self.counters.requests += 1;
        self.tasks.put(active);
        true
    }

    fn expire(&mut self, now: Instant) {
        while let Some((origin, outcome)) = self.tasks.take_late(now) {
            self.end(origin, outcome);
        }
    }
}

/// The type that a request is sent as.
fn type_of(request: &Request) -> TypeId {
    match request {
        Request::Interrogation { .. } => TypeId::C_IC_NA_1,
        Request::Counters { .. } => TypeId::C_CI_NA_1,
        Request::Clock { .. } => TypeId::C_CS_NA_1,
        Request::Read { .. } => TypeId::C_RD_NA_1,
        Request::Test { .. } => TypeId::C_TS_TA_1,
        Request::Command(command) => {
            let time = if command.with_time { TimeForm::Cp56 } else { TimeForm::None };
            TypeId::of(command.element.form(), time).unwrap_or(TypeId::C_SC_NA_1)
        }
    }
}

impl Machine for Client {
    type Event = ClientEvent;

    fn handle_connected(&mut self, now: Now) {
        self.framer.clear();
        (self.is_connected, self.is_started, self.is_starting, self.is_closing) = (true, false, false, false);
        self.is_start_asked = false;
        self.link.connected(now.mono);
        if self.config.starts {
            self.start();
        }
    }

    fn handle_disconnected(&mut self, _now: Now) {
        (self.is_connected, self.is_started, self.is_starting, self.is_closing) = (false, false, false, false);
        self.clock_due = None;
        self.framer.clear();
        self.link.disconnected();
        for (origin, maybe_done) in self.tasks.take_all() {
            // The next connection asks again for what is the client's own.
            if matches!(origin, Origin::Owner(_)) {
                self.end(origin, Outcome::Failed { reason: Failure::Disconnected, maybe_done });
            }
        }
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        if !self.is_connected || self.is_closing {
            return bytes.len();
        }
        if self.events.len() >= EVENTS_MAX {
            return 0;
        }
        let mut framer = core::mem::take(&mut self.framer);
        let used = framer.decode(bytes, |frame| self.handle_frame(now.mono, frame));
        self.framer = framer;
        if self.is_closing { bytes.len() } else { used }
    }

    fn handle_timeout(&mut self, now: Now) {
        if !self.is_connected || self.is_closing {
            return;
        }
        if let Err(error) = self.link.handle_timeout(now.mono) {
            return self.close(error);
        }
        if let (Some(due), Some(every)) = (self.clock_due, self.config.clock_every)
            && due <= now.mono
        {
            self.clock_due = Some(now.mono + every);
            for common_address in self.config.common_addresses.clone() {
                self.ask_own(Procedure::Clock, common_address);
            }
        }
        self.expire(now.mono);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if !self.is_connected || self.is_closing {
            return false;
        }
        self.expire(now.mono);
        self.link.control(now.mono, out) || self.send_request(now, out)
    }

    fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    fn timeout(&self) -> Option<Instant> {
        if !self.is_connected || self.is_closing {
            return None;
        }
        let timers = [self.link.timeout(), self.tasks.timeout(), self.clock_due];
        timers.into_iter().flatten().min().filter(|at| *at != Instant(u64::MAX))
    }

    fn is_closed(&self) -> bool {
        self.is_closing
    }
}
