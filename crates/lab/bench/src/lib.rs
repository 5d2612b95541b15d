//! The published scalability experiments, each compared with a floor that is measured in the same run.
//!
//! In: the options of an experiment ([`dnp3::Options`], [`alarms::Options`], [`bus::Options`], [`centre::Options`], [`control::Options`], [`failover::Options`],
//! [`fanout::Options`], [`field::Options`], [`history::Options`], [`seal::Options`]). Out: rows, as a table or as JSON whose keys have their units
//! ([`write_rows`]), and charts ([`curves`]).
//!
//! A floor moves the same bytes in the same groups over the same number of connections and threads, without any
//! protocol work. Each round runs the experiment and its floor once, in a random order. A ratio is the median of the
//! ratios of all rounds, so that other load on the machine affects both sides in the same way. If a run lost any data,
//! its row has no figures, only the reason.
//!
//! Never: a figure without its floor, a figure from a run that lost data.
//!
//! Read first: `dnp3/mod.rs`, then `load.rs`.

pub mod alarms;
pub mod bus;
pub mod centre;
pub mod control;
pub mod curves;
pub mod delay;
pub mod dnp3;
pub mod failover;
pub mod fanout;
pub mod field;
mod gate;
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
