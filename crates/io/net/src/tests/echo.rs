//! A machine that returns what it is told.

use std::collections::VecDeque;
use std::time::Duration;
use tieline_core::{Instant, Machine, Now};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Connected,
    Disconnected,
    Bytes(usize),
    Timeout,
    Called,
}

#[derive(Debug)]
pub(crate) struct Echo {
    /// Bytes taken at one time; 0 takes none, against the contract.
    pub(crate) bite: usize,
    /// Messages of output that may wait; with more it takes nothing.
    pub(crate) room: usize,
    /// Bytes of output that never ends, in messages of this size.
    pub(crate) chatter: usize,
    /// The byte that ends the session.
    pub(crate) last_word: Option<u8>,
    /// How long after input the deadline is.
    pub(crate) idle: Option<Duration>,
    /// Whether the deadline stays where it is when it has passed, against all sense.
    pub(crate) stubborn: bool,
    pub(crate) deadline: Option<Instant>,
    pub(crate) events: VecDeque<Heard>,
    pub(crate) output: VecDeque<Vec<u8>>,
    /// Messages of output that waited at one time.
    pub(crate) most_waiting: usize,
    pub(crate) closed: bool,
    /// Whether it waits for its owner: it says nothing, and with more than `room` messages takes nothing.
    pub(crate) waiting: bool,
}

impl Default for Echo {
    fn default() -> Self {
        Self {
            bite: usize::MAX,
            room: usize::MAX,
            chatter: 0,
            last_word: None,
            idle: None,
            stubborn: false,
            deadline: None,
            events: VecDeque::new(),
            output: VecDeque::new(),
            most_waiting: 0,
            closed: false,
            waiting: false,
        }
    }
}

impl Machine for Echo {
    type Event = Heard;

    fn handle_connected(&mut self, _: Now) {
        self.closed = false;
        self.events.push_back(Heard::Connected);
    }

    fn handle_disconnected(&mut self, _: Now) {
        self.output.clear();
        self.events.push_back(Heard::Disconnected);
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        if self.output.len() >= self.room {
            return 0;
        }
        // Full until the owner has drained.
        if self.bite < usize::MAX && !self.events.is_empty() {
            return 0;
        }
        let used = bytes.len().min(self.bite);
        let taken = &bytes[..used];
        if used > 0 {
            self.events.push_back(Heard::Bytes(used));
            self.output.push_back(taken.to_vec());
            self.most_waiting = self.most_waiting.max(self.output.len());
        }
        self.closed = self.last_word.is_some_and(|last| taken.contains(&last));
        self.deadline = self.idle.map(|idle| now.mono + idle);
        used
    }

    fn handle_timeout(&mut self, now: Now) {
        if self.deadline.is_some_and(|at| at <= now.mono) {
            self.deadline = self.deadline.filter(|_| self.stubborn);
            self.events.push_back(Heard::Timeout);
        }
    }

    fn poll_transmit(&mut self, _: Now, out: &mut Vec<u8>) -> bool {
        if self.waiting {
            return false;
        }
        if self.chatter > 0 {
            out.resize(out.len() + self.chatter, b'.');
            return true;
        }
        let Some(message) = self.output.pop_front() else { return false };
        out.extend_from_slice(&message);
        true
    }

    fn poll_event(&mut self) -> Option<Heard> {
        self.events.pop_front()
    }

    fn timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn is_waiting(&self) -> bool {
        self.waiting
    }

    fn is_closed(&self) -> bool {
        self.closed
    }
}
