//! The commands of each device, one at a time.

use super::Coordinator;
use super::batches::within;
use super::grounds::Grounds;
use super::job::{Hold, HoldState, Job, JobId, JobKind, Key, Stage};
use crate::ControlPoint;
use crate::batch::PointOutcome;
use crate::refusals::timed_out_unsent;
use crate::request::{Order, Refused};
use crate::rules::Commanded;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use tieline_core::{DeviceId, Now, Refusal};

/// Whether a command that was ordered may be sent at this moment.
pub(super) fn allows(
    grounds: &Grounds,
    jobs: &BTreeMap<JobId, Job>,
    holds: &BTreeMap<Key, Hold>,
    now: Now,
    id: JobId,
) -> Result<(), Refusal> {
    let Some(job) = jobs.get(&id) else {
        return Err(Refusal::new("cancelled", String::from("nobody waits for the command any more")));
    };
    let hold = holds.get(&job.key());
    grounds.check_job(now, id, job, hold.is_some_and(|hold| hold.is_failsafe))?;
    match job.kind {
        JobKind::Set => allows_hold(grounds, holds, now, &job.point),
        JobKind::EndOfHold if hold.is_none_or(|hold| hold.state != HoldState::Reverting(id)) => {
            Err(Refusal::new("cancelled", format!("{} needs no revert any more", job.point.topic)))
        }
        JobKind::Revert | JobKind::EndOfHold => Ok(()),
    }
}

/// How long a command may take that is sent at this moment; none: as long as was asked for. It may have been ordered when
/// another held the device, or nobody.
pub(super) fn window(grounds: &Grounds, jobs: &BTreeMap<JobId, Job>, now: Now, id: JobId) -> Option<Duration> {
    let job = jobs.get(&id).filter(|job| job.kind != JobKind::EndOfHold)?;
    grounds.window(now, &job.requester, &job.point)
}

/// Whether a point that is to be reverted later can be: nothing is commanded that could not be taken back.
pub(super) fn allows_hold(
    grounds: &Grounds,
    holds: &BTreeMap<Key, Hold>,
    now: Now,
    point: &ControlPoint,
) -> Result<(), Refusal> {
    let key = (point.device, point.point);
    if holds.contains_key(&key) || !grounds.reverts(key) || grounds.owner(now, point).is_none() {
        return Ok(());
    }
    let value = grounds.revert_target(key, &point.topic)?;
    super::batches::revert_command(point, value.as_ref()).map(drop)
}

impl Coordinator {
    /// Orders the next command of a device, unless one is ordered.
    pub(super) fn feed(&mut self, now: Now, device: DeviceId) {
        loop {
            let Some(lane) = self.lanes.get_mut(&device) else { return };
            if lane.ordered.is_some() {
                return;
            }
            if lane.reverts.is_empty() && lane.jobs.is_empty() {
                if !lane.is_starved {
                    self.lanes.remove(&device);
                }
                return;
            }
            if !self.control.has_room() {
                if !core::mem::replace(&mut lane.is_starved, true) {
                    self.starved.push_back(device);
                }
                return;
            }
            self.counts.fed += 1;
            if let Some(key) = lane.reverts.pop_front() {
                self.order_revert(now, key);
            } else if let Some(id) = lane.jobs.pop_front() {
                self.order(now, id);
            }
        }
    }

    /// Gives lanes that waited for room another try.
    pub(super) fn feed_starved(&mut self, now: Now) {
        while self.control.has_room() {
            let Some(device) = self.starved.pop_front() else { return };
            if let Some(lane) = self.lanes.get_mut(&device) {
                lane.is_starved = false;
            }
            self.feed(now, device);
        }
    }

    fn order(&mut self, now: Now, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        if let Err(refusal) = allows(&self.grounds, &self.jobs, &self.holds, now, id) {
            return self.refuse_waiting(now, id, refusal);
        }
        let window = self.grounds.window(now, &job.requester, &job.point);
        let timeout = within(job.deadline.since(now.mono), window);
        self.give_order(now, id, timeout);
    }

    /// Gives a job to the control; where that refuses it, it ends.
    pub(super) fn give_order(&mut self, now: Now, id: JobId, timeout: Duration) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let order = Order {
            request: id,
            group: job.group,
            who: job.who.clone(),
            shown: job.shown.clone(),
            point: job.point.clone(),
            command: job.command.clone(),
            timeout: Some(timeout),
        };
        let device = job.point.device;
        match self.control.handle_order(now, order) {
            Ok(()) => {
                job.stage = Stage::Ordered;
                self.deadlines.remove(job.deadline, id);
                if let Some(lane) = self.lanes.get_mut(&device) {
                    lane.ordered = Some(id);
                }
            }
            Err(refusal) => self.end_unsent(now, id, refusal),
        }
    }

    /// A command of a job goes out.
    pub(super) fn handle_sent(&mut self, now: Now, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let (key, kind) = (job.key(), job.kind);
        self.drop_confirming(now, key, id);
        if kind == JobKind::Set {
            self.supersede(key);
            self.hold(now, id);
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let before = self.grounds.commanded.get(&key).map(|commanded| commanded.at);
        if let (Some(read_back), Some(expected)) = (&job.read_back, &job.expected) {
            let topic = read_back.topic.as_ref().unwrap_or(&job.point.topic);
            // A point that shows the value already may never report it again.
            let known = self.grounds.readings.get(topic);
            let known = known.filter(|(at, _)| before.is_none_or(|before| *at >= before));
            job.last = known.map(|(_, reading)| reading.clone());
            job.seen = job.last.clone().filter(|reading| read_back.shows(reading, expected));
            self.confirming.entry(topic.clone()).or_default().push(id);
        }
        if self.grounds.rules.contains_key(&key) {
            let value = job.expected.clone().unwrap_or_default();
            self.grounds.commanded.insert(key, Commanded { at: now.mono, value, done_at: None });
        }
    }

    /// A deadline of a job has passed: it has waited too long, or no reading came.
    pub(super) fn expire(&mut self, now: Now, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let device = job.point.device;
        match job.stage {
            Stage::Waiting => {
                self.refuse_waiting(now, id, timed_out_unsent());
                let Some(lane) = self.lanes.get_mut(&device) else { return };
                while lane.jobs.front().is_some_and(|id| !self.jobs.contains_key(id)) {
                    lane.jobs.pop_front();
                }
            }
            Stage::Confirming => self.give_up_confirming(now, id),
            Stage::Ordered => {}
        }
    }

    /// Refuses a job that waits in its lane.
    pub(super) fn refuse_waiting(&mut self, now: Now, id: JobId, refusal: Refusal) {
        let Some(job) = self.jobs.get(&id) else { return };
        let refused = Refused {
            request: id,
            group: job.group,
            who: job.who.clone(),
            topic: job.point.topic.clone(),
            shown: job.shown.clone(),
            mode: Some(job.command.mode),
        };
        self.control.refuse(now, refused, &refusal);
        self.end_unsent(now, id, refusal);
    }

    /// Ends a job of which certainly nothing was done.
    pub(super) fn end_unsent(&mut self, now: Now, id: JobId, refusal: Refusal) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.deadlines.remove(job.deadline, id);
        self.undo_hold(now, id, &job);
        if let Some(place) = job.batch {
            self.answer(now, place, PointOutcome::Refused(refusal));
        }
    }
}
