//! What a client asks.
//!
//! ```text
//! 1 2 3 4   function  start 2  count 2
//! 5 6       function  address 2  value 2
//! 15 16     function  start 2  count 2  bytes 1  values
//! 22        function  address 2  and-mask 2  or-mask 2
//! 23        function  read start 2  read count 2  write start 2  write count 2  bytes 1  values
//! 43        function  14  read code 1  object 1
//! ```

use super::{
    Bits, MEI_DEVICE_IDENTIFICATION, READ_BITS_MAX, READ_REGISTERS_MAX, READ_WRITE_REGISTERS_MAX, ReadCode,
    WRITE_BITS_MAX, WRITE_REGISTERS_MAX, low_byte, put_registers, take_registers,
};
use crate::{ExceptionCode, Function};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use tieline_core::{Cursor, Truncated};

/// One of the four address spaces (Application Protocol 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Bits that can be written.
    Coils,
    /// Bits that are read only.
    DiscreteInputs,
    /// Registers that can be written.
    HoldingRegisters,
    /// Registers that are read only.
    InputRegisters,
}

impl Table {
    /// The function that reads it.
    #[must_use]
    pub const fn read_function(self) -> Function {
        match self {
            Self::Coils => Function::ReadCoils,
            Self::DiscreteInputs => Function::ReadDiscreteInputs,
            Self::HoldingRegisters => Function::ReadHoldingRegisters,
            Self::InputRegisters => Function::ReadInputRegisters,
        }
    }

    /// Whether an address holds one bit, not 16.
    #[must_use]
    pub const fn is_bits(self) -> bool {
        matches!(self, Self::Coils | Self::DiscreteInputs)
    }

    /// How many addresses one read can ask for.
    #[must_use]
    pub const fn read_max(self) -> u16 {
        if self.is_bits() { READ_BITS_MAX } else { READ_REGISTERS_MAX }
    }
}

/// What a client asks. [`Request::check`] says whether it is legal; machines take and give only legal ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Functions 1 to 4.
    Read {
        /// Which of the four.
        table: Table,
        /// The first address, from 0.
        start: u16,
        /// How many, 1 to [`Table::read_max`].
        count: u16,
    },
    /// Function 5.
    WriteCoil {
        /// Which coil.
        address: u16,
        /// Its state.
        on: bool,
    },
    /// Function 6.
    WriteRegister {
        /// Which register.
        address: u16,
        /// Its value.
        value: u16,
    },
    /// Function 15.
    WriteCoils {
        /// The first address.
        start: u16,
        /// 1 to [`WRITE_BITS_MAX`] states.
        values: Bits,
    },
    /// Function 16.
    WriteRegisters {
        /// The first address.
        start: u16,
        /// 1 to [`WRITE_REGISTERS_MAX`] values.
        values: Box<[u16]>,
    },
    /// Function 22: the register becomes `(register & and) | (or & !and)`.
    MaskWrite {
        /// Which register.
        address: u16,
        /// Bits that stay.
        and: u16,
        /// Values of the bits that do not.
        or: u16,
    },
    /// Function 23: writes, then reads.
    ReadWrite {
        /// The first address to read.
        read_start: u16,
        /// How many to read, 1 to [`READ_REGISTERS_MAX`].
        read_count: u16,
        /// The first address to write.
        write_start: u16,
        /// 1 to [`READ_WRITE_REGISTERS_MAX`] values.
        values: Box<[u16]>,
    },
    /// Function 43, interface 14.
    Identification {
        /// Which objects.
        code: ReadCode,
        /// The first object, or the only one.
        object: u8,
    },
}

/// Why bytes, or values, are not a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// A function, or an encapsulated interface, that this crate does not know.
    Function(u8),
    /// The bytes end before the request does, or go on after it.
    Length,
    /// A count outside the function's range.
    Count {
        /// What was found.
        found: u16,
        /// The largest that is allowed; the smallest is 1.
        max: u16,
    },
    /// The last address is beyond 65,535.
    Address,
    /// A value that the function does not know: a coil neither on nor off, a read code.
    Value(u16),
}

impl RequestError {
    /// What a server answers (Application Protocol 6: the state diagrams of the functions).
    #[must_use]
    pub const fn exception(self) -> ExceptionCode {
        match self {
            Self::Function(_) => ExceptionCode::ILLEGAL_FUNCTION,
            Self::Length | Self::Count { .. } | Self::Value(_) => ExceptionCode::ILLEGAL_DATA_VALUE,
            Self::Address => ExceptionCode::ILLEGAL_DATA_ADDRESS,
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(code) => write!(f, "function {code}, expected 1 to 6, 15, 16, 22, 23 or 43/14"),
            Self::Length => f.write_str("a request of the wrong length"),
            Self::Count { found, max } => write!(f, "a count of {found}, expected 1 to {max}"),
            Self::Address => f.write_str("addresses beyond 65535"),
            Self::Value(value) => write!(f, "a value of {value:#06X} that the function does not know"),
        }
    }
}

impl core::error::Error for RequestError {}

impl From<Truncated> for RequestError {
    fn from(_: Truncated) -> Self {
        Self::Length
    }
}

const COIL_ON: u16 = 0xFF00;
const COIL_OFF: u16 = 0x0000;

impl Request {
    /// Its function.
    #[must_use]
    pub const fn function(&self) -> Function {
        match self {
            Self::Read { table, .. } => table.read_function(),
            Self::WriteCoil { .. } => Function::WriteSingleCoil,
            Self::WriteRegister { .. } => Function::WriteSingleRegister,
            Self::WriteCoils { .. } => Function::WriteMultipleCoils,
            Self::WriteRegisters { .. } => Function::WriteMultipleRegisters,
            Self::MaskWrite { .. } => Function::MaskWriteRegister,
            Self::ReadWrite { .. } => Function::ReadWriteMultipleRegisters,
            Self::Identification { .. } => Function::EncapsulatedInterface,
        }
    }

    /// Whether it changes nothing in the device, so that it may be sent again.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Identification { .. })
    }

    /// Whether counts and addresses are in their ranges.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), RequestError> {
        match self {
            Self::Read { table, start, count } => check_range(*start, *count, table.read_max()),
            Self::WriteCoils { start, values } => check_range(*start, values.count(), WRITE_BITS_MAX),
            Self::WriteRegisters { start, values } => check_range(*start, length(values), WRITE_REGISTERS_MAX),
            Self::ReadWrite { read_start, read_count, write_start, values } => {
                check_range(*read_start, *read_count, READ_REGISTERS_MAX)?;
                check_range(*write_start, length(values), READ_WRITE_REGISTERS_MAX)
            }
            Self::WriteCoil { .. }
            | Self::WriteRegister { .. }
            | Self::MaskWrite { .. }
            | Self::Identification { .. } => Ok(()),
        }
    }

    /// Reads a whole PDU.
    ///
    /// # Errors
    /// It is none, or not legal.
    pub fn parse(pdu: &[u8]) -> Result<Self, RequestError> {
        let mut cursor = Cursor::new(pdu);
        let code = cursor.u8()?;
        let function = Function::from_code(code).ok_or(RequestError::Function(code))?;
        let request = match function {
            Function::ReadCoils => parse_read(Table::Coils, &mut cursor)?,
            Function::ReadDiscreteInputs => parse_read(Table::DiscreteInputs, &mut cursor)?,
            Function::ReadHoldingRegisters => parse_read(Table::HoldingRegisters, &mut cursor)?,
            Function::ReadInputRegisters => parse_read(Table::InputRegisters, &mut cursor)?,
            Function::WriteSingleCoil => {
                let (address, value) = (cursor.u16_be()?, cursor.u16_be()?);
                let on = match value {
                    COIL_ON => true,
                    COIL_OFF => false,
                    _ => return Err(RequestError::Value(value)),
                };
                Self::WriteCoil { address, on }
            }
            Function::WriteSingleRegister => Self::WriteRegister { address: cursor.u16_be()?, value: cursor.u16_be()? },
            Function::WriteMultipleCoils => {
                let (start, count) = (cursor.u16_be()?, cursor.u16_be()?);
                let bytes = take_values(&mut cursor, count, WRITE_BITS_MAX, usize::from(count.div_ceil(8)))?;
                Self::WriteCoils { start, values: Bits::from_packed(bytes, count) }
            }
            Function::WriteMultipleRegisters => {
                let (start, count) = (cursor.u16_be()?, cursor.u16_be()?);
                let bytes = take_values(&mut cursor, count, WRITE_REGISTERS_MAX, usize::from(count) * 2)?;
                Self::WriteRegisters { start, values: take_registers(bytes) }
            }
            Function::MaskWriteRegister => {
                Self::MaskWrite { address: cursor.u16_be()?, and: cursor.u16_be()?, or: cursor.u16_be()? }
            }
            Function::ReadWriteMultipleRegisters => parse_read_write(&mut cursor)?,
            Function::EncapsulatedInterface => parse_identification(&mut cursor)?,
        };
        if !cursor.is_empty() {
            return Err(RequestError::Length);
        }
        request.check()?;
        Ok(request)
    }

    /// Appends the PDU.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.function().code());
        match self {
            Self::Read { start, count, .. } => put_registers(&[*start, *count], out),
            Self::WriteCoil { address, on } => put_registers(&[*address, coil_value(*on)], out),
            Self::WriteRegister { address, value } => put_registers(&[*address, *value], out),
            Self::WriteCoils { start, values } => {
                put_registers(&[*start, values.count()], out);
                out.push(low_byte(values.packed().len()));
                out.extend_from_slice(values.packed());
            }
            Self::WriteRegisters { start, values } => {
                put_registers(&[*start, length(values)], out);
                out.push(low_byte(values.len() * 2));
                put_registers(values, out);
            }
            Self::MaskWrite { address, and, or } => put_registers(&[*address, *and, *or], out),
            Self::ReadWrite { read_start, read_count, write_start, values } => {
                put_registers(&[*read_start, *read_count, *write_start, length(values)], out);
                out.push(low_byte(values.len() * 2));
                put_registers(values, out);
            }
            Self::Identification { code, object } => {
                out.extend([MEI_DEVICE_IDENTIFICATION, code.code(), *object]);
            }
        }
    }
}

/// The value on the wire of a coil's state.
pub(super) const fn coil_value(on: bool) -> u16 {
    if on { COIL_ON } else { COIL_OFF }
}

/// How many registers; more than fit count as the most.
pub(super) fn length(values: &[u16]) -> u16 {
    u16::try_from(values.len()).unwrap_or(u16::MAX)
}

fn check_range(start: u16, count: u16, max: u16) -> Result<(), RequestError> {
    if count == 0 || count > max {
        return Err(RequestError::Count { found: count, max });
    }
    start.checked_add(count - 1).map(|_| ()).ok_or(RequestError::Address)
}

fn parse_read(table: Table, cursor: &mut Cursor<'_>) -> Result<Request, RequestError> {
    Ok(Request::Read { table, start: cursor.u16_be()?, count: cursor.u16_be()? })
}

/// The values after a count, of which the byte count must be that of the count.
fn take_values<'a>(
    cursor: &mut Cursor<'a>,
    count: u16,
    max: u16,
    expect_bytes: usize,
) -> Result<&'a [u8], RequestError> {
    let bytes = usize::from(cursor.u8()?);
    if count == 0 || count > max {
        return Err(RequestError::Count { found: count, max });
    }
    if bytes != expect_bytes {
        return Err(RequestError::Length);
    }
    Ok(cursor.take(bytes)?)
}

fn parse_read_write(cursor: &mut Cursor<'_>) -> Result<Request, RequestError> {
    let (read_start, read_count) = (cursor.u16_be()?, cursor.u16_be()?);
    let (write_start, count) = (cursor.u16_be()?, cursor.u16_be()?);
    let bytes = take_values(cursor, count, READ_WRITE_REGISTERS_MAX, usize::from(count) * 2)?;
    Ok(Request::ReadWrite { read_start, read_count, write_start, values: take_registers(bytes) })
}

fn parse_identification(cursor: &mut Cursor<'_>) -> Result<Request, RequestError> {
    let interface = cursor.u8()?;
    if interface != MEI_DEVICE_IDENTIFICATION {
        return Err(RequestError::Function(Function::EncapsulatedInterface.code()));
    }
    let code = cursor.u8()?;
    let code = ReadCode::from_code(code).ok_or(RequestError::Value(u16::from(code)))?;
    Ok(Request::Identification { code, object: cursor.u8()? })
}
