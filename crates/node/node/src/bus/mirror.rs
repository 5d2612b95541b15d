//! An edge's part of the bus: topics of its upstreams, as far as this node's own clients ask for them. Each topic is one upstream's,
//! or this node's own.
//!
//! ```text
//! subscriptions ─ filters ─▶ Wants ─▶ the edge thread ─▶ upstream
//! tree ◀──────────────── values ◀─── its reports ◀──────────┘
//! ```
//!
//! When the link is lost, values from before are marked `away`, a slice a turn; those that come again in the meantime are passed
//! over. A topic that nobody asks for any more is removed: nothing would tell when its value changes.

mod said;
mod shown;

pub use self::said::MirrorSeen;
use self::shown::{Shown, ShownTopics};
use super::apply::Origin;
use super::asks::Step;
use super::questions::Questions;
use super::state::Bus;
use super::upward::Tickets;
use crate::config::{TopicPrefix, UpstreamConfig};
use crate::edge::{EdgeHandle, EdgeInput, EdgeNews, EdgeReport, LinkState, Nodes};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Body, Filter, Instant, Now, Point, Quality, Timestamp, Topic, Update};
use tieline_mqtt::{Message, Qos};
use tieline_topics::{Asking, Change, TopicId, View, Wants};
use tokio::sync::mpsc::error::TrySendError;

/// How soon a busy thread is told again what is wanted.
const UNTOLD_EVERY: Duration = Duration::from_millis(5);
/// Topics that are looked at in a step.
const STEP: usize = 64;
/// Refused filters that are shown.
const REFUSED_MAX: usize = 100;
/// In whose turn slices are worked on.
const USER: &str = "$edge";

/// What an edge knows of one upstream.
#[derive(Debug)]
pub struct Mirror {
    /// What it is called here.
    name: Arc<str>,
    wants: Wants,
    /// The topics that are the upstream's, by their names here.
    topics: Vec<Filter>,
    /// Those of them that come in another session with it.
    beside: Vec<Filter>,
    /// What they begin with here, and not there.
    pub(super) prefix: TopicPrefix,
    /// This node, as chains name it, and the nodes whose values it has by this upstream.
    node: String,
    above: Nodes,
    pub(super) handle: EdgeHandle,
    /// What the thread had no room for.
    untold: VecDeque<EdgeInput>,
    link: LinkState,
    since: Timestamp,
    shown: ShownTopics,
    refused: BTreeMap<Filter, String>,
    pub(super) counts: MirrorCounts,
    /// Messages that went upward.
    pub(super) tickets: Tickets,
    /// What it was asked.
    pub(super) questions: Questions,
}

/// What came of the upstream's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorCounts {
    /// Topics that have a value of the upstream.
    pub topics: usize,
    /// Of these, values that were marked `away`, and did not come again.
    pub away: usize,
    /// Values of topics that are this node's own: they were left out.
    pub own: u64,
    /// Values that the tree did not take.
    pub full: u64,
    /// Messages that went upward, and how many of them were refused or had no answer.
    pub upward: (u64, u64),
}

impl Mirror {
    /// Nothing is asked for but what is kept. `node` is this node, as chains name it.
    #[must_use]
    pub fn new(config: &UpstreamConfig, node: &str, linger: Duration, handle: EdgeHandle) -> Self {
        let topics: Vec<Filter> = config.topics_here().collect();
        let mirror = Self {
            name: config.name.as_str().into(),
            wants: Wants::new(topics.clone(), linger),
            topics,
            beside: config.protection_here().collect(),
            prefix: config.prefix.clone(),
            node: node.to_owned(),
            above: Nodes::default(),
            handle,
            untold: VecDeque::new(),
            link: LinkState::Connecting,
            since: Timestamp::default(),
            shown: ShownTopics::default(),
            refused: BTreeMap::new(),
            counts: MirrorCounts::default(),
            tickets: Tickets::default(),
            questions: Questions::default(),
        };
        config.keep_here().fold(mirror, |mut mirror, filter| {
            mirror.want(&filter);
            mirror
        })
    }

    /// Whether the topic is one of the upstream's that come in this session, if it is not this node's own.
    fn selects(&self, topic: &str) -> bool {
        self.prefix.there(topic).is_some()
            && self.topics.iter().any(|filter| filter.matches(topic))
            && !self.comes_beside(topic)
    }

    /// Whether the topic comes in another session with the upstream. A filter that selects others, too, brings it in both.
    fn comes_beside(&self, topic: &str) -> bool {
        self.beside.iter().any(|filter| filter.matches(topic))
    }

    /// Whether all that a filter selects comes in another session.
    fn is_beside(&self, filter: &Filter) -> bool {
        self.beside.iter().any(|beside| beside.covers(filter))
    }

    /// One more has the filter.
    fn want(&mut self, filter: &Filter) {
        if !self.is_beside(filter) {
            self.wants.want(filter);
        }
    }

    /// Somebody looks at it, and does not stay.
    fn look(&mut self, now: Instant, filter: &Filter) {
        if !self.is_beside(filter) {
            self.wants.look(now, filter);
        }
    }

    /// One fewer has it.
    fn release(&mut self, now: Instant, filter: &Filter) {
        if !self.is_beside(filter) {
            self.wants.release(now, filter);
        }
    }

    /// Whether the upstream has let this node in.
    pub(super) const fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// Whether the thread has no room.
    pub(super) fn is_behind(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Tells the thread; what it has no room for is told later.
    fn tell(&mut self, input: EdgeInput) {
        self.untold.push_back(input);
        self.tell_untold();
    }

    fn tell_untold(&mut self) {
        while let Some(input) = self.untold.pop_front() {
            match self.handle.inputs.try_send(input) {
                Ok(()) => {}
                Err(TrySendError::Full(input)) => return self.untold.push_front(input),
                // The node is stopping.
                Err(TrySendError::Closed(_)) => {}
            }
        }
    }

    fn counts(&self) -> MirrorCounts {
        let (topics, away) = self.shown.counts();
        MirrorCounts { topics, away, upward: (self.tickets.sent, self.tickets.refused), ..self.counts }
    }

    fn timeout(&self, now: Instant) -> Option<Instant> {
        let untold = (!self.untold.is_empty()).then(|| now + UNTOLD_EVERY);
        [self.wants.timeout(), untold, self.questions.timeout()].into_iter().flatten().min()
    }
}

impl Bus {
    /// The bus is that of an edge from here on.
    pub fn set_mirrors(&mut self, mut mirrors: Vec<Mirror>) {
        if mirrors.is_empty() {
            return;
        }
        self.tree.tell_filters();
        let now = self.now();
        for mirror in &mut mirrors {
            // Views have what they are made of as clients have what they subscribe.
            self.view_sources().iter().for_each(|filter| mirror.want(filter));
            mirror.since = now.utc;
        }
        self.mirrors = mirrors;
        self.upstreams().for_each(|up| self.publish_link(now, up));
    }

    /// Other views have other sources, or other topics are kept.
    pub(super) fn exchange_wants(&mut self, now: Now, before: &[Filter], after: &[Filter]) {
        for mirror in &mut self.mirrors {
            after.iter().for_each(|filter| mirror.want(filter));
            before.iter().for_each(|filter| mirror.release(now.mono, filter));
        }
        if self.has_upstream() {
            self.work.notify_one();
        }
    }

    /// Whose a topic is, if it is an upstream's: what is published to it goes there.
    #[must_use]
    pub fn upstream_of(&self, topic: &str) -> Option<usize> {
        let up = self.mirrors.iter().position(|mirror| mirror.selects(topic))?;
        (!self.is_reserved(topic) && !self.derives(topic)).then_some(up)
    }

    /// Whether a topic is an upstream's.
    #[must_use]
    pub fn is_of_upstream(&self, topic: &str) -> bool {
        self.upstream_of(topic).is_some()
    }

    /// Whether this node is an edge.
    #[must_use]
    pub const fn has_upstream(&self) -> bool {
        !self.mirrors.is_empty()
    }

    /// All upstreams.
    #[must_use]
    pub const fn upstreams(&self) -> Range<usize> {
        0..self.mirrors.len()
    }

    /// Whether the upstream of a topic has let this node in.
    #[must_use]
    pub fn is_upstream_there(&self, topic: &str) -> bool {
        self.upstream_of(topic).and_then(|up| self.mirrors.get(up)).is_some_and(Mirror::is_up)
    }

    /// Whether a value is what its node has by all that is known here.
    #[must_use]
    pub fn is_present(&self, view: &View<'_>) -> bool {
        let mirror = self.upstream_of(view.topic).and_then(|up| self.mirrors.get(up));
        mirror.is_none_or(|mirror| mirror.is_up() && mirror.shown.is_known(view.id))
    }

    /// Somebody looks at what a filter selects, and does not stay.
    pub fn look_upstream(&mut self, now: Now, filter: &Filter) {
        self.mirrors.iter_mut().for_each(|mirror| mirror.look(now.mono, filter));
        if self.has_upstream() {
            self.work.notify_one();
        }
    }

    /// When something of the upstream is due.
    pub(super) fn mirror_timeout(&self, now: Instant) -> Option<Instant> {
        self.mirrors.iter().filter_map(|mirror| mirror.timeout(now)).min()
    }

    /// Asks the upstream for what clients have subscribed since.
    pub(super) fn ask_upstream(&mut self, now: Now) {
        if self.mirrors.is_empty() && self.site_events.is_none() {
            return;
        }
        for (filter, is_first) in self.tree.take_told() {
            if let Some(events) = self.site_events.as_deref_mut() {
                events.filter_changed(&filter, is_first);
            }
            for mirror in &mut self.mirrors {
                match is_first {
                    true => mirror.want(&filter),
                    false => mirror.release(now.mono, &filter),
                }
            }
        }
        self.tell_interest(now);
        for up in self.upstreams() {
            let Some(mirror) = self.mirrors.get_mut(up) else { return };
            mirror.wants.handle_timeout(now.mono);
            let mut has_ended = false;
            while let Some(asking) = mirror.wants.poll_asking() {
                has_ended |= matches!(asking, Asking::End(_));
                mirror.tell(match asking {
                    Asking::Begin(filter) => EdgeInput::Begin(filter),
                    Asking::End(filter) => EdgeInput::End(filter),
                });
            }
            mirror.tell_untold();
            self.end_late_questions(now, up);
            if has_ended {
                self.work_through(up, Self::remove_unwanted);
            }
        }
    }

    /// Takes what an upstream tells.
    pub fn handle_edge(&mut self, now: Now, EdgeReport { upstream: up, news }: EdgeReport) {
        for news in news {
            match news {
                EdgeNews::Value { topic, body, ready, version } => {
                    self.show((now, up), topic, body, (None, Origin::Upstream(ready.as_deref(), version)), true);
                }
                EdgeNews::Message { message, body, retain, version } => {
                    let (topic, origin) = (message.topic.clone(), Origin::Upstream(None, version));
                    self.show((now, up), topic, body, (Some(message), origin), retain);
                }
                EdgeNews::Link(state) => self.link_changed(now, up, state),
                EdgeNews::Removed(topic) => self.removed_above(now, up, &topic),
                EdgeNews::Again => self.comes_again(up),
                EdgeNews::CaughtUp => self.caught_up(up),
                EdgeNews::Nodes(nodes) => self.publish_nodes(now, up, nodes),
                EdgeNews::Refused(filter, why) => self.filter_refused(up, filter, why),
                EdgeNews::Answer { ticket, refused } => self.answered_above(now, (up, ticket), refused),
                EdgeNews::Reply { request, payload } => self.answered_question((up, request), Ok(payload)),
            }
        }
        self.work.notify_one();
    }

    fn filter_refused(&mut self, up: usize, filter: Filter, why: Option<String>) {
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        match why {
            Some(why) if mirror.refused.len() < REFUSED_MAX => drop(mirror.refused.insert(filter, why)),
            Some(_) => {}
            None => drop(mirror.refused.remove(&filter)),
        }
    }

    fn link_changed(&mut self, now: Now, up: usize, state: LinkState) {
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        let is_lost = mirror.link.is_up() && !state.is_up();
        if mirror.link.name() != state.name() {
            mirror.since = now.utc;
        }
        mirror.link = state;
        if is_lost {
            mirror.shown.doubt();
            mirror.refused.clear();
        }
        self.publish_link(now, up);
        if is_lost {
            self.end_questions(up);
            self.work_through(up, Self::mark_away);
        }
    }

    /// A value or a message of the upstream: to all who have subscribed to it here.
    fn show(
        &mut self,
        (now, up): (Now, usize),
        topic: Topic,
        body: Body,
        (message, origin): (Option<Box<Message>>, Origin<'_>),
        retain: bool,
    ) {
        let is_own = self.upstream_of(&topic) != Some(up);
        let is_known = !retain || self.tree.get(&topic).is_some();
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        if is_own {
            mirror.counts.own += u64::from(!mirror.comes_beside(&topic));
            return;
        }
        // What was on its way when it was no longer asked for.
        if !is_known && !mirror.wants.asks_for(&topic) {
            return;
        }
        let message = message.map(|message| *message);
        let message = message.unwrap_or_else(|| Message::new(topic.clone(), body.to_payload(), now.mono));
        let update = Update { topic, body };
        match &update.body {
            Body::Point(_) => self.record_node(now, &update),
            Body::Published(_) | Body::Opaque(_) => drop(self.recorder.record(now, &update, None)),
        }
        self.pass_on((now, up), message, (update, origin), retain);
    }

    /// Applies what the upstream says. It is not kept over a restart: the upstream says it again.
    fn pass_on(
        &mut self,
        (now, up): (Now, usize),
        message: Message,
        (update, origin): (Update, Origin<'_>),
        retain: bool,
    ) {
        let Update { topic, body } = update;
        let applied = self.apply_from(now, message, &body, (Qos::AtLeastOnce, retain), origin);
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        match applied.map(|applied| (applied.change, applied.topic)) {
            Ok((Change::Stored, id)) => mirror.shown.show(id, &topic),
            Ok((Change::Cleared, id)) => mirror.shown.forget(id),
            Ok((Change::Passed, _)) => {}
            Err(_) => mirror.counts.full += 1,
        }
    }

    /// The upstream has removed a value and published no message: nor is one published here.
    fn removed_above(&mut self, now: Now, up: usize, topic: &Topic) {
        let (Some(id), Some(mirror)) = (self.tree.find(topic), self.mirrors.get_mut(up)) else { return };
        if mirror.shown.has(id, topic) {
            mirror.shown.forget(id);
            self.remove_value(now, topic);
        }
    }

    /// All that the upstream has comes once more.
    fn comes_again(&mut self, up: usize) {
        if let Some(mirror) = self.mirrors.get_mut(up) {
            mirror.shown.doubt();
        }
    }

    /// Works through all values of an upstream, a slice a turn.
    fn work_through(&mut self, up: usize, mut step: impl FnMut(&mut Self, (Now, usize), TopicId, Shown) + 'static) {
        let mut at = 0;
        let ask = move |bus: &mut Self, now| {
            let Some(mirror) = bus.mirrors.get(up) else { return Step::Done };
            let (some, next) = mirror.shown.slice(at, STEP);
            for (id, shown) in some {
                // The number may be another topic's by now.
                let is_there = bus.tree.view(id).is_some_and(|view| *view.topic == shown.topic);
                if is_there {
                    step(bus, (now, up), id, shown);
                } else if let Some(mirror) = bus.mirrors.get_mut(up) {
                    mirror.shown.forget(id);
                }
            }
            let Some(next) = next else { return Step::Done };
            at = next;
            Step::Again
        };
        self.ask_on(&USER.into(), Box::new(ask));
    }

    /// All that the upstream has has come again: what has not is there no more.
    fn caught_up(&mut self, up: usize) {
        let Some(doubts) = self.mirrors.get(up).map(|mirror| mirror.shown.doubts()) else { return };
        self.work_through(up, move |bus, (now, up), id, shown| {
            let Some(mirror) = bus.mirrors.get_mut(up) else { return };
            if mirror.shown.doubts() == doubts && mirror.shown.is_late(&shown) {
                mirror.shown.forget(id);
                bus.apply_node(now, shown.topic, Body::empty(), true);
            }
        });
    }

    /// Removes a value that nobody asks for any more.
    fn remove_unwanted(&mut self, (now, up): (Now, usize), id: TopicId, shown: Shown) {
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        if !mirror.wants.asks_for(&shown.topic) {
            mirror.shown.forget(id);
            self.remove_value(now, &shown.topic);
        }
    }

    /// Marks a value that did not come again since the link was lost.
    fn mark_away(&mut self, (now, up): (Now, usize), id: TopicId, shown: Shown) {
        let is_late = self.mirrors.get(up).is_some_and(|mirror| mirror.shown.is_late(&shown));
        let Some(view) = self.tree.view(id).filter(|_| is_late) else { return };
        let point = match view.body {
            Body::Point(point) => point.clone(),
            // Of what states no quality, none can be changed.
            Body::Published(point) if point.stated_quality().is_some() => point.point(view.time),
            Body::Published(_) | Body::Opaque(_) => return,
        };
        if point.quality.contains(Quality::AWAY) {
            return;
        }
        let point = Point { quality: point.quality.with(Quality::AWAY), ..point };
        // It is a value more here, and none more there.
        let version = self.tree.version_told(&view);
        self.deltas.leap(id);
        let update = Update { topic: shown.topic, body: Body::Point(point) };
        self.record_node(now, &update);
        self.apply_node(now, update.topic, update.body, true);
        self.tree.adopt(id, version);
    }
}

#[cfg(test)]
mod tests;
