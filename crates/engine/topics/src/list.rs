//! The subscribers of one filter: a sorted slice without slack, twelve octets each.

use crate::Wish;
use crate::subscribe::Options;
use alloc::boxed::Box;

/// A subscriber, numbered by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u32);

/// Flags stand above the wish's bits.
const QOS_AT: u32 = 24;
const NO_LOCAL: u32 = 1 << 26;
const RETAIN_AS_PUBLISHED: u32 = 1 << 27;

/// One subscriber's wish for one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) subscriber: SubscriberId,
    /// The subscription identifier; 0, which MQTT forbids (5.0 section 3.8.2.1.2), stands for none.
    pub(crate) id: u32,
    flags: u32,
}

impl Entry {
    pub(crate) fn new(subscriber: SubscriberId, options: Options) -> Self {
        let mut flags = options.wish.bits() | u32::from(options.qos.min(2)) << QOS_AT;
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

    pub(crate) const fn wish(self) -> Wish {
        Wish::from_bits(self.flags)
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
#[derive(Debug, Default)]
pub(crate) struct List(Box<[Entry]>);

impl List {
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, subscriber: SubscriberId) -> bool {
        self.place(subscriber).is_ok()
    }

    /// Adds or replaces; true when the subscriber was not here.
    pub(crate) fn insert(&mut self, entry: Entry) -> bool {
        match self.place(entry.subscriber) {
            Ok(at) => {
                self.0[at] = entry;
                false
            }
            Err(at) => {
                // Exact growth: there are many short lists, and a long one is copied at the speed of memory.
                let mut entries = core::mem::take(&mut self.0).into_vec();
                entries.reserve_exact(1);
                entries.insert(at, entry);
                self.0 = entries.into_boxed_slice();
                true
            }
        }
    }

    /// True when the subscriber was here.
    pub(crate) fn remove(&mut self, subscriber: SubscriberId) -> bool {
        let Ok(at) = self.place(subscriber) else { return false };
        let mut entries = core::mem::take(&mut self.0).into_vec();
        entries.remove(at);
        self.0 = entries.into_boxed_slice();
        true
    }

    fn place(&self, subscriber: SubscriberId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&subscriber, |entry| entry.subscriber)
    }
}
