//! A machine at one end of a network, driven as `io/net` drives it: input, then deadlines, then events, then output.

use crate::{Choices, Pipe};
use std::time::Duration;
use tieline_core::{Instant, Machine, Now};

/// How long a peer may take no byte while output waits: the default of `io/net`.
const STALL: Duration = Duration::from_secs(30);
/// Messages that go out in one write, likewise.
const WRITE_MESSAGES: usize = 1024;
/// Rounds of one turn: more means that a machine never comes to rest.
const ROUNDS_MAX: usize = 4096;

/// What learns of a machine.
pub trait Owner<M: Machine> {
    /// The machine has something to say.
    fn event(&mut self, machine: &mut M, now: Now, event: M::Event);

    /// The machine takes bytes next.
    fn feeds(&mut self, _machine: &M) {}

    /// The machine has taken these bytes and acted on them.
    fn fed(&mut self, _machine: &M, _bytes: &[u8]) {}

    /// The machine has sent a message.
    fn sent(&mut self, _bytes: &[u8]) {}
}

/// Why a connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The machine wants it.
    Machine,
    /// The machine takes neither input nor gives anything.
    Stuck,
    /// The peer takes no bytes.
    Slow,
    /// The machine does not come to rest.
    Restless,
}

/// A machine and its end of the connection.
#[derive(Debug)]
pub struct Driven<M> {
    /// The machine.
    pub machine: M,
    /// The connection that it is on.
    pub connection: Option<u64>,
    unsent: Vec<u8>,
    moved: Instant,
    /// Messages sent so far.
    pub messages: u64,
    /// Deadlines served so far.
    pub deadlines: u64,
}

impl<M: Machine> Driven<M> {
    /// A machine without a connection.
    pub const fn new(machine: M) -> Self {
        Self { machine, connection: None, unsent: Vec::new(), moved: Instant::ZERO, messages: 0, deadlines: 0 }
    }

    /// A connection begins; one that it still has ends before.
    pub fn connect(&mut self, now: Now, connection: u64, owner: &mut impl Owner<M>) {
        self.disconnect(now, owner);
        self.connection = Some(connection);
        self.machine.handle_connected(now);
    }

    /// The connection is gone.
    pub fn disconnect(&mut self, now: Now, owner: &mut impl Owner<M>) {
        if self.connection.take().is_some() {
            self.unsent.clear();
            self.machine.handle_disconnected(now);
            self.drain(now, owner);
        }
    }

    /// When it must have its turn at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        let stall = (!self.unsent.is_empty()).then(|| self.moved + STALL);
        self.machine.timeout().into_iter().chain(stall).min()
    }

    /// Everything that can be done without waiting. Messages go into `pipe`; without one they vanish.
    ///
    /// # Errors
    /// The connection must end.
    pub fn turn(
        &mut self,
        now: Now,
        input: &[u8],
        mut pipe: Option<&mut Pipe>,
        choices: &mut Choices,
        owner: &mut impl Owner<M>,
    ) -> Result<(), Closed> {
        let mut rest = input;
        for round in 0..ROUNDS_MAX {
            let used = if rest.is_empty() || self.machine.is_closed() { 0 } else { self.feed(now, rest, owner) };
            let waited = !rest.is_empty();
            rest = if self.machine.is_closed() { &[] } else { &rest[used..] };
            if rest.is_empty() && round == 0 || waited && rest.is_empty() {
                self.expire(now)?;
            }
            let drained = self.drain(now, owner);
            let written = self.write(now, pipe.as_deref_mut(), choices, owner);
            if waited && !rest.is_empty() && used + drained + written == 0 {
                return Err(Closed::Stuck);
            }
            if rest.is_empty() && drained + written == 0 {
                let over = self.connection.is_some() && self.unsent.is_empty() && self.machine.is_closed();
                return if over { Err(Closed::Machine) } else { Ok(()) };
            }
        }
        Err(Closed::Restless)
    }

    fn feed(&mut self, now: Now, bytes: &[u8], owner: &mut impl Owner<M>) -> usize {
        owner.feeds(&self.machine);
        let used = self.machine.handle_input(now, bytes);
        owner.fed(&self.machine, &bytes[..used]);
        used
    }

    fn expire(&mut self, now: Now) -> Result<(), Closed> {
        if !self.unsent.is_empty() && self.moved + STALL <= now.mono {
            return Err(Closed::Slow);
        }
        if self.machine.timeout().is_some_and(|deadline| deadline <= now.mono) {
            self.deadlines += 1;
            self.machine.handle_timeout(now);
        }
        Ok(())
    }

    fn drain(&mut self, now: Now, owner: &mut impl Owner<M>) -> usize {
        let mut count = 0;
        while let Some(event) = self.machine.poll_event() {
            owner.event(&mut self.machine, now, event);
            count += 1;
        }
        count
    }

    /// What the network refused before goes first; a machine is asked for more when it is gone.
    fn write(
        &mut self,
        now: Now,
        mut pipe: Option<&mut Pipe>,
        choices: &mut Choices,
        owner: &mut impl Owner<M>,
    ) -> usize {
        if self.connection.is_none() {
            return 0;
        }
        let mut send = |bytes: &[u8]| pipe.as_deref_mut().map_or(bytes.len(), |p| p.send(now.mono, bytes, choices));
        let taken = if self.unsent.is_empty() { 0 } else { send(&self.unsent) };
        self.unsent.drain(..taken);
        if taken > 0 {
            self.moved = now.mono;
        }
        let (mut total, mut messages) = (taken, 0);
        while self.unsent.is_empty() && messages < WRITE_MESSAGES {
            let mut message = Vec::new();
            if !self.machine.poll_transmit(now, &mut message) {
                break;
            }
            messages += 1;
            self.messages += 1;
            owner.sent(&message);
            let taken = send(&message);
            total += taken;
            if taken < message.len() {
                message.drain(..taken);
                (self.unsent, self.moved) = (message, now.mono);
            }
        }
        total
    }
}
