//! A set of parts of a poll.

use alloc::boxed::Box;
use alloc::vec;

/// Parts of one word.
const BITS: u16 = 64;

/// A set of part numbers below a length; up to 64 parts need no memory of their own.
#[derive(Debug)]
pub(crate) struct Parts {
    words: Words,
    len: u16,
    count: u16,
}

#[derive(Debug)]
enum Words {
    One(u64),
    Many(Box<[u64]>),
}

impl Parts {
    pub(crate) fn empty(len: u16) -> Self {
        let words = match len.div_ceil(BITS) {
            0 | 1 => Words::One(0),
            count => Words::Many(vec![0; usize::from(count)].into()),
        };
        Self { words, len, count: 0 }
    }

    pub(crate) fn full(len: u16) -> Self {
        let mut parts = Self::empty(len);
        parts.fill();
        parts
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn fill(&mut self) {
        let mut rest = self.len;
        for word in self.words_mut() {
            let here = rest.min(BITS);
            *word = if here == 0 { 0 } else { u64::MAX >> (BITS - here) };
            rest -= here;
        }
        self.count = self.len;
    }

    pub(crate) fn clear(&mut self) {
        self.words_mut().fill(0);
        self.count = 0;
    }

    pub(crate) fn has(&self, part: u16) -> bool {
        self.words().get(usize::from(part / BITS)).is_some_and(|word| word & bit(part) != 0)
    }

    /// False where it was there, or is beyond the length.
    pub(crate) fn insert(&mut self, part: u16) -> bool {
        if part >= self.len || self.has(part) {
            return false;
        }
        if let Some(word) = self.words_mut().get_mut(usize::from(part / BITS)) {
            *word |= bit(part);
        }
        self.count += 1;
        true
    }

    /// False where it was not there.
    pub(crate) fn remove(&mut self, part: u16) -> bool {
        if !self.has(part) {
            return false;
        }
        if let Some(word) = self.words_mut().get_mut(usize::from(part / BITS)) {
            *word &= !bit(part);
        }
        self.count -= 1;
        true
    }

    /// The first part from `from` on, or else from zero on, that is there and `is_wanted`.
    pub(crate) fn next_from(&self, from: u16, is_wanted: impl Fn(u16) -> bool) -> Option<u16> {
        let upper = self.between(from, self.len).find(|part| is_wanted(*part));
        upper.or_else(|| self.between(0, from).find(|part| is_wanted(*part)))
    }

    /// A set of another length with the same parts below both; those beyond the old length are there where `more`.
    pub(crate) fn resized(&self, len: u16, more: bool) -> Self {
        let mut parts = Self::empty(len);
        for part in self.between(0, self.len.min(len)) {
            parts.insert(part);
        }
        if more {
            for part in self.len..len {
                parts.insert(part);
            }
        }
        parts
    }

    /// Those from `from` up to below `until`, in order.
    fn between(&self, from: u16, until: u16) -> impl Iterator<Item = u16> {
        let first = from / BITS;
        let words = (0..).zip(self.words()).skip(usize::from(first));
        let numbers = words.flat_map(move |(at, word): (u16, &u64)| {
            let mut rest = *word;
            if at == first {
                rest &= u64::MAX << (from % BITS);
            }
            core::iter::from_fn(move || {
                let low = u16::try_from(rest.trailing_zeros()).unwrap_or(BITS);
                rest &= rest.wrapping_sub(1);
                (low < BITS).then(|| at * BITS + low)
            })
        });
        numbers.take_while(move |part| *part < until)
    }

    const fn words(&self) -> &[u64] {
        match &self.words {
            Words::One(word) => core::slice::from_ref(word),
            Words::Many(words) => words,
        }
    }

    const fn words_mut(&mut self) -> &mut [u64] {
        match &mut self.words {
            Words::One(word) => core::slice::from_mut(word),
            Words::Many(words) => words,
        }
    }
}

const fn bit(part: u16) -> u64 {
    1 << (part % BITS)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_set_of_parts_is_a_set(
            len in 1u16..300,
            other in 1u16..300,
            steps in proptest::collection::vec((0u16..310, any::<bool>()), 0..200),
            from in 0u16..310,
            more: bool,
        ) {
            let mut parts = Parts::empty(len);
            let mut model = BTreeSet::new();
            for (part, add) in steps {
                let expect = if add { part < len && model.insert(part) } else { model.remove(&part) };
                prop_assert_eq!(if add { parts.insert(part) } else { parts.remove(part) }, expect);
                prop_assert_eq!(parts.is_empty(), model.is_empty());
            }
            let odd = |part: u16| part % 2 == 1;
            let expect = model.iter().copied().filter(|part| odd(*part));
            let upper = expect.clone().find(|part| *part >= from);
            prop_assert_eq!(parts.next_from(from, odd), upper.or_else(|| expect.clone().next()));
            let resized = parts.resized(other, more);
            for part in 0..310 {
                let is_new = more && part >= len;
                prop_assert_eq!(resized.has(part), part < other && (model.contains(&part) || is_new), "{}", part);
            }
            parts.fill();
            prop_assert!((0..310).all(|part| parts.has(part) == (part < len)));
            parts.clear();
            prop_assert!(parts.is_empty() && (0..310).all(|part| !parts.has(part)));
        }
    }

    #[test]
    fn as_many_parts_as_there_can_be() {
        let parts = Parts::full(u16::MAX);
        assert_eq!(parts.next_from(u16::MAX - 1, |_| true), Some(u16::MAX - 1));
        assert_eq!(parts.next_from(u16::MAX, |_| true), Some(0));
        assert!(!parts.has(u16::MAX));
    }
}
