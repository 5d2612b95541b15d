//! The machine of a discovery: Who-Is at a pace, then every device that answers is read. Nothing is ever written.
//!
//! ```text
//! Targets ─ Who-Is, never more than 10 a second ─▶ I-Am ─▶ waiting ─▶ Reading (some together) ─▶ Found
//!        └ addresses of which nothing is heard: asked for their object identifier ─┘
//! ```

use super::heard::Heard;
use super::reading::{Found, Reading, Step};
use super::search::Search;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use tieline_bacnet::Peer;
use tieline_bacnet::client::{Client, ClientConfig, Event, Target};
use tieline_bacnet::device::DeviceEvent;
use tieline_bacnet::service::IAm;
use tieline_core::{Instant, Now};
use tieline_net::DatagramMachine;

/// Devices of one discovery at most.
const DEVICES_MAX: usize = 65_536;

/// What is looked for, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The client's settings.
    pub client: ClientConfig,
    /// Who is asked, in this order.
    pub targets: Vec<Target>,
    /// The lowest and the highest instance.
    pub instances: (u32, u32),
    /// Instances of one Who-Is that is a broadcast.
    pub width: u32,
    /// How long to wait after the last Who-Is.
    pub wait: Duration,
    /// Devices that are read together.
    pub together: usize,
    /// Whether objects are read.
    pub reads_objects: bool,
}

/// What the owner of a survey learns.
#[derive(Debug)]
pub enum SurveyEvent {
    /// A device has been read, as far as it can be.
    Found(Box<Found>),
    /// A warning.
    Warning(String),
    /// There is nothing more; why it came to an early end.
    Done(Option<String>),
}

/// See the head of the module.
#[derive(Debug)]
pub struct Survey {
    plan: Plan,
    client: Client,
    search: Search,
    heard: Heard,
    waiting: VecDeque<Reading>,
    active: BTreeMap<Peer, Reading>,
    ended: usize,
    events: VecDeque<SurveyEvent>,
}

impl Survey {
    /// A survey that begins with its first deadline.
    pub fn new(plan: Plan) -> Self {
        Self {
            client: Client::new(plan.client.clone()),
            search: Search::new(&plan),
            heard: Heard::new(plan.instances),
            waiting: VecDeque::new(),
            active: BTreeMap::new(),
            ended: 0,
            events: VecDeque::new(),
            plan,
        }
    }

    /// How far it is, for people.
    pub fn progress(&self) -> String {
        let (heard, ended) = (self.heard.len(), self.ended);
        let objects: usize = self.active.values().map(Reading::objects_left).sum();
        let search = self.search.progress(self.client.counters().who_is);
        let what = search.unwrap_or_else(|| format!("{objects} objects to read"));
        format!("{what}, {heard} devices, {ended} of them read ")
    }

    /// Who-Is that were sent.
    pub fn who_is(&self) -> u64 {
        self.client.counters().who_is
    }

    /// Gives the client what it is to ask next.
    fn ask(&mut self, now: Now) {
        if let Err(error) = self.search.ask(now, &mut self.client) {
            self.end(Some(error.to_string()));
        }
    }

    fn end(&mut self, why: Option<String>) {
        if self.search.end() {
            self.events.push_back(SurveyEvent::Done(why));
        }
    }

    fn take(&mut self, now: Now, event: Event) {
        match event {
            Event::IAm(peer, i_am) => self.heard_of(peer, &i_am),
            Event::DiscoverySent(_) => {
                self.search.sent();
                self.ask(now);
            }
            Event::Registered => {
                if self.search.registered() {
                    self.ask(now);
                }
            }
            Event::NotRegistered(code) if self.search.is_registering() => {
                let why = code.map_or_else(|| "no answer".to_owned(), |code| format!("result {code:#06x}"));
                self.end(Some(format!("the broadcast management device does not take the registration: {why}")));
            }
            Event::Answer { peer, .. } => {
                if let Some(mut reading) = self.active.remove(&peer) {
                    reading.device.handle_event(now, &mut self.client, event);
                    self.go_on(now, reading);
                }
            }
            Event::NotRegistered(_)
            | Event::IHave(..)
            | Event::Changed(..)
            | Event::Router(..)
            | Event::TimeSet(..) => {}
        }
    }

    fn heard_of(&mut self, peer: Peer, i_am: &IAm) {
        let instance = i_am.device.instance();
        if !self.heard.is_new(peer, instance) || self.search.is_done() {
            return;
        }
        if self.heard.len() >= DEVICES_MAX {
            return self.end(Some(format!("more than {DEVICES_MAX} devices")));
        }
        self.add(peer, instance);
        match self.active.get_mut(&peer) {
            // It is being asked already.
            Some(reading) => reading.found.is_heard = true,
            None => self.waiting.push_back(Reading::new(peer, Some(instance), Some(i_am.vendor))),
        }
    }

    fn add(&mut self, peer: Peer, instance: u32) {
        self.events.extend(self.heard.add(peer, instance).map(SurveyEvent::Warning));
    }

    /// Lets devices begin that wait.
    fn begin(&mut self, now: Now) {
        while self.active.len() < self.plan.together
            && let Some(mut reading) = self.waiting.pop_front()
        {
            if !reading.found.is_heard && self.heard.has(reading.found.peer) {
                continue;
            }
            match reading.device.learn(now, &mut self.client) {
                Ok(_) => self.go_on(now, reading),
                Err(error) => self.finish(Found { error: Some(error.to_string()), ..reading.found }),
            }
        }
    }

    /// Takes what a device tells, and asks what is next.
    fn go_on(&mut self, now: Now, mut reading: Reading) {
        while let Some(event) = reading.device.poll_event() {
            let step = match event {
                DeviceEvent::Learned(Ok(profile)) => {
                    if !reading.found.is_heard {
                        if !self.heard.is_new_instance(profile.instance) {
                            return;
                        }
                        self.add(reading.found.peer, profile.instance);
                    }
                    reading.learned(profile);
                    if self.plan.reads_objects { reading.list(now, &mut self.client) } else { Step::Done }
                }
                // Nobody is there.
                DeviceEvent::Learned(Err(_)) if !reading.found.is_heard => return,
                DeviceEvent::Learned(Err(failure)) => reading.failed(&failure),
                DeviceEvent::ObjectList { objects: Ok(objects), .. } => {
                    reading.listed(objects);
                    reading.describe(now, &mut self.client)
                }
                DeviceEvent::ObjectList { objects: Err(failure), .. } => reading.failed(&failure),
                DeviceEvent::Read { results, .. } => match reading.described(&results) {
                    Ok(()) => reading.describe(now, &mut self.client),
                    Err(failure) => reading.failed(&failure),
                },
                DeviceEvent::Written { .. }
                | DeviceEvent::Log { .. }
                | DeviceEvent::Subscribed(_)
                | DeviceEvent::NotSubscribed(..)
                | DeviceEvent::Changed(_) => Step::Goes,
            };
            if step == Step::Done {
                return self.finish(reading.found);
            }
        }
        self.active.insert(reading.found.peer, reading);
    }

    fn finish(&mut self, found: Found) {
        self.ended += 1;
        self.events.push_back(SurveyEvent::Found(Box::new(found)));
    }

    /// What time brings about.
    fn advance(&mut self, now: Now) {
        self.ask(now);
        // What is heard from behind a router says nothing of the router itself.
        let silent = self.search.waited(now).into_iter().filter(|peer| !self.heard.has(*peer));
        self.waiting.extend(silent.map(|peer| Reading::new(peer, None, None)));
        self.begin(now);
        if self.search.is_over() && self.active.is_empty() && self.waiting.is_empty() {
            self.end(None);
        }
    }
}

impl DatagramMachine for Survey {
    type Event = SurveyEvent;
    type Address = SocketAddr;

    fn handle_datagram(&mut self, now: Now, from: SocketAddr, datagram: &[u8]) {
        if let SocketAddr::V4(from) = from {
            self.client.handle_datagram(now, from, datagram);
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        self.client.handle_timeout(now);
        for reading in self.active.values_mut() {
            reading.device.handle_timeout(now, &mut self.client);
        }
        self.advance(now);
    }

    fn timeout(&self) -> Option<Instant> {
        let devices = self.active.values().filter_map(|reading| reading.device.timeout());
        devices.chain(self.search.timeout()).chain(self.client.timeout()).min()
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<SocketAddr> {
        self.client.poll_transmit(now, out).map(SocketAddr::V4)
    }

    fn poll_event(&mut self, now: Now) -> Option<SurveyEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let Some(event) = self.client.poll_event() else {
                self.advance(now);
                return self.events.pop_front();
            };
            self.take(now, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV4;
    use tieline_bacnet::apdu::Apdu;
    use tieline_bacnet::bvlc::Bvlc;
    use tieline_bacnet::names::{ConfirmedService, UnconfirmedService};
    use tieline_bacnet::npdu::{Body, Npdu};
    use tieline_bacnet::server::{Object as Served, Server, ServerConfig};
    use tieline_bacnet::{ObjectType, Unit, Value};
    use tieline_core::Timestamp;

    const BROADCAST: &str = "10.0.0.255:47808";
    const OWN: &str = "10.0.0.200:47808";

    fn address(text: &str) -> SocketAddrV4 {
        text.parse().unwrap()
    }

    fn server(instance: u32) -> Server {
        let mut server = Server::new(ServerConfig { instance, ..ServerConfig::default() });
        let supply = Served::new(ObjectType::ANALOG_VALUE, 1, "supply", Value::Real(20.0));
        server.add(supply.with_units(Unit(62)).commandable());
        server.add(Served::new(ObjectType::BINARY_INPUT, 7, "alarm", Value::Enumerated(0)).with_states(&["ok", "bad"]));
        server
    }

    /// Devices, those among them that leave Who-Is unanswered, and what was sent when.
    struct World {
        survey: Survey,
        servers: BTreeMap<SocketAddrV4, (Server, bool)>,
        who_is_at: Vec<Instant>,
    }

    impl World {
        fn new(plan: Plan, servers: impl IntoIterator<Item = (SocketAddrV4, Server, bool)>) -> Self {
            let servers = servers.into_iter().map(|(at, server, says)| (at, (server, says))).collect();
            Self { survey: Survey::new(plan), servers, who_is_at: Vec::new() }
        }

        /// Devices are only read.
        fn sent(&mut self, now: Now, to: SocketAddrV4, datagram: &[u8]) {
            let (Bvlc::Unicast(npdu) | Bvlc::Broadcast(npdu)) = Bvlc::parse(datagram).unwrap() else { panic!() };
            let Body::Apdu(apdu) = Npdu::parse(npdu).unwrap().body else { panic!() };
            let apdu = Apdu::parse(apdu).unwrap();
            let is_who_is = matches!(apdu, Apdu::UnconfirmedRequest { service: UnconfirmedService::WHO_IS, .. });
            if let Apdu::ConfirmedRequest { service, .. } = apdu {
                let reads = [ConfirmedService::READ_PROPERTY, ConfirmedService::READ_PROPERTY_MULTIPLE];
                assert!(reads.contains(&service), "{service}");
            } else {
                assert!(is_who_is || matches!(apdu, Apdu::SegmentAck { .. }), "{apdu:?}");
            }
            if is_who_is {
                self.who_is_at.push(now.mono);
            }
            for (at, (server, says)) in &mut self.servers {
                if (*at == to || to == address(BROADCAST)) && (*says || !is_who_is) {
                    server.handle_datagram(now, address(OWN), datagram);
                }
            }
        }

        fn run(&mut self) -> (Vec<Found>, Option<String>) {
            let mut now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(1_800_000_000_000) };
            let mut found = Vec::new();
            self.survey.handle_timeout(now);
            loop {
                let mut out = Vec::new();
                while let Some(to) = self.survey.poll_transmit(now, &mut out) {
                    let SocketAddr::V4(to) = to else { panic!() };
                    self.sent(now, to, &std::mem::take(&mut out));
                }
                let mut is_quiet = true;
                for (at, (server, _)) in &mut self.servers {
                    while server.poll_transmit(now, &mut out).is_some() {
                        self.survey.handle_datagram(now, SocketAddr::V4(*at), &std::mem::take(&mut out));
                        is_quiet = false;
                    }
                }
                while let Some(event) = self.survey.poll_event(now) {
                    is_quiet = false;
                    match event {
                        SurveyEvent::Found(device) => found.push(*device),
                        SurveyEvent::Warning(warning) => panic!("{warning}"),
                        SurveyEvent::Done(why) => return (found, why),
                    }
                }
                if is_quiet {
                    let next = self.survey.timeout().expect("a survey ends");
                    now = now.later(next.since(now.mono));
                    self.survey.handle_timeout(now);
                }
            }
        }
    }

    fn plan(targets: Vec<Target>) -> Plan {
        let client = ClientConfig {
            who_is_interval: Duration::from_millis(1),
            broadcast: Some(address(BROADCAST)),
            retries: 0,
            ..ClientConfig::default()
        };
        let wait = Duration::from_secs(5);
        Plan { client, targets, instances: (0, 4_194_302), width: 10_000, wait, together: 4, reads_objects: true }
    }

    #[test]
    fn a_thousand_devices_are_found_and_read_at_ten_who_is_a_second() {
        let devices = (1..=1000_u32).map(|number| {
            let at = SocketAddrV4::new((0x0A00_0100 + number).into(), 47_808);
            (at, server(number * 4000), true)
        });
        let mut world = World::new(plan(vec![Target::Global]), devices);
        let (found, why) = world.run();
        assert_eq!((found.len(), why), (1000, None));
        assert_eq!(world.who_is_at.len(), 420);
        for window in world.who_is_at.windows(11) {
            assert!(window[10].since(window[0]) >= Duration::from_secs(1), "{window:?}");
        }
        let device = found.iter().find(|found| found.instance == Some(8000)).unwrap();
        let [supply, alarm] = device.objects.as_slice() else { panic!("{:?}", device.objects) };
        assert_eq!((supply.name.as_str(), supply.unit, supply.is_commandable), ("supply", Some(Unit(62)), true));
        assert_eq!(
            (alarm.states.as_slice(), alarm.is_commandable),
            (["ok".to_owned(), "bad".to_owned()].as_slice(), false)
        );
    }

    #[test]
    fn an_address_that_does_not_say_who_it_is_is_asked_itself() {
        let [says, silent, nobody] = ["10.0.0.1:47808", "10.0.0.2:47808", "10.0.0.3:47808"].map(address);
        let targets = [says, silent, nobody].map(|at| Target::Peer(Peer::direct(at))).to_vec();
        let mut world = World::new(plan(targets), [(says, server(1), true), (silent, server(2), false)]);
        let (found, why) = world.run();
        let found: Vec<_> =
            found.iter().map(|found| (found.peer.address, found.instance, found.objects.len())).collect();
        assert_eq!((found, why), (vec![(says, Some(1), 2), (silent, Some(2), 2)], None));
    }

    #[test]
    fn only_wanted_instances_are_read_and_each_once() {
        let [one, other] = ["10.0.0.1:47808", "10.0.0.2:47808"].map(address);
        let targets = vec![Target::Global, Target::Peer(Peer::direct(one)), Target::Peer(Peer::direct(other))];
        let wanted = Plan { instances: (5, 9), ..plan(targets) };
        let mut world = World::new(wanted, [(one, server(7), true), (other, server(70), true)]);
        let (found, _) = world.run();
        assert_eq!(found.iter().map(|found| found.instance).collect::<Vec<_>>(), [Some(7)]);
    }

    #[test]
    fn a_device_that_falls_silent_is_told_with_what_is_known() {
        let at = address("10.0.0.1:47808");
        let mut world = World::new(plan(vec![Target::Global]), []);
        let i_am = IAm {
            device: tieline_bacnet::ObjectId::device(3),
            max_apdu: 480,
            segmentation: tieline_bacnet::names::Segmentation::NONE,
            vendor: 260,
        };
        let mut parameters = Vec::new();
        i_am.emit(&mut parameters);
        let mut apdu = Vec::new();
        Apdu::UnconfirmedRequest { service: UnconfirmedService::I_AM, parameters: &parameters }.emit(&mut apdu);
        let (mut npdu, mut datagram) = (Vec::new(), Vec::new());
        Npdu::local(&apdu, false).emit(&mut npdu);
        Bvlc::Unicast(&npdu).emit(&mut datagram);
        world.survey.handle_datagram(Now::default(), SocketAddr::V4(at), &datagram);
        let (found, _) = world.run();
        assert_eq!((found[0].instance, found[0].vendor), (Some(3), Some(260)));
        assert_eq!(found[0].error.as_deref(), Some("no answer in time"));
    }
}
