//! An edge's part of the bus: topics of the upstream, as far as this node's own clients ask for them.
//!
//! ```text
//! subscriptions ─ filters ─▶ Wants ─▶ the edge thread ─▶ upstream
//! tree ◀──────────────── values ◀─── its reports ◀──────────┘
//! ```
//!
//! When the link is lost, values from before are marked `away`, a slice a turn; those that come again in the meantime are passed
//! over. A topic that nobody asks for any more is removed: nothing would tell when its value changes.

mod shown;

use self::shown::{Shown, ShownTopics};
use super::apply::Origin;
use super::asks::Step;
use super::questions::Questions;
use super::state::Bus;
use super::upward::Tickets;
use crate::edge::{EdgeCounters, EdgeHandle, EdgeInput, EdgeNews, EdgeReport, LinkState, NODES_TOPIC};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Body, Filter, Instant, Now, Point, Quality, Timestamp, Topic, Update, Value};
use tieline_delta::ReadyDelta;
use tieline_mqtt::{Message, Qos};
use tieline_net::Counters;
use tieline_topics::{Asking, Change, TopicId, Wants};
use tokio::sync::mpsc::error::TrySendError;

/// How soon a busy thread is told again what is wanted.
const UNTOLD_EVERY: Duration = Duration::from_millis(5);
/// Topics that are looked at in a step.
const STEP: usize = 64;
/// Refused filters that are shown.
const REFUSED_MAX: usize = 100;
/// In whose turn slices are worked on.
const USER: &str = "$edge";
/// How the link is, as a point.
const STATE_TOPIC: &str = "$SYS/edge/state";

/// What an edge knows of its upstream.
#[derive(Debug)]
pub struct Mirror {
    wants: Wants,
    /// The topics that are the upstream's.
    topics: Vec<Filter>,
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

/// What is shown of an edge.
#[derive(Clone, Debug)]
pub struct MirrorSeen {
    /// How the link is, and since when.
    pub link: (LinkState, Timestamp),
    /// Filters that are wanted, and those that are asked for.
    pub filters: (usize, usize),
    /// Filters that the upstream refuses, and why.
    pub refused: Vec<(Filter, String)>,
    /// Values.
    pub counts: MirrorCounts,
    /// What its thread counts.
    pub counters: Arc<EdgeCounters>,
    /// What its sockets count.
    pub sockets: Arc<Counters>,
}

impl Mirror {
    /// Nothing is asked for but `keep`.
    #[must_use]
    pub fn new(topics: Vec<Filter>, keep: &[Filter], linger: Duration, handle: EdgeHandle) -> Self {
        let mut wants = Wants::new(topics.clone(), linger);
        keep.iter().for_each(|filter| wants.want(filter));
        Self {
            wants,
            topics,
            handle,
            untold: VecDeque::new(),
            link: LinkState::Connecting,
            since: Timestamp::default(),
            shown: ShownTopics::default(),
            refused: BTreeMap::new(),
            counts: MirrorCounts::default(),
            tickets: Tickets::default(),
            questions: Questions::default(),
        }
    }

    /// Whether the topic is one of the upstream's, if it is not this node's own.
    fn selects(&self, topic: &str) -> bool {
        self.topics.iter().any(|filter| filter.matches(topic))
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
    pub fn set_mirror(&mut self, mut mirror: Mirror) {
        self.tree.tell_filters();
        // Views have what they are made of as clients have what they subscribe.
        self.view_sources().iter().for_each(|filter| mirror.wants.want(filter));
        let now = self.now();
        mirror.since = now.utc;
        let state = mirror.link.clone();
        self.mirror = Some(Box::new(mirror));
        self.publish_link(now, &state);
    }

    /// Publishes from which nodes the values here are, for the edges of this node.
    fn publish_nodes(&mut self, now: Now, nodes: &[String]) {
        let names = serde_json::Value::from(nodes).to_string();
        if let Ok(topic) = Topic::new(NODES_TOPIC) {
            self.apply_value(now, topic, Body::Opaque(names.into()), true);
        }
    }

    fn publish_link(&mut self, now: Now, state: &LinkState) {
        let quality = match state {
            LinkState::Up { .. } => Quality::GOOD,
            LinkState::Connecting => Quality::INITIAL,
            LinkState::Circle { .. } | LinkState::Away { .. } => Quality::AWAY,
        };
        let time = self.mirror.as_deref().map_or(now.utc, |mirror| mirror.since);
        let point = Point { value: Value::Text(state.name().into()), quality, time };
        if let Ok(topic) = Topic::new(STATE_TOPIC) {
            self.apply_value(now, topic, Body::Point(point), true);
        }
    }

    /// Other views have other sources, or other topics are kept.
    pub(super) fn exchange_wants(&mut self, now: Now, before: &[Filter], after: &[Filter]) {
        if let Some(mirror) = self.mirror.as_deref_mut() {
            after.iter().for_each(|filter| mirror.wants.want(filter));
            before.iter().for_each(|filter| mirror.wants.release(now.mono, filter));
            self.work.notify_one();
        }
    }

    /// What is shown of the upstream; none where there is none.
    #[must_use]
    pub fn mirror_seen(&self) -> Option<MirrorSeen> {
        let mirror = self.mirror.as_deref()?;
        Some(MirrorSeen {
            link: (mirror.link.clone(), mirror.since),
            filters: mirror.wants.counts(),
            refused: mirror.refused.iter().map(|(filter, why)| (filter.clone(), why.clone())).collect(),
            counts: mirror.counts(),
            counters: Arc::clone(&mirror.handle.counters),
            sockets: Arc::clone(&mirror.handle.sockets),
        })
    }

    /// Whether a topic is the upstream's: what is published to it goes upward.
    #[must_use]
    pub fn is_of_upstream(&self, topic: &str) -> bool {
        let Some(mirror) = self.mirror.as_deref() else { return false };
        mirror.selects(topic) && !self.is_reserved(topic) && !self.derives(topic)
    }

    /// Whether this node is an edge.
    #[must_use]
    pub const fn has_upstream(&self) -> bool {
        self.mirror.is_some()
    }

    /// Whether the upstream has let this node in.
    #[must_use]
    pub fn is_upstream_there(&self) -> bool {
        self.mirror.as_deref().is_some_and(Mirror::is_up)
    }

    /// Somebody looks at what a filter selects, and does not stay.
    pub fn look_upstream(&mut self, now: Now, filter: &Filter) {
        if let Some(mirror) = self.mirror.as_deref_mut() {
            mirror.wants.look(now.mono, filter);
            self.work.notify_one();
        }
    }

    /// When something of the upstream is due.
    pub(super) fn mirror_timeout(&self, now: Instant) -> Option<Instant> {
        self.mirror.as_deref()?.timeout(now)
    }

    /// Asks the upstream for what clients have subscribed since.
    pub(super) fn ask_upstream(&mut self, now: Now) {
        let Some(mirror) = self.mirror.as_deref_mut() else { return };
        for (filter, is_first) in self.tree.take_told() {
            match is_first {
                true => mirror.wants.want(&filter),
                false => mirror.wants.release(now.mono, &filter),
            }
        }
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
        self.end_late_questions(now);
        if has_ended {
            self.work_through(Self::remove_unwanted);
        }
    }

    /// Takes what the upstream tells.
    pub fn handle_edge(&mut self, now: Now, EdgeReport(news): EdgeReport) {
        for news in news {
            match news {
                EdgeNews::Value { topic, body, ready } => {
                    self.show(now, topic, body, (None, ready.as_deref()), true);
                }
                EdgeNews::Message { message, body, retain } => {
                    self.show(now, message.topic.clone(), body, (Some(message), None), retain);
                }
                EdgeNews::Link(state) => self.link_changed(now, state),
                EdgeNews::Removed(topic) => self.removed_above(now, &topic),
                EdgeNews::Again => self.comes_again(),
                EdgeNews::CaughtUp => self.caught_up(),
                EdgeNews::Nodes(nodes) => self.publish_nodes(now, &nodes),
                EdgeNews::Refused(filter, why) => self.filter_refused(filter, why),
                EdgeNews::Answer { ticket, refused } => self.answered_above(now, ticket, refused),
                EdgeNews::Reply { request, payload } => self.answered_question(request, Ok(payload)),
            }
        }
        self.work.notify_one();
    }

    fn filter_refused(&mut self, filter: Filter, why: Option<String>) {
        let Some(mirror) = self.mirror.as_deref_mut() else { return };
        match why {
            Some(why) if mirror.refused.len() < REFUSED_MAX => drop(mirror.refused.insert(filter, why)),
            Some(_) => {}
            None => drop(mirror.refused.remove(&filter)),
        }
    }

    fn link_changed(&mut self, now: Now, state: LinkState) {
        let Some(mirror) = self.mirror.as_deref_mut() else { return };
        let is_lost = mirror.link.is_up() && !state.is_up();
        if mirror.link.name() != state.name() {
            mirror.since = now.utc;
        }
        mirror.link = state.clone();
        if is_lost {
            mirror.shown.doubt();
            mirror.refused.clear();
        }
        self.publish_link(now, &state);
        if is_lost {
            self.end_questions();
            self.work_through(Self::mark_away);
        }
    }

    /// A value or a message of the upstream: to all who have subscribed to it here.
    fn show(
        &mut self,
        now: Now,
        topic: Topic,
        body: Body,
        (message, ready): (Option<Box<Message>>, Option<&ReadyDelta>),
        retain: bool,
    ) {
        let is_own = !self.is_of_upstream(&topic);
        let is_known = !retain || self.tree.get(&topic).is_some();
        let Some(mirror) = self.mirror.as_deref_mut() else { return };
        if is_own {
            mirror.counts.own += 1;
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
        self.pass_on(now, message, (update, ready), retain);
    }

    /// Applies what the upstream says. It is not kept over a restart: the upstream says it again.
    fn pass_on(&mut self, now: Now, message: Message, (update, ready): (Update, Option<&ReadyDelta>), retain: bool) {
        let Update { topic, body } = update;
        let applied = self.apply_from(now, message, &body, (Qos::AtLeastOnce, retain), Origin::Upstream(ready));
        let Some(mirror) = self.mirror.as_deref_mut() else { return };
        match applied.map(|applied| (applied.change, applied.topic)) {
            Ok((Change::Stored, id)) => mirror.shown.show(id, &topic),
            Ok((Change::Cleared, id)) => mirror.shown.forget(id),
            Ok((Change::Passed, _)) => {}
            Err(_) => mirror.counts.full += 1,
        }
    }

    /// The upstream has removed a value and published no message: nor is one published here.
    fn removed_above(&mut self, now: Now, topic: &Topic) {
        let (Some(id), Some(mirror)) = (self.tree.find(topic), self.mirror.as_deref_mut()) else { return };
        if mirror.shown.has(id, topic) {
            mirror.shown.forget(id);
            self.remove_value(now, topic);
        }
    }

    /// All that the upstream has comes once more.
    fn comes_again(&mut self) {
        if let Some(mirror) = self.mirror.as_deref_mut() {
            mirror.shown.doubt();
        }
    }

    /// Works through all values of the upstream, a slice a turn.
    fn work_through(&mut self, mut step: impl FnMut(&mut Self, Now, TopicId, Shown) + 'static) {
        let mut at = 0;
        let ask = move |bus: &mut Self, now| {
            let Some(mirror) = bus.mirror.as_deref() else { return Step::Done };
            let (some, next) = mirror.shown.slice(at, STEP);
            for (id, shown) in some {
                // The number may be another topic's by now.
                let is_there = bus.tree.view(id).is_some_and(|view| *view.topic == shown.topic);
                if is_there {
                    step(bus, now, id, shown);
                } else if let Some(mirror) = bus.mirror.as_deref_mut() {
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
    fn caught_up(&mut self) {
        let Some(doubts) = self.mirror.as_deref().map(|mirror| mirror.shown.doubts()) else { return };
        self.work_through(move |bus, now, id, shown| {
            let Some(mirror) = bus.mirror.as_deref_mut() else { return };
            if mirror.shown.doubts() == doubts && mirror.shown.is_late(&shown) {
                mirror.shown.forget(id);
                bus.apply_node(now, shown.topic, Body::empty(), true);
            }
        });
    }

    /// Removes a value that nobody asks for any more.
    fn remove_unwanted(&mut self, now: Now, id: TopicId, shown: Shown) {
        let Some(mirror) = self.mirror.as_deref_mut() else { return };
        if !mirror.wants.asks_for(&shown.topic) {
            mirror.shown.forget(id);
            self.remove_value(now, &shown.topic);
        }
    }

    /// Marks a value that did not come again since the link was lost.
    fn mark_away(&mut self, now: Now, id: TopicId, shown: Shown) {
        let is_late = self.mirror.as_deref().is_some_and(|mirror| mirror.shown.is_late(&shown));
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
        let update = Update { topic: shown.topic, body: Body::Point(point) };
        self.record_node(now, &update);
        self.apply_node(now, update.topic, update.body, true);
    }
}

#[cfg(test)]
mod tests;
