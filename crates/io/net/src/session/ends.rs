//! How a connection ends.

use super::Session;
use crate::Closed;
use crate::buffered::BufferedConnection;
use crate::counters::add;
use tieline_core::Machine;

impl<M: Machine> Session<M> {
    /// The line of a connection that the machine has ended, where its peer is to have time to read why.
    pub(super) fn take_last(&self, why: Closed) -> Option<BufferedConnection> {
        self.close_passage();
        let waits = why == Closed::Machine && !self.0.limits.linger.is_zero();
        let mut buffered = self.0.buffered.borrow_mut();
        buffered.take_if(|buffered| waits && buffered.can_part())
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
