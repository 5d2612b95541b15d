//! `IECGoosePdu` of IEC 61850-8-1.
//!
//! ```text
//!  61 ─ 80 gocbRef · 81 timeAllowedtoLive · 82 datSet · [83 goID] · 84 t · 85 stNum · 86 sqNum · [87 simulation] · 88 confRev
//!     · [89 ndsCom] · 8A numDatSetEntries · AB allData
//! ```

use crate::ber::{self, BerError};
use crate::data::Members;
use crate::frame::{Frame, FrameError, FrameHead};
use crate::time::UtcTime;
use crate::value::{Value, emit_all};
use alloc::vec::Vec;
use core::fmt;

const PDU: u8 = 0x61;
const GOCB_REF: u8 = 0x80;
const TIME_ALLOWED: u8 = 0x81;
const DAT_SET: u8 = 0x82;
const GO_ID: u8 = 0x83;
const TIME: u8 = 0x84;
const ST_NUM: u8 = 0x85;
const SQ_NUM: u8 = 0x86;
const SIMULATION: u8 = 0x87;
const CONF_REV: u8 = 0x88;
const NDS_COM: u8 = 0x89;
const ENTRIES: u8 = 0x8A;
const ALL_DATA: u8 = 0xAB;

/// What a message says besides its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PduHead<'a> {
    /// The reference of the control block.
    pub gocb_ref: &'a str,
    /// Milliseconds within which the next message comes.
    pub time_allowed_ms: u32,
    /// The reference of the data set.
    pub dat_set: &'a str,
    /// The identifier of the message, where it is another one than the reference of the control block.
    pub go_id: Option<&'a str>,
    /// When `st_num` rose last.
    pub time: UtcTime,
    /// Rises with each change of the data.
    pub st_num: u32,
    /// Rises with each repetition.
    pub sq_num: u32,
    /// Whether the message is simulated; in edition 1, whether it is a test.
    pub is_simulated: bool,
    /// The revision of the configuration of the data set.
    pub conf_rev: u32,
    /// Whether the publisher itself says that its control block needs commissioning.
    pub needs_commissioning: bool,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pdu<'a> {
    /// What it says besides.
    pub head: PduHead<'a>,
    /// How many members its data set has.
    pub entries: u32,
    /// The values.
    pub all_data: Members<'a>,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PduError {
    /// They are not written as the standard has it.
    Ber(BerError),
    /// There are other than so many values.
    Entries {
        /// How many the message says it has.
        told: u32,
        /// How many there are.
        found: u32,
    },
}

impl fmt::Display for PduError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ber(error) => error.fmt(f),
            Self::Entries { told, found } => write!(f, "{found} values, expected {told} as the message says"),
        }
    }
}

impl core::error::Error for PduError {}

impl From<BerError> for PduError {
    fn from(error: BerError) -> Self {
        Self::Ber(error)
    }
}

fn optional<'a>(rest: &mut &'a [u8], tag: u8) -> Result<Option<&'a [u8]>, BerError> {
    if ber::peek(rest) == Some(tag) { ber::expect(rest, tag).map(Some) } else { Ok(None) }
}

fn flag(rest: &mut &[u8], tag: u8) -> Result<bool, BerError> {
    optional(rest, tag)?.map_or(Ok(false), |content| ber::boolean(tag, content))
}

fn number(rest: &mut &[u8], tag: u8) -> Result<u32, BerError> {
    ber::unsigned_32(tag, ber::expect(rest, tag)?)
}

fn text<'a>(rest: &mut &'a [u8], tag: u8) -> Result<&'a str, BerError> {
    ber::text(tag, ber::expect(rest, tag)?)
}

impl<'a> Pdu<'a> {
    /// Reads a message; what follows it, such as a signature, is skipped.
    ///
    /// # Errors
    /// It is none, or one of its values is malformed.
    pub fn parse(apdu: &'a [u8]) -> Result<Self, PduError> {
        let mut rest = ber::expect(&mut &*apdu, PDU)?;
        let rest = &mut rest;
        let gocb_ref = text(rest, GOCB_REF)?;
        let time_allowed_ms = number(rest, TIME_ALLOWED)?;
        let dat_set = text(rest, DAT_SET)?;
        let go_id = optional(rest, GO_ID)?.map(|content| ber::text(GO_ID, content)).transpose()?;
        let time = UtcTime::from_bytes(ber::expect(rest, TIME)?).ok_or(BerError::Content(TIME))?;
        let (st_num, sq_num) = (number(rest, ST_NUM)?, number(rest, SQ_NUM)?);
        let is_simulated = flag(rest, SIMULATION)?;
        let conf_rev = number(rest, CONF_REV)?;
        let needs_commissioning = flag(rest, NDS_COM)?;
        let told = number(rest, ENTRIES)?;
        let (all_data, found) = Members::parse(ber::expect(rest, ALL_DATA)?)?;
        if found != told {
            return Err(PduError::Entries { told, found });
        }
        let head = PduHead {
            gocb_ref,
            time_allowed_ms,
            dat_set,
            go_id,
            time,
            st_num,
            sq_num,
            is_simulated,
            conf_rev,
            needs_commissioning,
        };
        Ok(Self { head, entries: told, all_data })
    }
}

impl PduHead<'_> {
    /// Appends a message with these values.
    pub fn emit(&self, values: &[Value], out: &mut Vec<u8>) {
        let bytes = |tag, bytes: &[u8], out: &mut Vec<u8>| ber::emit(tag, out, |out| out.extend_from_slice(bytes));
        let flag = |tag, on, out: &mut Vec<u8>| bytes(tag, &[if on { 0xFF } else { 0 }], out);
        ber::emit(PDU, out, |out| {
            bytes(GOCB_REF, self.gocb_ref.as_bytes(), out);
            ber::emit_unsigned(TIME_ALLOWED, self.time_allowed_ms.into(), out);
            bytes(DAT_SET, self.dat_set.as_bytes(), out);
            if let Some(go_id) = self.go_id {
                bytes(GO_ID, go_id.as_bytes(), out);
            }
            bytes(TIME, &self.time.to_bytes(), out);
            ber::emit_unsigned(ST_NUM, self.st_num.into(), out);
            ber::emit_unsigned(SQ_NUM, self.sq_num.into(), out);
            flag(SIMULATION, self.is_simulated, out);
            ber::emit_unsigned(CONF_REV, self.conf_rev.into(), out);
            flag(NDS_COM, self.needs_commissioning, out);
            ber::emit_unsigned(ENTRIES, values.len().try_into().unwrap_or(u64::MAX), out);
            ber::emit(ALL_DATA, out, |out| emit_all(values, out));
        });
    }
}

/// A frame with its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The frame.
    pub frame: FrameHead,
    /// The message.
    pub pdu: Pdu<'a>,
}

/// Why bytes are no frame with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GooseError {
    /// No frame.
    Frame(FrameError),
    /// No message.
    Pdu(PduError),
}

impl fmt::Display for GooseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(f),
            Self::Pdu(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for GooseError {}

impl<'a> Message<'a> {
    /// Reads a frame and its message.
    ///
    /// # Errors
    /// It is none of GOOSE, or malformed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, GooseError> {
        let Frame { head: frame, apdu } = Frame::parse(bytes).map_err(GooseError::Frame)?;
        let pdu = Pdu::parse(apdu).map_err(GooseError::Pdu)?;
        Ok(Self { frame, pdu })
    }

    /// Whether the frame or the message says that it is simulated.
    #[must_use]
    pub const fn is_simulated(&self) -> bool {
        self.frame.is_simulated || self.pdu.head.is_simulated
    }
}
