//! When the next request may go: after the pause between frames, and after an answer that did not come, when what may
//! still be on its way has passed.

use crate::Framing;
use core::time::Duration;
use tieline_core::Instant;

#[derive(Debug)]
pub(super) struct Line {
    /// The pause between any two frames.
    silence: Duration,
    /// The quiet after an answer that did not come.
    drain: Duration,
    /// When the last byte came.
    heard: Instant,
    /// When the last byte of a request left.
    sent: Instant,
    /// An answer did not come: until when a line is waited for that is never quiet.
    draining: Option<Instant>,
}

impl Line {
    pub(super) fn new(framing: Framing, pause: Duration) -> Self {
        let (silence, drain) = (framing.silence().max(pause), framing.drain().max(pause));
        Self { silence, drain, heard: Instant::ZERO, sent: Instant::ZERO, draining: None }
    }

    pub(super) const fn handle_input(&mut self, now: Instant) {
        self.heard = now;
    }

    pub(super) const fn handle_sent(&mut self, leaves: Instant) {
        (self.sent, self.draining) = (leaves, None);
    }

    pub(super) const fn handle_lost(&mut self, until: Instant) {
        self.draining = Some(until);
    }

    pub(super) fn ready(&self) -> Instant {
        let after_input = match self.draining {
            None => self.heard + self.silence,
            Some(until) => (self.heard + self.drain).min(until),
        };
        after_input.max(self.sent + self.silence)
    }
}
