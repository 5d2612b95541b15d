//! A durable, segmented, checksummed log over [`tieline_core::Storage`].
//!
//! In: records (bytes), results of storage calls. Out: a sequence number for each record, the number of the last
//! durable record, the records in order when read, and the sequence numbers of lost records. This crate also has the
//! record format of history, a batch of updates as bytes ([`encode`], [`decode`], [`Decoder`]).
//!
//! Durability: after [`Journal::write`] a record survives the end of the process; after [`Journal::sync`] it survives a
//! power cut. A failed sync is never repeated on the same file: all records that were not durable are written again, to
//! a new file.
//!
//! Never: a file name outside its folder, a clock, a thread, a record that was not appended.
//!
//! Read first: `segment.rs` (the format), then `journal.rs`.
#![no_std]
extern crate alloc;

mod journal;
mod limits;
mod reader;
mod record;
mod scan;
mod segment;
#[cfg(test)]
mod tests;

pub use journal::{Counters, Failure, Journal, JournalError, Recovery, State};
pub use limits::{Limits, WhenFull};
pub use reader::{Item, Lost, Reader};
pub use record::{
    Decoder, RecordError, Sample, begin_placed, decode, decode_with, encode, encode_noted, note_of, place_of,
};
pub use scan::{Damage, Fault, find_last, salvage};
pub use segment::{RECORD_BYTES_MAX, Seq};
