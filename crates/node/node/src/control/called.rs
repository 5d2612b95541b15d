//! Who calls, what is under way of a call, and what became of it.

use super::command::CommandDone;
use super::tags::TagDone;
use std::sync::Arc;
use std::time::Duration;
use tieline_control::{Announcement, BatchDone, Pattern, PointOutcome, ScheduleEvent, ScheduleResult, TagRecord};
use tieline_core::{Refusal, Topic, Value};

/// Who asks for something.
#[derive(Clone, Debug)]
pub struct Call {
    /// The holder: whom reservations are of.
    pub requester: Arc<str>,
    /// The name in the audit log.
    pub who: Arc<str>,
}

/// What became of a call for many points.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// The points, as they were asked for.
    pub topics: Vec<Topic>,
    /// What became of each, and when.
    pub outcomes: Vec<Option<(PointOutcome, Duration)>>,
    /// How many of each kind.
    pub done: BatchDone,
}

impl Called {
    pub(super) fn new(topics: Vec<Topic>) -> Self {
        let outcomes = vec![None; topics.len()];
        Self { topics, outcomes, done: BatchDone::default() }
    }
}

/// What became of a request.
#[derive(Debug)]
pub enum Done {
    /// Of a command of one point.
    Command(CommandDone),
    /// Of a call for many points, or why it was not taken.
    Points(Result<Box<Called>, Refusal>),
    /// Of a reservation, or its end.
    Reservation(ScheduleResult),
    /// Of an override.
    Override(Result<(), Refusal>),
    /// Of a tag.
    Tag(Result<TagDone, Refusal>),
}

impl Done {
    /// What became of a command of one point; none where it was another request.
    #[must_use]
    pub fn into_command(self) -> Option<CommandDone> {
        match self {
            Self::Command(done) => Some(done),
            Self::Points(_) | Self::Reservation(_) | Self::Override(_) | Self::Tag(_) => None,
        }
    }
}

/// What is taken back where it could not be written down.
#[derive(Clone, Debug)]
pub enum Undo {
    /// Nothing: an end that is not on the disk is an end all the same, until a restart.
    Nothing,
    /// A task.
    Reservation {
        /// Whose.
        requester: Arc<str>,
        /// Its name.
        task: String,
    },
    /// An override.
    Override(Pattern),
    /// The tag of this number was placed.
    PlacedTag(u64),
    /// A tag was lifted: it is placed again.
    LiftedTag(TagRecord),
}

/// What others are told about reservations.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Who has a device.
    Announced(Announcement),
    /// A task was pre-empted, or a device changed hands.
    Changed(ScheduleEvent),
}

/// A call under way.
#[derive(Debug)]
pub(super) enum Open<A> {
    /// Of one point, with what its topic shows once it is done.
    Command(A, Option<Value>),
    /// Of many.
    Points(A, Called),
}
