//! Messages between sites: what programs publish at one, and programs at others receive, through the centre.
//!
//! ```text
//!  bus of a site ─ Send ─▶ link ══ batch ══▶ link of the centre ─▶ its bus ─ Send ─▶ link ══ batch ══▶ another site
//!        ▲                                        │
//!        └────────── EventsWanted ◀══ interest ═══┘   what clients of others have subscribed, as far as it is shared
//! ```
//!
//! A link asks for what its end wants, and asks again now and then: a process that was started again knows nothing. What waits, is sent
//! again or comes twice, `tieline-relay` decides.

#[cfg(feature = "fabric")]
mod exchange;
#[cfg(feature = "fabric")]
mod link;

#[cfg(feature = "fabric")]
pub(super) use exchange::{Exchange, Side};

use std::sync::Arc;
use tieline_core::Filter;
use tieline_relay::Event;
use tokio::sync::mpsc;

/// The word in subjects of it, in the place of a stream or of a request.
#[cfg(feature = "fabric")]
pub(super) const SUBJECT: &str = "events";
/// Parts of messages that may wait for the thread. Beyond them, messages are lost, and counted.
const INPUTS_MAX: usize = 4096;

/// The other end of a link: a site, or none for the centre.
pub type EventPeer = Option<Arc<str>>;

/// What the bus tells the thread.
#[derive(Debug)]
pub enum EventInput {
    /// Messages for the other end.
    Send(EventPeer, Vec<Event>),
    /// All that is wanted of the other end.
    Want(EventPeer, Vec<Filter>),
}

/// The way from the bus to the thread.
#[must_use]
pub fn way_of_events() -> (mpsc::Sender<EventInput>, mpsc::Receiver<EventInput>) {
    mpsc::channel(INPUTS_MAX)
}

/// A link, as it is shown. Counts begin with the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventsSeen {
    /// Filters that are asked of the other end.
    pub wanted: usize,
    /// Filters that the other end asks for.
    pub asked: usize,
    /// Messages that wait for it.
    pub waiting: usize,
    /// Their bytes.
    pub waiting_bytes: usize,
    /// Messages that it has taken.
    pub sent: u64,
    /// Messages that it will never get.
    pub lost: u64,
    /// Messages with QoS 0 that were published while it was away.
    pub not_kept: u64,
    /// Messages that came from it.
    pub received: u64,
    /// Messages that came once more, and were left out.
    pub repeated: u64,
}
