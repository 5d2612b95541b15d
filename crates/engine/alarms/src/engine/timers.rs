//! Deadlines.

use super::Alarms;
use crate::Limit;
use crate::alarm::{Event, Flags};
use crate::rows::{NEVER, Timer};
use core::time::Duration;
use tieline_core::{Instant, Now};

impl Alarms {
    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some((_, (id, timer))) = self.deadlines.take_next(now.mono) {
            self.forget(id, timer);
            match timer {
                Timer::Delay => {
                    let is_on = self.has(id, Flags::CONDITION) && !self.row(id).kind.is_momentary();
                    self.turn(now, id, is_on);
                }
                Timer::Watch => self.watch(now, id),
                Timer::Shelf => self.end_shelf(now, id, None),
                Timer::Service => self.end_service(now, id, None),
                Timer::Chatter => self.end_chattering(now, id),
                Timer::Release => self.release(now, id),
            }
        }
        if self.flood.has_ended(now.mono, &self.settings) {
            self.events.push_back(Event::Flood(false));
        }
    }

    /// No value may have come for too long.
    fn watch(&mut self, now: Now, id: u32) {
        let Some(time) = self.watched(id) else { return };
        let due = self.inputs[self.row(id).input as usize].seen + time;
        if due <= now.mono {
            self.set_timer(id, Timer::Watch, Some(now.mono + time));
            self.settle(now, id, true);
        } else {
            self.set_timer(id, Timer::Watch, Some(due));
        }
    }

    /// How long the rule of a row waits for a value.
    pub(super) fn watched(&self, id: u32) -> Option<Duration> {
        match self.rule(id).limit {
            Limit::Within(time) if !time.is_zero() => Some(time),
            Limit::Within(_) | Limit::None | Limit::Number(_) | Limit::Is(_) => None,
        }
    }

    /// Sets the deadline of a row's timer, or takes it away.
    pub(super) fn set_timer(&mut self, id: u32, timer: Timer, at: Option<Instant>) {
        let at = at.unwrap_or(NEVER);
        let before = self.exchange(id, timer, at);
        if before == at {
            return;
        }
        if before != NEVER {
            self.deadlines.remove(before, (id, timer));
        }
        if at != NEVER {
            self.deadlines.add(at, (id, timer));
        }
    }

    /// The deadline has been taken.
    fn forget(&mut self, id: u32, timer: Timer) {
        self.exchange(id, timer, NEVER);
    }

    fn exchange(&mut self, id: u32, timer: Timer, at: Instant) -> Instant {
        let Some(place) = timer.place() else {
            if timer == Timer::Delay {
                return core::mem::replace(&mut self.row_mut(id).delay_at, at);
            }
            let before = if at == NEVER { self.watches.remove(&id) } else { self.watches.insert(id, at) };
            return before.unwrap_or(NEVER);
        };
        if at == NEVER && self.detail(id).is_none() {
            return NEVER;
        }
        self.detail_mut(id).deadlines.get_mut(place).map_or(NEVER, |slot| core::mem::replace(slot, at))
    }
}
