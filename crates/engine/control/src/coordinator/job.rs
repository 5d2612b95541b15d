//! One command from its call to its answer, and one point from its first command to its revert.

use crate::ControlPoint;
use crate::batch::BatchDone;
use crate::rules::ReadBack;
use crate::schedule::Owner;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use tieline_core::{Command, DeviceId, Instant, Point, PointId, Refusal, Value};

/// A point: its device, and its number there.
pub(super) type Key = (DeviceId, PointId);

/// The number of a job; the request's number in [`crate::Control`] and in the audit log.
pub(super) type JobId = u64;

/// Why a point is commanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobKind {
    /// A requester sets it.
    Set,
    /// A requester reverts it.
    Revert,
    /// The node reverts it: its holder's time is over, or an override is set on.
    EndOfHold,
}

/// How far a job has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// In the lane of its device.
    Waiting,
    /// With [`crate::Control`]; it may have been sent.
    Ordered,
    /// The device has answered; a reading is awaited.
    Confirming,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) kind: JobKind,
    pub(super) stage: Stage,
    /// The engine's number of the batch, and the place in it; none of [`JobKind::EndOfHold`].
    pub(super) batch: Option<(u64, usize)>,
    pub(super) group: Option<u64>,
    pub(super) requester: Arc<str>,
    pub(super) who: Arc<str>,
    pub(super) point: Arc<ControlPoint>,
    pub(super) command: Command,
    pub(super) shown: Box<str>,
    /// What a reading shows once it is done; none: nothing can be said.
    pub(super) expected: Option<Value>,
    /// Whether its requester had reserved the device when it was sent.
    pub(super) is_reserved: bool,
    /// The end of waiting, or of confirming.
    pub(super) deadline: Instant,
    pub(super) read_back: Option<ReadBack>,
    /// The last reading since it was sent, where it shows what is expected.
    pub(super) seen: Option<Point>,
    /// The last reading since it was sent.
    pub(super) last: Option<Point>,
    /// Why it is not known whether the device has carried it out.
    pub(super) uncertain: Option<Refusal>,
}

impl Job {
    pub(super) fn key(&self) -> Key {
        (self.point.device, self.point.point)
    }
}

/// The commands of one device: reverts first, then jobs in their order; one at a time is ordered.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) reverts: VecDeque<Key>,
    pub(super) jobs: VecDeque<JobId>,
    pub(super) ordered: Option<JobId>,
    pub(super) is_starved: bool,
}

/// Where a held point stands.
///
/// ```text
///          slot over            due              fed             outcome ok, confirmed
///  Held ─────────────▶ Due ───────────▶ Queued ───────▶ Reverting ───────────────────▶ (released)
///   ▲                   ▲ ▲               │ override, away │ failed
///   │ done              │ └── Blocked ◀───┘                └──▶ Due, later
///   └───── Superseded ──┘ refused
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldState {
    /// Its holder has the device.
    Held,
    /// It is to be reverted at a time.
    Due(Instant),
    /// It waits for the device, or for the end of an override.
    Blocked,
    /// Its revert is in the lane.
    Queued,
    /// Its revert is ordered, or waits for a reading.
    Reverting(JobId),
    /// It was to be reverted, and a new holder is about to command it.
    Superseded,
}

#[derive(Debug)]
pub(super) struct Hold {
    /// None where only an override reverts it.
    pub(super) owner: Option<Owner>,
    /// In engineering units; none: it is relinquished.
    pub(super) revert_to: Option<Value>,
    pub(super) state: HoldState,
    /// Whether a command was carried out, or may have been.
    pub(super) is_commanded: bool,
    /// Whether it is reverted in spite of an override.
    pub(super) is_failsafe: bool,
    pub(super) attempts: u32,
    /// The last attempt to revert it, where no command was sent since.
    pub(super) tried: Option<JobId>,
}

#[derive(Debug)]
pub(super) struct OpenBatch {
    pub(super) left: usize,
    pub(super) asked: Instant,
    pub(super) done: BatchDone,
}
