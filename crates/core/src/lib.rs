//! The basic types that all other crates of Tieline share.
//!
//! In: nothing. Out: types that are legal by construction ([`Topic`], [`Filter`]), plain data ([`Point`], [`Update`],
//! [`Command`]), a cursor over bytes, and the two traits that separate decisions from I/O: [`Machine`] (bytes in, bytes
//! out, deadlines) and [`Storage`] (files).
//!
//! Never: a clock, a socket, a thread, a protocol.
//!
//! Read first: `point.rs`, then `published.rs`, `machine.rs`.
#![no_std]
extern crate alloc;

mod command;
mod cursor;
mod decimal;
pub mod fields;
mod histogram;
mod json;
mod machine;
mod point;
mod point_json;
mod published;
mod quality;
mod random;
mod reading;
mod storage;
mod time;
mod timers;
mod topic;
mod update;
mod value;
pub mod varint;
mod words;

pub use command::{Command, CommandMode, CommandOutcome, Refusal};
pub use cursor::{Cursor, Truncated};
pub use decimal::shortest;
pub use histogram::{CLASS_EDGES_US, CLASSES, Histogram, SharedHistogram};
pub use machine::Machine;
pub use point::Point;
pub use point_json::{PointJsonError, TimeWritten, json_string, json_value};
pub use published::{POINT_BYTES_MAX, PublishedPoint, worst_of_points};
pub use quality::{Quality, Validity};
pub use random::Random;
pub use reading::{DeviceId, PointId, Reading};
pub use storage::{Storage, StorageError, StorageErrorKind};
pub use time::{Instant, Now, Timestamp, TimestampError, parse_duration, parse_short_duration};
pub use timers::{Deadlines, Timer, Timers};
pub use topic::{Filter, FilterError, Topic, TopicError};
pub use update::{Body, Update};
pub use value::{Value, nearest_int};
pub use words::Words;
