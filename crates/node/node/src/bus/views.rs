//! Derived topics on the bus: each update of a source goes through the views, and what they make is applied like an
//! update of the node's own. It is not recorded: history has the sources.

use super::state::Bus;
use crate::access::denial;
use std::collections::HashSet;
use tieline_core::{Body, Filter, Instant, Now, Topic};
use tieline_topics::{Snapshot, Tree};
use tieline_views::{Limits, Stats, View, ViewError, Views};

/// Topics that are looked at together when views are replaced.
const CHUNK: usize = 1000;

/// The views of a bus.
#[derive(Debug)]
pub struct Deriving {
    views: Views,
    /// Where they may derive topics.
    reach: Vec<Filter>,
}

impl Deriving {
    fn new(views: Views) -> Box<Self> {
        let reach = reach_of(views.views());
        Box::new(Self { views, reach })
    }
}

fn reach_of(views: &[View]) -> Vec<Filter> {
    views.iter().filter_map(|view| view.to.reach()).collect()
}

impl Bus {
    /// From here on, topics are derived.
    pub fn set_views(&mut self, views: Views) {
        self.deriving = Some(Deriving::new(views));
    }

    /// Derives by other views from here on, from the values that topics have; gives how many topics are derived.
    ///
    /// # Errors
    /// The views cannot live together; nothing has changed then.
    pub fn replace_views(&mut self, now: Now, views: Vec<View>) -> Result<usize, ViewError> {
        let before = self.view_sources();
        let fresh = || Views::new(Vec::new(), Limits::default()).map(Deriving::new);
        let mut deriving = self.deriving.take().map_or_else(fresh, Ok)?;
        let (reach, sources) = (reach_of(&views), sources_of(&self.tree, &views));
        let replaced = deriving.views.replace(now.mono, views, sources);
        if replaced.is_ok() {
            deriving.reach = reach;
        }
        self.deriving = Some(deriving);
        self.apply_derived(now);
        self.deriving = self.deriving.take().filter(|deriving| !deriving.views.views().is_empty());
        let after = self.view_sources();
        self.exchange_wants(now, &before, &after);
        self.work.notify_one();
        replaced.map(|()| self.view_stats().map_or(0, |stats| stats.derived))
    }

    /// The same for an administrator: it is logged and written down.
    ///
    /// # Errors
    /// The views cannot live together; nothing has changed then.
    pub fn reload_views(&mut self, now: Now, views: Vec<View>, who: &str) -> Result<usize, ViewError> {
        let count = views.len();
        match self.replace_views(now, views) {
            Ok(derived) => {
                tracing::info!(who, views = count, derived, "views were read again");
                let words = format!("{count} views, {derived} topics");
                self.note_access(denial(now, who, "views", "admin", "$views", "", words));
                Ok(derived)
            }
            Err(error) => {
                tracing::warn!(who, %error, "the views stay as they are");
                Err(error)
            }
        }
    }

    /// What the views are made of.
    pub(super) fn view_sources(&self) -> Vec<Filter> {
        let views = self.deriving.as_deref().map_or(&[][..], |deriving| deriving.views.views());
        views.iter().map(|view| view.from.clone()).collect()
    }

    /// Whether views may derive a topic, or it is one of a derived series: nobody else gives it a value.
    #[must_use]
    pub fn derives(&self, topic: &str) -> bool {
        let by_view = |deriving: &Deriving| deriving.reach.iter().any(|filter| filter.matches(topic));
        self.deriving.as_deref().is_some_and(by_view) || self.is_derived_series(topic)
    }

    /// What the views have done; none where there are none.
    #[must_use]
    pub fn view_stats(&self) -> Option<Stats> {
        self.deriving.as_ref().map(|deriving| deriving.views.stats())
    }

    /// A topic has another value, or none any more.
    pub(super) fn derive(&mut self, now: Now, topic: &Topic, body: &Body) {
        let Some(Deriving { views, .. }) = self.deriving.as_deref_mut() else { return };
        if views.takes(topic) {
            views.handle_update(now.mono, topic, Some(body).filter(|body| !body.is_empty()));
            self.apply_derived(now);
        }
    }

    /// Applies what is due.
    pub(super) fn derive_due(&mut self, now: Now) {
        let Some(Deriving { views, .. }) = self.deriving.as_deref_mut() else { return };
        if views.timeout().is_some_and(|due| due <= now.mono) {
            views.handle_timeout(now.mono);
            self.apply_derived(now);
        }
    }

    /// When something is due.
    pub(super) fn views_timeout(&self) -> Option<Instant> {
        self.deriving.as_ref()?.views.timeout()
    }

    fn apply_derived(&mut self, now: Now) {
        while let Some(output) = self.deriving.as_deref_mut().and_then(|deriving| deriving.views.poll_output()) {
            // An empty payload takes the value away ([MQTT-3.3.1-6]).
            let body = output.body.unwrap_or_else(Body::empty);
            self.apply_value(now, output.topic, body, true);
        }
    }
}

/// The values of all topics that some of the views take.
fn sources_of(tree: &Tree, views: &[View]) -> Vec<(Topic, Body)> {
    let (mut sources, mut seen) = (Vec::new(), HashSet::new());
    for view in views {
        let mut walk = Snapshot::new(view.from.clone());
        while !walk.is_done() {
            let values = tree.next(&mut walk, CHUNK).into_iter().filter(|value| seen.insert(value.id));
            sources.extend(values.map(|value| (value.topic.clone(), value.body.clone())));
        }
    }
    sources
}
