//! All deadlines of an outstation.

use tieline_core::{Timer as Named, Timers as Table};

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// A solicited response awaits its confirm.
    SolicitedConfirm,
    /// An unsolicited response awaits its confirm.
    UnsolicitedConfirm,
    /// Events wait for others before they are reported unsolicited.
    UnsolicitedHold,
    /// The clock wants to be set again.
    NeedTime,
}

impl Named for Timer {
    const ALL: &'static [Self] =
        &[Self::SolicitedConfirm, Self::UnsolicitedConfirm, Self::UnsolicitedHold, Self::NeedTime];

    fn place(self) -> usize {
        self as usize
    }
}

/// Deadlines by timer.
pub(super) type Timers = Table<Timer, { Timer::ALL.len() }>;
