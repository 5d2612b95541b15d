//! Aligned hunks: copy from the base, insert, and go on.
//!
//! ```text
//! [varint copy·2 + neq][varint ins][varint del, when neq][ins bytes] …
//! ```
//!
//! Each hunk copies `copy` bytes of the base, then says `ins` bytes of its own in place of the base's next `del`;
//! where `neq` is 0, `del` is `ins`. After the last hunk the rest of the base is copied.

mod apply;
mod diff;

use crate::{Codec, CodecId, DeltaError};
use alloc::vec::Vec;

/// The codec `hunk`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hunk;

impl Codec for Hunk {
    fn id(&self) -> CodecId {
        CodecId::HUNK
    }

    fn name(&self) -> &'static str {
        "hunk"
    }

    fn diff(&mut self, base: &[u8], value: &[u8], delta_bytes_max: usize, out: &mut Vec<u8>) -> bool {
        diff::diff(base, value, delta_bytes_max, out)
    }

    fn apply(
        &mut self,
        base: &[u8],
        delta: &[u8],
        value_bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DeltaError> {
        apply::apply(base, delta, value_bytes_max, out)
    }
}
