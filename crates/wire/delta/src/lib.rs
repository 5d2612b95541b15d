//! Deltas of topics: the codecs, the server side of a topic and the client side. The format is specified in
//! docs/delta.md.
//!
//! In: successive values of a topic ([`Stream`]), or its payloads ([`Decoder`]). Out: payloads, shared by all
//! subscribers with the same revision; values.
//!
//! [`Receiver`] has the decoders of a connection. For publishers, [`Sender`] has the streams of a connection, and
//! [`Intake`] the decoders of the server for it.
//!
//! Never: a clock, a packet of MQTT; never a value that differs from that of the sender: a payload that cannot be
//! applied is an error, and the whole value is requested.
//!
//! Read first: `header.rs` and `payload.rs` (the format), then `stream.rs`, `decoder.rs`.
//!
//! # Example
//!
//! ```
//! use tieline_core::{Body, Point, Value};
//! use tieline_delta::{CodecSet, Codecs, Decoded, Decoder, Revision, Stream};
//!
//! let mut codecs = Codecs::built_in();
//! let amps = |x: f64| Body::Point(Point { value: Value::Float(x), ..Point::default() });
//! let mut stream = Stream::new(Revision(7), &amps(49.98));
//! let mut decoder = Decoder::new(1 << 20);
//! decoder.apply(&stream.since(None, CodecSet::POINT).to_bytes(), &mut codecs)?;
//!
//! stream.update(&amps(49.99), CodecSet::POINT, &mut codecs);
//! let payload = stream.since(Some(Revision(7)), CodecSet::POINT).to_bytes();
//! assert_eq!(payload.len(), 2);
//! assert_eq!(decoder.apply(&payload, &mut codecs)?, Decoded::Value(amps(49.99)));
//! # Ok::<(), tieline_delta::DeltaError>(())
//! ```
//!
//! # Limits
//!
//! | limit | when full |
//! |---|---|
//! | [`RING_MAX`] deltas of a topic | the oldest is removed; a subscriber that is further behind gets the whole value |
//! | `value_bytes_max` of a [`Decoder`] | the payload is refused |
//! | [`SEVERAL_MAX`] updates in one payload | the whole value is sent |
//! | [`ReceiverLimits::topics_max`] | another topic is removed ([`ReceiverStats::forgotten`]) |
//! | [`SenderLimits`], [`IntakeLimits`] | the oldest topic is removed: its next value is sent, or requested, whole |
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod bounded;
mod codec;
mod decoder;
mod error;
mod header;
#[cfg(feature = "hunk")]
mod hunk;
mod intake;
mod offer;
mod payload;
mod point;
mod ready;
mod receiver;
mod sender;
mod stream;
#[cfg(feature = "zstd")]
mod zstd;

pub use codec::{Codec, CodecId, CodecSet, Codecs, Taken};
pub use decoder::{Decoded, Decoder};
pub use error::DeltaError;
pub use header::{Header, Kind, Low, Revision};
#[cfg(feature = "hunk")]
pub use hunk::Hunk;
pub use intake::{Intake, IntakeLimits, Refusal};
pub use offer::{CAUGHT_UP, CAUGHT_UP_TOPIC, MARK, PROPERTY, RESYNC_TOPIC, VERSION};
pub use payload::{Parts, Payload, SEVERAL_MAX, items};
pub use point::PointState;
pub use ready::ReadyDelta;
pub use receiver::{Event, Publish, Receiver, ReceiverLimits, ReceiverStats, is_mark};
pub use sender::{Saying, Sender, SenderLimits, SenderStats};
pub use stream::{Pace, RING_MAX, Stream, Updated};
#[cfg(feature = "zstd")]
pub use zstd::Zstd;

#[cfg(test)]
mod tests;
