//! What messages on a link have in common: a version in front, and the CRC-32 of all before it at the end.

use crate::BatchError;
use alloc::vec::Vec;

/// The message with its check.
pub(crate) fn checked(mut out: Vec<u8>) -> Vec<u8> {
    let check = crc32fast::hash(&out);
    out.extend(check.to_le_bytes());
    out
}

/// What the check covers, behind the version.
pub(crate) fn covered(bytes: &[u8], known: u8, bytes_max: usize) -> Result<&[u8], BatchError> {
    if bytes.len() > bytes_max {
        return Err(BatchError::Illegal("length"));
    }
    let Some((covered, check)) = bytes.split_last_chunk() else { return Err(BatchError::Truncated) };
    let Some((version, rest)) = covered.split_first() else { return Err(BatchError::Truncated) };
    if *version != known {
        return Err(BatchError::Version(*version));
    }
    if crc32fast::hash(covered) != u32::from_le_bytes(*check) {
        return Err(BatchError::Check);
    }
    Ok(rest)
}
