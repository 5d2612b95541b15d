//! What happens when.

extern crate std;
use std::collections::BTreeMap;
use tieline_core::Instant;

/// Things to come, in order of time; of one time, in the order in which they were added.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    things: BTreeMap<(Instant, u64), T>,
    next: u64,
}

impl<T> Agenda<T> {
    pub(super) const fn new() -> Self {
        Self { things: BTreeMap::new(), next: 0 }
    }

    pub(super) fn add(&mut self, at: Instant, thing: T) {
        self.next += 1;
        self.things.insert((at, self.next), thing);
    }

    pub(super) fn at(&self) -> Option<Instant> {
        self.things.keys().next().map(|(at, _)| *at)
    }

    pub(super) fn take(&mut self) -> Option<T> {
        self.things.pop_first().map(|(_, thing)| thing)
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.things.retain(|_, thing| keep(thing));
    }
}
