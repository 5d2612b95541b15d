//! A client and servers on a network in virtual time that loses, repeats, delays and reorders datagrams.

use crate::client::{Client, ClientConfig, Event};
use crate::server::{Object, Server, ServerConfig};
use crate::{ObjectType, Peer, Unit, Value};
use core::net::{Ipv4Addr, SocketAddrV4};
use core::time::Duration;
use std::collections::BTreeMap;
use std::string::ToString;
use std::vec::Vec;
use tieline_core::{Instant, Now, Timestamp};

/// What goes wrong, each of so many in a hundred.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) lost: u64,
    pub(super) repeated: u64,
    pub(super) late: u64,
}

pub(super) const CLIENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 47_808);

/// The address of a server.
pub(super) fn address(place: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, place), 47_808)
}

pub(super) struct Network {
    pub(super) now: Now,
    pub(super) client: Client,
    pub(super) servers: BTreeMap<SocketAddrV4, Server>,
    pub(super) faults: Faults,
    /// All that was sent: when, from where, to where, what.
    pub(super) trace: Vec<(Instant, SocketAddrV4, SocketAddrV4, Vec<u8>)>,
    transit: BTreeMap<(Instant, u64), (SocketAddrV4, SocketAddrV4, Vec<u8>)>,
    random: u64,
    serial: u64,
}

impl Network {
    pub(super) fn new(config: ClientConfig, seed: u64) -> Self {
        let now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(1_800_000_000_000) };
        let mut network = Self {
            now,
            client: Client::new(config),
            servers: BTreeMap::new(),
            faults: Faults::default(),
            trace: Vec::new(),
            transit: BTreeMap::new(),
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            serial: 0,
        };
        // Numbers of seeds that lie close are alike at first.
        (0..20).for_each(|_| _ = network.random(1));
        network
    }

    /// A number below `limit`: xorshift64*.
    pub(super) fn random(&mut self, limit: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    /// Adds a server with so many analog values, one of them commandable.
    pub(super) fn serve(&mut self, place: u8, config: ServerConfig, values: u32) -> Peer {
        let mut server = Server::new(config);
        for instance in 0..values {
            let name = std::format!("value {instance}");
            let object = Object::new(ObjectType::ANALOG_VALUE, instance, &name, real(instance));
            server.add(object.with_units(Unit::DEGREES_CELSIUS).writable());
        }
        server.add(Object::new(ObjectType::ANALOG_OUTPUT, 1, "output", Value::Real(5.0)).with_cov_increment(0.5));
        self.servers.insert(address(place), server);
        Peer::direct(address(place))
    }

    /// Lets what was sent fly.
    fn send(&mut self) {
        let mut sent = Vec::new();
        let mut out = Vec::new();
        while let Some(to) = self.client.poll_transmit(self.now, &mut out) {
            sent.push((CLIENT, to, core::mem::take(&mut out)));
        }
        for (from, server) in &mut self.servers {
            while let Some(to) = server.poll_transmit(self.now, &mut out) {
                sent.push((*from, to, core::mem::take(&mut out)));
            }
        }
        for (from, to, bytes) in sent {
            self.trace.push((self.now.mono, from, to, bytes.clone()));
            let copies = if self.random(100) < self.faults.lost {
                0
            } else if self.random(100) < self.faults.repeated {
                2
            } else {
                1
            };
            for _ in 0..copies {
                let late = if self.random(100) < self.faults.late { self.random(2000) * 1000 } else { 200 };
                self.serial += 1;
                self.transit
                    .insert((self.now.mono + Duration::from_micros(late), self.serial), (from, to, bytes.clone()));
            }
        }
    }

    /// Goes on to the next thing that happens, not beyond `until`; false when nothing does.
    pub(super) fn step(&mut self, until: Instant, others: Option<Instant>) -> bool {
        self.send();
        let timeouts = self.servers.values().filter_map(Server::timeout).chain(self.client.timeout()).chain(others);
        let arrival = self.transit.keys().next().map(|(at, _)| *at);
        let Some(next) = timeouts.chain(arrival).min().filter(|next| *next <= until) else {
            self.now = self.now.later(until.since(self.now.mono));
            return false;
        };
        self.now = self.now.later(next.since(self.now.mono));
        let now = self.now;
        while let Some(entry) = self.transit.first_entry().filter(|entry| entry.key().0 <= now.mono) {
            let (from, to, bytes) = entry.remove();
            if to == CLIENT {
                self.client.handle_datagram(now, from, &bytes);
            } else if let Some(server) = self.servers.get_mut(&to) {
                server.handle_datagram(now, from, &bytes);
            }
        }
        self.client.handle_timeout(now);
        self.servers.values_mut().for_each(|server| server.handle_timeout(now));
        self.send();
        true
    }

    /// Runs for a while and gives the client's events.
    pub(super) fn run(&mut self, time: Duration) -> Vec<Event> {
        let until = self.now.mono + time;
        let mut events = Vec::new();
        loop {
            let goes_on = self.step(until, None);
            events.extend(core::iter::from_fn(|| self.client.poll_event()));
            if !goes_on {
                return events;
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(super) fn real(instance: u32) -> Value {
    Value::Real(instance as f32 / 4.0)
}

#[test]
fn equal_seeds_give_equal_traces() {
    let run = |seed| {
        let mut network = Network::new(ClientConfig::default(), seed);
        network.faults = Faults { lost: 20, repeated: 20, late: 50 };
        let peer = network.serve(1, ServerConfig::default(), 10);
        let reference = crate::PropertyRef::new(crate::ObjectId::device(1), crate::PropertyId::OBJECT_LIST);
        for _ in 0..20 {
            network.client.request(network.now, peer, crate::client::Request::Read(reference)).unwrap();
        }
        network.run(Duration::from_secs(60));
        network.trace
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
    assert_eq!(Peer::direct(CLIENT).to_string(), "10.0.0.1:47808");
}
