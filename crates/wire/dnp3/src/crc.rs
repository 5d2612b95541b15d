//! CRC-16/DNP, the check of every link block (IEEE 1815 9.2.5).
//!
//! Polynomial 3D65, reflected (A6BC), initial value 0, inverted at the end, sent low byte first. A full block is one
//! step of sixteen bytes, the header block one of eight: `TABLES[k]` holds the remainder of a byte followed by `k` zero
//! bytes (M. Kounavis, F. Berry: "A Systematic Approach to Building High Performance, Software-based, CRC Generators",
//! 2005).

const POLYNOMIAL_REFLECTED: u16 = 0xA6BC;

/// Bytes of user data in a full block.
pub(crate) const BLOCK: usize = 16;

static TABLES: [[u16; 256]; BLOCK] = tables();

const fn tables() -> [[u16; 256]; BLOCK] {
    let mut tables = [[0; 256]; BLOCK];
    let mut byte = 0_u16;
    while byte < 256 {
        let mut crc = byte;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL_REFLECTED } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte as usize] = crc;
        byte += 1;
    }
    let mut depth = 1;
    while depth < BLOCK {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[depth - 1][byte];
            tables[depth][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        depth += 1;
    }
    tables
}

/// The remainder of one byte followed by `DEPTH` zero bytes.
#[inline]
fn remainder<const DEPTH: usize>(byte: u8) -> u16 {
    // A byte cannot leave a table of 256.
    TABLES[DEPTH][usize::from(byte)]
}

/// The CRC of `bytes`, as it is sent (low byte first).
#[must_use]
#[inline]
pub fn crc(bytes: &[u8]) -> u16 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let (eights, rest) = rest.as_chunks::<8>();
    let crc = blocks.iter().fold(0, after_block);
    let crc = eights.iter().fold(crc, after_eight);
    !rest.iter().fold(crc, |crc, byte| {
        let [low, high] = crc.to_le_bytes();
        u16::from(high) ^ remainder::<0>(byte ^ low)
    })
}

/// The CRC of a full block.
#[must_use]
#[inline]
pub(crate) fn crc_of_block(block: &[u8; BLOCK]) -> u16 {
    !after_block(0, block)
}

#[inline]
fn after_eight(crc: u16, bytes: &[u8; 8]) -> u16 {
    let ([low, high], [a, b, c, d, e, f, g, h]) = (crc.to_le_bytes(), *bytes);
    remainder::<7>(a ^ low)
        ^ remainder::<6>(b ^ high)
        ^ remainder::<5>(c)
        ^ remainder::<4>(d)
        ^ remainder::<3>(e)
        ^ remainder::<2>(f)
        ^ remainder::<1>(g)
        ^ remainder::<0>(h)
}

#[inline]
fn after_block(crc: u16, bytes: &[u8; BLOCK]) -> u16 {
    let ([low, high], [a, b, c, d, e, f, g, h, rest @ ..]) = (crc.to_le_bytes(), *bytes);
    remainder::<15>(a ^ low)
        ^ remainder::<14>(b ^ high)
        ^ remainder::<13>(c)
        ^ remainder::<12>(d)
        ^ remainder::<11>(e)
        ^ remainder::<10>(f)
        ^ remainder::<9>(g)
        ^ remainder::<8>(h)
        ^ after_eight(0, &rest)
}

/// Whether the last two bytes are the CRC of those before them.
#[must_use]
#[inline]
pub fn is_intact(block: &[u8]) -> bool {
    match block.split_last_chunk::<2>() {
        Some((bytes, sent)) => crc(bytes) == u16::from_le_bytes(*sent),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_known_values() {
        assert_eq!(crc(b"123456789"), 0xEA82);
        assert_eq!(crc(b""), 0xFFFF);
        // The header of a recorded frame to 1024 from 1.
        assert!(is_intact(&[0x05, 0x64, 0x0B, 0xC4, 0x00, 0x04, 0x01, 0x00, 0xCA, 0x8A]));
        assert!(!is_intact(&[0x05]));
    }

    fn bit_by_bit(bytes: &[u8]) -> u16 {
        !bytes.iter().fold(0, |crc, byte| {
            (0..8).fold(
                crc ^ u16::from(*byte),
                |crc, _| {
                    if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL_REFLECTED } else { crc >> 1 }
                },
            )
        })
    }

    proptest::proptest! {
        #[test]
        fn many_at_a_time_equal_bit_by_bit(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
            assert_eq!(crc(&bytes), bit_by_bit(&bytes));
            if let Ok(block) = bytes.as_slice().try_into() {
                assert_eq!(crc_of_block(block), bit_by_bit(&bytes));
            }
        }
    }
}
