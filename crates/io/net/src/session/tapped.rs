//! What a session tells its tap, where it has one.

use super::Session;
use crate::{Closed, Direction, Tap};
use std::rc::Rc;
use tieline_core::{Machine, Now};

impl<M: Machine> Session<M> {
    /// Gives all bytes that move from here on to a tap too. A session has one tap at most: a second one is not taken.
    pub fn set_tap(&self, tap: Rc<dyn Tap>) {
        self.close_passage();
        let _ = self.0.tap.set(tap);
    }

    #[inline]
    pub(super) fn tap(&self, now: Now, direction: Direction, bytes: &[u8]) {
        if let Some(tap) = self.0.tap.get() {
            tap.moved(now, direction, bytes);
        }
    }

    pub(super) fn tap_closed(&self, now: Now, why: Closed) {
        if let Some(tap) = self.0.tap.get() {
            tap.closed(now, why);
        }
    }
}
