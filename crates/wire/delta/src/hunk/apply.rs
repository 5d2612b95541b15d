//! From a base and hunks to the value.

use crate::DeltaError;
use alloc::vec::Vec;
use tieline_core::Cursor;
use tieline_core::varint;

pub(super) fn apply(base: &[u8], delta: &[u8], value_bytes_max: usize, out: &mut Vec<u8>) -> Result<(), DeltaError> {
    let (mut rest, mut hunks) = (Cursor::new(base), Cursor::new(delta));
    out.reserve(base.len().min(value_bytes_max).saturating_add(delta.len().min(value_bytes_max)));
    while !hunks.is_empty() {
        let first = varint::get(&mut hunks)?;
        let copy = usize::try_from(first >> 1).map_err(|_| BEYOND)?;
        let ins = varint::get_len(&mut hunks)?;
        let del = if first & 1 == 0 { ins } else { varint::get_len(&mut hunks)? };
        push(out, rest.take(copy).map_err(|_| BEYOND)?, value_bytes_max)?;
        push(out, hunks.take(ins)?, value_bytes_max)?;
        rest.take(del).map_err(|_| BEYOND)?;
    }
    push(out, rest.rest(), value_bytes_max)
}

const BEYOND: DeltaError = DeltaError::Malformed("a hunk beyond the end of the base");

fn push(out: &mut Vec<u8>, bytes: &[u8], bytes_max: usize) -> Result<(), DeltaError> {
    if bytes.len() > bytes_max.saturating_sub(out.len()) {
        return Err(DeltaError::TooLong { bytes_max });
    }
    out.extend_from_slice(bytes);
    Ok(())
}
