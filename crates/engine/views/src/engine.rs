//! Sources come, change and go; derived topics follow.

use crate::pace::Pace;
use crate::running::RunningAggregate;
use crate::view::check;
use crate::{Contribution, Source, View, ViewError, evaluate};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Body, Deadlines, Instant, Topic};

/// Changes that come at once when they are due: others have their turn before the next ones.
const DUE_AT_ONCE: usize = if cfg!(test) { 3 } else { 256 };
/// An aggregate of so few contributions is worked out from all of them.
const FEW: usize = if cfg!(test) { 2 } else { 16 };

/// Limits of all views together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Contributions of all sources.
    pub contributions_max: usize,
    /// Items that one source is expanded to.
    pub items_max: usize,
    /// Changes that wait, of all derived topics.
    pub waiting_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { contributions_max: 1_000_000, items_max: 1000, waiting_max: 1_000_000 }
    }
}

/// A derived topic has another value, or none any more.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The topic.
    pub topic: Topic,
    /// The value; none when the topic goes.
    pub body: Option<Body>,
}

/// What was done so far, and what is here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Derived topics.
    pub derived: usize,
    /// What sources contribute.
    pub contributions: usize,
    /// Changes that wait.
    pub waiting: usize,
    /// Updates of sources that a view takes.
    pub updates: u64,
    /// Changes of derived topics.
    pub changes: u64,
    /// Contributions or items left out because there were too many.
    pub refused: u64,
    /// Delayed changes that came early because too many waited.
    pub flushed_early: u64,
}

/// Which contribution: the view, the source, and which of the source's.
type Key = (usize, Topic, usize);

#[derive(Debug, Default)]
pub(crate) struct Derived {
    contributions: BTreeMap<Key, Contribution>,
    /// What the contributions of a view come to, where there are many and it was asked for.
    running: Vec<(usize, RunningAggregate)>,
    /// The view that paces it.
    pub(crate) view: usize,
    /// What it will show when all that waits has come.
    pub(crate) latest: Option<Body>,
    /// What it shows.
    pub(crate) shown: Option<Body>,
    pub(crate) pace: Pace,
}

/// All views with all that they have derived.
#[derive(Debug)]
pub struct Views {
    views: Vec<View>,
    pub(crate) limits: Limits,
    /// Which derived topics a source contributes to.
    sources: BTreeMap<Topic, Vec<(Topic, Key)>>,
    pub(crate) derived: BTreeMap<Topic, Derived>,
    due: Deadlines<Topic>,
    pub(crate) outputs: VecDeque<Output>,
    pub(crate) stats: Stats,
}

impl Views {
    /// Views without any source yet.
    ///
    /// # Errors
    /// Two have one name, or they would feed themselves.
    pub fn new(views: Vec<View>, limits: Limits) -> Result<Self, ViewError> {
        check(&views)?;
        Ok(Self {
            views,
            limits,
            sources: BTreeMap::new(),
            derived: BTreeMap::new(),
            due: Deadlines::default(),
            outputs: VecDeque::new(),
            stats: Stats::default(),
        })
    }

    /// Whether any view takes a topic.
    #[must_use]
    pub fn takes(&self, topic: &str) -> bool {
        self.views.iter().any(|view| view.from.matches(topic))
    }

    /// The views.
    #[must_use]
    pub fn views(&self) -> &[View] {
        &self.views
    }

    /// Whether any view could derive a topic: nobody else should give it a value.
    #[must_use]
    pub fn may_derive(&self, topic: &str) -> bool {
        self.views.iter().filter_map(|view| view.to.reach()).any(|reach| reach.matches(topic))
    }

    /// A source has another value, or none any more.
    pub fn handle_update(&mut self, now: Instant, topic: &Topic, body: Option<&Body>) {
        let mut changed: VecDeque<(Topic, Option<Body>)> = VecDeque::new();
        changed.push_back((topic.clone(), body.cloned()));
        // Views do not feed themselves: this ends.
        while let Some((topic, body)) = changed.pop_front() {
            for derived in self.contribute(&topic, body.as_ref()) {
                let taken = self.settle(now, &derived);
                changed.extend(taken.map(|body| (derived, body)));
            }
        }
    }

    /// Takes what a source contributes in the place of what it did; gives the derived topics that are concerned.
    fn contribute(&mut self, topic: &Topic, body: Option<&Body>) -> BTreeSet<Topic> {
        let mut concerned = BTreeSet::new();
        for (derived, key) in self.sources.remove(topic).unwrap_or_default() {
            if let Some(found) = self.derived.get_mut(&derived) {
                found.take(&key);
                self.stats.contributions -= 1;
            }
            concerned.insert(derived);
        }
        let Some(body) = body.filter(|_| self.takes(topic)) else { return concerned };
        self.stats.updates += 1;
        let mut source = Source::new(topic, body);
        let mut made = Vec::new();
        for (number, view) in self.views.iter().enumerate() {
            let (found, over) = evaluate(view, &mut source, self.limits.items_max);
            self.stats.refused += u64::from(over);
            let keyed = found.into_iter().enumerate();
            made.extend(keyed.map(|(which, contribution)| ((number, topic.clone(), which), contribution)));
        }
        if self.stats.contributions + made.len() > self.limits.contributions_max {
            self.stats.refused += 1;
            return concerned;
        }
        self.stats.contributions += made.len();
        let places = made.iter().map(|(key, contribution)| (contribution.to.clone(), key.clone())).collect();
        for (key, contribution) in made {
            concerned.insert(contribution.to.clone());
            self.derived.entry(contribution.to.clone()).or_default().put(key, contribution);
        }
        self.sources.insert(topic.clone(), places);
        concerned
    }

    /// Works out what a derived topic shows; gives its change when that holds at once.
    fn settle(&mut self, now: Instant, topic: &Topic) -> Option<Option<Body>> {
        let Self { views, derived, due, stats, limits, .. } = self;
        let found = derived.get_mut(topic)?;
        let value = found.value(views);
        if let Some(((number, _, _), _)) = found.contributions.first_key_value() {
            found.view = *number;
        }
        if value == found.latest {
            return self.forget_empty(topic);
        }
        found.latest.clone_from(&value);
        let (delay, throttle) = pace_of(views, found.view);
        if let Some(at) = found.pace.due(throttle) {
            due.remove(at, topic.clone());
        }
        found.pace.push(now, delay, value);
        stats.waiting += 1;
        if stats.waiting > limits.waiting_max {
            found.pace.hurry(now);
            stats.flushed_early += 1;
        }
        self.release(now, topic)
    }

    /// Lets a derived topic change if that is due, and sets its timer.
    fn release(&mut self, now: Instant, topic: &Topic) -> Option<Option<Body>> {
        let Self { views, derived, due, stats, outputs, .. } = self;
        let found = derived.get_mut(topic)?;
        let (_, throttle) = pace_of(views, found.view);
        let before = found.pace.len();
        let taken = found.pace.take(now, throttle);
        stats.waiting -= before - found.pace.len();
        if let Some(at) = found.pace.due(throttle) {
            due.add(at, topic.clone());
        }
        let change = taken.filter(|body| *body != found.shown);
        if let Some(body) = &change {
            found.shown.clone_from(body);
            stats.changes += 1;
            outputs.push_back(Output { topic: topic.clone(), body: body.clone() });
        }
        self.forget_empty(topic);
        change
    }

    fn forget_empty(&mut self, topic: &Topic) -> Option<Option<Body>> {
        let found = self.derived.get(topic)?;
        if found.is_empty() && found.shown.is_none() && found.pace.len() == 0 {
            self.derived.remove(topic);
        }
        None
    }

    /// Time has passed. Some of what is due changes; where there is more, [`Views::timeout`] still is not after `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        for _ in 0..DUE_AT_ONCE {
            let Some((_, topic)) = self.due.take_next(now) else { return };
            if let Some(body) = self.release(now, &topic) {
                self.handle_update(now, &topic, body.as_ref());
            }
        }
    }

    /// When to call [`Views::handle_timeout`].
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.due.timeout()
    }

    /// The next change of a derived topic.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// What was done so far, and what is here.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { derived: self.derived.len(), ..self.stats }
    }
}

fn pace_of(views: &[View], number: usize) -> (Duration, Duration) {
    views.get(number).map_or((Duration::ZERO, Duration::ZERO), |view| (view.delay, view.throttle))
}

impl Derived {
    /// One that is shown, and of which nothing else is known yet.
    pub(crate) fn adopted(shown: Body) -> Self {
        Self { latest: Some(shown.clone()), shown: Some(shown), ..Self::default() }
    }

    /// Whether nothing contributes to it.
    pub(crate) fn is_empty(&self) -> bool {
        self.contributions.is_empty()
    }

    fn put(&mut self, key: Key, contribution: Contribution) {
        self.take(&key);
        self.running_of(key.0).for_each(|running| running.add(&contribution));
        self.contributions.insert(key, contribution);
    }

    fn take(&mut self, key: &Key) {
        if let Some(gone) = self.contributions.remove(key) {
            self.running_of(key.0).for_each(|running| running.remove(&gone));
        }
    }

    fn running_of(&mut self, view: usize) -> impl Iterator<Item = &mut RunningAggregate> {
        self.running.iter_mut().filter(move |(of, _)| *of == view).map(|(_, running)| running)
    }

    /// What it is to show: the first contribution, or the aggregate of those of the same view.
    fn value(&mut self, views: &[View]) -> Option<Body> {
        let ((number, _, _), first) = self.contributions.first_key_value()?;
        let Some(aggregate) = views.get(*number).and_then(|view| view.aggregate.as_ref()) else {
            return Some(first.body.clone());
        };
        let (number, operation) = (*number, aggregate.operation);
        if self.contributions.len() <= FEW {
            self.running = Vec::new();
        } else if let Some(running) = self.running_of(number).next() {
            return Some(running.body(operation));
        }
        let all = self.contributions.iter().take_while(|((view, _, _), _)| *view == number);
        let mut running = RunningAggregate::of(operation, all.map(|(_, contribution)| contribution));
        let body = running.body(operation);
        if self.contributions.len() > FEW {
            self.running.push((number, running));
        }
        Some(body)
    }
}
