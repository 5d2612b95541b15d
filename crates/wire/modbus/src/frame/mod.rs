//! What is around a PDU: the MBAP header of TCP, or unit and check of serial lines.

mod crc;
mod mbap;
mod rtu;
mod timing;

pub use crc::crc;
pub(crate) use mbap::{Mbap, MbapDecoder};
pub(crate) use rtu::RtuWindow;
pub use timing::{Framing, SerialTiming};

use crate::Unit;
use alloc::vec::Vec;

/// Bytes of the longest frame on TCP.
pub const ADU_TCP_BYTES_MAX: usize = 260;
/// Bytes of the longest RTU frame.
pub const ADU_RTU_BYTES_MAX: usize = 256;

/// Appends a TCP frame around what `pdu` appends.
pub fn tcp_frame(transaction: u16, unit: Unit, out: &mut Vec<u8>, pdu: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    let [high, low] = transaction.to_be_bytes();
    out.extend([high, low, 0, 0, 0, 0, unit.0]);
    pdu(out);
    let length = u16::try_from(out.len() - start - 6).unwrap_or(u16::MAX);
    if let Some(field) = out.get_mut(start + 4..start + 6) {
        field.copy_from_slice(&length.to_be_bytes());
    }
}

/// Appends an RTU frame around what `pdu` appends.
pub fn rtu_frame(unit: Unit, out: &mut Vec<u8>, pdu: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.push(unit.0);
    pdu(out);
    let check = crc(out.get(start..).unwrap_or_default());
    out.extend(check.to_le_bytes());
}
