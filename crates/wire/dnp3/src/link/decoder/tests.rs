use super::super::{Function, LinkAddress, USER_BYTES_MAX};
use super::*;
use proptest::prelude::*;

fn header() -> Header {
    Header::new(true, Function::UnconfirmedUserData, LinkAddress::new(1024), LinkAddress::new(1))
}

fn emit(user_data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    header().emit(user_data, &mut out);
    out
}

/// What a decoder makes of pieces: the frames, and at the end its counters and whether it still holds a part.
fn decode_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, LinkCounters, bool) {
    let (mut decoder, mut frames) = (Decoder::new(), Vec::new());
    for mut piece in pieces {
        while let Some(decoded) = decoder.decode(&mut piece) {
            if let Ok(frame) = decoded {
                assert_eq!(Frame::parse(frame.bytes()), Some(frame));
                frames.push(frame.bytes().to_vec());
            }
        }
        assert!(piece.is_empty(), "all input is used");
        assert!(decoder.partial.len() < FRAME_BYTES_MAX && decoder.partial.capacity() <= FRAME_BYTES_MAX);
    }
    (frames, decoder.counters(), decoder.is_partial())
}

#[test]
fn an_idle_decoder_holds_no_heap() {
    let frame = emit(b"0123456789abcdefghi");
    let (mut decoder, (mut head, mut tail)) = (Decoder::new(), frame.split_at(13));
    assert!(decoder.decode(&mut head).is_none() && decoder.is_partial());
    assert!(matches!(decoder.decode(&mut tail), Some(Ok(_))));
    assert!(!decoder.is_partial());
    decoder.release();
    assert_eq!(decoder.partial.capacity(), 0);
}

/// Spoils a stream of two frames and counts what is left.
fn check(spoil: impl Fn(&mut Vec<u8>), frames: usize, expect: LinkCounters) {
    let mut stream = [emit(b"first, of twenty-odd bytes."), emit(b"second")].concat();
    spoil(&mut stream);
    let (found, counters, _) = decode_pieces([stream.as_slice()]);
    assert_eq!((found.len(), counters), (frames, expect));
}

#[test]
fn damage_is_counted_by_cause_and_the_next_frame_is_found() {
    let seen = |frames| LinkCounters { frames, ..LinkCounters::default() };
    check(|_| {}, 2, seen(2));
    check(|s| s[9] ^= 1, 1, LinkCounters { header_crc_errors: 1, bytes_discarded: 41, ..seen(1) });
    check(|s| s[12] ^= 1, 1, LinkCounters { body_crc_errors: 1, bytes_discarded: 41, ..seen(1) });
    check(|s| drop(s.drain(20..30)), 1, LinkCounters { body_crc_errors: 1, bytes_discarded: 31, ..seen(1) });
    check(|s| s.insert(0, 0x05), 2, LinkCounters { bytes_discarded: 1, ..seen(2) });
    let short = |s: &mut Vec<u8>| {
        s[2] = 4;
        let crc = crc::crc(&s[..8]).to_le_bytes();
        s[8..10].copy_from_slice(&crc);
    };
    check(short, 1, LinkCounters { length_errors: 1, bytes_discarded: 41, ..seen(1) });
}

/// Streams of frames, garbage and starts of frames.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..=USER_BYTES_MAX).prop_map(|data| emit(&data)),
        1 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(prop_oneof![Just(0x05), Just(0x64), Just(0xFF)], 0..20),
        1 => (prop::collection::vec(any::<u8>(), 0..60), any::<prop::sample::Index>(), any::<u8>()).prop_map(
            |(data, at, noise)| {
                let mut frame = emit(&data);
                let at = at.index(frame.len());
                frame[at] = noise;
                frame
            }
        ),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_frame_parses_back(data in prop::collection::vec(any::<u8>(), 0..=USER_BYTES_MAX)) {
        let bytes = emit(&data);
        prop_assert_eq!(bytes.len(), frame_bytes(data.len()));
        let frame = Frame::parse(&bytes).unwrap();
        prop_assert_eq!(frame.header(), header());
        prop_assert_eq!(frame.user_bytes(), data.len());
        prop_assert_eq!(frame.blocks().flatten().copied().collect::<Vec<_>>(), data);
    }

    #[test]
    fn any_chunking_gives_the_same_frames(stream in stream(), sizes in prop::collection::vec(1..50_usize, 1..30)) {
        let whole = decode_pieces([stream.as_slice()]);
        let (mut pieces, mut rest, mut sizes) = (Vec::new(), stream.as_slice(), sizes.into_iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        prop_assert_eq!(decode_pieces(pieces), whole.clone());
        prop_assert_eq!(decode_pieces(stream.chunks(1)), whole);
    }
}
