//! Moments: the grid of a poll, a device's deadlines, and a heap with one entry a device.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use core::time::Duration;
use tieline_core::{DeviceId, Instant, Timer as Named, Timers as Table};

/// No moment.
pub(crate) const NEVER: Instant = Instant(u64::MAX);

/// The first moment after `now` on the grid of a device: `every` apart, shifted by a part of `every` that successive
/// numbers spread evenly: the fractions of multiples of the golden ratio.
pub(crate) fn next_on_grid(now: Instant, every: Duration, device: DeviceId) -> Instant {
    let every = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1);
    let fraction = u128::from(device.0.wrapping_mul(0x9E37_79B9));
    let phase = u64::try_from((u128::from(every) * fraction) >> 32).unwrap_or(0);
    let whole = match now.0.checked_sub(phase) {
        Some(passed) => passed / every + 1,
        None => 0,
    };
    Instant(whole.saturating_mul(every).saturating_add(phase))
}

/// What a device waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The next poll of any class is due.
    Poll,
    /// The rest after a poll is over.
    Gap,
    /// The poll that is out is given up.
    Lost,
    /// All points may be published.
    All,
    /// The state may be published.
    State,
    /// The statistics may be published.
    Stats,
    /// The oldest point may be stale.
    Stale,
    /// The last garbage is long enough ago.
    Calm,
}

impl Named for Timer {
    const ALL: &'static [Self] =
        &[Self::Poll, Self::Gap, Self::Lost, Self::All, Self::State, Self::Stats, Self::Stale, Self::Calm];

    fn place(self) -> usize {
        self as usize
    }
}

/// All deadlines of one device.
pub(crate) type Timers = Table<Timer, { Timer::ALL.len() }>;

/// Which device has the earliest deadline. Entries are lazy: a device keeps the moment of its one valid entry, a later
/// deadline lets that fire early, an earlier one adds an entry and leaves the old one to be skipped.
#[derive(Debug, Default)]
pub(crate) struct Heap(BinaryHeap<Reverse<(Instant, DeviceId)>>);

impl Heap {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn first(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    pub(crate) fn push(&mut self, at: Instant, device: DeviceId) {
        self.0.push(Reverse((at, device)));
    }

    /// The next entry that has passed.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Instant, DeviceId)> {
        let due = self.first()? <= now;
        due.then(|| self.0.pop().map(|Reverse(entry)| entry)).flatten()
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Instant, DeviceId) -> bool) {
        self.0.retain(|Reverse((at, device))| keep(*at, *device));
    }
}
