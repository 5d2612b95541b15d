//! Floods: steps that are held, and summaries in their place.

use super::Notify;
use crate::notice::{AlarmName, Message, MessageKind, Notice, Standing};
use crate::record::Record;
use crate::route::RouteId;
use crate::settings::Settings;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use tieline_core::{Instant, Now};

/// Alarms that a summary names.
const NAMED_MAX: usize = 10;

type Held = (AlarmName, RouteId);

/// Whether there is a flood, and who is told of it.
#[derive(Debug, Default)]
pub(super) struct Flood {
    is_on: bool,
    receivers: BTreeMap<Arc<str>, Summaries>,
    /// The receivers of the steps that are held.
    held: BTreeMap<Held, Arc<str>>,
    is_changed: bool,
}

/// The summaries of one receiver.
#[derive(Debug, Default)]
struct Summaries {
    due: Option<Instant>,
    last: Option<Instant>,
}

impl Flood {
    pub const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Keeps a step until its receiver has a summary.
    pub fn hold(&mut self, now: Instant, to: Arc<str>, held: Held, settings: &Settings) {
        self.held.insert(held, Arc::clone(&to));
        let summaries = self.receivers.entry(to).or_default();
        if summaries.due.is_none() {
            let wait = now + settings.summary_wait;
            summaries.due = Some(summaries.last.map_or(wait, |last| wait.max(last + settings.summary_every)));
        }
    }

    pub fn release(&mut self, held: &Held) {
        self.held.remove(held);
    }

    pub fn timeout(&self) -> Option<Instant> {
        self.receivers.values().filter_map(|summaries| summaries.due).min()
    }

    /// The receivers whose summary is due and has something to say.
    pub fn take_due(&mut self, now: Instant) -> Vec<Arc<str>> {
        let waiting: BTreeSet<&Arc<str>> = self.held.values().collect();
        let mut due = Vec::new();
        for (to, summaries) in &mut self.receivers {
            if summaries.due.take_if(|due| *due <= now).is_some() && waiting.contains(to) {
                summaries.last = Some(now);
                self.is_changed = true;
                due.push(Arc::clone(to));
            }
        }
        due
    }

    /// Takes the steps of a receiver that its summary is about.
    fn take_held(&mut self, to: &Arc<str>) -> Vec<Held> {
        let held: Vec<_> = self.held.iter().filter(|(_, by)| *by == to).map(|(held, _)| held.clone()).collect();
        for one in &held {
            self.held.remove(one);
        }
        held
    }

    pub fn poll_record(&mut self) -> Option<Record> {
        let told = |(to, summaries): (&Arc<str>, &Summaries)| summaries.last.map(|_| Arc::clone(to));
        core::mem::take(&mut self.is_changed).then(|| Record::Flood(self.receivers.iter().filter_map(told).collect()))
    }
}

impl Notify {
    /// A flood begins or ends.
    pub fn handle_flood(&mut self, now: Now, is_on: bool) {
        if is_on == self.flood.is_on {
            return;
        }
        self.flood.is_on = is_on;
        if is_on {
            return;
        }
        for (to, summaries) in core::mem::take(&mut self.flood.receivers) {
            let has_held = self.flood.held.values().any(|by| *by == to);
            if summaries.last.is_some() || has_held {
                self.summarise(now, &to, MessageKind::FloodOver);
            }
        }
        self.flood.is_changed = true;
    }

    /// Says to a receiver of summaries from before a restart that the flood is over.
    pub(super) fn end_saved_flood(&mut self, now: Now, receivers: &[Arc<str>]) {
        for to in receivers {
            self.summarise(now, to, MessageKind::FloodOver);
        }
        self.flood.is_changed |= !receivers.is_empty();
    }

    /// One message for all that a receiver has not been told of.
    pub(super) fn summarise(&mut self, now: Now, to: &Arc<str>, kind: MessageKind) {
        let (total, alarms) = self.worst(to);
        let (made, route, to) = (now.utc, RouteId::default(), Arc::clone(to));
        let draft = Message { id: 0, to: Arc::clone(&to), made, kind, route, step: 0, repeats: 0, total, alarms };
        self.outbox.add(now.mono, draft, &self.settings, &mut self.stats);
        for (alarm, route) in self.flood.take_held(&to) {
            self.advance(now, &alarm, route);
        }
    }

    /// How many alarms call on routes to a receiver, and the worst of them.
    fn worst(&self, to: &Arc<str>) -> (u32, Vec<Notice>) {
        let leads = |route: &RouteId| {
            self.routes.get(route).is_some_and(|route| route.steps().iter().any(|step| step.to == *to))
        };
        let episodes = self.episodes.values().filter(|episode| episode.notice.standing == Standing::Calling);
        let episodes = episodes.filter(|episode| episode.courses.iter().any(|course| leads(&course.route)));
        let mut notices: Vec<&Notice> = episodes.map(|episode| &episode.notice).collect();
        let total = u32::try_from(notices.len()).unwrap_or(u32::MAX);
        notices.sort_by_key(|notice| Reverse((notice.severity, notice.seq)));
        (total, notices.into_iter().take(NAMED_MAX).cloned().collect())
    }
}
