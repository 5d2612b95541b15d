//! What of a session outlives its connections.

use super::ServerSession;
use crate::flow::{Incoming, Outgoing, OutgoingLimits};
use crate::message::Delivery;

/// What of a session outlives a connection: messages under way and queued. A persistent session's owner takes it
/// from one [`crate::ServerSession`], queues messages while the client is away, and hands it to the next.
#[derive(Debug, Default)]
pub struct SessionState {
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
}

/// What may wait for a client that is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwayLimits {
    /// Messages.
    pub messages: usize,
    /// Octets, with 64 for each message's bookkeeping.
    pub octets: usize,
}

impl SessionState {
    /// Queues a message while the client is away, and says how many of the oldest that wait had to go for it. What
    /// was sent and not acknowledged stays.
    pub fn deliver(&mut self, delivery: Delivery, tag: u64, limits: AwayLimits) -> u64 {
        let AwayLimits { messages, octets } = limits;
        self.outgoing.push_away(delivery, tag, OutgoingLimits { messages, octets })
    }

    /// Drops the messages that wait but for those that may stay, as when rights have changed, and says how many went.
    /// What was sent and not acknowledged is completed all the same.
    pub fn keep_only(&mut self, may_stay: impl FnMut(&Delivery) -> bool) -> u64 {
        self.outgoing.keep_only(may_stay)
    }

    /// Messages that wait, and QoS 1 and 2 messages that were sent and are not acknowledged.
    #[must_use]
    pub fn backlog(&self) -> (usize, usize) {
        (self.outgoing.pending(), self.outgoing.in_flight())
    }

    /// Octets of the messages that wait, with 64 for each message's bookkeeping.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.outgoing.pending_octets()
    }

    /// What the session, which has ended, did not get and another may get in its place (section 4.8.2), with the tag
    /// of each: what waited, and what was sent with QoS 1 and not acknowledged.
    pub fn undelivered(self) -> impl Iterator<Item = (u64, Delivery)> {
        self.outgoing.undelivered()
    }
}

impl ServerSession {
    /// As [`SessionState::keep_only`], while the client is here.
    pub fn keep_only(&mut self, may_stay: impl FnMut(&Delivery) -> bool) -> u64 {
        self.state.as_mut().map_or(0, |state| state.keep_only(may_stay))
    }
}
