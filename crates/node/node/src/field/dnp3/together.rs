//! A connection that several devices share; they come and go.

use super::device::DeviceOwner;
use crate::config::SharedChannel;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::time::Duration;
use tieline_core::{DeviceId, Machine, Now};
use tieline_dnp3::channel::{Channel, ChannelEvent, MemberId};
use tieline_dnp3::master::{Master, MasterEvent};
use tieline_net::{Closed, Owner, Peer, Session};
use tieline_transport::KeptSession;

/// Who learns of each member of a channel.
pub(super) type Owners = Rc<RefCell<BTreeMap<MemberId, DeviceOwner>>>;

/// A connection that devices share.
pub(super) struct Together {
    pub(super) shared: SharedChannel,
    pub(super) session: Session<Channel<Master>>,
    pub(super) owners: Owners,
    /// None where it could not be started.
    pub(super) kept: Option<KeptSession>,
}

impl Together {
    /// Devices leave. What each was asked and has not answered ends.
    pub(super) fn remove(&self, devices: &HashSet<DeviceId>) {
        let is_over = |owner: &DeviceOwner| devices.contains(&owner.reporter.device());
        let leaving: Vec<_> = self.owners.borrow_mut().extract_if(.., |_, owner| is_over(owner)).collect();
        for (member, owner) in leaving {
            let Some(mut master) = self.session.with(|channel, _| channel.remove(member)) else { continue };
            let now = self.session.shard().now();
            master.handle_disconnected(now);
            while let Some(event) = master.poll_event() {
                owner.heard(now, event);
            }
        }
    }
}

/// Learns of the session that several devices share.
#[derive(Clone)]
pub(super) struct ChannelOwner {
    pub(super) owners: Owners,
}

impl ChannelOwner {
    /// All devices. They may leave meanwhile.
    fn each(&self) -> impl Iterator<Item = DeviceOwner> + use<> {
        let owners: Vec<_> = self.owners.borrow().values().cloned().collect();
        owners.into_iter()
    }
}

impl Owner<Channel<Master>> for ChannelOwner {
    fn event(&mut self, _session: &Session<Channel<Master>>, now: Now, event: ChannelEvent<MasterEvent>) {
        let owner = self.owners.borrow().get(&event.member).cloned();
        if let Some(owner) = owner {
            owner.heard(now, event.event);
        }
    }

    fn connected(&mut self, _session: &Session<Channel<Master>>, now: Now, peer: &Peer) {
        self.each().for_each(|owner| owner.begun(now, peer));
    }

    fn closed(&mut self, _session: &Session<Channel<Master>>, now: Now, why: Closed) {
        self.each().for_each(|owner| owner.ended(now, why));
    }

    fn connect_failed(
        &mut self,
        _session: &Session<Channel<Master>>,
        now: Now,
        error: &std::io::Error,
        _retry: Duration,
    ) {
        self.each().for_each(|owner| owner.away(now, &error.to_string()));
    }
}
