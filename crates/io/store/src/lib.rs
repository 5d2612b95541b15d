//! History on disk: the folder of the journal, the embedded store, queries, and their output formats.
//!
//! In: bytes for [`FolderStorage`]; batches of [`Sample`]s with their journal position, for [`Store`]. Out: [`Row`]s,
//! and rows as text, CSV, JSON or Parquet. A batch and its position are written in one transaction, so a batch that is
//! written twice is stored once.
//!
//! Never: a decision about what is recorded, a thread, a protocol.
//!
//! Read first: `schema.rs`, then `sqlite.rs` and `query.rs`.

mod aggregate;
mod error;
mod export;
mod files;
mod parquet_file;
mod query;
mod retain;
mod row;
mod schema;
mod sqlite;
#[cfg(test)]
mod tests;

pub use aggregate::Aggregate;
pub use error::StoreError;
pub use export::{ExportError, Format, export};
pub use files::FolderStorage;
pub use query::{HistoryQuery, Order, Place, PlaceError, Rows, StoreReader};
pub use retain::{Retained, Retention};
pub use row::{Row, Sample};
pub use sqlite::Store;

/// The store's file below a node's data folder.
pub const STORE_FILE: &str = "history.db";
/// The journal's folder below a node's data folder.
pub const JOURNAL_FOLDER: &str = "journal";
