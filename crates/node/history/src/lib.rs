//! History of updates: joins the journal, its folder and the store in two threads.
//!
//! In: batches of updates, each with a receipt or without. Out: receipts, called once the batch is as durable as
//! configured; and the store, which `tieline_store::StoreReader` reads.
//!
//! ```text
//!  record, submit ──▶ queue ──▶ journal thread ──▶ journal ──▶ store thread ──▶ store
//!                   (bounded)     │      ▲        (bounded)       │   (retention)
//!                       receipts ◀┘      └─── stored up to ◀──────┘
//! ```
//!
//! All that waits when the journal thread is free becomes one write and one sync (group commit). The store thread
//! takes what is durable and stores it with its journal position in one transaction, so nothing is stored twice; the
//! journal lets go of what is stored. When the disk is full or fails, nothing is acknowledged, updates are
//! counted and dropped, and both threads try again until it passes.
//!
//! Never: a socket, a decision about which updates are history.
//!
//! Read first: `writer.rs`.

mod journal_thread;
mod options;
mod queue;
mod status;
mod store_thread;
#[cfg(test)]
mod tests;
mod writer;

pub use options::{Durability, HistoryOptions};
pub use queue::{NotRecorded, Receipt};
pub use status::{HUNG_AFTER, HistoryState, HistoryStatus};
pub use writer::{HistoryError, HistoryHandle, HistoryWriter, MayRemove};
