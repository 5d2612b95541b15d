//! What is kept of a topic, of an alarm, and of a place: the tables of the engine.

use crate::Kind;
use crate::alarm::{Flags, Service, Shelf};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use tieline_core::{Instant, Quality, Timestamp, Topic, Value};

/// The number of no row.
pub(crate) const NONE: u32 = u32::MAX;
/// A deadline that is not set, a moment that is not known.
pub(crate) const NEVER: Instant = Instant(u64::MAX);

/// A topic that has alarms, or that alarms look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InputId(pub(crate) u32);

/// What is known of a topic.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) topic: Topic,
    pub(crate) value: Value,
    /// The device's time of the value.
    pub(crate) time: Timestamp,
    /// When the last value came that was not bad.
    pub(crate) seen: Instant,
    /// The first of its rows, which are in the order of their kinds.
    pub(crate) first: u32,
    /// The nearest place: its own, where it is one.
    pub(crate) place: u32,
    pub(crate) quality: Quality,
    /// Whether a value came.
    pub(crate) is_known: bool,
    /// Whether it is the name of a place.
    pub(crate) is_place: bool,
    /// Whether it was declared as a topic: a place that was not has only `away`.
    pub(crate) is_declared: bool,
    /// Whether alarms of other topics look at it.
    pub(crate) has_dependents: bool,
    /// Of a place: whether it is reached; none: nobody said so yet.
    pub(crate) presence: Option<bool>,
}

impl Input {
    pub(crate) const fn new(topic: Topic, now: Instant) -> Self {
        Self {
            topic,
            value: Value::Null,
            time: Timestamp::from_micros(0),
            seen: now,
            first: NONE,
            place: NONE,
            quality: Quality::INITIAL,
            is_known: false,
            is_place: false,
            is_declared: false,
            has_dependents: false,
            presence: None,
        }
    }
}

/// One alarm: 32 bytes while there is nothing to say.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) input: u32,
    /// The next row of the same input.
    pub(crate) next: u32,
    /// The number of its rule.
    pub(crate) rule: u32,
    pub(crate) flags: Flags,
    pub(crate) kind: Kind,
    /// When the condition has lasted, or has been gone, for long enough.
    pub(crate) delay_at: Instant,
    pub(crate) detail: Option<Box<Detail>>,
}

/// What is kept of an alarm that is not normal, that came not long ago, or that is the cause of others.
#[derive(Clone, Debug)]
pub(crate) struct Detail {
    pub(crate) seq: u64,
    pub(crate) since: Timestamp,
    pub(crate) changed: Timestamp,
    pub(crate) time: Timestamp,
    pub(crate) value: Value,
    /// When it was last raised; [`NEVER`]: before the start.
    pub(crate) raised_at: Instant,
    pub(crate) acked_by: Option<Arc<str>>,
    pub(crate) repeats: u32,
    pub(crate) shelf: Option<Shelf>,
    pub(crate) service: Option<Service>,
    /// The row whose consequence it is.
    pub(crate) cause: u32,
    /// Its place in the list of its cause, or in that of its place.
    pub(crate) position: u32,
    pub(crate) consequences: Vec<u32>,
    /// Consequences, and theirs.
    pub(crate) count: u32,
    /// Its last activations, at most as many as are chattering.
    pub(crate) activations: Vec<Instant>,
    /// The deadlines of the timers but the delay and the watch.
    pub(crate) deadlines: [Instant; 4],
}

impl Detail {
    pub(crate) fn new() -> Self {
        Self {
            seq: 0,
            since: Timestamp::default(),
            changed: Timestamp::default(),
            time: Timestamp::default(),
            value: Value::Null,
            raised_at: NEVER,
            acked_by: None,
            repeats: 0,
            shelf: None,
            service: None,
            cause: NONE,
            position: NONE,
            consequences: Vec::new(),
            count: 0,
            activations: Vec::new(),
            deadlines: [NEVER; 4],
        }
    }
}

/// What an alarm waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// `on_delay` or `off_delay`.
    Delay,
    /// A value, for as long as the limit of `stale`.
    Watch,
    /// The end of shelving.
    Shelf,
    /// The end of being out of service.
    Service,
    /// The end of chattering.
    Chatter,
    /// Of a cause that has returned: the end of `gather`.
    Release,
}

impl Timer {
    /// Its place among the deadlines of [`Detail`].
    pub(crate) const fn place(self) -> Option<usize> {
        match self {
            Self::Delay | Self::Watch => None,
            Self::Shelf => Some(0),
            Self::Service => Some(1),
            Self::Chatter => Some(2),
            Self::Release => Some(3),
        }
    }
}

/// A site, a channel or a device: what is lost together.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) input: u32,
    pub(crate) parent: u32,
    pub(crate) children: Vec<u32>,
    /// Active alarms directly here that are the consequence of none.
    pub(crate) open: Vec<u32>,
}

/// The topics that a row looks at besides its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others {
    pub(crate) reference: u32,
    pub(crate) suppressing: u32,
}
