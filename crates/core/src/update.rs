//! A topic's new state, on its way to its subscribers.

use crate::{Point, PublishedPoint, Quality, Topic, Value};
use alloc::sync::Arc;
use bytes::Bytes;

/// What a topic holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A typed value with quality and time; JSON on the wire by default.
    Point(Point),
    /// A publisher's payload that is a point, with what it says.
    Published(Arc<PublishedPoint>),
    /// Bytes as a publisher sent them, which are no point.
    Opaque(Bytes),
}

impl Body {
    /// Takes a payload in: whether it is a point is decided here, once, and the body says it.
    #[must_use]
    pub fn read(payload: Bytes) -> Self {
        match PublishedPoint::read(payload) {
            Ok(point) => Self::Published(Arc::new(point)),
            Err(payload) => Self::Opaque(payload),
        }
    }

    /// No bytes: what removes a topic's value.
    #[must_use]
    pub const fn empty() -> Self {
        Self::Opaque(Bytes::new())
    }

    /// Whether it removes a topic's value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.published().is_some_and(Bytes::is_empty)
    }

    /// Bytes of the value, without quality and time of a point of the node.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        match self {
            Self::Published(point) => point.payload().len(),
            Self::Opaque(bytes) => bytes.len(),
            Self::Point(point) => match &point.value {
                Value::Text(text) => text.len(),
                Value::Bytes(bytes) => bytes.len(),
                Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 8,
            },
        }
    }

    /// The bytes as a publisher sent them; none of a point of the node.
    #[must_use]
    pub fn published(&self) -> Option<&Bytes> {
        match self {
            Self::Point(_) => None,
            Self::Published(point) => Some(point.payload()),
            Self::Opaque(bytes) => Some(bytes),
        }
    }

    /// The bytes that subscribers get.
    #[must_use]
    pub fn to_payload(&self) -> Bytes {
        match self {
            Self::Point(point) => point.to_json().into(),
            Self::Published(point) => point.payload().clone(),
            Self::Opaque(bytes) => bytes.clone(),
        }
    }

    /// The quality that is stated of a point; none where nothing is stated, and of what is no point.
    #[must_use]
    pub fn stated_quality(&self) -> Option<Quality> {
        match self {
            Self::Point(point) => Some(point.quality),
            Self::Published(point) => point.stated_quality(),
            Self::Opaque(_) => None,
        }
    }
}

/// One topic's new state.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Which topic.
    pub topic: Topic,
    /// Its new state.
    pub body: Body,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_point_costs_no_memory_for_those_that_are() {
        assert_eq!(size_of::<Body>(), size_of::<Point>());
    }
}
