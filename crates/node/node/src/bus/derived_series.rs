//! Derived series on the bus: results at each change are made here; those of the past and of intervals come from the history's thread.
//!
//! What is recorded of an input goes through the series that take it, with the time and the value that history has of it. A result
//! is applied like an update of the node's own, and recorded.

use super::state::Bus;
use std::collections::{BTreeMap, HashSet};
use tieline_core::{Body, Instant, Now, Point, Topic, Update};
use tieline_derived::{Live, LiveCounts, Series, fingerprints, order};
use tieline_history::{DerivedHandle, DerivedNews, DerivedStatus, HistoryHandle, HistoryState};

/// The derived series of a bus.
#[derive(Debug, Default)]
pub struct DerivedSeries {
    live: Live,
    declared: Vec<Series>,
    topics: HashSet<Topic>,
    /// Calculates the past and intervals; none where history is off.
    handle: Option<DerivedHandle>,
}

/// A derived series, and how it is doing.
#[derive(Clone, Debug)]
pub struct DerivedSeen {
    /// What was declared.
    pub series: Series,
    /// What the history's thread says.
    pub status: DerivedStatus,
    /// What was made live.
    pub counts: LiveCounts,
    /// The last result.
    pub last: Option<Point>,
}

impl Bus {
    /// There are these derived series when the node starts; their past and intervals are calculated by another thread.
    pub fn set_derived(&mut self, now: Now, (series, handle): (Vec<Series>, Option<DerivedHandle>)) {
        self.derived_series.handle = handle;
        self.tell_derived_of_history();
        self.set_derived_series(now, series);
    }

    fn tell_derived_of_history(&self) {
        if let (Some(handle), Some(history)) = (&self.derived_series.handle, self.recorder.handle()) {
            handle.set_history(history);
        }
    }

    /// There are these derived series from here on. The topics of others are removed.
    pub fn set_derived_series(&mut self, now: Now, series: Vec<Series>) {
        let Ok(places) = order(&series) else { return };
        let prints = fingerprints(&series, &places);
        let topics: HashSet<Topic> = series.iter().map(|series| series.topic.clone()).collect();
        let own = &mut self.derived_series;
        let gone: Vec<Topic> = own.topics.difference(&topics).cloned().collect();
        let by_change = prints.into_iter().zip(&series).filter(|(_, series)| series.every.is_none());
        own.live.replace(by_change.map(|(print, series)| (print, series.clone())));
        own.topics = topics;
        if let Some(handle) = &own.handle {
            handle.set(series.clone());
        }
        own.declared = series;
        self.recorder.tap(own.live.inputs().cloned().collect());
        for topic in gone {
            self.apply_node(now, topic, Body::empty(), true);
        }
        self.work.notify_one();
    }

    /// Whether a topic is one of a derived series: nobody else gives it a value.
    pub(super) fn is_derived_series(&self, topic: &str) -> bool {
        !self.derived_series.topics.is_empty() && self.derived_series.topics.contains(topic)
    }

    /// Takes news of the history's thread.
    pub fn handle_derived_news(&mut self, now: Now, news: DerivedNews) {
        match news {
            DerivedNews::Seed { topic, print, since, held } => {
                self.derived_series.live.seed(&topic, print, since, held);
                self.work.notify_one();
            }
            DerivedNews::Newest { topic, point } => {
                let is_newer = self.last_result(&topic).is_none_or(|last| last.time < point.time);
                if is_newer && self.is_derived_series(&topic) {
                    self.apply_node(now, topic, Body::Point(point), true);
                    self.work.notify_one();
                }
            }
        }
    }

    /// Makes the results that are due. One may be an input of others.
    pub(super) fn calculate(&mut self, now: Now) {
        loop {
            if self.recorder.has_tapped() {
                let live = &mut self.derived_series.live;
                let tapped = self.recorder.take_tapped();
                tapped.iter().for_each(|(topic, time, reading)| live.handle_sample(now, topic, *time, *reading));
            }
            let mut results = Vec::new();
            self.derived_series.live.poll(now.mono, |topic, point| results.push((topic.clone(), point)));
            if results.is_empty() {
                return;
            }
            for (topic, point) in results {
                let update = Update { topic, body: Body::Point(point) };
                let _ = self.recorder.record(now, &update, None);
                self.apply_node(now, update.topic, update.body, true);
            }
        }
    }

    /// When something is due.
    pub(super) const fn derived_timeout(&self) -> Option<Instant> {
        self.derived_series.live.timeout()
    }

    /// History was opened, or cannot be.
    pub fn set_history(&mut self, history: Result<HistoryHandle, HistoryState>) {
        self.recorder.set_history(history);
        self.tell_derived_of_history();
    }

    fn last_result(&self, topic: &Topic) -> Option<&Point> {
        match self.tree().get(topic)?.body {
            Body::Point(point) => Some(point),
            Body::Published(_) | Body::Opaque(_) => None,
        }
    }

    /// All derived series, in the order in which they are declared, and how they are doing.
    #[must_use]
    pub fn derived_seen(&self) -> Vec<DerivedSeen> {
        let own = &self.derived_series;
        let mut all: BTreeMap<Topic, DerivedStatus> =
            own.handle.as_ref().map(DerivedHandle::status).unwrap_or_default();
        let seen = |series: &Series| DerivedSeen {
            status: all.remove(&series.topic).unwrap_or_default(),
            counts: own.live.counts(&series.topic).unwrap_or_default(),
            last: self.last_result(&series.topic).cloned(),
            series: series.clone(),
        };
        own.declared.iter().map(seen).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::alone::alone;
    use crate::bus::sites::JoinedSites;
    use crate::config::{HistoryConfig, from_text};
    use crate::history::Recorder;
    use crate::sites::{SitesNews, SitesReport};
    use bytes::Bytes;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;
    use tieline_core::{Quality, Timestamp, Value};
    use tieline_derived::{Expression, Form};
    use tokio::sync::mpsc;

    fn series(name: &str, text: &str) -> Series {
        let expression = Expression::parse(text, Form::Change).unwrap();
        let wait = Duration::from_millis(200);
        Series { topic: Topic::new(name).unwrap(), expression, every: None, wait, backfill: None }
    }

    /// A bus whose history cannot be opened yet: what passes is recorded as if it were.
    fn recording() -> (Bus, impl Sized) {
        let (mut bus, rest) = alone();
        let history: HistoryConfig = from_text("t.toml", "", Path::new(".")).unwrap().history;
        let (stored, told) = mpsc::unbounded_channel();
        bus.recorder = Recorder::new(&history, Some(Err(HistoryState::default())), HashSet::new(), stored);
        (bus, (rest, told))
    }

    fn seed(bus: &mut Bus, now: Now, all: &[Series]) {
        bus.set_derived_series(now, all.to_vec());
        for (series, print) in all.iter().zip(fingerprints(all, &order(all).unwrap())) {
            let held = vec![None; series.expression.inputs().len()];
            let topic = series.topic.clone();
            bus.handle_derived_news(now, DerivedNews::Seed { topic, print, since: Timestamp::default(), held });
        }
    }

    #[test]
    fn values_of_sites_are_inputs() {
        let (mut bus, _rest) = recording();
        bus.set_sites(JoinedSites::new("sites/".to_owned()));
        let all = [series("sum", "'sites/a/x' + 'sites/b/x'")];
        let start = Now { utc: Timestamp::from_millis(1_795_000_000_000), ..Now::default() };
        seed(&mut bus, start, &all);
        for (site, payload) in [("a", "3"), ("b", "4")] {
            let (body, topic) = (Body::read(Bytes::from_static(payload.as_bytes())), format!("sites/{site}/x"));
            let (site, topic, time) = (Arc::from(site), Topic::new(&topic).unwrap(), start.utc);
            bus.handle_sites(start, SitesReport(vec![SitesNews::Value { site, topic, time, body }]));
        }
        bus.calculate(start);
        bus.calculate(start.later(Duration::from_millis(200)));
        let sum = Point { value: Value::Float(7.0), quality: Quality::GOOD, time: start.utc };
        assert_eq!(bus.last_result(&all[0].topic), Some(&sum));
    }

    #[test]
    fn results_are_applied_and_are_inputs_of_others() {
        let (mut bus, _rest) = recording();
        let all = [series("double", "'sum' * 2"), series("sum", "'a' + 'b'")];
        let start = Now { utc: Timestamp::from_millis(1_795_000_000_000), ..Now::default() };
        seed(&mut bus, start, &all);
        let later = |millis| start.later(Duration::from_millis(millis));
        for (topic, payload) in [("a", "3"), ("other", "9"), ("b", "4")] {
            let body = Body::read(Bytes::from_static(payload.as_bytes()));
            bus.record(later(0), &Update { topic: Topic::new(topic).unwrap(), body }, None);
        }
        bus.calculate(later(0));
        let value = |bus: &Bus, topic: &str| bus.last_result(&Topic::new(topic).unwrap()).cloned();
        assert_eq!(
            (value(&bus, "sum"), bus.derived_timeout()),
            (None, Some(later(200).mono)),
            "others of the time may come"
        );
        bus.calculate(later(200));
        let sum = Point { value: Value::Float(7.0), quality: Quality::GOOD, time: start.utc };
        assert_eq!(value(&bus, "sum"), Some(sum.clone()));
        bus.calculate(later(400));
        assert_eq!(value(&bus, "double"), Some(Point { value: Value::Float(14.0), ..sum.clone() }));
        assert!(bus.derives("sum") && bus.derives("double") && !bus.derives("a"));
        // An older result of the history is none that subscribers lack.
        let topic = Topic::new("sum").unwrap();
        let older = Point { time: Timestamp::default(), ..sum.clone() };
        bus.handle_derived_news(later(500), DerivedNews::Newest { topic: topic.clone(), point: older });
        assert_eq!(value(&bus, "sum"), Some(sum));
        let seen = bus.derived_seen();
        assert_eq!(seen.iter().map(|one| one.counts.results).collect::<Vec<_>>(), [1, 1]);
        bus.set_derived_series(later(600), vec![]);
        assert!(bus.tree().get(&topic).is_none() && !bus.derives("sum") && bus.derived_timeout().is_none());
    }
}
