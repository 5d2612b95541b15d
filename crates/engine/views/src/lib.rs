//! Topics derived from topics.
//!
//! In: views; then the new value of a topic or its removal, with the time; later, a new set of views
//! ([`Views::replace`]). Out: new values and removals of derived topics.
//!
//! Never: a subscriber, history, a topic that no view derives. JSON is parsed only for topics that are a source of a
//! view.
//!
//! # Processing
//!
//! ```text
//! source ─▶ from? ─▶ expand ─▶ when? ─▶ pick ─▶ to ─▶ contributions of the derived topic ─▶ first, or aggregate
//!                                                                                                │
//!                                              derived topic ◀─ throttle ◀─ delay ◀──────────────┘
//! ```
//!
//! Each source makes contributions; each contribution goes to one derived topic. A derived topic exists while it has a
//! contribution. If it has several, its value is that of the first source by name, or an aggregate of all. So derived
//! values depend only on the values of the sources, not on the order of updates.
//!
//! Derived topics can be sources of other views; cycles are refused ([`Views::new`]).
//!
//! The cost of an update depends only on its own contributions, not on the number of other contributions to the same
//! topics: aggregates are updated (`running.rs`), not computed again.
//!
//! # Limits
//!
//! | limit | when full | counter |
//! |---|---|---|
//! | [`Limits::contributions_max`] | the source contributes nothing | [`Stats::refused`] |
//! | [`Limits::items_max`] | items of one source beyond it are left out | [`Stats::refused`] |
//! | [`Limits::waiting_max`] | changes of derived topics that are delayed: the oldest come early | [`Stats::flushed_early`] |
//!
//! Read first: `view.rs`, then `engine.rs`.
#![no_std]
extern crate alloc;

mod engine;
mod evaluate;
mod pace;
mod replace;
mod running;
mod select;
mod template;
mod view;

pub use engine::{Limits, Output, Stats, Views};
pub use evaluate::{Contribution, Source, evaluate};
pub use select::{Condition, Pointer, SelectError};
pub use template::{Template, TemplateError};
pub use view::{Aggregate, Operation, Pick, View, ViewError, meets};

#[cfg(test)]
mod tests;
