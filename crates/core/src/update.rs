//! A topic's new state, on its way to its subscribers.

use crate::{Point, Topic};
use bytes::Bytes;

/// What a topic holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A typed value with quality and time; JSON on the wire by default.
    Point(Point),
    /// Bytes as a publisher sent them.
    Opaque(Bytes),
}

/// One topic's new state.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Which topic.
    pub topic: Topic,
    /// Its new state.
    pub body: Body,
}
