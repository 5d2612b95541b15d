//! The polls of one device: which are due, and which is asked for next.

use super::{Device, Outstanding};
use crate::gates::Shared;
use crate::outbox::Outbox;
use crate::schedule::{NEVER, Timer};
use crate::{LinkState, Missed, PollClass, Urgency};
use core::time::Duration;
use tieline_core::{Instant, Now};

/// How much longer than this an interval is does not matter for whose turn it is.
const PATIENCE_MAX: Duration = Duration::from_secs(60);

impl Device {
    /// Begins with the plan, once the device is online.
    pub(super) fn start_polls(&mut self, now: Now, out: &mut Outbox) {
        let (is_first, is_owed) = (self.collection.first_round, self.collection.missed == Missed::Once);
        let paused_at = core::mem::replace(&mut self.paused_at, now.mono);
        for poll in &mut self.polls {
            poll.restart(now.mono);
            if is_first || (is_owed && poll.missed(paused_at, now.mono)) {
                poll.begin_fast(now.mono);
            }
        }
        self.plan_polls(now);
        self.plan_heartbeat(now);
        self.offer_poll(now, out);
    }

    /// Forgets what waits and what is out.
    pub(super) fn stop_polls(&mut self, now: Now, out: &mut Outbox) {
        for poll in self.outstanding.drain(..) {
            out.gates.ended(now.mono, poll.shared);
        }
        self.polls.iter_mut().for_each(|poll| poll.restart(now.mono));
        (self.timeouts_in_row, self.back_off) = (0, 0);
        if self.timers.is_set(Timer::Poll) || self.timers.is_set(Timer::Probe) {
            self.paused_at = now.mono;
        }
        for timer in [Timer::Poll, Timer::Gap, Timer::Lost, Timer::Probe, Timer::Heartbeat] {
            self.timers.clear(timer);
        }
        self.next_poll = None;
    }

    /// Gives back what it shares with others, and leaves all queues.
    pub(crate) fn leave(&mut self, now: Now, out: &mut Outbox) {
        self.stop_polls(now, out);
        if self.is_beating {
            out.heartbeats.retain(|other| *other != self.id);
        }
        if self.documents == 0 && self.sweep_from.is_none() {
            return;
        }
        for lane in &mut out.lanes {
            lane.sweeps.retain(|other| *other != self.id);
            lane.documents.retain(|(other, _)| *other != self.id);
        }
    }

    pub(super) fn plan_polls(&mut self, now: Now) {
        let is_planned = self.link == LinkState::Online && self.back_off == 0;
        let dues = self.polls.iter().map(|poll| poll.due(now.mono));
        let next = dues.min().filter(|_| is_planned).unwrap_or(NEVER);
        self.timers.set(Timer::Poll, next);
        if self.back_off == 0 {
            self.next_poll = (next != NEVER).then(|| now.utc.later(next.since(now.mono)));
        }
    }

    pub(super) fn polls_due(&mut self, now: Now, out: &mut Outbox) {
        let is_owed = self.collection.missed == Missed::Once;
        for poll in self.polls.iter_mut().filter(|poll| poll.is_due(now.mono)) {
            let class = poll.class();
            let is_out = |part| is_out(&self.outstanding, class, part);
            self.counts.polls_skipped += poll.pass(now.mono, is_owed, is_out);
        }
        self.plan_polls(now);
        self.offer_poll(now, out);
    }

    /// Lets the device wait for its turn, where something waits and nothing hinders.
    pub(crate) fn offer_poll(&mut self, now: Now, out: &mut Outbox) {
        if self.is_ready || !self.may_ask() {
            return;
        }
        let waiting = || self.polls.iter().filter(|poll| poll.waits_since().is_some());
        let first = waiting().min_by_key(|poll| poll.waits_since());
        let Some((first, every)) = first.zip(waiting().map(|poll| poll.every()).min()) else { return };
        if now.mono < self.free_at {
            return self.timers.set(Timer::Gap, self.free_at);
        }
        self.is_ready = true;
        let deadline = now.mono + patience(self.urgency, every);
        out.gates.enter(now.mono, self.id, self.place.shared, deadline, first.is_fast());
    }

    /// The poll to ask for: the one that waits longest.
    pub(crate) fn take_poll(&mut self, now: Now, shared: Shared) -> Option<(PollClass, u16)> {
        self.is_ready = false;
        if !self.may_ask() {
            return None;
        }
        // A poll may have ended since the device came to wait.
        if now.mono < self.free_at {
            self.timers.set(Timer::Gap, self.free_at);
            return None;
        }
        // Where all that waits of one class is still out, another may have its turn.
        let mut after: Option<(Option<Instant>, usize)> = None;
        loop {
            let waiting = self.polls.iter_mut().enumerate().filter(|(_, poll)| poll.waits_since().is_some());
            let later = waiting.map(|(at, poll)| ((poll.waits_since(), at), poll));
            let (key, poll) =
                later.filter(|(key, _)| after.is_none_or(|last| last < *key)).min_by_key(|(key, _)| *key)?;
            let class = poll.class();
            let Some(part) = poll.take(now.mono, |part| is_out(&self.outstanding, class, part)) else {
                after = Some(key);
                continue;
            };
            self.outstanding.push(Outstanding { class, part, since: now.mono, shared });
            self.plan_lost();
            return Some((class, part));
        }
    }

    pub(crate) fn set_parts(&mut self, now: Now, class: PollClass, parts: u16, out: &mut Outbox) {
        if let Some(poll) = self.polls.iter_mut().find(|poll| poll.class() == class) {
            poll.set_parts(now.mono, parts);
            self.plan_polls(now);
            self.offer_poll(now, out);
        }
    }

    pub(super) fn plan_lost(&mut self) {
        let first = self.outstanding.iter().map(|poll| poll.since).min();
        self.timers.set(Timer::Lost, first.map_or(NEVER, |since| since + self.poll_lost_after));
    }

    fn may_ask(&self) -> bool {
        let has_room = self.outstanding.len() < usize::from(self.collection.in_flight_max);
        let may_try = !self.is_silent() || self.outstanding.is_empty();
        self.link == LinkState::Online && has_room && may_try
    }
}

/// How long after it came up a turn should be given: the more urgent device and the shorter interval go first, and the
/// longest wait goes before all that come later.
fn patience(urgency: Urgency, every: Duration) -> Duration {
    let every = every.min(PATIENCE_MAX);
    match urgency {
        Urgency::Protection => Duration::ZERO,
        Urgency::Monitoring => every,
        Urgency::Bulk => every * 4,
    }
}

fn is_out(outstanding: &[Outstanding], class: PollClass, part: u16) -> bool {
    outstanding.iter().any(|poll| poll.class == class && poll.part == part)
}
