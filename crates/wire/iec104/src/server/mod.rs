//! A controlled station on one connection: requests in, answers and reports out.
//!
//! ```text
//! bytes ─ Link ─ ASDU ─▶ known type, cause, common address, object? ─▶ done here, or a Command event ─▶ the owner's `answer`
//!                            └ no: causes 44 to 47                       └ not permitted: a negative confirmation
//!
//! out, in this order:  link ─ confirmations ─ reports and terminations, by turns with interrogations and cyclic points
//! ```
//!
//! What all connections of a station share is in its [`Database`]. What waits for one connection ends with it: a client
//! interrogates when it connects. The connections of a [`Group`] share what waits, and one of them is started at a time.

mod config;
mod database;
mod output;
mod reports;
mod requests;
mod treatment;

pub use config::{Change, CommandAnswer, Freeze, ServerConfig, ServerCounters, ServerEvent, Treatment};
pub use database::{Database, DatabaseError, Point, SelectRule};
pub use reports::Group;

use self::output::{Job, Outgoing, Output};
use self::treatment::Held;
use crate::apdu::{Apdu, ApduError, Framer};
use crate::asdu::CauseCode;
use crate::link::{Link, LinkCounters, LinkError, Received};
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use tieline_core::{Instant, Machine, Now};

/// Events that wait; no more input is taken then.
const EVENTS_MAX: usize = 256;

/// A command that has not ended.
#[derive(Debug)]
struct Command {
    id: u64,
    /// As it came.
    asdu: Vec<u8>,
    is_accepted: bool,
    /// Nothing is said of it.
    is_silent: bool,
}

/// A controlled station on one connection.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    database: Rc<RefCell<Database>>,
    /// The number of the connection.
    connection: u64,
    link: Link,
    framer: Framer,
    events: VecDeque<ServerEvent>,
    commands: Vec<Command>,
    next_id: u64,
    output: Output,
    held: Held,
    cyclic_due: Option<Instant>,
    is_connected: bool,
    is_closing: bool,
    counters: ServerCounters,
}

impl Server {
    /// Before its first connection.
    #[must_use]
    pub fn new(config: ServerConfig, database: Rc<RefCell<Database>>) -> Self {
        Self {
            link: Link::new(config.link),
            output: Output::new(config.reports_max),
            config,
            database,
            connection: 0,
            framer: Framer::default(),
            events: VecDeque::new(),
            commands: Vec::new(),
            next_id: 0,
            held: Held::default(),
            cyclic_due: None,
            is_connected: false,
            is_closing: false,
            counters: ServerCounters::default(),
        }
    }

    /// Makes the connection one of a redundancy group, as soon as it is there. When its client starts it, the one of the group
    /// that was started before is closed as soon as its session is nudged.
    pub fn join(&mut self, group: &Group) {
        self.output.join(group);
    }

    /// Tells the client of a change, as soon as data transfer is started. A [`Group`] is told itself.
    pub fn report(&mut self, change: Change) {
        if self.is_connected && !self.is_closing {
            self.counters.reports_dropped += self.output.report(change);
        }
    }

    /// Tells the client that the station has started (M_EI), with the cause as COI has it; it interrogates then.
    pub fn initialized(&mut self, cause: u8) {
        if self.is_connected {
            let stations: Vec<u16> = self.database.borrow().stations().collect();
            stations.into_iter().for_each(|station| self.output.initialized(station, cause));
        }
    }

    /// Answers a [`ServerEvent::Command`]. Nothing happens where there is none: the client has gone, or stopped data transfer.
    pub fn answer(&mut self, id: u64, answer: CommandAnswer) {
        let Some(at) = self.commands.iter().position(|command| command.id == id && !command.is_accepted) else {
            return;
        };
        if self.commands.get(at).is_some_and(|command| command.is_silent) {
            self.commands.swap_remove(at);
            return;
        }
        let is_positive = answer != CommandAnswer::Refused;
        if is_positive && answer != CommandAnswer::Done && self.config.terminates_commands {
            if let Some(command) = self.commands.get_mut(at) {
                command.is_accepted = true;
                self.output.confirm(&command.asdu, CauseCode::ACTIVATION_CON, true);
            }
        } else {
            let Command { asdu, .. } = self.commands.swap_remove(at);
            self.output.confirm(&asdu, CauseCode::ACTIVATION_CON, is_positive);
            if is_positive && self.config.terminates_commands {
                self.output.terminate(&asdu, true);
            }
        }
        let counter = if is_positive { &mut self.counters.confirmed } else { &mut self.counters.refused };
        *counter += 1;
    }

    /// Ends a command that was [accepted](CommandAnswer::Accepted), well or not. Reports before it are sent before it.
    pub fn terminate(&mut self, id: u64, is_done: bool) {
        let accepted = |command: &Command| command.id == id && command.is_accepted;
        if let Some(at) = self.commands.iter().position(accepted) {
            let Command { asdu, .. } = self.commands.swap_remove(at);
            self.output.terminate(&asdu, is_done);
        }
    }

    /// Whether data transfer is started.
    #[must_use]
    pub const fn is_started(&self) -> bool {
        self.link.is_started() && !self.is_closing
    }

    /// Reports that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.output.waiting()
    }

    /// What was counted since the start.
    #[must_use]
    pub const fn counters(&self) -> &ServerCounters {
        &self.counters
    }

    /// What the link counted since the start.
    #[must_use]
    pub const fn link_counters(&self) -> &LinkCounters {
        self.link.counters()
    }

    /// Takes a frame; whether another one can be taken.
    fn handle_frame(&mut self, now: Now, frame: Result<Apdu<'_>, ApduError>) -> bool {
        let was_started = self.link.is_started();
        let received = match frame {
            Ok(apdu) => self.link.receive(now.mono, apdu),
            Err(error) => Received::Broken(LinkError::Frame(error)),
        };
        match received {
            Received::Nothing => {}
            Received::Asdu(asdu) if self.config.is_treated => self.hold(asdu),
            Received::Asdu(asdu) => self.handle_asdu(now, asdu),
            Received::Started if was_started => {}
            Received::Started => {
                self.output.reports.borrow_mut().activate(self.connection);
                self.events.push_back(ServerEvent::Started);
                self.cyclic_due = self.config.cyclic_every.map(|every| now.mono + every);
            }
            Received::Stopped => {
                if was_started {
                    self.events.push_back(ServerEvent::Stopped);
                }
                self.stop();
            }
            Received::Broken(error) => self.close(error),
        }
        self.output.reports.borrow_mut().acknowledged(self.connection, self.link.acknowledged());
        !self.is_closing && self.events.len() < EVENTS_MAX
    }

    /// Requests end without an answer when data transfer does; reports stay.
    fn stop(&mut self) {
        self.cyclic_due = None;
        self.commands.clear();
        self.held.clear();
        self.output.stop();
        self.database.borrow_mut().disconnect(self.connection);
    }

    fn close(&mut self, error: LinkError) {
        if !self.is_closing {
            self.is_closing = true;
            self.counters.broken += u64::from(error != LinkError::Replaced);
            self.stop();
            self.events.push_back(ServerEvent::Closing(error));
        }
    }

    fn handle_cycle(&mut self, now: Instant) {
        let (Some(due), Some(every)) = (self.cyclic_due, self.config.cyclic_every) else { return };
        if due > now {
            return;
        }
        self.cyclic_due = Some(now + every.max(CYCLE_MIN));
        if self.output.has_cycle() {
            self.counters.cycles_missed += 1;
            return;
        }
        let stations: Vec<u16> = self.database.borrow().stations().collect();
        stations.into_iter().for_each(|station| self.output.push(Job::cyclic(station)));
    }
}

/// Cyclic points are not sent more often.
const CYCLE_MIN: core::time::Duration = core::time::Duration::from_millis(10);

impl Machine for Server {
    type Event = ServerEvent;

    fn handle_connected(&mut self, now: Now) {
        self.handle_disconnected(now);
        self.is_connected = true;
        self.connection = self.database.borrow_mut().connect();
        self.link.connected(now.mono);
    }

    fn handle_disconnected(&mut self, _now: Now) {
        self.stop();
        self.framer.clear();
        self.link.disconnected();
        self.events.clear();
        self.output.reports.borrow_mut().release(self.connection);
        self.held = Held::default();
        self.output = Output::new(self.config.reports_max);
        (self.is_connected, self.is_closing) = (false, false);
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        if !self.is_connected || self.is_closing {
            return bytes.len();
        }
        if self.events.len() >= EVENTS_MAX {
            return 0;
        }
        let mut framer = core::mem::take(&mut self.framer);
        let used = framer.decode(bytes, |frame| self.handle_frame(now, frame));
        self.framer = framer;
        if self.is_closing { bytes.len() } else { used }
    }

    fn handle_timeout(&mut self, now: Now) {
        if !self.is_connected || self.is_closing || self.held.is_muted() {
            return;
        }
        if let Err(error) = self.link.handle_timeout(now.mono) {
            return self.close(error);
        }
        self.handle_cycle(now.mono);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if !self.is_connected || self.is_closing {
            return false;
        }
        if self.link.is_started() && self.output.reports.borrow().is_replaced(self.connection) {
            self.close(LinkError::Replaced);
            return false;
        }
        if self.held.is_muted() {
            return false;
        }
        if self.link.control(now.mono, out) || self.held.take_noise(out) {
            return true;
        }
        if !self.link.may_send() {
            return false;
        }
        let Some(next) = self.output.next(&self.database.borrow(), now) else { return false };
        let Outgoing { asdu, changes, reported } = next;
        self.counters.reported += reported;
        let number = self.link.send(now.mono, &asdu, out);
        self.output.reports.borrow_mut().sent(number, changes);
        true
    }

    fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    fn timeout(&self) -> Option<Instant> {
        if !self.is_connected || self.is_closing || self.held.is_muted() {
            return None;
        }
        self.link.timeout().into_iter().chain(self.cyclic_due).min()
    }

    fn is_closed(&self) -> bool {
        self.is_closing
    }
}
