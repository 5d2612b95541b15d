use super::{at_ms, frame, frame_head, hex, path, pdu_head};
use crate::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::format;
use std::string::ToString;
use std::vec;
use std::vec::Vec;
use tieline_core::Timestamp;

#[test]
fn frames_of_another_implementation() {
    let file = include_str!("../../tests/vectors/libiec61850.txt");
    let lines = file.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(" > ").unwrap());
    for ((bytes, expect), tag) in lines.zip([None, Some(4), None]) {
        let bytes = hex(bytes);
        let message = Message::parse(&bytes).unwrap();
        let shown = format!("{} | {}", shown_head(&message), shown_data(message.pdu.all_data));
        assert_eq!(shown, expect);
        assert_eq!(message.frame.tag.map(|tag| tag.priority), tag);
        // Ours is the same, but for what true is and the fixed length of a fraction.
        let values: Vec<Value> = message.pdu.all_data.map(|data| Value::of(data).unwrap()).collect();
        let (mut apdu, mut again) = (Vec::new(), Vec::new());
        message.pdu.head.emit(&values, &mut apdu);
        assert!(message.frame.emit(&apdu, &mut again));
        assert_eq!(again.len(), bytes.len());
        let read = Message::parse(&again).unwrap();
        assert_eq!((read.frame, read.pdu.head), (message.frame, message.pdu.head));
    }
}

#[test]
fn what_is_no_frame_is_refused() {
    let good = frame(&pdu_head(), &[Value::Boolean(true)]);
    let check = |change: &dyn Fn(&mut Vec<u8>), expect: &str| {
        let mut bytes = good.clone();
        change(&mut bytes);
        assert_eq!(Message::parse(&bytes).unwrap_err().to_string(), expect);
    };
    check(&|bytes| bytes.truncate(13), "a frame that ends before its APDU");
    check(&|bytes| bytes[13] = 0xBA, "a frame of type 0x88ba, expected 0x88b8");
    check(&|bytes| bytes[17] = 7, "a length of 7 bytes, expected that of what follows the type");
    check(&|bytes| bytes[17] = 0xFF, "a length of 255 bytes, expected that of what follows the type");
    check(&|bytes| bytes[22] = 0x60, "the tag 0x60, expected 0x61");
    check(&|bytes| bytes[24] = 0x81, "the tag 0x81, expected 0x80");
}

#[test]
fn padding_and_signatures_are_no_part_of_a_message() {
    let mut bytes = frame(&pdu_head(), &[Value::Boolean(true)]);
    let before = shown_head(&Message::parse(&bytes).unwrap());
    bytes.extend([0; 20]);
    assert_eq!(shown_head(&Message::parse(&bytes).unwrap()), before);
    // A signature, within the length.
    bytes[17] += 4;
    bytes[20] = 0;
    bytes[19] = 4;
    let message = Message::parse(&bytes).unwrap();
    assert_eq!((shown_head(&message), message.frame.reserved1), (before, 4));
}

#[test]
fn both_flags_mark_a_simulated_message() {
    let check = |head: bool, frame_flag: bool| {
        let (mut apdu, mut bytes) = (Vec::new(), Vec::new());
        PduHead { is_simulated: head, ..pdu_head() }.emit(&[], &mut apdu);
        assert!(FrameHead { is_simulated: frame_flag, ..frame_head() }.emit(&apdu, &mut bytes));
        Message::parse(&bytes).unwrap().is_simulated()
    };
    assert_eq!([check(false, false), check(true, false), check(false, true)], [false, true, true]);
}

#[test]
fn values_that_are_malformed_are_refused() {
    let check = |data: &str, expect: &str| {
        // The content of allData behind a head of one entry.
        let data = hex(data);
        let mut bytes = Vec::new();
        pdu_head().emit(&[], &mut bytes);
        let [count, ..] = data.len().to_le_bytes();
        let end = bytes.len();
        bytes[end - 1] = count;
        bytes[end - 3] = 1;
        bytes[1] += count;
        bytes.extend(data);
        assert_eq!(Pdu::parse(&bytes).map(|_| "read".to_string()).unwrap_or_else(|error| error.to_string()), expect);
    };
    check("83 01 01", "read");
    check("83 02 01 01", "content that an element with the tag 0x83 cannot have");
    check("84 02 08 80", "content that an element with the tag 0x84 cannot have");
    check("84 01 01", "content that an element with the tag 0x84 cannot have");
    check("84 01 00", "read");
    check("85 00", "content that an element with the tag 0x85 cannot have");
    check("85 09 000000000000000001", "content that an element with the tag 0x85 cannot have");
    check("86 09 00FFFFFFFFFFFFFFFF", "read");
    check("86 09 01FFFFFFFFFFFFFFFF", "content that an element with the tag 0x86 cannot have");
    check("87 05 07 00000000", "content that an element with the tag 0x87 cannot have");
    check("87 09 08 0000000000000000", "content that an element with the tag 0x87 cannot have");
    check("91 07 00000000000000", "content that an element with the tag 0x91 cannot have");
    check("8C 05 0000000000", "content that an element with the tag 0x8c cannot have");
    check("90 01 FF", "content that an element with the tag 0x90 cannot have");
    check("92 00", "the tag 0x92, expected that of data");
    check("83 80 00 00", "a length that begins with 0x80, expected at most two bytes");
    check("83 05 01", "an element that ends too early");
    check("83 01 01 83 01 01", "2 values, expected 1 as the message says");
    check("A2 0E A2 0C A2 0A A2 08 A2 06 A2 04 A2 02 A2 00", "structures in structures, expected 8 at most");
    check("A2 0C A2 0A A2 08 A2 06 A2 04 A2 02 A2 00", "read");
    check("8D 01 07", "read");
}

#[test]
fn paths_lead_to_values() {
    let values = [
        Value::Boolean(true),
        Value::Structure([Value::Float32(1.5), Value::Array([Value::Integer(7), Value::Integer(8)].into())].into()),
    ];
    let bytes = frame(&pdu_head(), &values);
    let message = Message::parse(&bytes).unwrap();
    let find = |text| message.pdu.all_data.find(&path(text));
    assert_eq!(find("1"), Some(Data::Boolean(true)));
    assert_eq!(find("2.1"), Some(Data::Float32(1.5)));
    assert_eq!(find("2.2.2"), Some(Data::Integer(8)));
    assert_eq!((find("3"), find("1.1"), find("2.2.3")), (None, None, None));
    for wrong in ["", "0", "1.", "1.0", "-1", "a", "1.1.1.1.1.1.1.1.1", "65536"] {
        assert_eq!(wrong.parse::<Path>(), Err(PathError), "{wrong}");
    }
    assert_eq!(path("2.11").to_string(), "2.11");
}

#[test]
fn bits_are_counted_from_the_left() {
    let values = [Value::Bits { count: 13, bits: 0x1000 }, Value::Bits { count: 2, bits: 1 }];
    let bytes = frame(&pdu_head(), &values);
    let data = Message::parse(&bytes).unwrap().pdu.all_data;
    let (Some(Data::BitString(quality)), Some(Data::BitString(position))) =
        (data.find(&path("1")), data.find(&path("2")))
    else {
        panic!("bit strings");
    };
    assert_eq!((quality.count(), quality.is_set(0), quality.is_set(1), quality.is_set(13)), (13, true, false, false));
    assert_eq!((quality.number(), position.number()), (Some(0x1000), Some(1)));
}

#[test]
fn times_keep_their_microseconds() {
    for micros in [0, 1, 999_999, 1_795_000_000_123_456] {
        let time = Timestamp::from_micros(micros);
        assert_eq!(UtcTime::new(time, TimeQuality::SYNCHRONIZED).timestamp(), time);
    }
    let time = UtcTime::new(at_ms(250).utc, TimeQuality::UNSYNCHRONIZED);
    assert_eq!(time.to_bytes(), [0x6B, 0x00, 0x13, 0x18, 0x40, 0, 0, 0x3F]);
    assert_eq!(time.to_string(), "2026-11-20T09:30:00.250Z (clock not synchronized)");
}

fn values() -> impl Strategy<Value = Value> {
    let one = prop_oneof![
        any::<bool>().prop_map(Value::Boolean),
        (0..=63_u8, any::<u64>()).prop_map(|(count, bits)| Value::Bits { count, bits: bits & ((1 << count) - 1) }),
        any::<i64>().prop_map(Value::Integer),
        (-300..300_i64).prop_map(Value::Integer),
        any::<u64>().prop_map(Value::Unsigned),
        (-1e9..1e9_f32).prop_map(Value::Float32),
        (-1e9..1e9_f64).prop_map(Value::Float64),
        vec(any::<u8>(), 0..200).prop_map(|bytes| Value::Octets(bytes.into())),
        "[ -~]{0,20}".prop_map(|text| Value::VisibleString(text.into())),
        "\\PC{0,20}".prop_map(|text| Value::MmsString(text.into())),
        any::<[u8; 8]>().prop_map(|bytes| Value::UtcTime(UtcTime::from_bytes(&bytes).unwrap())),
        any::<[u8; 6]>().prop_map(|bytes| Value::BinaryTime(bytes.into())),
    ];
    one.prop_recursive(5, 24, 6, |inner| {
        prop_oneof![vec(inner.clone(), 0..6).prop_map(Value::Structure), vec(inner, 0..6).prop_map(Value::Array)]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        values in vec(values(), 0..4),
        numbers in any::<[u32; 4]>(),
        flags in any::<[bool; 2]>(),
        words in "[ -~]{1,60}",
        go_id in proptest::option::of("[ -~]{0,60}"),
        tag in proptest::option::of((0..8_u8, any::<bool>(), 0..4096_u16)),
    ) {
        let [time_allowed_ms, st_num, sq_num, conf_rev] = numbers;
        let [is_simulated, needs_commissioning] = flags;
        let head = PduHead {
            gocb_ref: &words,
            dat_set: &words,
            go_id: go_id.as_deref(),
            time_allowed_ms,
            st_num,
            sq_num,
            conf_rev,
            is_simulated,
            needs_commissioning,
            ..pdu_head()
        };
        let tag = tag.map(|(priority, is_drop_eligible, id)| VlanTag { priority, is_drop_eligible, id });
        let (mut apdu, mut bytes) = (Vec::new(), Vec::new());
        head.emit(&values, &mut apdu);
        if (FrameHead { tag, ..frame_head() }).emit(&apdu, &mut bytes) {
            let message = Message::parse(&bytes).unwrap();
            prop_assert_eq!(message.frame, FrameHead { tag, ..frame_head() });
            prop_assert_eq!(message.pdu.head, head);
            let read: Vec<Value> = message.pdu.all_data.map(|data| Value::of(data).unwrap()).collect();
            prop_assert_eq!(read, values);
        } else {
            prop_assert!(apdu.len() > 1492);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..300)) {
        let _ = Message::parse(&bytes);
        if let Ok(pdu) = Pdu::parse(&bytes) {
            let _ = shown_data(pdu.all_data);
        }
    }

    #[test]
    fn changed_bytes_are_read_or_refused(values in vec(values(), 0..4), changes in vec((any::<usize>(), any::<u8>()), 1..5)) {
        let (mut apdu, mut bytes) = (Vec::new(), Vec::new());
        pdu_head().emit(&values, &mut apdu);
        if frame_head().emit(&apdu, &mut bytes) {
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            if let Ok(message) = Message::parse(&bytes) {
                prop_assert!(shown_data(message.pdu.all_data).len() < 20_000);
                prop_assert!(!shown_head(&message).contains('\n'));
            }
        }
    }
}
