//! A subscriber without a socket: it says what a client says once, and what comes is kept until somebody looks at it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tieline_net::Carrier;
use tokio::io::ReadBuf;

/// What came to the subscribers of one node: of each piece its subscriber and its length, and the bytes.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Pieces>>);

#[derive(Debug, Default)]
pub struct Pieces {
    heads: Vec<(u32, u32)>,
    bytes: Vec<u8>,
}

impl Log {
    fn add(&self, subscriber: u32, piece: &[u8]) {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.heads.push((subscriber, u32::try_from(piece.len()).unwrap_or(u32::MAX)));
        pieces.bytes.extend_from_slice(piece);
    }

    /// Gives what came since to `look`, and keeps the room for more.
    pub fn look<E>(&self, mut look: impl FnMut(u32, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at = 0;
        for (subscriber, length) in &pieces.heads {
            let end = at + usize::try_from(*length).unwrap_or(0);
            look(*subscriber, pieces.bytes.get(at..end).unwrap_or_default())?;
            at = end;
        }
        pieces.heads.clear();
        pieces.bytes.clear();
        Ok(())
    }
}

/// A subscriber's end of its connection.
#[derive(Debug)]
pub struct Sink {
    number: u32,
    says: Box<[u8]>,
    said: usize,
    log: Log,
}

impl Sink {
    pub fn new(number: u32, says: Vec<u8>, log: &Log) -> Self {
        Self { number, says: says.into(), said: 0, log: log.clone() }
    }
}

impl Carrier for Sink {
    fn poll_read(&mut self, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let left = self.says.get(self.said..).unwrap_or_default();
        if left.is_empty() {
            // It says nothing more, and stays.
            self.says = Box::default();
            self.said = 0;
            return Poll::Pending;
        }
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(left.get(..count).unwrap_or_default());
        self.said += count;
        Poll::Ready(Ok(()))
    }

    fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn offer(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.log.add(self.number, bytes);
        Ok(bytes.len())
    }
}
