use super::pair;
use crate::{Codec, CodecId, CodecSet, Codecs, DeltaError, Taken};
use alloc::boxed::Box;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Every codec that is built in, one after the other.
fn each(mut check: impl FnMut(&mut dyn Codec)) {
    let mut codecs = Codecs::built_in();
    for id in 2..=15 {
        if let Some(codec) = codecs.by_id(CodecId(id)) {
            check(codec.as_mut());
        }
    }
}

fn round_trip(codec: &mut dyn Codec, base: &[u8], value: &[u8], delta_bytes_max: usize) {
    let mut delta = Vec::new();
    if !codec.diff(base, value, delta_bytes_max, &mut delta) {
        return;
    }
    let mut back = Vec::new();
    codec.apply(base, &delta, value.len(), &mut back).unwrap();
    assert!(back == value, "{}: another value came out", codec.name());
    assert!(delta.len() <= delta_bytes_max.max(value.len()), "{}: {} bytes", codec.name(), delta.len());
    if let Some(shorter) = value.len().checked_sub(1) {
        back.clear();
        let refused = codec.apply(base, &delta, shorter, &mut back);
        assert_eq!(refused, Err(DeltaError::TooLong { bytes_max: shorter }), "{}", codec.name());
    }
}

proptest! {
    #[test]
    fn what_diff_wrote_apply_makes_the_value_of((base, value) in pair(), share in 1..5_usize) {
        each(|codec| round_trip(codec, &base, &value, value.len() * share / 2));
    }

    #[test]
    fn values_without_anything_in_common_round_trip(base: Vec<u8>, value: Vec<u8>) {
        each(|codec| round_trip(codec, &base, &value, 2 * value.len() + 16));
    }

    #[test]
    fn any_bytes_are_survived(base: Vec<u8>, delta: Vec<u8>, bytes_max in 0..2000_usize) {
        each(|codec| {
            let mut out = Vec::new();
            if codec.apply(&base, &delta, bytes_max, &mut out).is_ok() {
                assert!(out.len() <= bytes_max);
            }
        });
    }

    #[test]
    fn a_damaged_delta_is_survived((base, value) in pair(), at: prop::sample::Index, byte: u8) {
        each(|codec| {
            let mut delta = Vec::new();
            if codec.diff(&base, &value, 2 * value.len() + 16, &mut delta) && !delta.is_empty() {
                let at = at.index(delta.len());
                delta[at] ^= byte;
                let mut out = Vec::new();
                let _ = codec.apply(&base, &delta, value.len(), &mut out);
                assert!(out.len() <= value.len());
            }
        });
    }
}

#[cfg(feature = "hunk")]
#[test]
fn hunks_are_as_short_as_the_change() {
    let check = |base: &str, value: &str, expect: Option<&[u8]>| {
        let mut delta = Vec::new();
        let told = crate::Hunk.diff(base.as_bytes(), value.as_bytes(), value.len(), &mut delta);
        assert_eq!(told.then_some(&*delta), expect, "{base} → {value}");
    };
    check("same", "same", Some(&[]));
    check("", "", Some(&[]));
    check("points: 41, rank: 3", "points: 42, rank: 3", Some(&[18, 1, b'2']));
    // Three equal bytes between two differences are cheaper to say again than to copy.
    check("a1bcd2e, and more of it", "a3bcd4e, and more of it", Some(&[2, 5, b'3', b'b', b'c', b'd', b'4']));
    check("a1bcde2f, and more of it", "a3bcde4f, and more of it", Some(&[2, 1, b'3', 8, 1, b'4']));
    check("rate 9.5 of it all", "rate 10.5 of it all", Some(&[11, 2, 1, b'1', b'0']));
    check("gone", "", None);
    check("it is gone", "it is", Some(&[11, 0, 5]));
    check("abcdefgh", "ijklmnop", None);
}

#[cfg(feature = "hunk")]
#[test]
fn hunks_beyond_the_base_are_refused() {
    let check = |delta: &[u8]| {
        let refused = crate::Hunk.apply(b"base", delta, 100, &mut Vec::new());
        assert!(matches!(refused, Err(DeltaError::Malformed(_))), "{delta:?}: {refused:?}");
    };
    check(&[10, 0]);
    check(&[0, 5, 1, 2, 3, 4, 5]);
    check(&[1, 0, 5]);
    check(&[0, 2, 1]);
    check(&[1, 1]);
    check(&[0x80]);
    check(&[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0]);
    check(&[0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01]);
}

struct Own(u8, &'static str);

impl Codec for Own {
    fn id(&self) -> CodecId {
        CodecId(self.0)
    }
    fn name(&self) -> &'static str {
        self.1
    }
    fn diff(&mut self, _: &[u8], value: &[u8], _: usize, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(value);
        true
    }
    fn apply(&mut self, _: &[u8], delta: &[u8], _: usize, out: &mut Vec<u8>) -> Result<(), DeltaError> {
        out.extend_from_slice(delta);
        Ok(())
    }
}

#[test]
fn a_codec_of_ones_own_has_a_number_and_a_name() {
    let mut codecs = Codecs::built_in();
    let mut check = |id: u8, name: &'static str, expect: Result<(), Taken>| {
        assert_eq!(codecs.register(Box::new(Own(id, name))), expect, "{id} {name}");
    };
    check(7, "early", Err(Taken));
    check(16, "late", Err(Taken));
    check(8, "point", Err(Taken));
    check(8, "xor", Ok(()));
    check(8, "other", Err(Taken));
    check(9, "xor", Err(Taken));
    check(15, "other", Ok(()));
    assert!(codecs.set().contains(CodecSet::of(CodecId(8)).with(CodecSet::of(CodecId(15)))));
    codecs.retain(CodecSet::of(CodecId(8)));
    assert_eq!(codecs.set(), CodecSet::POINT.with(CodecSet::of(CodecId(8))));
}
