//! Answers from history: made on threads of their own, and sent piece by piece as the caller reads.

use super::problem::Problem;
use super::recalls::Recall;
use axum::body::Body;
use bytes::Bytes;
use std::io::{self, BufWriter, Write};
use std::time::Instant;
use tokio::sync::mpsc;

/// Pieces of an answer that may wait for the caller.
const WAITING_MAX: usize = 2;
/// Bytes of a piece.
const PIECE_BYTES: usize = 32 * 1024;

/// Pieces of an answer, on their way to the caller.
pub(super) struct Pieces(pub(super) mpsc::Sender<Result<Bytes, io::Error>>);

impl Pieces {
    /// Whether the caller has gone: it needs no more.
    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends what `make` writes, for as long as it has its turn. `make` says in words what went wrong.
///
/// # Errors
/// It went wrong before the first piece; later an error breaks the answer off.
pub(super) async fn answer(
    recall: Recall,
    make: impl FnOnce(Pieces, BufWriter<Pieces>) -> Result<(), String> + Send + 'static,
) -> Result<Body, Problem> {
    let (pieces, incoming) = mpsc::channel::<Result<Bytes, io::Error>>(WAITING_MAX);
    let (recalls, began) = (recall.recalls(), Instant::now());
    tokio::task::spawn_blocking(move || {
        let out = BufWriter::with_capacity(PIECE_BYTES, Pieces(pieces.clone()));
        if let Err(error) = make(Pieces(pieces.clone()), out) {
            // A caller that has gone needs no error.
            let _ = pieces.blocking_send(Err(io::Error::other(error)));
        }
        drop(recall);
    });
    let streamed = streamed(incoming).await;
    recalls.queries().record(began.elapsed());
    streamed.map_err(|error| Problem::unavailable(error.to_string()))
}

/// Pieces as the body of an answer. The first says whether there is an answer at all; from then on an error can only break it off.
///
/// # Errors
/// The first piece is one.
pub(super) async fn streamed(mut incoming: mpsc::Receiver<Result<Bytes, io::Error>>) -> Result<Body, io::Error> {
    let first = incoming.recv().await.transpose()?.unwrap_or_default();
    let stream = futures_util::stream::unfold((Some(first), incoming), |(first, mut incoming)| async {
        match first {
            Some(piece) => Some((Ok(piece), (None, incoming))),
            None => incoming.recv().await.map(|piece| (piece, (None, incoming))),
        }
    });
    Ok(Body::from_stream(stream))
}
