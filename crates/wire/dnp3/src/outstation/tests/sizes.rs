//! What one association costs before it holds anything on the heap.

use crate::outstation::Outstation;

/// Bytes of an outstation without points: what is used by few belongs behind the pointer to the extras.
const OUTSTATION_BYTES_MAX: usize = 1000;

#[test]
fn an_outstation_is_small() {
    let bytes = size_of::<Outstation>();
    assert!(bytes <= OUTSTATION_BYTES_MAX, "{bytes} bytes");
}
