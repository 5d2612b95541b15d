//! History's column: what is recorded of what passes the bus, and how it becomes durable.
//!
//! ```text
//! bus ── batch ─▶ journal thread ── durable ─▶ store thread ─▶ SQLite
//!  ▲                    │  ▲                        │
//!  └──── receipts ──────┘  └───── stored up to ─────┘
//! ```
//!
//! The journal thread takes all batches that wait, writes them with one call, makes them durable with one more, and
//! answers the receipts. The store thread reads the journal from behind its own position, which it commits with each
//! batch; so a crash between any two steps loses nothing and stores nothing twice.
//!
//! Read first: `writer.rs`.

mod mover;
mod recorder;
mod status;
mod writer;

pub use recorder::{Receipt, Receipts, Recorder, open};
pub use status::{HistoryState, HistoryStatus};
pub use writer::{HistoryError, HistoryOptions, HistoryWriter, Told};
