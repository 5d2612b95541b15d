//! What a client takes and how long it waits.

use crate::names::Segmentation;
use core::net::SocketAddrV4;
use core::time::Duration;

/// The shortest time between two Who-Is, whatever is configured: discovery must not flood a site.
pub const WHO_IS_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The settings of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// Bytes of a message that the client takes, 50 to 1476; peers cut their answers to it.
    pub max_apdu: u16,
    /// Segments that may come, or go, before an acknowledgement; 1 to 127.
    pub window: u8,
    /// Bytes of an answer of many segments at most; a longer one is aborted.
    pub answer_bytes_max: usize,
    /// How long an answer may take before the request is repeated.
    pub apdu_timeout: Duration,
    /// How long a segment may take before the window is repeated.
    pub segment_timeout: Duration,
    /// How often a request is repeated before its peer counts as silent.
    pub retries: u8,
    /// The same of writes: where one may not reach a device twice, 0.
    pub write_retries: u8,
    /// Requests on their way to one peer, 1 to 128, where [`PeerLimits`] do not say otherwise.
    pub in_flight_by_peer: u8,
    /// Requests on their way in all.
    pub in_flight: usize,
    /// Requests that wait for one peer; more are refused.
    pub queue_by_peer: usize,
    /// Peers that are known at a time; idle ones are forgotten for new ones.
    pub peers_max: usize,
    /// Events that wait for the owner. At the limit requests are refused and what comes unasked is dropped.
    pub events_max: usize,
    /// Datagrams that wait to be sent; more are dropped, as a network would.
    pub transmits_max: usize,
    /// Time between two Who-Is; [`WHO_IS_INTERVAL_MIN`] at least.
    pub who_is_interval: Duration,
    /// Where broadcasts on the local network go; none where only peers with known addresses are spoken to.
    pub broadcast: Option<SocketAddrV4>,
    /// The broadcast management device to register with; broadcasts then go through it.
    pub foreign: Option<ForeignConfig>,
}

/// Where and for how long to register as a foreign device (annex J.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignConfig {
    /// The broadcast management device.
    pub bbmd: SocketAddrV4,
    /// How long a registration lasts, in seconds; it is renewed at half of that.
    pub lifetime_s: u16,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            max_apdu: 1476,
            window: 16,
            answer_bytes_max: 256 * 1024,
            apdu_timeout: Duration::from_secs(3),
            segment_timeout: Duration::from_secs(2),
            retries: 3,
            write_retries: 3,
            in_flight_by_peer: 4,
            in_flight: 512,
            queue_by_peer: 64,
            peers_max: 16_384,
            events_max: 8192,
            transmits_max: 4096,
            who_is_interval: Duration::from_secs(1),
            broadcast: None,
            foreign: None,
        }
    }
}

/// What a peer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLimits {
    /// Bytes of a message: its `max-apdu-length-accepted`.
    pub max_apdu: u16,
    /// Which direction of segments it supports.
    pub segmentation: Segmentation,
    /// Segments of a request that it takes; none where it does not say.
    pub max_segments: Option<u16>,
    /// Requests on their way to it; none for the client's setting.
    pub in_flight: Option<u8>,
}

impl Default for PeerLimits {
    /// What a peer of whom nothing is known may be expected to take: 480 bytes, no segments.
    fn default() -> Self {
        Self { max_apdu: 480, segmentation: Segmentation::NONE, max_segments: None, in_flight: None }
    }
}
