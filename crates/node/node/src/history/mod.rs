//! History's column: what is recorded of what passes the bus. The crate `tieline-history` makes it durable.

mod owner;
mod recorder;

pub use owner::HistoryOwner;
pub use recorder::{Receipt, Receipts, Recorder};
