//! History on disk: the folder of the journal, files of chunks with their index, and the output formats of answers.
//!
//! In: bytes for [`FolderStorage`]; chunks of samples, as bytes with their summaries, for [`ChunkFiles`] and [`Index`]; edits of
//! samples for [`EditFile`]. Out: those again; [`Row`]s as text, CSV, JSON, Parquet or Arrow, and samples read from such files. What an earlier
//! release stored is read by [`OlderStore`].
//!
//! Never: what is in a chunk, a decision about what is recorded, a thread, a protocol.
//!
//! Read first: `index.rs`, then `chunk_files.rs`.

mod arrow_stream;
mod chunk_files;
mod day_check;
mod day_file;
mod day_pages;
mod day_reader;
mod edits;
mod error;
mod export;
mod files;
mod import;
mod index;
mod index_changes;
mod index_reader;
mod index_rules;
mod names;
mod older;
mod parquet_file;
mod row;
mod state_rows;
mod table;
#[cfg(test)]
mod tests;
mod topic_numbers;

pub use chunk_files::{ChunkFiles, Extent, file_name, history_files, read_chunk};
pub use day_check::{WrittenDay, day_file_check};
pub use day_file::{DayPlace, DayWriter, Fields};
pub use day_reader::DayFile;
pub use edits::{EDITS_FILE, EditCounts, EditFile, EditKind, EditQuery, EditRecord, Ended, NewEdit, TRAIL_MAX};
pub use error::StoreError;
pub use export::{Answer, ExportError, Extras, Format, RowPage, export, export_with, write_row};
pub use files::FolderStorage;
pub use import::{ImportError, Imported, ImportedValue, import, of_json, payload_kind, quality, reasons};
pub use index::{ChunkRow, ClosedDay, DAY_US, FileRow, Index, Moved, Removed};
pub use index_changes::ToErase;
pub use index_reader::{IndexReader, KnownFile, Salvage, TopicSums};
pub use index_rules::{DaySums, Outdated, RuleCounts, RuleRow};
pub use names::{NamedChunk, NamedFile, read_names};
pub use older::{OlderStore, Page};
pub use row::{Place, PlaceError, Row, ValueKind};
pub use state_rows::{STATE_FORMATS, StateRow, export_states};
pub use table::Piece;

/// The folder of the chunks and their index below a node's data folder.
pub const HISTORY_FOLDER: &str = "history";
/// The index in that folder.
pub const INDEX_FILE: &str = "index.db";
/// The file in which earlier releases stored history, below a node's data folder.
pub const OLDER_FILE: &str = "history.db";
/// The journal's folder below a node's data folder.
pub const JOURNAL_FOLDER: &str = "journal";
