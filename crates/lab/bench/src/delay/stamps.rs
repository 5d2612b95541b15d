//! When a message passed which boundary, on the clock that all processes of a host share.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use tieline_dnp3::endpoint::Boundary;

/// Nanoseconds of the monotonic clock: the same in every process and network namespace of a host.
#[must_use]
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Who says what to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// The relay's command to the controller of the circuit breaker: protection.
    Command,
    /// The relay's report to the control centre, by its protection lane.
    RelayReport,
    /// The controller's report to the control centre: monitoring.
    BreakerReport,
}

impl Kind {
    /// All, in the order in which they are sent.
    pub const ALL: [Self; 3] = [Self::Command, Self::RelayReport, Self::BreakerReport];

    /// What the rows call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "relay→CB command",
            Self::RelayReport => "relay→centre report",
            Self::BreakerReport => "CB→centre report",
        }
    }
}

/// A message on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    pub kind: Kind,
    /// Which fault it belongs to.
    pub fault: u32,
    /// When it should have begun.
    pub due: u64,
    /// When the application was called.
    pub begun: u64,
    pub built: u64,
    pub framed: u64,
    /// When the call that writes it began, and when it ended.
    pub write: (u64, u64),
}

impl Sent {
    /// What room is made of.
    pub const NONE: Self =
        Self { kind: Kind::Command, fault: u32::MAX, due: 1, begun: 1, built: 1, framed: 1, write: (1, 1) };
}

/// A message that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    pub kind: Kind,
    pub fault: u32,
    /// When the call that read it began, and when it ended.
    pub read: (u64, u64),
    pub arrived: u64,
    pub found: u64,
    /// When the application had it.
    pub given: u64,
}

/// Room for so many, in memory that is there: a page that the system must find first takes up to milliseconds.
pub fn room<T: Copy>(like: T, count: u32) -> Vec<T> {
    let mut room = vec![like; usize::try_from(count).unwrap_or(0)];
    room.clear();
    room
}

impl Given {
    /// What room is made of.
    pub const NONE: Self = Self { kind: Kind::Command, fault: u32::MAX, read: (1, 1), arrived: 1, found: 1, given: 1 };
}

/// What a stamp costs in nanoseconds: the middle of a thousand.
#[must_use]
pub fn cost_ns() -> u64 {
    let mut all: Vec<u64> = (0..1000).map(|_| now_ns()).map(|before| now_ns() - before).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

thread_local! {
    static LAST: [Cell<u64>; 4] = const { [const { Cell::new(0) }; 4] };
}

/// Notes when a boundary was passed on this thread.
pub fn trace(boundary: Boundary) {
    let now = now_ns();
    LAST.with(|last| {
        if let Some(cell) = last.get(boundary as usize) {
            cell.set(now);
        }
    });
}

/// When a boundary was last passed on this thread.
#[must_use]
pub fn passed(boundary: Boundary) -> u64 {
    LAST.with(|last| last.get(boundary as usize).map_or(0, Cell::get))
}
