//! History's column: what is recorded of what passes the bus. The crate `tieline-history` makes it durable.

mod recorder;

pub use recorder::{Receipt, Receipts, Recorder, open};
