//! A master as one of several on a line.

use super::Master;
use super::timers::Timer;
use crate::channel::Member;

impl Member for Master {
    fn awaits_answer(&self) -> bool {
        self.timers.is_set(Timer::Response) || self.timers.is_set(Timer::Probe)
    }
}
