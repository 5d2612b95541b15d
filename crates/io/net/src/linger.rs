//! Lingering close: ends a connection so that a peer that is still sending can read why it was ended.
//!
//! A socket that is closed with bytes unread, or that gets some afterwards, answers with a reset, and a reset lets the
//! peer's system throw away what was not read there: the last words are lost. So our side ends first; what the peer
//! goes on to say is
//! taken and thrown away until its side ends too, and the socket is closed then, or when that takes too long.

use crate::counters::add;
use crate::{Connection, Shard};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::ReadBuf;

/// Bytes that are taken from one peer.
pub(crate) const BYTES_MAX: usize = 16 << 20;
/// Connections of a shard that end so at one time; further ones are closed at once.
pub(crate) const AT_ONCE_MAX: usize = 256;
/// Reads of one turn before other sessions have theirs.
const TURN_READS: usize = 32;

/// Why it was not waited for the peer any longer.
enum Cut {
    /// It does not stop.
    Long,
    /// The connection failed.
    Failed,
}

impl From<io::Error> for Cut {
    fn from(_: io::Error) -> Self {
        Self::Failed
    }
}

/// Ends a connection that has taken all that it was given, within `patience`.
pub(crate) async fn part(mut connection: Connection, shard: Rc<Shard>, patience: Duration) {
    let counters = shard.counters();
    let Some(_place) = shard.enter_linger() else { return add(&counters.lingering_closes_cut, 1) };
    add(&counters.lingering_closes, 1);
    let mut bytes = 0;
    let linger = async {
        poll_fn(|cx| connection.poll_end(cx)).await?;
        poll_fn(|cx| hear_out(cx, &mut connection, &shard, &mut bytes)).await
    };
    match tokio::time::timeout(patience, linger).await {
        Ok(Ok(()) | Err(Cut::Failed)) => {}
        Ok(Err(Cut::Long)) | Err(_) => add(&counters.lingering_closes_cut, 1),
    }
}

/// Takes what comes until the end.
fn hear_out(
    cx: &mut Context<'_>,
    connection: &mut Connection,
    shard: &Shard,
    bytes: &mut usize,
) -> Poll<Result<(), Cut>> {
    let mut shared = shard.input.borrow_mut();
    for _ in 0..TURN_READS {
        let mut buffer = ReadBuf::new(&mut shared);
        ready!(connection.poll_discard(cx, &mut buffer))?;
        let count = buffer.filled().len();
        if count == 0 {
            return Poll::Ready(Ok(()));
        }
        *bytes += count;
        if *bytes > BYTES_MAX {
            return Poll::Ready(Err(Cut::Long));
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
