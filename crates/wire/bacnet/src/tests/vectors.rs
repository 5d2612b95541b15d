//! Messages of the examples of the standard (annex F, clause 6, annex J), byte by byte: each is read as what the example
//! says, and written as the same bytes.

use super::hex;
use crate::apdu::{Accepts, Apdu};
use crate::bvlc::Bvlc;
use crate::names::{ConfirmedService, ErrorClass, ErrorCode, RejectReason, Segmentation, UnconfirmedService};
use crate::npdu::{Body, NetworkMessage, Networks, Npdu};
use crate::service::{
    IAm, IHave, LogDatum, Notification, Range, RangeAck, RangeRequest, ReadAck, ReadMultiple, ReadMultipleAck,
    Subscription, WhoHas, WhoHasWhat, WhoIs, Write, WriteMultiple, encode_read_multiple, encode_write_multiple,
    log_records, parse_time,
};
use crate::{
    BitString, Date, DateTime, Mac, ObjectId, ObjectType, PropertyId, PropertyRef, ServiceError, Station, Time, Value,
};
use core::net::{Ipv4Addr, SocketAddrV4};
use std::boxed::Box;
use std::vec::Vec;

fn object(object_type: ObjectType, instance: u32) -> ObjectId {
    ObjectId::new(object_type, instance)
}

fn present(object_type: ObjectType, instance: u32) -> PropertyRef {
    PropertyRef::new(object(object_type, instance), PropertyId::PRESENT_VALUE)
}

/// A message is read and written as the same bytes; gives its parameters.
fn parameters(text: &str, service: u8) -> Vec<u8> {
    let bytes = hex(text);
    let apdu = Apdu::parse(&bytes).unwrap();
    let mut out = Vec::new();
    apdu.emit(&mut out);
    assert_eq!(out, bytes, "{text}");
    let (found, parameters) = match apdu {
        Apdu::ConfirmedRequest { service, parameters, .. }
        | Apdu::ComplexAck { service, parameters, .. }
        | Apdu::Error { service, parameters, .. } => (service.0, parameters),
        Apdu::UnconfirmedRequest { service, parameters } => (service.0, parameters),
        other => panic!("{other:?}"),
    };
    assert_eq!(found, service, "{text}");
    parameters.to_vec()
}

fn emitted(emit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    emit(&mut out);
    out
}

#[test]
fn headers_are_those_of_the_standard() {
    let check = |text: &str, expect: Apdu<'_>| {
        let bytes = hex(text);
        assert_eq!(Apdu::parse(&bytes), Ok(expect), "{text}");
        assert_eq!(emitted(|out| expect.emit(out)), bytes, "{text}");
    };
    let service = ConfirmedService::READ_PROPERTY;
    let accepts = Accepts { segmented: false, segments_code: 0, apdu_code: 4 };
    check(
        "00 04 01 0C 0C 00",
        Apdu::ConfirmedRequest { segment: None, accepts, invoke_id: 1, service, parameters: &[0x0C, 0] },
    );
    check("20 59 0F", Apdu::SimpleAck { invoke_id: 0x59, service: ConfirmedService::WRITE_PROPERTY });
    check("60 5C 06", Apdu::Reject { invoke_id: 0x5C, reason: RejectReason::PARAMETER_OUT_OF_RANGE });
    check("43 05 07 10", Apdu::SegmentAck { negative: true, from_server: true, invoke_id: 5, sequence: 7, window: 16 });
    for (text, what) in [("", "nothing"), ("80 00", "no type"), ("30 01", "short"), ("08 04 01 00", "short segment")] {
        assert!(Apdu::parse(&hex(text)).is_err(), "{what}");
    }
}

#[test]
fn read_property() {
    let request = parameters("00 00 01 0C 0C 00 00 00 05 19 55", 12);
    assert_eq!(PropertyRef::parse(&request), Ok(present(ObjectType::ANALOG_INPUT, 5)));
    assert_eq!(emitted(|out| present(ObjectType::ANALOG_INPUT, 5).emit(out)), request);
    let answer = parameters("30 01 0C 0C 00 00 00 05 19 55 3E 44 42 90 99 9A 3F", 12);
    let ack = ReadAck::parse(&answer).unwrap();
    assert_eq!(Value::decode(ack.value), Ok(Value::Real(72.3)));
    assert_eq!(emitted(|out| ack.emit(out)), answer);
    let error = parameters("50 01 0C 91 01 91 1F", 12);
    let expect = ServiceError::new(ErrorClass::OBJECT, ErrorCode::UNKNOWN_OBJECT);
    assert_eq!(ServiceError::parse(&error), Ok(expect));
    assert_eq!(ServiceError::parse(&hex("0E 91 01 91 1F 0F 1E 0C 00 00 00 01 19 55 1F")), Ok(expect));
}

#[test]
fn read_property_multiple() {
    let request = parameters("00 04 F1 0E 0C 00 00 00 10 1E 09 55 09 67 1F", 14);
    let references: Vec<_> = ReadMultiple::new(&request).map(Result::unwrap).collect();
    let object = object(ObjectType::ANALOG_INPUT, 16);
    assert_eq!(
        references,
        [PropertyRef::new(object, PropertyId::PRESENT_VALUE), PropertyRef::new(object, PropertyId::RELIABILITY)]
    );
    assert_eq!(emitted(|out| encode_read_multiple(&references, out)), request);
    let text = "30 02 0E 0C 00 00 00 21 1E 29 55 4E 44 42 29 33 33 4F 1F \
        0C 00 00 00 32 1E 29 55 5E 91 01 91 1F 5F 1F 0C 00 00 00 23 1E 29 55 4E 44 43 D9 D9 9A 4F 1F";
    let answer = parameters(text, 14);
    let expect = [
        (present(ObjectType::ANALOG_INPUT, 33), Ok(Value::Real(42.3))),
        (present(ObjectType::ANALOG_INPUT, 50), Err(ServiceError::new(ErrorClass::OBJECT, ErrorCode::UNKNOWN_OBJECT))),
        (present(ObjectType::ANALOG_INPUT, 35), Ok(Value::Real(435.7))),
    ];
    let mut results = ReadMultipleAck::new(&answer);
    let found: Vec<_> = core::iter::from_fn(|| results.next_value()).map(Result::unwrap).collect();
    assert_eq!(found, expect);
    let views: Vec<_> = ReadMultipleAck::new(&answer).map(Result::unwrap).collect();
    let decoded: Vec<_> = views.iter().map(|v| (v.reference, v.value.map(|v| Value::decode(v).unwrap()))).collect();
    assert_eq!(decoded, expect);
}

#[test]
fn write_property() {
    let request = parameters("00 04 59 0F 0C 00 80 00 01 19 55 3E 44 43 34 00 00 3F", 15);
    let write = Write { reference: present(ObjectType::ANALOG_VALUE, 1), value: Value::Real(180.0), priority: None };
    assert_eq!(Write::parse(&request), Ok(write.clone()));
    assert_eq!(emitted(|out| write.emit(out)), request);
    let relinquish = Write { value: Value::Null, priority: Some(8), ..write };
    let bytes = emitted(|out| relinquish.emit(out));
    assert_eq!(bytes, hex("0C 00 80 00 01 19 55 3E 00 3F 49 08"));
    assert_eq!(Write::parse(&bytes), Ok(relinquish));
    assert!(Write::parse(&hex("0C 00 80 00 01 19 55 3E 00 3F 49 11")).is_err());
}

#[test]
fn write_property_multiple() {
    let text = "00 04 01 10 0C 00 80 00 05 1E 09 55 2E 44 42 86 00 00 2F 1F \
        0C 00 80 00 06 1E 09 55 2E 44 42 86 00 00 2F 1F 0C 00 80 00 07 1E 09 55 2E 44 42 90 00 00 2F 1F";
    let request = parameters(text, 16);
    let writes: Vec<_> = WriteMultiple::new(&request).map(Result::unwrap).collect();
    let values: Vec<_> = writes.iter().map(|write| write.value.clone()).collect();
    assert_eq!(values, [Value::Real(67.0), Value::Real(67.0), Value::Real(72.0)]);
    assert_eq!(emitted(|out| encode_write_multiple(&writes, out)), request);
}

#[test]
fn changes_of_values() {
    let request = parameters("00 02 0F 05 09 12 1C 00 00 00 0A 29 01 39 00", 5);
    let object = object(ObjectType::ANALOG_INPUT, 10);
    let subscription = Subscription { process: 18, object, wanted: Some((true, 0)) };
    assert_eq!(Subscription::parse(&request), Ok(subscription));
    assert_eq!(emitted(|out| subscription.emit(out)), request);
    let cancel = Subscription { wanted: None, ..subscription };
    assert_eq!(Subscription::parse(&emitted(|out| cancel.emit(out))), Ok(cancel));
    let text = "10 02 09 12 1C 02 00 00 04 2C 00 00 00 0A 39 00 4E 09 55 2E 44 42 82 00 00 2F 09 6F 2E 82 04 00 2F 4F";
    let told = parameters(text, 2);
    let notification = Notification::parse(&told).unwrap();
    let normal = BitString::new(&[false; 4]);
    assert_eq!((notification.process, notification.device), (18, ObjectId::device(4)));
    assert_eq!(
        notification.values().unwrap(),
        [
            (PropertyId::PRESENT_VALUE, None, Value::Real(65.0)),
            (PropertyId::STATUS_FLAGS, None, Value::BitString(normal))
        ]
    );
    assert_eq!(emitted(|out| notification.emit(out)), told);
}

#[test]
fn who_is_there() {
    let check = |text: &str, range| {
        let request = parameters(text, 8);
        assert_eq!(WhoIs::parse(&request), Ok(WhoIs { range }));
        assert_eq!(emitted(|out| WhoIs { range }.emit(out)), request);
    };
    check("10 08", None);
    check("10 08 09 03 19 03", Some((3, 3)));
    check("10 08 0B 0F 42 40 1B 3F FF FF", Some((1_000_000, 4_194_303)));
    assert!(WhoIs::parse(&hex("09 03")).is_err());
    let answer = parameters("10 00 C4 02 00 00 01 22 01 E0 91 01 21 63", 0);
    let i_am = IAm { device: ObjectId::device(1), max_apdu: 480, segmentation: Segmentation::TRANSMIT, vendor: 99 };
    assert_eq!(IAm::parse(&answer), Ok(i_am));
    assert_eq!(emitted(|out| i_am.emit(out)), answer);
}

#[test]
fn who_has_what() {
    let check = |text: &str, what: WhoHasWhat| {
        let request = parameters(text, 7);
        let who_has = WhoHas { range: None, what };
        assert_eq!(WhoHas::parse(&request).as_ref(), Ok(&who_has));
        assert_eq!(emitted(|out| who_has.emit(out)), request);
    };
    check("10 07 3D 07 00 4F 41 54 65 6D 70", WhoHasWhat::Name("OATemp".into()));
    check("10 07 2C 00 00 00 03", WhoHasWhat::Object(object(ObjectType::ANALOG_INPUT, 3)));
    let answer = parameters("10 01 C4 02 00 00 08 C4 00 00 00 03 75 07 00 4F 41 54 65 6D 70", 1);
    let i_have =
        IHave { device: ObjectId::device(8), object: object(ObjectType::ANALOG_INPUT, 3), name: "OATemp".into() };
    assert_eq!(IHave::parse(&answer).as_ref(), Ok(&i_have));
    assert_eq!(emitted(|out| i_have.emit(out)), answer);
}

#[test]
fn times() {
    let request = parameters("10 06 A4 5C 0B 11 02 B4 16 2D 1E 46", UnconfirmedService::TIME_SYNCHRONIZATION.0);
    let at = DateTime {
        date: Date { year: 92, month: 11, day: 17, weekday: 2 },
        time: Time { hour: 22, minute: 45, second: 30, hundredths: 70 },
    };
    assert_eq!(parse_time(&request), Ok(at));
    assert_eq!(emitted(|out| crate::service::emit_time(at, out)), request);
    let moment = "1992-11-17T22:45:30.700Z".parse().unwrap();
    assert_eq!(at.timestamp(0), Some(moment));
    assert_eq!(DateTime::from_timestamp(moment, 0), at);
}

#[test]
fn read_range() {
    let request = parameters("02 02 01 1A 0C 05 00 00 01 19 83 7E A4 62 03 17 01 B4 13 34 22 00 31 04 7F", 26);
    let at = DateTime {
        date: Date { year: 98, month: 3, day: 23, weekday: 1 },
        time: Time { hour: 19, minute: 52, second: 34, hundredths: 0 },
    };
    let reference = PropertyRef::new(object(ObjectType::TREND_LOG, 1), PropertyId::LOG_BUFFER);
    let range = RangeRequest { reference, range: Some(Range::Time(at, 4)) };
    assert_eq!(RangeRequest::parse(&request), Ok(range));
    assert_eq!(emitted(|out| range.emit(out)), request);
    let text = "30 01 1A 0C 05 00 00 01 19 83 3A 05 C0 49 02 5E \
        0E A4 62 03 17 01 B4 13 36 1B 00 0F 1E 2C 41 90 00 00 1F 2A 04 00 \
        0E A4 62 03 17 01 B4 13 38 1B 00 0F 1E 2C 41 90 CC CD 1F 2A 04 00 5F 6B 01 35 61";
    let answer = parameters(text, 26);
    let ack = RangeAck::parse(&answer).unwrap();
    assert!(ack.has_first && ack.has_last && !ack.has_more);
    assert_eq!((ack.count, ack.first_sequence), (2, Some(79_201)));
    let records = log_records(ack.items).unwrap();
    let data: Vec<_> = records.iter().map(|record| record.datum.clone()).collect();
    assert_eq!(data, [LogDatum::Value(Value::Real(18.0)), LogDatum::Value(Value::Real(18.1))]);
    assert_eq!(emitted(|out| records.iter().for_each(|record| record.emit(out))), ack.items);
    assert_eq!(emitted(|out| ack.emit(out)), answer);
}

#[test]
fn values_of_every_data_type() {
    let check = |text: &str, expect: Value| {
        let bytes = hex(text);
        assert_eq!(Value::decode(&bytes), Ok(expect.clone()), "{text}");
        assert_eq!(emitted(|out| expect.encode(out)), bytes, "{text}");
    };
    // Clause 20.2.2 to 20.2.14.
    check("00", Value::Null);
    check("10", Value::Boolean(false));
    check("11", Value::Boolean(true));
    check("21 48", Value::Unsigned(72));
    check("31 48", Value::Signed(72));
    check("31 B8", Value::Signed(-72));
    check("32 FF 00", Value::Signed(-256));
    check("44 42 90 00 00", Value::Real(72.0));
    check("55 08 40 52 00 00 00 00 00 00", Value::Double(72.0));
    check("63 12 34 FF", Value::OctetString(Box::from([0x12, 0x34, 0xFF])));
    check(
        "75 19 00 54 68 69 73 20 69 73 20 61 20 42 41 43 6E 65 74 20 73 74 72 69 6E 67 21",
        "This is a BACnet string!".into(),
    );
    check("82 03 A8", Value::BitString(BitString::new(&[true, false, true, false, true])));
    check("91 00", Value::Enumerated(0));
    check("A4 5B 01 18 05", Value::Date(Date { year: 91, month: 1, day: 24, weekday: 5 }));
    check("B4 11 23 2D 11", Value::Time(Time { hour: 17, minute: 35, second: 45, hundredths: 17 }));
    check("C4 00 C0 00 0F", Value::ObjectId(object(ObjectType::BINARY_INPUT, 15)));
    check("2E 21 05 2F", Value::Constructed(2, std::vec![Value::Unsigned(5)]));
    check(
        "0C 00 00 00 01 19 55",
        Value::List(std::vec![Value::Context(0, Box::from([0, 0, 0, 1])), Value::Context(1, Box::from([0x55])),]),
    );
    check("", Value::List(Vec::new()));
    for bad in
        ["25 09 00 00 00 00 00 00 00 00 00", "20", "43 00 00 00", "12", "82 09 00", "1F", "2E 21 05", "D1 00", "70"]
    {
        assert!(Value::decode(&hex(bad)).is_err(), "{bad}");
    }
    assert!(Value::decode(&[0x0E; 40]).is_err());
}

#[test]
fn words_come_in_many_character_sets() {
    let check = |text: &str, expect: &str| assert_eq!(Value::decode(&hex(text)), Ok(expect.into()), "{text}");
    check("75 06 00 C2 B0 43 C3 A9", "°C\u{e9}");
    check("73 05 B0 43", "°C");
    check("75 05 04 00 B0 00 43", "°C");
    check("75 05 04 D8 3D DE 00", "😀");
    check("75 05 03 00 00 00 43", "C");
    // Latin-1 that is labelled UTF-8, and a code page that is not known.
    check("73 00 B0 43", "\u{FFFD}C");
    check("75 05 01 03 52 B0 43", "\u{3}R\u{FFFD}C");
}

#[test]
fn the_network_layer() {
    let check = |text: &str, expect: Npdu<'_>| {
        let bytes = hex(text);
        assert_eq!(Npdu::parse(&bytes), Ok(expect), "{text}");
        assert_eq!(emitted(|out| expect.emit(out)), bytes, "{text}");
    };
    let who_is = [0x10, 0x08];
    let local = Npdu::local(&who_is, false);
    let station = |network, mac: &[u8]| Some(Station { network, mac: Mac::new(mac).unwrap() });
    check("01 00 10 08", local);
    check("01 04 10 08", Npdu { expects_reply: true, ..local });
    check("01 20 FF FF 00 FF 10 08", Npdu { destination: station(0xFFFF, &[]), ..local });
    check("01 08 00 05 01 0C 10 08", Npdu { source: station(5, &[0x0C]), ..local });
    check(
        "01 28 00 02 01 14 00 05 01 0C FF 10 08",
        Npdu { destination: station(2, &[0x14]), source: station(5, &[0x0C]), ..local },
    );
    let network = |message| Npdu { body: Body::Network(message), ..local };
    check("01 80 00", network(NetworkMessage::WhoIsRouter(None)));
    check("01 80 00 00 05", network(NetworkMessage::WhoIsRouter(Some(5))));
    check("01 80 01 00 05 00 06", network(NetworkMessage::IAmRouter(Networks(&[0, 5, 0, 6]))));
    check("01 80 03 01 00 05", network(NetworkMessage::Reject { reason: 1, network: 5 }));
    check("01 80 12 00 05", network(NetworkMessage::Other(0x12, &[0, 5])));
    for bad in ["02 00", "01", "01 20 FF FF", "01 08 00 05 00 10 08", "01 20 00 01 09 00 00 00 00 00 00 00 00 00 FF"] {
        assert!(Npdu::parse(&hex(bad)).is_err(), "{bad}");
    }
}

#[test]
fn the_link() {
    let check = |text: &str, expect: Bvlc<'_>| {
        let bytes = hex(text);
        assert_eq!(Bvlc::parse(&bytes), Ok(expect), "{text}");
        assert_eq!(emitted(|out| expect.emit(out)), bytes, "{text}");
    };
    check("81 0A 00 08 01 00 10 08", Bvlc::Unicast(&[1, 0, 0x10, 8]));
    check("81 0B 00 08 01 00 10 08", Bvlc::Broadcast(&[1, 0, 0x10, 8]));
    check("81 09 00 08 01 00 10 08", Bvlc::DistributeBroadcast(&[1, 0, 0x10, 8]));
    check("81 05 00 06 00 3C", Bvlc::RegisterForeignDevice(60));
    check("81 00 00 06 00 30", Bvlc::Result(0x30));
    let from = SocketAddrV4::new(Ipv4Addr::new(192, 168, 1, 5), 0xBAC0);
    check("81 04 00 0E C0 A8 01 05 BA C0 01 00 10 08", Bvlc::Forwarded(from, &[1, 0, 0x10, 8]));
    check("81 02 00 04", Bvlc::Other(2));
    for bad in ["", "82 0A 00 04", "81 0A 00 05", "81 0A 00 03", "81 05 00 05 00", "81 04 00 06 C0 A8"] {
        assert!(Bvlc::parse(&hex(bad)).is_err(), "{bad}");
    }
}
