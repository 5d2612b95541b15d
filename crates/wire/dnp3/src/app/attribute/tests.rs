use super::*;
use crate::app::{AppControl, Fragment, Function, Sequence};
use alloc::vec;
use proptest::prelude::*;
use std::string::ToString;

fn check(bytes: &[u8], expect: &AttributeValue, shown: &str) {
    assert_eq!(AttributeValue::decode(bytes).as_ref(), Some(expect), "{bytes:02X?}");
    assert_eq!(expect.to_string(), shown);
    let mut out = Vec::new();
    expect.encode(&mut out);
    assert_eq!(out, bytes, "{expect:?}");
}

#[test]
fn every_type_is_read_and_written() {
    use AttributeValue as V;
    check(b"\x01\x05ACME\n", &V::text("ACME\n"), "\"ACME\\n\"");
    check(b"\x01\x00", &V::text(""), "\"\"");
    check(&[2, 1, 250], &V::Unsigned(250), "250");
    check(&[2, 2, 0x00, 0x08], &V::Unsigned(2048), "2048");
    check(&[2, 4, 0, 0, 1, 0], &V::Unsigned(65536), "65536");
    check(&[3, 1, 0xFF], &V::Signed(-1), "-1");
    check(&[3, 2, 0, 0xFF], &V::Signed(-256), "-256");
    check(&[3, 4, 0, 0, 0, 0x80], &V::Signed(-0x8000_0000), "-2147483648");
    check(&[4, 4, 0, 0, 0xC0, 0x3F], &V::Float(1.5), "1.5");
    check(&[4, 8, 0x9A, 0x99, 0x99, 0x99, 0x99, 0x99, 0xB9, 0x3F], &V::Float(0.1), "0.1");
    check(&[5, 2, 1, 2], &V::Bytes([1, 2].into()), "0102");
    check(&[6, 1, 0xA5], &V::Bits([0xA5].into()), "A5");
    check(&[7, 6, 0xE8, 3, 0, 0, 0, 0], &V::Time(DnpTime::from_millis(1000)), "1970-01-01T00:00:01.000Z");
    check(&[8, 2, 0xC3, 0xA9], &V::Unicode("é".as_bytes().into()), "\"é\"");
    let listed = [(248, 0), (247, 1)].map(|(variation, properties)| ListedAttribute { variation, properties });
    check(&[254, 4, 248, 0, 247, 1], &V::List(listed.into()), "248 247w");
    check(&[9, 1, 7], &V::Unknown { code: 9, bytes: [7].into() }, "07");
    check(&[4, 3, 1, 2, 3], &V::Unknown { code: 4, bytes: [1, 2, 3].into() }, "010203");
    check(&[2, 0], &V::Unknown { code: 2, bytes: [].into() }, "");
    check(&[254, 1, 7], &V::Unknown { code: 254, bytes: [7].into() }, "07");
    // Widths that nobody needs are read all the same.
    assert_eq!(AttributeValue::decode(&[2, 3, 1, 0, 0]), Some(V::Unsigned(1)));
    assert_eq!(AttributeValue::decode(&[2, 4, 1, 0, 0, 0]), Some(V::Unsigned(1)));
    assert_eq!(AttributeValue::decode(&[3, 4, 0xFE, 0xFF, 0xFF, 0xFF]), Some(V::Signed(-2)));
    assert_eq!(AttributeValue::decode(&[1, 3, 65, 66]), None);
    assert_eq!(AttributeValue::decode(&[1]), None);
}

#[test]
fn a_long_list_is_extended() {
    let listed: Box<[ListedAttribute]> =
        (1..=130).map(|variation| ListedAttribute { variation, properties: variation % 2 }).collect();
    let value = AttributeValue::List(listed);
    let mut out = Vec::new();
    value.encode(&mut out);
    assert_eq!(out.get(..2), Some([255, 4].as_slice()));
    assert_eq!(out.len(), 2 + 260);
    // As part of a fragment, the header after it is found.
    let mut fragment = Vec::new();
    let control = AppControl::single(Sequence::new(0));
    let mut writer = FragmentWriter::response(&mut fragment, 2048, control, Function::Response, crate::Iin::NONE);
    writer.attribute(0, LIST_OF_ATTRIBUTES, &value).unwrap();
    writer.attribute(300, 7, &AttributeValue::Unsigned(9)).unwrap();
    let fragment = Fragment::parse(&fragment).unwrap();
    let found: Vec<Attribute> = fragment.headers().map(Result::unwrap).flat_map(|h| h.attributes()).collect();
    let expect = [
        Attribute { set: 0, variation: LIST_OF_ATTRIBUTES, value },
        Attribute { set: 300, variation: 7, value: AttributeValue::Unsigned(9) },
    ];
    assert_eq!(found, expect);
}

fn value() -> impl Strategy<Value = AttributeValue> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..=255).prop_map(Vec::into_boxed_slice);
    let listed = any::<(u8, u8)>().prop_map(|(variation, properties)| ListedAttribute { variation, properties });
    prop_oneof![
        bytes().prop_map(AttributeValue::Text),
        bytes().prop_map(AttributeValue::Bytes),
        bytes().prop_map(AttributeValue::Bits),
        bytes().prop_map(AttributeValue::Unicode),
        any::<u64>().prop_map(AttributeValue::Unsigned),
        any::<i64>().prop_map(AttributeValue::Signed),
        any::<f64>().prop_map(AttributeValue::Float),
        (0..DnpTime::MAX.millis()).prop_map(|ms| AttributeValue::Time(DnpTime::from_millis(ms))),
        prop::collection::vec(listed, 0..=255).prop_map(|all| AttributeValue::List(all.into())),
        (9..254_u8, bytes()).prop_map(|(code, bytes)| AttributeValue::Unknown { code, bytes }),
    ]
}

proptest! {
    #[test]
    fn values_round_trip(value in value()) {
        let mut out = vec![];
        value.encode(&mut out);
        prop_assert_eq!(AttributeValue::decode(&out), Some(value));
        for short in 0..out.len() {
            prop_assert_eq!(AttributeValue::decode(out.get(..short).unwrap()), None);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        if let Some(value) = AttributeValue::decode(&bytes) {
            let mut out = vec![];
            value.encode(&mut out);
            prop_assert!(out.len() <= 2 + 511);
            prop_assert_eq!(AttributeValue::decode(&out).map(|v| v.type_name()), Some(value.type_name()));
        }
    }
}

#[test]
fn standard_attributes_have_names_of_their_own() {
    let names: Vec<&str> = (0..=u8::MAX).filter_map(attribute_name).collect();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!((names.len(), unique.len()), (58, 58));
}
