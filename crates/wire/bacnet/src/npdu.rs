//! The network layer (clause 6.2): who sends to whom over routers, and what routers say.
//!
//! ```text
//! 1  control  [DNET DLEN DADR]  [SNET SLEN SADR]  [hop count, with DNET]  APDU, or message type [vendor] …
//! control: 0x80 message of the network layer, 0x20 destination, 0x08 source, 0x04 expects a reply, 0x03 priority
//! ```

use crate::{DecodeError, Decoded, Mac, Station};
use alloc::vec::Vec;
use tieline_core::Cursor;

const VERSION: u8 = 1;
/// The network that stands for all.
pub const NETWORK_ALL: u16 = 0xFFFF;
/// Routers that a message passes at most.
const HOPS_MAX: u8 = 255;

/// What the network layer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A message between applications.
    Apdu(&'a [u8]),
    /// A message between routers, or of one.
    Network(NetworkMessage<'a>),
}

/// A message of the network layer (clause 6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkMessage<'a> {
    /// Who reaches this network, or any?
    WhoIsRouter(Option<u16>),
    /// The sender reaches these: two bytes a network.
    IAmRouter(Networks<'a>),
    /// A message could not be passed on to the network.
    Reject {
        /// Why not: 1 no route, 2 busy, 3 unknown message type, 4 too long, 5 security, 6 address too long.
        reason: u8,
        /// Which network.
        network: u16,
    },
    /// A message type that only routers use, and what it holds.
    Other(u8, &'a [u8]),
}

/// Numbers of networks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Networks<'a>(pub &'a [u8]);

impl Networks<'_> {
    /// Each.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.chunks_exact(2).map(|pair| match pair {
            [high, low] => u16::from_be_bytes([*high, *low]),
            _ => 0,
        })
    }
}

/// A message of the network layer, or one that it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Npdu<'a> {
    /// Where to, behind a router; an empty address is a broadcast there.
    pub destination: Option<Station>,
    /// Where from, behind a router.
    pub source: Option<Station>,
    /// Whether the sender waits for an answer.
    pub expects_reply: bool,
    /// 0 normal, 1 urgent, 2 critical equipment, 3 life safety.
    pub priority: u8,
    /// What is carried.
    pub body: Body<'a>,
}

impl<'a> Npdu<'a> {
    /// One between applications of the local network.
    #[must_use]
    pub const fn local(apdu: &'a [u8], expects_reply: bool) -> Self {
        Self { destination: None, source: None, expects_reply, priority: 0, body: Body::Apdu(apdu) }
    }

    /// Reads one.
    ///
    /// # Errors
    /// It is of another version, or ends early.
    pub fn parse(bytes: &'a [u8]) -> Decoded<Self> {
        let mut cursor = Cursor::new(bytes);
        if cursor.u8()? != VERSION {
            return Err(DecodeError::Expected("version 1 of the network layer"));
        }
        let control = cursor.u8()?;
        let destination = if control & 0x20 != 0 { Some(station(&mut cursor)?) } else { None };
        let source = if control & 0x08 != 0 { Some(station(&mut cursor)?) } else { None };
        if source.is_some_and(|source| source.mac.bytes().is_empty() || source.network == NETWORK_ALL) {
            return Err(DecodeError::Range("the address of the source"));
        }
        if destination.is_some() {
            cursor.u8()?;
        }
        let body = if control & 0x80 == 0 { Body::Apdu(cursor.rest()) } else { Body::Network(message(cursor)?) };
        Ok(Self { destination, source, expects_reply: control & 0x04 != 0, priority: control & 0x03, body })
    }

    /// Appends it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut control = self.priority & 0x03;
        for (is_set, bit) in [
            (matches!(self.body, Body::Network(_)), 0x80),
            (self.destination.is_some(), 0x20),
            (self.source.is_some(), 0x08),
            (self.expects_reply, 0x04),
        ] {
            if is_set {
                control |= bit;
            }
        }
        out.extend([VERSION, control]);
        for station in self.destination.iter().chain(&self.source) {
            out.extend(station.network.to_be_bytes());
            out.push(u8::try_from(station.mac.bytes().len()).unwrap_or(0));
            out.extend_from_slice(station.mac.bytes());
        }
        if self.destination.is_some() {
            out.push(HOPS_MAX);
        }
        match self.body {
            Body::Apdu(apdu) => out.extend_from_slice(apdu),
            Body::Network(message) => message.emit(out),
        }
    }
}

impl NetworkMessage<'_> {
    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::WhoIsRouter(network) => {
                out.push(0x00);
                out.extend(network.iter().flat_map(|network| network.to_be_bytes()));
            }
            Self::IAmRouter(networks) => {
                out.push(0x01);
                out.extend_from_slice(networks.0);
            }
            Self::Reject { reason, network } => {
                out.extend([0x03, *reason]);
                out.extend(network.to_be_bytes());
            }
            Self::Other(message, bytes) => {
                out.push(*message);
                out.extend_from_slice(bytes);
            }
        }
    }
}

fn station(cursor: &mut Cursor<'_>) -> Decoded<Station> {
    let network = cursor.u16_be()?;
    let length = usize::from(cursor.u8()?);
    let mac = Mac::new(cursor.take(length)?).ok_or(DecodeError::Range("the length of an address"))?;
    Ok(Station { network, mac })
}

fn message(mut cursor: Cursor<'_>) -> Decoded<NetworkMessage<'_>> {
    Ok(match cursor.u8()? {
        0x00 if cursor.is_empty() => NetworkMessage::WhoIsRouter(None),
        0x00 => NetworkMessage::WhoIsRouter(Some(cursor.u16_be()?)),
        0x01 => NetworkMessage::IAmRouter(Networks(cursor.rest())),
        0x03 => NetworkMessage::Reject { reason: cursor.u8()?, network: cursor.u16_be()? },
        other => NetworkMessage::Other(other, cursor.rest()),
    })
}
