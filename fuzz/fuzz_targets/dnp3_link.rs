//! Any octets, in two different cuts, give the same frames and counters, and every frame parses alone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tieline_dnp3::link::{Decoder, Frame, LinkCounters};

fn decode(pieces: impl Iterator<Item = impl AsRef<[u8]>>) -> (Vec<Vec<u8>>, LinkCounters, usize) {
    let (mut decoder, mut frames) = (Decoder::new(), Vec::new());
    for piece in pieces {
        let mut rest = piece.as_ref();
        while let Some(decoded) = decoder.decode(&mut rest) {
            if let Ok(frame) = decoded {
                assert_eq!(Frame::parse(frame.octets()), Some(frame));
                frames.push(frame.octets().to_vec());
            }
        }
        assert!(rest.is_empty());
    }
    (frames, decoder.counters(), decoder.partial_octets())
}

fuzz_target!(|octets: &[u8]| {
    let Some((size, octets)) = octets.split_first() else { return };
    let whole = decode(std::iter::once(octets));
    assert_eq!(decode(octets.chunks(usize::from(*size).max(1))), whole);
});
