//! Several payloads of one session in one: `[varint alias - alias before][varint length][payload]…`.

use crate::{DeltaError, Payload, varint};
use alloc::vec::Vec;
use core::num::NonZeroU16;
use tieline_core::Cursor;

/// A batch under way: aliases must rise.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    octets: Vec<u8>,
    last: u16,
}

impl Batch {
    /// Appends a payload; false when the alias is not above the last one, so that it belongs into another batch.
    pub fn push(&mut self, alias: NonZeroU16, payload: &Payload) -> bool {
        let Some(gap) = alias.get().checked_sub(self.last).filter(|&gap| gap > 0) else { return false };
        self.last = alias.get();
        varint::put(&mut self.octets, u64::from(gap));
        varint::put_len(&mut self.octets, payload.len());
        payload.write(&mut self.octets);
        true
    }

    /// Octets so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.octets.len()
    }

    /// Whether nothing was pushed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// The batch; the next one starts.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.last = 0;
        core::mem::take(&mut self.octets)
    }
}

/// The aliases and payloads of a batch.
pub fn unbatch(octets: &[u8]) -> impl Iterator<Item = Result<(NonZeroU16, &[u8]), DeltaError>> {
    let mut cursor = Cursor::new(octets);
    let mut last = 0;
    core::iter::from_fn(move || {
        if cursor.is_empty() {
            return None;
        }
        let entry = entry(&mut cursor, &mut last);
        if entry.is_err() {
            cursor = Cursor::new(&[]);
        }
        Some(entry)
    })
}

fn entry<'a>(cursor: &mut Cursor<'a>, last: &mut u16) -> Result<(NonZeroU16, &'a [u8]), DeltaError> {
    let gap = varint::get(cursor)?;
    let alias = u16::try_from(gap).ok().filter(|&gap| gap > 0).and_then(|gap| last.checked_add(gap));
    let alias = alias.and_then(NonZeroU16::new).ok_or(DeltaError::Malformed("no topic alias"))?;
    *last = alias.get();
    let count = varint::get_len(cursor)?;
    Ok((alias, cursor.take(count)?))
}
