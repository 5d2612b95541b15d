//! When the next request may go: after the pause between frames, and after an answer that did not come, when what may
//! still be on its way has passed.

use super::{ClientConfig, NEVER};
use tieline_core::Instant;

#[derive(Debug)]
pub(super) struct Line {
    /// When the last byte came.
    heard: Instant,
    /// When the last byte of a request left.
    sent: Instant,
    /// An answer did not come: until when a line is waited for that is never quiet. [`NEVER`] where the last one did.
    draining: Instant,
}

impl Default for Line {
    fn default() -> Self {
        Self { heard: Instant::ZERO, sent: Instant::ZERO, draining: NEVER }
    }
}

impl Line {
    pub(super) const fn handle_input(&mut self, now: Instant) {
        self.heard = now;
    }

    pub(super) const fn handle_sent(&mut self, leaves: Instant) {
        (self.sent, self.draining) = (leaves, NEVER);
    }

    pub(super) const fn handle_lost(&mut self, until: Instant) {
        self.draining = until;
    }

    /// Two frames have a pause between them, and after an answer that did not come there is a quiet.
    pub(super) fn ready(&self, config: &ClientConfig) -> Instant {
        let ClientConfig { framing, pause, .. } = config;
        let silence = framing.silence().max(*pause);
        let after_input = match self.draining {
            NEVER => self.heard + silence,
            until => (self.heard + framing.drain().max(*pause)).min(until),
        };
        after_input.max(self.sent + silence)
    }
}
