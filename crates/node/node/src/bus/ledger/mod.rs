//! The ledger's column: the state that the broker keeps over restarts, on the disk. The crate `tieline-ledger` says
//! what is written,
//! `tieline-journal` how; the bus decides when.
//!
//! ```text
//!  bus: changes ──▶ batches (the batch that is being made) ──▶ thread "ledger" ──▶ journal, a sync a batch
//!        acks     ◀── news: on the disk up to batch N ◀──┘
//! ```
//!
//! Read first: `batches.rs`.

mod batches;
mod lazy;
mod losses;
mod owner;
mod pending_ack;
mod status;
pub(crate) mod thread;

#[cfg(test)]
pub use batches::WAITING_BYTES_MAX;
pub use batches::{BATCH_BYTES, Compaction, LedgerBatches, MESSAGE_BYTES_MAX, Opened};
pub use owner::{LedgerOwner, died_at};
pub use pending_ack::PendingAck;
pub use status::{LedgerState, LedgerStatus};
pub use thread::News;
