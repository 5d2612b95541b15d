//! The application layer of an outstation: fragments in, fragments out. The layers below are the endpoint's.

use super::clock::Clock;
use super::config::OutstationConfig;
use super::controls::{BoxedControlHandler, OutstationEvent};
use super::database::Database;
use super::events::EventBuffer;
use super::extras::Extras;
use super::files::{Files, is_file_request};
use super::read::Reading;
use super::select::Selection;
use super::stats::Counts;
use super::timers::{Timer, Timers};
use super::unsolicited::{Phase, Unsolicited};
use crate::app::{AppControl, Fragment, FragmentError, Function, Sequence};
use crate::link::Broadcast;
use crate::{Classes, EventClass, Iin};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use tieline_core::Now;

/// Events for the owner beyond which no input is taken until they are drained. One request adds a few at most, one for
/// each of its controls.
pub(super) const OUTBOX_MAX: usize = 64;

/// Where the answer to a request stands.
#[derive(Debug)]
pub(super) enum Solicited {
    Idle,
    /// The kept reply is to be sent.
    Reply,
    /// The next fragment of a read is to be built.
    Reading(Box<Reading>),
    /// The kept reply was sent and awaits its confirm.
    ReplyAwaits(Sequence),
    /// A fragment of a read was sent and awaits its confirm; what is left of the read follows it.
    Awaits(Sequence, Option<Box<Reading>>),
}

/// The answer to the last request that was not a read: kept because the request may be repeated.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) sequence: Sequence,
    pub(super) iin: Iin,
    pub(super) objects: Vec<u8>,
}

/// A request recognised without being kept: its length and a 64-bit FNV-1a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest(usize, u64);

impl Digest {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let hash = bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        Self(bytes.len(), hash)
    }
}

/// What became of a request that is not a read.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Bits of IIN2.
    pub(super) iin: Iin,
    /// The objects of the response.
    pub(super) objects: Vec<u8>,
}

impl Outcome {
    pub(super) const fn only(iin: Iin) -> Self {
        Self { iin, objects: Vec::new() }
    }
}

pub(super) struct Application {
    pub(super) config: OutstationConfig,
    pub(super) database: Database,
    pub(super) events: EventBuffer,
    pub(super) controls: BoxedControlHandler,
    pub(super) timers: Timers,
    pub(super) clock: Clock,
    pub(super) solicited: Solicited,
    pub(super) unsolicited: Unsolicited,
    pub(super) reply: Reply,
    /// The request that `reply` answers; none after a read. Broadcasts do not count.
    pub(super) last: Option<Digest>,
    pub(super) selection: Option<Selection>,
    /// A read that waits until the unsolicited response in flight is settled.
    pub(super) deferred: Option<Box<[u8]>>,
    pub(super) broadcast: Option<Broadcast>,
    /// What the application said, and IIN1.7 and IIN1.4.
    pub(super) indications: Iin,
    pub(super) is_local: bool,
    pub(super) is_connected: bool,
    pub(super) outbox: VecDeque<OutstationEvent>,
    /// The files that it serves.
    pub(super) files: Option<Box<Files>>,
    /// What few outstations have.
    pub(super) extras: Option<Box<Extras>>,
    pub(super) stats: Counts,
}

/// The bits of IIN2 that refuse a request.
const REFUSALS: Iin = Iin::NO_FUNC_CODE_SUPPORT.with(Iin::OBJECT_UNKNOWN).with(Iin::PARAMETER_ERROR);

impl Application {
    pub(super) fn new(config: OutstationConfig, database: Database, controls: BoxedControlHandler) -> Self {
        Self {
            database,
            events: EventBuffer::new(config.event_limits),
            controls,
            timers: Timers::new(),
            clock: Clock::new(config.clock_synchronized),
            solicited: Solicited::Idle,
            unsolicited: Unsolicited::new(config.unsolicited.map_or(Classes::NONE, |u| u.classes)),
            reply: Reply::default(),
            last: None,
            selection: None,
            deferred: None,
            broadcast: None,
            indications: first_indications(&config),
            is_local: false,
            is_connected: false,
            outbox: VecDeque::new(),
            files: None,
            extras: None,
            stats: Counts::default(),
            config,
        }
    }

    /// As after a start: no events, no selection, no enabled classes; the points keep their values.
    pub(super) fn restart(&mut self, now: Now) {
        self.events.clear();
        self.timers = Timers::new();
        self.clock = Clock::new(self.config.clock_synchronized);
        self.solicited = Solicited::Idle;
        self.unsolicited = Unsolicited::new(self.config.unsolicited.map_or(Classes::NONE, |u| u.classes));
        self.forget_requests();
        self.files.iter_mut().for_each(|files| files.restart());
        self.broadcast = None;
        if let Some(extras) = &mut self.extras {
            extras.restart();
        }
        self.indications = self.indications.with(first_indications(&self.config));
        self.ask_for_time_later(now);
    }

    pub(super) fn handle_connected(&mut self, now: Now) {
        self.is_connected = true;
        self.unsolicited.halted = false;
        if !self.timers.is_set(Timer::NeedTime) {
            self.ask_for_time_later(now);
        }
        self.end_hold();
    }

    pub(super) fn handle_disconnected(&mut self) {
        self.is_connected = false;
        self.events.rearm();
        self.solicited = Solicited::Idle;
        self.unsolicited.reset();
        self.timers.clear(Timer::SolicitedConfirm);
        self.timers.clear(Timer::UnsolicitedConfirm);
        self.forget_requests();
    }

    fn forget_requests(&mut self) {
        self.last = None;
        self.selection = None;
        self.deferred = None;
        self.forget_repetitions();
        self.reply = Reply::default();
    }

    /// Takes a fragment from the master.
    pub(super) fn handle_fragment(&mut self, now: Now, bytes: &[u8], broadcast: Option<Broadcast>) {
        let fragment = match Fragment::parse(bytes) {
            Ok(fragment) => fragment,
            Err(FragmentError::UnknownFunction { control, .. }) if broadcast.is_none() => {
                self.stats.requests += 1;
                self.begin_request();
                self.last = None;
                self.set_reply(control.sequence, Outcome::only(Iin::NO_FUNC_CODE_SUPPORT));
                return;
            }
            Err(FragmentError::UnknownFunction { .. } | FragmentError::TooShort) => {
                self.stats.fragments_malformed += 1;
                return;
            }
        };
        // A request is one fragment (IEEE 1815 4.2.2.4.4).
        if fragment.function.is_response() || !fragment.control.fir || !fragment.control.fin {
            self.stats.fragments_malformed += 1;
            return;
        }
        match (fragment.function, broadcast) {
            (Function::Confirm, None) => self.handle_confirm(fragment.control),
            (Function::Confirm | Function::Read, Some(_)) => self.stats.fragments_malformed += 1,
            (_, Some(broadcast)) => self.handle_broadcast(now, &fragment, broadcast),
            (_, None) if self.files.is_some() && is_file_request(&fragment) => self.handle_file(now, bytes, &fragment),
            (Function::Read, None) => self.handle_read(bytes, &fragment),
            (_, None) => self.handle_request(now, bytes, &fragment),
        }
    }

    fn handle_broadcast(&mut self, now: Now, fragment: &Fragment<'_>, broadcast: Broadcast) {
        self.stats.requests += 1;
        self.broadcast = Some(broadcast);
        self.perform(now, fragment);
        self.share_request(fragment);
    }

    fn handle_read(&mut self, bytes: &[u8], fragment: &Fragment<'_>) {
        self.stats.requests += 1;
        self.begin_request();
        self.last = None;
        self.selection = None;
        if self.unsolicited.is_awaiting() {
            // IEEE 1815 5.1.1.2: reads wait until the unsolicited response is settled.
            self.deferred = Some(bytes.into());
        } else {
            self.start_read(fragment);
        }
    }

    fn handle_request(&mut self, now: Now, bytes: &[u8], fragment: &Fragment<'_>) {
        self.stats.requests += 1;
        self.begin_request();
        let digest = Digest::of(bytes);
        if self.last == Some(digest) {
            self.stats.requests_repeated += 1;
            if !fragment.function.is_unanswered() {
                self.solicited = Solicited::Reply;
            }
            return;
        }
        self.last = Some(digest);
        let outcome = self.perform(now, fragment);
        self.share_request(fragment);
        if !fragment.function.is_unanswered() {
            self.set_reply(fragment.control.sequence, outcome);
        }
    }

    /// Whatever is under way gives way to a new request.
    pub(super) fn begin_request(&mut self) {
        self.deferred = None;
        self.forget_file();
        self.stop_solicited();
        if self.unsolicited.halted {
            self.unsolicited.halted = false;
            self.end_hold();
        }
    }

    fn stop_solicited(&mut self) {
        match &self.solicited {
            Solicited::Idle | Solicited::Reply | Solicited::ReplyAwaits(_) => {}
            // What it wrote was confirmed; what is written belongs to a report between its fragments.
            Solicited::Reading(_) => {
                self.events.unselect();
                self.end_hold();
            }
            Solicited::Awaits(..) => {
                self.events.rearm();
                self.end_hold();
            }
        }
        self.timers.clear(Timer::SolicitedConfirm);
        self.solicited = Solicited::Idle;
    }

    pub(super) fn repeat_reply(&mut self) {
        self.solicited = Solicited::Reply;
    }

    pub(super) fn set_reply(&mut self, sequence: Sequence, outcome: Outcome) {
        self.stats.requests_refused += u64::from(outcome.iin.0 & REFUSALS.0 != 0);
        self.reply = Reply { sequence, iin: self.iin().with(outcome.iin), objects: outcome.objects };
        self.solicited = Solicited::Reply;
    }

    fn perform(&mut self, now: Now, fragment: &Fragment<'_>) -> Outcome {
        if !matches!(fragment.function, Function::Select | Function::Operate) {
            self.selection = None;
        }
        match fragment.function {
            Function::Write => self.write(now, fragment),
            Function::Select => self.select(now, fragment),
            Function::Operate => self.operate(now, fragment),
            Function::DirectOperate | Function::DirectOperateNoResponse => self.direct_operate(now, fragment),
            Function::ImmediateFreeze | Function::ImmediateFreezeNoResponse => self.freeze(now, fragment, false),
            Function::FreezeClear | Function::FreezeClearNoResponse => self.freeze(now, fragment, true),
            Function::FreezeAtTime | Function::FreezeAtTimeNoResponse => self.freeze_at_time(now, fragment),
            Function::ColdRestart => self.request_restart(true),
            Function::WarmRestart => self.request_restart(false),
            Function::EnableUnsolicited => self.enable_unsolicited(fragment, true),
            Function::DisableUnsolicited => self.enable_unsolicited(fragment, false),
            Function::AssignClass => self.assign_class(fragment),
            Function::InitializeApplication | Function::StartApplication | Function::StopApplication => {
                self.manage(fragment)
            }
            Function::SaveConfiguration => self.save_configuration(),
            Function::ActivateConfiguration => self.activate_configuration(fragment),
            Function::DelayMeasure => self.measure_delay(),
            Function::RecordCurrentTime => self.record_time(now),
            Function::Confirm
            | Function::Read
            | Function::InitializeData
            | Function::OpenFile
            | Function::CloseFile
            | Function::DeleteFile
            | Function::FileInfo
            | Function::AuthenticateFile
            | Function::AbortFile
            | Function::AuthenticationRequest
            | Function::AuthenticationRequestNoResponse
            | Function::Response
            | Function::UnsolicitedResponse
            | Function::AuthenticationResponse => Outcome::only(Iin::NO_FUNC_CODE_SUPPORT),
        }
    }

    fn handle_confirm(&mut self, control: AppControl) {
        if control.uns {
            if self.unsolicited.is_awaiting() && self.unsolicited.sequence == control.sequence {
                self.confirm_unsolicited();
            } else {
                self.stats.confirms_unexpected += 1;
            }
            return;
        }
        match core::mem::replace(&mut self.solicited, Solicited::Idle) {
            Solicited::ReplyAwaits(sequence) if sequence == control.sequence => {
                self.note_confirm(Timer::SolicitedConfirm)
            }
            Solicited::Awaits(sequence, rest) if sequence == control.sequence => {
                self.note_confirm(Timer::SolicitedConfirm);
                self.events.confirm();
                if let Some(rest) = rest {
                    self.solicited = Solicited::Reading(rest);
                }
            }
            other => {
                self.stats.confirms_unexpected += 1;
                self.solicited = other;
            }
        }
    }

    fn confirm_unsolicited(&mut self) {
        self.note_confirm(Timer::UnsolicitedConfirm);
        if self.unsolicited.phase != Phase::AwaitsNull {
            self.events.confirm();
        }
        self.unsolicited.finish(Phase::Ready);
        self.resume_deferred();
    }

    fn note_confirm(&mut self, timer: Timer) {
        self.timers.clear(timer);
        self.stats.confirms += 1;
        // A confirm of anything that carried IIN1.0 ends it.
        if self.broadcast == Some(Broadcast::ConfirmAlways) {
            self.broadcast = None;
        }
    }

    /// The read that waited for the unsolicited response.
    fn resume_deferred(&mut self) {
        let Some(bytes) = self.deferred.take() else { return };
        if let Ok(fragment) = Fragment::parse(&bytes) {
            if self.files.is_some() && is_file_request(&fragment) {
                return self.answer_deferred_file(&bytes, &fragment);
            }
            self.start_read(&fragment);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Now) {
        if let Some(files) = &mut self.files {
            files.handle_timeout(now);
        }
        if self.timers.has_passed(Timer::SolicitedConfirm, now.mono) {
            self.stats.confirms_missed += 1;
            self.stop_solicited();
        }
        if self.timers.take(Timer::UnsolicitedConfirm, now.mono) {
            self.stats.confirms_missed += 1;
            self.miss_unsolicited_confirm();
        }
        if self.timers.has_passed(Timer::UnsolicitedHold, now.mono) {
            self.end_hold();
        }
        if self.freeze_deadline().is_some_and(|deadline| deadline <= now.mono) {
            self.run_freezes(now);
        }
        if self.timers.take(Timer::NeedTime, now.mono) {
            self.indications = self.indications.with(Iin::NEED_TIME);
        }
    }

    fn miss_unsolicited_confirm(&mut self) {
        match self.unsolicited.phase {
            Phase::AwaitsNull => self.unsolicited.finish(Phase::Null),
            Phase::Awaits if self.is_interrupted() => {
                self.events.rearm_written();
                self.unsolicited.finish(Phase::Ready);
                if let Solicited::Reading(reading) = &mut self.solicited {
                    reading.is_uninterrupted = true;
                }
                self.end_hold();
            }
            Phase::Awaits if self.deferred.is_some() => {
                self.events.rearm();
                self.unsolicited.finish(Phase::Ready);
                self.end_hold();
            }
            Phase::Awaits if self.events.written_lost() => {
                // A repetition would not be the same: report again, under the next number.
                self.events.rearm();
                self.unsolicited.finish(Phase::Ready);
                self.end_hold();
            }
            Phase::Awaits if self.repetitions_are_left() => self.unsolicited.phase = Phase::Repeat,
            Phase::Awaits => {
                self.events.rearm();
                self.unsolicited.finish(Phase::Ready);
                self.unsolicited.halted = true;
                self.tell(OutstationEvent::UnsolicitedGivenUp);
            }
            Phase::Null | Phase::Ready | Phase::Repeat => {}
        }
        self.resume_deferred();
    }

    fn repetitions_are_left(&self) -> bool {
        let max = self.config.unsolicited.and_then(|u| u.retries_max);
        max.is_none_or(|max| self.unsolicited.repetitions < max)
    }

    pub(super) fn tell(&mut self, event: OutstationEvent) {
        self.outbox.push_back(event);
    }

    /// Tells what the owner could also look up: left out where too much waits for it.
    pub(super) fn tell_if_room(&mut self, event: OutstationEvent) {
        if self.outbox.len() < OUTBOX_MAX {
            self.tell(event);
        }
    }

    pub(super) fn ask_for_time_later(&mut self, now: Now) {
        match self.config.need_time_every {
            Some(every) => self.timers.set(Timer::NeedTime, now.mono + every),
            None => self.timers.clear(Timer::NeedTime),
        }
    }

    /// The indications of a response that is built at this moment.
    pub(super) fn iin(&self) -> Iin {
        let mut iin = self.indications;
        for (class, bit) in
            [(EventClass::Class1, Iin::CLASS_1), (EventClass::Class2, Iin::CLASS_2), (EventClass::Class3, Iin::CLASS_3)]
        {
            if self.events.waiting(class.into()) > 0 {
                iin = iin.with(bit);
            }
        }
        if self.events.is_overflown() {
            iin = iin.with(Iin::EVENT_BUFFER_OVERFLOW);
        }
        if self.broadcast.is_some() {
            iin = iin.with(Iin::BROADCAST);
        }
        if self.is_local { iin.with(Iin::LOCAL_CONTROL) } else { iin }
    }
}

fn first_indications(config: &OutstationConfig) -> Iin {
    if config.need_time_every.is_some() { Iin::DEVICE_RESTART.with(Iin::NEED_TIME) } else { Iin::DEVICE_RESTART }
}
