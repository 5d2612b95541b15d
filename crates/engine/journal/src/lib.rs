//! A durable, segmented, checksummed log over [`tieline_core::Storage`].
//!
//! In: records (bytes), storage calls that succeed or fail. Out: a sequence number a record, the last one that is
//! durable, the records again, in order, and what was lost, by name. Also here: the record of history, a batch of
//! updates as bytes ([`encode`], [`decode`]).
//!
//! What survives what: after [`Journal::write`] a record survives the end of the process; after [`Journal::sync`] it
//! survives a power cut. A failed sync is never tried again on the same file: all that was not durable is written
//! once more, to a new one.
//!
//! Never: a file name outside its folder, a clock, a thread, a record that was not appended.
//!
//! Read first: `segment.rs` (the format), then `journal.rs`.
#![no_std]
extern crate alloc;

mod journal;
mod reader;
mod record;
mod scan;
mod segment;
#[cfg(test)]
mod tests;

pub use journal::{Counters, Failure, Journal, JournalError, Limits, Recovery, State, WhenFull};
pub use reader::{Item, Lost, Reader};
pub use record::{RecordError, Sample, decode, encode};
pub use scan::{Damage, Fault, salvage};
pub use segment::{RECORD_BYTES_MAX, Seq};
