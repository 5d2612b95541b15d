//! What a device was seen to refuse.

use super::Place;
use crate::{Table, Unit};
use alloc::collections::BTreeSet;

/// Addresses that are not read, and where blocks are cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holes {
    /// Points that were refused alone.
    unreadable: BTreeSet<Place>,
    /// No block may hold this address and the one before it.
    cuts: BTreeSet<(Unit, Table, u16)>,
}

impl Holes {
    /// Remembers that a place cannot be read.
    pub fn insert(&mut self, place: Place) {
        self.unreadable.insert(place);
    }

    /// Whether this place was refused.
    #[must_use]
    pub fn is_unreadable(&self, place: &Place) -> bool {
        self.unreadable.contains(place)
    }

    /// The places that were refused.
    pub fn unreadable(&self) -> impl Iterator<Item = &Place> {
        self.unreadable.iter()
    }

    pub(super) fn cut(&mut self, unit: Unit, table: Table, at: u16) {
        self.cuts.insert((unit, table, at));
    }

    pub(super) fn join(&mut self, unit: Unit, table: Table, at: u16) {
        self.cuts.remove(&(unit, table, at));
    }

    /// Whether a block from the start of `from` to before `end` is cut, or holds a place that was refused.
    pub(super) fn is_between(&self, from: &Place, end: u32) -> bool {
        let Place { unit, table, start, .. } = *from;
        let Ok(last) = u16::try_from(end.saturating_sub(1)) else { return false };
        let is_cut = start < last && self.cuts.range((unit, table, start + 1)..=(unit, table, last)).next().is_some();
        let first = Place { unit, table, start: 0, count: 0 };
        let past = Place { unit, table, start: last, count: u16::MAX };
        is_cut || self.unreadable.range(first..=past).any(|hole| hole.end() > u32::from(start))
    }
}
