//! The outgoing side of one connection.

use crate::{Closed, Limits};
use std::io;
use std::task::{Context, Poll};
use tieline_core::Instant;
use tokio::net::tcp::OwnedWriteHalf;

/// The outgoing side of one connection, and what its socket refused.
#[derive(Debug)]
pub(crate) struct Line {
    socket: OwnedWriteHalf,
    unsent: Vec<u8>,
    /// When the socket last took an octet, or output began to wait.
    moved: Instant,
}

impl Line {
    pub(crate) const fn new(socket: OwnedWriteHalf, now: Instant) -> Self {
        Self { socket, unsent: Vec::new(), moved: now }
    }

    /// Whether the socket has taken all it was given.
    pub(crate) const fn is_clear(&self) -> bool {
        self.unsent.is_empty()
    }

    /// When the peer counts as gone.
    pub(crate) fn stalls_at(&self, limits: &Limits) -> Option<Instant> {
        (!self.is_clear()).then(|| self.moved + limits.stall)
    }

    /// Writes at once what the socket takes, keeps the rest, and returns how many octets it took. Only for a clear
    /// line: the order of octets is the order of calls.
    pub(crate) fn write(&mut self, octets: &[u8], limits: &Limits, now: Instant) -> Result<usize, Closed> {
        let taken = self.offer(octets)?;
        let rest = octets.get(taken..).unwrap_or_default();
        if rest.len() > limits.unsent_octets_max {
            return Err(Closed::Full);
        }
        if !rest.is_empty() {
            self.unsent.extend_from_slice(rest);
            self.moved = now;
        }
        Ok(taken)
    }

    /// Offers what waits to a socket that may have room again; returns how many octets it took.
    pub(crate) fn poll_unsent(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Result<usize, Closed>> {
        let mut taken = 0;
        while !self.is_clear() {
            match self.socket.as_ref().poll_write_ready(cx) {
                Poll::Pending if taken == 0 => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(ready) => ready.map_err(|error| Closed::Io(error.kind()))?,
            }
            let count = self.offer(&self.unsent)?;
            self.unsent.drain(..count);
            if count > 0 {
                self.moved = now;
            }
            taken += count;
        }
        if self.is_clear() {
            self.unsent = Vec::new();
        }
        Poll::Ready(Ok(taken))
    }

    fn offer(&self, octets: &[u8]) -> Result<usize, Closed> {
        match self.socket.try_write(octets) {
            Ok(count) => Ok(count),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
            Err(error) => Err(Closed::Io(error.kind())),
        }
    }
}
