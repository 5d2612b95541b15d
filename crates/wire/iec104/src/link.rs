//! The link of one connection (IEC 60870-5-104 5.1 to 5.3): sequence numbers, windows, start, stop and test frames.
//!
//! Both ends have one. The owner gives it the frames that came ([`Link::receive`]), asks for the frames that it sends by
//! itself ([`Link::control`]), and sends its ASDUs while [`Link::may_send`] ([`Link::send`]). An error means that the
//! connection is to be closed.

use crate::apdu::{Apdu, ApduError, Control};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use tieline_core::{Instant, Timer, Timers};

/// Sequence numbers have 15 bits.
const MODULO: u16 = 0x8000;

/// Windows and deadlines (5.5); the values of [`LinkConfig::DEFAULT`] are the standard's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// I frames that may be sent without an acknowledgement, 1 to 32767.
    pub k: u16,
    /// I frames after which an acknowledgement is sent at the latest, 1 to 32767.
    pub w: u16,
    /// How long an acknowledgement or a confirmation may take.
    pub t1: Duration,
    /// How long an acknowledgement waits for an I frame that carries it; shorter than `t1`.
    pub t2: Duration,
    /// How long nothing may come before a test frame is sent.
    pub t3: Duration,
}

impl LinkConfig {
    /// k 12, w 8, t1 15 s, t2 10 s, t3 20 s.
    pub const DEFAULT: Self =
        Self { k: 12, w: 8, t1: Duration::from_secs(15), t2: Duration::from_secs(10), t3: Duration::from_secs(20) };
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Why a connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkError {
    /// What came is no frame.
    Frame(ApduError),
    /// An I frame is not the next one: one was lost, or came twice.
    SendNumber {
        /// The number that it has.
        found: u16,
        /// The number that was to come.
        expected: u16,
    },
    /// An acknowledgement of frames that were not sent, or that were acknowledged before.
    ReceiveNumber {
        /// The number that it has.
        found: u16,
    },
    /// An I frame before data transfer was started, or after it was stopped.
    NotStarted,
    /// An I frame was not acknowledged within t1.
    NotAcknowledged,
    /// A start, stop or test frame was not confirmed within t1.
    NotConfirmed(Control),
    /// Another connection of the same redundancy group was started.
    Replaced,
}

impl LinkError {
    /// A stable word in `snake_case`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frame(_) => "frame",
            Self::SendNumber { .. } => "send_number",
            Self::ReceiveNumber { .. } => "receive_number",
            Self::NotStarted => "not_started",
            Self::NotAcknowledged => "not_acknowledged",
            Self::NotConfirmed(_) => "not_confirmed",
            Self::Replaced => "replaced",
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(f),
            Self::SendNumber { found, expected } => write!(f, "an I frame with N(S) {found}, expected {expected}"),
            Self::ReceiveNumber { found } => write!(f, "N(R) {found}, which acknowledges no I frame that waits for it"),
            Self::NotStarted => f.write_str("an I frame while data transfer is not started"),
            Self::NotAcknowledged => f.write_str("an I frame was not acknowledged within t1"),
            Self::NotConfirmed(function) => write!(f, "{} was not confirmed within t1", function.name()),
            Self::Replaced => f.write_str("another connection of its redundancy group was started"),
        }
    }
}

impl core::error::Error for LinkError {}

/// What a frame that came means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// Nothing for the owner.
    Nothing,
    /// An ASDU.
    Asdu(&'a [u8]),
    /// Data transfer is started: the other side asked for it, or confirmed it.
    Started,
    /// Data transfer is stopped: the other side asked for it, or confirmed it.
    Stopped,
    /// The connection is to be closed.
    Broken(LinkError),
}

/// What a link counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// I frames received.
    pub received: u64,
    /// I frames sent.
    pub sent: u64,
    /// S frames sent.
    pub acknowledgements: u64,
    /// Test frames sent.
    pub tests: u64,
    /// Confirmations that nobody asked for.
    pub unexpected: u64,
}

/// What a link waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// t1 of a start or stop frame.
    Change,
    /// t1 of a test frame.
    Test,
    /// t2.
    Acknowledge,
    /// t3.
    Idle,
}

impl Timer for Waits {
    const ALL: &'static [Self] = &[Self::Change, Self::Test, Self::Acknowledge, Self::Idle];

    fn place(self) -> usize {
        self as usize
    }
}

/// The link of one connection.
#[derive(Debug)]
pub struct Link {
    config: LinkConfig,
    /// V(S).
    send: u16,
    /// V(R).
    receive: u16,
    /// When each I frame was sent that is not acknowledged, the oldest first; at most k.
    waiting: VecDeque<Instant>,
    /// I frames received since the last acknowledgement.
    owed: u16,
    is_acknowledge_due: bool,
    is_started: bool,
    /// A start or stop that the owner asked for and that is not confirmed.
    change: Option<Control>,
    /// Frames to be sent next, without repetitions: at most one of each function.
    due: VecDeque<Control>,
    timers: Timers<Waits, 4>,
    acknowledged: u64,
    counters: LinkCounters,
}

impl Link {
    /// Of no connection yet.
    #[must_use]
    pub fn new(config: LinkConfig) -> Self {
        Self {
            config: LinkConfig { k: config.k.clamp(1, MODULO - 1), w: config.w.clamp(1, MODULO - 1), ..config },
            send: 0,
            receive: 0,
            waiting: VecDeque::new(),
            owed: 0,
            is_acknowledge_due: false,
            is_started: false,
            change: None,
            due: VecDeque::new(),
            timers: Timers::new(),
            acknowledged: 0,
            counters: LinkCounters::default(),
        }
    }

    /// A connection begins: numbers are 0, data transfer is stopped.
    pub fn connected(&mut self, now: Instant) {
        self.disconnected();
        self.timers.set(Waits::Idle, now + self.config.t3);
    }

    /// The connection is gone.
    pub fn disconnected(&mut self) {
        let counters = self.counters;
        *self = Self { counters, ..Self::new(self.config) };
    }

    /// Asks the other side to start data transfer.
    pub fn start(&mut self) {
        self.change = Some(Control::StartAct);
        self.say(Control::StartAct);
    }

    /// Asks the other side to stop data transfer.
    pub fn stop(&mut self) {
        self.change = Some(Control::StopAct);
        self.say(Control::StopAct);
    }

    /// Whether data transfer is started.
    #[must_use]
    pub const fn is_started(&self) -> bool {
        self.is_started
    }

    /// I frames sent on this connection that the other side has acknowledged; with [`Link::send`] this tells the owner which.
    #[must_use]
    pub const fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// I frames sent on this connection that the other side has not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.waiting.len()
    }

    /// What was counted since the start.
    #[must_use]
    pub const fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// Takes a frame that came.
    pub fn receive<'a>(&mut self, now: Instant, apdu: Apdu<'a>) -> Received<'a> {
        self.timers.set(Waits::Idle, now + self.config.t3);
        match apdu {
            Apdu::I { send, receive, asdu } => match self.take_i(now, send, receive) {
                Ok(()) => Received::Asdu(asdu),
                Err(error) => Received::Broken(error),
            },
            Apdu::S { receive } => match self.take_acknowledgement(receive) {
                Ok(()) => Received::Nothing,
                Err(error) => Received::Broken(error),
            },
            Apdu::U(function) => self.take_control(function),
        }
    }

    fn take_i(&mut self, now: Instant, send: u16, receive: u16) -> Result<(), LinkError> {
        // A confirmation of the start and the first data may cross.
        if !self.is_started && self.change != Some(Control::StartAct) {
            return Err(LinkError::NotStarted);
        }
        if send != self.receive {
            return Err(LinkError::SendNumber { found: send, expected: self.receive });
        }
        self.take_acknowledgement(receive)?;
        self.receive = (self.receive + 1) % MODULO;
        self.counters.received += 1;
        self.owed = self.owed.saturating_add(1);
        if !self.timers.is_set(Waits::Acknowledge) {
            self.timers.set(Waits::Acknowledge, now + self.config.t2);
        }
        self.is_acknowledge_due |= self.owed >= self.config.w;
        Ok(())
    }

    fn take_acknowledgement(&mut self, receive: u16) -> Result<(), LinkError> {
        // The oldest frame that waits has V(S) less the number of them.
        let left = usize::from(self.send.wrapping_sub(receive) % MODULO);
        let taken = self.waiting.len().checked_sub(left).ok_or(LinkError::ReceiveNumber { found: receive })?;
        self.waiting.drain(..taken);
        self.acknowledged += taken as u64;
        Ok(())
    }

    fn take_control<'a>(&mut self, function: Control) -> Received<'a> {
        match function {
            Control::StartAct => {
                self.say(Control::StartCon);
                self.is_started = true;
                Received::Started
            }
            Control::StopAct => {
                // What came is acknowledged before the stop is confirmed (5.3).
                self.is_acknowledge_due |= self.owed > 0;
                self.say(Control::StopCon);
                self.is_started = false;
                Received::Stopped
            }
            Control::TestAct => {
                self.say(Control::TestCon);
                Received::Nothing
            }
            Control::StartCon => self.confirmed(Control::StartAct, true),
            Control::StopCon => self.confirmed(Control::StopAct, false),
            Control::TestCon => {
                self.counters.unexpected += u64::from(!self.timers.is_set(Waits::Test));
                self.timers.clear(Waits::Test);
                Received::Nothing
            }
        }
    }

    fn confirmed<'a>(&mut self, asked: Control, starts: bool) -> Received<'a> {
        if self.change != Some(asked) || !self.timers.is_set(Waits::Change) {
            self.counters.unexpected += 1;
            return Received::Nothing;
        }
        self.change = None;
        self.timers.clear(Waits::Change);
        self.is_started = starts;
        if starts { Received::Started } else { Received::Stopped }
    }

    /// Lets deadlines that have passed take effect.
    ///
    /// # Errors
    /// The connection is to be closed.
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), LinkError> {
        if self.waiting.front().is_some_and(|sent| *sent + self.config.t1 <= now) {
            return Err(LinkError::NotAcknowledged);
        }
        while let Some(timer) = self.timers.take_next(now) {
            match timer {
                Waits::Change => return Err(LinkError::NotConfirmed(self.change.unwrap_or(Control::StartAct))),
                Waits::Test => return Err(LinkError::NotConfirmed(Control::TestAct)),
                Waits::Acknowledge => self.is_acknowledge_due = true,
                Waits::Idle => {
                    self.timers.set(Waits::Idle, now + self.config.t3);
                    // One that is out already has its own deadline.
                    if !self.timers.is_set(Waits::Test) {
                        self.say(Control::TestAct);
                    }
                }
            }
        }
        Ok(())
    }

    /// When [`Link::handle_timeout`] is to be called at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        let oldest = self.waiting.front().map(|sent| *sent + self.config.t1);
        self.timers.timeout().into_iter().chain(oldest).min()
    }

    /// Appends the next frame that the link sends by itself, and says whether there was one.
    pub fn control(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if self.is_acknowledge_due {
            self.acknowledge();
            self.counters.acknowledgements += 1;
            Apdu::S { receive: self.receive }.emit(out);
            return true;
        }
        let Some(function) = self.due.pop_front() else { return false };
        match function {
            Control::StartAct | Control::StopAct => self.timers.set(Waits::Change, now + self.config.t1),
            Control::TestAct => {
                self.counters.tests += 1;
                self.timers.set(Waits::Test, now + self.config.t1);
            }
            Control::StartCon | Control::StopCon | Control::TestCon => {}
        }
        Apdu::U(function).emit(out);
        true
    }

    /// Whether an ASDU may be sent: data transfer is started, and fewer than k wait for their acknowledgement.
    #[must_use]
    pub fn may_send(&self) -> bool {
        self.is_started && self.change.is_none() && self.waiting.len() < usize::from(self.config.k)
    }

    /// Appends an ASDU as an I frame, only where [`Link::may_send`]. Returns how many I frames were sent on this connection,
    /// this one among them: it is acknowledged once [`Link::acknowledged`] has come so far.
    pub fn send(&mut self, now: Instant, asdu: &[u8], out: &mut Vec<u8>) -> u64 {
        Apdu::I { send: self.send, receive: self.receive, asdu }.emit(out);
        self.acknowledge();
        self.send = (self.send + 1) % MODULO;
        self.waiting.push_back(now);
        self.counters.sent += 1;
        self.acknowledged + self.waiting.len() as u64
    }

    fn acknowledge(&mut self) {
        (self.owed, self.is_acknowledge_due) = (0, false);
        self.timers.clear(Waits::Acknowledge);
    }

    fn say(&mut self, function: Control) {
        if !self.due.contains(&function) {
            self.due.push_back(function);
        }
    }
}
