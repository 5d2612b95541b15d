//! Subscriptions come and go.

use crate::list::{Entry, SubscriberId};
use crate::wild::filter_octets;
use crate::{Tree, TreeError, Wish};
use alloc::vec::Vec;
use tieline_core::{Filter, Topic};

/// When a subscription is answered with last values (MQTT 5.0 section 3.8.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetainHandling {
    /// Each time that it is made.
    #[default]
    Send,
    /// Only when it is new.
    SendIfNew,
    /// Never.
    Skip,
}

/// How a subscriber wants what a filter selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The highest quality of service, 0 to 2; more is taken as 2.
    pub qos: u8,
    /// Not what the subscriber itself published.
    pub no_local: bool,
    /// The retain flag as the publisher set it, not cleared.
    pub retain_as_published: bool,
    /// When last values are sent.
    pub retain_handling: RetainHandling,
    /// The number that deliveries carry, 1 to 268,435,455; 0 is taken as none.
    pub subscription_id: Option<u32>,
    /// At once or together, all or the newest.
    pub wish: Wish,
}

/// A subscription that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribed {
    /// False when it replaced one of the same filter.
    pub is_new: bool,
    /// Whether last values are due, by [`RetainHandling`].
    pub snapshot: bool,
}

/// What one subscriber holds, so that all of it can be given back: sorted numbers of topics and of filters.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    exact: Vec<u32>,
    wild: Vec<u32>,
}

impl Holdings {
    fn len(&self) -> usize {
        self.exact.len() + self.wild.len()
    }
}

impl Tree {
    /// Adds a subscription, or replaces the options of one with the same filter.
    ///
    /// # Errors
    /// A limit is reached; the tree is unchanged.
    pub fn subscribe(
        &mut self,
        subscriber: SubscriberId,
        filter: &Filter,
        options: Options,
    ) -> Result<Subscribed, TreeError> {
        let taken = match Topic::new(filter) {
            Ok(topic) => self.subscribe_exact(topic, Entry::new(subscriber, options)),
            Err(_) => self.subscribe_wild(filter, Entry::new(subscriber, options)),
        };
        let is_new = taken.inspect_err(|_| self.counts.refused += 1)?;
        let snapshot = match options.retain_handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => is_new,
            RetainHandling::Skip => false,
        };
        Ok(Subscribed { is_new, snapshot })
    }

    /// Removes a subscription; false when there was none.
    pub fn unsubscribe(&mut self, subscriber: SubscriberId, filter: &Filter) -> bool {
        let Some(holdings) = self.subscribers.get_mut(&subscriber) else { return false };
        let is_wild = filter.contains(['+', '#']);
        let id = if is_wild { self.wild.find(filter) } else { self.slots.find(filter) };
        let Some(id) = id else { return false };
        let held = if is_wild { &mut holdings.wild } else { &mut holdings.exact };
        let Ok(at) = held.binary_search(&id) else { return false };
        held.remove(at);
        if holdings.len() == 0 {
            self.subscribers.remove(&subscriber);
        }
        if is_wild {
            self.leave_wild(subscriber, id)
        } else {
            self.leave_exact(subscriber, id)
        }
        true
    }

    /// Removes all subscriptions of a subscriber and says how many there were.
    pub fn drop_subscriber(&mut self, subscriber: SubscriberId) -> usize {
        let Some(holdings) = self.subscribers.remove(&subscriber) else { return 0 };
        for id in &holdings.exact {
            self.leave_exact(subscriber, *id);
        }
        for id in &holdings.wild {
            self.leave_wild(subscriber, *id);
        }
        holdings.len()
    }

    /// How many subscriptions a subscriber holds.
    #[must_use]
    pub fn subscription_count(&self, subscriber: SubscriberId) -> usize {
        self.subscribers.get(&subscriber).map_or(0, Holdings::len)
    }

    fn subscribe_exact(&mut self, topic: Topic, entry: Entry) -> Result<bool, TreeError> {
        let known = self.slots.find(&topic).and_then(|id| self.slots.get(id));
        if known.is_none_or(|slot| !slot.exact.contains(entry.subscriber)) {
            self.check_subscriptions(entry.subscriber)?;
        }
        let id = self.find_or_insert(topic)?;
        let is_new = self.slots.get_mut(id).is_some_and(|slot| slot.exact.insert(entry));
        if is_new {
            self.counts.subscriptions += 1;
            keep(&mut self.subscribers.entry(entry.subscriber).or_default().exact, id);
        }
        Ok(is_new)
    }

    fn subscribe_wild(&mut self, filter: &Filter, entry: Entry) -> Result<bool, TreeError> {
        let known = self.wild.find(filter);
        if known.is_none_or(|id| !self.wild.filters[id as usize].list.contains(entry.subscriber)) {
            self.check_subscriptions(entry.subscriber)?;
        }
        let id = match known {
            Some(id) => id,
            None => {
                self.make_room(filter_octets(filter), None)?;
                self.octets += filter_octets(filter);
                self.void_sets();
                self.wild.insert(filter)
            }
        };
        let is_new = self.wild.filters[id as usize].list.insert(entry);
        if is_new {
            self.counts.subscriptions += 1;
            keep(&mut self.subscribers.entry(entry.subscriber).or_default().wild, id);
        }
        Ok(is_new)
    }

    fn leave_exact(&mut self, subscriber: SubscriberId, id: u32) {
        if self.slots.get_mut(id).is_some_and(|slot| slot.exact.remove(subscriber)) {
            self.counts.subscriptions -= 1;
            self.rest(id);
        }
    }

    fn leave_wild(&mut self, subscriber: SubscriberId, id: u32) {
        let Some(held) = self.wild.filters.get_mut(id as usize) else { return };
        if held.list.remove(subscriber) {
            self.counts.subscriptions -= 1;
        }
        if held.list.is_empty()
            && let Some(filter) = self.wild.remove(id)
        {
            self.octets -= filter_octets(&filter);
            self.void_sets();
        }
    }

    fn check_subscriptions(&self, subscriber: SubscriberId) -> Result<(), TreeError> {
        let max = self.limits.subscriptions_max;
        if self.counts.subscriptions >= max {
            return Err(TreeError::SubscriptionsFull { max });
        }
        let max = self.limits.subscriber_subscriptions_max;
        if self.subscription_count(subscriber) >= max {
            return Err(TreeError::SubscriberFull { max });
        }
        Ok(())
    }
}

fn keep(held: &mut Vec<u32>, id: u32) {
    if let Err(at) = held.binary_search(&id) {
        held.insert(at, id);
    }
}
