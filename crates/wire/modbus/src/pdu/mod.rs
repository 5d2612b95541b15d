//! Protocol data units: what is asked, what is answered, without the frame around it (Application Protocol 4.1).

mod bits;
mod identification;
mod request;
mod response;

pub use bits::Bits;
pub use identification::{Identification, Identity, IdentityObject, OBJECT_BYTES_MAX, ReadCode};
pub use request::{Request, RequestError, Table};
pub use response::{Mismatch, Reply, Response};
pub(crate) use response::{request_bytes, response_bytes};

/// Bytes of the longest PDU.
pub const PDU_BYTES_MAX: usize = 253;
/// Registers of one read (functions 3, 4, 23).
pub const READ_REGISTERS_MAX: u16 = 125;
/// Coils or discrete inputs of one read (functions 1, 2).
pub const READ_BITS_MAX: u16 = 2000;
/// Registers of one write (function 16).
pub const WRITE_REGISTERS_MAX: u16 = 123;
/// Coils of one write (function 15).
pub const WRITE_BITS_MAX: u16 = 1968;
/// Registers written by function 23.
pub const READ_WRITE_REGISTERS_MAX: u16 = 121;

/// The bit of a function code that makes it an exception.
pub(crate) const EXCEPTION_BIT: u8 = 0x80;
/// The encapsulated interface of device identification (Application Protocol 6.21).
pub(crate) const MEI_DEVICE_IDENTIFICATION: u8 = 14;

/// The low byte of a number: what a length field has room for.
pub(crate) const fn low_byte(count: usize) -> u8 {
    let [.., low] = count.to_be_bytes();
    low
}

/// Appends registers as they are on the wire, high byte first.
pub(crate) fn put_registers(registers: &[u16], out: &mut alloc::vec::Vec<u8>) {
    out.extend(registers.iter().flat_map(|register| register.to_be_bytes()));
}

/// Reads registers as they are on the wire; an odd byte at the end is left out.
pub(crate) fn take_registers(bytes: &[u8]) -> alloc::boxed::Box<[u16]> {
    let (pairs, _) = bytes.as_chunks::<2>();
    pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect()
}
