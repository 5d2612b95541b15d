//! BACnet/SC: the machine of a connection to a hub, with the site whose devices are behind it.
//!
//! ```text
//! Site ─ datagram of BACnet/IP ─▶ Directory: which VMAC ─▶ Connector ─ message ─▶ WebSocket ─▶ TLS ─▶ hub
//!   ◀──────── NPDU, by the address that the client knows ◀──────┘ ◀── whole message ◀─┘
//! ```
//!
//! A virtual address has six bytes, as one of BACnet/IP has, IP address and port: a client keeps it as such. While no hub has
//! accepted the node, what the site sends is dropped: a write that waited for a hub would come as a surprise.
//!
//! Read first: this file, then `dial.rs`.

mod dial;
#[cfg(test)]
mod tests;

pub(super) use dial::{HubOwner, Targets, serve};

use super::site::{Site, SiteEvent};
use crate::config::BacnetHub;
use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::time::Duration;
use tieline_bacnet::bvlc::{Bvlc, Carried};
use tieline_bacnet::client::ClientConfig;
use tieline_bacnet::sc::connector::{Counters, Event};
use tieline_bacnet::sc::{Body, Connector, ConnectorConfig, Directory, Found, Hub, Message, Vmac};
use tieline_core::{Instant, Machine, Now};
use tieline_net::Direction;
use tieline_websocket::{CloseCode, Request, ResponseFault, WebSocket};

/// The shortest time between an attempt at the failover hub and the next one at the primary hub.
const STANDBY_MIN: Duration = Duration::from_secs(2);

/// What the owner of a connection learns.
#[derive(Debug)]
pub(in crate::field::bacnet) enum HubEvent {
    /// Of the site.
    Site(SiteEvent),
    /// Of the connection.
    Link(Event),
    /// A hub was reached, and its WebSocket was not opened: what is wrong with its response, where there was one.
    NotOpened(Hub, Option<ResponseFault>),
}

/// A site behind a hub.
#[derive(Debug)]
pub(in crate::field::bacnet) struct HubSite {
    site: Site,
    connector: Connector,
    directory: Directory,
    connect_timeout: Duration,
    bvlc_bytes_max: usize,
    /// The hub of the connection that there is, or that comes next.
    hub: Hub,
    request: Option<Request>,
    socket: Option<WebSocket>,
    /// Until when the WebSocket must be open.
    until: Option<Instant>,
    /// When the hub was reached.
    reached: Instant,
    /// The message that is coming in.
    message: Vec<u8>,
    is_stopping: bool,
    trouble: Option<String>,
    events: VecDeque<HubEvent>,
    now: Now,
}

impl HubSite {
    pub(in crate::field::bacnet) fn new(now: Now, client: ClientConfig, hub: &BacnetHub, seed: u64) -> Self {
        let config = ConnectorConfig {
            has_failover: hub.failover.is_some(),
            connect_timeout: hub.connect_timeout,
            heartbeat: hub.heartbeat,
            reconnect_max: hub.reconnect_max,
            seed,
            ..ConnectorConfig::new(hub.uuid, hub.vmac)
        };
        Self {
            site: Site::new(client).traced_by_link(),
            bvlc_bytes_max: usize::from(config.bvlc_bytes_max),
            connector: Connector::new(config),
            directory: Directory::default(),
            connect_timeout: hub.connect_timeout,
            hub: Hub::Primary,
            request: None,
            socket: None,
            until: None,
            reached: Instant::ZERO,
            message: Vec::new(),
            is_stopping: false,
            trouble: None,
            events: VecDeque::new(),
            now,
        }
    }

    pub(in crate::field::bacnet) const fn site(&self) -> &Site {
        &self.site
    }

    pub(in crate::field::bacnet) fn call<T>(&mut self, now: Now, call: impl FnOnce(&mut Site, Now) -> T) -> T {
        self.now = now;
        call(&mut self.site, now)
    }

    /// The hub that has accepted the node.
    pub(in crate::field::bacnet) const fn hub(&self) -> Option<Hub> {
        self.connector.hub()
    }

    /// The virtual address of the node.
    pub(in crate::field::bacnet) const fn vmac(&self) -> Vmac {
        self.connector.vmac()
    }

    pub(in crate::field::bacnet) fn counters(&self) -> Counters {
        let mut counters = self.connector.counters();
        counters.dropped += self.directory.dropped();
        counters
    }

    /// Why no hub is reached; none where one has accepted the node.
    pub(in crate::field::bacnet) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    pub(in crate::field::bacnet) const fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// A device is no longer looked for, once it has been sent what there is.
    pub(in crate::field::bacnet) fn forget(&mut self, now: Now, address: SocketAddrV4) {
        while self.pump(now) {}
        self.directory.forget(Vmac::from_address(address));
    }

    /// The next attempt, where there is no connection.
    fn next_dial(&self) -> Option<(Hub, Instant)> {
        self.connector.next_dial()
    }

    /// The next attempt at the primary hub, where the connection is one to the failover hub.
    fn standby(&self) -> Option<(Hub, Instant)> {
        match (self.hub, self.connector.next_dial()) {
            (Hub::Primary, _) => None,
            (Hub::Failover, Some((_, at))) => Some((Hub::Primary, at.max(self.reached + STANDBY_MIN))),
            (Hub::Failover, None) => Some((Hub::Primary, self.reached + STANDBY_MIN)),
        }
    }

    /// A hub could not be reached.
    fn dial_failed(&mut self, now: Now, hub: Hub) {
        self.connector.dial_failed(now, hub);
    }

    /// Says why a hub is not reached.
    fn set_trouble(&mut self, why: String) {
        if self.connector.hub().is_none() {
            self.trouble = Some(why);
        }
    }

    /// A hub is reached: the next connection is to it.
    fn dialled(&mut self, now: Now, hub: Hub, request: Request) {
        (self.hub, self.request, self.reached) = (hub, Some(request), now.mono);
    }

    /// Says goodbye; the connection ends then.
    fn leave(&mut self, now: Now) {
        while self.pump(now) {}
        self.connector.leave(now);
    }

    /// The same for good.
    pub(in crate::field::bacnet) fn stop(&mut self, now: Now) {
        self.is_stopping = true;
        self.leave(now);
    }

    /// Moves one message from the site to the connector; false where there is none.
    fn pump(&mut self, now: Now) -> bool {
        let mut datagram = Vec::new();
        if let Some(to) = self.site.next_datagram(now, &mut datagram) {
            let (to, npdu) = match Bvlc::parse(&datagram) {
                Ok(Bvlc::Unicast(npdu)) => (Vmac::from_address(to), npdu),
                Ok(Bvlc::Broadcast(npdu)) => (Vmac::BROADCAST, npdu),
                _ => return true,
            };
            // What is not sent is counted by the connector.
            if self.connector.hub().is_none() {
                let _ = self.connector.send(to, npdu);
            } else if let Found::Vmac(vmac) = self.directory.find(now, to, npdu) {
                let _ = self.connector.send(vmac, npdu);
            }
            return true;
        }
        if self.connector.hub().is_none() {
            return false;
        }
        let due = self.directory.poll(now);
        due.is_some_and(|(to, npdu)| {
            let _ = self.connector.send(to, &npdu);
            true
        })
    }

    /// The WebSocket is open from here on.
    fn opened(&mut self, now: Now) {
        self.until = None;
        self.connector.opened(now, self.hub);
    }

    /// A message is whole.
    fn message_ended(&mut self, now: Now) {
        let message = std::mem::take(&mut self.message);
        if message.len() > self.bvlc_bytes_max {
            self.connector.handle_too_long();
            if let Some(socket) = &mut self.socket {
                socket.close(CloseCode::TooBig);
            }
            return;
        }
        self.connector.handle_message(now, &message);
        if !self.gather(now, &message) {
            self.site.tap_all(now, Direction::Received, &message);
        }
        // Its memory is used again.
        self.message = message;
        self.message.clear();
    }

    /// Takes what the connector tells. Whether `message` was one of a device, which is traced then.
    fn gather(&mut self, now: Now, message: &[u8]) -> bool {
        let mut is_of_device = false;
        while let Some(event) = self.connector.poll_event() {
            match event {
                Event::Npdu { from, is_unicast, npdu } => {
                    let from = self.directory.heard(from, &npdu).to_address();
                    self.site.tap_carried(now, Direction::Received, from, (&npdu, message));
                    self.site.handle_carried(now, Carried { from, npdu: &npdu, is_unicast });
                    is_of_device = true;
                    continue;
                }
                Event::Up(..) => {
                    self.directory.restart();
                    self.trouble = None;
                }
                Event::Down(..) | Event::Renamed(_) | Event::Refused(..) => {}
            }
            self.events.push_back(HubEvent::Link(event));
        }
        is_of_device
    }

    /// Drops what the site has to send while no hub has accepted the node.
    fn drop_unsent(&mut self, now: Now) {
        while self.connector.hub().is_none() && self.pump(now) {}
    }
}

/// Traces a message that goes out. What is for no device, such as one between node and hub, is of all.
fn tap_sent(site: &Site, directory: &Directory, now: Now, bytes: &[u8]) {
    if !site.is_traced() {
        return;
    }
    let to_device = Message::parse(bytes).ok().and_then(|message| match message {
        Message { body: Body::Npdu(npdu), destination: Some(to), .. } if to != Vmac::BROADCAST => Some((to, npdu)),
        _ => None,
    });
    match to_device {
        Some((to, npdu)) => {
            let address = directory.known_as(to).to_address();
            site.tap_carried(now, Direction::Sent, address, (npdu, bytes));
        }
        None => site.tap_all(now, Direction::Sent, bytes),
    }
}

impl Machine for HubSite {
    type Event = HubEvent;

    fn handle_connected(&mut self, now: Now) {
        self.now = now;
        self.until = Some(now.mono + self.connect_timeout);
        self.socket = self.request.take().as_ref().map(WebSocket::client);
        self.message.clear();
    }

    fn handle_disconnected(&mut self, now: Now) {
        self.now = now;
        let socket = self.socket.take();
        if self.until.take().is_some() {
            let fault = socket.as_ref().and_then(WebSocket::response_fault);
            self.connector.dial_failed(now, self.hub);
            self.events.push_back(HubEvent::NotOpened(self.hub, fault));
        }
        self.connector.closed(now);
        self.gather(now, &[]);
        self.drop_unsent(now);
    }

    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize {
        self.now = now;
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            let Some(socket) = &mut self.socket else { return bytes.len() };
            let (message, bytes_max) = (&mut self.message, self.bvlc_bytes_max);
            let before = socket.messages();
            let taken = socket.handle_input(rest, |plain| {
                // One byte too many is kept, to tell.
                let room = (bytes_max + 1).saturating_sub(message.len());
                message.extend(plain.iter().take(room));
                plain.len()
            });
            let (is_open, is_whole) = (socket.is_open(), socket.messages() != before);
            if is_open && self.until.is_some() {
                self.opened(now);
            }
            if is_whole || self.message.len() > self.bvlc_bytes_max {
                self.message_ended(now);
            }
            used += taken;
            if taken == 0 {
                break;
            }
        }
        used
    }

    fn handle_timeout(&mut self, now: Now) {
        self.now = now;
        self.site.handle_due(now);
        self.connector.handle_timeout(now);
        self.gather(now, &[]);
        if self.until.is_some_and(|until| until <= now.mono) {
            // The connection ends: no answer will come.
            self.socket = None;
        }
        self.drop_unsent(now);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        self.now = now;
        loop {
            let Some(socket) = &mut self.socket else { return false };
            let (site, directory, connector) = (&self.site, &self.directory, &mut self.connector);
            let sent = socket.poll_transmit(out, |out| {
                let start = out.len();
                let sent = connector.poll_transmit(out);
                if sent {
                    tap_sent(site, directory, now, out.get(start..).unwrap_or_default());
                }
                sent
            });
            if sent {
                return true;
            }
            if self.connector.is_closing() && socket.is_open() {
                socket.close(CloseCode::Normal);
            } else if !self.pump(now) {
                return false;
            }
        }
    }

    fn poll_event(&mut self) -> Option<HubEvent> {
        let now = self.now;
        if self.connector.hub().is_none() {
            self.drop_unsent(now);
        }
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        self.site.next_event(now).map(HubEvent::Site)
    }

    fn timeout(&self) -> Option<Instant> {
        let directory = self.directory.timeout().filter(|_| self.connector.hub().is_some());
        let until = self.until.filter(|_| self.socket.is_some());
        let all = [self.site.deadline(), self.connector.timeout(), directory, until];
        all.into_iter().flatten().min()
    }

    fn is_closed(&self) -> bool {
        self.socket.as_ref().is_none_or(WebSocket::is_closed)
    }
}
