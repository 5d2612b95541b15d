//! What became of commands: outcomes, confirmations, answers.

use super::Coordinator;
use super::job::{Job, JobId, JobKind, Key, Stage};
use crate::audit::Note;
use crate::batch::PointOutcome;
use crate::point::shown;
use crate::{Done, Phase};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use tieline_core::{Now, Point, Refusal, Topic};

impl Coordinator {
    /// Takes the end of a command that was ordered.
    pub(super) fn handle_done(&mut self, now: Now, done: Done) {
        let id = done.request;
        let Some(job) = self.jobs.get(&id) else { return };
        let device = job.point.device;
        if let Some(lane) = self.lanes.get_mut(&device).filter(|lane| lane.ordered == Some(id)) {
            lane.ordered = None;
        }
        match done.outcome {
            Err(refusal) if !refusal.maybe_operated => {
                self.forget_confirming(id);
                self.end_unsent(now, id, refusal);
            }
            outcome => self.handle_operated(now, id, outcome.err()),
        }
        self.feed(now, device);
    }

    /// The device has carried a command out, or it is not known.
    fn handle_operated(&mut self, now: Now, id: JobId, uncertain: Option<Refusal>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (key, kind) = (job.key(), job.kind);
        if kind == JobKind::Set {
            let is_reserved = job.is_reserved;
            self.keep_hold(now, key, is_reserved, uncertain.is_none());
        }
        if uncertain.is_none() {
            self.grounds.mark_done(now, key);
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.uncertain = uncertain;
        let Some(read_back) = &job.read_back else {
            return self.end_operated(now, id, None);
        };
        if job.seen.is_some() {
            let reading = job.seen.clone();
            return self.end_operated(now, id, reading);
        }
        (job.stage, job.deadline) = (Stage::Confirming, now.mono + read_back.within);
        self.deadlines.add(job.deadline, id);
    }

    /// Takes a reading that may confirm commands.
    pub(super) fn confirm_by(&mut self, now: Now, topic: &Topic, reading: &Point) {
        let Some(ids) = self.confirming.get(topic) else { return };
        let mut confirmed = Vec::new();
        for id in ids {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            let (Some(read_back), Some(expected)) = (&job.read_back, &job.expected) else { continue };
            let shows = read_back.shows(reading, expected);
            job.last = Some(reading.clone());
            job.seen = shows.then(|| reading.clone());
            if shows && job.stage == Stage::Confirming {
                confirmed.push(*id);
            }
        }
        for id in confirmed {
            self.end_operated(now, id, Some(reading.clone()));
        }
        self.settle(now);
    }

    pub(super) fn give_up_confirming(&mut self, now: Now, id: JobId) {
        self.end_operated(now, id, None);
    }

    /// A later command of the point is sent: what waits for a reading of an earlier one waits in vain.
    pub(super) fn drop_confirming(&mut self, now: Now, key: Key, later: JobId) {
        let Some(point) = self.points.get(&key) else { return };
        let read_back = self.grounds.read_back(key).and_then(|read_back| read_back.topic);
        let topic = read_back.as_ref().unwrap_or(&point.topic);
        let Some(ids) = self.confirming.get(topic) else { return };
        let is_earlier = |id: &&JobId| {
            let job = self.jobs.get(*id);
            **id != later && job.is_some_and(|job| job.key() == key && job.stage == Stage::Confirming)
        };
        let earlier: Vec<JobId> = ids.iter().filter(is_earlier).copied().collect();
        for id in earlier {
            let Some(job) = self.take_job(id) else { continue };
            match job.kind {
                JobKind::EndOfHold => self.end_superseded_revert(key, id),
                JobKind::Set | JobKind::Revert => {
                    let detail = format!("a later command for {} was sent before a reading came", job.point.topic);
                    self.end_unconfirmed(now, id, &job, Refusal::new("superseded", detail));
                }
            }
        }
    }

    /// Ends a job that was carried out or may have been, with the reading that shows it.
    fn end_operated(&mut self, now: Now, id: JobId, reading: Option<Point>) {
        let Some(job) = self.take_job(id) else { return };
        let was_asked = job.read_back.is_some();
        if job.kind == JobKind::EndOfHold {
            let is_over = reading.is_some() || (!was_asked && job.uncertain.is_none());
            self.note_confirmation(now, id, &job, was_asked.then(|| reading.is_some()), "", String::new());
            return self.end_revert(now, id, job.key(), is_over);
        }
        let is_certain = job.uncertain.is_none();
        let has_superseded = reading.is_some() && job.kind == JobKind::Set && !job.is_reserved;
        match (reading, was_asked) {
            (Some(reading), _) => {
                self.note_confirmation(now, id, &job, Some(true), "", String::new());
                self.end_requested_revert(&job);
                self.answer_job(now, &job, PointOutcome::Confirmed { reading });
            }
            (None, true) => {
                let refusal = Refusal::new("unconfirmed", unconfirmed(&job));
                self.end_unconfirmed(now, id, &job, refusal);
            }
            (None, false) => {
                if is_certain {
                    self.end_requested_revert(&job);
                }
                let expected = job.expected.clone();
                let accepted = PointOutcome::Accepted { expected };
                let outcome = job.uncertain.clone().map_or(accepted, PointOutcome::Unknown);
                self.answer_job(now, &job, outcome);
            }
        }
        self.end_supersede(now, job.key(), has_superseded);
    }

    fn end_unconfirmed(&mut self, now: Now, id: JobId, job: &Job, refusal: Refusal) {
        self.note_confirmation(now, id, job, Some(false), refusal.reason, refusal.detail.clone());
        let unconfirmed = PointOutcome::Unconfirmed { expected: job.expected.clone(), refusal };
        let outcome = job.uncertain.clone().map_or(unconfirmed, PointOutcome::Unknown);
        self.answer_job(now, job, outcome);
    }

    fn answer_job(&mut self, now: Now, job: &Job, outcome: PointOutcome) {
        if let Some(place) = job.batch {
            self.answer(now, place, outcome);
        }
    }

    /// Writes down whether a reading showed a command; none: nothing was awaited.
    fn note_confirmation(
        &mut self,
        now: Now,
        id: JobId,
        job: &Job,
        is_confirmed: Option<bool>,
        reason: &'static str,
        detail: String,
    ) {
        let Some(is_confirmed) = is_confirmed else { return };
        let phase = if is_confirmed { Phase::Confirmed } else { Phase::Unconfirmed };
        if is_confirmed {
            self.counts.confirmed += 1;
        } else {
            self.counts.unconfirmed += 1;
        }
        let note = Note {
            request: id,
            group: job.group,
            who: job.who.clone(),
            topic: job.point.topic.clone(),
            device: Some(job.point.device),
            value: job.shown.clone(),
            mode: Some(job.command.mode),
            phase,
        };
        self.control.note(now, note, reason, detail);
    }

    fn take_job(&mut self, id: JobId) -> Option<Job> {
        self.forget_confirming(id);
        let job = self.jobs.remove(&id)?;
        self.deadlines.remove(job.deadline, id);
        Some(job)
    }

    pub(super) fn forget_confirming(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(read_back) = &job.read_back else { return };
        let topic = read_back.topic.as_ref().unwrap_or(&job.point.topic);
        let Some(ids) = self.confirming.get_mut(topic) else { return };
        ids.retain(|other| *other != id);
        if ids.is_empty() {
            self.confirming.remove(topic);
        }
    }
}

fn unconfirmed(job: &Job) -> String {
    let within = job.read_back.as_ref().map_or(0.0, |read_back| read_back.within.as_secs_f64());
    let expected = job.expected.as_ref().map(shown).unwrap_or_default();
    let last = match &job.last {
        Some(last) => format!("the last reading is {}, {}", shown(&last.value), last.quality.validity().name()),
        None => "none came".into(),
    };
    format!("no reading of {} showed {expected} within {within} s; {last}", job.point.topic)
}
