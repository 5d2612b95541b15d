//! Why a connection ended.

use std::fmt;
use std::io;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// The peer closed it.
    Peer,
    /// The network failed.
    Io(io::ErrorKind),
    /// The machine asked for it: the peer broke the protocol, or the protocol says goodbye.
    Machine,
    /// The owner asked for it.
    Owner,
    /// A later connection took this session over.
    Replaced,
    /// The peer took no byte for [`crate::Limits::stall`] while output waited.
    Slow,
    /// More than [`crate::Limits::unsent_bytes_max`] waited for the peer, or as much as its machine keeps of answers, so
    /// that it took no more input.
    Full,
    /// A peer without connection was not heard for too long.
    Silent,
    /// The records of TLS broke, or the peer refused ours, in its own word.
    Tls(&'static str),
    /// The machine took no input while its output was taken: it holds as much as it may, or it is a fault of ours.
    Stuck,
}

impl Closed {
    /// A stable word in `snake_case`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Io(_) => "io",
            Self::Machine => "machine",
            Self::Owner => "owner",
            Self::Replaced => "replaced",
            Self::Slow => "slow",
            Self::Full => "full",
            Self::Silent => "silent",
            Self::Tls(_) => "tls",
            Self::Stuck => "stuck",
        }
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer => f.write_str("closed by the peer"),
            Self::Io(kind) => write!(f, "{kind}"),
            Self::Machine => f.write_str("closed by the protocol"),
            Self::Owner => f.write_str("closed by this node"),
            Self::Replaced => f.write_str("replaced by a later connection"),
            Self::Slow => f.write_str("the peer stopped reading"),
            Self::Full => f.write_str("the peer reads too slowly: output limit reached"),
            Self::Silent => f.write_str("the peer was not heard for too long"),
            Self::Tls(why) => write!(f, "TLS: {why}"),
            Self::Stuck => f.write_str("the protocol machine took no input"),
        }
    }
}
