//! CRC-16/MODBUS, the check of an RTU frame (Serial Line 6.2.2).
//!
//! Polynomial 8005, reflected (A001), initial value FFFF, sent low byte first: the CRC of bytes with their CRC is 0.

const POLYNOMIAL_REFLECTED: u16 = 0xA001;

static TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0_u16;
    while byte < 256 {
        let mut crc = byte;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL_REFLECTED } else { crc >> 1 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

/// The CRC of `bytes`, as it is sent (low byte first).
#[must_use]
pub fn crc(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |crc: u16, byte| {
        let [low, high] = crc.to_le_bytes();
        // A byte cannot leave a table of 256.
        u16::from(high) ^ TABLE[usize::from(low ^ byte)]
    })
}
