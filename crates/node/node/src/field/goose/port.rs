//! The machine of one interface: subscriptions and control blocks of the node, found by the references of their control blocks.

use super::translate::PointIndex;
use crate::config::{DeviceConfig, GooseConfig, GooseRole, PointConfig};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Command, Deadlines, DeviceId, Instant, Now, Reading, Refusal};
use tieline_goose::{
    FrameHead, GooseError, MacAddress, Message, Misfit, Publisher, PublisherConfig, PublisherError, Received,
    Subscriber, TimeQuality, UtcTime,
};
use tieline_net::{DatagramMachine, Direction, Tap};

/// What the owner of an interface learns of a device.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PortEvent {
    /// Messages come, or are sent.
    Online,
    /// They do not, or are not what is expected.
    Away(String),
    /// The publisher restarted.
    Restarted,
    /// It repeats itself.
    Alive,
    /// What points have.
    Readings(Vec<Reading>),
    /// A command is on its way to the network.
    Done(u64),
}

/// The devices of an interface.
#[derive(Debug, Default)]
pub(super) struct Port {
    members: HashMap<DeviceId, Placed>,
    /// Subscriptions.
    by_reference: HashMap<Box<str>, Vec<DeviceId>>,
    /// Control blocks of the node.
    published: Vec<DeviceId>,
    deadlines: Deadlines<DeviceId>,
    events: VecDeque<(DeviceId, PortEvent)>,
    pub(super) counters: PortCounters,
}

/// What an interface has counted besides its devices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PortCounters {
    /// Frames whose control block no device has.
    pub(super) unknown: u64,
    /// Frames that cannot be read.
    pub(super) malformed: u64,
}

#[derive(Debug)]
struct Placed {
    member: Member,
    armed: Option<Instant>,
    tap: Option<Rc<dyn Tap>>,
}

/// A device.
#[derive(Debug)]
pub(super) enum Member {
    /// A control block of another device.
    Read(Box<Subscription>),
    /// One of the node.
    Written(Box<Publication>),
}

/// A subscription with its points.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) subscriber: Subscriber,
    pub(super) index: PointIndex,
    /// Until when the first message may take.
    first: Option<Instant>,
    first_message: Duration,
    /// What was told last that the messages are not.
    misfit: Option<Misfit>,
    /// How often all values are told that do not change.
    refresh_every: Option<Duration>,
    refreshed: Instant,
}

/// A control block of the node with its points.
#[derive(Debug)]
pub(super) struct Publication {
    pub(super) publisher: Publisher,
    index: PointIndex,
    time_quality: TimeQuality,
}

impl Member {
    pub(super) fn new(
        now: Now,
        config: &DeviceConfig,
        goose: &GooseConfig,
        card: MacAddress,
    ) -> Result<Self, PublisherError> {
        let index = PointIndex::new(Arc::clone(&config.points));
        match &goose.role {
            GooseRole::Subscribe { subscriber, first_message } => Ok(Self::Read(Box::new(Subscription {
                subscriber: Subscriber::new(subscriber.clone()),
                index,
                first: Some(now.mono + *first_message),
                first_message: *first_message,
                misfit: None,
                refresh_every: config.stale_after.map(|after| after / 2),
                refreshed: now.mono,
            }))),
            GooseRole::Publish { publisher, values } => {
                let PublisherConfig { time_quality, .. } = publisher;
                let frame = FrameHead { source: card, ..publisher.frame };
                let publisher = Publisher::new(PublisherConfig { frame, ..publisher.clone() }, values.clone())?;
                let time_quality = *time_quality;
                Ok(Self::Written(Box::new(Publication { publisher, index, time_quality })))
            }
        }
    }

    /// Whether it is a subscription.
    pub(super) const fn is_read(&self) -> bool {
        matches!(self, Self::Read(_))
    }

    fn timeout(&self) -> Option<Instant> {
        match self {
            Self::Read(subscription) => subscription.subscriber.timeout().or(subscription.first),
            Self::Written(publication) => publication.publisher.timeout(),
        }
    }
}

impl Port {
    pub(super) fn add(&mut self, now: Now, device: DeviceId, mut member: Member, tap: Option<Rc<dyn Tap>>) {
        match &mut member {
            Member::Read(subscription) => {
                let reference = subscription.subscriber.config().gocb_ref.clone();
                self.by_reference.entry(reference).or_default().push(device);
            }
            Member::Written(publication) => {
                publication.publisher.start(now);
                self.published.push(device);
                let readings = publication.index.published(now, publication.publisher.values());
                self.events.extend([(device, PortEvent::Online), (device, PortEvent::Readings(readings))]);
            }
        }
        self.members.insert(device, Placed { member, armed: None, tap });
        self.arm(device);
    }

    pub(super) fn remove(&mut self, device: DeviceId) -> Option<Member> {
        let Placed { member, armed, .. } = self.members.remove(&device)?;
        if let Some(armed) = armed {
            self.deadlines.remove(armed, device);
        }
        self.published.retain(|known| *known != device);
        self.by_reference.retain(|_, devices| {
            devices.retain(|known| *known != device);
            !devices.is_empty()
        });
        self.events.retain(|(of, _)| *of != device);
        Some(member)
    }

    /// Every device, to be counted.
    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values().map(|placed| &placed.member)
    }

    /// A subscription has other points from here on: all are read with its next message.
    pub(super) fn set_points(
        &mut self,
        now: Now,
        device: DeviceId,
        points: &Arc<[PointConfig]>,
        stale_after: Option<Duration>,
    ) {
        let Some(placed) = self.members.get_mut(&device) else { return };
        if let Member::Read(subscription) = &mut placed.member {
            subscription.refresh_every = stale_after.map(|after| after / 2);
            if subscription.index.set_points(Arc::clone(points)) {
                subscription.refreshed = now.mono;
            }
        }
    }

    /// Gives a published point another value.
    pub(super) fn command(
        &mut self,
        now: Now,
        device: DeviceId,
        command_id: u64,
        command: &Command,
    ) -> Result<(), Refusal> {
        let member = self.members.get_mut(&device).map(|placed| &mut placed.member);
        let Some(Member::Written(publication)) = member else {
            return Err(Refusal::new("not_writable", "the points of a subscription are read only".to_owned()));
        };
        let Publication { publisher, index, time_quality } = &mut **publication;
        let changes = index
            .changes(UtcTime::new(now.utc, *time_quality), command)
            .map_err(|misfit| Refusal::new("out_of_range", misfit))?;
        publisher.set(now, &changes).map_err(|error| {
            let reason = if error == PublisherError::Full { "busy" } else { "out_of_range" };
            Refusal::new(reason, error.to_string())
        })?;
        let reading = index.published_point(now, command.point, publisher.values());
        self.events.push_back((device, PortEvent::Readings(reading.into_iter().collect())));
        self.events.push_back((device, PortEvent::Done(command_id)));
        self.arm(device);
        Ok(())
    }

    fn arm(&mut self, device: DeviceId) {
        let Some(placed) = self.members.get_mut(&device) else { return };
        let next = placed.member.timeout();
        if next != placed.armed {
            if let Some(armed) = placed.armed {
                self.deadlines.remove(armed, device);
            }
            if let Some(next) = next {
                self.deadlines.add(next, device);
            }
            placed.armed = next;
        }
    }

    fn take(&mut self, now: Now, message: &Message<'_>, frame: &[u8]) {
        let Some(devices) = self.by_reference.get(message.pdu.head.gocb_ref) else {
            self.counters.unknown += 1;
            return;
        };
        for device in devices.clone() {
            let Some(placed) = self.members.get_mut(&device) else { continue };
            if let Some(tap) = &placed.tap {
                tap.moved(now, Direction::Received, frame);
            }
            if let Member::Read(subscription) = &mut placed.member {
                subscription.take(now, message, |event| self.events.push_back((device, event)));
            }
            self.arm(device);
        }
    }
}

impl Subscription {
    fn take(&mut self, now: Now, message: &Message<'_>, mut tell: impl FnMut(PortEvent)) {
        let (was_alive, is_waiting) = (self.subscriber.is_alive(), self.first.is_some());
        let received = self.subscriber.receive(now.mono, message);
        let is_all = match received {
            Received::Dropped => return,
            Received::Refused(misfit) => {
                self.first = None;
                if self.misfit != Some(misfit) || was_alive || is_waiting {
                    self.misfit = Some(misfit);
                    tell(PortEvent::Away(format!("the messages are not those that are expected: {misfit}")));
                }
                return;
            }
            Received::First | Received::Reconfigured { .. } | Received::Restarted => true,
            Received::Changed { .. } | Received::Repeated => false,
        };
        (self.first, self.misfit) = (None, None);
        match received {
            Received::First => tell(PortEvent::Online),
            Received::Restarted => tell(PortEvent::Restarted),
            Received::Reconfigured { from } => {
                let (block, to) = (message.pdu.head.gocb_ref, message.pdu.head.conf_rev);
                tracing::warn!(block, from, to, "the publisher has another confRev");
            }
            Received::Changed { .. } | Received::Repeated | Received::Dropped | Received::Refused(_) => {}
        }
        let is_due = self.refresh_every.is_some_and(|every| now.mono.since(self.refreshed) >= every);
        let is_unread = self.index.is_unread();
        if received == Received::Repeated && !is_due && !is_unread {
            return tell(PortEvent::Alive);
        }
        let readings = self.index.readings(message, is_all || is_due || is_unread);
        if is_all || is_due || is_unread {
            self.refreshed = now.mono;
        }
        tell(PortEvent::Readings(readings));
    }

    /// Takes that a deadline has passed.
    fn expire(&mut self, now: Instant) -> Option<String> {
        if self.subscriber.handle_timeout(now) {
            return Some("no message came within the time allowed to live of the last one".to_owned());
        }
        self.first.take_if(|first| *first <= now)?;
        Some(format!("no message has come within {:?}", self.first_message))
    }
}

impl DatagramMachine for Port {
    type Event = (DeviceId, PortEvent);
    type Address = ();

    fn handle_datagram(&mut self, now: Now, (): (), frame: &[u8]) {
        match Message::parse(frame) {
            Ok(message) => self.take(now, &message, frame),
            // The system gives frames of other types to no socket of ours.
            Err(GooseError::Frame(_) | GooseError::Pdu(_)) => self.counters.malformed += 1,
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        while let Some((_, device)) = self.deadlines.take_next(now.mono) {
            let Some(placed) = self.members.get_mut(&device) else { continue };
            placed.armed = None;
            match &mut placed.member {
                Member::Read(subscription) => {
                    let why = subscription.expire(now.mono);
                    self.events.extend(why.map(|why| (device, PortEvent::Away(why))));
                    self.arm(device);
                }
                // It is armed again with what it sends.
                Member::Written(_) => {}
            }
        }
    }

    fn timeout(&self) -> Option<Instant> {
        self.deadlines.timeout()
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<()> {
        for device in self.published.clone() {
            let Some(placed) = self.members.get_mut(&device) else { continue };
            let Member::Written(publication) = &mut placed.member else { continue };
            if publication.publisher.poll_transmit(now, out) {
                if let Some(tap) = &placed.tap {
                    tap.moved(now, Direction::Sent, out);
                }
                self.arm(device);
                return Some(());
            }
        }
        None
    }

    fn poll_event(&mut self, _now: Now) -> Option<Self::Event> {
        self.events.pop_front()
    }
}

#[cfg(test)]
mod tests;
