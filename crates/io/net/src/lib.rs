//! Drives any [`tieline_core::Machine`] over TCP: the only place where Tieline waits for a socket.
//!
//! In: machines, addresses, limits. Out: octets on sockets, and events to an [`Owner`].
//!
//! Never: a protocol, a decision, a thread that shares a session with another. A session lives on one [`Shard`] from
//! accept to close; what crosses shards is its owner's business.
//!
//! One exchange costs one `recv`, one `send` and the wait between: input goes to a buffer that the shard's sessions
//! share, output comes from one too and is written at once; a session owns octets only while its socket refuses
//! them. Timers are lazy: a deadline that moves later costs nothing until the old one fires.
//!
//! Read first: `session.rs`, then `connect.rs` and `listen.rs`.

mod clock;
mod closed;
mod connect;
mod counters;
mod limits;
mod line;
mod listen;
mod session;
mod shard;
mod thread;

#[cfg(test)]
mod tests;

pub use clock::Clock;
pub use closed::Closed;
pub use connect::{Backoff, Jitter, Target, connect, keep_connected};
pub use counters::{Counters, Traffic};
pub use limits::Limits;
pub use listen::{Accepted, ListenConfig, Listener, Place};
pub use session::{Owner, Session};
pub use shard::Shard;
pub use thread::ShardThread;
