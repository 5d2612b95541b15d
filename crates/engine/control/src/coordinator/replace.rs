//! Other points and rules for devices, or none: what is held, and what is under way, goes on by the topics of points.

use super::Coordinator;
use super::job::{Hold, HoldState, JobId, Key, Stage};
use crate::control::{ByTopic, Follows};
use crate::refusals::{away_unsent, changed_unsent};
use crate::rules::PointRules;
use crate::{ControlPoint, Entry, PointError};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use tieline_core::{DeviceId, Now, Refusal, Topic};

/// A device with all of its points that can be commanded.
#[derive(Clone, Debug)]
pub struct DevicePoints {
    /// The device.
    pub device: DeviceId,
    /// Its topic, by which the schedule and overrides know it.
    pub topic: Topic,
    /// Its points, with their rules.
    pub points: Vec<(ControlPoint, PointRules)>,
}

/// Devices that have other points than before.
#[derive(Clone, Debug, Default)]
pub struct PointChange {
    /// Those that are no more.
    pub removed: BTreeSet<DeviceId>,
    /// Those that are new, or have other points or rules.
    pub changed: Vec<DevicePoints>,
}

impl PointChange {
    fn devices(&self) -> BTreeSet<DeviceId> {
        self.removed.iter().copied().chain(self.changed.iter().map(|changed| changed.device)).collect()
    }

    fn points(&self) -> impl Iterator<Item = &(ControlPoint, PointRules)> {
        self.changed.iter().flat_map(|changed| &changed.points)
    }
}

impl Coordinator {
    /// Whether devices can have these points ([`Coordinator::replace_points`]).
    ///
    /// # Errors
    /// A point contradicts itself or its rules, its topic is taken, or the table would be full.
    pub fn check_points(&self, change: &PointChange) -> Result<(), PointError> {
        let points: Vec<&ControlPoint> = change.points().map(|(point, _)| point).collect();
        self.control.check_points(&change.devices(), points.into_iter())?;
        for (point, rules) in change.points() {
            let wrong =
                |refusal: Refusal| PointError::Rules { topic: point.topic.clone(), detail: refusal.to_string() };
            rules.check(point).map_err(wrong)?;
        }
        Ok(())
    }

    /// Gives devices other points and rules, or forgets them. A point goes on by its topic, whatever its number or its device
    /// is now: what it is held for, when it is to be reverted, how it was last commanded. A command that waits for a point that
    /// has changed is not sent (`point_changed`), nor is one for a point that is no more (`away`); what is out ends as it
    /// would have, and at a device that is no more as `reconfigured`. A hold of a point that is no more is given up.
    ///
    /// # Errors
    /// As of [`Coordinator::check_points`]; nothing has changed then.
    pub fn replace_points(&mut self, now: Now, change: PointChange) -> Result<(), PointError> {
        self.check_points(&change)?;
        self.handle_timeout(now);
        for device in &change.removed {
            self.control.handle_removed(now, *device);
            self.follow_device(now, *device);
        }
        let devices = change.devices();
        let points = change.points().map(|(point, _)| point.clone()).collect();
        self.control.replace_points(now, &devices, points)?;
        self.control.forget_devices(now, change.removed.iter().copied());
        let old: Vec<(Key, Topic)> = devices.iter().flat_map(|device| self.topics_at(*device)).collect();
        self.name_devices(&change);
        let new = self.take_points(&old, change);
        let ended = self.follow_jobs(&devices, &new);
        self.follow_holds(now, &devices, &old, &new);
        for (id, refusal) in ended {
            self.refuse_waiting(now, id, refusal);
        }
        self.grounds.watch(self.points.iter().map(|(key, point)| (*key, &point.topic)));
        self.settle(now);
        for device in devices {
            if let Some(lane) = self.lanes.get_mut(&device) {
                let jobs = &self.jobs;
                lane.jobs.retain(|id| jobs.contains_key(id));
            }
            self.feed(now, device);
        }
        self.settle(now);
        Ok(())
    }

    /// Topics that rules look at, and of which no reading has come.
    pub fn unread(&self) -> impl Iterator<Item = &Topic> {
        self.grounds.watched.iter().filter(|topic| !self.grounds.readings.contains_key(*topic))
    }

    /// A topic is no more: its last reading says nothing.
    pub fn forget_reading(&mut self, topic: &str) {
        self.grounds.readings.remove(topic);
    }

    fn topics_at(&self, device: DeviceId) -> impl Iterator<Item = (Key, Topic)> {
        self.points.range(super::range_of(device)).map(|(key, point)| (*key, point.topic.clone()))
    }

    fn name_devices(&mut self, change: &PointChange) {
        for device in change.devices() {
            let topic = self.grounds.devices.remove(&device);
            if topic.as_ref().is_some_and(|topic| self.grounds.device_ids.get(topic) == Some(&device)) {
                topic.and_then(|topic| self.grounds.device_ids.remove(&topic));
            }
        }
        for DevicePoints { device, topic, .. } in &change.changed {
            self.add_device(*device, topic.clone());
        }
    }

    /// Takes points and rules in the place of those that there were; how points were last commanded goes on.
    fn take_points(&mut self, old: &[(Key, Topic)], change: PointChange) -> ByTopic {
        let mut commanded = BTreeMap::new();
        for (key, topic) in old {
            self.points.remove(key);
            self.grounds.rules.remove(key);
            if let Some(last) = self.grounds.commanded.remove(key) {
                commanded.insert(topic.clone(), last);
            }
        }
        let mut new = ByTopic::new();
        for (point, rules) in change.changed.into_iter().flat_map(|changed| changed.points) {
            let key = (point.device, point.point);
            if let Some(last) = commanded.remove(&point.topic) {
                self.grounds.commanded.insert(key, last);
            }
            if rules != PointRules::default() {
                self.grounds.rules.insert(key, Arc::new(rules));
            }
            let point = self.control.resolve(&point.topic, true).unwrap_or_else(|_| Arc::new(point));
            self.points.insert(key, point.clone());
            new.insert(point.topic.clone(), point);
        }
        new
    }

    /// Jobs are of the points of their topics; those that wait in vain, and why.
    fn follow_jobs(&mut self, devices: &BTreeSet<DeviceId>, new: &ByTopic) -> Vec<(JobId, Refusal)> {
        let mut ended = Vec::new();
        for (id, job) in self.jobs.iter_mut().filter(|(_, job)| devices.contains(&job.point.device)) {
            let is_waiting = job.stage == Stage::Waiting;
            let follows = Follows::of(&job.point, new);
            match &follows {
                Follows::Same(_) => {}
                Follows::Changed(_) if is_waiting => ended.push((*id, changed_unsent())),
                Follows::Gone(_) if is_waiting => ended.push((*id, away_unsent())),
                Follows::Changed(_) | Follows::Gone(_) => {}
            }
            job.point = match (job.stage, new.get(&job.point.topic)) {
                // No device has anything to do with it any more.
                (Stage::Confirming, Some(point)) => point.clone(),
                _ => follows.point(),
            };
            job.command.point = job.point.point;
        }
        ended
    }

    /// Holds are of the points of their topics; those of points that are no more are given up.
    fn follow_holds(&mut self, now: Now, devices: &BTreeSet<DeviceId>, old: &[(Key, Topic)], new: &ByTopic) {
        for device in devices {
            if let Some(lane) = self.lanes.get_mut(device) {
                lane.reverts.clear();
            }
        }
        let mut held = Vec::new();
        for (key, topic) in old {
            let Some(hold) = self.holds.remove(key) else { continue };
            if let HoldState::Due(at) = hold.state {
                self.revert_at.remove(at, *key);
            }
            held.push((*key, topic, hold));
        }
        for (old, topic, hold) in held {
            match new.get(topic) {
                Some(point) => self.follow_hold(now, old, hold, point),
                None => {
                    self.counts.holds_lost += 1;
                    self.entries.push_back(Entry::Released { topic: topic.clone() });
                }
            }
        }
    }

    fn follow_hold(&mut self, now: Now, old: Key, mut hold: Hold, point: &ControlPoint) {
        let key = (point.device, point.point);
        let has_job = || self.jobs.values().any(|job| job.key() == key && job.stage != Stage::Waiting);
        let at = match hold.state {
            HoldState::Due(at) => Some(at),
            HoldState::Queued => Some(now.mono),
            HoldState::Held if hold.is_commanded => {
                // The device of its topic may be another.
                let owner = self.grounds.owner(now, point).map(|owner| &owner.requester);
                (owner != hold.owner.as_ref().map(|owner| &owner.requester)).then_some(now.mono)
            }
            // What was to decide is out at a device that has the point no more.
            HoldState::Held | HoldState::Superseded | HoldState::Reverting(_) if old.0 != key.0 && !has_job() => {
                hold.is_commanded = true;
                Some(now.mono)
            }
            HoldState::Blocked if old.0 != key.0 => Some(now.mono),
            HoldState::Held | HoldState::Superseded | HoldState::Reverting(_) | HoldState::Blocked => None,
        };
        self.holds.insert(key, hold);
        if let Some(at) = at {
            self.make_due(key, at);
        }
    }
}
