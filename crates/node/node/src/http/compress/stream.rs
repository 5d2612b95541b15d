//! Streams in fewer bytes: each piece is compressed when it comes, and all of it goes out at once.
//!
//! ```text
//!  gzip header │ piece │ piece │ … │ last block, empty │ CRC-32, length
//!                └─ deflate blocks that refer to nothing before them, to a whole byte (RFC 1951 section 3.2.4)
//! ```
//!
//! A compressor that remembered what came before would hold 300 kB for each reader. Pieces that stand for themselves need
//! one for all of them: a stream keeps its checksum and its length. Pieces of pages are 32 kB, which is as far as deflate
//! looks back at all; of live updates the long messages gain, and the short ones go out as they are.

use super::{GZIP_HEADER, LEVEL};
use axum::body::{Body, BodyDataStream};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress_to_output, create_comp_flags_from_zip_params,
};
use std::cell::RefCell;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Readers of live updates whose stream is compressed at a time; others get it as it is. Each message costs the thread of
/// HTTP its compression.
const LIVE_MAX: usize = 100;
/// Bytes that are compressed before others have their turn, no more than a stored block holds.
const STEP_BYTES: usize = 32 * 1024;
/// Shorter pieces gain nothing.
const SHORT_BYTES: usize = 200;
/// A last block that holds nothing, as RFC 1951 section 3.2.6 has it.
const LAST_BLOCK: [u8; 2] = [3, 0];
/// Deflate without the frame of zlib.
const RAW_WINDOW_BITS: i32 = -15;

thread_local! {
    static COMPRESSOR: RefCell<Box<CompressorOxide>> = RefCell::new(Box::new(CompressorOxide::new(
        create_comp_flags_from_zip_params(LEVEL.into(), RAW_WINDOW_BITS, 0),
    )));
}

/// Places of readers of live updates.
#[derive(Clone, Debug)]
pub struct Readers(Arc<Semaphore>);

impl Default for Readers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LIVE_MAX)))
    }
}

impl Readers {
    /// A place that is given back when it is dropped; none where all are taken.
    pub(super) fn enter(&self) -> Option<Option<OwnedSemaphorePermit>> {
        Arc::clone(&self.0).try_acquire_owned().ok().map(Some)
    }
}

/// A stream on its way.
struct Packing {
    plain: BodyDataStream,
    /// What came and is not compressed yet.
    rest: Bytes,
    crc: crc32fast::Hasher,
    /// Modulo 2^32.
    length: u32,
    is_begun: bool,
    _place: Option<OwnedSemaphorePermit>,
}

/// The same stream as gzip.
pub fn packed(body: Body, place: Option<OwnedSemaphorePermit>) -> Body {
    let packing = Packing {
        plain: body.into_data_stream(),
        rest: Bytes::new(),
        crc: crc32fast::Hasher::new(),
        length: 0,
        is_begun: false,
        _place: place,
    };
    Body::from_stream(futures_util::stream::unfold(Some(packing), |packing| async {
        let mut packing = packing?;
        if packing.rest.is_empty() {
            match packing.plain.next().await {
                Some(Ok(piece)) => packing.rest = piece,
                // Without its end a reader knows that something is missing.
                Some(Err(error)) => return Some((Err(error), None)),
                None => return Some((Ok(packing.end()), None)),
            }
        }
        let piece = packing.rest.split_to(packing.rest.len().min(STEP_BYTES));
        Some((Ok(packing.pack(&piece)), Some(packing)))
    }))
}

impl Packing {
    fn begin(&mut self, out: &mut BytesMut) {
        if !std::mem::replace(&mut self.is_begun, true) {
            out.extend_from_slice(&GZIP_HEADER);
        }
    }

    fn pack(&mut self, piece: &[u8]) -> Bytes {
        self.crc.update(piece);
        self.length = self.length.wrapping_add(u32::try_from(piece.len()).unwrap_or_default());
        let mut out = BytesMut::new();
        self.begin(&mut out);
        if piece.len() < SHORT_BYTES || !deflate(piece, &mut out) {
            store(piece, &mut out);
        }
        out.freeze()
    }

    fn end(mut self) -> Bytes {
        let mut out = BytesMut::new();
        self.begin(&mut out);
        out.extend_from_slice(&LAST_BLOCK);
        out.extend_from_slice(&self.crc.finalize().to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.freeze()
    }
}

/// False where nothing is gained; `out` is as it was then.
fn deflate(piece: &[u8], out: &mut BytesMut) -> bool {
    let before = out.len();
    let done = COMPRESSOR.with_borrow_mut(|compressor| {
        compressor.reset();
        compress_to_output(compressor, piece, TDEFLFlush::Sync, |bytes| {
            out.extend_from_slice(bytes);
            true
        })
    });
    let gained = done == (TDEFLStatus::Okay, piece.len()) && out.len() - before < piece.len();
    if !gained {
        out.truncate(before);
    }
    gained
}

/// A block that is not compressed (RFC 1951 section 3.2.4).
fn store(piece: &[u8], out: &mut BytesMut) {
    let length = u16::try_from(piece.len()).unwrap_or_default();
    out.extend_from_slice(&[0]);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(piece);
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::inflate::stream::{InflateState, inflate};
    use miniz_oxide::{DataFormat, MZFlush};
    use std::io;

    /// What a reader has after each piece that comes over the wire, and the bytes of all.
    async fn read(pieces: &[Bytes]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let pieces: Vec<_> = pieces.iter().cloned().map(Ok::<_, io::Error>).collect();
        let stream = futures_util::stream::iter(pieces);
        let mut stream = packed(Body::from_stream(stream), None).into_data_stream();
        let (mut reader, mut all, mut had) = (InflateState::new_boxed(DataFormat::Raw), Vec::new(), Vec::new());
        while let Some(piece) = stream.next().await {
            let piece = piece.unwrap();
            let mut input = &piece[if all.is_empty() { GZIP_HEADER.len() } else { 0 }..];
            all.extend_from_slice(&piece);
            let mut plain = Vec::new();
            loop {
                let mut room = [0; 1024];
                let done = inflate(&mut reader, input, &mut room, MZFlush::None);
                plain.extend_from_slice(&room[..done.bytes_written]);
                input = &input[done.bytes_consumed..];
                if done.bytes_written < room.len() {
                    break;
                }
            }
            had.push(plain);
        }
        (had, all)
    }

    #[tokio::test]
    async fn each_piece_can_be_read_when_it_comes() {
        let event =
            |number: usize| Bytes::from(format!("event: update\ndata: {{\"topic\":\"a/{number}\",\"v\":1}}\n\n"));
        let long = Bytes::from("{\"topic\":\"site/feeder1\",\"v\":1}".repeat(600));
        let noise: Bytes = (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let pieces = [event(1), long.clone(), event(2), noise, event(3)];
        let (had, all) = read(&pieces).await;
        assert_eq!(had[..pieces.len()], pieces);
        assert_eq!(had[pieces.len()..], [b""], "the end holds nothing");
        let plain = pieces.concat();
        let end = all.len() - 8;
        assert_eq!(all[end..end + 4], crc32fast::hash(&plain).to_le_bytes());
        assert_eq!(all[end + 4..], u32::try_from(plain.len()).unwrap().to_le_bytes());
        assert!(all.len() < plain.len() - long.len() * 9 / 10, "{} of {}", all.len(), plain.len());
    }

    #[tokio::test]
    async fn long_pieces_go_out_in_steps_and_none_is_an_answer() {
        let long = Bytes::from("0123456789abcdef".repeat(10_000));
        let (had, _) = read(std::slice::from_ref(&long)).await;
        assert_eq!(had.len(), long.len().div_ceil(STEP_BYTES) + 1);
        assert_eq!(had.concat(), long);
        let (had, all) = read(&[]).await;
        assert_eq!((had.concat(), all.len()), (Vec::new(), GZIP_HEADER.len() + 10));
    }

    #[tokio::test]
    async fn a_stream_that_breaks_off_has_no_end() {
        let pieces = [Ok(Bytes::from_static(b"one")), Err(io::Error::other("the disk is gone"))];
        let mut stream = packed(Body::from_stream(futures_util::stream::iter(pieces)), None).into_data_stream();
        assert!(stream.next().await.unwrap().is_ok());
        assert!(stream.next().await.unwrap().is_err());
        assert!(stream.next().await.is_none());
    }

    #[test]
    fn a_reader_costs_little_and_their_number_is_bounded() {
        assert!(size_of::<Packing>() <= 160, "{}", size_of::<Packing>());
        let readers = Readers::default();
        let held: Vec<_> = (0..LIVE_MAX).map(|_| readers.enter().unwrap()).collect();
        assert!(readers.enter().is_none());
        drop(held);
        assert!(readers.enter().is_some());
    }
}
