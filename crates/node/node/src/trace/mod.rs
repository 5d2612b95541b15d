//! Protocol traces: what devices and the node said to each other, byte for byte, and in words.
//!
//! In: what the taps of sessions hear, and what the field says of its devices. Out: the last minute of each device, the minute
//! before it went away, files on the disk; lines for people, captures for Wireshark.
//!
//! ```text
//! session ─ tap ─▶ Ring (memory) ─┬─ copy, frozen copy ─▶ Viewer ─ Line     (http)
//!                                 ├─ followers ─────────▶ Viewer ─ Line
//!                                 └─ TraceDisk (a thread) ─ segments ─▶ Viewer, pcapng
//! ```
//!
//! Never: a protocol. What bytes mean a [`Decoder`] says, which the driver of the protocol has.
//!
//! Nothing here slows a session down: a record is copied into memory that is there already, a follower that does not keep up
//! misses records, and so does a disk; both are counted.
//!
//! Read first: `record.rs`, `ring.rs`, `viewer.rs`.

mod counters;
mod decoder;
mod disk;
mod no_bytes;
mod pcapng;
mod queue;
mod record;
mod ring;
mod store;
mod viewer;

pub use counters::{TraceCounters, read as read_counter};
pub use decoder::{CONNECTION_NAMES, Capture, Decoder, Message};
pub use disk::{TraceDisk, read_file};
pub use no_bytes::NoBytes;
pub use pcapng::PcapngWriter;
pub use record::Kind;
pub use store::{Copied, DeviceTraces, TraceAsk, TracedConnection};
pub use viewer::{Line, Selected, TraceLine, Viewer};
