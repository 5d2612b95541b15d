//! Subscriptions come and go.

use crate::list::{Entry, SubscriberId};
use crate::wild::{filter_bytes, narrow_bytes};
use crate::{DeliveryOptions, Selector, Tree, TreeError};
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
    pub delivery_options: DeliveryOptions,
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
        self.subscribe_narrowed(subscriber, filter, None, options)
    }

    /// The same for the topics alone that a selector selects, too. A subscriber holds a filter once, narrowed or not.
    ///
    /// # Errors
    /// A limit is reached; the tree is unchanged.
    pub fn subscribe_narrowed(
        &mut self,
        subscriber: SubscriberId,
        filter: &Filter,
        selector: Option<&Selector>,
        options: Options,
    ) -> Result<Subscribed, TreeError> {
        let entry = Entry::new(subscriber, options);
        let taken = match Topic::new(filter) {
            Ok(topic) if selector.is_none() => self.subscribe_exact(topic, entry),
            Ok(_) | Err(_) => self.subscribe_wild(filter, selector, entry),
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
        if let Some(id) = self.wild.held(filter, subscriber) {
            self.let_go(subscriber, |holdings| &mut holdings.wild, id);
            self.leave_wild(subscriber, id);
            return true;
        }
        let Some(id) = self.slots.find(filter) else { return false };
        let held = self.let_go(subscriber, |holdings| &mut holdings.exact, id);
        if held {
            self.leave_exact(subscriber, id);
        }
        held
    }

    /// Strikes a number off what a subscriber holds; false where it was not there.
    fn let_go(&mut self, subscriber: SubscriberId, of: impl Fn(&mut Holdings) -> &mut Vec<u32>, id: u32) -> bool {
        let Some(holdings) = self.subscribers.get_mut(&subscriber) else { return false };
        let held = of(holdings);
        let Ok(at) = held.binary_search(&id) else { return false };
        held.remove(at);
        if holdings.len() == 0 {
            self.subscribers.remove(&subscriber);
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
        let subscriber = entry.subscriber;
        let known = self.slots.find(&topic).and_then(|id| self.slots.get(id));
        let narrowed = Filter::new(&topic).ok().and_then(|filter| self.wild.held(&filter, subscriber));
        if narrowed.is_none() && known.is_none_or(|slot| !slot.exact.contains(subscriber)) {
            self.check_subscriptions(subscriber)?;
        }
        let id = self.find_or_insert(topic)?;
        let is_new = self.slots.get_mut(id).is_some_and(|slot| slot.exact.insert(entry));
        if is_new {
            self.counts.subscriptions += 1;
            if self.told.is_some() {
                self.tell_exact(id, true);
            }
            keep(&mut self.subscribers.entry(subscriber).or_default().exact, id);
        }
        if let Some(old) = narrowed {
            self.let_go(subscriber, |holdings| &mut holdings.wild, old);
            self.leave_wild(subscriber, old);
        }
        Ok(is_new && narrowed.is_none())
    }

    fn subscribe_wild(
        &mut self,
        filter: &Filter,
        selector: Option<&Selector>,
        entry: Entry,
    ) -> Result<bool, TreeError> {
        let subscriber = entry.subscriber;
        let holds = |id: &u32| self.slots.get(*id).is_some_and(|slot| slot.exact.contains(subscriber));
        let exact = self.slots.find(filter).filter(holds);
        let held = self.wild.held(filter, subscriber);
        let is_held = held.is_some() || exact.is_some();
        if !is_held {
            self.check_subscriptions(subscriber)?;
        }
        let id = self.find_or_insert_wild(filter, selector)?;
        if self.wild.filters[id as usize].list.insert(entry) {
            self.counts.subscriptions += 1;
            keep(&mut self.subscribers.entry(subscriber).or_default().wild, id);
        }
        if let Some(old) = held.filter(|old| *old != id) {
            self.let_go(subscriber, |holdings| &mut holdings.wild, old);
            self.leave_wild(subscriber, old);
        }
        if let Some(old) = exact {
            self.let_go(subscriber, |holdings| &mut holdings.exact, old);
            self.leave_exact(subscriber, old);
        }
        Ok(!is_held)
    }

    /// The filter, narrowed by the selector where there is one.
    fn find_or_insert_wild(&mut self, filter: &Filter, selector: Option<&Selector>) -> Result<u32, TreeError> {
        let known = self.wild.find(filter);
        let narrow = |whole: u32| selector.map_or(Some(whole), |selector| self.wild.find_narrow(whole, selector));
        if let Some(id) = known.and_then(narrow) {
            return Ok(id);
        }
        let max = self.limits.selectors_max;
        if selector.is_some() && self.wild.narrow_count() >= max {
            return Err(TreeError::SelectorsFull { max });
        }
        let max = self.limits.owner_selectors_max;
        if selector.is_some_and(|selector| selector.owner() != 0 && self.wild.narrow_count_of(selector.owner()) >= max)
        {
            return Err(TreeError::OwnerFull { max });
        }
        let whole = if known.is_none() { filter_bytes(filter) } else { 0 };
        let needed = whole + selector.map_or(0, |selector| narrow_bytes(filter, selector));
        self.make_room(needed, None)?;
        self.bytes += needed;
        self.void_sets();
        if let Some(told) = self.told.as_mut().filter(|_| known.is_none()) {
            told.push((filter.clone(), true));
        }
        let id = known.unwrap_or_else(|| self.wild.insert(filter));
        Ok(selector.map_or(id, |selector| self.wild.narrow(id, selector.clone())))
    }

    fn leave_exact(&mut self, subscriber: SubscriberId, id: u32) {
        if self.slots.get_mut(id).is_some_and(|slot| slot.exact.remove(subscriber)) {
            self.counts.subscriptions -= 1;
            if self.told.is_some() {
                self.tell_exact(id, false);
            }
            self.rest(id);
        }
    }

    /// Tells of a topic that has its first subscriber, or has lost its last.
    fn tell_exact(&mut self, id: u32, is_first: bool) {
        let (Some(told), Some(slot)) = (&mut self.told, self.slots.get(id)) else { return };
        if let Ok(filter) = Filter::new(&slot.topic)
            && slot.exact.iter().take(2).count() == usize::from(is_first)
        {
            told.push((filter, is_first));
        }
    }

    fn leave_wild(&mut self, subscriber: SubscriberId, id: u32) {
        let Some(held) = self.wild.filters.get_mut(id as usize) else { return };
        if held.list.remove(subscriber) {
            self.counts.subscriptions -= 1;
        }
        let filter = self.told.is_some().then(|| held.filter.clone());
        let freed = self.wild.remove_unused(id);
        if freed > 0 {
            self.bytes -= freed;
            self.void_sets();
        }
        // One that a selector narrowed may be gone, and the others stay.
        if let (Some(told), Some(filter)) = (&mut self.told, filter.filter(|filter| self.wild.find(filter).is_none())) {
            told.push((filter, false));
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
        if held.len() == held.capacity() {
            // There are many of them: an eighth more, and not twice as much.
            held.reserve_exact(4 + held.len() / 8);
        }
        held.insert(at, id);
    }
}
