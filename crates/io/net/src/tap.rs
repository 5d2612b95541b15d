//! What learns of every byte that a session moves: a protocol trace.

use crate::{Closed, Peer};
use std::fmt;
use tieline_core::Now;

/// Which way bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the peer.
    Received,
    /// To the peer.
    Sent,
}

/// Is given what a session moves, as the machine sees it: over TLS the plain bytes, over UDP whole datagrams. It is called between
/// two steps of the session and must not call it.
pub trait Tap: fmt::Debug {
    /// One read, or one write that the connection took; a write may have several messages.
    fn moved(&self, now: Now, direction: Direction, bytes: &[u8]);

    /// A connection begins.
    fn connected(&self, now: Now, peer: &Peer);

    /// The connection has ended.
    fn closed(&self, now: Now, why: Closed);
}
