//! A read of 18 present values with their status flags, by one ReadPropertyMultiple.

use crate::meter::Operation;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;
use tieline_bacnet::client::{Client, ClientConfig};
use tieline_bacnet::device::{Device, DeviceConfig, DeviceEvent};
use tieline_bacnet::server::{Object, Server, ServerConfig};
use tieline_bacnet::{ObjectId, ObjectType, Peer, PropertyId, PropertyRef, Value};
use tieline_core::Now;

const POINTS: u32 = 18;
const HERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 47_808);
const THERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 47_808);

/// A client with one device, and that device.
struct Link {
    now: Now,
    client: Client,
    device: Device,
    server: Server,
}

/// Counts from the question to the event with all values; what the server does is not counted.
pub fn read() -> Result<Operation, String> {
    let mut link = Link::learned()?;
    let present = |instance| ObjectId::new(ObjectType::ANALOG_INPUT, instance);
    let both =
        |object| [PropertyId::PRESENT_VALUE, PropertyId::STATUS_FLAGS].map(|name| PropertyRef::new(object, name));
    let references: Rc<[PropertyRef]> = (0..POINTS).map(present).flat_map(both).collect();
    let mut request = Vec::new();
    Ok(Box::new(move |meter| {
        link.now = link.now.later(Duration::from_secs(1));
        request.clear();
        let asked = meter.count(|| {
            link.device.read(link.now, &mut link.client, Rc::clone(&references)).ok()?;
            link.client.poll_transmit(link.now, &mut request)
        });
        let answer = link.answer(&request);
        let event = meter.count(|| link.take(&answer));
        let is_right = asked.is_some() && event.is_some_and(|event| has_all_values(&event));
        if is_right { Ok(()) } else { Err("the read failed".to_owned()) }
    }))
}

impl Link {
    fn learned() -> Result<Self, String> {
        let mut server = Server::new(ServerConfig::default());
        for instance in 0..POINTS {
            server.add(Object::new(ObjectType::ANALOG_INPUT, instance, "value", Value::Real(20.5)));
        }
        let device = Device::new(Peer::direct(THERE), None, DeviceConfig::default());
        let mut link = Self { now: Now::default(), client: Client::new(ClientConfig::default()), device, server };
        link.device.learn(link.now, &mut link.client).map_err(|error| error.to_string())?;
        let mut request = Vec::new();
        while link.client.poll_transmit(link.now, &mut request).is_some() {
            let answer = link.answer(&request);
            if let Some(DeviceEvent::Learned(learned)) = link.take(&answer) {
                return learned.map(|_| link).map_err(|failure| failure.to_string());
            }
            request.clear();
        }
        Err("the device says nothing of itself".to_owned())
    }

    /// What the server answers.
    fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        let mut answer = Vec::new();
        self.server.handle_datagram(self.now, HERE, request);
        self.server.poll_transmit(self.now, &mut answer);
        answer
    }

    fn take(&mut self, answer: &[u8]) -> Option<DeviceEvent> {
        self.client.handle_datagram(self.now, THERE, answer);
        while let Some(event) = self.client.poll_event() {
            self.device.handle_event(self.now, &mut self.client, event);
        }
        self.device.poll_event()
    }
}

fn has_all_values(event: &DeviceEvent) -> bool {
    let DeviceEvent::Read { results, .. } = event else { return false };
    results.iter().filter(|(_, result)| *result == Ok(Value::Real(20.5))).count() == POINTS as usize
}
