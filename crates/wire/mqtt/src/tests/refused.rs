//! What breaks a rule is refused by that rule.

use super::{decode, hex};
use crate::DecodeError::*;
use crate::{DecodeError, FieldError, PacketType, ReasonCode, Version};
use alloc::vec::Vec;

fn check(version: Version, bytes: &str, expect: DecodeError, reason: ReasonCode) {
    assert_eq!(decode(version, 1000, &[&hex(bytes)]), Err(expect), "{bytes}");
    assert_eq!(expect.reason(), reason, "{bytes}");
}

fn check5(bytes: &str, expect: DecodeError, reason: ReasonCode) {
    check(Version::V5, bytes, expect, reason);
}

fn check3(bytes: &str, expect: DecodeError, reason: ReasonCode) {
    check(Version::V311, bytes, expect, reason);
}

const MALFORMED: ReasonCode = ReasonCode::MalformedPacket;
const PROTOCOL: ReasonCode = ReasonCode::ProtocolError;

#[test]
fn mqtt_2_1_3_1_fixed_headers() {
    check5("00 00", PacketType, MALFORMED);
    check3("f0 00", PacketType, MALFORMED);
    check5("11 00", Flags(PacketType::Connect), MALFORMED);
    check5("60 02 0001", Flags(PacketType::Pubrel), MALFORMED);
    check5("80 06 0001 00 0001 61 00", Flags(PacketType::Subscribe), MALFORMED);
    check5("a0 06 0001 00 0001 61", Flags(PacketType::Unsubscribe), MALFORMED);
    check5("c1 00", Flags(PacketType::Pingreq), MALFORMED);
    check5("e2 00", Flags(PacketType::Disconnect), MALFORMED);
    check5("c0 80808080 01", VariableByteInteger, MALFORMED);
    check5("c0 8000", VariableByteInteger, MALFORMED);
    check5("30 e607", TooLarge { bytes: 1001, limit: 1000 }, ReasonCode::PacketTooLarge);
    check5("c0 01 00", Trailing, MALFORMED);
}

#[test]
fn mqtt_1_5_4_texts() {
    check5("30 05 0002 c080 00", Text(FieldError::Utf8), MALFORMED);
    check5("30 06 0003 eda080 00", Text(FieldError::Utf8), MALFORMED);
    check5("30 05 0002 6100 00", Text(FieldError::Null), MALFORMED);
    check5("30 03 0002 61", Truncated, MALFORMED);
}

#[test]
fn mqtt_3_1_connect() {
    check5("10 0d 0004 4d515458 04 02 000a 0001 63", ProtocolName, ReasonCode::UnsupportedProtocolVersion);
    check5("10 0d 0004 4d515454 06 02 000a 0001 63", ProtocolVersion(6), ReasonCode::UnsupportedProtocolVersion);
    check5("10 0f 0006 4d5149736470 03 02 000a 0001 63", ProtocolVersion(3), ReasonCode::UnsupportedProtocolVersion);
    check5("10 0d 0004 4d515454 04 03 000a 0001 63", ConnectFlags, MALFORMED);
    check5("10 0d 0004 4d515454 04 0a 000a 0001 63", WillFlags, MALFORMED);
    check5("10 0d 0004 4d515454 04 22 000a 0001 63", WillFlags, MALFORMED);
    check5("10 0d 0004 4d515454 04 1e 000a 0001 63", Qos, MALFORMED);
    check5("10 10 0004 4d515454 04 42 000a 0001 63 0001 70", PasswordAlone, MALFORMED);
    check5("10 0d 0004 4d515454 04 82 000a 0001 63", Truncated, MALFORMED);
    check5("10 12 0004 4d515454 04 06 000a 0001 63 0000 0001 61", TopicName, ReasonCode::TopicNameInvalid);
    check5("10 0e 0004 4d515454 04 02 000a 0001 63 00", Trailing, MALFORMED);
    check5("10 11 0004 4d515454 05 02 000a 03 21 0000 0001 63", PropertyValue(0x21), PROTOCOL);
    check5("10 13 0004 4d515454 05 02 000a 05 27 00000000 0001 63", PropertyValue(0x27), PROTOCOL);
    check5("10 10 0004 4d515454 05 02 000a 02 17 02 0001 63", PropertyValue(0x17), PROTOCOL);
    check5("10 12 0004 4d515454 05 02 000a 04 16 0001 61 0001 63", PropertyValue(0x16), PROTOCOL);
}

#[test]
fn mqtt_3_2_connack() {
    check5("20 03 02 00 00", ConnackFlags, MALFORMED);
    check5("20 03 01 87 00", ConnackFlags, MALFORMED);
    check5("20 03 00 04 00", Reason(4), MALFORMED);
    check3("20 02 00 06", Reason(6), MALFORMED);
}

#[test]
fn mqtt_3_3_publish() {
    check5("36 06 0001 61 0001 00", Qos, MALFORMED);
    check5("38 04 0001 61 00", DupAtQos0, MALFORMED);
    check5("32 06 0001 61 0000 00", PacketIdZero, PROTOCOL);
    check5("30 04 0001 2b 00", TopicName, ReasonCode::TopicNameInvalid);
    check5("30 04 0001 23 00", TopicName, ReasonCode::TopicNameInvalid);
    check5("30 03 0000 00", TopicName, ReasonCode::TopicNameInvalid);
    check3("30 02 0000", TopicName, ReasonCode::TopicNameInvalid);
    check5("30 07 0001 61 03 23 0000", TopicAliasZero, ReasonCode::TopicAliasInvalid);
    check5("30 08 0001 61 04 01 00 01 00", PropertyTwice(1), PROTOCOL);
    check5("30 06 0001 61 02 01 02", PropertyValue(1), PROTOCOL);
    check5("30 08 0001 61 04 08 0001 2b", PropertyValue(8), PROTOCOL);
    check5("30 06 0001 61 02 0b 00", PropertyValue(0x0B), PROTOCOL);
    check5("30 06 0001 61 02 17 01", PropertyPlace(0x17), MALFORMED);
    check5("30 06 0001 61 02 7f 01", PropertyPlace(0x7F), MALFORMED);
    check5("30 06 0001 61 05 01 01", Truncated, MALFORMED);
}

#[test]
fn mqtt_3_4_to_3_7_answers() {
    check5("40 02 0000", PacketIdZero, PROTOCOL);
    check5("40 03 0001 92", Reason(0x92), MALFORMED);
    check5("62 03 0001 10", Reason(0x10), MALFORMED);
    check5("40 01 00", Truncated, MALFORMED);
    check3("40 03 0001 00", Trailing, MALFORMED);
}

#[test]
fn mqtt_3_8_to_3_11_subscriptions() {
    check5("82 03 0001 00", Empty, PROTOCOL);
    check5("82 07 0001 00 0001 61 40", SubscriptionOptions, MALFORMED);
    check3("82 06 0001 0001 61 04", SubscriptionOptions, MALFORMED);
    check5("82 07 0001 00 0001 61 30", RetainHandling, PROTOCOL);
    check5("82 07 0001 00 0001 61 03", Qos, MALFORMED);
    check5("82 06 0001 00 0001 61", Truncated, MALFORMED);
    check5("a2 03 0001 00", Empty, PROTOCOL);
    check3("90 03 0001 87", Reason(0x87), MALFORMED);
    check5("90 04 0001 00 03", Reason(3), MALFORMED);
    check5("b0 03 0001 00", Empty, PROTOCOL);
}

#[test]
fn too_many_filters() {
    let mut body: Vec<u8> = hex("0001");
    (0..=crate::FILTERS_MAX).for_each(|_| body.extend(hex("0001 61 00")));
    let frame = crate::Frame { packet_type: PacketType::Subscribe, flags: 2, body: body.into() };
    assert_eq!(crate::Packet::parse(Version::V311, &frame), Err(TooManyFilters));
    assert_eq!(TooManyFilters.reason(), ReasonCode::QuotaExceeded);
}
