//! What a master has to do: its own duties, and its owner's tasks.

use super::{MasterConfig, SubmitError};
use crate::{Classes, Control, GroupVar, Iin};
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    Duty(Duty),
    WriteTime(WriteTime),
    Read { request: ReadRequest, token: u64 },
    Command { control: Control, index: u16, step: CommandStep, until: Instant, token: u64 },
}

/// The second half of a time synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteTime {
    /// g50v3: when the request to record was sent.
    Recorded(Timestamp),
    /// g50v1: the time at which the request will arrive, so long after it is sent.
    AfterDelay { micros: u64 },
}

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandStep {
    Select,
    Operate,
    DirectOperate,
}

impl Work {
    /// Whether an output may operate when this is sent: it must not be sent twice.
    pub(super) const fn operates(&self) -> bool {
        matches!(self, Self::Command { step: CommandStep::Operate | CommandStep::DirectOperate, .. })
    }

    /// Whether it belongs to a command.
    pub(super) const fn is_command(&self) -> bool {
        matches!(self, Self::Command { .. })
    }

    /// Whether nobody waits for it any more.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        matches!(self, Self::Command { until, .. } if *until <= now)
    }

    /// Whether its answer brings measurements.
    pub(super) const fn reads(&self) -> bool {
        match self {
            Self::Read { .. } | Self::Duty(Duty::Integrity | Duty::PollEvents) => true,
            Self::Duty(Duty::Disable | Duty::ClearRestart | Duty::SyncTime | Duty::Enable)
            | Self::WriteTime(_)
            | Self::Command { .. } => false,
        }
    }

    pub(super) const fn token(&self) -> Option<u64> {
        match self {
            Self::Read { token, .. } | Self::Command { token, .. } => Some(*token),
            Self::Duty(_) | Self::WriteTime(_) => None,
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

/// The owner's tasks that wait: commands before reads, each kind in the order it came.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    commands: VecDeque<Work>,
    reads: VecDeque<Work>,
}

impl Queue {
    pub(super) fn push_command(&mut self, work: Work, max: u8) -> Result<(), SubmitError> {
        if self.commands.len() >= usize::from(max) {
            return Err(SubmitError::Full);
        }
        self.commands.push_back(work);
        Ok(())
    }

    pub(super) fn push_read(&mut self, work: Work, max: u8) -> Result<(), SubmitError> {
        if self.reads.len() >= usize::from(max) {
            return Err(SubmitError::Full);
        }
        self.reads.push_back(work);
        Ok(())
    }

    /// The first command that is not late.
    pub(super) fn pop_command(&mut self, now: Instant) -> Option<Work> {
        self.remove_command(|work| !work.is_late(now))
    }

    pub(super) fn pop_late(&mut self, now: Instant) -> Option<Work> {
        self.remove_command(|work| work.is_late(now))
    }

    fn remove_command(&mut self, wanted: impl Fn(&Work) -> bool) -> Option<Work> {
        let work = self.commands.remove(self.commands.iter().position(wanted)?);
        if self.commands.is_empty() {
            self.commands = VecDeque::new();
        }
        work
    }

    pub(super) fn pop_read(&mut self) -> Option<Work> {
        let work = self.reads.pop_front()?;
        if self.reads.is_empty() {
            self.reads = VecDeque::new();
        }
        Some(work)
    }

    /// When the first command is late.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let until = |work: &Work| if let Work::Command { until, .. } = work { Some(*until) } else { None };
        self.commands.iter().filter_map(until).min()
    }
}
