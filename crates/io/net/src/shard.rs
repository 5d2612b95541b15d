//! What the sessions of one thread share.

use crate::linger::AT_ONCE_MAX;
use crate::{Clock, Counters};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::Now;

/// Bytes that one read may bring.
const INPUT_BYTES: usize = 64 * 1024;

/// What the sessions of one thread share: a clock, counters, and the two buffers that make idle sessions small.
#[derive(Debug)]
pub struct Shard {
    clock: Clock,
    counters: Arc<Counters>,
    /// Where every read goes; borrowed within one poll only.
    pub(crate) input: RefCell<Box<[u8]>>,
    /// Where machines put what they send; borrowed within one write only.
    pub(crate) output: RefCell<Vec<u8>>,
    /// Connections that are over but for the peer's end.
    lingers: Cell<usize>,
    /// When the round of a session's turn that is under way looked at the clocks.
    round: Cell<Now>,
}

/// One of the connections that a shard lets end slowly.
pub(crate) struct Linger<'a>(&'a Cell<usize>);

impl Drop for Linger<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Shard {
    /// A shard of the current thread.
    #[must_use]
    pub fn new(clock: Clock, counters: Arc<Counters>) -> Rc<Self> {
        let input = RefCell::new(vec![0; INPUT_BYTES].into_boxed_slice());
        let (output, lingers, round) = (RefCell::default(), Cell::default(), Cell::default());
        Rc::new(Self { clock, counters, input, output, lingers, round })
    }

    /// A place for a connection that is to end slowly, while there is one.
    pub(crate) fn enter_linger(&self) -> Option<Linger<'_>> {
        let count = self.lingers.get();
        (count < AT_ONCE_MAX).then(|| {
            self.lingers.set(count + 1);
            Linger(&self.lingers)
        })
    }

    /// Both clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Both clocks, for a round of a session's turn.
    pub(crate) fn begin_round(&self) -> Now {
        let now = self.now();
        self.round.set(now);
        now
    }

    /// What [`Shard::begin_round`] has said last.
    pub(crate) const fn round_time(&self) -> Now {
        self.round.get()
    }

    /// The clock.
    #[must_use]
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// The totals that this shard adds to.
    #[must_use]
    pub const fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}
