//! When clients are sent what they are owed: at the end of a turn, when their socket takes octets again, or when a window
//! or a throttle is over.

use super::deltas::Told;
use super::flow::{Source, Whom};
use super::state::{Bus, Subscriber, id_of};
use super::wire::Clear;
use std::collections::BTreeSet;
use std::rc::Rc;
use tieline_core::{Filter, Instant, Now};
use tieline_topics::{Lane, Wish};
use tokio::sync::Notify;

/// What is shown of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Its identifier.
    pub client: String,
    /// Its subscriptions, shared ones not among them.
    pub subscriptions: usize,
    /// Topics and messages that wait for it.
    pub waiting: usize,
    /// Whether its socket takes no octets at the moment.
    pub blocked: bool,
    /// Whether it has asked for deltas.
    pub deltas: bool,
    /// Messages, and groups of them, that it was sent over this connection.
    pub messages_out: u64,
    /// Octets that its socket took.
    pub octets_out: u64,
    /// Values that it was never sent because a newer one came first.
    pub conflated: u64,
    /// Messages dropped because too many waited.
    pub dropped: u64,
}

/// Clients that are owed something.
#[derive(Debug)]
pub struct Pump {
    clear: Rc<Clear>,
    /// Clients by when something may go; what is no longer so costs a look.
    due: BTreeSet<(Instant, usize)>,
}

impl Pump {
    /// One for a bus that is woken by `work`.
    #[must_use]
    pub fn new(work: &Rc<Notify>) -> Self {
        let clear = Rc::new(Clear { places: std::cell::RefCell::default(), work: Rc::clone(work) });
        Self { clear, due: BTreeSet::new() }
    }

    /// When something may go.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
}

impl Bus {
    /// Sends clients what may go.
    pub(super) fn flush(&mut self, now: Now) {
        for key in std::mem::take(&mut self.dirty) {
            if let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key)
                && std::mem::take(&mut client.dirty)
            {
                self.flush_client(now, key);
            }
        }
        let clear = std::mem::take(&mut *self.pump.clear.places.borrow_mut());
        clear.into_iter().for_each(|key| self.flush_client(now, key));
        while self.pump.timeout().is_some_and(|at| at <= now.mono) {
            let Some((_, key)) = self.pump.due.pop_first() else { return };
            self.flush_client(now, key);
        }
    }

    fn flush_client(&mut self, now: Now, key: usize) {
        let Self { subscribers, tree, retained, deltas, pump, dirty, work, .. } = self;
        let Some(Subscriber::Client(client)) = subscribers.get_mut(key) else { return };
        if client.session.is_clear() {
            client.session.send(|_, _| ());
        }
        let Some(flow) = client.flow.as_deref_mut().filter(|flow| !flow.is_empty()) else { return };
        let mut more = false;
        if client.session.is_clear() && flow.timeout(now.mono).is_some_and(|at| at <= now.mono) {
            let whom = Whom { key, badge: client.badge.as_deref() };
            let (mut out, mut source) = (Vec::new(), Source { now, tree, retained, deltas });
            more = client.session.look(|wire| flow.fill(&whom, wire, &mut source, &mut out));
            client.session.send(|wire, _| wire.push_shared(out.into()));
        }
        if !client.session.is_clear() {
            client.session.look(|wire| wire.tell_when_clear(key, &pump.clear));
        } else if more {
            // Others have their turn first.
            client.dirty = true;
            dirty.push(key);
            work.notify_one();
        } else if let Some(at) = flow.timeout(now.mono)
            && flow.armed.is_none_or(|armed| armed <= now.mono || at < armed)
        {
            flow.armed = Some(at);
            pump.due.insert((at, key));
        }
    }

    /// Clients that are connected, those that are furthest behind first, no more than `limit`.
    #[must_use]
    pub fn sessions_by_lag(&self, limit: usize) -> Vec<SessionView> {
        let clients = self.subscribers.iter().filter_map(|(key, subscriber)| match subscriber {
            Subscriber::Client(client) => Some((key, client)),
            Subscriber::Away(_) | Subscriber::Group(_) | Subscriber::Feed(_) => None,
        });
        let mut lags: Vec<(usize, usize)> = clients.map(|(key, client)| (client.waiting(), key)).collect();
        lags.sort_unstable_by(|a, b| b.cmp(a));
        lags.truncate(limit);
        lags.into_iter().filter_map(|(waiting, key)| self.session_view(key, waiting)).collect()
    }

    fn session_view(&self, key: usize, waiting: usize) -> Option<SessionView> {
        let Subscriber::Client(client) = self.subscribers.get(key)? else { return None };
        let traffic = client.session.traffic();
        Some(SessionView {
            client: client.id.to_string(),
            subscriptions: self.tree.subscription_count(id_of(key)),
            waiting,
            blocked: !client.session.is_clear(),
            deltas: client.flow.as_ref().is_some_and(|flow| flow.told.is_some()),
            messages_out: traffic.messages_out,
            octets_out: traffic.octets_out,
            conflated: client.conflated(),
            dropped: client.dropped(),
        })
    }

    /// Says how urgent topics are.
    pub fn set_lanes(&mut self, lanes: Vec<(Filter, Lane)>) {
        self.tree.set_lanes(lanes);
    }

    /// What of an offer of deltas will be used for a client's subscription, in words. What the client was told before
    /// is void: topics come whole first.
    pub fn agree_deltas(&mut self, key: usize, offer: &str) -> Option<String> {
        let (set, words) = self.deltas.agree(offer)?;
        let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key) else { return None };
        let aliases = client.session.look(|wire| wire.mqtt.own_aliases());
        let told = self.deltas.follow(set, aliases);
        client.flow.get_or_insert_default().told = Some(Box::new(told));
        Some(words)
    }

    /// Voids what a client was told: a subscription has gone, and numbers of topics may come to stand for others.
    pub fn void_told(&mut self, key: usize) {
        let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key) else { return };
        let aliases = client.session.look(|wire| wire.mqtt.own_aliases());
        if let Some(told) = client.flow.as_mut().and_then(|flow| flow.told.as_mut()) {
            let anew = Told::again(told, aliases);
            **told = anew;
        }
    }

    /// Sends a topic whole to a client that has lost its value, where it takes deltas of it.
    pub fn resync(&mut self, now: Now, key: usize, topic: &str) {
        let Some(id) = self.tree.find(topic) else { return };
        let wanted = self.tree.match_of(id, id_of(key), |to| to.wish.wants_deltas().then_some(to.lane)).flatten();
        let Some(lane) = wanted else { return };
        let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key) else { return };
        let flow = client.flow.get_or_insert_default();
        if let Some(told) = &mut flow.told {
            told.forget(id);
        }
        flow.arrears.owe(now.mono, id, lane, Wish::default());
        if !std::mem::replace(&mut client.dirty, true) {
            self.dirty.push(key);
        }
        self.work.notify_one();
    }
}
