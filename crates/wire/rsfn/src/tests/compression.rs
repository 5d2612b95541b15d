//! Compressed content: what is written is read, what is hostile is refused early.

use super::keys::bytes;
use crate::*;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

const LIMITS: InflateLimits = InflateLimits { bytes_max: 200_000, ratio_max: 100 };

/// A file `a` in a zip, with what follows it.
fn zip(flags: u8, method: u8, sizes: (u32, u32), data: &[u8], behind: &[u8]) -> Vec<u8> {
    let checksum = if flags & 8 == 0 { crc32fast::hash(b"hello") } else { 0 };
    let mut zip = vec![b'P', b'K', 3, 4, 20, 0, flags, 0, method, 0, 0, 0, 0, 0];
    for number in [checksum, sizes.0, sizes.1] {
        zip.extend_from_slice(&number.to_le_bytes());
    }
    zip.extend_from_slice(&[1, 0, 0, 0, b'a']);
    zip.extend_from_slice(data);
    zip.extend_from_slice(behind);
    zip.resize(zip.len() + 42, 0);
    zip
}

fn deflated() -> Vec<u8> {
    let gzip = gzip(b"hello");
    gzip[10..gzip.len() - 8].to_vec()
}

fn check(content: &[u8], expect: Result<&[u8], InflateError>) {
    assert_eq!(inflate(content, LIMITS).as_deref(), expect.as_ref().copied(), "{content:02x?}");
    for piece in [1, 3] {
        assert_eq!(by_pieces(content, piece, LIMITS).as_deref(), expect.as_ref().copied(), "by {piece}");
    }
}

fn by_pieces(content: &[u8], piece: usize, limits: InflateLimits) -> Result<Vec<u8>, InflateError> {
    let (mut inflater, mut out) = (Inflater::new(limits), Vec::new());
    for mut bytes in content.chunks(piece) {
        loop {
            let before = out.len();
            let progress = inflater.feed(bytes, &mut out)?;
            assert!(out.len() - before <= PIECE_BYTES_MAX);
            bytes = &bytes[progress.used..];
            if bytes.is_empty() && !progress.more {
                break;
            }
            assert!(progress.used > 0 || out.len() > before || progress.more, "no progress");
        }
    }
    inflater.finish().map(|()| out)
}

#[test]
fn gzip_is_read() {
    let plain = gzip(b"hello");
    check(&plain, Ok(b"hello"));
    check(&gzip(b""), Ok(b""));
    check(&[&plain[..], &[0; 7]].concat(), Ok(b"hello"));
    check(&[&plain[..], &[0; 8]].concat(), Err(InflateError::Malformed));
    check(&[&plain[..], b"x"].concat(), Err(InflateError::NotCompressed));
    check(&[&plain[..], &plain[..]].concat(), Ok(b"hellohello"));
    let mut named = plain.clone();
    named[3] = 0x1e;
    named.splice(10..10, *b"\x02\x00xxname\0comment\0hc");
    check(&named, Ok(b"hello"));
    let with = |at: usize, value: u8| {
        let mut changed = plain.clone();
        let at = if at > 100 { plain.len() - (200 - at) } else { at };
        changed[at] ^= value;
        changed
    };
    check(&with(3, 0x80), Err(InflateError::Malformed));
    check(&with(2, 1), Err(InflateError::NotCompressed));
    check(&with(10, 0x06), Err(InflateError::Malformed));
    check(&with(199, 1), Err(InflateError::Checksum));
    check(&with(195, 1), Err(InflateError::Checksum));
    for length in 0..plain.len() {
        check(&plain[..length], Err(InflateError::Truncated));
    }
    check(b"<DOC/>", Err(InflateError::NotCompressed));
}

#[test]
fn zip_is_read() {
    let directory = b"PK\x01\x02";
    let data = deflated();
    let sizes = (data.len() as u32, 5);
    let descriptor = |sign: &[u8], sizes: usize| {
        [sign, &crc32fast::hash(b"hello").to_le_bytes(), &vec![0; sizes], directory].concat()
    };
    check(&zip(0, 8, sizes, &data, directory), Ok(b"hello"));
    check(&zip(0, 0, (5, 5), b"hello", directory), Ok(b"hello"));
    check(&zip(0, 0, (5, 5), b"hallo", directory), Err(InflateError::Checksum));
    check(&zip(8, 8, (0, 0), &data, &descriptor(b"PK\x07\x08", 8)), Ok(b"hello"));
    check(&zip(8, 8, (0, 0), &data, &descriptor(b"PK\x07\x08", 16)), Ok(b"hello"));
    check(&zip(8, 8, (0, 0), &data, &descriptor(b"", 8)), Ok(b"hello"));
    check(&zip(8, 8, (0, 0), &data, &descriptor(b"", 9)), Err(InflateError::Unsupported));
    check(&zip(0, 8, sizes, &data, b"PK\x03\x04"), Err(InflateError::Unsupported));
    check(&zip(1, 8, sizes, &data, directory), Err(InflateError::Unsupported));
    check(&zip(0, 12, sizes, &data, directory), Err(InflateError::Unsupported));
    check(&zip(8, 0, (0, 0), b"hello", directory), Err(InflateError::Unsupported));
    check(&zip(0, 8, (5, 1 << 30), &data, directory), Err(InflateError::TooLarge { limit: 200_000 }));
    let endless = [zip(0, 8, sizes, &data, directory), vec![0; 200_000]].concat();
    assert_eq!(inflate(&endless, LIMITS), Err(InflateError::Unsupported));
}

#[test]
fn bombs_are_refused_early() {
    let bomb = gzip(&vec![0; 10_000_000]);
    assert!(bomb.len() < 10_000);
    let limit = |bytes_max, ratio_max| InflateLimits { bytes_max, ratio_max };
    assert_eq!(inflate(&bomb, limit(1 << 30, 50)), Err(InflateError::Ratio { limit: 50 }));
    assert_eq!(inflate(&bomb, limit(100_000, 2000)), Err(InflateError::TooLarge { limit: 100_000 }));
    assert_eq!(inflate(&bomb, limit(10_000_000, 2000)).map(|plain| plain.len()), Ok(10_000_000));
    // It stops long before the end: no more came out than the limit and one piece.
    let (mut inflater, mut out) = (Inflater::new(limit(100_000, 2000)), Vec::new());
    let mut rest = &bomb[..];
    while let Ok(progress) = inflater.feed(rest, &mut out) {
        rest = &rest[progress.used..];
    }
    assert!(out.len() <= 100_000 + PIECE_BYTES_MAX, "{}", out.len());
    // A name that never ends.
    let endless = [&bytes("1f8b0808000000000000")[..], &vec![b'x'; 70_000]].concat();
    assert_eq!(inflate(&endless, LIMITS), Err(InflateError::Unsupported));
}

#[test]
fn what_cannot_be_read_has_a_code() {
    assert_eq!(InflateError::NotCompressed.code(), Fault::Treatment.code());
    assert_eq!(InflateError::Ratio { limit: 1 }.code(), ErrorCode(0xff));
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        runs in proptest::collection::vec((any::<u8>(), 1_usize..20_000), 0..8), piece in 1_usize..5000,
    ) {
        let content: Vec<u8> = runs.into_iter().flat_map(|(byte, count)| vec![byte; count]).collect();
        let whole = gzip(&content);
        let (mut writer, mut pieces) = (GzipWriter::new(), Vec::new());
        content.chunks(piece).for_each(|bytes| writer.feed(bytes, &mut pieces));
        writer.finish(&mut pieces);
        let limits = InflateLimits { bytes_max: 1 << 20, ratio_max: 2000 };
        for compressed in [&whole, &pieces] {
            let read = inflate(compressed, limits);
            prop_assert!(read.as_ref() == Ok(&content));
            let read = by_pieces(compressed, piece, limits);
            prop_assert!(read.as_ref() == Ok(&content));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        magic in proptest::sample::select(vec![&b"\x1f\x8b\x08"[..], b"PK\x03\x04", b""]),
        bytes in proptest::collection::vec(any::<u8>(), 0..200), piece in 1_usize..50,
    ) {
        let content = [magic, &bytes].concat();
        let whole = inflate(&content, LIMITS);
        prop_assert_eq!(by_pieces(&content, piece, LIMITS), whole);
    }

    #[test]
    fn damage_is_told_or_does_no_harm(at in 0_usize..60, value: u8, piece in 1_usize..20) {
        let mut content = gzip(b"hello hello hello hello");
        if let Some(byte) = content.get_mut(at) {
            *byte = value;
        }
        let whole = inflate(&content, LIMITS);
        prop_assert_eq!(by_pieces(&content, piece, LIMITS), whole.clone());
        if let Ok(plain) = whole {
            prop_assert_eq!(plain, b"hello hello hello hello");
        }
    }
}
