//! GOOSE of IEC 61850-8-1 without I/O: Ethernet frames, their data, a subscriber and a publisher of one control block each.
//!
//! In: frames and deadlines, typed calls of the owner (a member of the data set has another value). Out: what a message means to
//! a subscription ([`Received`]), and frames to send.
//!
//! ```text
//! bytes ─ Frame (addresses, tag, APPID) ─ Pdu (numbers, times) ─ Data ─ Subscriber ─ Received
//! bytes ◀──────────────────────────────────────────── Publisher ◀─ Value
//! ```
//!
//! Never: a socket, a clock, a thread; never a point or a topic; never a signature of IEC 62351-6, whose bytes are skipped.
//!
//! Read first: `frame.rs`, `pdu.rs`, `data.rs`, then `subscriber.rs` and `publisher.rs`; `shown.rs` prints messages as text.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod ber;
mod data;
mod frame;
mod path;
mod pdu;
mod publisher;
mod shown;
mod subscriber;
#[cfg(test)]
mod tests;
mod time;
mod value;

pub use ber::BerError;
pub use data::{Bits, DEPTH_MAX, Data, Members};
pub use frame::{ETHERTYPE, FRAME_BYTES_MAX, Frame, FrameError, FrameHead, MacAddress, VlanTag};
pub use path::{Path, PathError};
pub use pdu::{GooseError, Message, Pdu, PduError, PduHead};
pub use publisher::{Curve, Publisher, PublisherConfig, PublisherCounters, PublisherError};
pub use shown::{shown_data, shown_head};
pub use subscriber::{Misfit, Received, Simulation, Subscriber, SubscriberConfig, SubscriberCounters};
pub use time::{TimeQuality, UtcTime};
pub use value::{Value, ValueKind};
