//! The tree of last values, and the subscriptions to them.
//!
//! In: an [`Update`](tieline_core::Update) of a topic, subscriptions with MQTT filters. Out: the number and the version
//! of the topic, the subscribers of an update, pages of last values for new subscribers and for browsing.
//!
//! Never: the meaning of a payload, a session, a queue of messages. The snapshot of a new subscriber is a position in
//! the tree, not a list of values. An update leaves only the new state of its topic.
//!
//! # How an update finds its subscribers
//!
//! A path is looked up once by hash and leads to a slot. The slot has the last value, the subscribers of exactly this
//! topic, and the number of the set of wildcard filters that select it:
//!
//! ```text
//! path ─hash─▶ slot ─┬─ value, version, time
//!                    ├─ exact: [subscriber, options, id]…          8 bytes each, 12 with ids; sorted
//!                    └─ set ─▶ [filter, filter…] ─▶ filter: [subscriber, options, id]…
//! ```
//!
//! Topics that are selected by the same wildcard filters share one set, so `#` over a million topics costs four bytes a
//! topic. A filter with a selector is a filter of its own; a set contains it if the selector matches the topic. So an
//! expression is matched when a set is computed, never for an update. A set is computed when a topic is first used
//! after the set of *distinct* wildcard filters changed. A subscriber that joins or leaves a filter that others also
//! have invalidates nothing. If all subscribers of a topic are in one list, the list is iterated as a slice; several
//! lists are merged, because MQTT requires one delivery with all subscription identifiers (MQTT 5.0 section 3.3.4).
//!
//! # Pending topics
//!
//! [`PendingSet`] has the topics, not the values, that wait for one slow subscriber. Its size is bounded by the
//! subscriptions.
//!
//! [`Notices`] has the new and removed topics of which one subscriber must be notified; it is a set of topics too.
//!
//! # Locks
//!
//! [`Locks`] says which of several publishers may publish. Like a [`Condition`], the owner of the tree checks them together with
//! the update.
//!
//! # Limits
//!
//! | limit | when full | counter |
//! |---|---|---|
//! | [`Limits::topics_max`] | a new retained topic is refused | [`Stats::refused`] |
//! | [`Limits::payload_bytes_max`] | the update is refused | [`Stats::refused`] |
//! | [`Limits::bytes_max`] | idle topics are removed, then the update is refused | [`Stats::idle_forgotten`], [`Stats::refused`] |
//! | [`Limits::subscriptions_max`], [`Limits::subscriber_subscriptions_max`] | the subscription is refused | [`Stats::refused`] |
//! | [`Limits::selectors_max`], [`Limits::owner_selectors_max`] | the subscription is refused | [`Stats::refused`] |
//! | [`Limits::idle_max`] | the topic that has been idle longest is removed | [`Stats::idle_forgotten`] |
//! | [`Limits::set_bytes_max`] | all sets are recomputed | [`Stats::sets_flushed`] |
//! | [`LockLimits`] | the lock is refused | [`LockCounters::limited`] |
//!
//! # Example
//!
//! ```
//! use tieline_core::{Body, Filter, Now, Point, Topic, Update};
//! use tieline_topics::{Limits, Options, Snapshot, SubscriberId, Tree};
//!
//! let mut tree = Tree::new(Limits::default());
//! let filter = Filter::new("feeder/#")?;
//! tree.subscribe(SubscriberId(1), &filter, Options::default())?;
//!
//! let update = Update { topic: Topic::new("feeder/amps")?, body: Body::Point(Point::default()) };
//! let applied = tree.apply(Now::default(), update, true)?;
//! tree.matches(applied.topic).for_each(None, |to| assert_eq!(to.subscriber, SubscriberId(1)));
//!
//! let mut walk = Snapshot::new(filter);
//! assert_eq!(tree.next(&mut walk, 100).len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Read first: `tree.rs`, then `audience.rs`.
#![no_std]
extern crate alloc;

mod adopted;
mod audience;
mod browse;
mod busiest;
mod condition;
mod delivery_options;
mod fetch;
mod limits;
mod list;
mod locks;
mod notices;
mod order;
mod pending;
mod quality;
mod removal;
mod selector;
mod series;
mod slots;
mod subscribe;
mod tree;
mod wants;
mod wild;

pub use audience::{Audience, Match};
pub use browse::{Child, Page, Snapshot};
pub use busiest::{Busiest, Busy};
pub use condition::{Condition, Unmet};
pub use delivery_options::{DeliveryOptions, OverflowPolicy};
pub use fetch::{Fetch, Growth};
pub use limits::{Limits, Stats, TreeError};
pub use list::SubscriberId;
pub use locks::{
    Acquire, Acquired, LockAnswer, LockCounters, LockLimits, LockOwner, LockRefusal, LockScope, LockView, Locks,
    NotHeld,
};
pub use notices::{Notice, Notices, Watch};
pub use order::compare;
pub use pending::{Lane, PendingSet};
pub use quality::{Counts, Grade, QualityCounts};
pub use removal::{Lives, Removal};
pub use selector::{Selector, SelectorError};
pub use series::{Event, Keep, Last, Range, Series};
pub use subscribe::{Options, RetainHandling, Subscribed};
pub use tree::{Applied, Change, TopicId, Tree, View};
pub use wants::{Asking, Wants};

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
