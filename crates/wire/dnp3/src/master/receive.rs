//! Fragments from the outstation: which are taken, and what their headers say.

use super::task::Meaning;
use super::timers::Timer;
use super::work::{Duties, Duty, Work, classes_of};
use super::{
    Addressee, Answer, Confirm, Confirms, Health, Master, MasterEvent, OfflineReason, Reading, TaskOutcome, TimeSync,
};
use crate::Iin;
use crate::app::{AppControl, Found, Fragment, Function, Headers, Walk};
use crate::link::LinkAddress;
use core::time::Duration;
use tieline_core::Now;

/// Indications that come and go with every exchange.
const QUIET: Iin = Iin::BROADCAST.with(Iin::CLASS_1).with(Iin::CLASS_2).with(Iin::CLASS_3);

/// The time between integrity polls while IIN2.3 stays up.
const OVERFLOW_REST: Duration = Duration::from_secs(60);

/// What [`Master::handle_fragment`] needs to know of a fragment without holding on to it.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    control: AppControl,
    iin: Iin,
    empty: bool,
    brings: Brings,
    source: LinkAddress,
}

/// What the objects of a fragment are.
#[derive(Clone, Copy, Debug, Default)]
struct Brings {
    /// Measurements.
    measurements: u64,
    /// Whether any object reports a change.
    events: bool,
    /// Whether there is anything to give.
    objects: bool,
    /// Whether there are objects of file transfer.
    files: bool,
}

/// Fingerprints of unsolicited responses that may come again; 0 is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The last that was taken and the one before, which a network may bring again after it.
    taken: [u64; 2],
    /// The last that came too early.
    refused: u64,
}

/// How far the object headers of a fragment can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readable {
    /// To the end, passing over so many headers with objects that are unknown to us.
    Whole { unknown: u64 },
    /// To an object that is unknown to us: the peer did nothing wrong, and what came before it counts.
    Part,
    /// Something is wrong: nothing of it counts, and it is not confirmed (AN2013-004b).
    No,
}

impl Master {
    /// Looks at the fragment that the endpoint holds; lets go of it unless it has measurements to give.
    pub(super) fn handle_fragment(&mut self, now: Now, source: LinkAddress) {
        let parsed = Fragment::parse(self.endpoint.fragment());
        let Ok(Fragment { control, function, iin: Some(iin), objects }) = parsed else {
            match parsed {
                Ok(_) => self.counters.unexpected += 1,
                Err(_) => self.counters.malformed += 1,
            }
            self.endpoint.release();
            return;
        };
        let (readable, brings) = readable(objects);
        let arrived = Arrived { control, iin, empty: objects.is_empty(), brings, source };
        match readable {
            Readable::Whole { unknown } => self.counters.unsupported += unknown,
            Readable::Part => self.counters.unsupported += 1,
            Readable::No => self.counters.malformed += 1,
        }
        match function {
            Function::Response => self.handle_response(now, arrived, readable),
            Function::UnsolicitedResponse => self.handle_unsolicited(now, arrived, readable),
            Function::AuthenticationResponse => self.handle_authentication(now, iin),
            _ => self.counters.unexpected += 1,
        }
        if self.reading.is_none() {
            self.endpoint.release();
        }
    }

    fn handle_response(&mut self, now: Now, arrived: Arrived, readable: Readable) {
        let Arrived { control, iin, source, brings, .. } = arrived;
        let Some(pending) = self.pending.as_mut().filter(|pending| pending.accepts(control)) else {
            self.counters.unexpected += 1;
            return;
        };
        // Objects that answer no such request: of an answer to somebody before us. A confirm would end their events.
        let null = matches!(
            pending.work,
            Work::Duty(Duty::ClearRestart | Duty::Disable | Duty::Enable) | Work::WriteTime { .. }
        );
        if null && control.con && !arrived.empty {
            self.counters.unexpected += 1;
            return;
        }
        if readable == Readable::No {
            let outcome = match pending.work.is_control() {
                true => TaskOutcome::BadEcho { maybe_operated: pending.work.operates() },
                false => TaskOutcome::Malformed,
            };
            self.timers.clear(Timer::Response);
            self.fail_pending(now, outcome);
            self.go_offline(OfflineReason::Garbage);
            return;
        }
        pending.advance(control);
        // Fragments of an answer use up numbers as well (IEEE 1815 4.2.2.4.5): a late confirm of one of them must not
        // fit the answer to the next request.
        self.sequence = pending.next;
        let too_long = pending.fragments > self.config.fragments_max;
        let (reads, auto_poll) = (pending.work.reads(), pending.is_event_poll());
        self.counters.responses += 1;
        self.timers.clear(Timer::Response);
        self.heard();
        self.handle_indications(now, iin, false, auto_poll);
        self.tell_answer(source);
        if too_long {
            self.fail_pending(now, TaskOutcome::TooLong);
        } else if reads {
            self.begin_reading(control, brings, false);
        } else {
            if control.con {
                self.solicited = Confirms::due(control.sequence);
            }
            if control.fin || !self.is_raw() {
                self.finish_answer(now, iin);
            } else if !control.con {
                // Otherwise the wait begins with the confirm.
                self.await_response(now);
            }
        }
    }

    fn is_raw(&self) -> bool {
        let task = self.pending.as_ref().and_then(|pending| pending.work.task());
        task.is_some_and(|task| task.request.meaning == Meaning::Raw)
    }

    /// Gives what an answer says to whom only the owner knows what it means.
    fn tell_answer(&mut self, source: LinkAddress) {
        let Some(task) = self.pending.as_ref().and_then(|pending| pending.work.task()) else { return };
        let (token, meaning, addressee) = (task.token, task.request.meaning, task.request.addressee);
        if addressee == Addressee::Own {
            self.answer(token, Answer::Address(source.raw()));
        }
        if matches!(meaning, Meaning::Raw | Meaning::File) {
            let objects = self.endpoint.fragment().get(4..).unwrap_or_default();
            if !objects.is_empty() {
                let objects = objects.into();
                self.answer(token, Answer::Objects(objects));
            }
        }
    }

    /// What a fragment brings is to be given.
    fn begin_reading(&mut self, control: AppControl, brings: Brings, unsolicited: bool) {
        let Brings { measurements, events, objects, files } = brings;
        self.tell_files(files);
        self.counters.measurements += measurements;
        let confirm = control.con.then_some(Confirm { sequence: control.sequence });
        self.reading = Some(Reading { given: false, unsolicited, last: control.fin, confirm, events, objects });
    }

    /// Gives objects of file transfer that are not the answer to a request for them.
    fn tell_files(&mut self, files: bool) {
        if files {
            let objects = self.endpoint.fragment().get(4..).unwrap_or_default().into();
            self.events.push_back(MasterEvent::Files(objects));
        }
    }

    fn handle_unsolicited(&mut self, now: Now, arrived: Arrived, readable: Readable) {
        let Arrived { control, iin, empty, brings, .. } = arrived;
        if !(control.fir && control.fin && control.uns) {
            self.counters.malformed += 1;
            return;
        }
        if readable == Readable::No {
            self.go_offline(OfflineReason::Garbage);
            return;
        }
        self.heard();
        let fingerprint = fingerprint(self.endpoint.fragment());
        let is_duplicate = self.known.taken.contains(&fingerprint);
        // Objects that come again come under the indications of the first time, and IIN1.7 may have been cleared since:
        // where start-up takes longer than the time between repetitions, it would begin again for ever. Without objects
        // it may as well be the first response after another restart.
        if empty || !(is_duplicate || self.known.refused == fingerprint) {
            self.handle_indications(now, iin, true, false);
        }
        if is_duplicate {
            self.counters.duplicates += 1;
            // A confirm that the owner holds stays held: the outstation repeats because it waits for it.
            if control.con && !self.unsolicited.is_held() {
                self.unsolicited = Confirms::due(control.sequence);
            }
            return;
        }
        if !empty && !self.ready && self.duties.contains(Duty::Disable) {
            // Its values would be older than those of the integrity poll, which brings the events too. Once disabling
            // is answered, what still comes is confirmed: an outstation lets reads wait for that.
            self.counters.too_early += 1;
            self.known.refused = fingerprint;
            return;
        }
        let [last, _] = self.known.taken;
        self.known.taken = [fingerprint, last];
        self.counters.unsolicited += 1;
        if !empty {
            self.begin_reading(control, brings, true);
        } else if control.con {
            self.unsolicited = Confirms::due(control.sequence);
        }
    }

    /// The outstation has spoken sense.
    pub(super) fn heard(&mut self) {
        self.alive();
        if self.health != Health::Online {
            self.health = Health::Online;
            self.events.push_back(MasterEvent::Online);
        }
    }

    /// The link works. Where nothing else was heard, an answer of the application shows whether it does too: an
    /// outstation that reports by itself may have nothing to report for long.
    pub(super) fn handle_link_status(&mut self) {
        self.alive();
        if self.health == Health::Online {
            self.events.push_back(MasterEvent::LinkAlive);
        } else if !self.config.integrity.is_empty() {
            self.duties.add(Duty::Integrity);
        }
    }

    /// The link works.
    pub(super) fn alive(&mut self) {
        self.heard_at = self.now.mono;
        self.timers.clear(Timer::Probe);
    }

    pub(super) fn go_offline(&mut self, reason: OfflineReason) {
        // Silence says less than the garbage that came before it, on this connection.
        let known = reason == OfflineReason::Timeout && self.health == Health::Offline(OfflineReason::Garbage);
        if self.health != Health::Offline(reason) && !known {
            self.health = Health::Offline(reason);
            self.events.push_back(MasterEvent::Offline(reason));
        }
    }

    /// Acts on bits that came up; a bit that stays is acted on once.
    pub(super) fn handle_indications(&mut self, now: Now, iin: Iin, unsolicited: bool, answers_event_poll: bool) {
        let came_up = |bit| iin.contains(bit) && !self.iin.contains(bit);
        let (restart, overflow) = (came_up(Iin::DEVICE_RESTART), came_up(Iin::EVENT_BUFFER_OVERFLOW));
        if restart {
            self.counters.restarts += 1;
            self.note_secured_restart(now);
            self.events.push_back(MasterEvent::Restarted);
            // The outstation has forgotten what was enabled before.
            self.duties = self.duties.with(Duties::startup(&self.config));
            if self.config.clear_restart {
                self.duties.add(Duty::ClearRestart);
            }
            self.ready &= !self.duties.is_starting() && !self.config.clear_restart;
            // What was done before the restart is undone; what this fragment answers was done after it. Enabling, even
            // where it has yet to be repeated, is undone by the procedures that begin again.
            if let Some(pending) = &mut self.pending {
                pending.void = (unsolicited && !pending.unsent) || pending.work == Work::Duty(Duty::Enable);
            }
        }
        if overflow {
            self.counters.overflows += 1;
            self.events.push_back(MasterEvent::EventsLost);
        }
        self.read_after_overflow(now, iin, unsolicited, overflow);
        let rested = self.time_set_at.is_none_or(|at| now.mono >= at + self.config.time_sync_interval_min);
        if iin.contains(Iin::NEED_TIME) && self.config.time_sync != TimeSync::Never && rested {
            self.duties.add(Duty::SyncTime);
        }
        let due = classes_of(iin, self.config.event_poll);
        // An outstation that says so again in the answer to the poll gets the next one only if this one brought events.
        if !due.is_empty() && !answers_event_poll {
            self.classes_due = due;
            self.duties.add(Duty::PollEvents);
        }
        if iin.without(QUIET) != self.iin.without(QUIET) {
            self.events.push_back(MasterEvent::Indications(iin));
        }
        self.iin = iin;
    }

    /// Where events were lost, present values must be read: at once when IIN2.3 comes up, again when it goes, and now
    /// and then while it stays, because it says nothing of when the last event was lost.
    fn read_after_overflow(&mut self, now: Now, iin: Iin, unsolicited: bool, came_up: bool) {
        let is_up = iin.contains(Iin::EVENT_BUFFER_OVERFLOW);
        if self.config.integrity.is_empty() || !(is_up || self.iin.contains(Iin::EVENT_BUFFER_OVERFLOW)) {
            return;
        }
        let pending = self.pending.as_mut().filter(|pending| pending.work == Work::Duty(Duty::Integrity));
        let fragments = pending.as_ref().map_or(0, |pending| pending.fragments);
        if came_up || !is_up {
            self.timers.clear(Timer::Overflow);
            self.duties.add(Duty::Integrity);
            // Values that this answer brought before may be older than what was lost.
            if let Some(pending) = pending {
                pending.void |= fragments > u16::from(!unsolicited);
            }
        } else if !unsolicited && fragments == 1 {
            // Its values are as new as the bit.
            self.timers.clear(Timer::Overflow);
        } else if !self.timers.is_set(Timer::Overflow) {
            self.timers.set(Timer::Overflow, now.mono + OVERFLOW_REST);
        }
    }

    /// How many bytes could not be read so far, in frames and fragments.
    pub(super) fn garbage(&self) -> u64 {
        let link = self.endpoint.counters().link;
        link.header_crc_errors
            + link.body_crc_errors
            + link.length_errors
            + link.bytes_discarded
            + self.counters.malformed
    }
}

/// Checks every object header, so that a fragment that breaks in the middle gives nothing rather than half; with what
/// the objects are, up to where it can be read.
fn readable(objects: &[u8]) -> (Readable, Brings) {
    let (mut unknown, mut brings, mut others) = (0, Brings::default(), false);
    let mut readable = None;
    for header in Headers::new(Function::Response, objects) {
        match header {
            Ok(header) => {
                let measurements = header.measurement_count();
                brings.measurements += u64::try_from(measurements).unwrap_or(u64::MAX);
                brings.events |= measurements > 0 && header.is_event();
                brings.files |= header.object().group == 70;
                others |= header.brings_objects();
                unknown += u64::from(header.layout().is_none());
            }
            Err(error) if error.is_unsupported() => readable = Some(Readable::Part),
            Err(_) => readable = Some(Readable::No),
        }
    }
    brings.objects = brings.measurements > 0;
    if others {
        for found in Walk::new(objects) {
            if let Found::Object { event, .. } = found {
                brings.objects = true;
                brings.events |= event;
            }
        }
    }
    (readable.unwrap_or(Readable::Whole { unknown }), brings)
}

/// Tells a repetition from new events: the sequence number is part of it. Never 0.
fn fingerprint(fragment: &[u8]) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |sum: u64, word: [u8; 8]| {
        let mixed = (sum ^ u64::from_le_bytes(word)).wrapping_mul(ODD);
        mixed ^ (mixed >> 29)
    };
    let length = u64::try_from(fragment.len()).unwrap_or(u64::MAX);
    // Four sums side by side: each waits for its own multiplication only.
    let mut sums = [length, 1, 2, 3];
    let (words, rest) = fragment.as_chunks::<8>();
    let (fours, last) = words.as_chunks::<4>();
    for four in fours {
        sums.iter_mut().zip(four).for_each(|(sum, word)| *sum = mix(*sum, *word));
    }
    sums.iter_mut().zip(last).for_each(|(sum, word)| *sum = mix(*sum, *word));
    let mut padded = [0; 8];
    padded.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    sums.iter().fold(mix(0, padded), |whole, sum| mix(whole, sum.to_le_bytes())) | 1
}
