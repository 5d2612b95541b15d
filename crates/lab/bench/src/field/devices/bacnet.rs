//! BACnet devices: servers of ours, each on a socket of its own, for an answer comes from the address that was asked.

use super::{Board, POINTS, Steps, address_of};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use tieline_bacnet::server::{Object, Server, ServerConfig, ServerEvent};
use tieline_bacnet::{ObjectId, ObjectType, Value};
use tieline_core::{Instant, Now};
use tieline_net::{DatagramMachine, Endpoint, EndpointOwner, Shard};

/// A port that is free at one address may be taken at another.
const ATTEMPTS: u32 = 10;

/// Serves so many devices. Gives their port.
pub async fn start(shard: Rc<Shard>, board: Board, devices: usize) -> io::Result<u16> {
    let mut last = io::Error::other("no devices");
    for _ in 0..ATTEMPTS {
        match start_all(&shard, &board, devices).await {
            Ok(port) => return Ok(port),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn start_all(shard: &Rc<Shard>, board: &Board, devices: usize) -> io::Result<u16> {
    let (mut port, mut endpoints) = (0, Vec::new());
    for device in 0..devices {
        let local: SocketAddr = address_of(device, port).parse().map_err(io::Error::other)?;
        let endpoint = Endpoint::new(shard, Device::new(device, board));
        match endpoint.start(local, None, Silent).await {
            Ok((address, _)) => port = address.port(),
            Err(error) => {
                endpoints.iter().for_each(Endpoint::<Device>::close);
                return Err(error);
            }
        }
        endpoints.push(endpoint);
    }
    Ok(port)
}

/// A device that has other values for each request.
struct Device {
    server: Server,
    steps: Steps,
}

impl Device {
    fn new(device: usize, board: &Board) -> Self {
        let instance = u32::try_from(device).unwrap_or(0) + 1;
        let mut server = Server::new(ServerConfig { instance, ..ServerConfig::default() });
        for point in 0..POINTS {
            let name = format!("point {point}");
            server.add(Object::new(ObjectType::ANALOG_INPUT, point.into(), &name, Value::Real(0.0)));
        }
        Self { server, steps: Steps::new(board) }
    }

    fn step(&mut self, now: Now) {
        let values = self.steps.next_numbers();
        for (point, value) in (0..).zip(values) {
            self.server.set_value(now, ObjectId::new(ObjectType::ANALOG_INPUT, point), Value::Real(value));
        }
    }
}

impl DatagramMachine for Device {
    type Address = SocketAddr;

    type Event = ServerEvent;

    fn handle_datagram(&mut self, now: Now, from: SocketAddr, datagram: &[u8]) {
        if let SocketAddr::V4(from) = from {
            self.step(now);
            self.server.handle_datagram(now, from, datagram);
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        self.server.handle_timeout(now);
    }

    fn timeout(&self) -> Option<Instant> {
        self.server.timeout()
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<SocketAddr> {
        self.server.poll_transmit(now, out).map(SocketAddr::V4)
    }

    fn poll_event(&mut self, _now: Now) -> Option<ServerEvent> {
        self.server.poll_event()
    }
}

struct Silent;

impl EndpointOwner<Device> for Silent {
    fn event(&mut self, _endpoint: &Endpoint<Device>, _now: Now, _event: ServerEvent) {}
}
