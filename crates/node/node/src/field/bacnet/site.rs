//! The machine of one socket: a client, and the devices that are reached by it.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use tieline_bacnet::Peer;
use tieline_bacnet::client::{Client, ClientConfig, Counters, Event, RequestError, Target};
use tieline_bacnet::device::{Device, DeviceConfig, DeviceEvent};
use tieline_core::{Deadlines, Instant, Now};
use tieline_net::DatagramMachine;

/// A device of a socket, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Member(pub(super) usize);

/// What the owner of a socket learns.
#[derive(Debug)]
pub(super) enum SiteEvent {
    /// Of a device.
    Device(Member, DeviceEvent),
    /// A device said who it is: its instance.
    IAm(Member, u32),
    /// The broadcast management device took the registration.
    Registered,
    /// It did not, or is silent: its result code.
    NotRegistered(Option<u16>),
}

#[derive(Debug)]
pub(super) struct Site {
    client: Client,
    members: Vec<Place>,
    by_peer: HashMap<Peer, Vec<Member>>,
    deadlines: Deadlines<Member>,
    events: VecDeque<SiteEvent>,
}

#[derive(Debug)]
struct Place {
    device: Device,
    config: DeviceConfig,
    armed: Option<Instant>,
}

impl Site {
    pub(super) fn new(config: ClientConfig) -> Self {
        Self {
            client: Client::new(config),
            members: Vec::new(),
            by_peer: HashMap::new(),
            deadlines: Deadlines::default(),
            events: VecDeque::new(),
        }
    }

    /// Adds a device. Its changes are told apart from those of others by its number.
    pub(super) fn add(&mut self, peer: Peer, instance: Option<u32>, config: DeviceConfig) -> Member {
        let member = Member(self.members.len());
        let process = u32::try_from(member.0).unwrap_or(u32::MAX).saturating_add(1);
        let config = DeviceConfig { process, ..config };
        self.members.push(Place { device: Device::new(peer, instance, config), config, armed: None });
        self.by_peer.entry(peer).or_default().push(member);
        member
    }

    /// Calls a device; none where it is not here.
    pub(super) fn call<T>(&mut self, member: Member, call: impl FnOnce(&mut Device, &mut Client) -> T) -> Option<T> {
        let place = self.members.get_mut(member.0)?;
        let done = call(&mut place.device, &mut self.client);
        self.gather(member);
        Some(done)
    }

    /// Looks at a device.
    pub(super) fn device(&self, member: Member) -> Option<&Device> {
        self.members.get(member.0).map(|place| &place.device)
    }

    /// Forgets all that a device was asked, what it said of itself, and its subscriptions.
    pub(super) fn reset(&mut self, now: Now, member: Member, instance: Option<u32>) {
        let Some(place) = self.members.get_mut(member.0) else { return };
        let peer = place.device.peer();
        self.client.forget(now, &peer);
        place.device = Device::new(peer, instance, place.config);
        self.gather(member);
    }

    /// Asks a device who it is.
    pub(super) fn ask_who(&mut self, member: Member) -> Result<(), RequestError> {
        let Some(target) = self.target(member) else { return Ok(()) };
        self.client.discover(target, 0, tieline_bacnet::INSTANCE_ANY, u32::MAX)
    }

    /// Sets the clock of a device.
    pub(super) fn set_time(
        &mut self,
        now: Now,
        member: Member,
        local_offset_minutes: Option<i16>,
    ) -> Result<(), RequestError> {
        let Some(target) = self.target(member) else { return Ok(()) };
        self.client.set_time(now, target, local_offset_minutes)
    }

    pub(super) const fn counters(&self) -> Counters {
        self.client.counters()
    }

    fn target(&self, member: Member) -> Option<Target> {
        self.device(member).map(|device| Target::Peer(device.peer()))
    }

    /// Takes what a device tells, and its next deadline.
    fn gather(&mut self, member: Member) {
        let Some(place) = self.members.get_mut(member.0) else { return };
        while let Some(event) = place.device.poll_event() {
            self.events.push_back(SiteEvent::Device(member, event));
        }
        let timeout = place.device.timeout();
        if timeout != place.armed {
            if let Some(armed) = place.armed {
                self.deadlines.remove(armed, member);
            }
            if let Some(timeout) = timeout {
                self.deadlines.add(timeout, member);
            }
            place.armed = timeout;
        }
    }

    /// Gives an event of the client to the devices that it may be of.
    fn dispatch(&mut self, now: Now, event: Event) {
        let peer = match &event {
            Event::Answer { peer, .. } | Event::Changed(peer, _) | Event::IAm(peer, _) => *peer,
            Event::Registered => return self.events.push_back(SiteEvent::Registered),
            Event::NotRegistered(code) => return self.events.push_back(SiteEvent::NotRegistered(*code)),
            Event::IHave(..) | Event::Router(..) | Event::DiscoverySent(_) | Event::TimeSet(..) => return,
        };
        let members = self.by_peer.get(&peer).cloned().unwrap_or_default();
        if let Event::IAm(_, i_am) = &event {
            let told = members.into_iter().map(|member| SiteEvent::IAm(member, i_am.device.instance()));
            return self.events.extend(told);
        }
        let mut event = Some(event);
        for member in members {
            let (Some(given), Some(place)) = (event.take(), self.members.get_mut(member.0)) else { return };
            event = place.device.handle_event(now, &mut self.client, given);
            self.gather(member);
        }
    }
}

impl DatagramMachine for Site {
    type Event = SiteEvent;

    fn handle_datagram(&mut self, now: Now, from: SocketAddr, datagram: &[u8]) {
        if let SocketAddr::V4(from) = from {
            self.client.handle_datagram(now, from, datagram);
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        self.client.handle_timeout(now);
        while let Some((_, member)) = self.deadlines.take_next(now.mono) {
            if let Some(place) = self.members.get_mut(member.0) {
                place.armed = None;
                place.device.handle_timeout(now, &mut self.client);
            }
            self.gather(member);
        }
    }

    fn timeout(&self) -> Option<Instant> {
        self.client.timeout().into_iter().chain(self.deadlines.timeout()).min()
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<SocketAddr> {
        self.client.poll_transmit(now, out).map(SocketAddr::V4)
    }

    fn poll_event(&mut self, now: Now) -> Option<SiteEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let event = self.client.poll_event()?;
            self.dispatch(now, event);
        }
    }
}
