//! History of updates: joins the journal, its folder and the store in two threads.
//!
//! In: batches of updates, each with or without a receipt. Out: receipts, called when the batch has the configured
//! durability; and answers to questions ([`HistoryReader`]).
//!
//! ```text
//!  record, submit ──▶ queue ──▶ journal thread ──▶ journal ──▶ store thread ──▶ store
//!                   (bounded)     │      ▲        (bounded)       │   (retention)
//!                       receipts ◀┘      └── needed no more ◀─────┘
//! ```
//!
//! All batches that wait when the journal thread is free are written and synced together (group commit). The store
//! thread takes durable batches into memory, where they can be read at once, and writes them as chunks of columns when there are
//! enough of them. The journal removes what chunks have. When the disk is full or fails, nothing is acknowledged, updates are
//! counted and dropped, and both threads try again until the disk works.
//!
//! People edit what answers show (`edits.rs`), while what was recorded stays.
//!
//! Another thread calculates series of what is recorded (`derived/`).
//!
//! Separate threads write the journal's records to databases that are not part of Tieline (`forward/`).
//!
//! Never: a socket, a decision about which updates are recorded.
//!
//! Read first: `writer.rs`, then `store.rs`, `columns/mod.rs`, `columns/rows.rs`.

pub mod calendar;
mod columns;
mod derived;
mod edits;
mod feed;
mod forward;
mod journal_thread;
mod options;
mod queue;
mod replicate;
mod running;
mod status;
mod store;
mod store_thread;
mod tail;
#[cfg(test)]
mod tests;
mod tools;
mod writer;

pub use columns::fill::Fill;
pub use columns::instant::Latest;
pub use columns::question::{HistoryQuery, Order};
pub use columns::reader::{HistoryReader, HistorySource};
pub use columns::rows::Rows;
pub use columns::state_rows::States;
pub use derived::{DerivedHandle, DerivedNews, DerivedParts, DerivedState, DerivedStatus, DerivedWriter};
pub use edits::{EditError, EditLimits, TEXT_BYTES_MAX, WHY_BYTES_MAX};
pub use feed::{JournalFeed, JournalPlace, JournalWatch};
pub use forward::DatabaseKeeper;
pub use forward::{DATABASES_FOLDER, DatabaseStatus, Forwarding, RESTORED_SITE, SITES_FOLDER, note_restored};
pub use options::{Durability, HistoryOptions};
pub use queue::{NotRecorded, Noted, Receipt};
pub use replicate::{Placed, ReplicaFile, ReplicaKind, Replicate, Replication, Withheld};
pub use running::RunningInstant;
pub use status::{HUNG_AFTER, HistoryState, HistoryStatus};
pub use store::{ByRules, Deleted, Deletion, Migration, Retention, Rule, Stage, StoreError};
pub use tail::{TAIL_ROWS_MAX, Tailed, tail};
pub use tieline_series::{Aggregate, Datum, Keep, Sample};
pub use tools::Watch;
pub use tools::repair::{RepairedHistory, repair};
pub use tools::rules::{Held, RuleStats};
pub use tools::stats::{HistoryStats, Taken};
pub use tools::verify::{Fault, VerifiedHistory};
pub use writer::{HistoryError, HistoryHandle, HistoryWriter, MayRemove};
