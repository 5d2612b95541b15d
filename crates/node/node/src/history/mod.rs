//! History's column: records the updates that pass the bus. The crate `tieline-history` makes it durable.

mod databases;
mod owner;
mod recorder;

pub use owner::{HistoryOwner, Joined, OnChange, options_of};
pub use recorder::{Recorder, Stored};
