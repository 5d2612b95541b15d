//! A device's master, on a connection of its own or on one that it shares.

use tieline_core::Now;
use tieline_dnp3::channel::{Channel, MemberId};
use tieline_dnp3::master::Master;
use tieline_net::Session;

/// Where a device's master is. Copies are handles of the same one.
#[derive(Clone)]
pub(super) enum Link {
    /// On a connection of its own.
    Alone(Session<Master>),
    /// With others.
    Shared(Session<Channel<Master>>, MemberId),
}

impl Link {
    /// Calls the master; none only where a channel does not have it.
    pub(super) fn with<R>(&self, call: impl FnOnce(&mut Master, Now) -> R) -> Option<R> {
        match self {
            Self::Alone(session) => Some(session.with(call)),
            Self::Shared(session, member) => {
                session.with(|channel, now| channel.member_mut(*member).map(|master| call(master, now)))
            }
        }
    }
}
