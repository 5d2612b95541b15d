//! Frames that are written past a session, where another thread has its socket.

use super::Session;
use crate::counters::add;
use crate::{Direction, Passage, Shard};
use tieline_core::{Machine, Now};

impl<M: Machine> Session<M> {
    /// Gives bytes to a connection whose socket another thread has, past the machine: to be called only where the machine has
    /// nothing to say before them. False where the socket is this thread's, or takes nothing at the moment.
    pub fn send_past(&self, now: Now, bytes: &[u8]) -> bool {
        let mut buffered = self.0.buffered.borrow_mut();
        let Some(buffered) = buffered.as_mut().filter(|buffered| buffered.is_remote() && buffered.is_open()) else {
            return false;
        };
        let Ok(taken) = buffered.write(bytes, &self.0.limits, now.mono) else { return false };
        self.count_written(taken, 1);
        self.tap(now, Direction::Sent, bytes.get(..taken).unwrap_or_default());
        taken > 0
    }

    /// What lets frames of up to `frame_max` bytes be written past the session, until something else is done with it: the
    /// machine is called, it has input, its connection refuses or ends. To be called only where the machine has nothing to say
    /// before them, and with [`Session::close_passage`] before anything that only a look at the machine has made. None where
    /// the socket is this thread's, was sent nothing yet, or a tap is to see all bytes.
    #[must_use]
    pub fn open_passage(&self, frame_max: usize) -> Option<Passage> {
        // What comes from the peer may make output at any moment of a turn.
        if self.0.turning.get() || self.0.tap.get().is_some() {
            return None;
        }
        self.close_passage();
        let buffered = self.0.buffered.borrow();
        let passage = buffered.as_ref().filter(|buffered| buffered.is_open())?.open_passage(frame_max)?;
        self.0.passes.set(true);
        Some(passage)
    }

    /// Nothing is written past the session any more; what was is counted.
    #[inline]
    pub fn close_passage(&self) {
        if self.0.passes.take() {
            self.count_past();
        }
    }

    #[inline(never)]
    fn count_past(&self) {
        if let Some(buffered) = &*self.0.buffered.borrow() {
            let past = buffered.close_passage();
            self.count(|traffic| traffic.count_past(past));
        }
    }
}

impl Shard {
    /// Counts what was written past sessions ([`Passage`]): so many frames of so many bytes together.
    pub fn count_past(&self, frames: usize, bytes: usize) {
        let counters = self.counters();
        add(&counters.bytes_out, bytes);
        add(&counters.writes, frames);
        add(&counters.messages_out, frames);
    }
}
