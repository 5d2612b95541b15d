//! The machine of one socket: a client, and the devices that are reached by it.

use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, SocketAddrV4};
use std::rc::Rc;
use tieline_bacnet::Peer;
use tieline_bacnet::bvlc::Carried;
use tieline_bacnet::client::{Client, ClientConfig, Counters, Event, RequestError, Target};
use tieline_bacnet::device::{Device, DeviceConfig, DeviceEvent};
use tieline_bacnet::dissect::{Sender, peer_of, peer_of_npdu};
use tieline_core::{Deadlines, Instant, Now};
use tieline_net::{DatagramMachine, Direction, Tap};

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
    /// None where a device was removed.
    members: Vec<Option<Place>>,
    /// The process that the next device's changes are told to: no two have had the same.
    next_process: u32,
    by_peer: HashMap<Peer, Vec<Member>>,
    /// The traced ones, by the address of the device or of its router.
    traced: HashMap<SocketAddrV4, Vec<Traced>>,
    /// The link gives taps its own messages.
    is_traced_by_link: bool,
    deadlines: Deadlines<Member>,
    events: VecDeque<SiteEvent>,
}

/// A device that is traced.
#[derive(Debug)]
struct Traced {
    member: Member,
    peer: Peer,
    tap: Rc<dyn Tap>,
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
            next_process: 1,
            by_peer: HashMap::new(),
            traced: HashMap::new(),
            is_traced_by_link: false,
            deadlines: Deadlines::default(),
            events: VecDeque::new(),
        }
    }

    /// One whose messages another link than BACnet/IP carries, which calls [`Site::tap_carried`] and [`Site::tap_all`].
    pub(super) fn traced_by_link(self) -> Self {
        Self { is_traced_by_link: true, ..self }
    }

    /// Whether a device is traced.
    pub(super) fn is_traced(&self) -> bool {
        !self.traced.is_empty()
    }

    /// Takes a message of the network layer that another link carried.
    pub(super) fn handle_carried(&mut self, now: Now, carried: Carried<'_>) {
        self.client.handle_carried(now, carried);
    }

    /// Adds a device. Its changes are told apart from those of others by its number.
    pub(super) fn add(&mut self, peer: Peer, instance: Option<u32>, config: DeviceConfig) -> Member {
        let member = Member(self.members.iter().position(Option::is_none).unwrap_or(self.members.len()));
        let process = self.next_process;
        self.next_process = process.checked_add(1).unwrap_or(1);
        let config = DeviceConfig { process, ..config };
        let place = Some(Place { device: Device::new(peer, instance, config), config, armed: None });
        match self.members.get_mut(member.0) {
            Some(free) => *free = place,
            None => self.members.push(place),
        }
        self.by_peer.entry(peer).or_default().push(member);
        member
    }

    /// Gives what goes to a device, and comes from it, to a tap too.
    pub(super) fn trace(&mut self, member: Member, tap: Rc<dyn Tap>) {
        let Some(peer) = self.device(member).map(Device::peer) else { return };
        self.traced.entry(peer.address).or_default().push(Traced { member, peer, tap });
    }

    /// Traces a datagram. What is of no device, such as a message of a router, is of all that are reached at its address.
    fn tap(&self, now: Now, direction: Direction, address: SocketAddrV4, datagram: &[u8]) {
        if self.traced.is_empty() || self.is_traced_by_link {
            return;
        }
        self.tap_peer(now, direction, (peer_of(sender_of(direction), address, datagram), address), datagram);
    }

    /// Traces what a link carries: a message of the network layer, and the one of the link in which it is.
    pub(super) fn tap_carried(
        &self,
        now: Now,
        direction: Direction,
        address: SocketAddrV4,
        (npdu, bytes): (&[u8], &[u8]),
    ) {
        self.tap_peer(now, direction, (peer_of_npdu(sender_of(direction), address, npdu), address), bytes);
    }

    /// Traces what is of no device.
    pub(super) fn tap_all(&self, now: Now, direction: Direction, bytes: &[u8]) {
        self.traced.values().flatten().for_each(|traced| traced.tap.moved(now, direction, bytes));
    }

    fn tap_peer(&self, now: Now, direction: Direction, (peer, address): (Option<Peer>, SocketAddrV4), bytes: &[u8]) {
        let here = self.traced.get(&peer.map_or(address, |peer| peer.address));
        for traced in here.into_iter().flatten().filter(|traced| peer.is_none_or(|peer| peer == traced.peer)) {
            traced.tap.moved(now, direction, bytes);
        }
    }

    fn end_trace(&mut self, member: Member, address: SocketAddrV4) {
        let Some(here) = self.traced.get_mut(&address) else { return };
        here.retain(|traced| traced.member != member);
        if here.is_empty() {
            self.traced.remove(&address);
        }
    }

    /// Removes a device. What it was asked is given up, unless another device has its address; its subscriptions are
    /// cancelled.
    pub(super) fn remove(&mut self, now: Now, member: Member) {
        let Some(place) = self.members.get_mut(member.0).and_then(Option::take) else { return };
        let peer = place.device.peer();
        self.end_trace(member, peer.address);
        let others = self.by_peer.entry(peer).or_default();
        others.retain(|other| *other != member);
        if others.is_empty() {
            self.by_peer.remove(&peer);
            self.client.forget(now, &peer);
        }
        if let Some(armed) = place.armed {
            self.deadlines.remove(armed, member);
        }
        self.events.retain(|event| match event {
            SiteEvent::Device(of, _) | SiteEvent::IAm(of, _) => *of != member,
            SiteEvent::Registered | SiteEvent::NotRegistered(_) => true,
        });
        place.device.leave(now, &mut self.client);
    }

    /// Whether there is no device.
    pub(super) fn is_empty(&self) -> bool {
        self.members.iter().all(Option::is_none)
    }

    /// Calls a device; none where it is not here.
    pub(super) fn call<T>(&mut self, member: Member, call: impl FnOnce(&mut Device, &mut Client) -> T) -> Option<T> {
        let place = self.members.get_mut(member.0)?.as_mut()?;
        let done = call(&mut place.device, &mut self.client);
        self.gather(member);
        Some(done)
    }

    /// Looks at a device.
    pub(super) fn device(&self, member: Member) -> Option<&Device> {
        self.members.get(member.0)?.as_ref().map(|place| &place.device)
    }

    /// Forgets all that a device was asked, what it said of itself, and its subscriptions.
    pub(super) fn reset(&mut self, now: Now, member: Member, instance: Option<u32>) {
        let Some(Some(place)) = self.members.get_mut(member.0) else { return };
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
        let Some(Some(place)) = self.members.get_mut(member.0) else { return };
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
        if let Event::IAm(_, i_am) = &event {
            let members = self.by_peer.get(&peer).into_iter().flatten();
            return self.events.extend(members.map(|member| SiteEvent::IAm(*member, i_am.device.instance())));
        }
        let (mut event, mut at) = (Some(event), 0);
        while let Some(given) = event.take() {
            let Some(member) = self.by_peer.get(&peer).and_then(|members| members.get(at)).copied() else { return };
            let Some(Some(place)) = self.members.get_mut(member.0) else { return };
            event = place.device.handle_event(now, &mut self.client, given);
            self.gather(member);
            at += 1;
        }
    }
}

const fn sender_of(direction: Direction) -> Sender {
    match direction {
        Direction::Sent => Sender::Client,
        Direction::Received => Sender::Device,
    }
}

/// What every link calls.
impl Site {
    /// Lets deadlines that have passed take effect.
    pub(super) fn handle_due(&mut self, now: Now) {
        self.client.handle_timeout(now);
        while let Some((_, member)) = self.deadlines.take_next(now.mono) {
            if let Some(Some(place)) = self.members.get_mut(member.0) {
                place.armed = None;
                place.device.handle_timeout(now, &mut self.client);
            }
            self.gather(member);
        }
    }

    /// When [`Site::handle_due`] must be called at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.client.timeout().into_iter().chain(self.deadlines.timeout()).min()
    }

    /// Appends the next datagram, and says where it goes.
    pub(super) fn next_datagram(&mut self, now: Now, out: &mut Vec<u8>) -> Option<SocketAddrV4> {
        self.client.poll_transmit(now, out)
    }

    /// The next thing that the owner must know.
    pub(super) fn next_event(&mut self, now: Now) -> Option<SiteEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let event = self.client.poll_event()?;
            self.dispatch(now, event);
        }
    }
}

impl DatagramMachine for Site {
    type Event = SiteEvent;
    type Address = SocketAddr;

    fn handle_datagram(&mut self, now: Now, from: SocketAddr, datagram: &[u8]) {
        if let SocketAddr::V4(from) = from {
            self.tap(now, Direction::Received, from, datagram);
            self.client.handle_datagram(now, from, datagram);
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        self.handle_due(now);
    }

    fn timeout(&self) -> Option<Instant> {
        self.deadline()
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<SocketAddr> {
        let start = out.len();
        let to = self.next_datagram(now, out)?;
        self.tap(now, Direction::Sent, to, out.get(start..).unwrap_or_default());
        Some(SocketAddr::V4(to))
    }

    fn poll_event(&mut self, now: Now) -> Option<SiteEvent> {
        self.next_event(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV4;
    use std::time::Duration;
    use tieline_bacnet::server::{Object, Server, ServerConfig};
    use tieline_bacnet::service::Write;
    use tieline_bacnet::{ObjectId, ObjectType, PropertyId, PropertyRef, Value};

    const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 47_808);

    fn address() -> SocketAddrV4 {
        "10.0.0.2:47808".parse().unwrap()
    }

    /// A site with two devices that are one, and that one; where it is silent there is none.
    struct World {
        now: Now,
        site: Site,
        server: Option<Server>,
    }

    impl World {
        fn new() -> Self {
            let mut site = Site::new(ClientConfig::default());
            for _ in 0..2 {
                site.add(Peer::direct(address()), Some(1), DeviceConfig::default());
            }
            let mut server = Server::new(ServerConfig::default());
            let object = Object::new(ObjectType::ANALOG_VALUE, 7, "value", Value::Real(1.0));
            server.add(object.writable().with_cov_increment(0.5));
            let now =
                Now { mono: Instant(1_000_000_000), utc: tieline_core::Timestamp::from_millis(1_800_000_000_000) };
            Self { now, site, server: Some(server) }
        }

        /// All events of so long a time.
        fn run(&mut self, time: Duration) -> Vec<SiteEvent> {
            let (until, mut events) = (self.now.mono + time, Vec::new());
            let SocketAddr::V4(client) = CLIENT else { panic!() };
            loop {
                let (mut out, mut is_quiet) = (Vec::new(), true);
                while self.site.poll_transmit(self.now, &mut out).is_some() {
                    is_quiet = false;
                    if let Some(server) = &mut self.server {
                        server.handle_datagram(self.now, client, &out);
                    }
                    out.clear();
                }
                if let Some(server) = &mut self.server {
                    server.handle_timeout(self.now);
                    while server.poll_transmit(self.now, &mut out).is_some() {
                        self.site.handle_datagram(self.now, SocketAddr::V4(address()), &out);
                        out.clear();
                    }
                }
                let before = events.len();
                events.extend(std::iter::from_fn(|| self.site.poll_event(self.now)));
                if !is_quiet || events.len() > before {
                    continue;
                }
                let server = self.server.as_ref().and_then(Server::timeout);
                let next = self.site.timeout().into_iter().chain(server).min().filter(|next| *next <= until);
                let Some(next) = next else {
                    self.now = self.now.later(until.since(self.now.mono));
                    return events;
                };
                self.now = self.now.later(next.since(self.now.mono));
                self.site.handle_timeout(self.now);
            }
        }

        fn call(&mut self, member: usize, call: impl FnOnce(Now, &mut Device, &mut Client)) {
            let now = self.now;
            self.site.call(Member(member), |device, client| call(now, device, client)).unwrap();
        }
    }

    fn present() -> PropertyRef {
        PropertyRef::new(ObjectId::new(ObjectType::ANALOG_VALUE, 7), PropertyId::PRESENT_VALUE)
    }

    #[test]
    fn devices_with_one_address_get_what_is_theirs() {
        let mut world = World::new();
        for member in 0..2 {
            world.call(member, |now, device, client| _ = device.learn(now, client).unwrap());
        }
        let learned = world.run(Duration::from_secs(1));
        let of = |event: &SiteEvent| match event {
            SiteEvent::Device(member, DeviceEvent::Learned(Ok(_))) => member.0,
            other => panic!("{other:?}"),
        };
        assert_eq!(learned.iter().map(of).collect::<Vec<_>>(), [0, 1]);
        world.call(1, |now, device, _| device.subscribe(now, present().object).unwrap());
        world.run(Duration::from_secs(1));
        world.call(0, |now, device, client| {
            let write = Write { reference: present(), value: Value::Real(9.0), priority: None };
            device.write(now, client, write, None).unwrap();
        });
        let events = world.run(Duration::from_secs(1));
        let told = events.iter().filter_map(|event| match event {
            SiteEvent::Device(member, DeviceEvent::Changed(_)) => Some((member.0, "changed")),
            SiteEvent::Device(member, DeviceEvent::Written { result: Ok(()), .. }) => Some((member.0, "written")),
            _ => None,
        });
        let mut told: Vec<_> = told.collect();
        told.sort_unstable();
        assert_eq!(told, [(0, "written"), (1, "changed")]);
    }

    #[test]
    fn a_device_that_is_forgotten_begins_anew() {
        let mut world = World::new();
        world.server = None;
        world.call(0, |now, device, client| _ = device.read(now, client, vec![present()]).unwrap());
        world.site.reset(world.now, Member(0), Some(1));
        // What it was asked before is nobody's.
        assert!(world.run(Duration::from_secs(20)).is_empty());
        world.call(0, |now, device, client| _ = device.read(now, client, vec![present()]).unwrap());
        let events = world.run(Duration::from_secs(20));
        assert!(matches!(events.as_slice(), [SiteEvent::Device(Member(0), DeviceEvent::Read { .. })]), "{events:?}");
        assert!(world.site.timeout().is_none());
    }

    #[test]
    fn a_device_that_leaves_takes_what_is_its_own() {
        let mut world = World::new();
        for member in 0..2 {
            world.call(member, |now, device, client| _ = device.learn(now, client).unwrap());
            world.call(member, |now, device, _| device.subscribe(now, present().object).unwrap());
        }
        world.run(Duration::from_secs(1));
        // What is out to the other one, at the same address, goes on.
        world.call(1, |now, device, client| _ = device.read(now, client, vec![present()]).unwrap());
        world.call(0, |now, device, client| _ = device.read(now, client, vec![present()]).unwrap());
        let subscriptions = |world: &World| world.server.as_ref().unwrap().subscriptions();
        assert_eq!(subscriptions(&world), 2);
        world.site.remove(world.now, Member(0));
        let events = world.run(Duration::from_secs(1));
        assert_eq!(subscriptions(&world), 1);
        assert!(matches!(events.as_slice(), [SiteEvent::Device(Member(1), DeviceEvent::Read { .. })]), "{events:?}");
        world.call(1, |now, device, client| {
            let write = Write { reference: present(), value: Value::Real(9.0), priority: None };
            device.write(now, client, write, None).unwrap();
        });
        let events = world.run(Duration::from_secs(1));
        let is_of_one = |event: &SiteEvent| matches!(event, SiteEvent::Device(Member(1), _));
        assert!(events.len() == 2 && events.iter().all(is_of_one), "{events:?}");
        // Its place is free for another, whose changes are told apart from those that were told before.
        let added = world.site.add(Peer::direct(address()), Some(1), DeviceConfig::default());
        assert_eq!((added, world.site.next_process), (Member(0), 4));
        world.call(0, |now, device, client| _ = device.learn(now, client).unwrap());
        assert_eq!(world.run(Duration::from_secs(1)).len(), 1);
        [0, 1].into_iter().for_each(|member| world.site.remove(world.now, Member(member)));
        assert!(world.site.is_empty());
        assert!(world.run(Duration::from_secs(60)).is_empty() && world.site.timeout().is_none());
        assert_eq!(subscriptions(&world), 0);
    }
}
