//! Counters of connections, handshakes and bytes.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// Totals of the shards that share this; written by them, read by anyone. One for each shard, summed where they
        /// are read, keeps shards off each other's cache lines.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        impl Counters {
            /// Name and value of each, in the order of declaration.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name.load(Ordering::Relaxed)),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Bytes received.
    bytes_in
    /// Bytes that sockets took.
    bytes_out
    /// Reads that brought bytes.
    reads
    /// Writes that a socket took at least in part.
    writes
    /// Messages that machines gave for their peers.
    messages_out
    /// Outgoing connections made.
    connects
    /// Outgoing connections that failed.
    connect_failures
    /// Incoming connections taken.
    accepts
    /// Incoming connections refused: too many sessions.
    accepts_refused
    /// Accepts that failed, such as for want of file descriptors.
    accept_failures
    /// Handshakes of TLS that succeeded, of both sides.
    tls_handshakes
    /// Handshakes of TLS that failed, of both sides.
    tls_handshake_failures
    /// Datagrams of which a part was no message.
    datagrams_cut
    /// Datagrams dropped because too many waited for their session.
    datagrams_dropped
    /// Datagrams that the system did not send, such as to a network without a route.
    datagrams_unsent
    /// Connections that ended, for any reason.
    closed
    /// Of these: the peer read too slowly or not at all.
    closed_slow
    /// Of these: the network failed.
    closed_io
    /// Connections whose peers were told why they ended, and were waited for.
    lingering_closes
    /// Connections that were closed although their peers may not have read why: those did not stop, or too many were
    /// waited for.
    lingering_closes_cut
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// What one session has moved, over all its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes that the socket took.
    pub bytes_out: u64,
    /// Reads that brought bytes.
    pub reads: u64,
    /// Writes that the socket took at least in part.
    pub writes: u64,
    /// Messages that the machine gave for its peer.
    pub messages_out: u64,
    /// Connections that began.
    pub connections: u32,
}

impl Traffic {
    /// Counts bytes and frames that were written past the session.
    pub(crate) const fn count_past(&mut self, (bytes, frames): (u64, u64)) {
        self.bytes_out += bytes;
        self.writes += frames;
        self.messages_out += frames;
    }
}
