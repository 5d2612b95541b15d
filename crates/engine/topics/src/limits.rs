//! What the tree refuses, and what it counts.

use core::fmt;

/// Bounds of one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Topics that hold a value.
    pub topics_max: usize,
    /// Bytes of one payload: an opaque body, or the text or bytes of a point.
    pub payload_bytes_max: usize,
    /// Bytes of all paths, values and filters together, with a fixed charge for each entry.
    pub bytes_max: usize,
    /// Subscriptions of all subscribers.
    pub subscriptions_max: usize,
    /// Subscriptions of one subscriber.
    pub subscriber_subscriptions_max: usize,
    /// Topics that are remembered without a value or a subscriber, so that their next update is cheap. At least 1.
    pub idle_max: usize,
    /// Bytes of the cached sets of wildcard filters.
    pub set_bytes_max: usize,
    /// Distinct selectors of subscriptions: each is matched with each topic that its filter selects, once.
    pub selectors_max: usize,
    /// Those of one owner, where they have one.
    pub owner_selectors_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            topics_max: 4_000_000,
            payload_bytes_max: 1 << 20,
            bytes_max: 4 << 30,
            subscriptions_max: 16_000_000,
            subscriber_subscriptions_max: 1_000_000,
            idle_max: 65_536,
            set_bytes_max: 256 << 20,
            selectors_max: 256,
            owner_selectors_max: 64,
        }
    }
}

/// Why the tree did not take an update or a subscription. It is unchanged then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeError {
    /// The payload is longer than one may be.
    PayloadTooLong {
        /// Bytes of the payload.
        found: usize,
        /// [`Limits::payload_bytes_max`].
        max: usize,
    },
    /// As many topics hold a value as may.
    TopicsFull {
        /// [`Limits::topics_max`].
        max: usize,
    },
    /// The tree holds as many bytes as it may.
    BytesFull {
        /// [`Limits::bytes_max`].
        max: usize,
    },
    /// As many subscriptions are held as may be.
    SubscriptionsFull {
        /// [`Limits::subscriptions_max`].
        max: usize,
    },
    /// The subscriber holds as many subscriptions as it may.
    SubscriberFull {
        /// [`Limits::subscriber_subscriptions_max`].
        max: usize,
    },
    /// As many selectors of one owner narrow subscriptions as may.
    OwnerFull {
        /// [`Limits::owner_selectors_max`].
        max: usize,
    },
    /// As many selectors narrow subscriptions as may.
    SelectorsFull {
        /// [`Limits::selectors_max`].
        max: usize,
    },
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PayloadTooLong { found, max } => write!(f, "the payload has {found} bytes, expected at most {max}"),
            Self::TopicsFull { max } => write!(f, "the tree is full: {max} topics hold a value"),
            Self::BytesFull { max } => write!(f, "the tree is full: it holds {max} bytes"),
            Self::SubscriptionsFull { max } => write!(f, "the tree is full: it holds {max} subscriptions"),
            Self::SelectorsFull { max } => write!(f, "the tree is full: it holds {max} selectors of subscriptions"),
            Self::OwnerFull { max } => write!(f, "the user has {max} selectors of subscriptions, as many as it may"),
            Self::SubscriberFull { max } => write!(f, "the subscriber is full: it holds {max} subscriptions"),
        }
    }
}

impl core::error::Error for TreeError {}

/// Sizes at the moment, and counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Topics that hold a value.
    pub topics: usize,
    /// Bytes charged against [`Limits::bytes_max`].
    pub bytes: usize,
    /// Subscribers with at least one subscription.
    pub subscribers: usize,
    /// Subscriptions of all subscribers.
    pub subscriptions: usize,
    /// Distinct filters with a wildcard.
    pub wildcard_filters: usize,
    /// Levels of those filters, each shared by all that begin alike.
    pub wildcard_levels: usize,
    /// Topics that are remembered without a value.
    pub valueless: usize,
    /// Updates that replaced a topic's value.
    pub stored: u64,
    /// Updates that passed through.
    pub passed: u64,
    /// Updates that removed a topic's value.
    pub cleared: u64,
    /// Updates and subscriptions refused with a [`TreeError`].
    pub refused: u64,
    /// Idle topics forgotten for room.
    pub idle_forgotten: u64,
    /// Times that a topic's set of wildcard filters was computed.
    pub sets_computed: u64,
    /// Times that all sets were dropped because they reached [`Limits::set_bytes_max`].
    pub sets_flushed: u64,
}
