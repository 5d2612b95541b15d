//! The subscribers of one filter: a sorted slice without slack, eight bytes each, twelve where one has an identifier.

use crate::DeliveryOptions;
use crate::subscribe::Options;
use alloc::boxed::Box;
use core::mem::take;

/// A subscriber, numbered by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u32);

/// Flags stand above the bits of the delivery options.
const QOS_AT: u32 = 24;
const NO_LOCAL: u32 = 1 << 26;
const RETAIN_AS_PUBLISHED: u32 = 1 << 27;

/// One subscriber's options for one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) subscriber: SubscriberId,
    /// The subscription identifier; 0, which MQTT forbids (5.0 section 3.8.2.1.2), stands for none.
    pub(crate) id: u32,
    flags: u32,
}

impl Entry {
    pub(crate) fn new(subscriber: SubscriberId, options: Options) -> Self {
        let mut flags = options.delivery_options.bits() | u32::from(options.qos.min(2)) << QOS_AT;
        if options.no_local {
            flags |= NO_LOCAL;
        }
        if options.retain_as_published {
            flags |= RETAIN_AS_PUBLISHED;
        }
        Self { subscriber, id: options.subscription_id.unwrap_or(0), flags }
    }

    pub(crate) const fn qos(self) -> u8 {
        (self.flags >> QOS_AT & 0b11) as u8
    }

    pub(crate) const fn delivery_options(self) -> DeliveryOptions {
        DeliveryOptions::from_bits(self.flags)
    }

    pub(crate) const fn retain_as_published(self) -> bool {
        self.flags & RETAIN_AS_PUBLISHED != 0
    }

    /// Whether an update that `from` published goes to this entry.
    pub(crate) fn takes(self, from: Option<SubscriberId>) -> bool {
        self.flags & NO_LOCAL == 0 || from != Some(self.subscriber)
    }
}

/// The entries of one filter, ascending by subscriber, each subscriber once.
#[derive(Debug)]
pub(crate) enum List {
    /// Nobody has an identifier: subscribers and flags.
    Plain(Box<[(SubscriberId, u32)]>),
    /// Somebody has, or had one.
    Numbered(Box<[Entry]>),
}

impl Default for List {
    fn default() -> Self {
        Self::Plain(Box::default())
    }
}

impl List {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> {
        let (plain, numbered): (&[_], &[Entry]) = match self {
            Self::Plain(plain) => (plain, &[]),
            Self::Numbered(numbered) => (&[], numbered),
        };
        plain.iter().copied().map(whole).chain(numbered.iter().copied())
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Plain(plain) => plain.is_empty(),
            Self::Numbered(numbered) => numbered.is_empty(),
        }
    }

    pub(crate) fn contains(&self, subscriber: SubscriberId) -> bool {
        self.place(subscriber).is_ok()
    }

    pub(crate) fn get(&self, subscriber: SubscriberId) -> Option<Entry> {
        let at = self.place(subscriber).ok()?;
        match self {
            Self::Plain(plain) => plain.get(at).copied().map(whole),
            Self::Numbered(numbered) => numbered.get(at).copied(),
        }
    }

    /// Adds or replaces; true when the subscriber was not here.
    pub(crate) fn insert(&mut self, entry: Entry) -> bool {
        if let Self::Plain(plain) = self
            && entry.id != 0
        {
            *self = Self::Numbered(plain.iter().copied().map(whole).collect());
        }
        let place = self.place(entry.subscriber);
        match self {
            Self::Plain(plain) => put(plain, place, (entry.subscriber, entry.flags)),
            Self::Numbered(numbered) => put(numbered, place, entry),
        }
        place.is_err()
    }

    /// True when the subscriber was here.
    pub(crate) fn remove(&mut self, subscriber: SubscriberId) -> bool {
        let Ok(at) = self.place(subscriber) else { return false };
        match self {
            Self::Plain(plain) => cut(plain, at),
            Self::Numbered(numbered) => cut(numbered, at),
        }
        if self.is_empty() {
            *self = Self::default();
        }
        true
    }

    fn place(&self, subscriber: SubscriberId) -> Result<usize, usize> {
        match self {
            Self::Plain(plain) => plain.binary_search_by_key(&subscriber, |(known, _)| *known),
            Self::Numbered(numbered) => numbered.binary_search_by_key(&subscriber, |entry| entry.subscriber),
        }
    }
}

const fn whole((subscriber, flags): (SubscriberId, u32)) -> Entry {
    Entry { subscriber, id: 0, flags }
}

fn put<T>(list: &mut Box<[T]>, place: Result<usize, usize>, entry: T) {
    match place {
        Ok(at) => list[at] = entry,
        Err(at) => {
            // Exact growth: there are many short lists, and a long one is copied at the speed of memory.
            let mut entries = take(list).into_vec();
            entries.reserve_exact(1);
            entries.insert(at, entry);
            *list = entries.into_boxed_slice();
        }
    }
}

fn cut<T>(list: &mut Box<[T]>, at: usize) {
    let mut entries = take(list).into_vec();
    entries.remove(at);
    *list = entries.into_boxed_slice();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_as_wide_as_its_widest() {
        assert_eq!((size_of::<(SubscriberId, u32)>(), size_of::<Entry>()), (8, 12));
        let mut list = List::default();
        let mut check = |subscriber, id: Option<Option<u32>>, is_plain| {
            let changed = match id {
                Some(subscription_id) => {
                    list.insert(Entry::new(SubscriberId(subscriber), Options { subscription_id, ..Options::default() }))
                }
                None => list.remove(SubscriberId(subscriber)),
            };
            assert!(changed);
            assert_eq!(matches!(list, List::Plain(_)), is_plain, "{list:?}");
        };
        check(2, Some(None), true);
        check(1, Some(Some(7)), false);
        check(3, Some(None), false);
        check(1, None, false);
        check(2, None, false);
        check(3, None, true);
    }
}
