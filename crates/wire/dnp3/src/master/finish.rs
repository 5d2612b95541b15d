//! What follows when an answer is complete, or does not come.

use super::timers::Timer;
use super::work::{CommandStep, Duty, Work, WriteTime, classes_of};
use super::{Confirms, Master, MasterEvent, OfflineReason, Pending, Reading, TaskOutcome, TimeSync};
use crate::Iin;
use crate::app::{CommandStatus, ControlItem, Fragment};
use tieline_core::{Instant, Now};

/// What IIN2 can hold against a request.
const REFUSALS: [Iin; 4] =
    [Iin::NO_FUNC_CODE_SUPPORT, Iin::OBJECT_UNKNOWN, Iin::PARAMETER_ERROR, Iin::ALREADY_EXECUTING];

impl Master {
    /// The next value of the fragment that is held, or its end.
    pub(super) fn read_on(&mut self) -> Option<MasterEvent> {
        let reading = self.reading.as_mut()?;
        let objects = self.endpoint.fragment().get(4..).unwrap_or_default();
        if let Some((object, measurement)) = reading.walk.next(objects) {
            let event = measurement.point_type.event_group() == object.group;
            reading.events |= event;
            reading.objects = true;
            self.counters.measurements += 1;
            return Some(MasterEvent::Measurement { measurement, event, unsolicited: reading.unsolicited });
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
        match pending.work {
            Work::Duty(duty) => self.finish_duty(now, duty, &pending, refused),
            // An outstation that takes no time says so; it is asked again when it next needs time.
            Work::WriteTime(_) => self.finish_time(now),
            Work::Read { token, .. } => {
                let outcome =
                    if refused && !pending.brought_objects { TaskOutcome::Indicated(iin) } else { TaskOutcome::Done };
                self.end_task(token, outcome);
            }
            Work::Command { .. } => {
                self.finish_command(pending.work, refused.then_some(iin));
            }
        }
    }

    fn finish_duty(&mut self, now: Now, duty: Duty, pending: &Pending, refused: bool) {
        match duty {
            Duty::SyncTime if refused => self.finish_time(now),
            Duty::SyncTime => {
                let work = match self.config.time_sync {
                    TimeSync::Lan => WriteTime::Recorded(pending.sent.utc),
                    TimeSync::DelayMeasure | TimeSync::Never => self.half_of_the_way(now, pending.sent.mono),
                };
                self.pending = Some(Pending::new(Work::WriteTime(work), self.config.retries));
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

    /// The time that a request takes to arrive: half of the way there and back, less what the outstation took.
    fn half_of_the_way(&self, now: Now, sent: Instant) -> WriteTime {
        let fragment = Fragment::parse(self.endpoint.fragment());
        let delay_ms = fragment.ok().and_then(|f| f.headers().flatten().find_map(|header| header.delay_ms()));
        let away = now.mono.since(sent).as_micros();
        let inside = u128::from(delay_ms.unwrap_or(0)) * 1000;
        WriteTime::AfterDelay { micros: u64::try_from(away.saturating_sub(inside) / 2).unwrap_or(0) }
    }

    fn finish_command(&mut self, work: Work, refused: Option<Iin>) {
        let Work::Command { control, index, step, until, token } = work else { return };
        let maybe_operated = step != CommandStep::Select;
        let outcome = match (self.echo(), refused) {
            (None, Some(iin)) => TaskOutcome::Indicated(iin),
            (Some(echo), _) if echo.index == index && echo.control == control => match (echo.status, refused, step) {
                (CommandStatus::Success, Some(iin), _) => TaskOutcome::Indicated(iin),
                (CommandStatus::Success, None, CommandStep::Select) if work.is_late(self.now.mono) => {
                    TaskOutcome::Timeout { maybe_operated }
                }
                (CommandStatus::Success, None, CommandStep::Select) => {
                    let work = Work::Command { control, index, step: CommandStep::Operate, until, token };
                    self.pending = Some(Pending::new(work, self.config.retries));
                    return;
                }
                (CommandStatus::Success, None, CommandStep::Operate | CommandStep::DirectOperate) => TaskOutcome::Done,
                (status, ..) => TaskOutcome::Refused(status),
            },
            (None | Some(_), _) => TaskOutcome::BadEcho { maybe_operated },
        };
        self.end_task(token, outcome);
    }

    /// The one control of the answer that the endpoint holds; none when there are more, or none.
    fn echo(&self) -> Option<ControlItem> {
        let fragment = Fragment::parse(self.endpoint.fragment()).ok()?;
        let mut controls = fragment.headers().flatten().flat_map(|header| header.controls());
        let first = controls.next()?;
        controls.next().is_none().then_some(first)
    }

    /// No fragment came in time.
    pub(super) fn handle_response_timeout(&mut self, now: Now) {
        let Some(pending) = &mut self.pending else { return };
        self.counters.timeouts += 1;
        if !pending.work.is_late(now.mono) && pending.repeat() {
            self.counters.retries += 1;
            return;
        }
        let maybe_operated = pending.work.operates();
        let garbage = pending.garbage_before;
        self.fail_pending(now, TaskOutcome::Timeout { maybe_operated });
        let reason = if self.garbage() > garbage { OfflineReason::Garbage } else { OfflineReason::Timeout };
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
