//! Points that are held, and their way back.

use super::Coordinator;
use super::batches::revert_command;
use super::job::{Hold, HoldState, Job, JobId, JobKind, Key, Stage};
use crate::point::shown;
use crate::request::Late;
use crate::{Entry, HoldRecord};
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{DeviceId, Instant, Now, Topic};

impl Coordinator {
    /// A command that sets a point goes out: where its holder's time ends, the point is to be reverted.
    pub(super) fn hold(&mut self, now: Now, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let key = job.key();
        let Some(owner) = self.grounds.owner(now, &job.point).cloned() else { return };
        job.is_reserved = true;
        if let Some(hold) = self.holds.get_mut(&key) {
            if hold.owner.as_ref() != Some(&owner) {
                hold.owner = Some(owner);
                self.record_hold(key);
            }
            return;
        }
        if !self.grounds.reverts(key) {
            return;
        }
        let Ok(revert_to) = self.grounds.revert_target(key, &job.point.topic) else { return };
        let hold = Hold {
            owner: Some(owner),
            revert_to,
            state: HoldState::Held,
            is_commanded: false,
            is_failsafe: false,
            attempts: 0,
            tried: None,
        };
        self.holds.insert(key, hold);
        self.record_hold(key);
    }

    /// The command was carried out, or may have been. Without a reservation it is nobody's to revert.
    pub(super) fn keep_hold(&mut self, now: Now, key: Key, is_reserved: bool, is_certain: bool) {
        let Some(point) = self.points.get(&key) else { return };
        let owner = self.grounds.owner(now, point).cloned();
        let Some(hold) = self.holds.get_mut(&key) else { return };
        let was_commanded = core::mem::replace(&mut hold.is_commanded, true);
        hold.tried = None;
        if hold.state == HoldState::Superseded {
            // The device may still have the earlier holder's command: only a reading tells.
            if !is_reserved && !is_certain && was_commanded {
                return;
            }
            self.counts.superseded += 1;
            if !is_reserved {
                return self.release(key);
            }
            (hold.state, hold.attempts) = (HoldState::Held, 0);
        }
        if hold.state != HoldState::Held {
            return;
        }
        // An override leaves a point without an owner.
        let requester = hold.owner.as_ref().map(|owner| &owner.requester);
        if requester.is_some() && requester == owner.as_ref().map(|owner| &owner.requester) {
            if hold.owner == owner {
                return;
            }
            // Its next task has begun.
            hold.owner = owner;
            return self.record_hold(key);
        }
        self.make_due(key, now.mono);
    }

    /// The command was certainly not carried out.
    pub(super) fn undo_hold(&mut self, now: Now, id: JobId, job: &Job) {
        let key = job.key();
        let Some(hold) = self.holds.get(&key) else { return };
        match (job.kind, hold.state) {
            (JobKind::EndOfHold, HoldState::Reverting(of)) if of == id => self.end_revert(now, id, key, false),
            (JobKind::EndOfHold, _) => {}
            // Its outcome decides.
            (JobKind::Set | JobKind::Revert, _) if self.is_setting(key) => {}
            (JobKind::Set, _) if !hold.is_commanded && !hold.is_failsafe => self.release(key),
            (JobKind::Set | JobKind::Revert, HoldState::Superseded) => self.make_due(key, now.mono),
            (JobKind::Set | JobKind::Revert, _) => {}
        }
    }

    /// A command that may supersede a revert has ended. It has where a reading shows it.
    pub(super) fn end_supersede(&mut self, now: Now, key: Key, has_superseded: bool) {
        let Some(hold) = self.holds.get(&key).filter(|hold| hold.state == HoldState::Superseded) else { return };
        if self.is_setting(key) {
            return;
        }
        if hold.is_commanded && !has_superseded {
            return self.make_due(key, now.mono);
        }
        self.counts.superseded += 1;
        self.release(key);
    }

    /// Whether a command that sets a point is ordered.
    fn is_setting(&self, key: Key) -> bool {
        let ordered = self.lanes.get(&key.0).and_then(|lane| lane.ordered);
        let job = ordered.and_then(|id| self.jobs.get(&id));
        job.is_some_and(|job| job.kind == JobKind::Set && job.key() == key)
    }

    /// A requester has reverted a point.
    pub(super) fn end_requested_revert(&mut self, job: &Job) {
        if job.kind == JobKind::Revert && self.holds.contains_key(&job.key()) {
            self.release(job.key());
        }
    }

    /// A point is to be reverted from a moment on.
    pub(super) fn make_due(&mut self, key: Key, at: Instant) {
        let Some(hold) = self.holds.get_mut(&key) else { return };
        hold.state = HoldState::Due(at);
        self.revert_at.add(at, key);
    }

    /// Puts a revert that is due into the lane of its device.
    pub(super) fn queue_revert(&mut self, now: Now, at: Instant, key: Key) {
        let Some(hold) = self.holds.get_mut(&key).filter(|hold| hold.state == HoldState::Due(at)) else { return };
        hold.state = HoldState::Queued;
        self.lanes.entry(key.0).or_default().reverts.push_back(key);
        self.feed(now, key.0);
    }

    /// Orders a revert from the lane.
    pub(super) fn order_revert(&mut self, now: Now, key: Key) {
        let (Some(hold), Some(point)) = (self.holds.get(&key), self.points.get(&key)) else { return };
        if hold.state != HoldState::Queued {
            return;
        }
        let is_forbidden = self.grounds.check_revert(point, hold.is_failsafe).is_err();
        if is_forbidden || !self.control.is_online(key.0) {
            return self.block(key);
        }
        let commanded = self.grounds.commanded.get(&key);
        let from = self.grounds.rules_of(key).and_then(|rules| rules.revert_from(commanded));
        if let Some(from) = from.filter(|from| *from > now.mono) {
            return self.make_due(key, from);
        }
        if self.control.is_busy(key) {
            // A command that timed out is still out.
            return self.retry(now, key);
        }
        let Ok((command, expected)) = revert_command(point, hold.revert_to.as_ref()) else {
            return self.retry(now, key);
        };
        let requester = hold.owner.as_ref().map_or_else(|| "override".into(), |owner| owner.requester.clone());
        let id = self.next_job;
        let job = Job {
            kind: JobKind::EndOfHold,
            stage: Stage::Waiting,
            batch: None,
            group: None,
            who: format!("revert after {requester}").into(),
            requester,
            point: point.clone(),
            command,
            shown: hold.revert_to.as_ref().map_or_else(|| "null".into(), |value| shown(value).into_boxed_str()),
            read_back: self.grounds.read_back(key).filter(|_| expected.is_some()),
            expected,
            is_reserved: false,
            deadline: now.mono + self.limits.control.timeout,
            seen: None,
            last: None,
            uncertain: None,
        };
        self.next_job += 1;
        self.jobs.insert(id, job);
        if let Some(hold) = self.holds.get_mut(&key) {
            (hold.state, hold.tried) = (HoldState::Reverting(id), Some(id));
        }
        self.give_order(now, id, self.limits.control.timeout);
    }

    /// A revert has ended: it is over, or is tried again.
    pub(super) fn end_revert(&mut self, now: Now, id: JobId, key: Key, is_over: bool) {
        if self.holds.get(&key).is_none_or(|hold| hold.state != HoldState::Reverting(id)) {
            return;
        }
        if is_over {
            self.counts.reverted += 1;
            return self.release(key);
        }
        self.retry(now, key);
    }

    /// An outcome came when nobody waited for it any more. A revert that was carried out late is over.
    pub(super) fn handle_late(&mut self, now: Now, late: &Late) {
        let key = (late.device, late.point);
        let is_over = late.outcome.is_ok() && self.grounds.read_back(key).is_none();
        let Some(hold) = self.holds.get(&key).filter(|hold| is_over && hold.tried == Some(late.request)) else {
            return;
        };
        if !matches!(hold.state, HoldState::Held | HoldState::Reverting(_)) {
            self.counts.reverted += 1;
            self.grounds.mark_done(now, key);
            self.release(key);
        }
    }

    /// A new holder commands a point whose revert waits for a reading.
    pub(super) fn end_superseded_revert(&mut self, key: Key, id: JobId) {
        if self.holds.get(&key).is_some_and(|hold| hold.state == HoldState::Reverting(id)) {
            self.mark_superseded(key);
        }
    }

    /// Who commands the point has it in hand: an override that is set on later counts.
    pub(super) fn mark_superseded(&mut self, key: Key) {
        let Some(hold) = self.holds.get_mut(&key) else { return };
        hold.state = HoldState::Superseded;
        if core::mem::take(&mut hold.is_failsafe) {
            self.record_hold(key);
        }
    }

    fn retry(&mut self, now: Now, key: Key) {
        let Some(hold) = self.holds.get_mut(&key) else { return };
        self.counts.revert_failures += 1;
        let doubled = 1u32.checked_shl(hold.attempts).unwrap_or(u32::MAX);
        let first = self.limits.retry_first.max(Duration::from_millis(1));
        let wait = first.saturating_mul(doubled).min(self.limits.retry_max.max(first));
        hold.attempts = hold.attempts.saturating_add(1);
        self.make_due(key, now.mono + wait);
    }

    fn block(&mut self, key: Key) {
        if let Some(hold) = self.holds.get_mut(&key) {
            hold.state = HoldState::Blocked;
        }
    }

    /// A device is back: its reverts go on.
    pub(super) fn unblock(&mut self, now: Now, device: DeviceId) {
        let is_blocked = |(_, hold): &(&Key, &Hold)| hold.state == HoldState::Blocked;
        let blocked: Vec<Key> =
            self.holds.range(super::range_of(device)).filter(is_blocked).map(|(key, _)| *key).collect();
        self.requeue(now, blocked);
    }

    /// An override has ended, or a tag was lifted: reverts that waited for it go on.
    pub(super) fn unblock_all(&mut self, now: Now) {
        let is_blocked = |(_, hold): &(&Key, &Hold)| hold.state == HoldState::Blocked;
        let blocked: Vec<Key> = self.holds.iter().filter(is_blocked).map(|(key, _)| *key).collect();
        self.requeue(now, blocked);
    }

    fn requeue(&mut self, now: Now, keys: Vec<Key>) {
        for key in keys {
            self.make_due(key, now.mono);
        }
    }

    /// The point is as it was.
    pub(super) fn release(&mut self, key: Key) {
        self.holds.remove(&key);
        if let Some(topic) = self.topic_of(key) {
            self.entries.push_back(Entry::Released { topic });
        }
    }

    pub(super) fn record_hold(&mut self, key: Key) {
        if let Some(record) = self.hold_record(key) {
            self.entries.push_back(Entry::Held(record));
        }
    }

    pub(super) fn hold_record(&self, key: Key) -> Option<HoldRecord> {
        let hold = self.holds.get(&key)?;
        let topic = self.topic_of(key)?;
        let (owner, revert_to) = (hold.owner.clone(), hold.revert_to.clone());
        Some(HoldRecord { topic, owner, revert_to, is_failsafe: hold.is_failsafe })
    }

    fn topic_of(&self, key: Key) -> Option<Topic> {
        self.points.get(&key).map(|point| point.topic.clone())
    }
}
