//! Properties of the codecs and of both sides of a topic.

mod codecs;
mod offer;
pub(crate) mod points;
#[cfg(feature = "hunk")]
mod publisher;
mod receiver;
mod stream;
#[cfg(feature = "hunk")]
mod vectors;

use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;

/// A text like those of fields: names, numbers, times; and one that somebody edited.
pub(crate) fn pair() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let edit = (any::<prop::sample::Index>(), 0..40_usize, prop::collection::vec(any::<u8>(), 0..40));
    let base = prop_oneof![prop::collection::vec(any::<u8>(), 0..300), json().prop_map(String::into_bytes)];
    (base, prop::collection::vec(edit, 0..6)).prop_map(|(base, edits)| {
        let mut value = base.clone();
        for (at, del, ins) in edits {
            let at = at.index(value.len() + 1);
            let end = (at + del).min(value.len());
            value.splice(at..end, ins);
        }
        (base, value)
    })
}

fn json() -> impl Strategy<Value = String> {
    prop::collection::vec((0..99_999_u32, any::<bool>()), 1..30).prop_map(|fields| {
        let fields = fields.iter().map(|(n, on)| std::format!("{{\"id\":{n},\"on\":{on},\"rate\":{}.5}}", n / 7));
        std::format!("[{}]", fields.collect::<Vec<_>>().join(","))
    })
}
