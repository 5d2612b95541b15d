//! BACnet/IP devices over UDP: one socket each.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::rc::Rc;
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
    /// Serves a device until the shard ends. `told` learns what clients write, with the server as it is then.
    ///
    /// # Errors
    /// The address cannot be taken.
    pub async fn start(
        shard: &Rc<Shard>,
        listen: SocketAddrV4,
        server: Server,
        told: impl FnMut(&mut Server, Now, ServerEvent) + 'static,
    ) -> io::Result<Self> {
        let endpoint = Endpoint::new(shard, Simulated(server));
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
        self.endpoint.with(|simulated, now| call(&mut simulated.0, now))
    }
}

/// A device for the socket that it is on.
#[derive(Debug)]
struct Simulated(Server);

impl DatagramMachine for Simulated {
    type Event = ServerEvent;

    fn handle_datagram(&mut self, now: Now, from: SocketAddr, datagram: &[u8]) {
        if let SocketAddr::V4(from) = from {
            self.0.handle_datagram(now, from, datagram);
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        self.0.handle_timeout(now);
    }

    fn timeout(&self) -> Option<Instant> {
        self.0.timeout()
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<SocketAddr> {
        self.0.poll_transmit(now, out).map(SocketAddr::V4)
    }

    fn poll_event(&mut self, _now: Now) -> Option<ServerEvent> {
        self.0.poll_event()
    }
}

struct EventOwner<F>(F);

impl<F: FnMut(&mut Server, Now, ServerEvent)> EndpointOwner<Simulated> for EventOwner<F> {
    fn event(&mut self, endpoint: &Endpoint<Simulated>, _now: Now, event: ServerEvent) {
        endpoint.with(|simulated, now| (self.0)(&mut simulated.0, now, event));
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
