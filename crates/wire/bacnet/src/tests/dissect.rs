//! Datagrams as text.

use super::network::{CLIENT, Network, address};
use crate::client::{ClientConfig, Request, Target};
use crate::dissect::{Dissector, Entry, Sender, peer_of};
use crate::server::{Object, ServerConfig};
use crate::service::{Subscription, Write};
use crate::{ObjectId, ObjectType, Peer, PropertyId, PropertyRef, Value};
use proptest::prelude::*;
use std::format;
use std::string::String;
use std::vec::Vec;

fn entry_line(entry: &Entry) -> String {
    let mut text = entry.summary.clone();
    entry.details.iter().for_each(|line| text.push_str(&format!("\n  {line}")));
    entry.refusal.iter().for_each(|refusal| text.push_str(&format!("\n  error: {refusal}")));
    text
}

/// What is said between a client and a device, as text.
fn said(network: &mut Network, dissector: &mut Dissector) -> Vec<String> {
    let before = network.trace.len();
    network.run(core::time::Duration::from_secs(30));
    let lines = network.trace[before..].iter().map(|(_, from, _, bytes)| {
        let sender = if *from == CLIENT { Sender::Client } else { Sender::Device };
        entry_line(&dissector.datagram(sender, bytes))
    });
    lines.collect()
}

#[test]
fn services_are_shown_with_what_they_say() {
    let mut network = Network::new(ClientConfig::default(), 1);
    let peer = network.serve(1, ServerConfig { instance: 7, ..ServerConfig::default() }, 2);
    let mut dissector = Dissector::new();
    let value =
        |instance| PropertyRef::new(ObjectId::new(ObjectType::ANALOG_VALUE, instance), PropertyId::PRESENT_VALUE);
    let mut ask = |request: Request<'_>| {
        network.client.request(network.now, peer, request).unwrap();
        said(&mut network, &mut dissector)
    };
    assert_eq!(
        ask(Request::Read(value(1))),
        [
            "request 0 read-property analog-value,1 present-value",
            "answer 0 read-property analog-value,1 present-value: 0.25"
        ]
    );
    assert_eq!(
        ask(Request::Read(value(9))),
        [
            "request 1 read-property analog-value,9 present-value",
            "error 1 read-property analog-value,9 present-value\n  error: object: unknown-object"
        ]
    );
    assert_eq!(
        ask(Request::ReadMultiple(&[value(0), value(9)])),
        [
            "request 2 read-property-multiple 2 properties\n  analog-value,0 present-value\n  analog-value,9 present-value",
            "answer 2 read-property-multiple 2 properties\n  analog-value,0 present-value: 0\n  \
             analog-value,9 present-value: error object: unknown-object\n  \
             error: analog-value,9 present-value: object: unknown-object"
        ]
    );
    let output = PropertyRef::new(ObjectId::new(ObjectType::ANALOG_OUTPUT, 1), PropertyId::PRESENT_VALUE);
    let write = Write { reference: output, value: Value::Real(4.5), priority: Some(8) };
    assert_eq!(
        ask(Request::Write(&write)),
        [
            "request 3 write-property analog-output,1 present-value: 4.5 priority 8",
            "done 3 write-property analog-output,1 present-value"
        ]
    );
    let subscription = Subscription { process: 5, object: output.object, wanted: Some((false, 60)) };
    assert_eq!(
        ask(Request::Subscribe(subscription)),
        [
            "request 4 subscribe-cov analog-output,1 process 5, unconfirmed, for 60 s",
            "done 4 subscribe-cov analog-output,1 present-value",
            "tells unconfirmed-cov-notification analog-output,1 of device,7, process 5, 60 s left\n  \
             analog-output,1 present-value: 4.5\n  analog-output,1 status-flags: 0000"
        ]
    );
    network.client.discover(Target::Peer(peer), 0, 100, 101).unwrap();
    assert_eq!(
        said(&mut network, &mut dissector),
        ["tells who-is 0-100", "tells i-am device,7 max-apdu 1476 segmented-both vendor 0"]
    );
}

#[test]
fn segments_are_put_together() {
    let mut network = Network::new(ClientConfig { max_apdu: 206, ..ClientConfig::default() }, 1);
    let peer = network.serve(1, ServerConfig::default(), 1);
    let server = network.servers.get_mut(&peer.address).unwrap();
    let long = "long ".repeat(100);
    server.add(Object::new(ObjectType::ANALOG_VALUE, 5, "v", Value::Real(0.0)).with_description(&long));
    let reference = PropertyRef::new(ObjectId::new(ObjectType::ANALOG_VALUE, 5), PropertyId::DESCRIPTION);
    network.client.request(network.now, peer, Request::Read(reference)).unwrap();
    let lines = said(&mut network, &mut Dissector::new());
    assert!(lines.iter().any(|line| line.starts_with("answer 0 read-property segment 0")), "{lines:?}");
    let last = lines.iter().find(|line| line.contains("the last")).unwrap();
    assert!(last.contains("analog-value,5 description: long long"), "{last}");
    assert!(lines.iter().any(|line| line.starts_with("acknowledges 0 segment 0, window")), "{lines:?}");
}

#[test]
fn datagrams_are_of_a_device_or_of_all_at_an_address() {
    let at = address(9);
    let routed = [0x81, 0x0A, 0x00, 0x0C, 0x01, 0x08, 0x00, 0x64, 0x01, 0x0C, 0x10, 0x08];
    let peer = peer_of(Sender::Device, at, &routed).unwrap();
    assert_eq!(peer, Peer::routed(at, crate::Station { network: 100, mac: crate::Mac::new(&[12]).unwrap() }));
    let reject = [0x81, 0x0A, 0x00, 0x0A, 0x01, 0x80, 0x03, 0x01, 0x00, 0x64];
    assert_eq!(peer_of(Sender::Device, at, &reject), None);
    let entry = Dissector::new().datagram(Sender::Device, &reject);
    assert_eq!(
        entry_line(&entry),
        "reject-message-to-network 100\n  error: a router rejects the message: there is no way to the network (1)"
    );
    let entry = Dissector::new().datagram(Sender::Device, &routed);
    assert_eq!(entry.summary, "from network 100 mac 0c | tells who-is");
}

proptest! {
    #[test]
    fn any_datagrams_are_survived(datagrams in prop::collection::vec((any::<bool>(), super::properties::datagram()), 0..40)) {
        let mut dissector = Dissector::new();
        for (is_client, datagram) in &datagrams {
            let sender = if *is_client { Sender::Client } else { Sender::Device };
            let entry = dissector.datagram(sender, datagram);
            prop_assert!(!entry.summary.is_empty() && entry.details.len() <= 201);
            let _ = peer_of(sender, address(1), datagram);
        }
    }
}
