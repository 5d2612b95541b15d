//! Logins and devices under way.

use super::*;
use aws_lc_rs::digest::{SHA256, digest};
use std::net::{IpAddr, Ipv4Addr};
use tieline_access::Network;

fn from(n: u32) -> Network {
    Network::of(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + n)))
}

/// Bytes that differ.
fn random(n: u32) -> [u8; 128] {
    let mut bytes = [0; 128];
    for (at, part) in bytes.chunks_mut(8).enumerate() {
        part[..4].copy_from_slice(&n.to_le_bytes());
        part[4] = at as u8;
    }
    bytes
}

#[test]
fn a_login_is_used_once_by_the_browser_that_began_it() {
    let begin = || {
        let mut pending = Pending::default();
        let begun = pending.begin(at(0), from(1), "#/a", &random(1)).unwrap();
        (pending, begun)
    };
    let check = |s: u64, state: Option<&str>, browser: Option<&str>, expect: bool| {
        let (mut pending, begun) = begin();
        let (state, own) = (state.unwrap_or(&begun.state), begun.browser.clone());
        let browser = browser.map(|browser| if browser == "own" { own.as_str() } else { browser });
        let found = pending.take(at(s), state, browser);
        assert_eq!(found.is_ok(), expect, "{s} {state} {browser:?}");
        // Whatever came of it, it is over.
        if state == begun.state {
            assert!(pending.take(at(s), &begun.state, Some(&begun.browser)).is_err() && pending.is_empty());
        }
    };
    check(599, None, Some("own"), true);
    check(600, None, Some("own"), false);
    check(1, None, Some("other"), false);
    check(1, None, Some(""), false);
    check(1, None, None, false);
    check(1, Some("other"), Some("own"), false);
    let (mut pending, begun) = begin();
    let login = pending.take(at(1), &begun.state, Some(&begun.browser)).unwrap();
    assert_eq!((login.to.as_str(), &login.nonce), ("#/a", &begun.nonce));
    assert_eq!(begun.challenge, URL_SAFE_NO_PAD.encode(digest(&SHA256, login.verifier.as_bytes())));
    // RFC 7636 section 4.1.
    assert!((43..=128).contains(&login.verifier.len()));
    let all = [&begun.state, &begun.nonce, &begun.browser, &login.verifier];
    assert!(all.iter().enumerate().all(|(n, one)| !all[..n].contains(one)));
}

#[test]
fn logins_under_way_are_bounded_and_a_network_displaces_its_own() {
    let mut pending = Pending::default();
    let anna = pending.begin(at(0), from(0), "", &random(0)).unwrap();
    let later = |n: u32| at(1) + Duration::from_millis(u64::from(n));
    let eves: Vec<_> = (1..=1000).map(|n| pending.begin(later(n), from(1), "", &random(n)).unwrap()).collect();
    assert_eq!(pending.len(), 65);
    let mut take = |begun: &Begun| pending.take(at(2), &begun.state, Some(&begun.browser)).is_ok();
    assert!(take(&anna) && take(&eves[999]));
    assert!(!take(&eves[0]));
    let mut pending = Pending::default();
    let begun = (0..10_000).filter(|n| pending.begin(at(0), from(*n), "", &random(*n)).is_some()).count();
    assert_eq!((begun, pending.len()), (4096, 4096));
    assert!(pending.begin(at(600), from(9999), "", &random(9999)).is_some());
    assert_eq!(pending.len(), 1);
}

#[test]
fn a_device_asks_no_faster_than_it_may() {
    let code = DeviceCode {
        device_code: "dc".to_owned(),
        user_code: "u".to_owned(),
        verification: "https://id.example".to_owned(),
        verification_complete: None,
        lasts: Duration::from_secs(60),
        interval: Duration::from_secs(5),
    };
    let mut devices = Devices::default();
    assert!(devices.keep(at(0), from(1), "h", &code));
    assert_eq!(devices.poll(at(0), "other"), Polled::Gone);
    assert_eq!(devices.poll(at(2), "h"), Polled::Wait(Duration::from_secs(3)));
    assert_eq!(devices.poll(at(5), "h"), Polled::Ask("dc".to_owned()));
    assert_eq!(devices.poll(at(6), "h"), Polled::Wait(Duration::from_secs(4)));
    assert_eq!(devices.slow_down(at(10), "h"), Duration::from_secs(10));
    assert_eq!(devices.poll(at(19), "h"), Polled::Wait(Duration::from_secs(1)));
    assert_eq!(devices.poll(at(20), "h"), Polled::Ask("dc".to_owned()));
    assert_eq!(devices.poll(at(60), "h"), Polled::Gone);
    // Codes are bounded for each network and in all.
    let kept = |devices: &mut Devices, network: &dyn Fn(u32) -> Network| {
        (0..5000).filter(|n| devices.keep(at(0), network(*n), &n.to_string(), &code)).count()
    };
    assert_eq!(kept(&mut Devices::default(), &|_| from(1)), 16);
    assert_eq!(kept(&mut Devices::default(), &from), 1024);
    assert!(!devices.remove("h"));
}
