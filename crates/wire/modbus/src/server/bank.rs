//! The four tables of a simulated device, in memory.

use crate::{Bits, ExceptionCode, Identity, Request, Response, Table};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Four tables that begin at address 0, and a device identification.
#[derive(Clone, Debug, Default)]
pub struct Bank {
    /// Table of [`Table::Coils`].
    pub coils: Vec<bool>,
    /// Table of [`Table::DiscreteInputs`].
    pub discrete_inputs: Vec<bool>,
    /// Table of [`Table::HoldingRegisters`].
    pub holding_registers: Vec<u16>,
    /// Table of [`Table::InputRegisters`].
    pub input_registers: Vec<u16>,
    /// What it says of itself.
    pub identity: Identity,
}

impl Bank {
    /// With so many addresses in each table, all zero.
    #[must_use]
    pub fn new(count: u16) -> Self {
        let count = usize::from(count);
        Self {
            coils: alloc::vec![false; count],
            discrete_inputs: alloc::vec![false; count],
            holding_registers: alloc::vec![0; count],
            input_registers: alloc::vec![0; count],
            identity: Identity::default(),
        }
    }

    /// Does what a request asks.
    ///
    /// # Errors
    /// An address is beyond its table; nothing was written then.
    pub fn handle(&mut self, request: &Request) -> Result<Response, ExceptionCode> {
        match request {
            Request::Read { table, start, count } => self.read(*table, *start, *count),
            Request::WriteCoil { address, on } => write(&mut self.coils, *address, &[*on]),
            Request::WriteRegister { address, value } => write(&mut self.holding_registers, *address, &[*value]),
            Request::WriteCoils { start, values } => write(&mut self.coils, *start, &values.iter().collect::<Vec<_>>()),
            Request::WriteRegisters { start, values } => write(&mut self.holding_registers, *start, values),
            Request::MaskWrite { address, and, or } => {
                let register = places_mut(&mut self.holding_registers, *address, 1)?;
                register.iter_mut().for_each(|register| *register = (*register & and) | (or & !and));
                Ok(Response::Written)
            }
            Request::ReadWrite { read_start, read_count, write_start, values } => {
                places(&self.holding_registers, *read_start, *read_count)?;
                write(&mut self.holding_registers, *write_start, values)?;
                self.read(Table::HoldingRegisters, *read_start, *read_count)
            }
            Request::Identification { code, object } => {
                Ok(Response::Identification(self.identity.page(*code, *object)?))
            }
        }
    }

    fn read(&self, table: Table, start: u16, count: u16) -> Result<Response, ExceptionCode> {
        let bits = |table: &[bool]| -> Result<Bits, ExceptionCode> {
            Ok(places(table, start, count)?.iter().copied().collect())
        };
        let registers =
            |table: &[u16]| -> Result<Box<[u16]>, ExceptionCode> { Ok(places(table, start, count)?.into()) };
        Ok(match table {
            Table::Coils => Response::Bits(bits(&self.coils)?),
            Table::DiscreteInputs => Response::Bits(bits(&self.discrete_inputs)?),
            Table::HoldingRegisters => Response::Registers(registers(&self.holding_registers)?),
            Table::InputRegisters => Response::Registers(registers(&self.input_registers)?),
        })
    }
}

fn places<T>(table: &[T], start: u16, count: u16) -> Result<&[T], ExceptionCode> {
    let start = usize::from(start);
    table.get(start..start + usize::from(count)).ok_or(ExceptionCode::ILLEGAL_DATA_ADDRESS)
}

fn places_mut<T>(table: &mut [T], start: u16, count: usize) -> Result<&mut [T], ExceptionCode> {
    let start = usize::from(start);
    table.get_mut(start..start + count).ok_or(ExceptionCode::ILLEGAL_DATA_ADDRESS)
}

fn write<T: Copy>(table: &mut [T], start: u16, values: &[T]) -> Result<Response, ExceptionCode> {
    places_mut(table, start, values.len())?.copy_from_slice(values);
    Ok(Response::Written)
}
