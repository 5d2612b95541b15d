//! Moments: the grid of a poll's parts, a device's deadlines, and a heap with one entry a device.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use core::time::Duration;
use tieline_core::{DeviceId, Instant, Timer as Named, Timers as Table};

/// No moment.
pub(crate) const NEVER: Instant = Instant(u64::MAX);

/// The share of an interval, in units of 2^-32, by which the `place`-th of many is shifted: multiples of the golden ratio,
/// which successive places spread evenly for any count.
pub(crate) const fn golden(place: u32) -> u32 {
    place.wrapping_mul(0x9E37_79B9)
}

/// The share of a poll class of a device, on top of the device's: multiples of the square root of two.
pub(crate) const fn root_two(class: u32) -> u32 {
    class.wrapping_mul(0x6A09_E667)
}

/// When the parts of a poll are due: evenly spaced moments, `parts` in each interval, shifted by a fraction of the time
/// between two. Moments are numbered, so nothing drifts and only a number is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Nanoseconds; not zero.
    every: u64,
    /// Not zero.
    parts: u16,
    fraction: u32,
}

impl Grid {
    pub(crate) fn new(every: Duration, parts: u16, fraction: u32) -> Self {
        let every = nanoseconds(every).max(1);
        Self { every, parts: parts.max(1), fraction }
    }

    pub(crate) const fn parts(self) -> u16 {
        self.parts
    }

    /// The time between two moments, rounded down.
    pub(crate) fn spacing(self) -> Duration {
        Duration::from_nanos(self.every / u64::from(self.parts))
    }

    /// The number of the first moment after `now`.
    pub(crate) fn after(self, now: Instant) -> u64 {
        let Some(passed) = now.0.checked_sub(self.phase()) else { return 0 };
        // Numbers of 128 bits are divided by a loop, and nearly all products have 64.
        let whole = match passed.checked_mul(self.parts.into()) {
            Some(product) => product / self.every,
            None => {
                let whole = u128::from(passed) * u128::from(self.parts) / u128::from(self.every);
                u64::try_from(whole).unwrap_or(u64::MAX)
            }
        };
        whole.saturating_add(1)
    }

    /// The moment of a number.
    pub(crate) fn at(self, number: u64) -> Instant {
        let offset = match number.checked_mul(self.every) {
            Some(product) => product.div_ceil(self.parts.into()),
            None => {
                let offset = (u128::from(number) * u128::from(self.every)).div_ceil(u128::from(self.parts));
                u64::try_from(offset).unwrap_or(u64::MAX)
            }
        };
        Instant(offset.saturating_add(self.phase()))
    }

    /// Which part is due at a moment.
    pub(crate) fn part(self, number: u64) -> u16 {
        u16::try_from(number % u64::from(self.parts)).unwrap_or(0)
    }

    fn phase(self) -> u64 {
        let share = (u128::from(self.every) * u128::from(self.fraction)) >> 32;
        u64::try_from(share / u128::from(self.parts)).unwrap_or(0)
    }
}

/// The first moment after `now` that is a multiple of `every`, shifted by a fraction of it.
pub(crate) fn next_on_grid(now: Instant, every: Duration, fraction: u32) -> Instant {
    let grid = Grid::new(every, 1, fraction);
    grid.at(grid.after(now))
}

/// The multiple of `grid` at `at` or after it.
pub(crate) fn on_grid(at: Instant, grid: Duration) -> Instant {
    match nanoseconds(grid) {
        0 => at,
        grid => Instant(at.0.div_ceil(grid).saturating_mul(grid)),
    }
}

/// What is due at `now` and not at a later multiple of `grid`: all up to this moment.
pub(crate) fn due_until(now: Instant, grid: Duration) -> Instant {
    match nanoseconds(grid) {
        0 => now,
        grid => Instant(now.0 / grid * grid),
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What a device waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The next poll of any class is due.
    Poll,
    /// The rest after a poll is over.
    Gap,
    /// The poll that is out longest is given up.
    Lost,
    /// A device that does not answer is asked again.
    Probe,
    /// The heartbeat is to be written.
    Heartbeat,
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
    const ALL: &'static [Self] = &[
        Self::Poll,
        Self::Gap,
        Self::Lost,
        Self::Probe,
        Self::Heartbeat,
        Self::All,
        Self::State,
        Self::Stats,
        Self::Stale,
        Self::Calm,
    ];

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_moment_is_after_what_is_before_it(
            every in 10_000_000u64..1_000_000_000_000_000,
            parts in 1u16..,
            fraction: u32,
            number in 0u64..1_000_000,
        ) {
            // The clock ends after 584 years.
            let rounds = u128::from(number) / u128::from(parts) + 3;
            prop_assume!(u128::from(every) * rounds < u128::from(u64::MAX));
            let grid = Grid::new(Duration::from_nanos(every), parts, fraction);
            let moment = grid.at(number);
            prop_assert_eq!(grid.after(moment), number + 1);
            prop_assert_eq!(grid.after(Instant(moment.0.saturating_sub(1))), number);
            // A whole round later, the same part is due.
            prop_assert_eq!(grid.at(number + u64::from(parts)), moment + Duration::from_nanos(every));
            prop_assert_eq!(grid.part(number + u64::from(parts)), grid.part(number));
        }
    }
}
