//! A buffered connection: a connection, and the bytes that its socket has not taken yet.

use crate::connection::closed_by;
use crate::session::earlier;
use crate::sockets::Remote;
use crate::tls::ShownCertificate;
use crate::{Closed, Connection, Limits, Passage};
use std::task::{Context, Poll};
use tieline_core::Instant;
use tokio::io::ReadBuf;

/// A connection, and what it refused to take.
#[derive(Debug)]
pub(crate) struct BufferedConnection {
    connection: Connection,
    unsent: Vec<u8>,
    /// When the connection last took a byte, or output began to wait.
    moved: Instant,
    /// Whether it has ever taken a byte.
    said: bool,
}

impl BufferedConnection {
    pub(crate) fn new(mut connection: Connection, now: Instant) -> Self {
        connection.heard(now);
        Self { connection, unsent: Vec::new(), moved: now, said: false }
    }

    /// Whether the connection has taken all it was given.
    pub(crate) fn is_clear(&self) -> bool {
        self.unsent.is_empty() && self.connection.is_flushed()
    }

    /// The connection alone.
    pub(crate) fn into_connection(self) -> Connection {
        self.connection
    }

    /// Whether the peer was told something, and can be told that our side has ended.
    pub(crate) const fn can_part(&self) -> bool {
        self.said && self.connection.can_part()
    }

    /// The certificate that the peer has shown.
    pub(crate) fn certificate(&self) -> Option<ShownCertificate> {
        self.connection.certificate()
    }

    /// Whether it takes more again since it refused: what waits may go.
    pub(crate) fn is_clear_again(&self) -> bool {
        self.connection.is_clear_again()
    }

    /// Whether another thread has the socket.
    pub(crate) const fn is_remote(&self) -> bool {
        self.connection.is_remote()
    }

    /// Lets frames of so many bytes be written past the session, where another thread has the socket and took some.
    pub(crate) fn open_passage(&self, frame_max: usize) -> Option<Passage> {
        let remote = self.connection.remote().filter(|_| self.said)?;
        remote.open_passage(u32::try_from(frame_max).unwrap_or(u32::MAX))
    }

    /// Ends that; returns the bytes and frames that were.
    pub(crate) fn close_passage(&self) -> (u64, u64) {
        self.connection.remote().map(Remote::close_passage).unwrap_or_default()
    }

    /// The bytes and frames that were written past the session up to now.
    pub(crate) fn past(&self) -> (u64, u64) {
        self.connection.remote().map(Remote::past).unwrap_or_default()
    }

    /// What is written next is urgent.
    pub(crate) fn mark_urgent(&self) {
        self.connection.mark_urgent();
    }

    /// Whether another message may go.
    pub(crate) fn is_open(&self) -> bool {
        self.is_clear() && self.connection.rests_until().is_none()
    }

    /// Messages that may go out in one write.
    pub(crate) fn messages_max(&self) -> usize {
        self.connection.messages_max()
    }

    /// The next thing that happens unless bytes move.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        earlier(self.stalls_at(limits), self.connection.deadline())
    }

    /// When a peer that takes nothing counts as gone.
    fn stalls_at(&self, limits: &Limits) -> Option<Instant> {
        (!self.is_clear() && !self.connection.is_remote()).then(|| self.moved + limits.stall)
    }

    /// Lets deadlines that have passed take effect.
    pub(crate) fn expire(&mut self, limits: &Limits, now: Instant) -> Result<(), Closed> {
        if self.stalls_at(limits).is_some_and(|at| at <= now) {
            return Err(Closed::Slow);
        }
        if self.connection.silent_at().is_some_and(|at| at <= now) {
            return Err(Closed::Silent);
        }
        if self.connection.rests_until().is_some_and(|at| at <= now) {
            self.connection.end_rest();
        }
        Ok(())
    }

    /// One read, if there are bytes. None read and ready is the end.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        now: Instant,
    ) -> Poll<Result<(), Closed>> {
        let read = self.connection.poll_read(cx, buffer);
        if read.is_ready() {
            self.connection.heard(now);
        }
        read.map_err(|error| {
            tracing::debug!(%error, "cannot read");
            closed_by(&error)
        })
    }

    /// Writes at once what the connection takes, keeps the rest, and returns how many bytes it took. Only for a clear
    /// line: the order of bytes is the order of calls.
    pub(crate) fn write(&mut self, bytes: &[u8], limits: &Limits, now: Instant) -> Result<usize, Closed> {
        let taken = self.offer(bytes, now)?.unwrap_or(0);
        let rest = bytes.get(taken..).unwrap_or_default();
        if rest.len() > limits.unsent_bytes_max {
            return Err(Closed::Full);
        }
        self.unsent.extend_from_slice(rest);
        if !self.is_clear() {
            self.moved = now;
        }
        Ok(taken)
    }

    /// Offers what waits to a connection that may have room again; returns how many bytes it took.
    pub(crate) fn poll_unsent(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Result<usize, Closed>> {
        let mut taken = 0;
        let mut moved = false;
        while !self.is_clear() {
            match self.connection.poll_write_ready(cx) {
                Poll::Pending if !moved => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(ready) => ready.map_err(|error| closed_by(&error))?,
            }
            let unsent = std::mem::take(&mut self.unsent);
            let offered = self.offer(&unsent, now);
            self.unsent = unsent;
            if let Some(count) = offered? {
                self.unsent.drain(..count);
                (self.moved, moved) = (now, true);
                taken += count;
            }
        }
        if self.unsent.is_empty() {
            self.unsent = Vec::new();
        }
        Poll::Ready(Ok(taken))
    }

    fn offer(&mut self, bytes: &[u8], now: Instant) -> Result<Option<usize>, Closed> {
        let taken = self.connection.offer(bytes).map_err(|error| {
            tracing::debug!(%error, "cannot write");
            closed_by(&error)
        })?;
        self.said |= taken.is_some_and(|bytes| bytes > 0);
        self.connection.sent(taken.unwrap_or(0), now);
        Ok(taken)
    }
}
