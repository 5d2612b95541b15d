//! What a datagram does to a client.

use super::transaction::Key;
use super::{Change, Client, Event, Failure};
use crate::apdu::Apdu;
use crate::bvlc::{Bvlc, Carried};
use crate::names::{AbortReason, ConfirmedService, RejectReason, UnconfirmedService};
use crate::npdu::{Body, NETWORK_ALL, NetworkMessage, Npdu};
use crate::service::{IAm, IHave, Notification, parse_time};
use crate::{Decoded, Peer, ServiceError};
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use tieline_core::Now;

/// The reason of a router that is only busy (clause 6.4.4).
const ROUTER_BUSY: u8 = 2;
/// Networks of one router that are told at most.
const NETWORKS_MAX: usize = 512;

impl Client {
    /// Takes a datagram and the address that it came from.
    pub fn handle_datagram(&mut self, now: Now, from: SocketAddrV4, datagram: &[u8]) {
        self.counters.received += 1;
        if self.take_datagram(now, from, datagram).is_err() {
            self.counters.malformed += 1;
        }
    }

    /// Takes a message of the network layer that came by another link than BACnet/IP.
    pub fn handle_carried(&mut self, now: Now, carried: Carried<'_>) {
        self.counters.received += 1;
        if self.handle_npdu(now, carried).is_err() {
            self.counters.malformed += 1;
        }
    }

    fn take_datagram(&mut self, now: Now, from: SocketAddrV4, datagram: &[u8]) -> Decoded<()> {
        let message = Bvlc::parse(datagram)?;
        if let Some(carried) = message.carried(from) {
            return self.handle_npdu(now, carried);
        }
        let is_bbmd = self.config.foreign.is_some_and(|foreign| foreign.bbmd == from);
        match message {
            Bvlc::Result(code) if is_bbmd => self.handle_result(now, code),
            Bvlc::Result(_) => {}
            Bvlc::RegisterForeignDevice(_)
            | Bvlc::DistributeBroadcast(_)
            | Bvlc::Other(_)
            | Bvlc::Unicast(_)
            | Bvlc::Broadcast(_)
            | Bvlc::Forwarded(..) => self.counters.unexpected += 1,
        }
        Ok(())
    }

    /// Takes a message of the network layer. Only what was sent to this client alone can answer a request.
    fn handle_npdu(&mut self, now: Now, carried: Carried<'_>) -> Decoded<()> {
        let Carried { from: address, npdu, is_unicast } = carried;
        let npdu = Npdu::parse(npdu)?;
        if npdu.destination.is_some_and(|destination| destination.network != NETWORK_ALL) {
            self.counters.unexpected += 1;
            return Ok(());
        }
        let peer = Peer { address, station: npdu.source };
        match npdu.body {
            Body::Network(message) => {
                self.handle_network_message(now, address, message);
                Ok(())
            }
            Body::Apdu(bytes) => match Apdu::parse(bytes)? {
                Apdu::UnconfirmedRequest { service, parameters } => self.handle_unconfirmed(peer, service, parameters),
                apdu if is_unicast => {
                    self.handle_unicast(now, peer, apdu);
                    Ok(())
                }
                _ => {
                    self.counters.unexpected += 1;
                    Ok(())
                }
            },
        }
    }

    fn handle_network_message(&mut self, now: Now, address: SocketAddrV4, message: NetworkMessage<'_>) {
        match message {
            NetworkMessage::IAmRouter(networks) => {
                let networks = networks.iter().take(NETWORKS_MAX).collect();
                self.tell(Event::Router(address, networks));
            }
            NetworkMessage::Reject { reason, network } if reason != ROUTER_BUSY => {
                let is_there = |peer: &Peer| {
                    peer.address == address && peer.station.is_some_and(|station| station.network == network)
                };
                let failed: Vec<_> = self.transactions.keys().filter(|(peer, _)| is_there(peer)).copied().collect();
                for (peer, pending) in self.peers.take_queues(is_there) {
                    let result = Err(Failure::Unreachable(reason));
                    self.events.push_back(Event::Answer { id: pending.id, peer, service: pending.service, result });
                }
                for key in failed {
                    self.finish(now, key, Err(Failure::Unreachable(reason)));
                }
            }
            NetworkMessage::Reject { .. } | NetworkMessage::WhoIsRouter(_) | NetworkMessage::Other(..) => {}
        }
    }

    fn handle_unconfirmed(&mut self, peer: Peer, service: UnconfirmedService, parameters: &[u8]) -> Decoded<()> {
        match service {
            UnconfirmedService::I_AM => self.tell(Event::IAm(peer, IAm::parse(parameters)?)),
            UnconfirmedService::I_HAVE => self.tell(Event::IHave(peer, IHave::parse(parameters)?)),
            UnconfirmedService::COV_NOTIFICATION => {
                let change = change(parameters, false)?;
                self.tell(Event::Changed(peer, change));
            }
            UnconfirmedService::TIME_SYNCHRONIZATION | UnconfirmedService::UTC_TIME_SYNCHRONIZATION => {
                let at = parse_time(parameters)?;
                let is_utc = service == UnconfirmedService::UTC_TIME_SYNCHRONIZATION;
                self.tell(Event::TimeSet(peer, at.date, at.time, is_utc));
            }
            _ => self.counters.unexpected += 1,
        }
        Ok(())
    }

    fn handle_unicast(&mut self, now: Now, peer: Peer, apdu: Apdu<'_>) {
        match apdu {
            Apdu::ConfirmedRequest { segment: None, invoke_id, service, parameters, .. } => {
                self.handle_request(peer, invoke_id, service, parameters);
            }
            Apdu::ConfirmedRequest { segment: Some(_), invoke_id, .. } => {
                let reason = AbortReason::SEGMENTATION_NOT_SUPPORTED;
                self.send_apdu(&peer, &Apdu::Abort { from_server: true, invoke_id, reason });
            }
            Apdu::SimpleAck { invoke_id, service } => {
                self.handle_answer(now, (peer, invoke_id), service, Ok(&[]));
            }
            Apdu::ComplexAck { segment: None, invoke_id, service, parameters } => {
                self.handle_answer(now, (peer, invoke_id), service, Ok(parameters));
            }
            Apdu::ComplexAck { segment: Some(segment), invoke_id, service, parameters } => {
                self.handle_segment(now, (peer, invoke_id), service, segment, parameters);
            }
            Apdu::Error { invoke_id, service, parameters } => {
                let failure = ServiceError::parse(parameters).map_or(Failure::Malformed, Failure::Error);
                self.handle_answer(now, (peer, invoke_id), service, Err(failure));
            }
            Apdu::SegmentAck { negative, from_server: true, invoke_id, sequence, window } => {
                self.handle_segment_ack(now, (peer, invoke_id), negative, sequence, window);
            }
            Apdu::Reject { invoke_id, reason } => {
                if self.is_open(&(peer, invoke_id)) {
                    self.finish(now, (peer, invoke_id), Err(Failure::Reject(reason)));
                }
            }
            Apdu::Abort { from_server: true, invoke_id, reason } => {
                if self.is_open(&(peer, invoke_id)) {
                    self.finish(now, (peer, invoke_id), Err(Failure::Abort(reason)));
                }
            }
            Apdu::SegmentAck { .. } | Apdu::Abort { .. } | Apdu::UnconfirmedRequest { .. } => {
                self.counters.unexpected += 1;
            }
        }
    }

    fn handle_answer(&mut self, now: Now, key: Key, service: ConfirmedService, result: Result<&[u8], Failure>) {
        if self.is_expected(&key, service) {
            self.finish(now, key, result.map(<[u8]>::to_vec));
        }
    }

    /// A device asks something of the client: only to take changed values is what it does.
    fn handle_request(&mut self, peer: Peer, invoke_id: u8, service: ConfirmedService, parameters: &[u8]) {
        if service != ConfirmedService::COV_NOTIFICATION {
            let reason = RejectReason::UNRECOGNIZED_SERVICE;
            return self.send_apdu(&peer, &Apdu::Reject { invoke_id, reason });
        }
        let Ok(change) = change(parameters, true) else {
            self.counters.malformed += 1;
            let reason = RejectReason::INVALID_TAG;
            return self.send_apdu(&peer, &Apdu::Reject { invoke_id, reason });
        };
        // Without a place for it the device gets no acknowledgement, and tells again.
        if self.has_room() {
            self.events.push_back(Event::Changed(peer, change));
            self.send_apdu(&peer, &Apdu::SimpleAck { invoke_id, service });
        }
    }
}

fn change(parameters: &[u8], confirmed: bool) -> Decoded<Change> {
    let notification = Notification::parse(parameters)?;
    let values = notification.values()?;
    let Notification { process, device, object, remaining, list: _ } = notification;
    Ok(Change { process, device, object, remaining, values, confirmed })
}
