//! BACnet/IP devices over UDP: one socket each.

use crate::treatment::{NOISE_BYTES, Reply, Treatment, Treats};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::rc::Rc;
use tieline_bacnet::ServiceError;
use tieline_bacnet::names::{ErrorClass, ErrorCode};
use tieline_bacnet::server::{Server, ServerEvent};
use tieline_core::{Instant, Now};
use tieline_net::{DatagramMachine, Endpoint, EndpointOwner, Shard};

/// A device on its socket, and what its owner knows of it.
#[derive(Debug)]
pub struct BacnetServer {
    endpoint: Endpoint<Simulated>,
    address: SocketAddrV4,
}

impl BacnetServer {
    /// Serves a device until the shard ends. `treats` decides how requests are treated; `told` learns what clients write, with
    /// the server as it is then.
    ///
    /// # Errors
    /// The address cannot be taken.
    pub async fn start(
        shard: &Rc<Shard>,
        listen: SocketAddrV4,
        server: Server,
        treats: impl Treats + 'static,
        told: impl FnMut(&mut Server, Now, ServerEvent) + 'static,
    ) -> io::Result<Self> {
        let endpoint = Endpoint::new(shard, Simulated::new(server, Box::new(treats)));
        match endpoint.start(SocketAddr::V4(listen), None, EventOwner(told)).await? {
            (SocketAddr::V4(address), _) => Ok(Self { endpoint, address }),
            (SocketAddr::V6(address), _) => Err(io::Error::other(format!("{address} is not of IPv4"))),
        }
    }

    /// Where it is.
    #[must_use]
    pub const fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Calls the device; what it has to send follows.
    pub fn with<T>(&self, call: impl FnOnce(&mut Server, Now) -> T) -> T {
        self.endpoint.with(|simulated, now| call(&mut simulated.server, now))
    }
}

/// Datagrams that wait for their time at most; more are lost, as on a network.
const WAITING_MAX: usize = 256;

/// A device for the socket that it is on, with what goes wrong at it.
///
/// ```text
/// datagram ─▶ how is it treated? ─▶ after its delay ─▶ server ─▶ answer
///                 └ noise, nothing
/// ```
struct Simulated {
    server: Server,
    treats: Box<dyn Treats>,
    /// By their time and number.
    waiting: BTreeMap<(Instant, u64), (SocketAddrV4, Vec<u8>, Reply)>,
    next: u64,
    noise: VecDeque<(SocketAddrV4, [u8; NOISE_BYTES])>,
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulated").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

impl Simulated {
    fn new(server: Server, treats: Box<dyn Treats>) -> Self {
        Self { server, treats, waiting: BTreeMap::new(), next: 0, noise: VecDeque::new() }
    }

    fn take(&mut self, now: Now, from: SocketAddrV4, datagram: &[u8], reply: Reply) {
        match reply {
            Reply::Answer => self.server.handle_datagram(now, from, datagram),
            Reply::Refuse => {
                self.server.set_refusal(Some(ServiceError::new(ErrorClass::DEVICE, ErrorCode::OTHER)));
                self.server.handle_datagram(now, from, datagram);
                self.server.set_refusal(None);
            }
            Reply::Noise(bytes) => {
                if self.noise.len() < WAITING_MAX {
                    self.noise.push_back((from, bytes));
                }
            }
            // What it would say is taken back by `poll_transmit`.
            Reply::Nothing { is_carried_out: true } => self.server.handle_datagram(now, from, datagram),
            Reply::Nothing { is_carried_out: false } | Reply::Off => {}
        }
    }
}

impl DatagramMachine for Simulated {
    type Event = ServerEvent;
    type Address = SocketAddr;

    fn handle_datagram(&mut self, now: Now, from: SocketAddr, datagram: &[u8]) {
        let SocketAddr::V4(from) = from else { return };
        let Treatment { after, reply } = self.treats.treat(now);
        if after.is_zero() {
            self.take(now, from, datagram, reply);
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.insert((now.mono + after, self.next), (from, datagram.to_vec(), reply));
            self.next += 1;
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        while let Some(entry) = self.waiting.first_entry().filter(|entry| entry.key().0 <= now.mono) {
            let (from, datagram, reply) = entry.remove();
            self.take(now, from, &datagram, reply);
        }
        self.server.handle_timeout(now);
    }

    fn timeout(&self) -> Option<Instant> {
        let due = self.waiting.first_key_value().map(|((at, _), _)| *at);
        [due, self.server.timeout()].into_iter().flatten().min()
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<SocketAddr> {
        if self.treats.is_silent(now) {
            while self.server.poll_transmit(now, &mut Vec::new()).is_some() {}
            return None;
        }
        if let Some((to, bytes)) = self.noise.pop_front() {
            out.extend_from_slice(&bytes);
            return Some(SocketAddr::V4(to));
        }
        self.server.poll_transmit(now, out).map(SocketAddr::V4)
    }

    fn poll_event(&mut self, _now: Now) -> Option<ServerEvent> {
        self.server.poll_event()
    }
}

struct EventOwner<F>(F);

impl<F: FnMut(&mut Server, Now, ServerEvent)> EndpointOwner<Simulated> for EventOwner<F> {
    fn event(&mut self, endpoint: &Endpoint<Simulated>, _now: Now, event: ServerEvent) {
        endpoint.with(|simulated, now| (self.0)(&mut simulated.server, now, event));
    }
}

/// The request of a client that commands an object at priority 10.
#[cfg(test)]
pub fn write_property(invoke_id: u8, object: tieline_bacnet::ObjectId, value: tieline_bacnet::Value) -> Vec<u8> {
    use tieline_bacnet::apdu::{Accepts, Apdu};
    use tieline_bacnet::bvlc::Bvlc;
    use tieline_bacnet::names::ConfirmedService;
    use tieline_bacnet::npdu::Npdu;
    use tieline_bacnet::service::Write;
    use tieline_bacnet::{PropertyId, PropertyRef};
    let reference = PropertyRef::new(object, PropertyId::PRESENT_VALUE);
    let (mut parameters, mut apdu, mut npdu, mut datagram) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    Write { reference, value, priority: Some(10) }.emit(&mut parameters);
    let accepts = Accepts { segmented: false, segments_code: 0, apdu_code: 5 };
    let service = ConfirmedService::WRITE_PROPERTY;
    Apdu::ConfirmedRequest { segment: None, accepts, invoke_id, service, parameters: &parameters }.emit(&mut apdu);
    Npdu::local(&apdu, true).emit(&mut npdu);
    Bvlc::Unicast(&npdu).emit(&mut datagram);
    datagram
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tieline_bacnet::server::{Object, ServerConfig};
    use tieline_bacnet::{ObjectId, ObjectType, Value};
    use tieline_core::Timestamp;

    struct Fixed(Treatment);

    impl Treats for Fixed {
        fn treat(&mut self, _now: Now) -> Treatment {
            self.0
        }

        fn is_silent(&mut self, _now: Now) -> bool {
            matches!(self.0.reply, Reply::Nothing { .. } | Reply::Off)
        }
    }

    fn at(ms: u64) -> Now {
        Now { mono: Instant(ms * 1_000_000), utc: Timestamp::default() }
    }

    /// What comes of the command of an output: the bytes that are sent, and whether it is carried out.
    fn commanded(after_ms: u64, reply: Reply) -> (Vec<u8>, bool) {
        let object = Object::new(ObjectType::ANALOG_OUTPUT, 1, "valve", Value::Real(0.0)).commandable();
        let mut server = Server::new(ServerConfig::default());
        server.add(object);
        let treats = Fixed(Treatment { after: Duration::from_millis(after_ms), reply });
        let mut device = Simulated::new(server, Box::new(treats));
        let output = ObjectId::new(ObjectType::ANALOG_OUTPUT, 1);
        device.handle_datagram(at(0), "127.0.0.1:9".parse().unwrap(), &write_property(1, output, Value::Real(50.0)));
        let mut out = Vec::new();
        if after_ms > 0 {
            assert_eq!((device.timeout(), device.poll_transmit(at(0), &mut out)), (Some(at(after_ms).mono), None));
        }
        device.handle_timeout(at(after_ms));
        device.poll_transmit(at(after_ms), &mut out);
        (out, device.server.object(output).unwrap().commanded().is_some())
    }

    #[test]
    fn a_request_is_treated_as_the_faults_say() {
        let (answer, is_done) = commanded(0, Reply::Answer);
        // A simple acknowledgement.
        assert_eq!((answer.get(6), is_done), (Some(&0x20), true));
        assert_eq!(commanded(30, Reply::Answer), (answer, true));
        let (error, is_done) = commanded(0, Reply::Refuse);
        assert_eq!((error.get(6), is_done), (Some(&0x50), false));
        assert_eq!(commanded(5, Reply::Noise([2; NOISE_BYTES])), (vec![2; NOISE_BYTES], false));
        assert_eq!(commanded(0, Reply::Nothing { is_carried_out: true }), (vec![], true));
        assert_eq!(commanded(0, Reply::Nothing { is_carried_out: false }), (vec![], false));
        assert_eq!(commanded(0, Reply::Off), (vec![], false));
    }

    #[test]
    fn what_waits_is_limited() {
        let treats = Fixed(Treatment { after: Duration::from_secs(60), reply: Reply::Answer });
        let mut device = Simulated::new(Server::new(ServerConfig::default()), Box::new(treats));
        for _ in 0..2 * WAITING_MAX {
            device.handle_datagram(at(0), "127.0.0.1:9".parse().unwrap(), &[0x81]);
        }
        assert_eq!(device.waiting.len(), WAITING_MAX);
    }
}
