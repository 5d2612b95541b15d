//! Messages of the virtual link: golden bytes, what is refused and with which error, properties.

use crate::names::{ErrorClass, ErrorCode};
use crate::sc::{Advertisement, Body, Connect, HeaderOption, Message, Nak, Options, Uuid, Vmac};
use crate::tests::hex;
use crate::{DecodeError, ServiceError};
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;

const NODE: Vmac = Vmac([0x02, 1, 2, 3, 4, 5]);
const OTHER: Vmac = Vmac([0x52, 9, 8, 7, 6, 5]);

fn connect() -> Connect {
    let uuid = "00112233-4455-6677-8899-aabbccddeeff".parse().unwrap();
    Connect { vmac: NODE, uuid, bvlc_bytes_max: 1600, npdu_bytes_max: 1497 }
}

fn check(bytes: &str, message: Message<'_>) {
    let bytes = hex(bytes);
    assert_eq!(Message::parse(&bytes), Ok(message));
    let mut out = Vec::new();
    message.emit(&mut out);
    assert_eq!(out, bytes);
}

#[test]
fn messages_between_the_ends_of_a_connection() {
    let connect_bytes = "020102030405 00112233445566778899aabbccddeeff 0640 05d9";
    check(&["06 00 0001", connect_bytes].concat(), Message::new(1, Body::ConnectRequest(connect())));
    check(&["07 00 0001", connect_bytes].concat(), Message::new(1, Body::ConnectAccept(connect())));
    check("08 00 fffe", Message::new(0xFFFE, Body::DisconnectRequest));
    check("09 00 fffe", Message::new(0xFFFE, Body::DisconnectAck));
    check("0a 00 0102", Message::new(0x0102, Body::HeartbeatRequest));
    check("0b 00 0102", Message::new(0x0102, Body::HeartbeatAck));
    check("00 00 0007 06 00", Message::new(7, Body::Result(6, Ok(()))));
    let error = ServiceError::new(ErrorClass::COMMUNICATION, ErrorCode::NODE_DUPLICATE_VMAC);
    let nak = Nak { marker: 0, error, details: "taken" };
    check("00 00 0007 06 01 00 0007 0097 74616b656e", Message::new(7, Body::Result(6, Err(nak))));
}

#[test]
fn messages_of_nodes() {
    // A Who-Is to all, as a hub passes it on.
    let who_is = hex("01 20 ffff 00 ff 10 08");
    let message = Message { origin: Some(NODE), ..Message::new(3, Body::Npdu(&who_is)).to(Some(Vmac::BROADCAST)) };
    check("01 0c 0003 020102030405 ffffffffffff 0120ffff00ff1008", message);
    check("01 04 0004 520908070605 01001008", Message::new(4, Body::Npdu(&hex("01001008"))).to(Some(OTHER)));
    check("02 08 0005 020102030405", Message { origin: Some(NODE), ..Message::new(5, Body::AddressResolution) });
    check(
        "03 04 0005 020102030405 7773733a2f2f61",
        Message::new(5, Body::AddressResolutionAck("wss://a")).to(Some(NODE)),
    );
    let advertisement = Advertisement { hub: 2, takes_direct: true, bvlc_bytes_max: 1600, npdu_bytes_max: 1497 };
    check("04 00 0006 02 01 0640 05d9", Message::new(6, Body::Advertisement(advertisement)));
    check("05 00 0006", Message::new(6, Body::AdvertisementSolicitation));
    check(
        "0c 00 0008 022b 09 aabb",
        Message::new(8, Body::Proprietary { vendor: 555, function: 9, data: &[0xAA, 0xBB] }),
    );
    check("c8 00 0009 01", Message::new(9, Body::Other(0xC8, &[1])));
}

#[test]
fn options_of_headers() {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let secure_path = HeaderOption { kind: 1, must_understand: true, data: None };
    let vendors = HeaderOption { kind: 31, must_understand: false, data: Some(&[2, 0x2B, 7, 0xFF]) };
    let message = Message {
        destination_options: Options::write(&[vendors, secure_path], &mut first),
        data_options: Options::write(&[secure_path], &mut second),
        ..Message::new(1, Body::Npdu(&[1, 0, 0x10, 8]))
    };
    check("01 03 0001 bf 0004 022b07ff 41 41 01001008", message);
    assert_eq!(message.destination_options.iter().collect::<Vec<_>>(), [vendors, secure_path]);
    assert_eq!(message.destination_options.not_understood(), None);
    let mut other = Vec::new();
    let unknown = HeaderOption { kind: 7, must_understand: true, data: Some(&[]) };
    assert_eq!(Options::write(&[vendors, unknown], &mut other).not_understood(), Some(unknown));
    assert_eq!(unknown.marker(), 0x67);
}

#[test]
fn what_is_no_message_is_refused_by_name() {
    for (bytes, function, code, words) in [
        ("", None, ErrorCode::MESSAGE_INCOMPLETE, "the message ends inside a value"),
        ("0a 00 01", None, ErrorCode::MESSAGE_INCOMPLETE, "the message ends inside a value"),
        ("0a 10 0001", Some(0x0A), ErrorCode::HEADER_ENCODING_ERROR, "the control flags is out of range"),
        ("01 08 0001 0201", Some(1), ErrorCode::HEADER_ENCODING_ERROR, "the message ends inside a value"),
        ("01 08 0001 ffffffffffff 01", Some(1), ErrorCode::HEADER_ENCODING_ERROR, "the origin is out of range"),
        ("01 02 0001 c1", Some(1), ErrorCode::HEADER_ENCODING_ERROR, "the message ends inside a value"),
        ("01 01 0001 61 0005 00", Some(1), ErrorCode::HEADER_ENCODING_ERROR, "the message ends inside a value"),
        ("01 01 0001 40 01", Some(1), ErrorCode::HEADER_ENCODING_ERROR, "the type of a header option is out of range"),
        ("01 00 0001", Some(1), ErrorCode::PAYLOAD_EXPECTED, "expected a message of the network layer"),
        ("06 00 0001", Some(6), ErrorCode::PAYLOAD_EXPECTED, "the message ends inside a value"),
        ("06 00 0001 0201", Some(6), ErrorCode::MESSAGE_INCOMPLETE, "the message ends inside a value"),
        ("0a 00 0001 00", Some(0x0A), ErrorCode::UNEXPECTED_DATA, "1 bytes follow the last value"),
        ("04 00 0001 03 00 0640 05d9", Some(4), ErrorCode::PARAMETER_OUT_OF_RANGE, "an advertisement is out of range"),
        ("00 00 0001 06 02", Some(0), ErrorCode::PARAMETER_OUT_OF_RANGE, "the result code is out of range"),
        ("03 00 0001 ff", Some(3), ErrorCode::PARAMETER_OUT_OF_RANGE, "not UTF-8"),
    ] {
        let malformed = Message::parse(&hex(bytes)).unwrap_err();
        assert_eq!((malformed.function, malformed.code), (function, code), "{bytes}");
        assert!(malformed.to_string().contains(words), "{bytes}: {malformed}");
    }
    // Nobody has an address of all or of none.
    let of_none = hex(&["06 00 0001 000000000000", "00112233445566778899aabbccddeeff 0640 05d9"].concat());
    assert_eq!(Message::parse(&of_none).unwrap_err().error, DecodeError::Range("the virtual address of a node"));
}

#[test]
fn addresses_and_identifiers_are_read_as_they_are_shown() {
    assert_eq!("02:01:02:03:04:05".parse(), Ok(NODE));
    assert_eq!("020102030405".parse(), Ok(NODE));
    assert_eq!(NODE.to_string(), "02:01:02:03:04:05");
    assert_eq!(connect().uuid.to_string(), "00112233-4455-6677-8899-aabbccddeeff");
    for text in ["", "02:01:02:03:04", "02:01:02:03:04:05:06", "02:01:02:03:04:0g", ":020102030405", "0 0102030405"] {
        assert!(text.parse::<Vmac>().is_err(), "{text:?}");
    }
    assert!("00112233-4455-6677-8899-aabbccddeef".parse::<Uuid>().is_err());
    assert!(Vmac::random(u64::MAX).is_node() && Vmac::random(0).is_node());
    assert_eq!(Vmac::random(0x1234_5678_9ABC_DEF0).0[0] & 0x0F, 2);
    assert!(!Vmac::BROADCAST.is_node() && !Vmac([0; 6]).is_node());
}

fn vmac() -> impl Strategy<Value = Option<Vmac>> {
    prop::option::of(any::<u64>().prop_map(Vmac::random))
}

proptest! {
    #[test]
    fn addresses_have_the_bytes_of_those_of_ip(bytes: [u8; 6]) {
        prop_assert_eq!(Vmac::from_address(Vmac(bytes).to_address()), Vmac(bytes));
    }

    #[test]
    fn messages_round_trip(
        id: u16,
        (origin, destination) in (vmac(), vmac()),
        options in prop::collection::vec((1..32_u8, any::<bool>(), prop::option::of(prop::collection::vec(any::<u8>(), 0..9))), 0..5),
        split in 0..5_usize,
        payload in prop::collection::vec(any::<u8>(), 1..60),
        function: u8,
    ) {
        let options: Vec<_> = options
            .iter()
            .map(|(kind, must_understand, data)| HeaderOption {
                kind: *kind,
                must_understand: *must_understand,
                data: data.as_deref(),
            })
            .collect();
        let (first, second) = options.split_at(split.min(options.len()));
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let body = match function {
            0..100 => Body::Npdu(&payload),
            100..150 => Body::Proprietary { vendor: id, function, data: &payload },
            _ => Body::Other(function, &payload),
        };
        let message = Message {
            origin,
            destination_options: Options::write(first, &mut a),
            data_options: Options::write(second, &mut b),
            ..Message::new(id, body).to(destination)
        };
        let mut bytes = Vec::new();
        message.emit(&mut bytes);
        prop_assert_eq!(Message::parse(&bytes), Ok(message));
        prop_assert_eq!(message.destination_options.iter().collect::<Vec<_>>(), first);
    }

    /// Any bytes: no panic; what is read is written as the same.
    #[test]
    fn any_bytes_are_survived(function in 0..16_u8, flags in 0..16_u8, rest in prop::collection::vec(any::<u8>(), 0..80)) {
        let bytes: Vec<u8> = [function, flags].into_iter().chain(rest).collect();
        if let Ok(message) = Message::parse(&bytes) {
            let mut again = Vec::new();
            message.emit(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }
}
