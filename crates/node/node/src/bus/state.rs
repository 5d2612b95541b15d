//! The state of the bus, and what each input does to it.

use super::admission::Admission;
use super::alarms::{Alarming, Conditions, Notifying};
use super::asks::{Asks, Turns};
use super::census::Censuses;
use super::client::Client;
use super::counters::{BusCounters, Rate};
use super::declared::Declared;
use super::deltas::Deltas;
use super::derived_series::DerivedSeries;
use super::durations::BusDurations;
use super::ends::{Ends, Leaving};
use super::fanout::{Offered, Outgoing};
use super::frames::FrameRoom;
use super::guarded;
use super::live::LiveFeed;
use super::locks::LockAnswerer;
use super::mirror::Mirror;
use super::ownership::Ownership;
use super::passages::Passages;
use super::persistence::Ledger;
use super::pump::Pump;
use super::receipts::Receipt;
use super::retained::Retained;
use super::sessions::{Away, Kept};
use super::share::{Group, Shares};
use super::statistics::Statistics;
use super::turn::NextTurn;
use super::views::Deriving;
use super::watchers::Watchers;
use crate::access::{Guard, Serials};
use crate::control::audit::AuditReader;
use crate::control::{Commands, Done};
use crate::field::{self, FieldInput, FieldReport};
use crate::history::Recorder;
use slab::Slab;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::{Body, CommandOutcome, DeviceId, Filter, Now, Topic, Update};
use tieline_mqtt::{DeliverError, Message, Qos};
use tieline_net::{Shard, SocketShards};
use tieline_topics::{Applied, Change, Limits, Locks, Options, Selector, Subscribed, SubscriberId, Tree, TreeError};
use tokio::sync::{Notify, mpsc};

/// The bus, shared by the tasks of its thread.
pub type SharedBus = Rc<RefCell<Bus>>;

/// What is done with what became of a request.
pub type Answer = Box<dyn FnOnce(&mut Bus, Done) + Send>;

/// Anything that gets updates.
#[derive(Debug)]
pub enum Subscriber {
    /// An MQTT client.
    Client(Box<Client>),
    /// An MQTT session whose client is away.
    Away(Box<Away>),
    /// The sessions of a shared subscription.
    Group(Box<Group>),
    /// A reader of `/v1/live`.
    Feed(Box<LiveFeed>),
}

/// The state of the bus.
#[derive(Debug)]
pub struct Bus {
    pub(super) shard: Rc<Shard>,
    pub(super) tree: Tree,
    pub(super) retained: Retained,
    pub(super) subscribers: Slab<Subscriber>,
    pub(super) clients: HashMap<Arc<str>, usize>,
    /// Sessions that outlive their connections.
    pub(super) kept: Kept,
    /// What is kept over restarts.
    pub(super) ledger: Ledger,
    /// Shared subscriptions.
    pub(super) shares: Shares,
    /// Clients that are told which topics come and go.
    pub(super) watchers: Watchers,
    /// What is declared of topics.
    pub(super) declared: Declared,
    /// Those who came in by showing who they are.
    pub(super) guard: Option<Box<Guard>>,
    /// Names updates for the decisions about them.
    serials: Serials,
    /// Topics that are derived.
    pub(super) deriving: Option<Box<Deriving>>,
    pub(super) derived_series: DerivedSeries,
    /// Topics that are sent as what changed.
    pub(super) deltas: Deltas,
    /// Clients that are sent shared frames past all that is known of them.
    pub(super) passages: Passages,
    pub(super) frame_room: FrameRoom,
    /// Clients whose sockets take bytes again, and those that something waits for a time for.
    pub(super) pump: Pump,
    /// Clients with frames to be written.
    pub(super) dirty: Vec<usize>,
    pub(super) recorder: Recorder<Receipt>,
    pub(super) commands: Commands<Answer>,
    pub(super) field: Vec<mpsc::Sender<FieldInput>>,
    /// Receipts that field shards are still to be told, in order: a shard is busy, or has only just started. A device has one
    /// for each of its lanes at most, and one for its past.
    pub(super) untold: Vec<field::Receipt>,
    /// The topics of devices.
    pub(super) ownership: Ownership,
    pub(super) counters: BusCounters,
    pub(super) durations: BusDurations,
    pub(super) ends: Ends,
    /// Clients that were sent to another server, until they are gone.
    pub(super) leaving: Option<Leaving>,
    pub(super) work: Rc<Notify>,
    pub(super) next_turn: Rc<NextTurn>,
    /// Where connections work that have just come.
    pub(super) admission: Rc<Admission>,
    /// Requests that take time.
    pub(super) asks: Asks,
    /// Clients with last values to be sent.
    pub(super) replaying: Turns<usize>,
    /// Readers of live updates.
    pub(super) feeds: Vec<usize>,
    /// Values by quality, for them.
    pub(super) censuses: Censuses,
    /// The one of them whose turn it is.
    pub(super) next_feed: usize,
    pub(super) next_generation: u64,
    pub(super) statistics: Statistics,
    /// Topics of upstreams, in the order of the configuration; those of sites.
    pub(super) mirrors: Vec<Mirror>,
    pub(super) sites: Option<Box<super::JoinedSites>>,
    /// Calls to sites; what the centre of this node may do.
    pub(super) site_calls: Option<Box<super::SiteCalls>>,
    /// Messages between sites.
    pub(super) site_events: Option<Box<super::SiteEvents>>,
    pub(super) centre_rights: Option<super::CentreRights>,
    /// Alarms, where there may be some.
    pub(super) alarming: Option<Box<Alarming>>,
    /// Who is told of alarms.
    pub(super) notifying: Notifying,
    /// Conditions of the node itself.
    pub(super) conditions: Conditions,
    /// Locks of sessions.
    pub(super) locks: Locks<LockAnswerer>,
    /// Threads that have the sockets of clients.
    pub(super) sockets: Rc<SocketShards>,
    pub(super) rate: Rate,
}

impl Bus {
    /// An empty bus.
    #[must_use]
    pub fn new(shard: &Rc<Shard>, limits: Limits, recorder: Recorder<Receipt>, commands: Commands<Answer>) -> Self {
        let work = Rc::new(Notify::new());
        Self {
            deltas: Deltas::default(),
            admission: Rc::new(Admission::new(shard, &work)),
            passages: Passages::default(),
            frame_room: FrameRoom::default(),
            pump: Pump::new(&work),
            ledger: Ledger::new(&work),
            shard: Rc::clone(shard),
            tree: Tree::new(limits),
            retained: Retained::default(),
            subscribers: Slab::new(),
            clients: HashMap::new(),
            kept: Kept::default(),
            shares: Shares::default(),
            watchers: Watchers::default(),
            declared: Declared::default(),
            guard: None,
            serials: Serials::default(),
            deriving: None,
            derived_series: DerivedSeries::default(),
            dirty: Vec::new(),
            recorder,
            commands,
            field: Vec::new(),
            untold: Vec::new(),
            ownership: Ownership::default(),
            counters: BusCounters::default(),
            durations: BusDurations::default(),
            ends: Ends::default(),
            leaving: None,
            work,
            next_turn: Rc::default(),
            asks: Asks::default(),
            replaying: Turns::default(),
            feeds: Vec::new(),
            censuses: Censuses::default(),
            next_feed: 0,
            next_generation: 0,
            statistics: Statistics::default(),
            mirrors: Vec::new(),
            sites: None,
            site_calls: None,
            site_events: None,
            centre_rights: None,
            alarming: None,
            notifying: Notifying::default(),
            conditions: Conditions::default(),
            locks: Locks::default(),
            sockets: Rc::default(),
            rate: Rate::default(),
        }
    }

    /// The tree of last values.
    #[must_use]
    pub const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> BusCounters {
        let mut counters = BusCounters {
            resynchronized: self.watchers.overruns(),
            missing_untold: self.watchers.untold(),
            ..self.counters
        };
        for (_, subscriber) in &self.subscribers {
            if let Subscriber::Client(client) = subscriber {
                client.count_into(&mut counters);
            }
        }
        counters
    }

    /// How long things took.
    #[must_use]
    pub const fn durations(&self) -> &BusDurations {
        &self.durations
    }

    /// Updates a second over the last whole second or longer.
    #[must_use]
    pub const fn updates_per_s(&self) -> f64 {
        self.rate.per_s
    }

    /// Looks at the rate of updates when a second has passed.
    pub(super) fn look_at_rate(&mut self, now: Now) {
        self.rate.look(now.mono, self.counters.updates);
    }

    /// MQTT clients that are connected.
    #[must_use]
    pub fn client_count(&self) -> usize {
        self.clients.len() - self.kept.away()
    }

    /// Readers of `/v1/live`.
    #[must_use]
    pub const fn feed_count(&self) -> usize {
        self.feeds.len()
    }

    /// Where connections work that have just come.
    #[must_use]
    pub const fn admission(&self) -> &Rc<Admission> {
        &self.admission
    }

    /// Takes a field shard's news.
    pub fn handle_report(&mut self, now: Now, report: FieldReport) {
        // A device that is away is the cause of what its points say then.
        self.note_presence(now, &report.links);
        for update in report.updates {
            self.record_node(now, &update);
            if self.recorder.is_unpublished(&update) {
                self.look_at(now, &update.topic, &update.body);
                continue;
            }
            let Update { topic, body } = update;
            self.apply_node(now, topic, body, true);
        }
        report.past.into_iter().for_each(|update| self.recorder.record_past(now, update));
        self.remove_gone(now, report.gone);
        for receipt in report.receipts {
            self.recorder.await_stored(Receipt::Field(receipt));
        }
        self.commands.handle_report(now, report.outcomes, report.links);
    }

    /// An update of the node's own: kept, and sent to its subscribers.
    pub fn apply_node(&mut self, now: Now, topic: Topic, body: Body, retain: bool) {
        if retain && self.deriving.is_some() {
            self.apply_value(now, topic.clone(), body.clone(), true);
            return self.derive(now, &topic, &body);
        }
        self.apply_value(now, topic, body, retain);
    }

    /// The same for what no view takes.
    pub(super) fn apply_value(&mut self, now: Now, topic: Topic, body: Body, retain: bool) {
        self.counters.updates += 1;
        self.look_at(now, &topic, &body);
        match self.tree.apply(now, Update { topic: topic.clone(), body: body.clone() }, retain) {
            Ok(applied) => {
                self.statistics.count(applied.topic, &topic, body.value_bytes());
                if retain {
                    self.retained.forget(&topic);
                }
                self.deltas.update(applied, self.tree.replaced(), &body);
                self.note(now, &topic, &applied, &body, None);
                if self.site_events.is_some() {
                    self.share_value((&topic, applied.topic), &body, retain);
                }
                if !self.tree.matches(applied.topic).is_empty() {
                    let outgoing = Outgoing::of_node(topic, &body, now.mono, retain);
                    self.send(now, applied, outgoing, None);
                }
            }
            Err(error) => self.count_refused(&topic, &error),
        }
    }

    pub(super) fn count_refused(&mut self, topic: &Topic, error: &TreeError) {
        self.counters.refused += 1;
        tracing::debug!(%topic, %error, "update refused");
    }

    pub(super) fn send(&mut self, now: Now, applied: Applied, mut outgoing: Outgoing, from: Option<SubscriberId>) {
        self.end_expired(now);
        let (mut changed, mut displaced) = (Vec::new(), Vec::new());
        let serial = self.serials.fresh();
        let Self { tree, subscribers, dirty, counters, kept, shares, deltas, passages, frame_room, .. } = self;
        outgoing.with_room(frame_room);
        let mut followed = deltas.followed(applied);
        let path = (applied.change == Change::Cleared).then(|| outgoing.topic().clone());
        tree.matches(applied.topic).for_each(from, |to| {
            let key = key_of(to.subscriber);
            if passages.may_pass(key) && outgoing.pass(key, serial, &to, passages) {
                return;
            }
            match subscribers.get_mut(key) {
                Some(Subscriber::Feed(feed)) => match (applied.change, &path) {
                    (Change::Cleared, Some(path)) => feed.removed(applied.topic, path),
                    (Change::Stored, _) => feed.changed(applied.topic),
                    // A feed tells last values.
                    (Change::Cleared | Change::Passed, _) => {}
                },
                Some(Subscriber::Client(client)) => {
                    if !guarded::allows_update(client.identity.as_deref(), serial, outgoing.topic()) {
                        return;
                    }
                    counters.deliveries += 1;
                    if to.qos > 0 && client.kept.is_some() && outgoing.is_kept() {
                        changed.push(key);
                    }
                    match outgoing.offer(now, client, applied, &to, followed.as_deref_mut()) {
                        Ok(Offered::Queued) => {
                            if !std::mem::replace(&mut client.dirty, true) {
                                dirty.push(key);
                            }
                        }
                        Ok(_) if client.session.look(|wire| wire.mqtt.has_displaced()) => displaced.push(key),
                        Ok(Offered::Passed) if to.delivery_options.is_default() => passages.open(key, client),
                        Ok(Offered::Passed | Offered::Sent) => {}
                        Err(error) => {
                            if error == DeliverError::Full {
                                client.end_full(counters);
                            }
                            kept.queue_closing(client, outgoing.delivery(&to), 0, outgoing.is_kept(), counters);
                        }
                    }
                }
                Some(Subscriber::Away(away))
                    if !guarded::allows_update(away.identity.as_deref(), serial, outgoing.topic()) => {}
                Some(Subscriber::Away(away)) => {
                    if to.qos > 0 && away.kept.is_some() && outgoing.is_kept() {
                        changed.push(key);
                    }
                    kept.queue(away, outgoing.delivery(&to), 0, outgoing.is_kept(), counters);
                }
                Some(Subscriber::Group(_)) => shares.due.push(key),
                None => {}
            }
        });
        if let Some(followed) = followed {
            followed.settle();
        }
        outgoing.give_back(&mut self.frame_room);
        self.count_passed();
        changed.into_iter().for_each(|key| self.session_changed(key));
        displaced.into_iter().for_each(|key| self.put_back(now, key));
        if !self.shares.due.is_empty() {
            self.send_shared(&outgoing);
        }
    }

    /// The time, for what runs on the bus without being told.
    #[must_use]
    pub fn now(&self) -> Now {
        self.shard.now()
    }

    /// Takes a client's message.
    ///
    /// # Errors
    /// The tree is full.
    pub fn take_message(
        &mut self,
        now: Now,
        message: Message,
        body: &Body,
        qos: Qos,
        retain: bool,
        from: usize,
    ) -> Result<(), TreeError> {
        self.counters.published += 1;
        self.counters.published_bytes += u64::try_from(message.payload.len()).unwrap_or(u64::MAX);
        self.apply_message(now, message, body, qos, retain, Some(id_of(from)))
    }

    /// Counts a client's message that was not taken.
    pub const fn count_publish_refused(&mut self) {
        self.counters.publish_refused += 1;
    }

    /// Adds or replaces a client's subscription; with a selector, to the topics alone that it selects.
    ///
    /// # Errors
    /// There are too many.
    pub fn subscribe_narrowed(
        &mut self,
        key: usize,
        filter: &Filter,
        selector: Option<&Selector>,
        options: Options,
    ) -> Result<Subscribed, TreeError> {
        let subscribed = self.tree.subscribe_narrowed(id_of(key), filter, selector, options)?;
        self.watch(key, filter, subscribed.snapshot);
        Ok(subscribed)
    }

    /// Ends a client's subscription; false when there was none.
    pub fn unsubscribe(&mut self, key: usize, filter: &Filter) -> bool {
        self.unwatch(key, filter);
        self.tree.unsubscribe(id_of(key), filter)
    }

    /// Takes what became of a command.
    pub fn handle_outcome(&mut self, now: Now, device: DeviceId, batch_number: u64, outcome: CommandOutcome) {
        self.commands.handle_outcome(now, device, batch_number, outcome);
    }

    /// What reads the audit log.
    #[must_use]
    pub fn audit(&self) -> AuditReader {
        self.commands.audit()
    }

    /// What commands came to.
    #[must_use]
    pub const fn commands(&self) -> &Commands<Answer> {
        &self.commands
    }

    /// History's column.
    #[must_use]
    pub const fn recorder(&self) -> &Recorder<Receipt> {
        &self.recorder
    }
}

/// The tree's name of a subscriber.
#[must_use]
pub fn id_of(key: usize) -> SubscriberId {
    SubscriberId(u32::try_from(key).unwrap_or(u32::MAX))
}

pub(super) fn key_of(id: SubscriberId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}
