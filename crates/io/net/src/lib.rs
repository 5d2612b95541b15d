//! Drives any [`tieline_core::Machine`] over TCP, TLS, UDP and serial lines. Only this crate waits for sockets.
//!
//! In: machines, addresses, files of keys and certificates, limits. Out: bytes on sockets, and events to an [`Owner`].
//!
//! Never: a protocol, a decision, a session shared by two threads. A session stays on one [`Shard`] from accept to
//! close; its socket may be on another thread ([`SocketShards`]).
//!
//! One exchange needs one `recv`, one `send` and the wait in between. Input is read into a buffer that the sessions of
//! the shard share. Output also comes from a shared buffer and is written at once; a session stores bytes only while
//! its socket cannot take them. Timers are lazy: moving a deadline to a later time costs nothing until the old deadline
//! fires.
//!
//! A protocol of datagrams with many peers on one socket has an [`Endpoint`] in place of sessions; so has one of bare frames of
//! Ethernet, on a [`PacketSocket`].
//!
//! Read first: `session.rs`, then `connection.rs`, `connect.rs` and `listen.rs`; `endpoint.rs` stands by itself.

mod buffered;
mod clock;
mod closed;
mod coalescing;
mod connect;
mod connection;
mod counters;
mod endpoint;
mod limits;
mod linger;
mod listen;
mod mailbox;
mod marks;
mod packet;
mod proxy;
mod serial;
mod session;
mod shard;
mod sockets;
mod tap;
mod thread;
pub mod tls;
mod udp;

#[cfg(test)]
mod tests;

pub use clock::Clock;
pub use closed::Closed;
pub use connect::{Backoff, ClientSide, ConnectOver, Jitter, Target, TlsConnect, connect, keep_connected, open};
pub use connection::{Carrier, Connection, Peer};
pub use counters::{Counters, Traffic};
pub use endpoint::{DatagramMachine, Endpoint, EndpointOwner};
pub use limits::Limits;
pub use listen::{Accepted, ListenConfig, ListenOver, Listener, Place, TlsListen, Together};
pub use marks::Marks;
pub use packet::PacketSocket;
pub use proxy::{Block, Trusted, read_header};
pub use serial::{Flow, Parity, SerialConfig};
pub use session::{Owner, Session};
pub use shard::Shard;
pub use sockets::{FrameNumber, Passage, SharedFrame, SocketShardStatus, SocketShards};
pub use tap::{Direction, Tap};
pub use thread::ShardThread;
pub use udp::{Datagrams, UdpConnect, UdpListen};
