//! A device on its shard, and what its shard learns of it.

use super::port::{Port, PortEvent};
use crate::field::driver::{DeviceSession, Reporter};
use crate::field::lanes::Lane;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use tieline_core::{Command, DeviceId, Instant, Now, Refusal};
use tieline_net::{Endpoint, EndpointOwner};
use tieline_poll::PollClass;

/// The devices of an interface.
pub(super) type Reporters = Rc<RefCell<HashMap<DeviceId, Reporter>>>;

/// A device on its shard.
pub(super) struct GooseSession {
    pub(super) device: DeviceId,
    pub(super) endpoint: Endpoint<Port>,
}

impl DeviceSession for GooseSession {
    /// Nothing can be asked.
    fn poll(&self, _class: PollClass, _part: u16) -> bool {
        false
    }

    fn command(&self, command_id: u64, command: &Command, _until: Instant) -> Result<(), Refusal> {
        self.endpoint.with(|port, now| port.command(now, self.device, command_id, command))
    }

    /// Nothing is held.
    fn settle(&self, _lane: Lane, _fragments: u64) {}
}

/// Learns what comes by the socket of an interface.
pub(super) struct PortOwner {
    pub(super) reporters: Reporters,
}

impl EndpointOwner<Port> for PortOwner {
    fn event(&mut self, _endpoint: &Endpoint<Port>, now: Now, (device, event): (DeviceId, PortEvent)) {
        let reporter = self.reporters.borrow().get(&device).cloned();
        let Some(reporter) = reporter else { return };
        match event {
            PortEvent::Online => reporter.online(now),
            PortEvent::Away(why) => reporter.away(now, &why),
            PortEvent::Restarted => reporter.restarted(now),
            PortEvent::Alive => reporter.alive(now),
            PortEvent::Readings(all) => {
                let mut readings = reporter.readings(now);
                all.into_iter().for_each(|reading| readings.push(reading));
                drop(readings);
                reporter.batch_end(now, None);
            }
            PortEvent::Done(command_id) => reporter.command_done(command_id, Ok(())),
        }
    }
}
