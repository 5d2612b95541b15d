//! Topics sent as what changed.

use tieline_core::{Body, Topic};
use tieline_delta::{
    Codec, CodecSet, Codecs, Decoded, Decoder, Hunk, Intake, IntakeLimits, PointState, Revision, Stream,
};

/// Bytes of a value that the decoders here take.
const VALUE_BYTES_MAX: usize = 4096;

/// Payloads, each after a byte that says its length, for one decoder: no value is longer than its limit, and a point
/// that came out can be sent and read again.
pub(super) fn decoder(bytes: &[u8]) {
    let (mut codecs, mut decoder) = (Codecs::built_in(), Decoder::new(VALUE_BYTES_MAX));
    let mut rest = bytes;
    while let Some((length, after)) = rest.split_first() {
        let (payload, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        let Ok(Decoded::Value(body)) = decoder.apply(&payload.to_vec().into(), &mut codecs) else { continue };
        assert_eq!(decoder.value().is_some(), !payload.is_empty());
        match &body {
            Body::Published(_) | Body::Opaque(_) => assert!(body.to_payload().len() <= VALUE_BYTES_MAX),
            Body::Point(_) => {
                let whole = Stream::new(Revision(0), &body).since(None, CodecSet::POINT).to_bytes();
                assert!(matches!(Decoder::new(VALUE_BYTES_MAX).apply(&whole, &mut codecs), Ok(Decoded::Value(_))));
            }
        }
    }
    if let Ok(state) = PointState::parse(bytes, VALUE_BYTES_MAX) {
        let mut again = Vec::new();
        state.emit(&mut again);
        assert_eq!(PointState::parse(&again, VALUE_BYTES_MAX), Ok(state));
    }
}

/// A base and a value: the first two bytes say where one ends. What the hunks make of the base is the value; hunks
/// that are any bytes make something, or nothing.
pub(super) fn hunk(bytes: &[u8]) {
    let [high, low, rest @ ..] = bytes else { return };
    let (base, value) = rest.split_at(usize::from(u16::from_be_bytes([*high, *low])).min(rest.len()));
    let mut delta = Vec::new();
    if Hunk.diff(base, value, 2 * value.len() + 16, &mut delta) {
        let mut back = Vec::new();
        assert_eq!(Hunk.apply(base, &delta, value.len(), &mut back), Ok(()));
        assert!(back == value, "another value came out");
    }
    let mut out = Vec::new();
    if Hunk.apply(base, value, VALUE_BYTES_MAX, &mut out).is_ok() {
        assert!(out.len() <= VALUE_BYTES_MAX);
    }
}

/// A publisher's payloads, each after a byte that says its length and one that says which of four topics, whether the topic
/// is refused for another reason first, and whether it was sent before: no more is held than may be.
pub(super) fn intake(bytes: &[u8]) {
    let limits = IntakeLimits { topics_max: 3, bytes_max: 3000, value_bytes_max: VALUE_BYTES_MAX };
    let (mut codecs, mut intake) = (Codecs::built_in(), Intake::new(limits));
    let mut rest = bytes;
    while let [length, how, after @ ..] = rest {
        let (payload, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        let Ok(topic) = Topic::new(["a", "b", "c", "d"][usize::from(how & 3)]) else { return };
        if how & 4 != 0 {
            intake.forget(&topic);
        }
        if let Ok(value) = intake.take(&topic, &payload.to_vec().into(), how & 8 != 0, &mut codecs) {
            assert!(value.len() <= VALUE_BYTES_MAX, "{} bytes", value.len());
        }
        assert!(intake.bytes() <= limits.bytes_max);
    }
}
