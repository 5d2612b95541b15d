//! Topics derived from topics.
//!
//! In: views, once; then the new value of a topic, or that it has none any more, with the time; other views in their place
//! ([`Views::replace`]). Out: the new values of
//! derived topics, and which have none any more.
//!
//! Never: a subscriber, a history, a topic that no view has derived. JSON is read only for topics that a view takes.
//!
//! # What a view does
//!
//! ```text
//! source ─▶ from? ─▶ expand ─▶ when? ─▶ pick ─▶ to ─▶ contributions of the derived topic ─▶ first, or aggregate
//!                                                                                                │
//!                                              derived topic ◀─ throttle ◀─ delay ◀──────────────┘
//! ```
//!
//! Each source makes some contributions; each goes to one derived topic. A derived topic is there while it has one. Of
//! several it shows the one of the first source by name, or an aggregate of all. So what is derived depends on the
//! values of the sources alone, never on the order in which they came.
//!
//! Derived topics are sources of other views; views that would feed themselves are refused ([`Views::new`]).
//!
//! An update costs what it contributes, however many others contribute to the same topics: aggregates are kept up to date
//! (`tally.rs`), not worked out again.
//!
//! # Limits
//!
//! | limit | when full | counter |
//! |---|---|---|
//! | [`Limits::contributions_max`] | the source contributes nothing | [`Stats::refused`] |
//! | [`Limits::items_max`] | items of one source beyond it are left out | [`Stats::refused`] |
//! | [`Limits::waiting_max`] | changes of derived topics that are delayed: the oldest come early | [`Stats::hurried`] |
//!
//! Read first: `view.rs`, then `engine.rs`.
#![no_std]
extern crate alloc;

mod engine;
mod evaluate;
mod pace;
mod replace;
mod select;
mod tally;
mod template;
mod view;

pub use engine::{Limits, Output, Stats, Views};
pub use evaluate::{Contribution, Source, evaluate};
pub use select::{Condition, Pointer, SelectError};
pub use template::{Template, TemplateError};
pub use view::{Aggregate, Operation, Pick, View, ViewError, meets};

#[cfg(test)]
mod tests;
