//! What of a record goes up.

use tieline_core::Filter;
use tieline_journal::{Decoder, encode};

/// The record as it goes up: with the samples of topics that are to go.
pub fn selected(decoder: &mut Decoder, topics: &[Filter], payload: &[u8]) -> Vec<u8> {
    if topics.is_empty() {
        return payload.to_vec();
    }
    // What cannot be read here is counted by the centre.
    let Ok(mut samples) = decoder.decode(payload) else { return payload.to_vec() };
    samples.retain(|sample| topics.iter().any(|filter| filter.matches(&sample.update.topic)));
    let mut record = Vec::with_capacity(payload.len());
    encode(&samples, &mut record);
    record
}
