//! Any bytes as compressed content, whole and in pieces: the same outcome, and never more than the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tieline_rsfn::{InflateError, InflateLimits, Inflater, PIECE_BYTES_MAX, gzip, inflate};

const LIMITS: InflateLimits = InflateLimits { bytes_max: 300_000, ratio_max: 200 };

fn by_pieces(content: &[u8], piece: usize) -> Result<Vec<u8>, InflateError> {
    let (mut inflater, mut out) = (Inflater::new(LIMITS), Vec::new());
    for mut bytes in content.chunks(piece) {
        loop {
            let before = out.len();
            let progress = inflater.feed(bytes, &mut out)?;
            assert!(out.len() - before <= PIECE_BYTES_MAX);
            bytes = &bytes[progress.used..];
            if bytes.is_empty() && !progress.more {
                break;
            }
            assert!(progress.used > 0 || progress.more);
        }
    }
    inflater.finish().map(|()| out)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, content)) = bytes.split_first() else { return };
    let whole = inflate(content, LIMITS);
    if let Ok(plain) = &whole {
        assert!(plain.len() as u64 <= LIMITS.bytes_max);
    }
    match (by_pieces(content, usize::from(first).max(1)), whole) {
        (Ok(pieces), Ok(whole)) => assert_eq!(pieces, whole),
        (Err(_), Err(_)) => {}
        (pieces, whole) => panic!("pieces {pieces:?}, whole {whole:?}"),
    }
    assert_eq!(inflate(&gzip(content), InflateLimits { bytes_max: 1 << 24, ratio_max: 2000 }).as_deref(), Ok(content));
});
