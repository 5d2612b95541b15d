//! What a master has to do: its own duties, and its owner's tasks.

use super::task::{Meaning, Task};
use super::{MasterConfig, SubmitError, TimeSync};
use crate::{Classes, GroupVar, Iin};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use tieline_core::{Instant, Timestamp};

/// What a read asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadRequest {
    /// Classes, events before static data.
    Classes(Classes),
    /// All objects of a group and variation; variation 0 leaves the choice to the outstation.
    All(GroupVar),
    /// The points `first` to `last` of a group and variation.
    Range {
        /// The group and variation; variation 0 leaves the choice to the outstation.
        object: GroupVar,
        /// The first index.
        first: u16,
        /// The last index, not below the first.
        last: u16,
    },
}

/// A piece of work, at the step that it has reached.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Work {
    Duty(Duty),
    /// For the owner where it has a token.
    WriteTime {
        time: WriteTime,
        token: Option<u64>,
    },
    Task(Box<Task>),
}

/// The second half of a time synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteTime {
    /// g50v3: when the request to record was sent.
    Recorded(Timestamp),
    /// g50v1: the time at which the request will arrive, so long after it is sent.
    AfterDelay { micros: u64 },
}

impl Work {
    pub(super) const fn task(&self) -> Option<&Task> {
        match self {
            Self::Task(task) => Some(task),
            Self::Duty(_) | Self::WriteTime { .. } => None,
        }
    }

    /// Whether an output may operate when this is sent.
    pub(super) fn operates(&self) -> bool {
        self.task().is_some_and(Task::operates)
    }

    /// Whether it must not be sent twice.
    pub(super) fn is_once(&self) -> bool {
        self.task().is_some_and(Task::is_once)
    }

    /// Whether it sends controls.
    pub(super) fn is_control(&self) -> bool {
        self.task().is_some_and(Task::is_control)
    }

    /// Whether no answer comes.
    pub(super) fn is_unanswered(&self) -> bool {
        self.task().is_some_and(|task| task.request.is_unanswered())
    }

    /// Whether nobody waits for it any more.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.task().is_some_and(|task| task.is_late(now))
    }

    /// Whether its answer brings measurements.
    pub(super) fn reads(&self) -> bool {
        match self {
            Self::Duty(Duty::Integrity | Duty::PollEvents) => true,
            Self::Duty(Duty::Disable | Duty::ClearRestart | Duty::SyncTime | Duty::Enable) | Self::WriteTime { .. } => {
                false
            }
            Self::Task(task) => task.request.meaning == Meaning::Read,
        }
    }

    pub(super) fn token(&self) -> Option<u64> {
        match self {
            Self::Task(task) => Some(task.token),
            Self::WriteTime { token, .. } => *token,
            Self::Duty(_) => None,
        }
    }
}

/// What a master does by itself, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    ClearRestart,
    Disable,
    Integrity,
    Enable,
    SyncTime,
    PollEvents,
}

impl Duty {
    const ALL: [Self; 6] =
        [Self::ClearRestart, Self::Disable, Self::Integrity, Self::Enable, Self::SyncTime, Self::PollEvents];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The duties that are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Duties(u8);

impl Duties {
    /// The procedures of start-up; those that the configuration leaves out are not due.
    pub(super) const fn startup(config: &MasterConfig) -> Self {
        let mut duties = Self(0);
        if !config.disable_unsolicited.is_empty() {
            duties.add(Duty::Disable);
        }
        if !config.integrity.is_empty() {
            duties.add(Duty::Integrity);
        }
        if !config.enable_unsolicited.is_empty() {
            duties.add(Duty::Enable);
        }
        duties
    }

    pub(super) const fn add(&mut self, duty: Duty) {
        self.0 |= duty.bit();
    }

    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn remove(&mut self, duty: Duty) {
        self.0 &= !duty.bit();
    }

    pub(super) const fn contains(self, duty: Duty) -> bool {
        self.0 & duty.bit() != 0
    }

    /// Whether a procedure of start-up is due.
    pub(super) const fn is_starting(self) -> bool {
        self.0 & (Duty::Disable.bit() | Duty::Integrity.bit() | Duty::Enable.bit()) != 0
    }

    pub(super) fn first(self) -> Option<Duty> {
        Duty::ALL.into_iter().find(|duty| self.contains(*duty))
    }
}

/// The classes among `wanted` whose bits are set in IIN1.
pub(super) fn classes_of(iin: Iin, wanted: Classes) -> Classes {
    let bits = [(Iin::CLASS_1, Classes::CLASS_1), (Iin::CLASS_2, Classes::CLASS_2), (Iin::CLASS_3, Classes::CLASS_3)];
    let due = bits.into_iter().filter(|(bit, class)| iin.contains(*bit) && wanted.contains(*class));
    due.fold(Classes::NONE, |all, (_, class)| all.with(class))
}

/// The owner's tasks that wait: controls before all else, each kind in the order it came.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    controls: VecDeque<Box<Task>>,
    others: VecDeque<Box<Task>>,
}

impl Queue {
    /// Lets a task wait, unless `max` of its kind do.
    pub(super) fn push(&mut self, task: Box<Task>, max: u8) -> Result<(), SubmitError> {
        let lane = if task.is_control() { &mut self.controls } else { &mut self.others };
        if lane.len() >= usize::from(max) {
            return Err(SubmitError::Full);
        }
        lane.push_back(task);
        Ok(())
    }

    /// The first control that is not late.
    pub(super) fn pop_control(&mut self, now: Instant) -> Option<Work> {
        remove(&mut self.controls, |task| !task.is_late(now)).map(Work::Task)
    }

    /// The first of the others that is not late.
    pub(super) fn pop_other(&mut self, now: Instant) -> Option<Work> {
        let task = remove(&mut self.others, |task| !task.is_late(now))?;
        Some(match task.request.meaning {
            // There is nothing to measure before.
            Meaning::Time(TimeSync::Write) => {
                Work::WriteTime { time: WriteTime::AfterDelay { micros: 0 }, token: Some(task.token) }
            }
            _ => Work::Task(task),
        })
    }

    /// One that is late.
    pub(super) fn pop_late(&mut self, now: Instant) -> Option<Box<Task>> {
        [&mut self.controls, &mut self.others].into_iter().find_map(|lane| remove(lane, |task| task.is_late(now)))
    }

    /// Any.
    pub(super) fn pop(&mut self) -> Option<Box<Task>> {
        [&mut self.controls, &mut self.others].into_iter().find_map(|lane| remove(lane, |_| true))
    }

    /// When the first task is late.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.controls.iter().chain(&self.others).filter_map(|task| task.request.until).min()
    }
}

/// The first task that is wanted. An empty queue keeps no heap.
fn remove(lane: &mut VecDeque<Box<Task>>, wanted: impl Fn(&Task) -> bool) -> Option<Box<Task>> {
    let task = lane.remove(lane.iter().position(|task| wanted(task))?);
    if lane.is_empty() {
        *lane = VecDeque::new();
    }
    task
}
