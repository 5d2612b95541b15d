//! The published scalability experiments of the field, each beside a floor that is measured in the same run.
//!
//! In: what to run ([`dnp3::Options`], [`bus::Options`], [`fanout::Options`], [`history::Options`], [`seal::Options`]). Out: rows, as a table or as JSON whose
//! keys carry their units ([`write_rows`]), and as curves ([`curves`]).
//!
//! A floor moves the same bytes in the same groups over the same number of connections and threads, without any of
//! the work. Each round runs the experiment and its floor once, in a random order; ratios are medians over the rounds
//! of one round's own ratio, so that what else the machine does touches both sides alike. A row of a run that lost
//! anything has no figures, only the reason.
//!
//! Never: a number without its floor, a number from a run that lost something.
//!
//! Read first: `dnp3/mod.rs`, then `load.rs`.

pub mod bus;
pub mod curves;
pub mod delay;
pub mod dnp3;
pub mod fanout;
pub mod history;
mod latency;
mod load;
mod memory_group;
mod process;
mod report;
mod rounds;
pub mod seal;
mod table;

pub use latency::Latency;
pub use report::{Progress, Shape, write_rows};
