//! What a server answers, read against the request that it answers.
//!
//! ```text
//! 1 2       function  bytes 1  states
//! 3 4 23    function  bytes 1  registers
//! 5 6 22    the request again
//! 15 16     function  start 2  count 2
//! 43        function  14  read code 1  conformity 1  more 1  next object 1  objects 1  (id 1  bytes 1  value)…
//! refused   function | 0x80  exception 1
//! ```

use super::request::{coil_value, length};
use super::{
    Bits, EXCEPTION_BIT, Identification, MEI_DEVICE_IDENTIFICATION, PDU_BYTES_MAX, Request, low_byte, put_registers,
    take_registers,
};
use crate::{ExceptionCode, Function};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use tieline_core::{Cursor, Truncated};

/// The answer of a device that did what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// To reads of coils and discrete inputs: as many as were asked for.
    Bits(Bits),
    /// To reads of registers, function 23 too: as many as were asked for.
    Registers(Box<[u16]>),
    /// To writes: the device repeated what it wrote.
    Written,
    /// To a read of the device identification.
    Identification(Identification),
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It was done.
    Done(Response),
    /// It was refused.
    Refused(ExceptionCode),
}

/// Why an answer is none to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// Another function.
    Function(u8),
    /// Another length than the request's, or than its own fields say.
    Length,
    /// Another address, value or count than was written.
    Echo,
    /// Fields of the device identification that contradict each other.
    Identification,
    /// A response of another kind than the request's (when one is built).
    Kind,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(code) => write!(f, "an answer of function {code} to another"),
            Self::Length => f.write_str("an answer of the wrong length"),
            Self::Echo => f.write_str("an answer that repeats another address, value or count"),
            Self::Identification => f.write_str("a device identification whose fields contradict each other"),
            Self::Kind => f.write_str("a response of another kind than the request"),
        }
    }
}

impl core::error::Error for Mismatch {}

impl From<Truncated> for Mismatch {
    fn from(_: Truncated) -> Self {
        Self::Length
    }
}

impl Response {
    /// Reads a whole PDU that answers `request`. A refusal counts whatever function it names: some devices repeat
    /// the wrong one.
    ///
    /// # Errors
    /// It is no answer to this request.
    pub fn parse(request: &Request, pdu: &[u8]) -> Result<Reply, Mismatch> {
        if pdu.len() > PDU_BYTES_MAX {
            return Err(Mismatch::Length);
        }
        let mut cursor = Cursor::new(pdu);
        let code = cursor.u8()?;
        if code & EXCEPTION_BIT != 0 {
            return Ok(Reply::Refused(ExceptionCode(cursor.u8()?)));
        }
        if code != request.function().code() {
            return Err(Mismatch::Function(code));
        }
        let response = match request {
            Request::Read { table, count, .. } if table.is_bits() => {
                let bytes = take_counted(&mut cursor, usize::from(count.div_ceil(8)))?;
                Self::Bits(Bits::from_packed(bytes, *count))
            }
            Request::Read { count, .. } | Request::ReadWrite { read_count: count, .. } => {
                Self::Registers(take_registers(take_counted(&mut cursor, usize::from(*count) * 2)?))
            }
            Request::WriteCoil { .. }
            | Request::WriteRegister { .. }
            | Request::WriteCoils { .. }
            | Request::WriteRegisters { .. }
            | Request::MaskWrite { .. } => {
                let (echo, count) = echo_of(request);
                for expect in echo.iter().take(count) {
                    if cursor.u16_be()? != *expect {
                        return Err(Mismatch::Echo);
                    }
                }
                Self::Written
            }
            Request::Identification { code, .. } => {
                if cursor.u8()? != MEI_DEVICE_IDENTIFICATION || cursor.u8()? != code.code() {
                    return Err(Mismatch::Identification);
                }
                Self::Identification(Identification::parse(&mut cursor)?)
            }
        };
        if cursor.is_empty() { Ok(Reply::Done(response)) } else { Err(Mismatch::Length) }
    }

    /// Appends the PDU that answers `request`.
    ///
    /// # Errors
    /// The response is of another kind, of another count, or too long; nothing is appended then.
    pub fn emit(&self, request: &Request, out: &mut Vec<u8>) -> Result<(), Mismatch> {
        let start = out.len();
        let emitted = self.emit_fields(request, out);
        if emitted.is_err() || out.len() - start > PDU_BYTES_MAX {
            out.truncate(start);
            return emitted.and(Err(Mismatch::Length));
        }
        Ok(())
    }

    fn emit_fields(&self, request: &Request, out: &mut Vec<u8>) -> Result<(), Mismatch> {
        out.push(request.function().code());
        match (self, request) {
            (Self::Bits(bits), Request::Read { table, count, .. }) if table.is_bits() => {
                if bits.count() != *count {
                    return Err(Mismatch::Length);
                }
                out.push(low_byte(bits.packed().len()));
                out.extend_from_slice(bits.packed());
            }
            (Self::Registers(registers), Request::Read { table, count, .. }) if !table.is_bits() => {
                emit_registers(registers, *count, out)?;
            }
            (Self::Registers(registers), Request::ReadWrite { read_count, .. }) => {
                emit_registers(registers, *read_count, out)?;
            }
            (Self::Identification(page), Request::Identification { code, .. }) => {
                out.extend([MEI_DEVICE_IDENTIFICATION, code.code()]);
                page.emit(out);
            }
            (Self::Written, _) if !matches!(request, Request::Read { .. }) => {
                let (echo, count) = echo_of(request);
                if count == 0 {
                    return Err(Mismatch::Kind);
                }
                put_registers(echo.get(..count).unwrap_or_default(), out);
            }
            (Self::Bits(_) | Self::Registers(_) | Self::Written | Self::Identification(_), _) => {
                return Err(Mismatch::Kind);
            }
        }
        Ok(())
    }
}

impl ExceptionCode {
    /// Appends the PDU that refuses a request of this function code.
    pub fn emit(self, function: u8, out: &mut Vec<u8>) {
        out.extend([function | EXCEPTION_BIT, self.0]);
    }
}

/// What the answer to a write repeats, and how many words of it; none for reads.
fn echo_of(request: &Request) -> ([u16; 3], usize) {
    match request {
        Request::WriteCoil { address, on } => ([*address, coil_value(*on), 0], 2),
        Request::WriteRegister { address, value } => ([*address, *value, 0], 2),
        Request::WriteCoils { start, values } => ([*start, values.count(), 0], 2),
        Request::WriteRegisters { start, values } => ([*start, length(values), 0], 2),
        Request::MaskWrite { address, and, or } => ([*address, *and, *or], 3),
        Request::Read { .. } | Request::ReadWrite { .. } | Request::Identification { .. } => ([0; 3], 0),
    }
}

fn take_counted<'a>(cursor: &mut Cursor<'a>, expect_bytes: usize) -> Result<&'a [u8], Mismatch> {
    let bytes = usize::from(cursor.u8()?);
    if bytes != expect_bytes {
        return Err(Mismatch::Length);
    }
    Ok(cursor.take(bytes)?)
}

fn emit_registers(registers: &[u16], count: u16, out: &mut Vec<u8>) -> Result<(), Mismatch> {
    if registers.len() != usize::from(count) {
        return Err(Mismatch::Length);
    }
    out.push(low_byte(registers.len() * 2));
    put_registers(registers, out);
    Ok(())
}

/// Bytes of the answer PDU that begins with these, or none while more are needed to know; RTU frames do not say.
pub(crate) fn response_bytes(pdu: &[u8]) -> Result<Option<usize>, NoLength> {
    let Some((code, rest)) = pdu.split_first() else { return Ok(None) };
    if code & EXCEPTION_BIT != 0 {
        return Ok(Some(2));
    }
    match Function::from_code(*code).ok_or(NoLength)? {
        Function::ReadCoils
        | Function::ReadDiscreteInputs
        | Function::ReadHoldingRegisters
        | Function::ReadInputRegisters
        | Function::ReadWriteMultipleRegisters => Ok(rest.first().map(|bytes| 2 + usize::from(*bytes))),
        Function::WriteSingleCoil
        | Function::WriteSingleRegister
        | Function::WriteMultipleCoils
        | Function::WriteMultipleRegisters => Ok(Some(5)),
        Function::MaskWriteRegister => Ok(Some(7)),
        Function::EncapsulatedInterface => Ok(identification_bytes(rest)),
    }
}

/// Bytes of the request PDU that begins with these, or none while more are needed to know.
pub(crate) fn request_bytes(pdu: &[u8]) -> Result<Option<usize>, NoLength> {
    let Some((code, rest)) = pdu.split_first() else { return Ok(None) };
    match Function::from_code(*code).ok_or(NoLength)? {
        Function::ReadCoils
        | Function::ReadDiscreteInputs
        | Function::ReadHoldingRegisters
        | Function::ReadInputRegisters
        | Function::WriteSingleCoil
        | Function::WriteSingleRegister => Ok(Some(5)),
        Function::WriteMultipleCoils | Function::WriteMultipleRegisters => {
            Ok(rest.get(4).map(|bytes| 6 + usize::from(*bytes)))
        }
        Function::MaskWriteRegister => Ok(Some(7)),
        Function::ReadWriteMultipleRegisters => Ok(rest.get(8).map(|bytes| 10 + usize::from(*bytes))),
        Function::EncapsulatedInterface => match rest.first() {
            None => Ok(None),
            Some(&MEI_DEVICE_IDENTIFICATION) => Ok(Some(4)),
            Some(_) => Err(NoLength),
        },
    }
}

/// A function whose frames have no known length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoLength;

fn identification_bytes(after_function: &[u8]) -> Option<usize> {
    let objects = *after_function.get(5)?;
    let mut bytes = 7;
    for _ in 0..objects {
        bytes += 2 + usize::from(*after_function.get(bytes)?);
        if bytes > PDU_BYTES_MAX {
            break;
        }
    }
    Some(bytes)
}
