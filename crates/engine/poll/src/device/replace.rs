//! Another spec for a device that is here: what did not change goes on undisturbed.

use super::{Device, Place, Topics, fraction, stale_first};
use crate::device::points::Held;
use crate::outbox::{Document, Outbox};
use crate::rounds::Poll;
use crate::schedule::Timer;
use crate::{DeviceSpec, LinkState, PointTable, PollSpec, SpecError};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hashbrown::HashMap;
use tieline_core::{Now, Topic};

/// The points that a device did not have before.
struct NewPoints {
    /// Whether any came, went or changed.
    any: bool,
    /// By class; of no class in particular, where they have none.
    classes: Vec<Option<crate::PollClass>>,
}

impl Device {
    /// Returns the topics that are gone.
    pub(crate) fn replace(
        &mut self,
        now: Now,
        spec: DeviceSpec,
        place: Place,
        out: &mut Outbox,
    ) -> Result<Vec<Topic>, SpecError> {
        let topics = Topics::of(&spec)?;
        let is_moved = self.state_topic != topics.state;
        let is_told = !is_moved && self.publish.each && spec.publish.each;
        let is_all_told = !is_moved && self.publish.all && spec.publish.all;
        let gone = self.gone(&topics, &spec);
        out.forget(&gone);
        let new = self.replace_points(now, &spec.table, is_told, spec.publish.each);
        self.topics = topics.points;
        (self.all_topic, self.state_topic, self.stats_topic) = (topics.all, topics.state, topics.stats);

        let is_stale_changed = self.stale_after != spec.stale_after
            || self.collection.stale_after_missed != spec.collection.stale_after_missed;
        let is_back_off_changed = self.collection.back_off_max != spec.collection.back_off_max
            || !self
                .polls
                .iter()
                .map(|poll| (poll.class(), poll.every()))
                .eq(spec.polls.iter().map(|poll| (poll.class, poll.every)));
        let is_beat_changed = self.collection.heartbeat != spec.collection.heartbeat;
        (self.gap_min, self.slow_after, self.stale_after) = (spec.gap_min, spec.slow_after, spec.stale_after);
        (self.publish, self.urgency, self.collection) = (spec.publish, spec.urgency, spec.collection);
        if !self.publish.all {
            self.drop_all();
        }
        self.place = place;
        self.replace_polls(now, &spec.polls, &new);
        self.stale_first = stale_first(self.stale_after, &self.collection, &spec.polls);

        // Points may stand at other places, and the device before others.
        if self.points.iter().any(|held| held.waits) {
            self.sweep_from = None;
            self.sweep(out);
        }
        if self.publish.all && (new.any || !is_all_told) {
            self.change_all(now);
            self.offer_all(now, out);
        }
        if is_moved {
            self.queue(Document::State, out);
            self.queue(Document::Stats, out);
        }
        if is_stale_changed && self.stale_first.is_some() {
            self.timers.set(Timer::Stale, now.mono);
        }
        if is_beat_changed {
            self.beats = 0;
            self.plan_heartbeat(now);
        }
        if is_back_off_changed && self.back_off > 0 {
            self.timeouts_in_row = 0;
            self.resume(now);
        }
        self.plan_polls(now);
        self.offer_poll(now, out);
        Ok(gone)
    }

    /// What waits of the topic of all points is not published any more.
    fn drop_all(&mut self) {
        self.all_changed = false;
        self.timers.clear(Timer::All);
        self.documents &= !Document::All.bit();
    }

    /// All topics that the device publishes.
    pub(crate) fn all_topics(&self) -> impl Iterator<Item = &Topic> {
        let all = self.publish.all.then_some(&self.all_topic);
        self.topics.iter().chain(all).chain([&self.state_topic, &self.stats_topic])
    }

    fn gone(&self, new: &Topics, spec: &DeviceSpec) -> Vec<Topic> {
        let all = spec.publish.all.then_some(&new.all);
        let is_same =
            self.topics == new.points && self.state_topic == new.state && self.publish.all <= spec.publish.all;
        if is_same {
            return Vec::new();
        }
        let here: BTreeSet<_> = new.points.iter().chain(all).chain([&new.state, &new.stats]).collect();
        self.all_topics().filter(|topic| !here.contains(topic)).cloned().collect()
    }

    /// Keeps the state of each point that means the same as before, by its name.
    fn replace_points(&mut self, now: Now, table: &Arc<PointTable>, is_told: bool, is_each: bool) -> NewPoints {
        let old = core::mem::replace(&mut self.table, Arc::clone(table));
        let mut new = NewPoints { any: false, classes: Vec::new() };
        if Arc::ptr_eq(&old, table) || old == *table {
            if !is_told {
                self.points.iter_mut().for_each(|held| held.waits = is_each);
            }
            return new;
        }
        new.any = old.points().len() != table.points().len();
        let mut held: Vec<Option<Held>> = core::mem::take(&mut self.points).into_iter().map(Some).collect();
        let names: HashMap<&str, usize> = old.points().iter().map(|spec| &*spec.name).zip(0..).collect();
        let points = table.points().iter().map(|spec| {
            let at = names.get(&*spec.name).copied();
            let was = at.and_then(|at| old.points().get(at).zip(held.get_mut(at).and_then(Option::take)));
            if let Some((before, mut kept)) = was
                && before.is_same(spec)
            {
                kept.waits = is_each && (kept.waits || !is_told);
                return kept;
            }
            new.any = true;
            if !new.classes.contains(&spec.class) {
                new.classes.push(spec.class);
            }
            Held::initial(now, is_each)
        });
        self.points = points.collect::<Box<[Held]>>();
        new
    }

    fn replace_polls(&mut self, now: Now, specs: &[PollSpec], new: &NewPoints) {
        let mut old: Vec<Poll> = core::mem::take(&mut self.polls).into_vec();
        let is_polled = self.link == LinkState::Online && self.back_off == 0;
        let reads_at_once = is_polled && self.collection.first_round;
        let place = self.place;
        let polls = specs.iter().map(|spec| {
            let fraction = fraction(place, spec.class);
            let known = old.iter().position(|poll| poll.class() == spec.class).map(|at| old.swap_remove(at));
            let is_new = known.is_none();
            let mut poll = known.unwrap_or_else(|| Poll::new(now.mono, *spec, fraction));
            poll.set_plan(now.mono, spec.every, fraction);
            let reads_new = new.classes.iter().any(|class| class.is_none_or(|class| class == spec.class));
            if reads_at_once && (is_new || reads_new) {
                poll.begin_fast(now.mono);
            }
            poll
        });
        self.polls = polls.collect();
    }
}
