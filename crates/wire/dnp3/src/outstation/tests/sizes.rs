//! What one association costs before it holds anything on the heap.

use crate::outstation::Outstation;

/// Octets of an outstation without points: what is used by few belongs behind the pointer to the extras.
const OUTSTATION_OCTETS_MAX: usize = 1000;

#[test]
fn an_outstation_is_small() {
    let octets = size_of::<Outstation>();
    assert!(octets <= OUTSTATION_OCTETS_MAX, "{octets} octets");
}
