//! What an owner and a socket shard tell each other.

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
    /// The bytes of all its writes, one after the other.
    pub(super) bytes: Vec<u8>,
    /// Whether one of its writes is urgent.
    pub(super) is_urgent: bool,
}

/// One order, about the connection of a number.
#[derive(Debug)]
pub(super) enum Order {
    /// The connection is the shard's from here on.
    Open(u32, Box<Detached>),
    /// Write the next bytes of the batch.
    Write { connection: u32, len: u32, urgent: bool },
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
