//! Who-Is in ranges and at a pace: the answers of a whole site at once would be lost, and flood it.

use super::{Client, Event, RequestError, Target};
use crate::INSTANCE_ANY;
use crate::names::UnconfirmedService;
use crate::service::WhoIs;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Instant, Now};

/// Discoveries that wait at most.
const SWEEPS_MAX: usize = 256;

#[derive(Debug)]
struct Sweep {
    target: Target,
    low: u32,
    high: u32,
    width: u32,
}

#[derive(Debug)]
pub(super) struct Discovery {
    interval: Duration,
    sweeps: VecDeque<Sweep>,
    next_at: Instant,
}

impl Discovery {
    pub(super) const fn new(interval: Duration) -> Self {
        Self { interval, sweeps: VecDeque::new(), next_at: Instant::ZERO }
    }

    pub(super) fn add(&mut self, target: Target, low: u32, high: u32, width: u32) -> Result<(), RequestError> {
        if self.sweeps.len() >= SWEEPS_MAX {
            return Err(RequestError::QueueFull);
        }
        let (low, high) = (low.min(INSTANCE_ANY), high.min(INSTANCE_ANY));
        if low <= high {
            self.sweeps.push_back(Sweep { target, low, high, width: width.max(1) });
        }
        Ok(())
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        (!self.sweeps.is_empty()).then_some(self.next_at)
    }

    /// The Who-Is that is due, and whether it is the last of its sweep.
    fn next(&mut self, now: Instant) -> Option<(Target, WhoIs, bool)> {
        let sweep = self.sweeps.front_mut().filter(|_| self.next_at <= now)?;
        let high = sweep.low.saturating_add(sweep.width - 1).min(sweep.high);
        let who_is = WhoIs { range: Some((sweep.low, high)) };
        let (target, is_last) = (sweep.target, high >= sweep.high);
        sweep.low = high.saturating_add(1);
        if is_last {
            self.sweeps.pop_front();
        }
        self.next_at = now + self.interval;
        Some((target, who_is, is_last))
    }
}

impl Client {
    /// Sends the Who-Is that is due.
    pub(super) fn search(&mut self, now: Now) {
        let Some((target, who_is, is_last)) = self.discovery.next(now.mono) else { return };
        let mut parameters = Vec::new();
        who_is.emit(&mut parameters);
        self.counters.who_is += 1;
        if self.unconfirmed(target, UnconfirmedService::WHO_IS, &parameters).is_ok() && is_last {
            self.tell(Event::DiscoverySent(target));
        }
    }
}
