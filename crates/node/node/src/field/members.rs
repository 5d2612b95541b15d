//! The devices of a shard: how they are added, replaced and taken away.

use super::Barrier;
use super::driver::DeviceSession;
use super::shard::{Device, Field};
use super::spec::{spec_of, urgency_of};
use crate::config::{NetworkConfig, Numbered, Priority};
use crate::trace::Kind;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::{DeviceId, Now};
use tieline_poll::{DeviceState, GroupId, GroupKind, GroupSpec, LinkState, PointTable, SpecError, Urgency};

impl Field {
    /// Tells the limits that devices of a network share, before the devices. A network that has no devices any more may be
    /// forgotten, and its group become another's.
    pub(super) fn set_network(&mut self, now: Now, network: &NetworkConfig) {
        let known = self.networks.get(&network.name).copied();
        let group = known.or_else(|| self.take_unused_group()).unwrap_or_else(|| {
            let count = self.networks.len();
            GroupId(u32::try_from(count).unwrap_or(u32::MAX))
        });
        let spec = GroupSpec { kind: GroupKind::Network, in_flight_max: network.in_flight, gap_min: network.gap };
        match self.poller.set_group(now, group, spec) {
            Ok(()) => drop(self.networks.insert(network.name.clone(), group)),
            Err(error) => tracing::warn!(network = network.name, %error, "the limits of a network do not hold"),
        }
    }

    fn take_unused_group(&mut self) -> Option<GroupId> {
        let used: HashSet<&String> = self.devices.values().filter_map(|device| device.network.as_ref()).collect();
        let unused = self.networks.keys().find(|name| !used.contains(name) && !self.coming.contains(*name)).cloned()?;
        self.networks.remove(&unused)
    }

    /// Adds a device; one that has left and was not forgotten is given its new configuration.
    pub(super) fn add_device(
        &mut self,
        now: Now,
        (device, table): (&Numbered, &Arc<PointTable>),
        priority: Option<Priority>,
        session: Rc<dyn DeviceSession>,
    ) -> Result<(), SpecError> {
        let urgency = urgency_of(priority);
        let spec = spec_of(device, Arc::clone(table), urgency, self.group_of(device));
        if self.devices.contains_key(&device.id) {
            let gone = self.poller.replace_device(now, device.id, spec)?;
            self.report(urgency).gone.extend(gone);
        } else {
            self.poller.add_device(now, device.id, spec)?;
        }
        self.traces.add(device.id, &device.config);
        let network = device.config.network.as_ref().map(|network| network.name.clone());
        let (topic, revision, session) = (device.config.topic.clone(), device.revision, Some(session));
        self.devices.insert(device.id, Device { topic, network, revision, urgency, session });
        Ok(())
    }

    fn group_of(&self, device: &Numbered) -> Option<GroupId> {
        device.config.network.as_ref().and_then(|network| self.networks.get(&network.name).copied())
    }

    /// Gives a device that keeps its connection another configuration.
    pub(super) fn replace_device(
        &mut self,
        now: Now,
        (device, table): (&Numbered, &Arc<PointTable>),
    ) -> Result<(), SpecError> {
        let group = self.group_of(device);
        let Some(known) = self.devices.get_mut(&device.id) else {
            return Err(SpecError::DeviceUnknown { device: device.id });
        };
        let urgency = known.urgency;
        let gone = self.poller.replace_device(now, device.id, spec_of(device, Arc::clone(table), urgency, group))?;
        known.revision = device.revision;
        known.network = device.config.network.as_ref().map(|network| network.name.clone());
        self.report(urgency).gone.extend(gone);
        self.work.notify_one();
        Ok(())
    }

    /// Devices leave: nothing is asked of them any more.
    pub(super) fn close_devices(&mut self, devices: &HashSet<DeviceId>) {
        for device in devices {
            if let Some(device) = self.devices.get_mut(device) {
                device.session = None;
            }
        }
    }

    /// A device has left. One that is not forgotten keeps its topics and its values, and is added again.
    pub(super) fn leave(&mut self, now: Now, device: DeviceId, is_forgotten: bool) {
        let urgency = self.urgency(device);
        if !is_forgotten {
            self.poller.handle_link(now, device, LinkState::Connecting);
            return self.tell_link(device, false);
        }
        let gone = self.poller.remove_device(now, device).unwrap_or_default();
        self.report(urgency).gone.extend(gone);
        self.traces.remove(now, device);
        self.devices.remove(&device);
        self.work.notify_one();
    }

    /// A device could not be started.
    pub(super) fn not_started(&mut self, now: Now, device: DeviceId, why: &str) {
        self.close_devices(&HashSet::from([device]));
        self.traces.note(now, device, Kind::Failed, &format!("start: {why}"));
        self.poller.handle_link(now, device, LinkState::Away { why: why.into() });
        self.tell_link(device, false);
    }

    /// Tells again whether a device can be commanded: it may have had no point before that can.
    pub(super) fn tell_link_again(&mut self, device: DeviceId) {
        let state = self.poller.health(device).map(|health| health.state);
        let is_up = state.is_some_and(|state| !matches!(state, DeviceState::Connecting | DeviceState::Away));
        self.tell_link(device, is_up);
    }

    /// A barrier is dropped once all that was told so far has been read.
    pub(super) fn tell_barrier(&mut self, barrier: &Barrier) {
        for urgency in Urgency::ALL {
            self.report(urgency).barriers.push(barrier.clone());
        }
        self.work.notify_one();
    }

    /// Another session takes the place of the one that a device has.
    pub(super) fn set_session(&mut self, device: DeviceId, session: Rc<dyn DeviceSession>) {
        if let Some(device) = self.devices.get_mut(&device) {
            device.session = Some(session);
        }
    }
}
