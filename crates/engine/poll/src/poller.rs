//! The devices of one shard.

use crate::device::Device;
use crate::outbox::Outbox;
use crate::schedule::NEVER;
use crate::{DeviceHealth, DeviceSpec, Limits, PollClass, PollEvent, SpecError, Stats, Urgency};
use alloc::boxed::Box;
use hashbrown::HashMap;
use tieline_core::{DeviceId, Instant, Now, Reading, Update};

/// Entries of the heap beyond twice the devices that are tolerated before skipped ones are swept out.
const HEAP_SLACK: usize = 64;

/// What a device's link does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Being established.
    Connecting,
    /// The device speaks.
    Online,
    /// The device cannot be reached.
    Away {
        /// In a few lowercase words.
        why: Box<str>,
    },
}

/// How a poll ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollResult {
    /// Answered in full.
    Ok,
    /// Not answered in time.
    Timeout,
    /// Refused, or broken off.
    Error,
}

/// Polls many devices and knows what their readings mean.
///
/// After any `handle_*`, drain [`Poller::poll_request`], [`Poller::poll_update`] and [`Poller::poll_event`], and call
/// [`Poller::handle_timeout`] when [`Poller::timeout`] has passed. Draining late loses no state, only what was between
/// (see the limits of this crate).
#[derive(Debug)]
pub struct Poller {
    limits: Limits,
    devices: HashMap<DeviceId, Box<Device>>,
    points: usize,
    out: Outbox,
}

impl Poller {
    /// Without devices.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let out = Outbox { updates_max: limits.updates_max, events_max: limits.events_max.max(1), ..Outbox::default() };
        Self { limits, devices: HashMap::new(), points: 0, out }
    }

    /// Adds a device, connecting, and publishes each of its topics once.
    ///
    /// # Errors
    /// The number is in use, a topic cannot be made, or a limit is reached.
    pub fn add_device(&mut self, now: Now, device: DeviceId, spec: DeviceSpec) -> Result<(), SpecError> {
        if self.devices.contains_key(&device) {
            return Err(SpecError::DeviceTwice { device });
        }
        let max = self.limits.devices_max;
        if self.devices.len() >= max {
            return Err(SpecError::DevicesFull { max });
        }
        let new = Device::new(now, device, spec, &self.limits)?;
        self.points += new.point_count();
        self.devices.insert(device, Box::new(new));
        self.with(device, |device, out| device.start(now, out));
        Ok(())
    }

    /// Forgets a device; its topics keep their last values. False when there was none.
    pub fn remove_device(&mut self, device: DeviceId) -> bool {
        let Some(gone) = self.devices.remove(&device) else { return false };
        self.points -= gone.point_count();
        for lane in &mut self.out.lanes {
            lane.sweeps.retain(|other| *other != device);
            lane.documents.retain(|(other, _)| *other != device);
        }
        self.out.ready.retain(|other| *other != device);
        true
    }

    /// Takes what a link does. All points of a device that is away are marked so.
    pub fn handle_link(&mut self, now: Now, device: DeviceId, link: LinkState) {
        self.with(device, |device, out| device.link(now, link, out));
    }

    /// Takes a raw value.
    pub fn handle_reading(&mut self, now: Now, device: DeviceId, reading: Reading) {
        self.with(device, |device, out| device.reading(now, reading, out));
    }

    /// Takes the end of readings that belong together, such as a response fragment: the moment to publish all points.
    pub fn handle_batch_end(&mut self, now: Now, device: DeviceId) {
        self.with(device, |device, out| device.batch_end(now, out));
    }

    /// Takes the end of a poll, asked for by [`Poller::poll_request`] or made by the protocol itself.
    pub fn handle_poll_done(&mut self, now: Now, device: DeviceId, class: PollClass, result: PollResult) {
        self.with(device, |device, out| device.poll_done(now, class, result, out));
    }

    /// Takes that a device sent something its protocol does not allow.
    pub fn handle_garbage(&mut self, now: Now, device: DeviceId) {
        self.with(device, |device, out| device.garbage(now, out));
    }

    /// Takes that authentication between the node and a device failed.
    pub fn handle_authentication_failure(&mut self, device: DeviceId) {
        self.with(device, |device, _| device.note_authentication_failure());
    }

    /// Takes that a device has answered, with nothing to read.
    pub fn handle_alive(&mut self, now: Now, device: DeviceId) {
        self.with(device, |device, _| device.alive(now));
    }

    /// Takes that a device says it restarted.
    pub fn handle_restart(&mut self, now: Now, device: DeviceId) {
        self.with(device, |device, out| device.restarted(now, out));
    }

    /// Lets deadlines that have passed take effect.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some((at, id)) = self.out.heap.pop(now.mono) {
            let Some(device) = self.devices.get_mut(&id) else { continue };
            if device.armed == at {
                device.armed = NEVER;
                device.timeout(now, &mut self.out);
                arm(id, device, &mut self.out);
            }
        }
    }

    /// When [`Poller::handle_timeout`] must be called at the latest; at times earlier than anything happens.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.out.heap.first()
    }

    /// The next poll to ask for. The device is not asked again before [`Poller::handle_poll_done`], a change of its
    /// link, or [`Limits::poll_lost_after`].
    pub fn poll_request(&mut self, now: Now) -> Option<(DeviceId, PollClass)> {
        while let Some(id) = self.out.ready.pop_front() {
            let Some(device) = self.devices.get_mut(&id) else { continue };
            if let Some(class) = device.take_poll(now) {
                arm(id, device, &mut self.out);
                self.out.counts.requests += 1;
                return Some((id, class));
            }
        }
        None
    }

    /// The next update of the most urgent devices that have one.
    pub fn poll_update(&mut self) -> Option<Update> {
        Urgency::ALL.into_iter().find_map(|urgency| self.poll_update_of(urgency))
    }

    /// The next update of devices of one urgency: readings in their order, then changes of quality, then documents of
    /// whole devices.
    pub fn poll_update_of(&mut self, urgency: Urgency) -> Option<Update> {
        let update = self.next_update(urgency)?;
        self.out.counts.updates += 1;
        Some(update)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<PollEvent> {
        self.out.events.pop_front()
    }

    /// How a device does.
    #[must_use]
    pub fn health(&self, device: DeviceId) -> Option<DeviceHealth> {
        self.devices.get(&device).map(|device| device.health())
    }

    /// Sizes and counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            devices: self.devices.len(),
            points: self.points,
            timers: self.out.heap.len(),
            updates_waiting: self.out.updates_waiting(),
            ..self.out.counts
        }
    }

    fn next_update(&mut self, urgency: Urgency) -> Option<Update> {
        let lane = self.out.lane(urgency);
        if let Some(update) = lane.updates.pop_front() {
            return Some(update);
        }
        while let Some(id) = lane.sweeps.front() {
            if let Some(update) = self.devices.get_mut(id).and_then(|device| device.next_waiting()) {
                return Some(update);
            }
            lane.sweeps.pop_front();
        }
        let (id, document) = lane.documents.pop_front()?;
        self.devices.get_mut(&id).map(|device| device.document(document))
    }

    fn with(&mut self, id: DeviceId, act: impl FnOnce(&mut Device, &mut Outbox)) {
        let Some(device) = self.devices.get_mut(&id) else {
            self.out.counts.unknown_device += 1;
            return;
        };
        act(device, &mut self.out);
        arm(id, device, &mut self.out);
        if self.out.heap.len() > 2 * self.devices.len() + HEAP_SLACK {
            let devices = &self.devices;
            self.out.heap.retain(|at, id| devices.get(&id).is_some_and(|device| device.armed == at));
        }
    }
}

fn arm(id: DeviceId, device: &mut Device, out: &mut Outbox) {
    let next = device.next_timeout();
    if next < device.armed {
        device.armed = next;
        out.heap.push(next, id);
    }
}
