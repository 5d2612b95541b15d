//! What a master sends.

use super::timers::Timer;
use super::work::{Duty, Work, WriteTime};
use super::{Addressee, Confirm, Master, Pending, TimeSync};
use crate::app::{AppControl, FragmentWriter, Function, Sequence, WriteError};
use crate::link::LinkAddress;
use crate::{DnpTime, GroupVar};
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Instant, Now};

/// Bytes of a confirm.
const CONFIRM_BYTES: u16 = 2;

impl Master {
    /// Begins with another sequence number than 0, by the low four bits of a random number: an answer to a master that was
    /// here before, and that a network brings late, is then seldom taken for one to this master. To be called before there
    /// is a connection.
    pub const fn vary(&mut self, random: u64) {
        let [low, ..] = random.to_le_bytes();
        self.sequence = Sequence::new(low);
    }

    /// Appends the next message: confirms first, then what the link has to say, then requests.
    pub(super) fn transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if self.endpoint.holds_back(now.mono) {
            return self.endpoint.poll_transmit(out);
        }
        if let Some(confirm) = self.solicited.take_due() {
            self.write_confirm(confirm, false, out);
            // The next fragment follows the confirm.
            if self.pending.is_some() {
                self.await_response(now);
            }
            return true;
        }
        if let Some(confirm) = self.unsolicited.take_due() {
            self.write_confirm(confirm, true, out);
            return true;
        }
        if self.endpoint.poll_transmit(out) {
            return true;
        }
        if let Some(transmitted) = self.transmit_secured(now, out) {
            return transmitted;
        }
        if self.pending.is_none() {
            self.pending = self.next_work(now.mono).map(|work| Pending::new(work, self.config.retries));
        }
        self.write_request(now, out)
    }

    fn write_confirm(&mut self, confirm: Confirm, unsolicited: bool, out: &mut Vec<u8>) {
        let control = AppControl { uns: unsolicited, ..AppControl::single(confirm.sequence) };
        let start = out.len();
        let _ = FragmentWriter::request(out, CONFIRM_BYTES, control, Function::Confirm);
        self.endpoint.frame_in_place(self.outstation(), out, start);
        self.counters.confirms += 1;
    }

    /// The most urgent work that may begin.
    fn next_work(&mut self, now: Instant) -> Option<Work> {
        // A request would end the outstation's wait for the confirm that is held: it would report those events again.
        if self.reading.is_some() || self.solicited.is_held() {
            return None;
        }
        if let Some(control) = self.queue.pop_control(now) {
            return Some(control);
        }
        let rests = self.timers.is_set(Timer::Retry);
        match self.duties.first().filter(|_| !rests) {
            // Events that never end must not keep the owner from reading.
            Some(Duty::PollEvents) => Some(self.queue.pop_other(now).unwrap_or(Work::Duty(Duty::PollEvents))),
            // What the owner asks for waits for start-up.
            Some(duty) => Some(Work::Duty(duty)),
            None => self.queue.pop_other(now),
        }
    }

    fn write_request(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let Some(mut pending) = self.pending.take_if(|pending| pending.unsent) else { return false };
        let sequence = self.sequence;
        self.sequence = sequence.next();
        let start = out.len();
        let (control, code) = (AppControl::single(sequence), self.code(&pending.work));
        let mut writer = FragmentWriter::request_of_code(out, self.config.request_bytes_max, control, code);
        let written = self.write_objects(&pending.work, now, &mut writer);
        debug_assert_eq!(written, Ok(()), "{:?}", pending.work);
        let awaits_challenge = self.secure_request(now, out, start);
        let destination = self.address(&pending.work);
        self.endpoint.frame_in_place(destination, out, start);
        pending.expect(sequence, now, self.garbage());
        self.counters.requests += 1;
        if pending.work.is_unanswered() && !awaits_challenge {
            // It ends as soon as it is on its way.
            self.timers.set(Timer::Response, now.mono);
        } else {
            self.await_response(now);
        }
        self.pending = Some(pending);
        true
    }

    pub(super) fn await_response(&mut self, now: Now) {
        self.timers.set(Timer::Response, now.mono + self.config.response_timeout);
    }

    fn code(&self, work: &Work) -> u8 {
        let function = match work {
            Work::Duty(Duty::Disable) => Function::DisableUnsolicited,
            Work::Duty(Duty::Enable) => Function::EnableUnsolicited,
            Work::Duty(Duty::ClearRestart) | Work::WriteTime { .. } => Function::Write,
            Work::Duty(Duty::SyncTime) => match self.config.time_sync {
                TimeSync::DelayMeasure => Function::DelayMeasure,
                TimeSync::Lan | TimeSync::Never => Function::RecordCurrentTime,
                TimeSync::Write => Function::Write,
            },
            Work::Duty(Duty::Integrity | Duty::PollEvents) => Function::Read,
            Work::Task(task) => return task.request.code(),
        };
        function.code()
    }

    fn write_objects(&self, work: &Work, now: Now, writer: &mut FragmentWriter<'_>) -> Result<(), WriteError> {
        match work {
            Work::Duty(Duty::Disable) => writer.classes(self.config.disable_unsolicited),
            Work::Duty(Duty::Enable) => writer.classes(self.config.enable_unsolicited),
            Work::Duty(Duty::ClearRestart) => writer.clear_restart(),
            Work::Duty(Duty::SyncTime) if self.config.time_sync == TimeSync::Write => {
                writer.time(GroupVar::new(50, 1), DnpTime::from(now.utc))
            }
            Work::Duty(Duty::SyncTime) => Ok(()),
            Work::Duty(Duty::Integrity) => writer.classes(self.config.integrity),
            Work::Duty(Duty::PollEvents) => writer.classes(self.classes_due),
            Work::WriteTime { time: WriteTime::Recorded(at), .. } => {
                writer.time(GroupVar::new(50, 3), DnpTime::from(*at))
            }
            Work::WriteTime { time: WriteTime::AfterDelay { micros }, .. } => {
                let arrival = now.utc.later(Duration::from_micros(*micros));
                writer.time(GroupVar::new(50, 1), DnpTime::from(arrival))
            }
            Work::Task(task) => writer.raw(&task.request.objects),
        }
    }

    /// Where work goes. From a request to FFFC on, until the next request, every outstation that answers is heard.
    fn address(&mut self, work: &Work) -> LinkAddress {
        let outstation = self.outstation();
        let Some(task) = work.task() else { return outstation };
        let own = task.request.addressee == Addressee::Own;
        self.endpoint.hear_only((!own).then_some(outstation));
        task.destination(outstation)
    }

    pub(super) const fn outstation(&self) -> LinkAddress {
        LinkAddress::new(self.config.outstation)
    }
}
