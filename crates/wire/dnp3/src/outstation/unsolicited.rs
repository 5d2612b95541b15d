//! When an outstation reports on its own (IEEE 1815 clause 5.1).
//!
//! ```text
//! Null ─ sent ─▶ AwaitsNull ─ confirmed ─▶ Ready ─ events ─▶ sent ─▶ Awaits ─ confirmed ─▶ Ready
//!   ▲                │ timeout                                        │ timeout
//!   └────────────────┘                          Repeat ◀──────────────┤ repetitions left
//!                                               Ready, halted ◀───────┘ none left
//! ```

use crate::app::Sequence;
use crate::{Classes, Iin};

/// Where unsolicited reporting stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The null response that announces a restart must go out.
    Null,
    /// It awaits its confirm.
    AwaitsNull,
    /// Events may go out.
    Ready,
    /// A response with events awaits its confirm.
    Awaits,
    /// It must go out again.
    Repeat,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Unsolicited {
    pub(super) phase: Phase,
    /// Of the response that awaits its confirm, or of the next one.
    pub(super) sequence: Sequence,
    pub(super) repetitions: u16,
    /// What the response said of the outstation: a repetition is the same, byte for byte.
    pub(super) iin: Iin,
    pub(super) enabled: Classes,
    /// The events that wait have waited long enough for others.
    pub(super) is_due: bool,
    /// No repetition was confirmed: waits for something to happen.
    pub(super) halted: bool,
}

impl Unsolicited {
    pub(super) const fn new(enabled: Classes) -> Self {
        Self {
            phase: Phase::Null,
            sequence: Sequence::new(0),
            repetitions: 0,
            iin: Iin::NONE,
            enabled,
            is_due: false,
            halted: false,
        }
    }

    /// Whether a response is in flight: sent, and neither confirmed nor given up.
    pub(super) const fn is_awaiting(&self) -> bool {
        matches!(self.phase, Phase::Awaits | Phase::AwaitsNull | Phase::Repeat)
    }

    /// The response in flight is settled: the next one has the next number.
    pub(super) const fn finish(&mut self, phase: Phase) {
        self.phase = phase;
        self.sequence = self.sequence.next();
        self.repetitions = 0;
    }

    /// The connection is gone: what was in flight must go out again.
    pub(super) const fn reset(&mut self) {
        match self.phase {
            Phase::Null | Phase::Ready => {}
            Phase::AwaitsNull => self.finish(Phase::Null),
            Phase::Awaits | Phase::Repeat => self.finish(Phase::Ready),
        }
        self.halted = false;
    }
}
