//! The bytes of the reads that all sides exchange: function 3 on Modbus/TCP (Messaging on TCP/IP 3.1.3).
//!
//! ```text
//! request   transaction 2 │ protocol 2 = 0 │ length 2 = 6     │ unit 1 │ 3 │ start 2 │ count 2
//! answer    transaction 2 │ protocol 2 = 0 │ length 2 = 3 + b │ unit 1 │ 3 │ b 1 │ registers b
//! ```
//!
//! A register holds what its address says, and each read of a connection has another address, so that the reader knows
//! what every value must be.

use tieline_modbus::READ_REGISTERS_MAX;

/// Bytes of a request.
pub const REQUEST_BYTES: usize = 12;
/// The unit of all requests.
pub const UNIT: u8 = 1;
const FUNCTION: u8 = 3;
/// Bytes of an answer before its registers.
const ANSWER_HEAD_BYTES: usize = 9;
/// Where no read begins: the longest would go beyond the last address.
const START_END: u64 = 65_536 - READ_REGISTERS_MAX as u64;

/// What the register at an address holds.
#[must_use]
pub const fn value_at(address: u16) -> u16 {
    address.wrapping_mul(40_503) ^ 0x5A5A
}

/// Where a connection's read of this number begins.
#[must_use]
pub fn start_of(read: u64, registers: u16) -> u16 {
    u16::try_from(read.wrapping_mul(u64::from(registers)) % START_END).unwrap_or(0)
}

/// Whether these are the registers of a read.
#[must_use]
pub fn is_right(read: u64, registers: u16, values: &[u16]) -> bool {
    let addresses = (0..registers).map(|n| start_of(read, registers).wrapping_add(n));
    values.len() == usize::from(registers) && addresses.zip(values).all(|(address, value)| value_at(address) == *value)
}

/// A request as it is on the wire.
#[must_use]
pub fn request(read: u64, registers: u16) -> [u8; REQUEST_BYTES] {
    let [_, _, _, _, _, _, t1, t0] = read.to_be_bytes();
    let [s1, s0] = start_of(read, registers).to_be_bytes();
    let [c1, c0] = registers.to_be_bytes();
    [t1, t0, 0, 0, 0, 6, UNIT, FUNCTION, s1, s0, c1, c0]
}

/// Bytes of an answer.
#[must_use]
pub const fn answer_bytes(registers: u16) -> usize {
    ANSWER_HEAD_BYTES + 2 * registers as usize
}

/// Appends the answer to a request; false where it is none.
#[must_use]
pub fn answer(request: &[u8], out: &mut Vec<u8>) -> bool {
    let &[t1, t0, 0, 0, 0, 6, unit, FUNCTION, s1, s0, c1, c0] = request else { return false };
    let (start, count) = (u16::from_be_bytes([s1, s0]), u16::from_be_bytes([c1, c0]));
    let Some(bytes) = u8::try_from(2 * u32::from(count)).ok().filter(|_| count <= READ_REGISTERS_MAX) else {
        return false;
    };
    let [l1, l0] = (3 + u16::from(bytes)).to_be_bytes();
    out.extend_from_slice(&[t1, t0, 0, 0, l1, l0, unit, FUNCTION, bytes]);
    (0..count).for_each(|n| out.extend_from_slice(&value_at(start.wrapping_add(n)).to_be_bytes()));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_modbus::{Reply, Request, Response, Table, Unit, tcp_frame};

    #[test]
    fn the_bytes_are_those_of_the_codec() {
        for (read, registers) in [(0, 18), (7, 100), (70_000, 125)] {
            let asked =
                Request::Read { table: Table::HoldingRegisters, start: start_of(read, registers), count: registers };
            let mut frame = Vec::new();
            tcp_frame(u16::try_from(read % 65_536).unwrap(), Unit(UNIT), &mut frame, |out| asked.emit(out));
            assert_eq!(frame, request(read, registers));
            let mut answered = Vec::new();
            assert!(answer(&frame, &mut answered));
            assert_eq!(answered.len(), answer_bytes(registers));
            let reply = Response::parse(&asked, &answered[7..]).unwrap();
            let Reply::Done(Response::Registers(values)) = reply else { panic!("{reply:?}") };
            assert!(is_right(read, registers, &values));
            assert!(!is_right(read + 1, registers, &values));
        }
    }

    #[test]
    fn what_is_no_read_has_no_answer() {
        let mut request = request(1, 18);
        request[7] = 4;
        assert!(!answer(&request, &mut Vec::new()));
        assert!(!answer(&request[..11], &mut Vec::new()));
    }
}
