//! Who has what: reservations, overrides, and holders that end.

use super::Coordinator;
use super::job::{Hold, HoldState, Key};
use crate::Phase;
use crate::audit::Note;
use crate::overrides::{NewOverride, STAGGER};
use crate::pattern::Pattern;
use crate::rules::RevertTo;
use crate::schedule::{NewSchedule, Owner, ScheduleEvent, ScheduleResult};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hashbrown::HashSet;
use tieline_core::{DeviceId, Instant, Now, Refusal, Topic};

/// More holders that have ended are remembered only where jobs of theirs are under way.
const GONE_MAX: usize = 4096;

impl Coordinator {
    /// Asks for time at devices.
    pub fn request_schedule(&mut self, now: Now, request: &NewSchedule, who: &Arc<str>) -> ScheduleResult {
        let waiting = self.entries.len();
        let result = if waiting < self.limits.entries_max {
            self.grounds.schedule.request(now, request)
        } else {
            ScheduleResult::failure(format!("LIMIT_EXCEEDED: {waiting} entries wait to be written, which is the limit"))
        };
        let phase = if result.is_success() { Phase::Reserved } else { Phase::Refused };
        let device = request.slots.first().map_or("", |slot| slot.device.trim_matches('/'));
        let (name, slots) = (request.task.as_deref().unwrap_or_default(), request.slots.len());
        self.note_of(now, phase, who, device, name, &format!("{slots} time slots; {}", result.info));
        self.settle(now);
        result
    }

    /// Cancels a task.
    pub fn cancel_schedule(
        &mut self,
        now: Now,
        requester: Option<&str>,
        task: Option<&str>,
        who: &Arc<str>,
    ) -> ScheduleResult {
        let result = self.grounds.schedule.cancel(now, requester, task);
        let phase = if result.is_success() { Phase::ReservationEnded } else { Phase::Refused };
        self.note_of(now, phase, who, "", task.unwrap_or_default(), &format!("cancelled; {}", result.info));
        self.settle(now);
        result
    }

    /// Renews the lease of a task, and with it all leases of its requester.
    pub fn renew_schedule(&mut self, now: Now, requester: &Arc<str>, task: &str) -> ScheduleResult {
        self.handle_holder_here(now.mono, requester);
        let result = self.grounds.schedule.renew(now, Some(requester), Some(task));
        self.settle(now);
        result
    }

    /// A holder has ended, as with its session. Its tasks that have started end, what it has commanded is
    /// reverted, and what waits is not sent.
    pub fn handle_holder_gone(&mut self, now: Now, requester: &Arc<str>) {
        self.counts.holders_gone += 1;
        self.end_absence(requester);
        self.forget_jobs(requester);
        let before = self.grounds.schedule.len();
        self.grounds.schedule.release(now, requester);
        let ended = before - self.grounds.schedule.len();
        self.note_of(now, Phase::HolderGone, requester, "", requester, &format!("{ended} tasks ended"));
        self.settle(now);
    }

    /// What a requester asked for until now is not sent any more.
    fn forget_jobs(&mut self, requester: &Arc<str>) {
        if self.grounds.gone.len() >= GONE_MAX {
            let waiting: HashSet<&str> = self.jobs.values().map(|job| &*job.requester).collect();
            self.grounds.gone.retain(|requester, _| waiting.contains(&**requester));
        }
        self.grounds.gone.insert(requester.clone(), self.next_job);
    }

    /// A holder gave a sign of life: it is back after a restart, and its leases begin again.
    pub fn handle_holder_here(&mut self, now: Instant, requester: &Arc<str>) {
        self.end_absence(requester);
        self.grounds.schedule.hear(now, requester);
    }

    fn end_absence(&mut self, requester: &Arc<str>) {
        if let Some(at) = self.absent.remove(requester) {
            self.absent_until.remove(at, requester.clone());
        }
    }

    /// After a restart a holder is not there: it is taken for gone unless [`Coordinator::handle_holder_here`] tells of it
    /// within [`super::CoordinatorLimits::return_within`].
    pub fn handle_holder_absent(&mut self, now: Now, requester: &Arc<str>) {
        let until = now.mono + self.limits.return_within;
        if !self.absent.contains_key(requester) {
            self.absent.insert(requester.clone(), until);
            self.absent_until.add(until, requester.clone());
        }
    }

    /// Whether a holder has tasks, or holds points.
    #[must_use]
    pub fn has_holder(&self, requester: &str) -> bool {
        let mut owners = self.holds.values().filter_map(|hold| hold.owner.as_ref());
        self.grounds.schedule.has_requester(requester) || owners.any(|owner| *owner.requester == *requester)
    }

    /// What a pattern selects: devices by their topics, and points of other devices.
    #[must_use]
    pub fn selected(&self, pattern: &Pattern) -> Vec<Topic> {
        let devices = self.grounds.devices.values().filter(|topic| pattern.matches(topic)).cloned();
        let points = self
            .points
            .values()
            .filter(|point| pattern.matches(&point.topic) && !pattern.matches(self.grounds.device_topic(point)));
        devices.chain(points.map(|point| point.topic.clone())).collect()
    }

    /// Sets an override on.
    ///
    /// # Errors
    /// `queue_full`: there are as many as there may be, or too many entries wait to be written.
    pub fn set_override_on(&mut self, now: Now, asked: &NewOverride) -> Result<(), Refusal> {
        let max = self.limits.overrides_max;
        let overrides = &mut self.grounds.overrides;
        if overrides.len() >= max && !overrides.contains(&asked.pattern) {
            return Err(Refusal::new("queue_full", format!("{max} overrides are on, which is the limit")));
        }
        let waiting = self.entries.len();
        if waiting >= self.limits.entries_max {
            return Err(Refusal::new("queue_full", format!("{waiting} entries wait to be written")));
        }
        overrides.set_on(now, asked);
        let detail = match asked.duration.filter(|duration| !duration.is_zero()) {
            Some(duration) => format!("for {} s", duration.as_secs_f64()),
            None => "until it is set off".into(),
        };
        self.note_of(now, Phase::OverrideOn, &asked.who, "", asked.pattern.as_str(), &detail);
        if asked.failsafe_revert {
            self.revert_matching(now, asked);
        }
        self.settle(now);
        Ok(())
    }

    /// Sets an override off.
    ///
    /// # Errors
    /// `override`: the pattern is not on.
    pub fn set_override_off(&mut self, now: Now, pattern: &Pattern, who: &Arc<str>) -> Result<(), Refusal> {
        if !self.grounds.overrides.set_off(pattern) {
            let detail = format!("Pattern {} does not exist in list of override patterns", pattern.as_str());
            return Err(Refusal::new("override", detail));
        }
        self.note_of(now, Phase::OverrideOff, who, "", pattern.as_str(), "");
        self.unblock_all(now);
        self.settle(now);
        Ok(())
    }

    /// Sets all overrides off.
    pub fn clear_overrides(&mut self, now: Now, who: &Arc<str>) {
        let patterns: Vec<Pattern> = self.grounds.overrides.patterns().map(|record| record.pattern).collect();
        for pattern in patterns {
            self.grounds.overrides.set_off(&pattern);
            self.note_of(now, Phase::OverrideOff, who, "", pattern.as_str(), "");
        }
        self.unblock_all(now);
        self.settle(now);
    }

    /// The devices with an override on all of their points.
    #[must_use]
    pub fn override_devices(&self) -> Vec<Topic> {
        let is_taken = |topic: &&Topic| self.grounds.overrides.of(topic, topic).is_some();
        self.grounds.devices.values().filter(is_taken).cloned().collect()
    }

    pub(super) fn end_overrides(&mut self, now: Now) {
        let over = self.grounds.overrides.handle_timeout(now);
        for pattern in &over {
            self.note_of(now, Phase::OverrideOff, &"override".into(), "", pattern.as_str(), "its time is over");
        }
        if !over.is_empty() {
            self.unblock_all(now);
        }
    }

    pub(super) fn end_absences(&mut self, now: Now) {
        while let Some((_, requester)) = self.absent_until.take_next(now.mono) {
            self.handle_holder_gone(now, &requester);
        }
    }

    pub(super) fn handle_schedule_event(&mut self, now: Now, event: ScheduleEvent) {
        match &event {
            ScheduleEvent::Preempted { owner, by, grace } => {
                let detail = format!("by {} of {}, in {} s", by.task, by.requester, grace.as_secs_f64());
                self.note_of(now, Phase::Preempted, &owner.requester, "", &owner.task, &detail);
            }
            ScheduleEvent::LeaseExpired { owner, lease } => {
                self.counts.leases_expired += 1;
                self.forget_jobs(&owner.requester);
                let detail = format!("no sign of life for {} s", lease.as_secs_f64());
                self.note_of(now, Phase::LeaseExpired, &owner.requester, "", &owner.task, &detail);
            }
            ScheduleEvent::Changed { device, before: Some(before), after } => {
                self.note_of(now, Phase::ReservationEnded, &before.requester, device, &before.task, "");
                self.hand_over(now, device, before, after.as_ref());
            }
            ScheduleEvent::Changed { before: None, .. } => {}
        }
        if self.schedule_events.len() >= self.limits.schedule.waiting_max {
            self.schedule_events.pop_front();
            self.counts.events_lost += 1;
        }
        self.schedule_events.push_back(event);
    }

    /// A holder's time at a device is over: what it commanded there is reverted, unless it has the device on.
    fn hand_over(&mut self, now: Now, device: &Topic, before: &Owner, after: Option<&Owner>) {
        let next = after.filter(|after| after.requester == before.requester);
        for key in self.held_at(device, before) {
            let Some(hold) = self.holds.get_mut(&key) else { continue };
            if let Some(next) = next {
                hold.owner = Some(next.clone());
                self.record_hold(key);
            } else if hold.state == HoldState::Held {
                self.make_due(key, now.mono);
            }
        }
    }

    /// The points at a device that a holder has commanded.
    fn held_at(&self, device: &Topic, owner: &Owner) -> Vec<Key> {
        let is_of = |(_, hold): &(&Key, &Hold)| hold.owner.as_ref() == Some(owner);
        match self.device_of(device) {
            Some(id) => self.holds.range(super::range_of(id)).filter(is_of).map(|(key, _)| *key).collect(),
            // A device without a name of its own.
            None => {
                self.holds.iter().filter(is_of).map(|(key, _)| *key).filter(|key| self.is_at(*key, device)).collect()
            }
        }
    }

    fn is_at(&self, key: Key, device: &Topic) -> bool {
        self.points.get(&key).is_some_and(|point| self.grounds.device_topic(point) == device.as_str())
    }

    fn device_of(&self, topic: &Topic) -> Option<DeviceId> {
        self.grounds.device_ids.get(topic).copied()
    }

    /// Reverts the points that an override takes.
    fn revert_matching(&mut self, now: Now, asked: &NewOverride) {
        let mut devices = BTreeMap::<DeviceId, Vec<Key>>::new();
        for (key, point) in &self.points {
            let device = self.grounds.device_topic(point);
            if asked.pattern.matches(device) || asked.pattern.matches(&point.topic) {
                devices.entry(key.0).or_default().push(*key);
            }
        }
        let mut at = now.mono;
        for key in devices.into_values().flat_map(|keys| keys.into_iter().map(Some).chain([None])) {
            match key {
                Some(key) => self.revert_failsafe(key, at),
                None if asked.staggered_revert => at = at + STAGGER,
                None => {}
            }
        }
    }

    fn revert_failsafe(&mut self, key: Key, at: Instant) {
        if let Some(hold) = self.holds.get_mut(&key) {
            // Nobody keeps it, over a restart neither.
            (hold.is_failsafe, hold.owner) = (true, None);
            if !matches!(hold.state, HoldState::Reverting(_) | HoldState::Queued) {
                self.make_due(key, at);
            }
            return self.record_hold(key);
        }
        let Some(rules) = self.grounds.rules_of(key) else { return };
        let revert_to = match &rules.revert {
            RevertTo::Value(value) => Some(value.clone()),
            RevertTo::Relinquish => None,
            // Nobody has changed it.
            RevertTo::Previous | RevertTo::Nothing => return,
        };
        if self.holds.len() >= self.limits.holds_max {
            self.counts.holds_lost += 1;
            return;
        }
        let hold = Hold {
            owner: None,
            revert_to,
            state: HoldState::Due(at),
            is_commanded: true,
            is_failsafe: true,
            attempts: 0,
            tried: None,
        };
        self.holds.insert(key, hold);
        self.record_hold(key);
        self.make_due(key, at);
    }

    /// Writes down what is of no command.
    pub(super) fn note_of(&mut self, now: Now, phase: Phase, who: &Arc<str>, device: &str, name: &str, detail: &str) {
        let topic = Topic::new(device).or_else(|_| Topic::new("$control"));
        let Ok(topic) = topic else { return };
        let value = crate::point::shown(&tieline_core::Value::from(name)).into_boxed_str();
        let note = Note { request: 0, group: None, who: who.clone(), topic, device: None, value, mode: None, phase };
        self.control.note(now, note, "", String::from(detail.trim_end_matches("; ")));
    }
}
