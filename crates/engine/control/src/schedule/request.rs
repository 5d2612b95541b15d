//! What a schedule is asked, and what it answers, in the words of VOLTTRON's actuator agent.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Timestamp, Topic};

/// How a task stands against others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Pre-empts tasks of [`Priority::Low`] that have not started and those of [`Priority::LowPreempt`] always.
    High,
    /// Once started it is not pre-empted.
    Low,
    /// May be pre-empted at any time; once started it keeps its current slots for the grace time.
    LowPreempt,
}

impl Priority {
    /// The word in requests: `HIGH`, `LOW` or `LOW_PREEMPT`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "HIGH",
            Self::Low => "LOW",
            Self::LowPreempt => "LOW_PREEMPT",
        }
    }

    /// The priority of a word, which is in capitals.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::High, Self::Low, Self::LowPreempt].into_iter().find(|priority| priority.name() == name)
    }
}

/// The `type` of a request over publish and subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestType {
    /// `NEW_SCHEDULE`.
    New,
    /// `CANCEL_SCHEDULE`.
    Cancel,
}

impl RequestType {
    /// Reads the header `type`.
    ///
    /// # Errors
    /// The failure `INVALID_REQUEST_TYPE`.
    pub fn from_name(name: Option<&str>) -> Result<Self, ScheduleResult> {
        match name {
            Some("NEW_SCHEDULE") => Ok(Self::New),
            Some("CANCEL_SCHEDULE") => Ok(Self::Cancel),
            Some(_) | None => Err(ScheduleResult::failure("INVALID_REQUEST_TYPE")),
        }
    }
}

/// A request for time at devices, as it came: [`crate::Schedule::request`] checks it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewSchedule {
    /// Who asks: the holder, whose end [`crate::Coordinator::handle_holder_gone`] tells.
    pub requester: Option<String>,
    /// The task's name, which no other task may have.
    pub task: Option<String>,
    /// `HIGH`, `LOW` or `LOW_PREEMPT`.
    pub priority: Option<String>,
    /// The time slots.
    pub slots: Vec<SlotRequest>,
    /// How long the requester may be silent once the task has a device; none: until the last slot ends.
    pub lease: Option<Duration>,
}

/// A time slot as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRequest {
    /// The device's topic; slashes around it are dropped.
    pub device: String,
    /// RFC 3339; without a zone in UTC.
    pub start: String,
    /// RFC 3339; without a zone in UTC.
    pub end: String,
}

/// The time from `start` until before `end` at one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The device's topic.
    pub device: Topic,
    /// Its first moment.
    pub start: Timestamp,
    /// The first moment after it.
    pub end: Timestamp,
}

/// Who has a device for a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The requester.
    pub requester: Arc<str>,
    /// The requester's task.
    pub task: Arc<str>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleResult {
    /// Why it failed. On success it is empty, or `TASK_WERE_PREEMPTED`.
    pub info: String,
    /// What goes with it.
    pub data: ScheduleData,
    /// On success: the lease of the task that was granted or renewed.
    pub lease: Option<Duration>,
}

/// What goes with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleData {
    /// Nothing.
    Empty,
    /// On success: the tasks that were pre-empted.
    Preempted(Vec<Owner>),
    /// On `CONFLICTS_WITH_EXISTING_SCHEDULES`: the tasks in the way, and their slots.
    Conflicts(Vec<(Owner, Vec<Slot>)>),
}

impl ScheduleResult {
    /// `SUCCESS` or `FAILURE`.
    #[must_use]
    pub const fn result(&self) -> &'static str {
        if self.is_success() { "SUCCESS" } else { "FAILURE" }
    }

    /// Whether the request was granted.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.info.is_empty() || matches!(self.data, ScheduleData::Preempted(_))
    }

    pub(crate) fn success(data: ScheduleData) -> Self {
        let is_preempting = matches!(&data, ScheduleData::Preempted(losers) if !losers.is_empty());
        let info = if is_preempting { "TASK_WERE_PREEMPTED" } else { "" };
        Self { info: info.into(), data, lease: None }
    }

    /// A request that failed.
    #[must_use]
    pub fn failure(info: impl Into<String>) -> Self {
        Self { info: info.into(), data: ScheduleData::Empty, lease: None }
    }
}

/// What the owner of a schedule learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleEvent {
    /// A task was pre-empted: the result `PREEMPTED` for its requester.
    Preempted {
        /// The task that loses.
        owner: Owner,
        /// The task that wins.
        by: Owner,
        /// How long it keeps what it has now; zero where it had not started.
        grace: Duration,
    },
    /// A task ends: its requester gave no sign of life for the time of its lease.
    LeaseExpired {
        /// The task.
        owner: Owner,
        /// Its lease.
        lease: Duration,
    },
    /// A device changed hands, or became free or taken.
    Changed {
        /// The device's topic.
        device: Topic,
        /// Who had it.
        before: Option<Owner>,
        /// Who has it.
        after: Option<Owner>,
    },
}

/// The state of a reserved device, for `schedule/announce/<device>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The device's topic.
    pub device: Topic,
    /// Who has it.
    pub owner: Owner,
    /// What is left of the slot.
    pub window: Duration,
}

/// A task as it outlives a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// Whose.
    pub owner: Owner,
    /// How it stands against others.
    pub priority: Priority,
    /// What it has.
    pub slots: Vec<Slot>,
    /// Whether it was pre-empted, and when its grace time ends.
    pub grace_end: Option<Timestamp>,
    /// How long its requester may be silent.
    pub lease: Option<Duration>,
}

/// Bounds of one schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleLimits {
    /// Tasks.
    pub tasks_max: usize,
    /// Slots of all tasks together.
    pub slots_max: usize,
    /// Bytes of a requester or a task's name.
    pub name_bytes_max: usize,
    /// Events and records that wait to be taken; a request is refused while there are more.
    pub waiting_max: usize,
    /// How long a pre-empted task keeps what it has.
    pub grace: Duration,
    /// How often the state of all reserved devices is announced.
    pub announce_every: Duration,
}

impl Default for ScheduleLimits {
    fn default() -> Self {
        Self {
            tasks_max: 10_000,
            slots_max: 131_072,
            name_bytes_max: 512,
            waiting_max: 262_144,
            grace: Duration::from_secs(60),
            announce_every: Duration::from_secs(60),
        }
    }
}
