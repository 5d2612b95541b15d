//! Messages as text, for people: what a protocol trace prints.
//!
//! ```text
//! request 7 read-property analog-input,1 present-value
//! answer 7 read-property analog-input,1 present-value: 21.5
//! from network 100 mac 0c | error 8 write-property analog-output,1 present-value: property: write-access-denied
//! ```
//!
//! A [`Dissector`] follows the datagrams between a client and a device: an answer that names no property has that of its
//! request, and the segments of a long message are put together.

mod parameters;
mod secure;

use crate::apdu::{Apdu, Segment};
use crate::bvlc::{Bvlc, Carried};
use crate::names::{ConfirmedService, UnconfirmedService};
use crate::npdu::{Body, NETWORK_ALL, NetworkMessage, Npdu};
use crate::segments::{Arrived, Incoming};
use crate::{Decoded, Peer, PropertyRef, ServiceError, Station};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::net::SocketAddrV4;

/// Requests whose answers are waited for; the oldest is forgotten.
const OPEN_MAX: usize = 64;
/// Bytes of a message of many segments that are put together.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Who sent a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The client.
    Client,
    /// The device.
    Device,
}

/// One datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// One line.
    pub summary: String,
    /// What it holds, one thing a line.
    pub details: Vec<String>,
    /// Why the device refused, or why the datagram was not understood.
    pub refusal: Option<String>,
    /// The properties that it is about, of an answer those of its request.
    pub properties: Vec<PropertyRef>,
    /// The name of the service.
    pub service: Option<String>,
    /// Which request.
    pub invoke_id: Option<u8>,
    /// Where it comes from behind a router, or where it goes.
    pub station: Option<Station>,
}

/// A request that was seen, or a message of which segments were seen.
#[derive(Debug)]
struct Open {
    by: Sender,
    invoke_id: u8,
    properties: Vec<PropertyRef>,
    request: Option<Incoming>,
    answer: Option<Incoming>,
}

/// Follows the datagrams between a client and a device.
#[derive(Debug, Default)]
pub struct Dissector {
    open: VecDeque<Open>,
}

/// What a message of the application layer says.
#[derive(Debug, Default)]
struct Told {
    words: String,
    details: Vec<String>,
    refusal: Option<String>,
    properties: Vec<PropertyRef>,
}

impl Dissector {
    /// A dissector that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the requests that have no answer yet.
    pub fn restart(&mut self) {
        self.open.clear();
    }

    /// Takes the next datagram.
    pub fn datagram(&mut self, sender: Sender, datagram: &[u8]) -> Entry {
        let mut entry = Entry::default();
        if let Err(error) = self.link(sender, datagram, &mut entry) {
            entry.refusal = Some(error.to_string());
            if entry.summary.is_empty() {
                entry.summary = "no message of BACnet/IP".to_string();
            }
        }
        entry
    }

    fn link(&mut self, sender: Sender, datagram: &[u8], entry: &mut Entry) -> Decoded<()> {
        let npdu = match Bvlc::parse(datagram)? {
            Bvlc::Unicast(npdu) => npdu,
            Bvlc::Broadcast(npdu) => {
                entry.summary.push_str("broadcast | ");
                npdu
            }
            Bvlc::Forwarded(from, npdu) => {
                let _ = write!(entry.summary, "forwarded from {from} | ");
                npdu
            }
            Bvlc::DistributeBroadcast(npdu) => {
                entry.summary.push_str("distribute broadcast | ");
                npdu
            }
            Bvlc::RegisterForeignDevice(seconds) => {
                let _ = write!(entry.summary, "register foreign device for {seconds} s");
                return Ok(());
            }
            Bvlc::Result(code) => {
                let _ = write!(entry.summary, "result {code:#06x}");
                entry.refusal = (code != 0).then(|| format!("the link refuses: {code:#06x}"));
                return Ok(());
            }
            Bvlc::Other(function) => {
                let _ = write!(entry.summary, "function {function:#04x} of the link");
                return Ok(());
            }
        };
        self.network(sender, npdu, entry)
    }

    fn network(&mut self, sender: Sender, bytes: &[u8], entry: &mut Entry) -> Decoded<()> {
        let npdu = Npdu::parse(bytes)?;
        for (way, station) in [("to", npdu.destination), ("from", npdu.source)] {
            if let Some(station) = station {
                let _ = write!(entry.summary, "{way} {} | ", place(&station));
            }
        }
        if npdu.priority > 0 {
            let _ = write!(entry.summary, "priority {} | ", npdu.priority);
        }
        entry.station = npdu.source.or(npdu.destination);
        match npdu.body {
            Body::Network(message) => {
                network_message(&message, entry);
                Ok(())
            }
            Body::Apdu(bytes) => {
                let apdu = Apdu::parse(bytes)?;
                self.application(sender, &apdu, entry)
            }
        }
    }

    fn application(&mut self, sender: Sender, apdu: &Apdu<'_>, entry: &mut Entry) -> Decoded<()> {
        let (kind, invoke_id, service) = head(apdu);
        entry.invoke_id = invoke_id;
        entry.service = service.clone();
        entry.summary.push_str(kind);
        for word in [invoke_id.map(|id| id.to_string()), service].into_iter().flatten() {
            let _ = write!(entry.summary, " {word}");
        }
        let told = self.tell(sender, apdu);
        entry.properties = match invoke_id {
            Some(invoke_id) => self.properties(sender, apdu, invoke_id, &told),
            None => told.properties,
        };
        entry.details = told.details;
        if told.words.is_empty() {
            about(&entry.properties, &mut entry.summary);
        } else {
            let _ = write!(entry.summary, " {}", told.words);
        }
        entry.refusal = told.refusal;
        Ok(())
    }

    /// What the parameters say; what cannot be read is a refusal.
    fn tell(&mut self, sender: Sender, apdu: &Apdu<'_>) -> Told {
        let mut told = Told::default();
        let read = match *apdu {
            Apdu::ConfirmedRequest { segment: None, service, parameters, .. } => {
                parameters::request(service, parameters, &mut told)
            }
            Apdu::ComplexAck { segment: None, service, parameters, .. } => {
                parameters::answer(service, parameters, &mut told)
            }
            Apdu::ConfirmedRequest { segment: Some(segment), invoke_id, service, parameters, .. } => {
                let message = self.segment(sender, true, invoke_id, segment, parameters);
                tell_segment(segment, &mut told);
                message.map_or(Ok(()), |message| parameters::request(service, &message, &mut told))
            }
            Apdu::ComplexAck { segment: Some(segment), invoke_id, service, parameters } => {
                let message = self.segment(sender, false, invoke_id, segment, parameters);
                tell_segment(segment, &mut told);
                message.map_or(Ok(()), |message| parameters::answer(service, &message, &mut told))
            }
            Apdu::UnconfirmedRequest { service, parameters } => parameters::unconfirmed(service, parameters, &mut told),
            Apdu::SimpleAck { .. } => Ok(()),
            Apdu::SegmentAck { negative, sequence, window, .. } => {
                let _ = write!(told.words, "segment {sequence}, window {window}");
                told.refusal = negative.then(|| format!("no segment after {sequence} has arrived in order"));
                Ok(())
            }
            Apdu::Error { parameters, .. } => {
                ServiceError::parse(parameters).map(|error| told.refusal = Some(error.to_string()))
            }
            Apdu::Reject { reason, .. } => {
                told.refusal = Some(format!("rejected: {reason}"));
                Ok(())
            }
            Apdu::Abort { reason, .. } => {
                told.refusal = Some(format!("aborted: {reason}"));
                Ok(())
            }
        };
        if let Err(error) = read {
            told.refusal = Some(error.to_string());
        }
        told
    }

    /// The properties of a message: its own, or those of the request that it answers.
    fn properties(&mut self, sender: Sender, apdu: &Apdu<'_>, invoke_id: u8, told: &Told) -> Vec<PropertyRef> {
        let is_request = matches!(apdu, Apdu::ConfirmedRequest { .. });
        let by = asker(sender, apdu);
        let is_part = matches!(apdu, Apdu::ConfirmedRequest { segment: Some(_), .. });
        if is_request && (!told.properties.is_empty() || !is_part) {
            if let Some(open) = self.open(by, invoke_id) {
                open.properties.clone_from(&told.properties);
            }
            return told.properties.clone();
        }
        let known = self.open.iter().find(|open| open.by == by && open.invoke_id == invoke_id);
        match known.map(|open| open.properties.as_slice()).filter(|properties| !properties.is_empty()) {
            Some(properties) if told.properties.is_empty() => properties.to_vec(),
            Some(_) | None => told.properties.clone(),
        }
    }

    /// The request of a number, which is new where it was not seen.
    fn open(&mut self, by: Sender, invoke_id: u8) -> Option<&mut Open> {
        let place = self.open.iter().position(|open| open.by == by && open.invoke_id == invoke_id);
        let open = place.and_then(|place| self.open.remove(place));
        if self.open.len() >= OPEN_MAX {
            self.open.pop_front();
        }
        let new = || Open { by, invoke_id, properties: Vec::new(), request: None, answer: None };
        self.open.push_back(open.unwrap_or_else(new));
        self.open.back_mut()
    }

    /// Puts a segment to those before it; the message, where it is the last.
    fn segment(
        &mut self,
        sender: Sender,
        is_request: bool,
        invoke_id: u8,
        segment: Segment,
        bytes: &[u8],
    ) -> Option<Vec<u8>> {
        let by = if is_request { sender } else { other(sender) };
        let open = self.open(by, invoke_id)?;
        let part = if is_request { &mut open.request } else { &mut open.answer };
        if segment.sequence == 0 && part.as_ref().is_none_or(|part| part.sequence() != u8::MAX) {
            *part = Some(Incoming::new(bytes, segment.window, MESSAGE_BYTES_MAX));
            return if segment.more_follows { None } else { part.take().map(Incoming::into_message) };
        }
        match part.as_mut()?.take(segment.sequence, segment.more_follows, bytes) {
            Arrived::Complete => part.take().map(Incoming::into_message),
            Arrived::Quiet | Arrived::Acknowledge { .. } => None,
            Arrived::TooLong => {
                *part = None;
                None
            }
        }
    }
}

/// The device that a datagram is from, or for; `address` is that of the other end. None where it carries no message between
/// applications, or cannot be read: then it is of all who are reached there.
#[must_use]
pub fn peer_of(sender: Sender, address: SocketAddrV4, datagram: &[u8]) -> Option<Peer> {
    let Carried { from: address, npdu, .. } = Bvlc::parse(datagram).ok()?.carried(address)?;
    peer_of_npdu(sender, address, npdu)
}

/// The same of a message of the network layer.
#[must_use]
pub fn peer_of_npdu(sender: Sender, address: SocketAddrV4, npdu: &[u8]) -> Option<Peer> {
    let Npdu { destination, source, body: Body::Apdu(_), .. } = Npdu::parse(npdu).ok()? else { return None };
    let station = if sender == Sender::Client { destination } else { source };
    Some(Peer { address, station })
}

/// Who waits for the answer that a message is, or belongs to.
fn asker(sender: Sender, apdu: &Apdu<'_>) -> Sender {
    match apdu {
        Apdu::ConfirmedRequest { .. } | Apdu::UnconfirmedRequest { .. } => sender,
        Apdu::SimpleAck { .. } | Apdu::ComplexAck { .. } | Apdu::Error { .. } | Apdu::Reject { .. } => other(sender),
        Apdu::SegmentAck { from_server, .. } | Apdu::Abort { from_server, .. } => {
            if *from_server {
                other(sender)
            } else {
                sender
            }
        }
    }
}

const fn other(sender: Sender) -> Sender {
    match sender {
        Sender::Client => Sender::Device,
        Sender::Device => Sender::Client,
    }
}

/// The kind of a message, its number and its service.
fn head(apdu: &Apdu<'_>) -> (&'static str, Option<u8>, Option<String>) {
    let named = |service: &ConfirmedService| Some(service.to_string());
    match apdu {
        Apdu::ConfirmedRequest { invoke_id, service, .. } => ("request", Some(*invoke_id), named(service)),
        Apdu::UnconfirmedRequest { service, .. } => ("tells", None, Some(UnconfirmedService::to_string(service))),
        Apdu::SimpleAck { invoke_id, service } => ("done", Some(*invoke_id), named(service)),
        Apdu::ComplexAck { invoke_id, service, .. } => ("answer", Some(*invoke_id), named(service)),
        Apdu::SegmentAck { invoke_id, .. } => ("acknowledges", Some(*invoke_id), None),
        Apdu::Error { invoke_id, service, .. } => ("error", Some(*invoke_id), named(service)),
        Apdu::Reject { invoke_id, .. } => ("reject", Some(*invoke_id), None),
        Apdu::Abort { invoke_id, .. } => ("abort", Some(*invoke_id), None),
    }
}

fn tell_segment(segment: Segment, told: &mut Told) {
    let more = if segment.more_follows { "" } else { ", the last" };
    let _ = write!(told.words, "segment {}{more}", segment.sequence);
}

/// One property, or how many.
fn about(properties: &[PropertyRef], words: &mut String) {
    match properties {
        [] => {}
        [one] => {
            let _ = write!(words, " {one}");
        }
        several => {
            let _ = write!(words, " {} properties", several.len());
        }
    }
}

fn network_message(message: &NetworkMessage<'_>, entry: &mut Entry) {
    match message {
        NetworkMessage::WhoIsRouter(None) => entry.summary.push_str("who-is-router-to-network"),
        NetworkMessage::WhoIsRouter(Some(network)) => {
            let _ = write!(entry.summary, "who-is-router-to-network {network}");
        }
        NetworkMessage::IAmRouter(networks) => {
            entry.summary.push_str("i-am-router-to-network");
            for network in networks.iter() {
                let _ = write!(entry.summary, " {network}");
            }
        }
        NetworkMessage::Reject { reason, network } => {
            let _ = write!(entry.summary, "reject-message-to-network {network}");
            let why = match reason {
                1 => "there is no way to the network",
                2 => "the router is busy",
                3 => "the router does not know the message type",
                4 => "the message is too long",
                5 => "security",
                6 => "the address is too long",
                _ => "another reason",
            };
            entry.refusal = Some(format!("a router rejects the message: {why} ({reason})"));
        }
        NetworkMessage::Other(number, _) => {
            let _ = write!(entry.summary, "network message {number:#04x}");
        }
    }
}

/// `network 100 mac 0c`, or all of one, or all.
fn place(station: &Station) -> String {
    let mut text = match (station.network, station.mac.bytes()) {
        (NETWORK_ALL, _) => return "all networks".to_string(),
        (network, []) => return format!("all of network {network}"),
        (network, _) => format!("network {network} mac "),
    };
    station.mac.bytes().iter().for_each(|byte| {
        let _ = write!(text, "{byte:02x}");
    });
    text
}
