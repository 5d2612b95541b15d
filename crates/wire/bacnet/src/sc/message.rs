//! Messages of the virtual link (clause AB.2): one is one binary message of a WebSocket.
//!
//! ```text
//! function  flags  message id  [origin, 6]  [destination, 6]  [destination options]  [data options]  payload
//!                  two bytes
//! flags: 0x08 origin, 0x04 destination, 0x02 destination options, 0x01 data options
//! ```

use super::{Options, Uuid, Vmac};
use crate::names::{ErrorClass, ErrorCode};
use crate::{DecodeError, Decoded, ServiceError};
use alloc::vec::Vec;
use core::fmt;
use tieline_core::Cursor;

const ORIGIN: u8 = 0x08;
const DESTINATION: u8 = 0x04;
const DESTINATION_OPTIONS: u8 = 0x02;
const DATA_OPTIONS: u8 = 0x01;
const RESERVED: u8 = 0xF0;

const RESULT: u8 = 0x00;
/// The highest function of the standard.
const PROPRIETARY: u8 = 0x0C;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Which message; an answer has that of its request.
    pub id: u16,
    /// Who sent it first; none: the node at the other end of the WebSocket.
    pub origin: Option<Vmac>,
    /// Whom it is for; none: the node at the other end of the WebSocket.
    pub destination: Option<Vmac>,
    /// Options for the node that it is for.
    pub destination_options: Options<'a>,
    /// Options that go with the payload.
    pub data_options: Options<'a>,
    /// What it says.
    pub body: Body<'a>,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// What became of a message with this function: done, or why not.
    Result(u8, Result<(), Nak<'a>>),
    /// A message of the network layer.
    Npdu(&'a [u8]),
    /// Where do you take direct connections?
    AddressResolution,
    /// There, separated by spaces: URIs of WebSockets.
    AddressResolutionAck(&'a str),
    /// What a node is.
    Advertisement(Advertisement),
    /// What are you?
    AdvertisementSolicitation,
    /// A node wants to be connected.
    ConnectRequest(Connect),
    /// It is.
    ConnectAccept(Connect),
    /// A node wants to go.
    DisconnectRequest,
    /// It may.
    DisconnectAck,
    /// Are you there?
    HeartbeatRequest,
    /// Yes.
    HeartbeatAck,
    /// A message of a vendor.
    Proprietary {
        /// Which vendor.
        vendor: u16,
        /// The vendor's own function.
        function: u8,
        /// Its data.
        data: &'a [u8],
    },
    /// A function that the standard does not have, and what follows.
    Other(u8, &'a [u8]),
}

/// Why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nak<'a> {
    /// The marker of the header option that was not understood; 0 where it was none.
    pub marker: u8,
    /// The error.
    pub error: ServiceError,
    /// Words for people.
    pub details: &'a str,
}

/// What a node is (clause AB.2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// 0: it is connected to no hub, 1: to the primary, 2: to the failover hub.
    pub hub: u8,
    /// Whether it takes direct connections.
    pub takes_direct: bool,
    /// Bytes of a message that it takes.
    pub bvlc_bytes_max: u16,
    /// Bytes of a message of the network layer that it takes.
    pub npdu_bytes_max: u16,
}

/// Who wants to be connected, or is (clauses AB.2.10, AB.2.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// Its virtual address.
    pub vmac: Vmac,
    /// Its identifier.
    pub uuid: Uuid,
    /// Bytes of a message that it takes.
    pub bvlc_bytes_max: u16,
    /// Bytes of a message of the network layer that it takes.
    pub npdu_bytes_max: u16,
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Its function; none where the message is shorter than every header: it is not answered.
    pub function: Option<u8>,
    /// Its number.
    pub id: u16,
    /// Who sent it, as far as it was read.
    pub origin: Option<Vmac>,
    /// Whether it is for one node, as far as it was read.
    pub is_unicast: bool,
    /// What the answer says.
    pub code: ErrorCode,
    /// What is wrong.
    pub error: DecodeError,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.error)
    }
}

impl core::error::Error for Malformed {}

impl<'a> Message<'a> {
    /// One between the two ends of a WebSocket, without options.
    #[must_use]
    pub fn new(id: u16, body: Body<'a>) -> Self {
        let (destination_options, data_options) = (Options::default(), Options::default());
        Self { id, origin: None, destination: None, destination_options, data_options, body }
    }

    /// The same for a node.
    #[must_use]
    pub const fn to(mut self, destination: Option<Vmac>) -> Self {
        self.destination = destination;
        self
    }

    /// Reads one.
    ///
    /// # Errors
    /// It ends early, has more than it should, or a value that is out of range.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut malformed = Malformed {
            function: None,
            id: 0,
            origin: None,
            is_unicast: true,
            code: ErrorCode::MESSAGE_INCOMPLETE,
            error: DecodeError::Expected("a message of BACnet/SC"),
        };
        let mut cursor = Cursor::new(bytes);
        let header = Self::header(&mut cursor, &mut malformed);
        header
            .and_then(|(function, message)| Ok(Self { body: body(function, cursor, &mut malformed)?, ..message }))
            .map_err(|error| Malformed { error, ..malformed })
    }

    /// Reads what stands before the payload; `malformed` is told how far it came.
    fn header(cursor: &mut Cursor<'a>, malformed: &mut Malformed) -> Decoded<(u8, Self)> {
        let (function, flags, id) = (cursor.u8()?, cursor.u8()?, cursor.u16_be()?);
        malformed.function = Some(function);
        malformed.id = id;
        malformed.code = ErrorCode::HEADER_ENCODING_ERROR;
        if flags & RESERVED != 0 {
            return Err(DecodeError::Range("the control flags"));
        }
        let mut message = Self::new(id, Body::HeartbeatAck);
        let mut vmac = |flag| if flags & flag != 0 { cursor.array().map(|bytes| Some(Vmac(bytes))) } else { Ok(None) };
        message.origin = vmac(ORIGIN)?;
        malformed.origin = message.origin;
        message.destination = vmac(DESTINATION)?;
        malformed.is_unicast = message.destination != Some(Vmac::BROADCAST);
        if message.origin.is_some_and(|origin| !origin.is_node()) {
            malformed.origin = None;
            return Err(DecodeError::Range("the origin"));
        }
        if flags & DESTINATION_OPTIONS != 0 {
            message.destination_options = Options::take(cursor)?;
        }
        if flags & DATA_OPTIONS != 0 {
            message.data_options = Options::take(cursor)?;
        }
        Ok((function, message))
    }

    /// Appends it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut flags = 0;
        for (is_there, flag) in [
            (self.origin.is_some(), ORIGIN),
            (self.destination.is_some(), DESTINATION),
            (!self.destination_options.is_empty(), DESTINATION_OPTIONS),
            (!self.data_options.is_empty(), DATA_OPTIONS),
        ] {
            flags |= if is_there { flag } else { 0 };
        }
        out.extend([self.body.function(), flags]);
        out.extend(self.id.to_be_bytes());
        self.origin.iter().chain(&self.destination).for_each(|vmac| out.extend(vmac.0));
        out.extend_from_slice(self.destination_options.bytes());
        out.extend_from_slice(self.data_options.bytes());
        self.body.emit(out);
    }
}

impl Body<'_> {
    /// Its function.
    #[must_use]
    pub const fn function(&self) -> u8 {
        match self {
            Self::Result(..) => RESULT,
            Self::Npdu(_) => 0x01,
            Self::AddressResolution => 0x02,
            Self::AddressResolutionAck(_) => 0x03,
            Self::Advertisement(_) => 0x04,
            Self::AdvertisementSolicitation => 0x05,
            Self::ConnectRequest(_) => 0x06,
            Self::ConnectAccept(_) => 0x07,
            Self::DisconnectRequest => 0x08,
            Self::DisconnectAck => 0x09,
            Self::HeartbeatRequest => 0x0A,
            Self::HeartbeatAck => 0x0B,
            Self::Proprietary { .. } => PROPRIETARY,
            Self::Other(function, _) => *function,
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Result(function, Ok(())) => out.extend([*function, 0]),
            Self::Result(function, Err(Nak { marker, error, details })) => {
                out.extend([*function, 1, *marker]);
                for number in [error.class.0, error.code.0] {
                    out.extend(u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes());
                }
                out.extend_from_slice(details.as_bytes());
            }
            Self::Npdu(bytes) | Self::Other(_, bytes) => out.extend_from_slice(bytes),
            Self::AddressResolutionAck(uris) => out.extend_from_slice(uris.as_bytes()),
            Self::Advertisement(Advertisement { hub, takes_direct, bvlc_bytes_max, npdu_bytes_max }) => {
                out.extend([*hub, u8::from(*takes_direct)]);
                out.extend(bvlc_bytes_max.to_be_bytes());
                out.extend(npdu_bytes_max.to_be_bytes());
            }
            Self::ConnectRequest(connect) | Self::ConnectAccept(connect) => {
                out.extend(connect.vmac.0);
                out.extend(connect.uuid.0);
                out.extend(connect.bvlc_bytes_max.to_be_bytes());
                out.extend(connect.npdu_bytes_max.to_be_bytes());
            }
            Self::Proprietary { vendor, function, data } => {
                out.extend(vendor.to_be_bytes());
                out.push(*function);
                out.extend_from_slice(data);
            }
            Self::AddressResolution
            | Self::AdvertisementSolicitation
            | Self::DisconnectRequest
            | Self::DisconnectAck
            | Self::HeartbeatRequest
            | Self::HeartbeatAck => {}
        }
    }
}

/// The name of a function in the standard; none where it has none.
#[must_use]
pub fn function_name(function: u8) -> Option<&'static str> {
    const NAMES: [&str; 13] = [
        "bvlc-result",
        "encapsulated-npdu",
        "address-resolution",
        "address-resolution-ack",
        "advertisement",
        "advertisement-solicitation",
        "connect-request",
        "connect-accept",
        "disconnect-request",
        "disconnect-ack",
        "heartbeat-request",
        "heartbeat-ack",
        "proprietary-message",
    ];
    NAMES.get(usize::from(function)).copied()
}

/// Reads the payload.
fn body<'a>(function: u8, mut cursor: Cursor<'a>, malformed: &mut Malformed) -> Decoded<Body<'a>> {
    let needs_payload = matches!(function, RESULT | 0x01 | 0x04 | 0x06 | 0x07 | PROPRIETARY);
    malformed.code =
        if needs_payload && cursor.is_empty() { ErrorCode::PAYLOAD_EXPECTED } else { ErrorCode::MESSAGE_INCOMPLETE };
    let body = match function {
        RESULT => result(&mut cursor, malformed)?,
        0x01 if cursor.is_empty() => return Err(DecodeError::Expected("a message of the network layer")),
        0x01 => Body::Npdu(rest(&mut cursor)?),
        0x02 => Body::AddressResolution,
        0x03 => Body::AddressResolutionAck(text(&mut cursor, malformed)?),
        0x04 => {
            let (hub, direct) = (cursor.u8()?, cursor.u8()?);
            let (bvlc_bytes_max, npdu_bytes_max) = (cursor.u16_be()?, cursor.u16_be()?);
            if hub > 2 || direct > 1 {
                malformed.code = ErrorCode::PARAMETER_OUT_OF_RANGE;
                return Err(DecodeError::Range("the state of an advertisement"));
            }
            Body::Advertisement(Advertisement { hub, takes_direct: direct == 1, bvlc_bytes_max, npdu_bytes_max })
        }
        0x05 => Body::AdvertisementSolicitation,
        0x06 => Body::ConnectRequest(connect(&mut cursor, malformed)?),
        0x07 => Body::ConnectAccept(connect(&mut cursor, malformed)?),
        0x08 => Body::DisconnectRequest,
        0x09 => Body::DisconnectAck,
        0x0A => Body::HeartbeatRequest,
        0x0B => Body::HeartbeatAck,
        PROPRIETARY => {
            let (vendor, function) = (cursor.u16_be()?, cursor.u8()?);
            Body::Proprietary { vendor, function, data: rest(&mut cursor)? }
        }
        other => Body::Other(other, rest(&mut cursor)?),
    };
    if !cursor.is_empty() {
        malformed.code = ErrorCode::UNEXPECTED_DATA;
        return Err(DecodeError::Trailing(cursor.left()));
    }
    Ok(body)
}

fn result<'a>(cursor: &mut Cursor<'a>, malformed: &mut Malformed) -> Decoded<Body<'a>> {
    let (function, code) = (cursor.u8()?, cursor.u8()?);
    match code {
        0 => Ok(Body::Result(function, Ok(()))),
        1 => {
            let (marker, class, code) = (cursor.u8()?, cursor.u16_be()?, cursor.u16_be()?);
            let error = ServiceError::new(ErrorClass(class.into()), ErrorCode(code.into()));
            let details = text(cursor, malformed)?;
            Ok(Body::Result(function, Err(Nak { marker, error, details })))
        }
        _ => {
            malformed.code = ErrorCode::PARAMETER_OUT_OF_RANGE;
            Err(DecodeError::Range("the result code"))
        }
    }
}

fn connect(cursor: &mut Cursor<'_>, malformed: &mut Malformed) -> Decoded<Connect> {
    let (vmac, uuid) = (Vmac(cursor.array()?), Uuid(cursor.array()?));
    let (bvlc_bytes_max, npdu_bytes_max) = (cursor.u16_be()?, cursor.u16_be()?);
    if !vmac.is_node() {
        malformed.code = ErrorCode::PARAMETER_OUT_OF_RANGE;
        return Err(DecodeError::Range("the virtual address of a node"));
    }
    Ok(Connect { vmac, uuid, bvlc_bytes_max, npdu_bytes_max })
}

fn text<'a>(cursor: &mut Cursor<'a>, malformed: &mut Malformed) -> Decoded<&'a str> {
    core::str::from_utf8(rest(cursor)?).map_err(|_| {
        malformed.code = ErrorCode::PARAMETER_OUT_OF_RANGE;
        DecodeError::Range("a text, which is not UTF-8,")
    })
}

fn rest<'a>(cursor: &mut Cursor<'a>) -> Decoded<&'a [u8]> {
    let left = cursor.left();
    Ok(cursor.take(left)?)
}
