//! A centre's part of the bus: the newest values of sites.
//!
//! A value is taken where it is not older than the one that is there: what was owed comes late. While a site is away its values are marked
//! `away`, a slice a turn, and get their own quality back when it is there again: a site sends what changes, not what stays.

use super::asks::Step;
use super::state::Bus;
use crate::sites::{SitesNews, SitesReport};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use tieline_core::{Body, Now, Point, Quality, Timestamp, Topic, Update, Value};
use tieline_journal::Sample;
use tieline_topics::TopicId;

/// Topics that are looked at in a step.
const STEP: usize = 256;
/// For whom the bus works through values.
const USER: &str = "$sites";

/// The values of sites.
#[derive(Debug)]
pub struct JoinedSites {
    /// The topics of sites are below it.
    prefix: String,
    /// Sites that are there, and those that are away.
    up: BTreeMap<Arc<str>, bool>,
    /// Topics of sites behind sites that are away, each with its last `/`; none is below another one.
    behind: BTreeMap<Arc<str>, BTreeSet<String>>,
    /// How often the values of a site were to be looked at: the last time counts.
    rounds: BTreeMap<Arc<str>, u64>,
    /// What topics have, by their numbers.
    shown: Vec<Shown>,
    topics: usize,
    /// Values of topics that are this node's own: they were left out.
    own: u64,
}

/// What a topic has. There are as many as topics: the site is in its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shown {
    /// No value of a site.
    #[default]
    None,
    /// The value that its site sent.
    AsSent,
    /// That value, marked because its site is away.
    Marked,
}

impl JoinedSites {
    /// No site is known.
    #[must_use]
    pub fn new(prefix: String) -> Self {
        let (up, behind, rounds) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { prefix, up, behind, rounds, shown: Vec::new(), topics: 0, own: 0 }
    }

    /// What stands before the names of sites in topics.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether a site, or the one behind it that has the topic, is away.
    fn is_away(&self, site: &str, topic: &str) -> bool {
        let behind = || {
            let topics = self.behind.get(site)?.range::<str, _>((Bound::Unbounded, Bound::Included(topic)));
            topics.last().filter(|below| topic.starts_with(below.as_str()))
        };
        self.up.get(site) != Some(&true) || behind().is_some()
    }

    fn shows(&mut self, id: TopicId, shown: Shown) {
        let at = usize::try_from(id.0).unwrap_or(usize::MAX);
        if self.shown.len() <= at {
            self.shown.resize(at + 1, Shown::None);
        }
        if let Some(slot) = self.shown.get_mut(at) {
            self.topics += usize::from(*slot == Shown::None);
            *slot = shown;
        }
    }

    fn is_of(&self, topic: &str, site: &str) -> bool {
        let below = topic.strip_prefix(self.prefix.as_str()).and_then(|below| below.strip_prefix(site));
        below.is_some_and(|below| below.starts_with('/'))
    }
}

impl Bus {
    /// The bus is that of a centre from here on.
    pub fn set_sites(&mut self, sites: JoinedSites) {
        self.sites = Some(Box::new(sites));
    }

    /// Whether a topic is one of a site: only the site changes it.
    #[must_use]
    pub fn is_of_site(&self, topic: &str) -> bool {
        self.sites.as_deref().is_some_and(|sites| topic.starts_with(sites.prefix.as_str()))
    }

    /// Topics that have values of sites, and values that were left out because their topics are this node's own.
    #[must_use]
    pub fn site_topics(&self) -> (usize, u64) {
        self.sites.as_deref().map_or((0, 0), |sites| (sites.topics, sites.own))
    }

    /// Takes what the centre tells.
    pub fn handle_sites(&mut self, now: Now, SitesReport(news): SitesReport) {
        for news in news {
            match news {
                SitesNews::Value { site, topic, time, body } => self.show_of_site(now, (site, topic), time, body),
                SitesNews::State { site, is_up } => self.site_changed(now, site, is_up),
                SitesNews::Behind { site, away } => self.behind_changed(site, &away),
                SitesNews::System(topic, body) => self.apply_node(now, topic, body, true),
                SitesNews::CallEnded { ticket, end } => self.end_site_call(now, ticket, end),
                SitesNews::Asked(call) => self.take_call_of_centre(now, call),
                SitesNews::Events(events) => self.take_events(now, events),
                SitesNews::EventsDoubted(from) => self.doubt_events(&from),
                SitesNews::EventsWanted { by, filters, is_again } => self.take_interest(by, filters, is_again),
            }
        }
        self.work.notify_one();
    }

    fn site_changed(&mut self, now: Now, site: Arc<str>, is_up: bool) {
        let Some(sites) = self.sites.as_deref_mut() else { return };
        let before = sites.up.insert(Arc::clone(&site), is_up);
        if let Some(events) = self.site_events.as_deref_mut().filter(|_| before.is_none()) {
            events.add_site(Arc::clone(&site));
        }
        let (word, quality) = if is_up { ("up", Quality::GOOD) } else { ("away", Quality::AWAY) };
        if let Ok(topic) = Topic::new(&format!("$SYS/sites/{site}/state")) {
            let point = Point { value: Value::Text(word.into()), quality, time: now.utc };
            self.apply_node(now, topic, Body::Point(point), true);
        }
        if before == Some(true) && !is_up {
            self.end_calls_of_site(now, &site);
        }
        if before != Some(is_up) {
            let place = format!("{}{site}", self.sites.as_ref().map_or("", |sites| sites.prefix()));
            self.note_site_presence(now, &place, is_up);
            self.mark_site(site);
        }
    }

    fn behind_changed(&mut self, site: Arc<str>, away: &[String]) {
        let Some(sites) = self.sites.as_deref_mut() else { return };
        let away: BTreeSet<String> = away.iter().map(|topic| format!("{}{site}/{topic}/", sites.prefix)).collect();
        sites.behind.insert(Arc::clone(&site), away);
        self.mark_site(site);
    }

    fn show_of_site(&mut self, now: Now, (site, topic): (Arc<str>, Topic), time: Timestamp, body: Body) {
        let is_own = self.ownership.is_of_device(&topic) || self.derives(&topic);
        let Some(sites) = self.sites.as_deref_mut() else { return };
        if is_own {
            sites.own += 1;
            return;
        }
        let is_away = sites.is_away(&site, &topic);
        if self.recorder.taps(&topic) {
            self.recorder.tap_sample(&Sample::new(time, Update { topic: topic.clone(), body: body.clone() }));
        }
        if self.tree.get(&topic).is_some_and(|view| time_of(view.body, view.time) > time) {
            return;
        }
        let (body, shown) = match marked(&body, time).filter(|_| is_away) {
            Some(point) => (Body::Point(point), Shown::Marked),
            None => (body, Shown::AsSent),
        };
        // What has no time of its own is as old as it is.
        let now = if matches!(body, Body::Point(_)) { now } else { Now { utc: time, ..now } };
        self.apply_node(now, topic.clone(), body, true);
        let Some(id) = self.tree.get(&topic).map(|view| view.id) else { return };
        if let Some(sites) = self.sites.as_deref_mut() {
            sites.shows(id, shown);
        }
    }

    /// Marks the values of a site, and of those behind it, as far as they are away; gives the others back the quality that they had.
    fn mark_site(&mut self, site: Arc<str>) {
        let mut at = 0;
        let Some(sites) = self.sites.as_deref_mut() else { return };
        let round = sites.rounds.entry(Arc::clone(&site)).or_default();
        *round += 1;
        let round = *round;
        let ask = move |bus: &mut Self, now| {
            let Some(sites) = bus.sites.as_deref() else { return Step::Done };
            // It has changed again: another one works through them.
            if sites.rounds.get(&site) != Some(&round) {
                return Step::Done;
            }
            let end = sites.shown.len().min(at + STEP);
            let changed = |(at, shown): (usize, &Shown)| {
                let id = TopicId(u32::try_from(at).ok().filter(|_| *shown != Shown::None)?);
                let topic = bus.tree.view(id)?.topic;
                let is_away = sites.is_away(&site, topic);
                let is_changed = (*shown == Shown::Marked) != is_away && sites.is_of(topic, &site);
                is_changed.then_some((id, !is_away))
            };
            let some: Vec<_> = sites.shown.iter().enumerate().take(end).skip(at).filter_map(changed).collect();
            for (topic, is_up) in some {
                bus.mark_value(now, topic, &site, is_up);
            }
            at = end;
            let is_over = bus.sites.as_deref().is_none_or(|sites| at >= sites.shown.len());
            if is_over { Step::Done } else { Step::Again }
        };
        self.ask_on(&USER.into(), Box::new(ask));
    }

    fn mark_value(&mut self, now: Now, id: TopicId, site: &str, is_up: bool) {
        let Some((view, sites)) = self.tree.view(id).zip(self.sites.as_deref_mut()) else { return };
        // The number may be another topic's by now.
        if !sites.is_of(view.topic, site) || self.ownership.is_of_device(view.topic) {
            return;
        }
        let point = match (is_up, view.body) {
            (false, body) => marked(body, view.time),
            (true, Body::Point(point)) => {
                Some(Point { quality: point.quality.without(Quality::AWAY), ..point.clone() })
            }
            (true, Body::Published(_) | Body::Opaque(_)) => None,
        };
        let Some(point) = point else { return };
        let topic = view.topic.clone();
        sites.shows(id, if is_up { Shown::AsSent } else { Shown::Marked });
        self.apply_node(now, topic, Body::Point(point), true);
    }
}

/// A value as it is while its site is away; none where it has no quality, or is away for another reason.
pub(super) fn marked(body: &Body, time: Timestamp) -> Option<Point> {
    let point = match body {
        Body::Point(point) => point.clone(),
        Body::Published(point) if point.stated_quality().is_some() => point.point(time),
        Body::Published(_) | Body::Opaque(_) => return None,
    };
    let is_away = point.quality.contains(Quality::AWAY);
    (!is_away).then(|| Point { quality: point.quality.with(Quality::AWAY), ..point })
}

/// When a value was so.
fn time_of(body: &Body, taken: Timestamp) -> Timestamp {
    match body {
        Body::Point(point) => point.time,
        Body::Published(point) => point.time(taken),
        Body::Opaque(_) => taken,
    }
}
