//! What a simulated device is and takes.

use crate::Station;
use crate::names::Segmentation;
use alloc::string::String;
use core::net::SocketAddrV4;
use core::time::Duration;

/// The settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The instance of its device object, 0 to 4194302.
    pub instance: u32,
    /// The name of its device object.
    pub name: String,
    /// Its vendor's number; 0 is the standard's own.
    pub vendor_id: u16,
    /// Its vendor.
    pub vendor: String,
    /// Its model.
    pub model: String,
    /// Its firmware.
    pub firmware: String,
    /// Bytes of a message that it takes, 50 to 1476.
    pub max_apdu: u16,
    /// Which direction of segments it supports.
    pub segmentation: Segmentation,
    /// Segments that may come, or go, before an acknowledgement.
    pub window: u8,
    /// Whether it has ReadPropertyMultiple.
    pub reads_multiple: bool,
    /// Bytes of an answer, or of a request of many segments, at most.
    pub message_bytes_max: usize,
    /// How long the acknowledgement of a notification may take.
    pub apdu_timeout: Duration,
    /// How long the acknowledgement of a segment may take.
    pub segment_timeout: Duration,
    /// How often a notification or a segment is repeated.
    pub retries: u8,
    /// Subscriptions at most; more are refused, as the standard says.
    pub subscriptions_max: usize,
    /// Transactions of many segments, and of confirmed notifications, at most, of each kind.
    pub transactions_max: usize,
    /// Events that wait for the owner at most; then writes are refused.
    pub events_max: usize,
    /// Datagrams that wait to be sent at most; more are dropped, as a network would.
    pub transmits_max: usize,
    /// Where I-Am goes; none to answer who asked.
    pub broadcast: Option<SocketAddrV4>,
    /// Where the device is as seen by its router; none where it has an IP address itself.
    pub station: Option<Station>,
    /// Minutes that its local time is ahead of UTC.
    pub utc_offset_minutes: i16,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            instance: 1,
            name: "device".into(),
            vendor_id: 0,
            vendor: "Tieline".into(),
            model: "simulated device".into(),
            firmware: env!("CARGO_PKG_VERSION").into(),
            max_apdu: 1476,
            segmentation: Segmentation::BOTH,
            window: 16,
            reads_multiple: true,
            message_bytes_max: 256 * 1024,
            apdu_timeout: Duration::from_secs(3),
            segment_timeout: Duration::from_secs(2),
            retries: 3,
            subscriptions_max: 1024,
            transactions_max: 256,
            events_max: 1024,
            transmits_max: 4096,
            broadcast: None,
            station: None,
            utc_offset_minutes: 0,
        }
    }
}
