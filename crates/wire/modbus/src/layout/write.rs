//! The request that writes a value.

use super::{Kind, Layout, LayoutError};
use crate::{Request, Table};
use tieline_core::Value;

/// Which functions a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteStyle {
    /// One register is written with function 6, otherwise with 16.
    pub single: bool,
    /// Bits of a register are written with function 22, otherwise the register is read and written back.
    pub mask: bool,
}

impl Default for WriteStyle {
    /// Functions 6 and 22.
    fn default() -> Self {
        Self { single: true, mask: true }
    }
}

/// How a value is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// With one request.
    Request(Request),
    /// With a read and a write: what changes the register's other bits in between is lost.
    ReadModifyWrite(ReadModifyWrite),
}

/// Bits of a register, for a device without function 22.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadModifyWrite {
    address: u16,
    and: u16,
    or: u16,
    style: WriteStyle,
}

impl ReadModifyWrite {
    /// The request that reads the register.
    #[must_use]
    pub const fn read(&self) -> Request {
        Request::Read { table: Table::HoldingRegisters, start: self.address, count: 1 }
    }

    /// The request that writes it back, from what was read.
    #[must_use]
    pub fn write(&self, current: u16) -> Request {
        register_request(self.address, (current & self.and) | (self.or & !self.and), self.style)
    }
}

impl Layout {
    /// How a value is written to an address of a table.
    ///
    /// # Errors
    /// The table is read only, or the value does not fit.
    pub fn write(&self, table: Table, address: u16, value: &Value, style: WriteStyle) -> Result<Write, LayoutError> {
        match table {
            Table::DiscreteInputs | Table::InputRegisters => return Err(LayoutError::Table),
            Table::Coils => {
                let Kind::Bool = self.kind else { return Err(LayoutError::Table) };
                let on = self.encode(value)?.iter().any(|register| *register != 0);
                return Ok(Write::Request(Request::WriteCoil { address, on }));
            }
            Table::HoldingRegisters => {}
        }
        if let Kind::Bits { count: ..16, .. } = self.kind {
            let (and, or) = self.masks(value)?;
            return Ok(if style.mask {
                Write::Request(Request::MaskWrite { address, and, or })
            } else {
                Write::ReadModifyWrite(ReadModifyWrite { address, and, or, style })
            });
        }
        let registers = self.encode(value)?;
        let request = match registers.as_slice() {
            [register] => register_request(address, *register, style),
            _ => Request::WriteRegisters { start: address, values: registers.into() },
        };
        request.check().map_err(|_| LayoutError::Address)?;
        Ok(Write::Request(request))
    }
}

fn register_request(address: u16, value: u16, style: WriteStyle) -> Request {
    if style.single {
        Request::WriteRegister { address, value }
    } else {
        Request::WriteRegisters { start: address, values: [value].into() }
    }
}
