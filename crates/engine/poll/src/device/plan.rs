//! The polls of one device.

use super::{Device, Outstanding};
use crate::outbox::Outbox;
use crate::schedule::{NEVER, Timer, next_on_grid};
use crate::{LinkState, PollClass};
use tieline_core::Now;

impl Device {
    pub(super) fn plan_polls(&mut self) {
        let next = self.polls.iter().map(|poll| poll.due).min();
        self.timers.set(Timer::Poll, next.unwrap_or(NEVER));
    }

    pub(super) fn polls_due(&mut self, now: Now, out: &mut Outbox) {
        let is_online = self.link == LinkState::Online;
        for poll in self.polls.iter_mut().filter(|poll| poll.due <= now.mono) {
            let is_out = self.outstanding.is_some_and(|out| out.class == poll.class);
            if is_online && (is_out || poll.waits_since.is_some()) {
                self.counts.polls_skipped += 1;
            } else if is_online {
                poll.waits_since = Some(poll.due);
            }
            poll.due = next_on_grid(now.mono, poll.every, self.id);
        }
        self.plan_polls();
        self.offer_poll(now, out);
    }

    /// Puts the device among those that may be polled, where something waits and nothing hinders.
    pub(super) fn offer_poll(&mut self, now: Now, out: &mut Outbox) {
        let waits = self.polls.iter().any(|poll| poll.waits_since.is_some());
        if !waits || self.is_ready || self.outstanding.is_some() || self.link != LinkState::Online {
            return;
        }
        if now.mono < self.free_at {
            return self.timers.set(Timer::Gap, self.free_at);
        }
        self.is_ready = true;
        out.ready.push_back(self.id);
    }

    /// The poll to ask for: the one that waits longest.
    pub(crate) fn take_poll(&mut self, now: Now) -> Option<PollClass> {
        self.is_ready = false;
        if self.link != LinkState::Online {
            return None;
        }
        let waiting = self.polls.iter_mut().filter(|poll| poll.waits_since.is_some());
        let poll = waiting.min_by_key(|poll| poll.waits_since)?;
        poll.waits_since = None;
        self.outstanding = Some(Outstanding { class: poll.class, since: now.mono });
        self.timers.set(Timer::Lost, now.mono + self.poll_lost_after);
        Some(poll.class)
    }

    pub(super) fn stop_polls(&mut self) {
        self.outstanding = None;
        self.timers.clear(Timer::Lost);
        self.polls.iter_mut().for_each(|poll| poll.waits_since = None);
    }
}
