//! What an owner and a socket shard tell each other.

use super::passage::{FrameNumber, SharedFrame};
use crate::connection::Detached;
use crate::tls::ShownCertificate;
use std::io;
use std::time::Duration;

/// What an owner wants of a shard, in order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Rises by one with each batch.
    pub(super) number: u64,
    pub(super) orders: Vec<Order>,
    /// The bytes of all its writes, one after the other; of those that write the same, once.
    pub(super) bytes: Vec<u8>,
    /// Bytes that it writes.
    pub(super) weight: usize,
    /// The frame that its last bytes are, where others may get it too.
    pub(super) frame: Option<FrameNumber>,
    /// Whether one of its writes is urgent.
    pub(super) is_urgent: bool,
}

impl Batch {
    /// Adds a write.
    pub(super) fn write(&mut self, connection: u32, bytes: &[u8], urgent: bool) {
        for part in bytes.chunks(1 << 30) {
            self.bytes.extend_from_slice(part);
            let len = u32::try_from(part.len()).unwrap_or_default();
            self.orders.push(Order::Write { connection, len, urgent });
        }
        self.frame = None;
        self.weight += bytes.len();
        self.is_urgent |= urgent;
    }

    /// Adds a write of a frame that others may get too.
    pub(super) fn write_shared(&mut self, connection: u32, frame: SharedFrame<'_>, urgent: bool) {
        if self.frame == Some(frame.number()) {
            self.orders.push(Order::Repeat { connection, urgent });
            self.weight += frame.len();
            self.is_urgent |= urgent;
            return;
        }
        self.write(connection, frame.bytes(), urgent);
        self.frame = Some(frame.number());
    }

    /// Its room, empty.
    pub(super) fn emptied(mut orders: Vec<Order>, mut bytes: Vec<u8>) -> Self {
        orders.clear();
        bytes.clear();
        Self { orders, bytes, ..Self::default() }
    }
}

/// One order, about the connection of a number.
#[derive(Debug)]
pub(super) enum Order {
    /// The connection is the shard's from here on.
    Open(u32, Box<Detached>),
    /// Write the next bytes of the batch.
    Write { connection: u32, len: u32, urgent: bool },
    /// Write the bytes of the write before it.
    Repeat { connection: u32, urgent: bool },
    /// The session has taken so many bytes of what was read.
    Taken { connection: u32, len: u32 },
    /// Write what waits, end our side, and let the peer end its own.
    End { connection: u32, patience: Duration },
    /// Close it; what waits is dropped.
    Close { connection: u32 },
    /// Say when this batch is done: a connection waits for that.
    Tell,
}

/// What a shard has done.
#[derive(Debug, Default)]
pub(super) struct News {
    /// All batches up to this one are done.
    pub(super) done: u64,
    /// The room of batches that are done, to be used again.
    pub(super) spare: Vec<Batch>,
    pub(super) items: Vec<Item>,
}

/// News of the connection of a number.
#[derive(Debug)]
pub(super) enum Item {
    /// Its handshake, where it has one, is over.
    Established(u32, Option<Box<ShownCertificate>>),
    /// It has sent this.
    Input(u32, Vec<u8>),
    /// Its socket takes no more at the moment.
    Refuses(u32),
    /// Its socket has taken all that it was given.
    Clear(u32),
    /// It has ended: no more comes from it.
    Ended(u32, End),
    /// The shard has closed it: the number is free.
    Gone(u32),
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// The peer has ended its side.
    Peer,
    /// It failed, or took nothing for too long.
    Failed(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_follows_itself_is_there_once() {
        let [one, other] = [b"one", b"two"].map(|bytes| SharedFrame::new(bytes, FrameNumber::next()));
        let mut batch = Batch::default();
        for connection in 0..3 {
            batch.write_shared(connection, one, false);
        }
        batch.write_shared(3, other, true);
        batch.write(0, b"own", false);
        batch.write_shared(4, other, false);
        assert_eq!((&batch.bytes[..], batch.weight, batch.is_urgent), (&b"onetwoowntwo"[..], 18, true));
        let repeats = batch.orders.iter().filter(|order| matches!(order, Order::Repeat { .. })).count();
        assert_eq!((batch.orders.len(), repeats), (6, 2));
    }
}
