//! Series that are calculated from series: expressions over topics.
//!
//! In: the text of an expression; samples of its inputs, in order of time ([`Changes`], [`Window`]) or as they come ([`Live`]). Out:
//! results, each with the time that it is of, and a quality.
//!
//! Never: a clock, a file, a bus; which samples there were before.
//!
//! ```text
//! text ─ Expression::parse ─▶ typed tree ─┬─ Changes: last values of the inputs, a result for each time at which one changes
//!                                         └─ Window: the samples of one input in an interval, a result for each interval
//! samples as they come ─ Live ─ in order of time, once they have waited ─▶ Changes
//! ```
//!
//! What calculates live and what calculates of history is the same code, so that both have the same results.
//!
//! # Limits
//!
//! | limit | when full |
//! |---|---|
//! | [`TEXT_BYTES_MAX`], [`NODES_MAX`], [`DEPTH_MAX`], [`INPUTS_MAX`] | the expression is refused |
//! | [`SERIES_MAX`], [`CHAIN_MAX`] | the set of series is refused |
//! | [`WAITING_MAX`] samples that wait for earlier ones | the oldest are taken early, and counted |
//!
//! Read first: `expression.rs`, then `parser.rs`, `evaluate.rs`, `live.rs`.
#![no_std]
extern crate alloc;

mod changes;
mod evaluate;
mod expression;
mod lexer;
mod live;
mod parser;
mod reading;
mod series;
#[cfg(test)]
mod tests;
mod window;

pub use changes::{Changes, Held};
pub use expression::{DEPTH_MAX, Expression, ExpressionError, Form, INPUTS_MAX, NODES_MAX, TEXT_BYTES_MAX};
pub use live::{AHEAD_MAX, Live, LiveCounts, WAITING_MAX};
pub use reading::{Reading, Scalar};
pub use series::{CHAIN_MAX, SERIES_MAX, Series, SetError, fingerprints, order};
pub use window::Window;
