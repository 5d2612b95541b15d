//! Chunks of history.

use bytes::Bytes;
use tieline_series::{Chunk, Column, encode};

/// The head and the columns of a chunk; the bytes around them are right. What can be read is written again, and reads the same.
pub(super) fn chunk(bytes: &[u8]) {
    let _ = Chunk::parse(&Bytes::copy_from_slice(bytes));
    let Ok(length) = u32::try_from(bytes.len()) else { return };
    let mut whole = vec![1];
    whole.extend(length.to_le_bytes());
    whole.extend_from_slice(bytes);
    let check = crc32fast::hash(&whole);
    whole.extend(check.to_le_bytes());
    let Ok(chunk) = Chunk::parse(&whole.into()) else { return };
    let Ok(mut column) = chunk.samples() else { return };
    assert_eq!(column.iter().count(), chunk.count);
    column.settle();
    let mut again = Vec::new();
    encode(&column, chunk.origin, &mut again);
    let again = Chunk::parse(&again.into()).expect("what was written");
    // As text: not-a-number is equal to itself there.
    let told = |column: &Column| column.iter().map(|sample| format!("{sample:?}")).collect::<Vec<_>>();
    assert_eq!(told(&again.samples().expect("what was written")), told(&column));
}
