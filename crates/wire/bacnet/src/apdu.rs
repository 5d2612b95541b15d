//! Headers of the application layer (clause 20.1): eight types of message.

use crate::names::{AbortReason, ConfirmedService, RejectReason, UnconfirmedService};
use crate::{DecodeError, Decoded};
use alloc::vec::Vec;
use tieline_core::Cursor;

/// The place of one segment in a long message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number, modulo 256.
    pub sequence: u8,
    /// Segments that the sender proposes to send before it waits for an acknowledgement, 1 to 127.
    pub window: u8,
    /// Whether others follow.
    pub more_follows: bool,
}

/// What the sender of a request can take as an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepts {
    /// Whether an answer may come in segments.
    pub segmented: bool,
    /// Segments at most, as coded: 0 unspecified, 1-6 two to the power, 7 more than 64.
    pub segments_code: u8,
    /// Bytes of a message at most, as coded: see [`apdu_bytes_of_code`].
    pub apdu_code: u8,
}

/// A message of the application layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apdu<'a> {
    /// Asks for something, and waits.
    ConfirmedRequest {
        /// The segment, where it is only a part.
        segment: Option<Segment>,
        /// What the asker takes.
        accepts: Accepts,
        /// Which of the asker's requests it is.
        invoke_id: u8,
        /// What is asked.
        service: ConfirmedService,
        /// Its parameters.
        parameters: &'a [u8],
    },
    /// Tells or asks without waiting.
    UnconfirmedRequest {
        /// What is told.
        service: UnconfirmedService,
        /// Its parameters.
        parameters: &'a [u8],
    },
    /// It is done.
    SimpleAck {
        /// Which request.
        invoke_id: u8,
        /// What was asked.
        service: ConfirmedService,
    },
    /// It is done, and here is the result.
    ComplexAck {
        /// The segment, where it is only a part.
        segment: Option<Segment>,
        /// Which request.
        invoke_id: u8,
        /// What was asked.
        service: ConfirmedService,
        /// The result.
        parameters: &'a [u8],
    },
    /// Segments have arrived up to a number.
    SegmentAck {
        /// Whether one is missing after it.
        negative: bool,
        /// Whether the one who answers the request sends it.
        from_server: bool,
        /// Which request.
        invoke_id: u8,
        /// The last segment that arrived in order.
        sequence: u8,
        /// Segments that may be sent before the next acknowledgement.
        window: u8,
    },
    /// It failed.
    Error {
        /// Which request.
        invoke_id: u8,
        /// What was asked.
        service: ConfirmedService,
        /// Class and code, and more of some services.
        parameters: &'a [u8],
    },
    /// It was not understood.
    Reject {
        /// Which request.
        invoke_id: u8,
        /// Why.
        reason: RejectReason,
    },
    /// The transaction is given up.
    Abort {
        /// Whether the one who answers the request sends it.
        from_server: bool,
        /// Which request.
        invoke_id: u8,
        /// Why.
        reason: AbortReason,
    },
}

impl<'a> Apdu<'a> {
    /// Reads one.
    ///
    /// # Errors
    /// Its type is none, or it ends early.
    pub fn parse(bytes: &'a [u8]) -> Decoded<Self> {
        let mut cursor = Cursor::new(bytes);
        let first = cursor.u8()?;
        Ok(match first >> 4 {
            0 => Self::request(first, &mut cursor)?,
            1 => Self::UnconfirmedRequest { service: UnconfirmedService(cursor.u8()?), parameters: cursor.rest() },
            2 => Self::SimpleAck { invoke_id: cursor.u8()?, service: ConfirmedService(cursor.u8()?) },
            3 => {
                let invoke_id = cursor.u8()?;
                let segment = segment(first, &mut cursor)?;
                let service = ConfirmedService(cursor.u8()?);
                Self::ComplexAck { segment, invoke_id, service, parameters: cursor.rest() }
            }
            4 => Self::SegmentAck {
                negative: first & 0x02 != 0,
                from_server: first & 0x01 != 0,
                invoke_id: cursor.u8()?,
                sequence: cursor.u8()?,
                window: cursor.u8()?,
            },
            5 => Self::Error {
                invoke_id: cursor.u8()?,
                service: ConfirmedService(cursor.u8()?),
                parameters: cursor.rest(),
            },
            6 => Self::Reject { invoke_id: cursor.u8()?, reason: RejectReason(cursor.u8()?) },
            7 => Self::Abort {
                from_server: first & 0x01 != 0,
                invoke_id: cursor.u8()?,
                reason: AbortReason(cursor.u8()?),
            },
            _ => return Err(DecodeError::Expected("a type of message from 0 to 7")),
        })
    }

    fn request(first: u8, cursor: &mut Cursor<'a>) -> Decoded<Self> {
        let sizes = cursor.u8()?;
        let invoke_id = cursor.u8()?;
        let segment = segment(first, cursor)?;
        let service = ConfirmedService(cursor.u8()?);
        let accepts =
            Accepts { segmented: first & 0x02 != 0, segments_code: sizes >> 4 & 0x07, apdu_code: sizes & 0x0F };
        Ok(Self::ConfirmedRequest { segment, accepts, invoke_id, service, parameters: cursor.rest() })
    }

    /// Appends it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match *self {
            Self::ConfirmedRequest { segment, accepts, invoke_id, service, parameters } => {
                let segmented = if accepts.segmented { 0x02 } else { 0 };
                let sizes = (accepts.segments_code & 0x07) << 4 | (accepts.apdu_code & 0x0F);
                out.extend([segment_bits(segment) | segmented, sizes, invoke_id]);
                out.extend(segment.iter().flat_map(|segment| [segment.sequence, segment.window]));
                out.push(service.0);
                out.extend_from_slice(parameters);
            }
            Self::UnconfirmedRequest { service, parameters } => {
                out.extend([0x10, service.0]);
                out.extend_from_slice(parameters);
            }
            Self::SimpleAck { invoke_id, service } => out.extend([0x20, invoke_id, service.0]),
            Self::ComplexAck { segment, invoke_id, service, parameters } => {
                out.extend([0x30 | segment_bits(segment), invoke_id]);
                out.extend(segment.iter().flat_map(|segment| [segment.sequence, segment.window]));
                out.push(service.0);
                out.extend_from_slice(parameters);
            }
            Self::SegmentAck { negative, from_server, invoke_id, sequence, window } => {
                let bits = if negative { 0x02 } else { 0 } | u8::from(from_server);
                out.extend([0x40 | bits, invoke_id, sequence, window]);
            }
            Self::Error { invoke_id, service, parameters } => {
                out.extend([0x50, invoke_id, service.0]);
                out.extend_from_slice(parameters);
            }
            Self::Reject { invoke_id, reason } => out.extend([0x60, invoke_id, reason.0]),
            Self::Abort { from_server, invoke_id, reason } => {
                out.extend([0x70 | u8::from(from_server), invoke_id, reason.0]);
            }
        }
    }

    /// Whether its sender waits for an answer of the application.
    #[must_use]
    pub const fn expects_reply(&self) -> bool {
        match self {
            Self::ConfirmedRequest { .. } => true,
            // A segment of an answer is acknowledged (clause 6.2.2).
            Self::ComplexAck { segment, .. } => segment.is_some(),
            Self::UnconfirmedRequest { .. }
            | Self::SimpleAck { .. }
            | Self::SegmentAck { .. }
            | Self::Error { .. }
            | Self::Reject { .. }
            | Self::Abort { .. } => false,
        }
    }
}

fn segment(first: u8, cursor: &mut Cursor<'_>) -> Decoded<Option<Segment>> {
    if first & 0x08 == 0 {
        return Ok(None);
    }
    Ok(Some(Segment { sequence: cursor.u8()?, window: cursor.u8()?, more_follows: first & 0x04 != 0 }))
}

fn segment_bits(segment: Option<Segment>) -> u8 {
    segment.map_or(0, |segment| 0x08 | if segment.more_follows { 0x04 } else { 0 })
}

/// Sizes of messages that have a code, in its order (clause 20.1.2.5).
const APDU_BYTES: [u16; 6] = [50, 128, 206, 480, 1024, 1476];

/// Bytes of a message that a code stands for; a reserved one counts as the smallest.
#[must_use]
pub fn apdu_bytes_of_code(code: u8) -> u16 {
    APDU_BYTES.get(usize::from(code)).copied().unwrap_or(50)
}

/// The code of the largest size that is not above `bytes`.
#[must_use]
pub fn apdu_code(bytes: u16) -> u8 {
    let fits = APDU_BYTES.iter().filter(|size| **size <= bytes).count();
    u8::try_from(fits.saturating_sub(1)).unwrap_or(0)
}

/// Segments that a code stands for at most (clause 20.1.2.4); none where it does not say.
#[must_use]
pub const fn segments_of_code(code: u8) -> Option<u16> {
    match code & 0x07 {
        0 | 7 => None,
        power => Some(1 << power),
    }
}
