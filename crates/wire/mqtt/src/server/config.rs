//! Limits of a server session, and what it counts.

use super::AwayLimits;
use alloc::boxed::Box;
use core::time::Duration;

/// Limits of a server session; one value is shared by all.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Time from the transport to a whole CONNECT; then the connection is closed.
    pub connect_timeout: Duration,
    /// Time from the first byte of a packet to its last, with a second more for each 128 bytes that it has; then the
    /// client is disconnected with 0x8D.
    pub packet_timeout: Duration,
    /// The largest CONNECT, in bytes; larger ones are closed on.
    pub connect_bytes_max: u32,
    /// The largest packet after that, in bytes; larger ones are disconnected with 0x95. What is taken is delivered:
    /// the driver must be able to hold a packet of this size and 128 KiB for a socket that is slow.
    pub packet_bytes_max: u32,
    /// QoS 1 and 2 messages that a 5.0 client may have unacknowledged, 1 to 65,535; one more is disconnected with 0x93.
    pub receive_max: u16,
    /// The same for a 3.1.1 client, which is not told; one more closes.
    pub receive_max_v311: u16,
    /// Topic aliases that a client may set; higher ones are disconnected with 0x94.
    pub topic_alias_max: u16,
    /// Topics that are numbered for a client that takes topic aliases, in the messages that are not shared with others.
    pub topic_alias_out_max: u16,
    /// QoS 1 and 2 messages to a client that may be unacknowledged, 1 to 65,535; more wait in the queue.
    pub in_flight_max: u16,
    /// Messages that may wait for the client; then the oldest of QoS 0 goes, and `deliver` says Full to the others.
    pub pending_max: usize,
    /// Bytes that may wait, the same way.
    pub pending_bytes_max: usize,
    /// What may wait for a client while it is away. One that comes has room for what waits of that besides what its queue may
    /// hold, so that it can drain it.
    pub away: AwayLimits,
    /// The longest keep alive in seconds; clients that ask for more, or none, are told this one. 0 leaves it to them.
    pub keep_alive_s_max: u16,
    /// Whether subscriptions may be shared.
    pub shared_available: bool,
    /// What a peer is told that speaks HTTP, as HTTP, before it is closed on: where to go. Empty for nothing.
    pub http_answer: Box<[u8]>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            packet_timeout: Duration::from_secs(60),
            connect_bytes_max: 65_536,
            packet_bytes_max: 1_048_576,
            receive_max: 64,
            receive_max_v311: 4096,
            topic_alias_max: 16,
            topic_alias_out_max: 16,
            in_flight_max: 64,
            pending_max: 1000,
            pending_bytes_max: 1_048_576,
            away: AwayLimits { messages: 10_000, bytes: 16_777_216 },
            keep_alive_s_max: 0,
            shared_available: false,
            http_answer: Box::default(),
        }
    }
}

/// What a server session has done since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// Whole packets received.
    pub packets_in: u64,
    /// Messages received.
    pub publishes_in: u64,
    /// Messages sent by `deliver`; shared frames are the driver's to count.
    pub publishes_out: u64,
    /// QoS 0 messages dropped because the queue was full.
    pub dropped_full: u64,
    /// QoS 1 and 2 messages refused because the queue was full.
    pub refused_full: u64,
    /// Messages dropped because their expiry passed in the queue.
    pub dropped_expired: u64,
    /// Messages dropped because the client takes no packet that large.
    pub dropped_too_large: u64,
}
