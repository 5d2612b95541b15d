//! The deadlines of a master, in one table.

use tieline_core::{Timer as Named, Timers as Table};

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The next fragment of a response.
    Response,
    /// The link's answer to a request for its status.
    Probe,
    /// The owner's release of a solicited confirm: other requests wait for it.
    Held,
    /// The next try of a duty that failed.
    Retry,
    /// The next integrity poll while IIN2.3 stays up.
    Overflow,
}

impl Named for Timer {
    const ALL: &'static [Self] = &[Self::Response, Self::Probe, Self::Held, Self::Retry, Self::Overflow];

    fn place(self) -> usize {
        self as usize
    }
}

/// When each deadline is, if it is set.
pub(super) type Timers = Table<Timer, { Timer::ALL.len() }>;
