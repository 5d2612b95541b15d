//! What follows when an answer is complete, or does not come.

use super::task::{Echo, Meaning, Task};
use super::timers::Timer;
use super::work::{Duty, Work, WriteTime, classes_of};
use super::{
    Answer, Confirms, ControlProcedure, Master, MasterEvent, OfflineReason, Pending, Reading, Request, TaskOutcome,
    TimeSync,
};
use crate::Iin;
use crate::app::{CommandStatus, Fragment, Values};
use alloc::boxed::Box;
use core::time::Duration;
use tieline_core::{Instant, Now};

/// What IIN2 can hold against a request.
const REFUSALS: [Iin; 4] =
    [Iin::NO_FUNC_CODE_SUPPORT, Iin::OBJECT_UNKNOWN, Iin::PARAMETER_ERROR, Iin::ALREADY_EXECUTING];

impl Master {
    /// What the fragment brought that is held, and then its end.
    pub(super) fn read_on(&mut self) -> Option<MasterEvent> {
        let reading = self.reading.as_mut()?;
        if reading.objects && !core::mem::replace(&mut reading.given, true) {
            let values = Values::new(self.endpoint.take_fragment());
            return Some(MasterEvent::Values { values, unsolicited: reading.unsolicited });
        }
        let reading = self.reading.take()?;
        self.endpoint.release();
        let confirm_held = self.config.hold_confirm && reading.events && reading.confirm.is_some();
        if let Some(confirm) = reading.confirm {
            let confirms = Confirms { confirm: Some(confirm), held: confirm_held };
            if reading.unsolicited {
                self.unsolicited = confirms;
            } else {
                self.solicited = confirms;
            }
        }
        if !reading.unsolicited {
            self.end_fragment(&reading, confirm_held);
        }
        Some(MasterEvent::FragmentEnd { unsolicited: reading.unsolicited, confirm_held })
    }

    fn end_fragment(&mut self, reading: &Reading, confirm_held: bool) {
        if confirm_held {
            self.timers.set(Timer::Held, self.now.mono + self.config.response_timeout);
        }
        if let Some(pending) = &mut self.pending {
            pending.events |= reading.events;
            pending.brought_objects |= reading.objects;
        }
        if reading.last {
            let now = self.now;
            self.finish_answer(now, self.iin);
        } else if self.solicited.is_empty() {
            // Otherwise the wait begins with the confirm.
            self.await_response(self.now);
        }
    }

    /// The answer to what is pending has come.
    pub(super) fn finish_answer(&mut self, now: Now, iin: Iin) {
        let Some(pending) = self.pending.take() else { return };
        let refused = REFUSALS.into_iter().any(|bit| iin.contains(bit));
        let outcome = if refused { TaskOutcome::Indicated(iin) } else { TaskOutcome::Done };
        match pending.work {
            Work::Duty(duty) => self.finish_duty(now, duty, &pending, refused),
            // An outstation that takes no time says so; it is asked again when it next needs time.
            Work::WriteTime { token, .. } => {
                self.finish_time(now);
                token.into_iter().for_each(|token| self.end_task(token, outcome));
            }
            Work::Task(task) => {
                let brought = pending.brought_objects;
                self.finish_task(now, task, pending.sent, if brought { TaskOutcome::Done } else { outcome });
            }
        }
    }

    fn finish_task(&mut self, now: Now, task: Box<Task>, sent: Now, outcome: TaskOutcome) {
        match task.request.meaning {
            Meaning::Control(_) => return self.finish_control(task, outcome),
            Meaning::Time(how) if outcome == TaskOutcome::Done => {
                let (time, token) = (self.time_after(now, how, sent), Some(task.token));
                self.pending = Some(Pending::new(Work::WriteTime { time, token }, self.config.retries));
                return;
            }
            Meaning::Delay if outcome == TaskOutcome::Done => {
                let answer = Answer::RoundTrip {
                    both_ways: Duration::from_micros(now.mono.since(sent.mono).as_micros().try_into().unwrap_or(0)),
                    inside: self.delay().unwrap_or_default(),
                };
                self.answer(task.token, answer);
            }
            Meaning::Write | Meaning::Act => {
                self.delay().into_iter().for_each(|delay| self.answer(task.token, Answer::Delay(delay)));
            }
            Meaning::Time(_) | Meaning::Delay | Meaning::Read | Meaning::File | Meaning::Raw => {}
        }
        self.end_task(task.token, outcome);
    }

    fn finish_duty(&mut self, now: Now, duty: Duty, pending: &Pending, refused: bool) {
        // Another restart cannot be told while IIN1.7 is up: values from before it is cleared may be of before that one.
        let too_soon = duty == Duty::Integrity && self.duties.contains(Duty::ClearRestart);
        if pending.void || too_soon {
            return;
        }
        match duty {
            Duty::SyncTime if refused || self.config.time_sync == TimeSync::Write => self.finish_time(now),
            Duty::SyncTime => {
                let time = self.time_after(now, self.config.time_sync, pending.sent);
                self.pending = Some(Pending::new(Work::WriteTime { time, token: None }, self.config.retries));
            }
            Duty::PollEvents if pending.events => {
                // It brought some: more may wait.
                let due = classes_of(self.iin, self.config.event_poll);
                self.classes_due = due;
                if due.is_empty() {
                    self.finish_startup(duty);
                }
            }
            // A refusal is final: the outstation cannot, and asking again will not help.
            Duty::ClearRestart | Duty::Disable | Duty::Integrity | Duty::Enable | Duty::PollEvents => {
                self.finish_startup(duty);
            }
        }
    }

    fn finish_startup(&mut self, duty: Duty) {
        self.duties.remove(duty);
        if !self.ready && !self.duties.is_starting() {
            self.ready = true;
            self.events.push_back(MasterEvent::Ready);
        }
    }

    fn finish_time(&mut self, now: Now) {
        self.time_set_at = Some(now.mono);
        self.duties.remove(Duty::SyncTime);
    }

    /// What to write once the first request of a time synchronisation was answered.
    fn time_after(&self, now: Now, how: TimeSync, sent: Now) -> WriteTime {
        match how {
            TimeSync::Lan | TimeSync::Never => WriteTime::Recorded(sent.utc),
            TimeSync::DelayMeasure | TimeSync::Write => self.half_of_the_way(now, sent.mono),
        }
    }

    /// The time that a request takes to arrive: half of the way there and back, less what the outstation took.
    fn half_of_the_way(&self, now: Now, sent: Instant) -> WriteTime {
        let away = now.mono.since(sent).as_micros();
        let inside = self.delay().unwrap_or_default().as_micros();
        WriteTime::AfterDelay { micros: u64::try_from(away.saturating_sub(inside) / 2).unwrap_or(0) }
    }

    /// The delay that the answer names (group 52).
    fn delay(&self) -> Option<Duration> {
        let fragment = Fragment::parse(self.endpoint.fragment()).ok()?;
        let delay_ms = fragment.headers().flatten().find_map(|header| header.delay_ms())?;
        Some(Duration::from_millis(delay_ms.into()))
    }

    fn finish_control(&mut self, mut task: Box<Task>, outcome: TaskOutcome) {
        let objects = Fragment::parse(self.endpoint.fragment()).map(|fragment| fragment.objects).unwrap_or_default();
        let (echo, statuses) = (task.request.echo(objects), Request::statuses(objects));
        let (token, maybe_operated) = (task.token, task.operates());
        let two_steps = task.request.meaning == Meaning::Control(ControlProcedure::SelectBeforeOperate);
        let outcome = match (echo, outcome) {
            (Echo::Missing, TaskOutcome::Indicated(_)) => outcome,
            (Echo::Missing | Echo::Differs, _) => TaskOutcome::BadEcho { maybe_operated },
            (Echo::Same(CommandStatus::Success), TaskOutcome::Done) if two_steps => {
                if !task.is_late(self.now.mono) {
                    task.request.meaning = Meaning::Control(ControlProcedure::Operate);
                    self.pending = Some(Pending::new(Work::Task(task), self.config.retries));
                    return;
                }
                TaskOutcome::Timeout { maybe_operated }
            }
            (Echo::Same(CommandStatus::Success), _) => outcome,
            (Echo::Same(status), _) => TaskOutcome::Refused(status),
        };
        if matches!(echo, Echo::Same(_)) {
            statuses.into_iter().for_each(|statuses| self.answer(token, statuses));
        }
        self.end_task(token, outcome);
    }

    /// No fragment came in time.
    pub(super) fn handle_response_timeout(&mut self, now: Now) {
        let Some(pending) = &mut self.pending else { return };
        if pending.work.is_unanswered() {
            return self.fail_pending(now, TaskOutcome::Sent);
        }
        self.counters.timeouts += 1;
        if let Some(secure) = &mut self.secure {
            secure.note_unanswered();
        }
        if !pending.work.is_late(now.mono) && pending.repeat() {
            self.counters.retries += 1;
            return;
        }
        let maybe_operated = pending.work.operates();
        let garbage = pending.garbage_before;
        self.fail_pending(now, TaskOutcome::Timeout { maybe_operated });
        let reason = if garbage.is_some_and(|before| self.garbage() > before) {
            OfflineReason::Garbage
        } else {
            OfflineReason::Timeout
        };
        self.go_offline(reason);
        self.probe(now);
    }

    /// Gives up what is pending. A duty stays due, after a rest.
    pub(super) fn fail_pending(&mut self, now: Now, outcome: TaskOutcome) {
        let Some(pending) = self.pending.take() else { return };
        match pending.work.token() {
            Some(token) => self.end_task(token, outcome),
            None => self.timers.set(Timer::Retry, now.mono + self.config.retry_delay),
        }
    }

    pub(super) fn answer(&mut self, token: u64, answer: Answer) {
        self.events.push_back(MasterEvent::Answer { token, answer });
    }

    pub(super) fn end_task(&mut self, token: u64, outcome: TaskOutcome) {
        self.events.push_back(MasterEvent::TaskDone { token, outcome });
    }

    /// Asks the link for its status; the connection closes when it does not answer.
    pub(super) fn probe(&mut self, now: Now) {
        if !self.timers.is_set(Timer::Probe) {
            self.endpoint.request_link_status(self.outstation());
            self.timers.set(Timer::Probe, now.mono + self.config.response_timeout);
        }
    }
}
