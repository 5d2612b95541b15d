//! History's column: records the updates that pass the bus. The crate `tieline-history` makes it durable.

mod databases;
mod owner;
mod recorder;

#[cfg(feature = "fabric")]
pub use owner::options_of;
pub use owner::{HistoryOwner, Joined, OnChange};
pub use recorder::{Recorder, Stored};
