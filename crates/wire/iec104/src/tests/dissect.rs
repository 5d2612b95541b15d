use super::{hex, vectors};
use crate::dissect::{Dissector, Entry, Sender};
use proptest::prelude::*;
use std::string::{String, ToString};
use std::vec::Vec;

#[test]
fn frames_are_told() {
    for (bytes, expect) in vectors(include_str!("../../tests/vectors/dissect.txt")) {
        let (mut dissector, mut entries) = (Dissector::new(), Vec::new());
        // In pieces, as a line brings them.
        hex(bytes).chunks(3).for_each(|piece| dissector.push(Sender::Client, piece, &mut entries));
        dissector.finish(&mut entries);
        let found: Vec<String> = entries.iter().map(Entry::to_string).collect();
        assert_eq!(found.join(" | "), expect);
    }
}

#[test]
fn an_entry_says_what_it_is_about() {
    let (mut dissector, mut entries) = (Dissector::new(), Vec::new());
    let frame = hex("68 13 00 00 00 00 01 83 14 00 02 00 0A 00 00 00 01 81");
    let frame = [&[0x68, u8::try_from(frame.len() - 2).unwrap()], &frame[2..]].concat();
    dissector.push(Sender::Server, &frame, &mut entries);
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    let addresses: Vec<u32> = entry.addresses.iter().map(|address| address.raw()).collect();
    assert_eq!((entry.sender, entry.common_address, addresses), (Sender::Server, Some(2), [10, 11, 12].to_vec()));
    assert_eq!((entry.type_id, entry.cause.map(|cause| cause.raw())), (Some(crate::TypeId::M_SP_NA_1), Some(20)));
    assert_eq!(entry.frame, frame);
}

proptest! {
    #[test]
    fn any_bytes_are_told(pieces: Vec<(bool, Vec<u8>)>) {
        let (mut dissector, mut entries) = (Dissector::new(), Vec::new());
        for (client, bytes) in &pieces {
            dissector.push(if *client { Sender::Client } else { Sender::Server }, bytes, &mut entries);
        }
        dissector.finish(&mut entries);
        prop_assert!(entries.len() <= pieces.iter().map(|(_, bytes)| bytes.len()).sum());
        prop_assert!(entries.iter().all(|entry| !entry.to_string().contains('\n')));
    }
}
