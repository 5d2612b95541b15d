//! What comes from the peer, and how much of it the machine takes.

use super::{Owner, Session};
use crate::counters::add;
use crate::{Closed, Direction};
use std::task::{Context, Poll};
use tieline_core::{Machine, Now};
use tokio::io::ReadBuf;

impl<M: Machine> Session<M> {
    /// One read, if the socket has bytes. A short one tells the runtime that no second `recv` is to ask for more. Where `now` is
    /// that of an earlier round, the clocks are read again for what has come since.
    pub(super) fn read<O: Owner<M>>(
        &self,
        cx: &mut Context<'_>,
        now: &mut Now,
        is_old: bool,
        owner: &mut O,
    ) -> Result<bool, Closed> {
        if self.has_unread() {
            return self.feed_unread(*now, owner);
        }
        let mut shared = self.0.shard.input.borrow_mut();
        let mut buffer = ReadBuf::new(&mut shared);
        let read = match &mut *self.0.buffered.borrow_mut() {
            Some(buffered) => buffered.poll_read(cx, &mut buffer, now.mono),
            None => Poll::Pending,
        };
        match read {
            Poll::Pending => return Ok(false),
            Poll::Ready(result) => result?,
        }
        if is_old {
            *now = self.0.shard.begin_round();
        }
        let (now, bytes) = (*now, buffer.filled());
        if bytes.is_empty() {
            return Err(Closed::Peer);
        }
        let counters = self.0.shard.counters();
        add(&counters.reads, 1);
        add(&counters.bytes_in, bytes.len());
        self.count(|traffic| {
            traffic.reads += 1;
            traffic.bytes_in += bytes.len() as u64;
        });
        self.tap(now, Direction::Received, bytes);
        self.feed(bytes, now, owner)?;
        Ok(true)
    }

    /// Whether the machine has not taken all that was read. No more is read until it has, so there is never more than one
    /// read brought.
    pub(super) fn has_unread(&self) -> bool {
        !self.0.unread.borrow().is_empty()
    }

    fn feed_unread<O: Owner<M>>(&self, now: Now, owner: &mut O) -> Result<bool, Closed> {
        if self.0.machine.borrow().is_waiting() {
            return Ok(false);
        }
        let unread = self.0.unread.take();
        self.feed(&unread, now, owner)?;
        Ok(true)
    }

    fn feed<O: Owner<M>>(&self, bytes: &[u8], now: Now, owner: &mut O) -> Result<(), Closed> {
        let mut rest = bytes;
        while !rest.is_empty() && !self.0.machine.borrow().is_closed() {
            let used = self.0.machine.borrow_mut().handle_input(now, rest);
            rest = rest.get(used..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            // What it took so far is acted on and answered before it sees the rest.
            let drained = self.drain(now, owner);
            let written = self.write_output(now)?;
            if used == 0 && drained == 0 && written == 0 {
                if self.0.machine.borrow().is_waiting() {
                    self.0.unread.borrow_mut().extend_from_slice(rest);
                    return Ok(());
                }
                return Err(self.why_nothing_moved());
            }
        }
        Ok(())
    }

    /// A machine may refuse input while its answers wait, and they do while the peer takes none: that is the peer's doing.
    fn why_nothing_moved(&self) -> Closed {
        let refused = self.0.buffered.borrow().as_ref().is_some_and(|buffered| !buffered.is_clear());
        if refused { Closed::Full } else { Closed::Stuck }
    }
}
