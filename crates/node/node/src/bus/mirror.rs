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
mod values;

pub use self::said::MirrorSeen;
use self::shown::ShownTopics;
use super::apply::Origin;
use super::locks_above::LocksAbove;
use super::questions::Questions;
use super::state::Bus;
use super::upward::Tickets;
use crate::config::{TopicPrefix, UpstreamConfig};
use crate::edge::{EdgeHandle, EdgeInput, EdgeNews, EdgeReport, LinkState, Nodes};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Filter, Instant, Now, Timestamp};
use tieline_topics::{Asking, View, Wants};
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
    /// Its locks that clients of this node have or wait for.
    pub(super) locks: LocksAbove,
    /// The connection with it.
    pub(super) connection: u64,
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
    /// Its locks that clients of this node have, those that they wait for, and those that were lost with the link.
    pub locks: (usize, usize, u64),
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
            beside: config.beside_here().collect(),
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
            locks: LocksAbove::default(),
            connection: 0,
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

    /// What it is called here.
    pub(super) fn name(&self) -> &str {
        &self.name
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
        let upward = (self.tickets.sent, self.tickets.refused);
        MirrorCounts { topics, away, upward, locks: self.locks.counts(), ..self.counts }
    }

    fn timeout(&self, now: Instant) -> Option<Instant> {
        let untold = (!self.untold.is_empty()).then(|| now + UNTOLD_EVERY);
        let due = [self.wants.timeout(), untold, self.questions.timeout(), self.locks.timeout()];
        due.into_iter().flatten().min()
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

    /// Whose a lock is, if it is an upstream's, as the topic of its name would be. All locks of an upstream are of one session
    /// with it, and what depends on them goes the same way.
    #[must_use]
    pub fn upstream_of_lock(&self, name: &str) -> Option<usize> {
        let has = |mirror: &Mirror| {
            mirror.prefix.there(name).is_some() && mirror.topics.iter().any(|filter| filter.matches(name))
        };
        // The last of the sessions with an upstream is the one that has all of its topics.
        let up = self.mirrors.iter().rposition(has)?;
        (!self.is_reserved(name) && !self.derives(name)).then_some(up)
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
            self.give_back_locks(now, up);
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
                EdgeNews::Connected(number) => {
                    if let Some(mirror) = self.mirrors.get_mut(up) {
                        mirror.connection = number;
                    }
                }
                EdgeNews::Removed(topic) => self.removed_above(now, up, &topic),
                EdgeNews::Again => self.comes_again(up),
                EdgeNews::CaughtUp => self.caught_up(up),
                EdgeNews::Nodes(nodes) => self.publish_nodes(now, up, nodes),
                EdgeNews::Refused(filter, why) => self.filter_refused(up, filter, why),
                EdgeNews::Answer { ticket, refused } => self.answered_above(now, (up, ticket), refused),
                EdgeNews::Reply { request, payload } => {
                    if !self.lock_answered(now, (up, request), &payload) {
                        self.answered_question((up, request), Ok(payload));
                    }
                }
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
        let is_connected = state.is_connected();
        mirror.link = state;
        if is_lost {
            mirror.shown.doubt();
            mirror.refused.clear();
        }
        self.publish_link(now, up);
        if is_lost || !is_connected {
            self.lose_locks(now, up, is_connected);
        }
        if is_lost {
            self.end_questions(up);
            self.work_through(up, Self::mark_away);
        }
    }
}

#[cfg(test)]
mod lock_tests;
#[cfg(test)]
mod tests;
