//! A client of many devices over one UDP socket.
//!
//! The owner calls [`Client::handle_datagram`] with what arrived, [`Client::handle_timeout`] when [`Client::timeout`] has
//! passed, then [`Client::poll_event`] until none and [`Client::poll_transmit`] until none, in any order.
//!
//! A request waits in the queue of its peer, goes out under an invoke identifier that the peer's other requests do not
//! have, is repeated while there is no answer, and ends with one [`Event::Answer`]. An answer belongs to a request only
//! when peer, invoke identifier and service are the same. Long requests go out, and long answers come in, by segments.

mod config;
mod counters;
mod discovery;
mod event;
mod foreign;
mod peers;
mod receive;
mod transaction;

pub use config::{ClientConfig, ForeignConfig, PeerLimits, WHO_IS_INTERVAL_MIN};
pub use counters::Counters;
pub use event::{Change, Event, Failure, Request, RequestError, RequestId, Target};

use crate::apdu::{Accepts, Apdu, apdu_code};
use crate::bvlc::{self, Bvlc};
use crate::names::UnconfirmedService;
use crate::npdu::{Body, NETWORK_ALL, NetworkMessage, Npdu};
use crate::service::{WhoHas, emit_time};
use crate::{DateTime, Mac, Peer, Station};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use discovery::Discovery;
use foreign::Foreign;
use peers::Peers;
use tieline_core::{Deadlines, Instant, Now};
use transaction::{Finished, Key, Transaction};

/// Speaks to devices: see the head of the module.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    peers: Peers,
    transactions: BTreeMap<Key, Transaction>,
    deadlines: Deadlines<Key>,
    finished: Finished,
    discovery: Discovery,
    foreign: Option<Foreign>,
    next_id: u64,
    events: VecDeque<Event>,
    transmits: VecDeque<(SocketAddrV4, Vec<u8>)>,
    /// Buffers of datagrams that have been sent, to be used again.
    spare: Vec<Vec<u8>>,
    counters: Counters,
}

/// Buffers that are kept to be used again.
const SPARE_MAX: usize = 64;

impl Client {
    /// A client that knows nobody yet. Registration as a foreign device begins with the first `handle_timeout`.
    #[must_use]
    pub fn new(mut config: ClientConfig) -> Self {
        config.max_apdu = config.max_apdu.clamp(50, 1476);
        config.window = config.window.clamp(1, crate::segments::WINDOW_MAX);
        config.in_flight_by_peer = config.in_flight_by_peer.clamp(1, 128);
        config.who_is_interval = config.who_is_interval.max(WHO_IS_INTERVAL_MIN);
        let foreign = config.foreign.map(Foreign::new);
        Self {
            peers: Peers::new(config.peers_max, config.queue_by_peer, config.in_flight_by_peer),
            transactions: BTreeMap::new(),
            deadlines: Deadlines::default(),
            finished: Finished::default(),
            discovery: Discovery::new(config.who_is_interval),
            foreign,
            next_id: 0,
            events: VecDeque::new(),
            transmits: VecDeque::new(),
            spare: Vec::new(),
            counters: Counters::default(),
            config,
        }
    }

    /// Says what a peer takes; until then little is expected of it.
    pub fn set_limits(&mut self, peer: Peer, limits: PeerLimits) {
        self.peers.set_limits(peer, limits);
    }

    /// What is known of what a peer takes.
    #[must_use]
    pub fn limits(&self, peer: &Peer) -> PeerLimits {
        self.peers.limits(peer)
    }

    /// Asks something of a peer. [`Event::Answer`] with the same number tells what it came to.
    ///
    /// # Errors
    /// It is too long for the peer, or too much waits already.
    pub fn request(&mut self, now: Now, peer: Peer, request: Request<'_>) -> Result<RequestId, RequestError> {
        if self.events.len() >= self.config.events_max {
            return Err(RequestError::EventsFull);
        }
        let mut parameters = Vec::with_capacity(request.bytes_guess());
        request.emit(&mut parameters);
        let id = RequestId(self.next_id);
        self.peers.queue(peer, peers::Pending { id, service: request.service(), parameters })?;
        self.next_id += 1;
        self.start_requests(now);
        Ok(id)
    }

    /// Gives up all requests of a peer, each with [`Failure::Cancelled`], and forgets it.
    pub fn forget(&mut self, now: Now, peer: &Peer) {
        for pending in self.peers.forget(peer) {
            let result = Err(Failure::Cancelled);
            self.events.push_back(Event::Answer { id: pending.id, peer: *peer, service: pending.service, result });
        }
        let keys: Vec<Key> = self.transactions.range((*peer, 0)..=(*peer, u8::MAX)).map(|(key, _)| *key).collect();
        for key in keys {
            self.finish(now, key, Err(Failure::Cancelled));
        }
    }

    /// Requests that have no answer yet, waiting ones included.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.transactions.len() + self.peers.queued()
    }

    /// Looks for devices with instances from `low` to `high`, `width` instances with each Who-Is, one Who-Is at a time
    /// ([`ClientConfig::who_is_interval`]).
    ///
    /// # Errors
    /// There is no address for broadcasts, or too many discoveries wait.
    pub fn discover(&mut self, target: Target, low: u32, high: u32, width: u32) -> Result<(), RequestError> {
        self.check_target(target)?;
        self.discovery.add(target, low, high, width)
    }

    /// Looks for an object; devices that have it answer with [`Event::IHave`].
    ///
    /// # Errors
    /// There is no address for broadcasts.
    pub fn who_has(&mut self, target: Target, who_has: &WhoHas) -> Result<(), RequestError> {
        let mut parameters = Vec::new();
        who_has.emit(&mut parameters);
        self.unconfirmed(target, UnconfirmedService::WHO_HAS, &parameters)
    }

    /// Sets the clock of devices: in UTC, or in their local time, which is so many minutes ahead of it.
    ///
    /// # Errors
    /// There is no address for broadcasts.
    pub fn set_time(
        &mut self,
        now: Now,
        target: Target,
        local_offset_minutes: Option<i16>,
    ) -> Result<(), RequestError> {
        let mut parameters = Vec::new();
        emit_time(DateTime::from_timestamp(now.utc, local_offset_minutes.unwrap_or(0)), &mut parameters);
        let service = match local_offset_minutes {
            Some(_) => UnconfirmedService::TIME_SYNCHRONIZATION,
            None => UnconfirmedService::UTC_TIME_SYNCHRONIZATION,
        };
        self.unconfirmed(target, service, &parameters)
    }

    /// Asks routers of the local network which networks they reach ([`Event::Router`]).
    ///
    /// # Errors
    /// There is no address for broadcasts.
    pub fn find_routers(&mut self, network: Option<u16>) -> Result<(), RequestError> {
        self.check_target(Target::Local)?;
        let body = Body::Network(NetworkMessage::WhoIsRouter(network));
        self.send_to(Target::Local, Npdu { destination: None, source: None, expects_reply: false, priority: 0, body });
        Ok(())
    }

    /// Lets deadlines that have passed take effect. Harmless when none has.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some((_, key)) = self.deadlines.take_next(now.mono) {
            self.expire(now, key);
        }
        self.register(now);
        self.search(now);
        self.start_requests(now);
    }

    /// Appends the next datagram to `out` and says where it goes to.
    pub fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<SocketAddrV4> {
        self.search(now);
        let (to, mut datagram) = self.transmits.pop_front()?;
        self.counters.sent += 1;
        if out.is_empty() {
            core::mem::swap(out, &mut datagram);
        } else {
            out.extend_from_slice(&datagram);
        }
        if self.spare.len() < SPARE_MAX {
            datagram.clear();
            self.spare.push(datagram);
        }
        Some(to)
    }

    /// The next thing that the owner must know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When `handle_timeout` must be called at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        let foreign = self.foreign.as_ref().map(Foreign::timeout);
        [self.deadlines.timeout(), self.discovery.timeout(), foreign].into_iter().flatten().min()
    }

    /// What was counted.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    fn unconfirmed(
        &mut self,
        target: Target,
        service: UnconfirmedService,
        parameters: &[u8],
    ) -> Result<(), RequestError> {
        self.check_target(target)?;
        let mut apdu = self.spare.pop().unwrap_or_default();
        Apdu::UnconfirmedRequest { service, parameters }.emit(&mut apdu);
        self.send_to(target, Npdu::local(&apdu, false));
        Ok(())
    }

    fn check_target(&self, target: Target) -> Result<(), RequestError> {
        let has_way = matches!(target, Target::Peer(_)) || self.foreign.is_some() || self.config.broadcast.is_some();
        if has_way { Ok(()) } else { Err(RequestError::NoBroadcast) }
    }

    /// Sends what is not answered, by the way that its target has.
    fn send_to(&mut self, target: Target, npdu: Npdu<'_>) {
        let destination = match target {
            Target::Peer(peer) => peer.station,
            Target::Local => None,
            Target::Remote(network) => Some(Station { network, mac: Mac::default() }),
            Target::Global => Some(Station { network: NETWORK_ALL, mac: Mac::default() }),
        };
        let way = match (target, self.config.foreign, self.config.broadcast) {
            (Target::Peer(peer), ..) => Some((peer.address, bvlc::UNICAST)),
            (_, Some(foreign), _) => Some((foreign.bbmd, bvlc::DISTRIBUTE)),
            (_, None, Some(broadcast)) => Some((broadcast, bvlc::BROADCAST)),
            (_, None, None) => None,
        };
        if let Some((to, function)) = way {
            self.transmit(to, function, Npdu { destination, ..npdu });
        }
    }

    fn send_apdu(&mut self, peer: &Peer, apdu: &Apdu<'_>) {
        let mut datagram = self.spare.pop().unwrap_or_default();
        let start = bvlc::begin(bvlc::UNICAST, &mut datagram);
        let head = Npdu { destination: peer.station, ..Npdu::local(&[], apdu.expects_reply()) };
        head.emit(&mut datagram);
        apdu.emit(&mut datagram);
        bvlc::finish(bvlc::UNICAST, start, &mut datagram);
        self.push(peer.address, datagram);
    }

    fn transmit(&mut self, to: SocketAddrV4, function: u8, npdu: Npdu<'_>) {
        let mut datagram = self.spare.pop().unwrap_or_default();
        let start = bvlc::begin(function, &mut datagram);
        npdu.emit(&mut datagram);
        bvlc::finish(function, start, &mut datagram);
        self.push(to, datagram);
    }

    fn transmit_link(&mut self, to: SocketAddrV4, message: &Bvlc<'_>) {
        let mut datagram = self.spare.pop().unwrap_or_default();
        message.emit(&mut datagram);
        self.push(to, datagram);
    }

    fn push(&mut self, to: SocketAddrV4, datagram: Vec<u8>) {
        if self.transmits.len() >= self.config.transmits_max {
            self.counters.transmits_dropped += 1;
        } else {
            self.transmits.push_back((to, datagram));
        }
    }

    /// Whether an event that nobody asked for has a place.
    fn has_room(&mut self) -> bool {
        let has_room = self.events.len() < self.config.events_max;
        if !has_room {
            self.counters.events_dropped += 1;
        }
        has_room
    }

    fn tell(&mut self, event: Event) {
        if self.has_room() {
            self.events.push_back(event);
        }
    }

    fn accepts(&self) -> Accepts {
        Accepts { segmented: true, segments_code: 7, apdu_code: apdu_code(self.config.max_apdu) }
    }
}
