//! The ledger's column: what the broker owes over restarts, on the disk. The crate `tieline-ledger` says what is written,
//! `tieline-journal` how; the bus decides when.
//!
//! ```text
//!  bus: changes ──▶ book (the batch that is made) ──▶ thread "ledger" ──▶ journal, a sync a batch
//!        promises ◀── news: on the disk up to batch N ◀──┘
//! ```
//!
//! Read first: `book.rs`.

mod book;
mod keeper;
mod lazy;
mod losses;
mod promise;
mod status;
pub(crate) mod thread;

#[cfg(test)]
pub use book::WAITING_BYTES_MAX;
pub use book::{BATCH_BYTES, LedgerBook, MESSAGE_BYTES_MAX, Opened, Walk};
pub use keeper::{LedgerKeeper, died_at};
pub use promise::Promise;
pub use status::{LedgerState, LedgerStatus};
pub use thread::News;
