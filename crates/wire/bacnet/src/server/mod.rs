//! A simulated device over one UDP socket: objects that clients read, write and subscribe to.
//!
//! The owner adds objects, updates their values, calls [`Server::handle_datagram`] and [`Server::handle_timeout`], and takes
//! [`Server::poll_transmit`] and [`Server::poll_event`] until none. A write of a client is in effect when its event comes.

mod config;
mod cov;
mod log;
mod object;
mod properties;
mod receive;
mod transaction;
mod write;

pub use config::ServerConfig;
pub use object::{Object, StatusFlags};

use crate::apdu::Apdu;
use crate::bvlc;
use crate::names::UnconfirmedService;
use crate::npdu::Npdu;
use crate::service::{IAm, LogRecord};
use crate::{DateTime, INSTANCE_ANY, Mac, ObjectId, Peer, PropertyRef, ServiceError, Station, Value};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use cov::{Subscribed, SubscriptionKey};
use tieline_core::{Instant, Now};
use transaction::{Answers, Notifying, Receiving, Sending};

/// What the owner of a server learns.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerEvent {
    /// A client has written a property.
    Written {
        /// Which client.
        peer: Peer,
        /// Which property.
        reference: PropertyRef,
        /// The value; Null has relinquished.
        value: Value,
        /// The priority that was named.
        priority: Option<u8>,
    },
    /// A client wants the clock to be set.
    TimeSet {
        /// Which client.
        peer: Peer,
        /// To what.
        at: DateTime,
        /// Whether that is UTC, else local time.
        is_utc: bool,
    },
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// Datagrams that came in.
    pub received: u64,
    /// Datagrams that were given out to be sent.
    pub sent: u64,
    /// Datagrams that broke a rule.
    pub malformed: u64,
    /// Requests that were carried out.
    pub requests: u64,
    /// Notifications and datagrams that had no place.
    pub dropped: u64,
}

/// A simulated device: see the head of the module.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    objects: BTreeMap<ObjectId, Object>,
    subscriptions: BTreeMap<SubscriptionKey, Subscribed>,
    /// Subscribers to be told once their acknowledgement is out.
    to_tell: Vec<SubscriptionKey>,
    sending: BTreeMap<(Peer, u8), Sending>,
    receiving: BTreeMap<(Peer, u8), Receiving>,
    notifying: BTreeMap<(Peer, u8), Notifying>,
    answers: Answers,
    refusal: Option<ServiceError>,
    next_invoke_id: u8,
    events: VecDeque<ServerEvent>,
    transmits: VecDeque<(SocketAddrV4, Vec<u8>)>,
    counters: ServerCounters,
}

impl Server {
    /// A device without objects but its own.
    #[must_use]
    pub fn new(mut config: ServerConfig) -> Self {
        config.max_apdu = config.max_apdu.clamp(50, 1476);
        config.window = config.window.clamp(1, crate::segments::WINDOW_MAX);
        config.instance = config.instance.min(INSTANCE_ANY - 1);
        Self {
            config,
            objects: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            to_tell: Vec::new(),
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            notifying: BTreeMap::new(),
            answers: Answers::default(),
            refusal: None,
            next_invoke_id: 0,
            events: VecDeque::new(),
            transmits: VecDeque::new(),
            counters: ServerCounters::default(),
        }
    }

    /// Adds an object, or puts it in the place of the one with its identifier.
    pub fn add(&mut self, object: Object) {
        self.objects.insert(object.id(), object);
    }

    /// An object.
    #[must_use]
    pub fn object(&self, object: ObjectId) -> Option<&Object> {
        self.objects.get(&object)
    }

    /// The device object.
    #[must_use]
    pub fn device(&self) -> ObjectId {
        ObjectId::device(self.config.instance)
    }

    /// Sets the value of an object, of a commandable one its relinquish default, and tells subscribers. Of an object that
    /// is out of service nothing changes. False where there is none, or the value is of another type.
    pub fn set_value(&mut self, now: Now, object: ObjectId, value: Value) -> bool {
        let Some(found) = self.objects.get_mut(&object).filter(|found| found.takes(&value) && found.has_state(&value))
        else {
            return false;
        };
        if !found.status.out_of_service {
            found.set(value);
            self.notify(now, object);
        }
        true
    }

    /// Says what is wrong with a value, and tells subscribers.
    pub fn set_status(&mut self, now: Now, object: ObjectId, status: StatusFlags) -> bool {
        let Some(found) = self.objects.get_mut(&object) else { return false };
        found.status = status;
        self.notify(now, object);
        true
    }

    /// Refuses every request with this error from here on, as a device does that fails; none: answers again.
    pub const fn set_refusal(&mut self, refusal: Option<ServiceError>) {
        self.refusal = refusal;
    }

    /// Adds a record to a trend log; the oldest makes place.
    pub fn log(&mut self, object: ObjectId, record: LogRecord) -> bool {
        let log = self.objects.get_mut(&object).and_then(|object| object.log.as_mut());
        log.map(|log| log.add(record)).is_some()
    }

    /// Subscriptions of clients.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.subscriptions.len()
    }

    /// Forgets subscriptions and all that is on its way, as a restart does, and says who it is.
    pub fn restart(&mut self) {
        self.subscriptions.clear();
        self.sending.clear();
        self.receiving.clear();
        self.notifying.clear();
        self.answers = Answers::default();
        if let Some(broadcast) = self.config.broadcast {
            self.say_i_am(&Peer::direct(broadcast));
        }
    }

    /// Lets deadlines that have passed take effect. Harmless when none has.
    pub fn handle_timeout(&mut self, now: Now) {
        self.expire(now);
        self.end_subscriptions(now.mono);
    }

    /// When `handle_timeout` must be called at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        [self.transactions_timeout(), self.subscriptions_timeout()].into_iter().flatten().min()
    }

    /// Appends the next datagram to `out` and says where it goes to.
    pub fn poll_transmit(&mut self, _now: Now, out: &mut Vec<u8>) -> Option<SocketAddrV4> {
        let (to, datagram) = self.transmits.pop_front()?;
        self.counters.sent += 1;
        out.extend_from_slice(&datagram);
        Some(to)
    }

    /// The next thing that the owner must know.
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// What was counted.
    #[must_use]
    pub const fn counters(&self) -> ServerCounters {
        self.counters
    }

    fn say_i_am(&mut self, peer: &Peer) {
        let i_am = IAm {
            device: self.device(),
            max_apdu: self.config.max_apdu,
            segmentation: self.config.segmentation,
            vendor: self.config.vendor_id,
        };
        let mut parameters = Vec::new();
        i_am.emit(&mut parameters);
        self.announce(peer, UnconfirmedService::I_AM, &parameters);
    }

    /// Tells all of the local network, or the one who asked.
    fn announce(&mut self, peer: &Peer, service: UnconfirmedService, parameters: &[u8]) {
        let mut apdu = Vec::new();
        Apdu::UnconfirmedRequest { service, parameters }.emit(&mut apdu);
        let (to, function, destination) = match self.config.broadcast {
            Some(broadcast) => {
                let everywhere = Station { network: crate::npdu::NETWORK_ALL, mac: Mac::default() };
                (broadcast, bvlc::BROADCAST, peer.station.map(|_| everywhere))
            }
            None => (peer.address, bvlc::UNICAST, peer.station),
        };
        self.transmit(to, function, destination, &apdu, false);
    }

    fn send(&mut self, peer: &Peer, apdu: &Apdu<'_>) {
        let mut bytes = Vec::with_capacity(64);
        apdu.emit(&mut bytes);
        self.send_bytes(peer, &bytes, apdu.expects_reply());
    }

    fn send_bytes(&mut self, peer: &Peer, apdu: &[u8], expects_reply: bool) {
        self.transmit(peer.address, bvlc::UNICAST, peer.station, apdu, expects_reply);
    }

    fn transmit(
        &mut self,
        to: SocketAddrV4,
        function: u8,
        destination: Option<Station>,
        apdu: &[u8],
        expects_reply: bool,
    ) {
        if self.transmits.len() >= self.config.transmits_max {
            self.counters.dropped += 1;
            return;
        }
        let mut datagram = Vec::with_capacity(apdu.len() + 24);
        let start = bvlc::begin(function, &mut datagram);
        let source = self.config.station;
        Npdu { destination, source, ..Npdu::local(apdu, expects_reply) }.emit(&mut datagram);
        bvlc::finish(function, start, &mut datagram);
        self.transmits.push_back((to, datagram));
    }
}
