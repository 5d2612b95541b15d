//! What bytes mean: the part of a trace that a protocol's driver has.

use serde_json::{Map, Value as Json};
use std::net::Ipv4Addr;
use tieline_net::Direction;

/// Follows what goes over the connections of a device.
pub trait Decoder: Send {
    /// Takes what was read or written next and appends what it completes.
    fn push(&mut self, connection: u8, direction: Direction, bytes: &[u8], messages: &mut Vec<Message>);

    /// A connection begins or ends: what is incomplete stays so.
    fn restart(&mut self, connection: u8, messages: &mut Vec<Message>);

    /// How its messages go into a capture.
    fn capture(&self) -> Capture;

    /// The name of a connection of the device, one of [`CONNECTION_NAMES`], by its number in records.
    fn connection_name(&self, connection: u8) -> &'static str {
        if connection == 0 { "main" } else { "urgent" }
    }
}

/// The names of connections: the one that everything goes over, that for what is urgent, and those that stand by.
pub const CONNECTION_NAMES: [&str; 9] =
    ["main", "urgent", "standby1", "standby2", "standby3", "standby4", "standby5", "standby6", "standby7"];

/// How messages go into a capture, so that Wireshark knows the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// As a TCP stream to this port.
    Stream {
        /// That of the protocol.
        port: u16,
    },
    /// As datagrams to this port.
    Datagrams {
        /// That of the protocol.
        port: u16,
        /// The address of the device, where its connection does not say it.
        device: Option<Ipv4Addr>,
    },
    /// As the frames of Ethernet that they are.
    Frames,
    /// Message by message, for the dissector of this name.
    Messages {
        /// As Wireshark calls it.
        dissector: &'static str,
    },
}

/// A message, or bytes that are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// One line.
    pub summary: String,
    /// What it holds, one thing a line.
    pub details: Vec<String>,
    /// What is wrong with it, or what it refuses.
    pub error: Option<String>,
    /// The points that it is about, by their places in the list; no more than [`Message::POINTS_MAX`].
    pub points: Vec<usize>,
    /// Whether it is about the point that is looked for.
    pub has_point: bool,
    /// Whether it is of another device of the connection.
    pub is_of_another: bool,
    /// What programs may want to know.
    pub fields: Map<String, Json>,
    /// Its bytes, where they are known.
    pub frame: Vec<u8>,
}

impl Message {
    /// Points that are named.
    pub const POINTS_MAX: usize = 64;

    /// Which of so many points a message is about, and whether it is about the one that is looked for.
    #[must_use]
    pub fn points_of(count: usize, wanted: Option<usize>, is_about: impl Fn(usize) -> bool) -> (Vec<usize>, bool) {
        let points = (0..count).filter(|point| is_about(*point)).take(Self::POINTS_MAX).collect();
        (points, wanted.is_some_and(is_about))
    }
}
