//! How a connection ends.

use super::Session;
use crate::Closed;
use crate::counters::add;
use crate::line::Line;
use tieline_core::Machine;

impl<M: Machine> Session<M> {
    /// The line of a connection that the machine has ended, where its peer is to have time to read why.
    pub(super) fn take_last(&self, why: Closed) -> Option<Line> {
        let waits = why == Closed::Machine && !self.0.limits.farewell.is_zero();
        let mut line = self.0.line.borrow_mut();
        line.take_if(|line| waits && line.can_part())
    }

    pub(super) fn count_closed(&self, why: Closed) {
        let counters = self.0.shard.counters();
        add(&counters.closed, 1);
        match why {
            Closed::Slow | Closed::Full => add(&counters.closed_slow, 1),
            Closed::Io(_) => add(&counters.closed_io, 1),
            Closed::Peer
            | Closed::Machine
            | Closed::Owner
            | Closed::Replaced
            | Closed::Stuck
            | Closed::Silent
            | Closed::Tls(_) => {}
        }
    }
}
