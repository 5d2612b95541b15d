//! Threads that own sockets for the sessions of another thread: socket shards.
//!
//! A thread that fans out spends nine tenths of its time in the kernel, writing. A session, with all that it decides, stays
//! on its owner's thread; the socket, the records of TLS, every read and every write go to a socket shard.
//!
//! ```text
//!  owner's thread                                    socket shard
//!  session ── write ──▶ batch ────── orders ───────▶ writes of each connection ──▶ socket
//!  session ◀── read ── inbox ◀────── news ────────── what was read, who refuses ◀── socket
//! ```
//!
//! - **Order**: what goes to one connection keeps its order. Of two connections, the one with an urgent message goes first.
//! - **Limits**: a connection takes [`OUTPUT_MAX`] bytes more than its shard has written, and a shard reads [`INPUT_MAX`]
//!   bytes more than the session has taken. So nothing waits for a shard that is stuck but what its own connections have.
//! - **Cost**: orders go in batches; one number says that a batch is done. A connection that takes what it is given says
//!   nothing. A thread that looks at its mailbox by itself is not woken ([`crate::mailbox`]). A frame for many connections
//!   goes past their sessions ([`Passage`]), and is in a batch once.
//!
//! Read first: `batch.rs`, then `owner.rs`, `passage.rs` and `worker.rs`.

mod batch;
mod owner;
mod passage;
mod remote;
mod shard_connection;
mod worker;

#[cfg(test)]
mod tests;

pub use owner::{SocketShardStatus, SocketShards};
pub use passage::{FrameNumber, Passage, SharedFrame};
pub(crate) use remote::{Remote, Stalled};

/// Bytes that a connection is given before its shard has written what it was given before.
pub(crate) const OUTPUT_MAX: usize = 256 * 1024;
/// Bytes that are read from a connection before its session has taken what was read before.
pub(crate) const INPUT_MAX: usize = 64 * 1024;
