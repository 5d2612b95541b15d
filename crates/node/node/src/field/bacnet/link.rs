//! How the devices of a site are reached: by datagrams, or by a hub.

use super::hub::HubSite;
use super::site::Site;
use std::rc::Rc;
use tieline_core::Now;
use tieline_net::{Endpoint, Session, Shard};

/// What carries the messages of a site. Copies are of the same one.
#[derive(Clone, Debug)]
pub(super) enum Link {
    /// A socket of BACnet/IP.
    Socket(Endpoint<Site>),
    /// The connection to a hub of BACnet/SC.
    Hub(Session<HubSite>),
}

impl Link {
    pub(super) fn shard(&self) -> &Rc<Shard> {
        match self {
            Self::Socket(endpoint) => endpoint.shard(),
            Self::Hub(session) => session.shard(),
        }
    }

    /// Calls the site; what it has to send and to tell follows. Not to be called from within itself.
    pub(super) fn with<T>(&self, call: impl FnOnce(&mut Site, Now) -> T) -> T {
        match self {
            Self::Socket(endpoint) => endpoint.with(call),
            Self::Hub(session) => session.with(|hub, now| hub.call(now, call)),
        }
    }

    /// Looks at the site.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Site) -> T) -> T {
        match self {
            Self::Socket(endpoint) => endpoint.look(look),
            Self::Hub(session) => session.look(|hub| look(hub.site())),
        }
    }

    /// Why no device is reached at all; none where that is not known, or some may be.
    pub(super) fn trouble(&self) -> Option<String> {
        match self {
            Self::Socket(_) => None,
            Self::Hub(session) => session.look(|hub| hub.trouble().map(str::to_owned)),
        }
    }
}
