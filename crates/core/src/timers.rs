//! Deadlines: of one machine, which waits for a few things by name, and of many keys, the earliest first.

use crate::Instant;
use alloc::collections::BTreeSet;
use core::marker::PhantomData;

/// A deadline that is not set.
const NEVER: Instant = Instant(u64::MAX);

/// What a machine waits for: one of a few, by name.
pub trait Timer: Copy + 'static {
    /// All of them, each at the place that [`Timer::place`] says.
    const ALL: &'static [Self];

    /// Its place in a table.
    fn place(self) -> usize;
}

/// The deadlines of one machine: `N` is the number of its timers. 8 bytes a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers<T, const N: usize>([Instant; N], PhantomData<T>);

impl<T: Timer, const N: usize> Default for Timers<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Timer, const N: usize> Timers<T, N> {
    /// None is set.
    #[must_use]
    pub const fn new() -> Self {
        Self([NEVER; N], PhantomData)
    }

    /// Sets a deadline, whatever it was before.
    pub fn set(&mut self, timer: T, at: Instant) {
        if let Some(deadline) = self.0.get_mut(timer.place()) {
            *deadline = at;
        }
    }

    /// Takes a deadline away.
    pub fn clear(&mut self, timer: T) {
        self.set(timer, NEVER);
    }

    /// Whether there is a deadline.
    #[must_use]
    pub fn is_set(&self, timer: T) -> bool {
        self.deadline(timer) != NEVER
    }

    /// Whether the deadline is not after `now`.
    #[must_use]
    pub fn has_passed(&self, timer: T, now: Instant) -> bool {
        self.deadline(timer) <= now
    }

    /// Takes a deadline away that is not after `now`, and says whether there was one.
    pub fn take(&mut self, timer: T, now: Instant) -> bool {
        let has_passed = self.has_passed(timer, now);
        if has_passed {
            self.clear(timer);
        }
        has_passed
    }

    /// Takes the first timer away, in their order, whose deadline is not after `now`.
    pub fn take_next(&mut self, now: Instant) -> Option<T> {
        T::ALL.iter().copied().find(|timer| self.take(*timer, now))
    }

    /// The earliest deadline.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.0.iter().min().copied().filter(|at| *at != NEVER)
    }

    fn deadline(&self, timer: T) -> Instant {
        self.0.get(timer.place()).copied().unwrap_or(NEVER)
    }
}

/// The deadlines of many keys, the earliest first; a key may have several.
#[derive(Clone, Debug)]
pub struct Deadlines<K>(BTreeSet<(Instant, K)>);

impl<K> Default for Deadlines<K> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<K: Ord> Deadlines<K> {
    /// Adds a deadline of a key.
    pub fn add(&mut self, at: Instant, key: K) {
        self.0.insert((at, key));
    }

    /// Takes a deadline of a key away; false where it has none then.
    pub fn remove(&mut self, at: Instant, key: K) -> bool {
        self.0.remove(&(at, key))
    }

    /// The earliest deadline.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// The earliest deadline that is not after `now`, and its key.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<(Instant, &K)> {
        self.0.first().filter(|(at, _)| *at <= now).map(|(at, key)| (*at, key))
    }

    /// Takes the earliest deadline away that is not after `now`.
    pub fn take_next(&mut self, now: Instant) -> Option<(Instant, K)> {
        self.due(now)?;
        self.0.pop_first()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Waits {
        Answer,
        Retry,
    }

    impl Timer for Waits {
        const ALL: &'static [Self] = &[Self::Answer, Self::Retry];

        fn place(self) -> usize {
            self as usize
        }
    }

    #[test]
    fn a_timer_fires_once_and_not_before_its_deadline() {
        let mut timers = Timers::<Waits, 2>::new();
        assert_eq!((timers.timeout(), timers.take_next(Instant(u64::MAX - 1))), (None, None));
        timers.set(Waits::Retry, Instant(5));
        timers.set(Waits::Answer, Instant(9));
        timers.set(Waits::Answer, Instant(7));
        assert_eq!(timers.timeout(), Some(Instant(5)));
        assert!(timers.is_set(Waits::Answer) && !timers.has_passed(Waits::Answer, Instant(6)));
        assert_eq!(timers.take_next(Instant(4)), None);
        // Both have passed: they come in the order of their names.
        assert_eq!([(); 3].map(|()| timers.take_next(Instant(8))), [Some(Waits::Answer), Some(Waits::Retry), None]);
        timers.set(Waits::Retry, Instant(5));
        timers.clear(Waits::Retry);
        assert_eq!((timers.take(Waits::Retry, Instant(8)), timers.timeout()), (false, None));
    }

    #[test]
    fn keys_come_by_their_deadlines() {
        let mut deadlines = Deadlines::default();
        for (at, key) in [(5, "b"), (3, "a"), (5, "a"), (9, "c"), (3, "a")] {
            deadlines.add(Instant(at), key);
        }
        assert_eq!((deadlines.len(), deadlines.timeout()), (4, Some(Instant(3))));
        assert!(deadlines.remove(Instant(3), "a") && !deadlines.remove(Instant(3), "a"));
        assert_eq!(deadlines.due(Instant(4)), None);
        assert_eq!(deadlines.take_next(Instant(4)), None);
        assert_eq!(deadlines.due(Instant(6)), Some((Instant(5), &"a")));
        let due = [(); 3].map(|()| deadlines.take_next(Instant(6)).map(|(_, key)| key));
        assert_eq!((due, deadlines.is_empty()), ([Some("a"), Some("b"), None], false));
    }
}
