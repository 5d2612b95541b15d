//! The devices of one shard.

use crate::device::{Device, Place};
use crate::gates::{Gates, Shared};
use crate::outbox::Outbox;
use crate::schedule::{NEVER, due_until, golden, on_grid, root_two};
use crate::{
    ConnectionHealth, DeviceHealth, DeviceSpec, GroupId, GroupSpec, Limits, PollClass, PollEvent, SpecError, Stats,
    Urgency,
};
use alloc::boxed::Box;
use alloc::vec::Vec;
use hashbrown::HashMap;
use tieline_core::{DeviceId, Histogram, Instant, Now, Reading, Topic, Update};

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
        let out = Outbox {
            updates_max: limits.updates_max,
            events_max: limits.events_max.max(1),
            gates: Gates::new(limits.first_round_gap),
            ..Outbox::default()
        };
        Self { limits, devices: HashMap::new(), points: 0, out }
    }

    /// Adds a group of devices, or changes its limits.
    ///
    /// # Errors
    /// It has no room for any poll, it was of another kind before, or there are too many.
    pub fn set_group(&mut self, now: Now, group: GroupId, spec: GroupSpec) -> Result<(), SpecError> {
        self.out.gates.set_group(now.mono, group, spec, self.limits.groups_max)
    }

    /// Adds a device, connecting, and publishes each of its topics once.
    ///
    /// # Errors
    /// The number is in use, a topic cannot be made, a group is not here, or a limit is reached.
    pub fn add_device(&mut self, now: Now, device: DeviceId, spec: DeviceSpec) -> Result<(), SpecError> {
        if self.devices.contains_key(&device) {
            return Err(SpecError::DeviceTwice { device });
        }
        let max = self.limits.devices_max;
        if self.devices.len() >= max {
            return Err(SpecError::DevicesFull { max });
        }
        spec.check()?;
        let shared = self.out.gates.shared(spec.collection.gateway, spec.collection.network)?;
        let place = self.place(device, shared);
        let new = Device::new(now, device, spec, place, &self.limits)?;
        self.points += new.point_count();
        self.devices.insert(device, Box::new(new));
        self.with(device, |device, out| device.start(now, out));
        Ok(())
    }

    /// Gives a device another spec. Its link, the values of points whose name and definition stay, and the schedule of
    /// polls whose interval stays are kept; only what changed is published. Where the device is read at once when it
    /// comes online, so are new points. Returns the topics that are gone, for their reader to remove; none of their
    /// updates follows.
    ///
    /// # Errors
    /// As of [`Poller::add_device`], or there is no such device; the device is as before then.
    pub fn replace_device(&mut self, now: Now, device: DeviceId, spec: DeviceSpec) -> Result<Vec<Topic>, SpecError> {
        let Some(known) = self.devices.get(&device) else { return Err(SpecError::DeviceUnknown { device }) };
        spec.check()?;
        let (was, points) = (known.place(), known.point_count());
        let shared = self.out.gates.shared(spec.collection.gateway, spec.collection.network)?;
        let place = if was.shared == shared { was } else { self.place(device, shared) };
        let count = spec.table.points().len();
        let mut gone = Ok(Vec::new());
        self.with(device, |device, out| gone = device.replace(now, spec, place, out));
        let gone = gone?;
        self.points = self.points - points + count;
        Ok(gone)
    }

    /// Forgets a device. Returns its topics, for their reader to remove or to keep with their last values; none of their
    /// updates follows. None when there was no such device.
    pub fn remove_device(&mut self, now: Now, device: DeviceId) -> Option<Vec<Topic>> {
        let mut gone = self.devices.remove(&device)?;
        self.points -= gone.point_count();
        gone.leave(now, &mut self.out);
        let topics = gone.all_topics().cloned().collect::<Vec<_>>();
        self.out.forget(&topics);
        Some(topics)
    }

    /// Says into how many requests a poll class of a device is split, once its driver knows: at first each is one. Parts
    /// are asked for one by one, spread evenly over the interval. Told before the first poll has ended, the other parts
    /// belong to the same first round. Zero counts as one.
    pub fn set_parts(&mut self, now: Now, device: DeviceId, class: PollClass, parts: u16) {
        self.with(device, |device, out| device.set_parts(now, class, parts, out));
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

    /// Takes raw values that belong together, such as all of one response, and their end: [`Poller::handle_reading`] for each
    /// and [`Poller::handle_batch_end`], but the device is found and its timers are looked at once.
    pub fn handle_batch(&mut self, now: Now, device: DeviceId, readings: impl IntoIterator<Item = Reading>) {
        self.with(device, |device, out| {
            readings.into_iter().for_each(|reading| device.reading(now, reading, out));
            device.batch_end(now, out);
        });
    }

    /// Takes the end of a poll, asked for by [`Poller::poll_request`] or made by the protocol itself. Returns whether it
    /// ends a round: each part of the class was polled, well or not.
    pub fn handle_poll_done(
        &mut self,
        now: Now,
        device: DeviceId,
        class: PollClass,
        part: u16,
        result: PollResult,
    ) -> bool {
        let mut is_round = false;
        self.with(device, |device, out| is_round = device.poll_done(now, class, part, result, out));
        is_round
    }

    /// Says in words what the poll that is about to fail failed of. What is longer than 256 bytes is cut.
    pub fn handle_error(&mut self, now: Now, device: DeviceId, text: &str) {
        self.with(device, |device, _| device.note_error(now, text));
    }

    /// Takes what each of several connections of a device is used for.
    pub fn handle_connections(&mut self, now: Now, device: DeviceId, connections: Box<[ConnectionHealth]>) {
        self.with(device, |device, _| device.note_connections(now, connections));
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
        self.out.gates.handle_timeout(now.mono);
        let until = due_until(now.mono, self.limits.grid);
        while let Some((at, id)) = self.out.heap.pop(until) {
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
        let devices = self.out.heap.first().map(|first| on_grid(first, self.limits.grid));
        devices.into_iter().chain(self.out.gates.timeout()).min()
    }

    /// The next poll to ask for: of which device, of which class, which part of it. The same part is not asked for again
    /// before [`Poller::handle_poll_done`], a change of the device's link, or [`Limits::poll_lost_after`].
    pub fn poll_request(&mut self, now: Now) -> Option<(DeviceId, PollClass, u16)> {
        while let Some(turn) = self.out.gates.next_ready() {
            let Some(device) = self.devices.get_mut(&turn.device) else {
                self.out.gates.unused(now.mono, turn.shared);
                continue;
            };
            let taken = device.take_poll(now, turn.shared);
            if taken.is_some() {
                self.out.gates.asked(now.mono, turn.shared);
                device.offer_poll(now, &mut self.out);
            } else {
                self.out.gates.unused(now.mono, turn.shared);
            }
            arm(turn.device, device, &mut self.out);
            if let Some((class, part)) = taken {
                self.out.counts.requests += 1;
                return Some((turn.device, class, part));
            }
        }
        None
    }

    /// A reading of a time that has passed as an update of its point's topic; the state of the point stays as it is. None of
    /// what is not here, or has no time.
    #[must_use]
    pub fn past_update(&self, device: DeviceId, reading: Reading) -> Option<Update> {
        self.devices.get(&device)?.past_update(reading)
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
        while let Some(id) = self.out.heartbeats.pop_front() {
            let heartbeat = self.devices.get_mut(&id).and_then(|device| device.take_heartbeat());
            if heartbeat.is_some() {
                return heartbeat;
            }
        }
        self.out.events.pop_front()
    }

    /// How a device does.
    #[must_use]
    pub fn health(&self, device: DeviceId) -> Option<DeviceHealth> {
        self.devices.get(&device).map(|device| device.health())
    }

    /// How long devices took to answer polls.
    #[must_use]
    pub const fn responses(&self) -> &Histogram {
        &self.out.responses
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
        while let Some((id, document)) = lane.documents.pop_front() {
            if let Some(update) = self.devices.get_mut(&id).and_then(|device| device.document(document)) {
                return Some(update);
            }
        }
        None
    }

    /// By which share of an interval the polls of a new device are shifted: those of each group are spread evenly.
    fn place(&mut self, device: DeviceId, shared: Shared) -> Place {
        let fraction = match self.out.gates.place(shared) {
            Some((group, member)) => golden(member).wrapping_add(root_two(group.into())),
            None => golden(device.0),
        };
        Place { shared, fraction }
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
