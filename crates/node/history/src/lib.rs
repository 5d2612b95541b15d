//! History of updates: joins the journal, its folder and the store in two threads.
//!
//! In: batches of updates, each with or without a receipt. Out: receipts, called when the batch has the configured
//! durability; and the store, which `tieline_store::StoreReader` reads.
//!
//! ```text
//!  record, submit ──▶ queue ──▶ journal thread ──▶ journal ──▶ store thread ──▶ store
//!                   (bounded)     │      ▲        (bounded)       │   (retention)
//!                       receipts ◀┘      └─── stored up to ◀──────┘
//! ```
//!
//! All batches that wait when the journal thread is free are written and synced together (group commit). The store
//! thread takes durable batches and stores them with their journal position in one transaction, so nothing is stored
//! twice. The journal then removes what is stored. When the disk is full or fails, nothing is acknowledged, updates are
//! counted and dropped, and both threads try again until the disk works.
//!
//! Never: a socket, a decision about which updates are recorded.
//!
//! Read first: `writer.rs`, then `store.rs`.

mod journal_thread;
mod options;
mod queue;
mod running;
mod sqlite;
mod status;
mod store;
mod store_thread;
#[cfg(test)]
mod tests;
mod writer;

pub use options::{Durability, HistoryOptions};
pub use queue::{NotRecorded, Receipt};
pub use running::RunningInstant;
pub use status::{HUNG_AFTER, HistoryState, HistoryStatus};
pub use store::StoreError;
pub use writer::{HistoryError, HistoryHandle, HistoryWriter, MayRemove};
