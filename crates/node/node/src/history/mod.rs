//! History's column: what is recorded of what passes the bus. The crate `tieline-history` makes it durable.

mod keeper;
mod recorder;

pub use keeper::Keeper;
pub use recorder::{Receipt, Receipts, Recorder};
