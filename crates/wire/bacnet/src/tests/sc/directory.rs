//! Devices that are known by their instance.

use crate::apdu::Apdu;
use crate::names::{Segmentation, UnconfirmedService};
use crate::npdu::Npdu;
use crate::sc::{Directory, Found, Vmac};
use crate::service::IAm;
use crate::tests::hex;
use crate::{Mac, ObjectId, Station};
use core::time::Duration;
use std::vec::Vec;
use tieline_core::{Instant, Now, Timestamp};

const START: Now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(0) };
const FIRST: Vmac = Vmac([0x02, 0, 0, 0, 0, 1]);
const SECOND: Vmac = Vmac([0x02, 0, 0, 0, 0, 2]);
const DEVICE: u32 = 1001;

fn i_am(instance: u32, source: Option<Station>) -> Vec<u8> {
    let (mut parameters, mut apdu, mut npdu) = (Vec::new(), Vec::new(), Vec::new());
    let device = ObjectId::device(instance);
    IAm { device, max_apdu: 1476, segmentation: Segmentation::BOTH, vendor: 9 }.emit(&mut parameters);
    Apdu::UnconfirmedRequest { service: UnconfirmedService::I_AM, parameters: &parameters }.emit(&mut apdu);
    Npdu { source, ..Npdu::local(&apdu, false) }.emit(&mut npdu);
    npdu
}

fn after(seconds: u64) -> Now {
    START.later(Duration::from_secs(seconds))
}

#[test]
fn a_device_is_found_by_its_instance() {
    let mut directory = Directory::default();
    let alias = Directory::alias(DEVICE);
    assert!(!alias.is_node());
    assert_eq!(Directory::instance_of(alias), Some(DEVICE));
    assert_eq!(directory.find(START, FIRST, b"x"), Found::Vmac(FIRST));
    assert_eq!(directory.timeout(), None);
    assert_eq!(directory.find(START, alias, b"one"), Found::Kept);
    assert_eq!(directory.find(START, alias, b"two"), Found::Kept);
    // One Who-Is, for this device alone.
    assert_eq!(directory.poll(START), Some((Vmac::BROADCAST, hex("01 00 10 08 0a 03e9 1a 03e9"))));
    assert_eq!(directory.poll(START), None);
    // Another device, and one behind a router, are not it.
    assert_eq!(directory.heard(SECOND, &i_am(DEVICE + 1, None)), SECOND);
    let station = Station { network: 5, mac: Mac::new(&[1]).unwrap() };
    assert_eq!(directory.heard(SECOND, &i_am(DEVICE, Some(station))), SECOND);
    assert_eq!(directory.vmac(DEVICE), None);
    assert_eq!(directory.heard(FIRST, &i_am(DEVICE, None)), alias);
    assert_eq!(directory.poll(START), Some((FIRST, b"one".to_vec())));
    assert_eq!(directory.poll(START), Some((FIRST, b"two".to_vec())));
    assert_eq!((directory.poll(after(60)), directory.timeout()), (None, None));
    assert_eq!(directory.find(START, alias, b"three"), Found::Vmac(FIRST));
    assert_eq!(directory.heard(FIRST, b"\x01\x00"), alias);
}

#[test]
fn a_device_with_another_address_is_found_again() {
    let mut directory = Directory::default();
    let alias = Directory::alias(DEVICE);
    directory.find(START, alias, b"");
    directory.poll(START);
    directory.heard(FIRST, &i_am(DEVICE, None));
    while directory.poll(START).is_some() {}
    // It answers nothing, and is asked for after a while.
    assert_eq!(directory.find(after(10), alias, b"a"), Found::Vmac(FIRST));
    assert_eq!(directory.find(after(14), alias, b"b"), Found::Vmac(FIRST));
    assert_eq!(directory.poll(after(14)), None);
    assert_eq!(directory.find(after(15), alias, b"c"), Found::Vmac(FIRST));
    assert!(directory.poll(after(15)).is_some());
    assert_eq!(directory.find(after(16), alias, b"d"), Found::Vmac(FIRST));
    assert_eq!(directory.poll(after(16)), None, "not asked for again so soon");
    assert_eq!(directory.heard(SECOND, &i_am(DEVICE, None)), alias);
    assert_eq!(directory.find(after(16), alias, b"e"), Found::Vmac(SECOND));
    assert_eq!(directory.heard(FIRST, b"\x01\x00"), FIRST, "its old address is that of nobody");
    // What answers is not asked for.
    for second in 20..60 {
        directory.find(after(second), alias, b"");
        directory.heard(SECOND, b"\x01\x00");
        assert_eq!(directory.poll(after(second)), None);
    }
}

#[test]
fn an_address_that_another_device_takes_is_no_longer_that_of_the_first() {
    let mut directory = Directory::default();
    for instance in [1, 2] {
        directory.find(START, Directory::alias(instance), b"");
    }
    directory.heard(FIRST, &i_am(1, None));
    assert_eq!(directory.heard(FIRST, &i_am(2, None)), Directory::alias(2));
    assert_eq!((directory.vmac(1), directory.vmac(2)), (None, Some(FIRST)));
    directory.forget(Directory::alias(2));
    assert_eq!(directory.heard(FIRST, &i_am(2, None)), FIRST);
}

#[test]
fn many_devices_are_asked_for_at_a_pace_and_little_is_kept() {
    let mut directory = Directory::default();
    for instance in 0..100 {
        for _ in 0..20 {
            directory.find(START, Directory::alias(instance), b"x");
        }
    }
    assert_eq!(directory.dropped(), 100 * 12);
    let (mut now, mut asked) = (START, 0);
    while let Some(timeout) = directory.timeout() {
        now = now.later(timeout.since(now.mono).max(Duration::from_millis(1)));
        asked += usize::from(directory.poll(now).is_some());
    }
    assert_eq!(asked, 100);
    assert!(now.mono.since(START.mono) >= Duration::from_millis(20 * 98));
    // With another hub everything is asked for again, and nothing old is sent.
    directory.restart();
    assert_eq!(directory.heard(FIRST, &i_am(7, None)), Directory::alias(7));
    assert_eq!(directory.poll(now), None);
    directory.find(now, Directory::alias(8), b"new");
    assert!(directory.poll(now.later(Duration::from_secs(1))).is_some());
}
