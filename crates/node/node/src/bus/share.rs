//! Shared subscriptions (MQTT 5.0 section 4.8.2): each message goes to one session of a group.
//!
//! A group is one subscriber of the tree, however many sessions it has. They take turns; one whose messages wait is
//! passed over while another of the next few has none. Sessions whose clients are away are given a message only when
//! no client is there. What a session that ends did not get goes to another, except what was sent with QoS 2: that
//! may have arrived ([MQTT-4.8.2-5]).

use super::counters::DropCause;
use super::fanout::{Outgoing, lower};
use super::state::{Bus, Subscriber, id_of};
use std::collections::HashMap;
use tieline_core::Filter;
use tieline_mqtt::{Delivery, Qos, ServerSession, SessionState, SubscriptionId, Text};
use tieline_topics::{DeliveryOptions, Lane, Match, Options, TreeError};

/// Sessions that are looked at for one that is not behind.
const LOOKED_AT: usize = 8;
/// Shared subscriptions of one session; one more is refused.
const SESSION_SHARES_MAX: usize = 1000;

/// The sessions of one shared subscription.
#[derive(Debug)]
pub struct Group {
    name: (Text, Filter),
    number: u64,
    members: Vec<Member>,
    /// Whose turn is next.
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    key: usize,
    options: Options,
}

/// All shared subscriptions.
#[derive(Debug, Default)]
pub struct Shares {
    groups: HashMap<(Text, Filter), usize>,
    /// Where the group of each number is. Numbers are not used again, so that what a group's session did not get
    /// never reaches another group.
    numbers: HashMap<u64, usize>,
    /// The groups of each session.
    of: HashMap<usize, Vec<usize>>,
    last_number: u64,
    /// Groups that an update goes to.
    pub(super) due: Vec<usize>,
}

/// A session that can take a message.
enum Taker {
    Here(usize),
    Away(usize),
}

impl Shares {
    /// Shared subscriptions: of all sessions of one, one.
    pub(super) fn count(&self) -> usize {
        self.groups.len()
    }
}

impl Group {
    fn wanted(&self, at: usize) -> Option<Member> {
        self.members.get(at % self.members.len().max(1)).copied()
    }
}

impl Bus {
    /// Adds a session to a group, or replaces its options there; true when it was added.
    ///
    /// # Errors
    /// There are too many subscriptions.
    pub fn share(&mut self, key: usize, share: &Text, filter: &Filter, options: Options) -> Result<bool, TreeError> {
        let name = (share.detached(), filter.clone());
        let held = self.shares.of.get(&key).map_or(0, Vec::len);
        if held >= SESSION_SHARES_MAX {
            return Err(TreeError::SubscriberFull { max: SESSION_SHARES_MAX });
        }
        let at = match self.shares.groups.get(&name) {
            Some(at) => *at,
            None => self.add_group(name)?,
        };
        let Some(Subscriber::Group(group)) = self.subscribers.get_mut(at) else { return Ok(false) };
        if let Some(member) = group.members.iter_mut().find(|member| member.key == key) {
            member.options = options;
            return Ok(false);
        }
        group.members.push(Member { key, options });
        self.shares.of.entry(key).or_default().push(at);
        Ok(true)
    }

    fn add_group(&mut self, name: (Text, Filter)) -> Result<usize, TreeError> {
        self.shares.last_number += 1;
        let number = self.shares.last_number;
        let group = Group { name: name.clone(), number, members: Vec::new(), next: 0 };
        let at = self.subscribers.insert(Subscriber::Group(Box::new(group)));
        // The group takes all; what each session was granted is looked at when its turn comes.
        let all = Options { qos: 2, retain_as_published: true, ..Options::default() };
        if let Err(error) = self.tree.subscribe(id_of(at), &name.1, all) {
            self.subscribers.remove(at);
            return Err(error);
        }
        self.shares.groups.insert(name, at);
        self.shares.numbers.insert(number, at);
        Ok(at)
    }

    /// Takes a session out of a group; false when it was not in it.
    pub fn unshare(&mut self, key: usize, share: &Text, filter: &Filter) -> bool {
        let Some(at) = self.shares.groups.get(&(share.clone(), filter.clone())).copied() else { return false };
        let Some(of) = self.shares.of.get_mut(&key) else { return false };
        let Some(held) = of.iter().position(|group| *group == at) else { return false };
        of.swap_remove(held);
        if of.is_empty() {
            self.shares.of.remove(&key);
        }
        self.leave_group(key, at);
        true
    }

    /// Takes a session out of all groups.
    pub(super) fn leave_shares(&mut self, key: usize) {
        for at in self.shares.of.remove(&key).unwrap_or_default() {
            self.leave_group(key, at);
        }
    }

    fn leave_group(&mut self, key: usize, at: usize) {
        let Some(Subscriber::Group(group)) = self.subscribers.get_mut(at) else { return };
        group.members.retain(|member| member.key != key);
        if group.members.is_empty() {
            self.shares.groups.remove(&group.name);
            self.shares.numbers.remove(&group.number);
            self.tree.drop_subscriber(id_of(at));
            self.subscribers.remove(at);
        }
    }

    /// Sends an update to one session of each group that it is due to.
    pub(super) fn send_shared(&mut self, outgoing: &Outgoing) {
        for at in std::mem::take(&mut self.shares.due) {
            let delivery = |member: &Member| {
                let Options { qos, retain_as_published, subscription_id, .. } = member.options;
                let ids = subscription_id.as_slice();
                let (subscriber, delivery_options, lane) =
                    (id_of(member.key), DeliveryOptions::default(), Lane::default());
                outgoing.delivery(&Match { subscriber, qos, retain_as_published, ids, delivery_options, lane })
            };
            self.hand(at, outgoing.is_kept(), delivery);
        }
    }

    /// What a session that has ended did not get goes to others of its groups.
    pub(super) fn redeliver(&mut self, state: SessionState) {
        let (waited, _) = state.backlog();
        let undelivered: Vec<_> = state.undelivered().collect();
        let sent = undelivered.len() - waited;
        for (number, (tag, delivery)) in undelivered.into_iter().enumerate() {
            let Some(at) = self.shares.numbers.get(&tag).copied() else {
                if number >= sent && delivery.qos > Qos::AtMostOnce {
                    self.counters.dropped.count(DropCause::SessionEnded, 1);
                }
                continue;
            };
            self.counters.redelivered += 1;
            self.hand(at, true, |member| {
                let qos = lower(delivery.qos, member.options.qos);
                let subscription_ids =
                    member.options.subscription_id.and_then(SubscriptionId::new).into_iter().collect();
                Delivery { qos, subscription_ids, ..delivery.clone() }
            });
        }
    }

    /// Gives a message to the session of a group whose turn it is.
    fn hand(&mut self, at: usize, keep: bool, delivery: impl Fn(&Member) -> Delivery) {
        let mut tries = match self.subscribers.get(at) {
            Some(Subscriber::Group(group)) => group.members.len(),
            Some(_) | None => return,
        };
        let mut full = None;
        while tries > 0
            && let Some((member, taker, number)) = self.choose(at)
        {
            tries -= 1;
            let delivery = delivery(&member);
            if !self.may_get(member.key, &delivery.message.topic) {
                continue;
            }
            match (taker, self.subscribers.get_mut(member.key)) {
                (Taker::Here(_), Some(Subscriber::Client(client))) => {
                    let sent = client.session.send(|wire, _| {
                        let deliver = if keep { ServerSession::deliver_kept } else { ServerSession::deliver_tagged };
                        deliver(&mut wire.mqtt, delivery.clone(), number)
                    });
                    if sent.is_ok() {
                        self.counters.deliveries += 1;
                        self.put_back(self.now(), member.key);
                        return self.session_changed(member.key);
                    }
                    if client.lasts() {
                        full.get_or_insert((member.key, delivery, number));
                    }
                }
                (Taker::Away(_), Some(Subscriber::Client(client))) => {
                    self.kept.queue_closing(client, delivery, number, keep, &mut self.counters);
                    return self.session_changed(member.key);
                }
                (Taker::Away(_), Some(Subscriber::Away(away))) => {
                    self.kept.queue(away, delivery, number, keep, &mut self.counters);
                    return self.session_changed(member.key);
                }
                (Taker::Here(_) | Taker::Away(_), _) => {}
            }
        }
        let Some((key, delivery, number)) = full else {
            self.counters.unshared += 1;
            return;
        };
        // All are full: the session whose turn it was keeps the message for when its client comes again.
        if let Some(Subscriber::Client(client)) = self.subscribers.get(key) {
            client.end_full(&mut self.counters);
            self.kept.queue_closing(client, delivery, number, keep, &mut self.counters);
            self.session_changed(key);
        }
    }

    /// The session whose turn it is, and the group's number.
    fn choose(&mut self, at: usize) -> Option<(Member, Taker, u64)> {
        let Some(Subscriber::Group(group)) = self.subscribers.get(at) else { return None };
        let (next, count, number) = (group.next, group.members.len(), group.number);
        let (mut best, mut looked) = (None, 0);
        for step in next..next + count {
            let Some(member) = group.wanted(step) else { break };
            let taker = match self.subscribers.get(member.key) {
                Some(Subscriber::Client(client)) if client.session.look(|wire| wire.mqtt.is_open()) => {
                    looked += 1;
                    (client.session.look(|wire| wire.mqtt.backlog().0), Taker::Here(step))
                }
                Some(Subscriber::Client(client)) if client.lasts() => (usize::MAX, Taker::Away(step)),
                Some(Subscriber::Away(_)) => (usize::MAX, Taker::Away(step)),
                Some(_) | None => continue,
            };
            if best.as_ref().is_none_or(|(waiting, _, _)| taker.0 < *waiting) {
                best = Some((taker.0, taker.1, member));
            }
            if best.as_ref().is_some_and(|(waiting, _, _)| *waiting == 0) || looked >= LOOKED_AT {
                break;
            }
        }
        let (_, taker, member) = best?;
        let (Taker::Here(step) | Taker::Away(step)) = taker;
        if let Some(Subscriber::Group(group)) = self.subscribers.get_mut(at) {
            group.next = (step + 1) % count.max(1);
        }
        Some((member, taker, number))
    }
}
