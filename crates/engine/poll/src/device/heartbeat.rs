//! The value that shows a device that its master is there.

use super::Device;
use crate::outbox::Outbox;
use crate::schedule::{Timer, next_on_grid};
use crate::{HeartbeatValue, LinkState, PollEvent};
use tieline_core::{Now, Value};

impl Device {
    pub(super) fn plan_heartbeat(&mut self, now: Now) {
        let heartbeat = self.collection.heartbeat.filter(|_| self.link == LinkState::Online);
        match heartbeat {
            Some(beat) => {
                let at = next_on_grid(now.mono, beat.every, self.place.fraction);
                self.timers.set(Timer::Heartbeat, at);
            }
            None => self.timers.clear(Timer::Heartbeat),
        }
    }

    pub(super) fn beat(&mut self, now: Now, out: &mut Outbox) {
        if !self.is_beating {
            self.is_beating = true;
            out.heartbeats.push_back(self.id);
        }
        self.plan_heartbeat(now);
    }

    /// The heartbeat to write; none where the device went away meanwhile.
    pub(crate) fn take_heartbeat(&mut self) -> Option<PollEvent> {
        self.is_beating = false;
        let beat = self.collection.heartbeat.filter(|_| self.link == LinkState::Online)?;
        let count = self.beats;
        let (value, max) = match beat.value {
            HeartbeatValue::Toggle => (Value::Bool(count.is_multiple_of(2)), 1),
            HeartbeatValue::Count { max } => (Value::Int(i64::from(count.min(max))), max),
        };
        self.beats = if count >= max { 0 } else { count + 1 };
        Some(PollEvent::Heartbeat { device: self.id, point: beat.point, value })
    }
}
