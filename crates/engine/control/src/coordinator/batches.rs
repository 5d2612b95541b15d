//! Batches: what is taken, what is refused, and what would be.

use super::Coordinator;
use super::job::{HoldState, Job, JobId, JobKind, Key, OpenBatch, Stage};
use super::lanes::allows_hold;
use crate::ControlPoint;
use crate::batch::{Action, Answer, Batch, BatchDone, BatchEntry, BatchEvent, DryRun, PointOutcome, WouldSend};
use crate::point::shown;
use crate::request::Refused;
use crate::rules::ReadBack;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Command, CommandMode, Now, Refusal, Topic, Value};

/// An entry of a batch, with its command.
#[derive(Debug)]
struct Checked {
    kind: JobKind,
    point: Arc<ControlPoint>,
    command: Command,
    expected: Option<Value>,
}

impl Coordinator {
    /// Takes a batch: each of its points has one [`BatchEvent::Answer`], and [`BatchEvent::Done`] comes last.
    ///
    /// # Errors
    /// `batch_empty`, `batch_too_large` or `queue_full`: nothing of it was taken.
    pub fn handle_batch(&mut self, now: Now, batch: Batch) -> Result<(), Refusal> {
        self.handle_timeout(now);
        self.check_batch(&batch)?;
        let number = self.next_batch;
        self.next_batch += 1;
        let done = BatchDone { batch: batch.id, ..BatchDone::default() };
        self.batches.insert(number, OpenBatch { left: batch.entries.len(), asked: now.mono, done });
        let limits = &self.limits.control;
        let timeout = batch.timeout.unwrap_or(limits.timeout).min(limits.timeout_max);
        let Batch { id, requester, who, entries, confirm, is_single, .. } = batch;
        let group = (!is_single).then_some(id);
        for (index, entry) in entries.into_iter().enumerate() {
            let shown = shown_of(&entry.action);
            let taken = self.check_entry(now, &requester, &entry);
            let taken = taken.and_then(|checked| self.has_lane_room(checked, is_single));
            let job_id = self.next_job;
            self.next_job += 1;
            let Checked { kind, point, command, expected } = match taken {
                Ok(checked) => checked,
                Err(refusal) => {
                    let (who, mode) = (who.clone(), mode_of(&entry.action));
                    let refused = Refused { request: job_id, group, who, topic: entry.topic, shown, mode };
                    self.control.refuse(now, refused, &refusal);
                    self.answer(now, (number, index), PointOutcome::Refused(refusal));
                    continue;
                }
            };
            let key = (point.device, point.point);
            if kind == JobKind::Set {
                self.supersede(key);
            }
            let read_back = confirm.then(|| self.read_back_of(key)).filter(|_| expected.is_some());
            let job = Job {
                kind,
                stage: Stage::Waiting,
                batch: Some((number, index)),
                group,
                requester: requester.clone(),
                who: who.clone(),
                point,
                command,
                shown,
                expected,
                is_reserved: false,
                deadline: now.mono + timeout,
                read_back,
                seen: None,
                last: None,
                uncertain: None,
            };
            self.deadlines.add(job.deadline, job_id);
            self.jobs.insert(job_id, job);
            self.lanes.entry(key.0).or_default().jobs.push_back(job_id);
            self.feed(now, key.0);
        }
        self.settle(now);
        Ok(())
    }

    /// What would happen to each point, if the batch came alone and at this moment. Nothing is sent, reserved or written
    /// down; how points of the batch would change each other's limits is not looked at.
    #[must_use]
    pub fn dry_run(&self, now: Now, batch: &Batch) -> Vec<DryRun> {
        let dry_run = |entry: &BatchEntry| {
            let checked = self.check_entry(now, &batch.requester, entry)?;
            let Checked { kind, point, command, expected } = self.has_lane_room(checked, batch.is_single)?;
            let key = (point.device, point.point);
            let reverts =
                kind == JobKind::Set && self.grounds.reverts(key) && self.grounds.owner(now, &point).is_some();
            Ok(WouldSend { raw: command.value, mode: command.mode, expected, reverts })
        };
        batch.entries.iter().map(dry_run).collect()
    }

    /// The entries that revert a device: all of its points that can be reverted at this moment.
    #[must_use]
    pub fn revert_device(&self, device: &str) -> Vec<BatchEntry> {
        let id = self.grounds.device_ids.get(device);
        let points = id.into_iter().flat_map(|id| self.points.range(super::range_of(*id)));
        let can_revert = |(key, point): &(&Key, &Arc<ControlPoint>)| self.revert_value(**key, &point.topic).is_ok();
        let entry = |(_, point): (&Key, &Arc<ControlPoint>)| BatchEntry {
            topic: point.topic.clone(),
            topic_exists: true,
            action: Action::Revert,
        };
        points.filter(can_revert).map(entry).collect()
    }

    fn check_batch(&self, batch: &Batch) -> Result<(), Refusal> {
        let (found, max) = (batch.entries.len(), self.limits.batch_points_max);
        if found == 0 {
            return Err(Refusal::new("batch_empty", "the batch has no points, expected at least one".into()));
        }
        if found > max {
            let detail = format!("the batch has {found} points, expected at most {max}");
            return Err(Refusal::new("batch_too_large", detail));
        }
        let max = self.limits.jobs_max;
        if self.jobs.len() + self.events.len() + found > max {
            return Err(Refusal::new("queue_full", format!("more than {max} points would be under way")));
        }
        let waiting = self.entries.len();
        if waiting >= self.limits.entries_max {
            return Err(Refusal::new("queue_full", format!("{waiting} entries wait to be written")));
        }
        Ok(())
    }

    fn check_entry(&self, now: Now, requester: &str, entry: &BatchEntry) -> Result<Checked, Refusal> {
        let point = self.control.resolve(&entry.topic, entry.topic_exists)?;
        let key = (point.device, point.point);
        let (kind, command, expected) = match &entry.action {
            Action::Set { value, mode } => {
                let command = point.command(value, *mode)?;
                let expected = point.value_after(&command);
                (JobKind::Set, command, expected)
            }
            Action::Revert => {
                let (command, expected) = revert_command(&point, self.revert_value(key, &point.topic)?.as_ref())?;
                (JobKind::Revert, command, expected)
            }
        };
        self.grounds.check_hands(now, requester, kind, &point)?;
        if kind == JobKind::Set {
            if let Some(value) = &expected {
                self.grounds.check_rules(now.mono, key, &point.topic, value)?;
            }
            allows_hold(&self.grounds, &self.holds, now, &point)?;
        }
        if !self.control.is_online(point.device) {
            return Err(Refusal::new("away", format!("the device of {} is not connected", point.topic)));
        }
        Ok(Checked { kind, point, command, expected })
    }

    fn has_lane_room(&self, checked: Checked, is_single: bool) -> Result<Checked, Refusal> {
        let lane = self.lanes.get(&checked.point.device);
        let waiting = lane.map_or(0, |lane| lane.jobs.len());
        let max = if is_single { self.limits.control.device_queue_max } else { self.limits.device_jobs_max };
        if waiting >= max {
            let detail = format!("{max} points wait for the device of {}", checked.point.topic);
            return Err(Refusal::new("queue_full", detail));
        }
        let key = (checked.point.device, checked.point.point);
        let is_same = |id: &JobId| self.jobs.get(id).is_some_and(|job| job.key() == key);
        let mut waiting = lane.into_iter().flat_map(|lane| &lane.jobs);
        if is_single && (self.control.is_busy(key) || waiting.any(is_same)) {
            return Err(Refusal::new("busy", format!("a command for {} is under way", checked.point.topic)));
        }
        let max = self.limits.holds_max;
        if self.holds.len() + self.jobs.len() >= max {
            return Err(Refusal::new("queue_full", format!("{max} points are held or under way")));
        }
        Ok(checked)
    }

    /// What a revert sets: what the point is held for, or else what its rules say.
    fn revert_value(&self, key: Key, topic: &Topic) -> Result<Option<Value>, Refusal> {
        match self.holds.get(&key) {
            Some(hold) => Ok(hold.revert_to.clone()),
            None => self.grounds.revert_target(key, topic),
        }
    }

    fn read_back_of(&self, key: Key) -> ReadBack {
        let within = self.limits.confirm_within;
        let plain = ReadBack { topic: None, within, tolerance: 0.0, double_bit: false };
        self.grounds.read_back(key).unwrap_or(plain)
    }

    /// A new holder commands a point before it has been reverted: the revert is needless, unless the command is refused.
    pub(super) fn supersede(&mut self, key: Key) {
        let state = self.holds.get(&key).map(|hold| hold.state);
        if matches!(state, Some(HoldState::Due(_) | HoldState::Blocked | HoldState::Queued)) {
            self.mark_superseded(key);
        }
    }

    /// Tells what became of a point.
    pub(super) fn answer(&mut self, now: Now, (number, index): (u64, usize), outcome: PointOutcome) {
        let Some(batch) = self.batches.get_mut(&number) else { return };
        let elapsed = now.mono.since(batch.asked);
        batch.done.count(&outcome);
        batch.left -= 1;
        let answer = Answer { batch: batch.done.batch, index, outcome, elapsed };
        self.events.push_back(BatchEvent::Answer(answer));
        if batch.left == 0 {
            let done = BatchDone { elapsed, ..batch.done };
            self.batches.remove(&number);
            self.events.push_back(BatchEvent::Done(done));
        }
    }
}

/// The command of a revert, and what a reading shows then.
pub(super) fn revert_command(point: &ControlPoint, value: Option<&Value>) -> Result<(Command, Option<Value>), Refusal> {
    match value {
        Some(value) => {
            let command = point.command(value, None)?;
            let expected = point.value_after(&command);
            Ok((command, expected))
        }
        None => Ok((Command { point: point.point, value: Value::Null, mode: point.mode(None)? }, None)),
    }
}

fn shown_of(action: &Action) -> Box<str> {
    match action {
        Action::Set { value, .. } => shown(value).into_boxed_str(),
        Action::Revert => "\"revert\"".into(),
    }
}

const fn mode_of(action: &Action) -> Option<CommandMode> {
    match action {
        Action::Set { mode, .. } => *mode,
        Action::Revert => None,
    }
}

/// The shorter of a time and of what is left of a slot.
pub(super) fn within(timeout: Duration, window: Option<Duration>) -> Duration {
    window.map_or(timeout, |window| window.min(timeout))
}
