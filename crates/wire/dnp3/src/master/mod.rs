//! A master: polls an outstation, takes its events and commands it.
//!
//! ```text
//! down ── connected ──▶ idle ◀── answer complete, or given up ── waiting
//!                        │                                          ▲
//!                        └── control, else duty, else task ─────────┘ sends one request, awaits its fragments
//!
//! duties, most urgent first: clear restart · disable unsolicited · integrity poll · enable unsolicited · set the time · event poll
//! ```
//!
//! At most one request is out. Duties are a set, and what the owner asks waits in two short queues, so nothing grows. What a
//! fragment brought is given as one event, which holds the fragment itself; no input is taken until it was given.
//! Unsolicited responses are taken at any time, confirmed after their measurements were given, and not given twice.
//!
//! Not confirmed, on purpose: fragments that cannot be read to the end, and unsolicited data before start-up has disabled
//! it. The outstation keeps their events.
//!
//! Read first: `task/mod.rs` (what can be asked), `request.rs` (what is sent), `receive.rs` (what is taken), `finish.rs` (what
//! follows).

mod config;
mod counters;
mod event;
mod files;
mod finish;
mod receive;
mod request;
mod secured;
mod share;
mod task;
mod timers;
mod work;

#[cfg(test)]
mod tests;

pub use config::{MasterConfig, TimeSync};
pub use counters::MasterCounters;
pub use event::{MasterEvent, OfflineReason, SubmitError, TaskOutcome};
pub use files::{FileEvent, FileFailure, FileJob, FileTransfer, FileTransferConfig};
pub use task::{Addressee, Answer, ControlProcedure, DeadBand, Freeze, Request, Restart, Selection};
pub use work::ReadRequest;

use crate::app::{AppControl, Sequence};
use crate::endpoint::{
    Endpoint, EndpointConfig, EndpointCounters, LinkService, PrimaryCounters, Received, Role, Trace,
};
use crate::link::LinkAddress;
use crate::secure::MasterSecurity;
use crate::{Classes, Control, Iin};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use task::Task;
use tieline_core::{CommandMode, Instant, Machine, Now};
use timers::{Timer, Timers};
use work::{Duties, Duty, Queue, Work};

/// A master of one outstation, over one connection at a time.
#[derive(Debug)]
pub struct Master {
    config: MasterConfig,
    endpoint: Endpoint,
    transport: Transport,
    health: Health,
    duties: Duties,
    /// Whether [`MasterEvent::Ready`] was given on this connection.
    ready: bool,
    queue: Queue,
    pending: Option<Pending>,
    reading: Option<Reading>,
    solicited: Confirms,
    unsolicited: Confirms,
    /// Of the next request.
    sequence: Sequence,
    /// Unsolicited responses that may come again.
    known: receive::Known,
    /// As of the last fragment.
    iin: Iin,
    /// What the next event poll asks for.
    classes_due: Classes,
    time_set_at: Option<Instant>,
    heard_at: Instant,
    timers: Timers,
    /// All but what fragments bring. Input waits while there are any, so one fragment's and one end of all tasks are the most.
    events: VecDeque<MasterEvent>,
    /// Of the last call that brought it.
    now: Now,
    counters: MasterCounters,
    secure: Option<Box<MasterSecurity>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Down,
    Up,
    /// The link does not answer: the driver must close the connection.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Unknown,
    Online,
    Offline(OfflineReason),
}

/// The request that is out, or about to be.
#[derive(Clone, Debug)]
struct Pending {
    work: Work,
    unsent: bool,
    /// The outstation has restarted since, or does so: a duty stays due.
    void: bool,
    retries_left: u8,
    sent: Now,
    /// The fragment expected next.
    next: Sequence,
    fragments: u16,
    /// Whether an answer so far brought events.
    events: bool,
    /// Whether an answer so far brought anything.
    brought_objects: bool,
    garbage_before: Option<u64>,
}

impl Pending {
    fn new(work: Work, retries: u8) -> Self {
        Self {
            unsent: true,
            void: false,
            retries_left: if work.is_once() { 0 } else { retries },
            work,
            sent: Now::default(),
            next: Sequence::default(),
            fragments: 0,
            events: false,
            brought_objects: false,
            garbage_before: None,
        }
    }

    /// The request is on its way.
    fn expect(&mut self, sequence: Sequence, now: Now, garbage: u64) {
        (self.unsent, self.sent, self.next, self.fragments) = (false, now, sequence, 0);
        // Garbage in the answer to a try counts for those that follow.
        self.garbage_before.get_or_insert(garbage);
    }

    /// Whether a response is the fragment that is expected.
    fn accepts(&self, control: AppControl) -> bool {
        let waits = !self.unsent && !self.work.is_unanswered();
        waits && !control.uns && control.sequence == self.next && control.fir == (self.fragments == 0)
    }

    fn advance(&mut self, control: AppControl) {
        self.next = control.sequence.next();
        self.fragments = self.fragments.saturating_add(1);
    }

    /// Asks again, if it may.
    fn repeat(&mut self) -> bool {
        let may = self.retries_left > 0;
        if may {
            self.retries_left -= 1;
            self.unsent = true;
        }
        may
    }

    fn is_event_poll(&self) -> bool {
        self.work == Work::Duty(Duty::PollEvents)
    }
}

/// A fragment that is being given to the owner.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Whether the owner has what it brought.
    given: bool,
    unsolicited: bool,
    /// Whether it ends its message.
    last: bool,
    confirm: Option<Confirm>,
    /// Whether it brought events.
    events: bool,
    /// Whether it brought anything.
    objects: bool,
}

#[derive(Clone, Copy, Debug)]
struct Confirm {
    sequence: Sequence,
}

/// The confirm that is owed, of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Confirms {
    confirm: Option<Confirm>,
    /// Until the owner releases it.
    held: bool,
}

impl Confirms {
    const fn due(sequence: Sequence) -> Self {
        Self { confirm: Some(Confirm { sequence }), held: false }
    }

    const fn is_empty(&self) -> bool {
        self.confirm.is_none()
    }

    const fn is_held(&self) -> bool {
        self.confirm.is_some() && self.held
    }

    fn take_due(&mut self) -> Option<Confirm> {
        if self.held { None } else { self.confirm.take() }
    }
}

impl Master {
    /// A master without a connection.
    #[must_use]
    pub fn new(config: MasterConfig) -> Self {
        let mut endpoint = Endpoint::new(EndpointConfig {
            remote: Some(LinkAddress::new(config.outstation)),
            fragment_max: config.fragment_bytes_max,
            ..EndpointConfig::new(Role::Master, LinkAddress::new(config.address))
        });
        endpoint.set_lean(config.lean);
        Self {
            config,
            endpoint,
            transport: Transport::Down,
            health: Health::Unknown,
            duties: Duties::default(),
            ready: false,
            queue: Queue::default(),
            pending: None,
            reading: None,
            solicited: Confirms::default(),
            unsolicited: Confirms::default(),
            sequence: Sequence::default(),
            known: receive::Known::default(),
            iin: Iin::NONE,
            classes_due: Classes::NONE,
            time_set_at: None,
            heard_at: Instant::ZERO,
            timers: Timers::default(),
            events: VecDeque::new(),
            now: Now::default(),
            counters: MasterCounters::default(),
            secure: None,
        }
    }

    /// The same with a function that is called at each boundary of its fragments' way.
    #[must_use]
    pub fn with_trace(mut self, trace: Trace) -> Self {
        self.endpoint.set_trace(trace);
        self
    }

    /// Whether lean messages were agreed on.
    #[must_use]
    pub fn is_lean(&self) -> bool {
        self.endpoint.is_lean()
    }

    /// Lets the link layer confirm user data, or ask for its status by itself; none, the default, does neither. Takes
    /// effect with the next connection.
    pub fn set_link_service(&mut self, service: Option<LinkService>) {
        self.endpoint.set_link_service(service);
    }

    /// What the link layer has seen where it does more than send unconfirmed user data.
    #[must_use]
    pub fn link_counters(&self) -> PrimaryCounters {
        self.endpoint.primary_counters()
    }

    /// How it behaves.
    #[must_use]
    pub const fn config(&self) -> &MasterConfig {
        &self.config
    }

    /// Whether the outstation answers as it should.
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.health == Health::Online
    }

    /// The indications of the last fragment.
    #[must_use]
    pub const fn indications(&self) -> Iin {
        self.iin
    }

    /// What was seen so far, of the application layer.
    #[must_use]
    pub const fn counters(&self) -> MasterCounters {
        self.counters
    }

    /// What was seen so far, of the layers below.
    #[must_use]
    pub fn endpoint_counters(&self) -> EndpointCounters {
        self.endpoint.counters()
    }

    /// Reads classes: [`MasterEvent::TaskDone`] with `token` tells when it is done.
    ///
    /// # Errors
    /// Too many reads wait already, or there is no connection.
    pub fn poll(&mut self, now: Now, classes: Classes, token: u64) -> Result<(), SubmitError> {
        self.read(now, ReadRequest::Classes(classes), token)
    }

    /// Reads objects: [`MasterEvent::TaskDone`] with `token` tells when it is done.
    ///
    /// # Errors
    /// Too many reads wait already, or there is no connection.
    pub fn read(&mut self, now: Now, request: ReadRequest, token: u64) -> Result<(), SubmitError> {
        self.submit(now, request.into(), token)
    }

    /// Asks for anything: [`MasterEvent::TaskDone`] with `token` tells what became of it, after [`MasterEvent::Answer`]
    /// with what it brought. Controls go ahead of all else; the rest waits for start-up. What must not be done twice is
    /// sent once.
    ///
    /// # Errors
    /// Too many wait already, there is no connection, or the request cannot be sent.
    pub fn submit(&mut self, now: Now, request: Request, token: u64) -> Result<(), SubmitError> {
        self.now = now;
        match self.transport {
            Transport::Up => {}
            Transport::Down | Transport::Lost => return Err(SubmitError::NotConnected),
        }
        request.check(self.config.request_bytes_max)?;
        let pushed = self.queue.push(Box::new(Task { request, token }), self.config.tasks_max);
        self.counters.tasks_refused += u64::from(pushed.is_err());
        pushed
    }

    /// Operates one output, ahead of all reads: [`MasterEvent::TaskDone`] with `token` tells what became of it. A
    /// select may be repeated, an operate never is. From `until` on nothing more is sent for it: nobody waits for the
    /// output to operate any more.
    ///
    /// # Errors
    /// Too many commands wait already, or there is no connection.
    pub fn command(
        &mut self,
        now: Now,
        control: Control,
        index: u16,
        mode: CommandMode,
        until: Instant,
        token: u64,
    ) -> Result<(), SubmitError> {
        let procedure = match mode {
            CommandMode::SelectBeforeOperate => ControlProcedure::SelectBeforeOperate,
            CommandMode::DirectOperate => ControlProcedure::Direct,
        };
        let request = Request::control(procedure, &[(index, control)], None);
        self.submit(now, request.map_err(|_| SubmitError::TooLong)?.until(until), token)
    }

    /// Sends the confirms that are held: what was given so far is safe with the owner.
    pub fn release_confirm(&mut self, now: Now) {
        self.now = now;
        self.solicited.held = false;
        self.unsolicited.held = false;
        self.timers.clear(Timer::Held);
    }

    /// When silence has lasted for too long.
    fn keep_alive_at(&self) -> Option<Instant> {
        let quiet = self.transport == Transport::Up && !self.timers.is_set(Timer::Probe);
        self.config.keep_alive.filter(|_| quiet).map(|after| self.heard_at + after)
    }

    fn handle_timer(&mut self, timer: Timer, now: Now) {
        match timer {
            Timer::Response => self.handle_response_timeout(now),
            Timer::Probe => {
                self.counters.links_lost += 1;
                self.transport = Transport::Lost;
                self.go_offline(OfflineReason::Timeout);
            }
            // The outstation has given up waiting for it, and will report its events again.
            Timer::Held => {
                self.counters.confirms_abandoned += 1;
                self.solicited = Confirms::default();
                self.fail_pending(now, TaskOutcome::Timeout { maybe_operated: false });
            }
            Timer::Retry => {}
            Timer::Overflow => self.duties.add(Duty::Integrity),
        }
    }
}

impl Machine for Master {
    type Event = MasterEvent;

    fn handle_connected(&mut self, now: Now) {
        self.now = now;
        self.transport = Transport::Up;
        self.endpoint.handle_connected(now.mono);
        self.duties = self.duties.with(Duties::startup(&self.config));
        self.ready = false;
        self.iin = Iin::NONE;
        self.heard_at = now.mono;
        if let Some(secure) = &mut self.secure {
            secure.handle_connected();
        }
        if !self.duties.is_starting() {
            self.ready = true;
            self.events.push_back(MasterEvent::Ready);
        }
    }

    fn handle_disconnected(&mut self, now: Now) {
        self.now = now;
        self.transport = Transport::Down;
        self.endpoint.reset();
        (self.reading, self.solicited, self.unsolicited) = (None, Confirms::default(), Confirms::default());
        (self.known, self.timers) = (receive::Known::default(), Timers::default());
        let lost = |maybe_operated| TaskOutcome::ConnectionLost { maybe_operated };
        if let Some(pending) = self.pending.take()
            && let Some(token) = pending.work.token()
        {
            self.end_task(token, lost(pending.work.operates() && !pending.unsent));
        }
        while let Some(task) = self.queue.pop() {
            self.end_task(task.token, lost(false));
        }
        self.handle_secured_disconnected();
        self.go_offline(OfflineReason::Disconnected);
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        self.now = now;
        if self.transport != Transport::Up {
            return bytes.len();
        }
        if self.reading.is_some() || !self.events.is_empty() {
            return 0;
        }
        let (used, received) = self.endpoint.handle_input(bytes);
        match received {
            Some(Received::Fragment { source, .. }) => self.handle_fragment(now, source),
            Some(Received::LinkStatus { .. }) => self.handle_link_status(),
            None => {}
        }
        used
    }

    fn handle_timeout(&mut self, now: Now) {
        self.now = now;
        while let Some(timer) = self.timers.take_next(now.mono) {
            self.handle_timer(timer, now);
        }
        while let Some(late) = self.queue.pop_late(now.mono) {
            self.end_task(late.token, TaskOutcome::Timeout { maybe_operated: false });
        }
        if self.keep_alive_at().is_some_and(|at| at <= now.mono) {
            self.probe(now);
        }
        self.endpoint.handle_timeout(now.mono);
        self.handle_secured_timeout(now);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        self.now = now;
        self.transport == Transport::Up && self.transmit(now, out)
    }

    fn poll_event(&mut self) -> Option<MasterEvent> {
        if let Some(event) = self.events.pop_front() {
            if self.events.is_empty() {
                self.events = VecDeque::new();
            }
            return Some(event);
        }
        self.poll_secured_event().or_else(|| self.read_on())
    }

    fn timeout(&self) -> Option<Instant> {
        let secure = self.secure.as_ref().and_then(|secure| secure.timeout());
        let own = [self.timers.timeout(), self.queue.timeout(), self.keep_alive_at()];
        let deadlines = own.into_iter().chain([self.endpoint.timeout(), secure]);
        deadlines.flatten().min()
    }

    fn is_closed(&self) -> bool {
        self.transport == Transport::Lost || self.endpoint.is_broken()
    }
}
