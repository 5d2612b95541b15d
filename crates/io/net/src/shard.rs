//! What the sessions of one thread share.

use crate::{Clock, Counters};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::Now;

/// Octets that one read may bring.
const INPUT_OCTETS: usize = 64 * 1024;

/// What the sessions of one thread share: a clock, counters, and the two buffers that make idle sessions small.
#[derive(Debug)]
pub struct Shard {
    clock: Clock,
    counters: Arc<Counters>,
    /// Where every read goes; borrowed within one poll only.
    pub(crate) input: RefCell<Box<[u8]>>,
    /// Where machines put what they send; borrowed within one write only.
    pub(crate) output: RefCell<Vec<u8>>,
}

impl Shard {
    /// A shard of the current thread.
    #[must_use]
    pub fn new(clock: Clock, counters: Arc<Counters>) -> Rc<Self> {
        let input = RefCell::new(vec![0; INPUT_OCTETS].into_boxed_slice());
        Rc::new(Self { clock, counters, input, output: RefCell::default() })
    }

    /// Both clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        self.clock.now()
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
