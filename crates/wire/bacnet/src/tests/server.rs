//! The server: what it answers to the hostile and the odd.

use super::hex;
use super::network::{Network, address};
use crate::client::ClientConfig;
use crate::server::{Object, Server, ServerConfig};
use crate::{ObjectId, ObjectType, Value};
use std::format;
use std::vec::Vec;
use tieline_core::{Instant, Now, Timestamp};

#[test]
fn odd_requests_have_the_answers_of_the_standard() {
    let mut network = Network::new(ClientConfig::default(), 1);
    let peer = network.serve(1, ServerConfig::default(), 2);
    let now = network.now;
    let server: &mut Server = network.servers.get_mut(&peer.address).unwrap();
    let mut check = |apdu: &str, expect: &str| {
        let apdu = hex(apdu);
        let mut datagram = hex("81 0A 00 00 01 04");
        datagram.extend(&apdu);
        datagram[3] = u8::try_from(datagram.len()).unwrap();
        server.handle_datagram(now, address(9), &datagram);
        let mut out = Vec::new();
        let to = server.poll_transmit(now, &mut out);
        assert_eq!(out.get(6..).unwrap_or_default(), hex(expect), "{apdu:02x?}");
        assert_eq!(to.is_some(), !expect.is_empty());
    };
    // Unknown object, unknown property, index of what is no array, unknown service, bytes that are no parameters.
    check("02 05 01 0C 0C 00 00 00 01 19 55", "50 01 0C 91 01 91 1F");
    check("02 05 02 0C 0C 00 80 00 01 19 2D", "50 02 0C 91 02 91 20");
    check("02 05 03 0C 0C 00 80 00 01 19 55 29 01", "50 03 0C 91 02 91 32");
    check("02 05 04 11 00", "60 04 09");
    check("02 05 05 0C FF", "60 05 04");
    check("02 05 06 0E", "60 06 05");
    // A value that a device does not let be written, an index beyond the array.
    check("02 05 07 0F 0C 02 00 00 01 19 4D 3E 71 00 3F", "50 07 0F 91 02 91 28");
    check("02 05 08 0F 0C 02 00 00 01 19 16 3E 91 00 3F", "50 08 0F 91 02 91 20");
    check("02 05 09 0C 0C 00 40 00 01 19 57 29 11", "50 09 0C 91 02 91 2A");
    check("02 05 0A 0C 0C 00 40 00 01 19 57 29 00", "30 0A 0C 0C 00 40 00 01 19 57 29 00 3E 21 10 3F");
    // An answer of more than 50 bytes to one who takes no segments.
    check("00 00 0B 0E 0C 00 80 00 01 1E 09 08 1F", "71 0B 04");
    // What is no request of a client.
    check("41 00 00 10", "");
    check("30 00 0C", "");
    check("70 00 00", "");
}

#[test]
fn multi_state_objects_have_as_many_states_as_they_take() {
    let now = Now { mono: Instant::ZERO, utc: Timestamp::from_millis(0) };
    let id = ObjectId::new(ObjectType::MULTI_STATE_VALUE, 5);
    let stage = || Object::new(ObjectType::MULTI_STATE_VALUE, 5, "stage", Value::Unsigned(2)).commandable();
    let mut id_of_request = 0;
    let mut check = |object: Object, values: &[(u64, bool)], expect: u64, code: &str| {
        let mut server = Server::new(ServerConfig::default());
        server.add(object);
        let mut ask = |apdu: &str, server: &mut Server| {
            id_of_request += 1;
            let mut datagram = hex("81 0A 00 00 01 04");
            datagram.extend(hex(&apdu.replace("II", &format!("{id_of_request:02X}"))));
            datagram[3] = u8::try_from(datagram.len()).unwrap();
            server.handle_datagram(now, address(9), &datagram);
            let mut out = Vec::new();
            server.poll_transmit(now, &mut out);
            out.split_off(6)
        };
        for (value, is_taken) in values {
            assert_eq!(server.set_value(now, id, Value::Unsigned(*value)), *is_taken, "{value}");
        }
        // The greatest state is taken at a priority, and the next is out of range where the number is known.
        let write = |state: u64| format!("00 05 II 0F 0C 04 C0 00 05 19 55 3E 21 {state:02X} 3F 49 08");
        assert_eq!(ask(&write(expect), &mut server)[0], 0x20);
        let beyond = ask(&write(expect + 1), &mut server);
        assert_eq!(beyond[0] == 0x50, !code.is_empty(), "{beyond:02X?}");
        assert!(code.is_empty() || beyond[3..] == hex(code), "{beyond:02X?}");
        let count = ask("00 05 II 0C 0C 04 C0 00 05 19 4A", &mut server);
        let number = if code.is_empty() { expect + 1 } else { expect };
        assert_eq!(count.iter().rev().nth(1).copied().map(u64::from), Some(number), "{count:02X?}");
    };
    let out_of_range = "91 02 91 25";
    check(stage().with_states(&["off", "low", "high"]), &[(3, true), (4, false), (0, false)], 3, out_of_range);
    // Names say how many there are.
    check(stage().with_states(&["off", "low", "high"]).with_state_count(7), &[(4, false)], 3, out_of_range);
    check(stage().with_state_count(7), &[(7, true), (8, false)], 7, out_of_range);
    // Where nobody says, it is the greatest that was seen.
    check(stage(), &[], 2, "");
    check(stage(), &[(9, true), (1, true)], 9, "");
}

#[test]
fn present_values_are_written_within_their_limits_and_commanded_by_priority() {
    let mut server = Server::new(ServerConfig::default());
    let object = Object::new(ObjectType::ANALOG_VALUE, 5, "setpoint", Value::Real(22.0));
    server.add(object.commandable().with_limits(10.0, 30.0));
    let now = Now { mono: Instant::ZERO, utc: Timestamp::from_millis(0) };
    let mut check = |apdu: &str, expect: &str, commanded: Option<f32>| {
        let mut datagram = hex("81 0A 00 00 01 04");
        datagram.extend(hex(apdu));
        datagram[3] = u8::try_from(datagram.len()).unwrap();
        server.handle_datagram(now, address(9), &datagram);
        let mut out = Vec::new();
        server.poll_transmit(now, &mut out);
        assert_eq!(out.get(6..).unwrap_or_default(), hex(expect), "{apdu}");
        let object = server.object(ObjectId::new(ObjectType::ANALOG_VALUE, 5)).unwrap();
        assert_eq!(object.commanded(), commanded.map(Value::Real).as_ref(), "{apdu}");
    };
    let write = |id: u8, value: &str| format!("00 05 {id:02X} 0F 0C 00 80 00 05 19 55 3E {value} 3F 49 08");
    // 40, NaN and the relinquish default 40 are out of range; 20 is not, then it is relinquished.
    check(&write(1, "44 42 20 00 00"), "50 01 0F 91 02 91 25", None);
    check(&write(2, "44 7F C0 00 00"), "50 02 0F 91 02 91 25", None);
    check("00 05 03 0F 0C 00 80 00 05 19 68 3E 44 42 20 00 00 3F", "50 03 0F 91 02 91 25", None);
    check(&write(4, "44 41 A0 00 00"), "20 04 0F", Some(20.0));
    check(&write(5, "00"), "20 05 0F", None);
    // The limits are properties of their own.
    check("00 05 06 0C 0C 00 80 00 05 19 45", "30 06 0C 0C 00 80 00 05 19 45 3E 44 41 20 00 00 3F", None);
}
