//! Packet identifiers that are free. They rise and wrap around, so that the one used last is the last to come again.

use crate::PacketId;
use alloc::vec;

/// The identifier given last, and how many after it are known to be free.
#[derive(Debug, Default)]
pub(crate) struct Identifiers {
    last: u16,
    free: u16,
}

impl Identifiers {
    /// The next that is not `taken`; none when all are. Between two calls of [`Identifiers::forget`] no others may be taken
    /// than were given here: `taken` is looked at once for many, since a queue may be long.
    pub(crate) fn next<I: Iterator<Item = PacketId>>(&mut self, taken: impl Fn() -> I) -> Option<PacketId> {
        if self.free == 0 {
            // 0 is none.
            let nearest = taken().map(PacketId::get).chain([0]).map(|id| distance(self.last, id)).min();
            self.free = nearest.unwrap_or(u16::MAX);
        }
        if self.free == 0 {
            self.skip(taken());
        }
        self.free = self.free.checked_sub(1)?;
        self.last = self.last.wrapping_add(1);
        PacketId::new(self.last)
    }

    /// Identifiers were taken that were not given here.
    pub(crate) const fn forget(&mut self) {
        self.free = 0;
    }

    /// Goes to the place before the next run of free ones.
    fn skip(&mut self, taken: impl Iterator<Item = PacketId>) {
        let mut is_taken = vec![false; 1 << 16];
        for id in taken.map(PacketId::get).chain([0]) {
            if let Some(place) = is_taken.get_mut(usize::from(id)) {
                *place = true;
            }
        }
        let is_free = |id: u16| is_taken.get(usize::from(id)) == Some(&false);
        let last = self.last;
        let Some(before) = (0..u16::MAX).map(|steps| last.wrapping_add(steps)).find(|id| is_free(id.wrapping_add(1)))
        else {
            return;
        };
        let run = (1..=u16::MAX).take_while(|steps| is_free(before.wrapping_add(*steps))).count();
        (self.last, self.free) = (before, u16::try_from(run).unwrap_or(u16::MAX));
    }
}

/// How many identifiers lie between one and the next `taken`.
const fn distance(last: u16, taken: u16) -> u16 {
    taken.wrapping_sub(last).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn id(id: u16) -> PacketId {
        PacketId::new(id).unwrap()
    }

    #[test]
    fn all_but_those_taken_come_in_their_order() {
        let taken = [id(3), id(4), id(65_535)];
        let mut ids = Identifiers::default();
        let given: Vec<u16> = (0..65_532).map(|_| ids.next(|| taken.into_iter()).unwrap().get()).collect();
        assert_eq!(given, (1..=65_534).filter(|id| ![3, 4].contains(id)).collect::<Vec<u16>>());
        assert_eq!(ids.next(|| taken.into_iter()), Some(id(1)), "they begin at 1 again");
        let all = || (1..=u16::MAX).map(id);
        let mut ids = Identifiers::default();
        assert_eq!(ids.next(all), None);
        assert_eq!(ids.next(|| all().filter(|of| *of != id(700))), Some(id(700)));
    }

    proptest! {
        /// Whatever is given back and taken: none is given that is still taken.
        #[test]
        fn none_is_given_twice(steps in proptest::collection::vec((any::<bool>(), any::<u16>()), 1..200), first in any::<u16>()) {
            let mut ids = Identifiers { last: first, free: 0 };
            let mut taken = BTreeSet::new();
            for (gives_back, number) in steps {
                if gives_back {
                    let place = usize::from(number) % taken.len().max(1);
                    let gone = taken.iter().nth(place).copied();
                    gone.map(|gone| taken.remove(&gone));
                } else if number % 8 == 0 {
                    // One near those that come next.
                    taken.insert(id((ids.last.wrapping_add(number / 8 % 4)).max(1)));
                    ids.forget();
                } else {
                    let given = ids.next(|| taken.iter().copied()).unwrap();
                    prop_assert!(taken.insert(given), "{given:?}");
                }
            }
        }
    }
}
