//! What must outlive a restart. The caller writes it down, in a form of its own, and gives it back.

use crate::pattern::Pattern;
use crate::schedule::{Owner, TaskRecord};
use crate::tags::TagRecord;
use alloc::sync::Arc;
use tieline_core::{Timestamp, Topic, Value};

/// A change of what outlives a restart. Later entries of the same task, point or pattern replace earlier ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A task was added, or has lost slots.
    Task(TaskRecord),
    /// A task has ended.
    TaskEnded {
        /// Its name.
        task: Arc<str>,
    },
    /// A point is about to be commanded under a reservation, or has a new holder. Durable before the command is sent.
    Held(HoldRecord),
    /// A point is as it was before it was commanded.
    Released {
        /// Its topic.
        topic: Topic,
    },
    /// A pattern was set on, or made longer.
    Override(OverrideRecord),
    /// A pattern was set off, or its time is over.
    OverrideEnded {
        /// The pattern.
        pattern: Pattern,
    },
    /// A tag was placed.
    Tag(TagRecord),
    /// A tag was lifted.
    TagLifted {
        /// Its number.
        id: u64,
    },
}

/// A point that must be reverted when its holder's time ends.
#[derive(Clone, Debug, PartialEq)]
pub struct HoldRecord {
    /// The point's topic.
    pub topic: Topic,
    /// Who commanded it; none where an override reverts it.
    pub owner: Option<Owner>,
    /// What it is reverted to, in engineering units; none: it is relinquished.
    pub revert_to: Option<Value>,
    /// Whether it is reverted in spite of an override.
    pub is_failsafe: bool,
}

/// An override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideRecord {
    /// The pattern.
    pub pattern: Pattern,
    /// When it ends; none: when it is set off.
    pub end: Option<Timestamp>,
    /// Who set it on.
    pub who: Arc<str>,
}
