//! The engine, and how long it rests: the bus asks it in every turn what is due, and mostly nothing is.

use std::ops::{Deref, DerefMut};
use tieline_control::Coordinator;
use tieline_core::Instant;

/// The engine. Access by which it may change ends its rest.
#[derive(Debug)]
pub(super) struct Resting {
    engine: Coordinator,
    /// It has nothing to say before, unless it is called; zero while it is to be asked.
    until: Instant,
}

impl Resting {
    pub(super) const fn new(engine: Coordinator) -> Self {
        Self { engine, until: Instant::ZERO }
    }

    /// The engine, to be looked at.
    pub(super) const fn engine(&self) -> &Coordinator {
        &self.engine
    }

    /// The engine, for a call after which it has no more to do than before.
    pub(super) const fn engine_at_rest(&mut self) -> &mut Coordinator {
        &mut self.engine
    }

    /// Whether it has nothing to do and nothing to say.
    pub(super) fn rests(&self, now: Instant) -> bool {
        now < self.until
    }

    /// All that it had to say was taken: it rests until its next deadline, where no command is under way, and no device is
    /// reserved. Time slots begin and end by the wall clock, whose steps no deadline tells.
    pub(super) fn rest(&mut self, deadline: Option<Instant>) {
        let stats = self.engine.stats();
        if stats.tasks + stats.jobs + stats.control.under_way == 0 {
            self.until = deadline.unwrap_or(Instant(u64::MAX));
        }
    }

    /// It is asked in the next turn.
    pub(super) const fn end_rest(&mut self) {
        self.until = Instant::ZERO;
    }
}

impl Deref for Resting {
    type Target = Coordinator;

    fn deref(&self) -> &Coordinator {
        &self.engine
    }
}

impl DerefMut for Resting {
    fn deref_mut(&mut self) -> &mut Coordinator {
        self.end_rest();
        &mut self.engine
    }
}
