//! How polls end, and what follows from it: retries of a device that is silent, and the way back.

use super::points::UNTOLD;
use super::{Device, STATE_EVERY};
use crate::outbox::Outbox;
use crate::schedule::{Timer, next_on_grid};
use crate::{ConnectionHealth, Missed, PollClass, PollResult};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;
use tieline_core::{Now, Quality};

/// Polls failed in a row that make values stale.
const FAILURES_STALE: u32 = 2;
/// Timeouts in a row after which the plan is left.
const TIMEOUTS_SILENT: u32 = 2;
/// The text of an error at most.
const ERROR_BYTES_MAX: usize = 256;

impl Device {
    /// Returns whether it ends a round.
    pub(crate) fn poll_done(
        &mut self,
        now: Now,
        class: PollClass,
        part: u16,
        result: PollResult,
        out: &mut Outbox,
    ) -> bool {
        let at = self.outstanding.iter().position(|poll| poll.class == class && poll.part == part);
        let ended = at.map(|at| self.outstanding.swap_remove(at));
        self.counts.polls += 1;
        match result {
            PollResult::Ok => {
                self.see(now);
                self.failures_in_row = 0;
                self.restart = super::Restart::None;
                self.is_slow = false;
                if let Some(poll) = ended {
                    let rtt = now.mono.since(poll.since);
                    self.rtt = Some(rtt);
                    self.poll_times.add(rtt);
                    out.responses.record(rtt);
                    self.is_slow = self.slow_after.is_some_and(|limit| rtt > limit);
                }
            }
            PollResult::Timeout => {
                self.counts.timeouts += 1;
                self.poll_failed(now, "no answer in time", out);
            }
            PollResult::Error => self.poll_failed(now, "refused or broken off", out),
        }
        if let Some(poll) = ended {
            self.plan_lost();
            self.free_at = now.mono + self.gap_min;
            out.gates.ended(now.mono, poll.shared);
        }
        self.answered(now, result != PollResult::Timeout);
        self.is_error_told = false;
        let poll = self.polls.iter_mut().find(|poll| poll.class() == class);
        let is_round = poll.is_some_and(|poll| poll.end(now.mono, part));
        self.counts.rounds += u64::from(is_round);
        if is_round && self.back_off == 0 {
            self.plan_polls(now);
        }
        self.count(now);
        self.refresh(now, out);
        self.offer_poll(now, out);
        is_round
    }

    /// Ends polls whose end nobody reports.
    pub(super) fn polls_lost(&mut self, now: Now, out: &mut Outbox) {
        let after = self.poll_lost_after;
        let is_lost = |since| since + after <= now.mono;
        while let Some(poll) = self.outstanding.iter().find(|poll| is_lost(poll.since)).copied() {
            self.poll_done(now, poll.class, poll.part, PollResult::Timeout, out);
        }
    }

    /// Says what a poll that is about to fail failed of, or what went wrong besides.
    pub(crate) fn note_error(&mut self, now: Now, text: &str) {
        let cut = text.floor_char_boundary(ERROR_BYTES_MAX);
        self.last_error = Some((now.utc, Cow::Owned(String::from(text.get(..cut).unwrap_or_default()))));
        self.is_error_told = true;
        self.count(now);
    }

    /// Says what its connections are used for; the statistics follow as after a change of state.
    pub(crate) fn note_connections(&mut self, now: Now, connections: Box<[ConnectionHealth]>) {
        if self.connections != connections {
            self.connections = connections;
            self.timers.set(Timer::Stats, now.mono.max(self.stats_last + STATE_EVERY));
        }
    }

    fn poll_failed(&mut self, now: Now, text: &'static str, out: &mut Outbox) {
        if !self.is_error_told {
            self.last_error = Some((now.utc, Cow::Borrowed(text)));
        }
        self.counts.poll_failures += 1;
        self.failures_in_row = self.failures_in_row.saturating_add(1);
        self.is_slow = true;
        if self.failures_in_row == FAILURES_STALE && self.collection.stale_after_missed.is_none() {
            self.mark(now, Quality::STALE, UNTOLD, out);
        }
    }

    // A device that does not answer.

    /// Whether it is to be tried with one poll at a time.
    pub(super) const fn is_silent(&self) -> bool {
        self.collection.back_off_max.is_some() && self.timeouts_in_row >= TIMEOUTS_SILENT
    }

    pub(super) fn back_off_every(&self) -> Option<Duration> {
        let max = self.collection.back_off_max.filter(|_| self.back_off > 0)?;
        let every = self.polls.iter().map(|poll| poll.every()).min()?;
        let factor = 1u32.checked_shl(self.back_off).unwrap_or(u32::MAX);
        Some(every.saturating_mul(factor).min(max.max(every)))
    }

    fn answered(&mut self, now: Now, is_answer: bool) {
        if !is_answer {
            self.timeouts_in_row = self.timeouts_in_row.saturating_add(1);
            if self.is_silent() && self.outstanding.is_empty() {
                self.back_off(now);
            }
            return;
        }
        self.timeouts_in_row = 0;
        if self.back_off > 0 {
            self.resume(now);
        }
    }

    /// Leaves the plan for one attempt, later than the last.
    fn back_off(&mut self, now: Now) {
        if self.back_off == 0 {
            self.paused_at = now.mono;
        }
        self.back_off = self.back_off.saturating_add(1);
        self.polls.iter_mut().for_each(|poll| poll.restart(now.mono));
        self.plan_polls(now);
        let Some(every) = self.back_off_every() else { return };
        // Between half of it and one and a half, each device at its own moment.
        let at = next_on_grid(now.mono + every / 2, every, self.place.fraction);
        self.timers.set(Timer::Probe, at);
        self.next_poll = Some(now.utc.later(at.since(now.mono)));
    }

    pub(super) fn probe(&mut self, now: Now, out: &mut Outbox) {
        if let Some(poll) = self.polls.iter_mut().min_by_key(|poll| poll.every()) {
            poll.probe(now.mono);
        }
        self.offer_poll(now, out);
    }

    /// Returns to the plan.
    pub(super) fn resume(&mut self, now: Now) {
        self.back_off = 0;
        self.timers.clear(Timer::Probe);
        let paused_at = core::mem::replace(&mut self.paused_at, now.mono);
        let is_owed = self.collection.missed == Missed::Once;
        for poll in &mut self.polls {
            poll.restart(now.mono);
            if is_owed && poll.missed(paused_at, now.mono) {
                poll.begin_fast(now.mono);
            }
        }
        self.plan_polls(now);
    }
}
