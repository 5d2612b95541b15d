//! BACnet virtual link control of BACnet/IP (annex J.2): what a datagram is to the link.
//!
//! ```text
//! 0x81  function  length of all, two bytes  …
//! ```

use crate::{DecodeError, Decoded};
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use tieline_core::Cursor;

/// The first byte of every datagram.
const BACNET_IP: u8 = 0x81;
/// Bytes before the content.
pub(crate) const HEADER_BYTES: usize = 4;

/// The UDP port of BACnet/IP.
pub const PORT: u16 = 0xBAC0;

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bvlc<'a> {
    /// What became of a request to the link: 0, or which was refused.
    Result(u16),
    /// A message that another node passed on, and who sent it first.
    Forwarded(SocketAddrV4, &'a [u8]),
    /// A foreign device asks for broadcasts for so many seconds.
    RegisterForeignDevice(u16),
    /// A foreign device asks for a broadcast.
    DistributeBroadcast(&'a [u8]),
    /// A message to one.
    Unicast(&'a [u8]),
    /// A message to all of the local network.
    Broadcast(&'a [u8]),
    /// A function that only broadcast management devices use, or none: its number.
    Other(u8),
}

/// A message of the network layer, as the link brought it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried<'a> {
    /// Who sent it first.
    pub from: SocketAddrV4,
    /// The message.
    pub npdu: &'a [u8],
    /// Whether it was sent to one alone.
    pub is_unicast: bool,
}

impl<'a> Bvlc<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// It is not one of BACnet/IP, or its length is wrong.
    pub fn parse(datagram: &'a [u8]) -> Decoded<Self> {
        let mut cursor = Cursor::new(datagram);
        if cursor.u8()? != BACNET_IP {
            return Err(DecodeError::Expected("0x81, BACnet/IP"));
        }
        let function = cursor.u8()?;
        let length = usize::from(cursor.u16_be()?);
        if length != datagram.len() {
            return Err(DecodeError::Range("the length of the datagram"));
        }
        Ok(match function {
            0x00 => Self::Result(cursor.u16_be()?),
            0x04 => {
                let (ip, port) = (cursor.array::<4>()?, cursor.u16_be()?);
                Self::Forwarded(SocketAddrV4::new(Ipv4Addr::from(ip), port), cursor.rest())
            }
            0x05 => Self::RegisterForeignDevice(cursor.u16_be()?),
            0x09 => Self::DistributeBroadcast(cursor.rest()),
            0x0A => Self::Unicast(cursor.rest()),
            0x0B => Self::Broadcast(cursor.rest()),
            other => Self::Other(other),
        })
    }

    /// The message to a node that a datagram from an address carries; none of what is for the link itself.
    #[must_use]
    pub const fn carried(&self, from: SocketAddrV4) -> Option<Carried<'a>> {
        let (from, npdu, is_unicast) = match *self {
            Self::Unicast(npdu) => (from, npdu, true),
            Self::Broadcast(npdu) => (from, npdu, false),
            Self::Forwarded(origin, npdu) => (origin, npdu, false),
            Self::Result(_) | Self::RegisterForeignDevice(_) | Self::DistributeBroadcast(_) | Self::Other(_) => {
                return None;
            }
        };
        Some(Carried { from, npdu, is_unicast })
    }

    /// Appends the datagram.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = begin(0, out);
        match self {
            Self::Result(code) => out.extend(code.to_be_bytes()),
            Self::Forwarded(from, npdu) => {
                out.extend(from.ip().octets());
                out.extend(from.port().to_be_bytes());
                out.extend_from_slice(npdu);
            }
            Self::RegisterForeignDevice(seconds) => out.extend(seconds.to_be_bytes()),
            Self::DistributeBroadcast(npdu) | Self::Unicast(npdu) | Self::Broadcast(npdu) => {
                out.extend_from_slice(npdu)
            }
            Self::Other(_) => {}
        }
        finish(self.function(), start, out);
    }

    const fn function(&self) -> u8 {
        match self {
            Self::Result(_) => 0x00,
            Self::Forwarded(..) => 0x04,
            Self::RegisterForeignDevice(_) => 0x05,
            Self::DistributeBroadcast(_) => 0x09,
            Self::Unicast(_) => UNICAST,
            Self::Broadcast(_) => BROADCAST,
            Self::Other(function) => *function,
        }
    }
}

/// The function of a message to one.
pub(crate) const UNICAST: u8 = 0x0A;
/// The function of a message to all of the local network.
pub(crate) const BROADCAST: u8 = 0x0B;
/// The function of a broadcast that a foreign device asks for.
pub(crate) const DISTRIBUTE: u8 = 0x09;

/// Appends a header whose length is to come; gives where it starts.
pub(crate) fn begin(function: u8, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend([BACNET_IP, function, 0, 0]);
    start
}

/// Writes the function and the length into the header that starts there.
pub(crate) fn finish(function: u8, start: usize, out: &mut [u8]) {
    let [high, low] = u16::try_from(out.len().saturating_sub(start)).unwrap_or(u16::MAX).to_be_bytes();
    if let Some(header) = out.get_mut(start..start.saturating_add(HEADER_BYTES)) {
        header.copy_from_slice(&[BACNET_IP, function, high, low]);
    }
}
