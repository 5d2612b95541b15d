//! Any bytes are survived; what is written is read as the same.

use crate::apdu::Apdu;
use crate::bvlc::Bvlc;
use crate::client::{Client, ClientConfig};
use crate::npdu::Npdu;
use crate::server::{Object, Server, ServerConfig};
use crate::service::{Notification, RangeAck, ReadMultiple, ReadMultipleAck, WriteMultiple, log_records};
use crate::{BitString, Date, ObjectId, ObjectType, Time, Value};
use core::net::{Ipv4Addr, SocketAddrV4};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;
use tieline_core::Now;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        any::<u64>().prop_map(Value::Unsigned),
        any::<i64>().prop_map(Value::Signed),
        (-1e30_f32..1e30).prop_map(Value::Real),
        (-1e300_f64..1e300).prop_map(Value::Double),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| Value::OctetString(bytes.into())),
        ".{0,40}".prop_map(|text| Value::CharacterString(text.into())),
        prop::collection::vec(any::<bool>(), 0..100).prop_map(|bits| Value::BitString(BitString::new(&bits))),
        any::<u32>().prop_map(Value::Enumerated),
        any::<[u8; 4]>().prop_map(|[year, month, day, weekday]| Value::Date(Date { year, month, day, weekday })),
        any::<[u8; 4]>()
            .prop_map(|[hour, minute, second, hundredths]| { Value::Time(Time { hour, minute, second, hundredths }) }),
        any::<u32>().prop_map(|bits| Value::ObjectId(ObjectId::from_bits(bits))),
        (any::<u8>(), prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(n, b)| Value::Context(n, b.into())),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        (0..=254_u8, prop::collection::vec(inner, 0..5)).prop_map(|(number, values)| Value::Constructed(number, values))
    })
}

/// Steps of the machines on bytes that may be anything behind a legal start.
pub(super) fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let tail = prop::collection::vec(any::<u8>(), 0..80);
    (0..6_usize, tail).prop_map(|(start, tail)| {
        let starts: [&[u8]; 6] =
            [&[], &[1, 0], &[1, 4, 0, 4, 1], &[1, 0, 0x30, 0], &[1, 0, 0x3C, 0, 0, 4], &[1, 0, 0x0C, 4, 0, 0, 4]];
        let npdu: Vec<u8> = starts[start].iter().copied().chain(tail).collect();
        let mut out = Vec::new();
        if start == 0 {
            out.extend(npdu)
        } else {
            Bvlc::Unicast(&npdu).emit(&mut out)
        }
        out
    })
}

proptest! {
    #[test]
    fn values_round_trip(values in prop::collection::vec(value(), 0..6)) {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| value.encode(&mut bytes));
        prop_assert_eq!(Value::decode(&bytes).map(Value::into_list), Ok(values));
    }

    #[test]
    fn any_bytes_are_survived_by_codecs(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(value) = Value::decode(&bytes) {
            let mut again = Vec::new();
            value.encode(&mut again);
            prop_assert!(Value::decode(&again).is_ok());
        }
        let _ = Bvlc::parse(&bytes);
        if let Ok(npdu) = Npdu::parse(&bytes) {
            let mut again = Vec::new();
            npdu.emit(&mut again);
            prop_assert_eq!(Npdu::parse(&again), Ok(npdu));
        }
        if let Ok(apdu) = Apdu::parse(&bytes) {
            let mut again = Vec::new();
            apdu.emit(&mut again);
            prop_assert_eq!(Apdu::parse(&again), Ok(apdu));
        }
        prop_assert!(ReadMultiple::new(&bytes).count() <= bytes.len());
        prop_assert!(ReadMultipleAck::new(&bytes).count() <= bytes.len());
        prop_assert!(WriteMultiple::new(&bytes).count() <= bytes.len());
        let _ = log_records(&bytes);
        let _ = RangeAck::parse(&bytes);
        let _ = Notification::parse(&bytes).map(|notification| notification.values());
    }

    #[test]
    fn any_datagrams_are_survived_by_the_machines(datagrams in prop::collection::vec(datagram(), 0..30)) {
        let from = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        let mut client = Client::new(ClientConfig::default());
        let mut server = Server::new(ServerConfig::default());
        server.add(Object::new(ObjectType::ANALOG_OUTPUT, 0, "a", Value::Real(0.0)));
        for datagram in &datagrams {
            client.handle_datagram(Now::default(), from, datagram);
            server.handle_datagram(Now::default(), from, datagram);
        }
        let mut out = Vec::new();
        let mut count = 0;
        while client.poll_transmit(Now::default(), &mut out).is_some() || server.poll_transmit(Now::default(), &mut out).is_some() {
            count += 1;
            prop_assert!(count <= 100);
        }
    }
}
