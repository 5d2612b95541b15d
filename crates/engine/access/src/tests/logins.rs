use crate::{LOGIN_PEERS_MAX, Logins, Network, Origin, STANDING_OF_USER_MAX, Waiting};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use proptest::prelude::*;
use tieline_core::Instant;

fn at(s: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(s)
}

fn v4(n: u32) -> Network {
    Network::of(IpAddr::from(n.to_be_bytes()))
}

fn v6(text: &str) -> Network {
    Network::of(text.parse().unwrap())
}

fn origin(network: Network, user: u64, client: u64) -> Origin {
    Origin { network, user, client: Some(client) }
}

/// How many guesses of so many at once are looked at.
fn looked_at(logins: &mut Logins, now: Instant, origin: &Origin, guesses: usize) -> usize {
    let mut guess = |_: &usize| logins.may_try(now, origin).then(|| logins.failed(now, origin)).is_some();
    (0..guesses).filter(|n| guess(n)).count()
}

#[test]
fn an_address_that_keeps_failing_is_refused_and_forgiven() {
    let mut logins = Logins::default();
    let (eve, other) = (origin(v4(1), 1, 1), origin(v4(2), 1, 1));
    assert_eq!(looked_at(&mut logins, at(0), &eve, 20_001), 10);
    assert_eq!(logins.refused, 19_991);
    assert!(logins.may_try(at(0), &other));
    // Another name is no other address.
    assert!(!logins.may_try(at(0), &origin(v4(1), 2, 2)));
    assert_eq!(looked_at(&mut logins, at(1), &eve, 100), 1);
    assert_eq!(looked_at(&mut logins, at(60), &eve, 100), 10);
}

#[test]
fn who_is_in_good_standing_is_not_kept_out_by_others_of_its_address() {
    let mut logins = Logins::default();
    let (home, desk) = (v4(1), origin(v4(1), 7, 1));
    logins.succeeded(at(0), &desk);
    // Guesses at other users, then at this user by other clients, then as its very client.
    assert_eq!(looked_at(&mut logins, at(0), &origin(home, 8, 1), 1000), 10);
    assert!(logins.may_try(at(0), &desk) && logins.may_try(at(0), &origin(home, 7, 2)));
    assert_eq!(looked_at(&mut logins, at(0), &origin(home, 7, 2), 1000), 10);
    assert!(logins.may_try(at(0), &desk) && logins.is_known(&desk));
    assert_eq!(looked_at(&mut logins, at(0), &desk, 1000), 10);
    // A login that is right forgives nothing, and what is known at one address is not at another.
    logins.succeeded(at(0), &desk);
    assert!(!logins.may_try(at(0), &desk) && !logins.is_known(&origin(v4(2), 7, 1)));
    assert!(logins.may_try(at(60), &desk));
}

#[test]
fn a_network_of_ipv6_is_one_address_and_a_mapped_address_its_own() {
    let mut logins = Logins::default();
    assert_eq!(looked_at(&mut logins, at(0), &origin(v6("2001:db8::1"), 1, 1), 1000), 10);
    assert!(!logins.may_try(at(0), &origin(v6("2001:db8::ffff:2"), 1, 1)));
    let all = (0..=u16::MAX).map(|n| v6(&alloc::format!("2001:db8:0:{n:x}::1")));
    let looked: usize = all.map(|network| looked_at(&mut logins, at(0), &origin(network, 1, 1), 10)).sum();
    assert_eq!(looked, 90, "a site has as many guesses as ten addresses");
    assert!(logins.may_try(at(0), &origin(v6("2001:db8:1::1"), 1, 1)));
    assert_eq!(alloc::format!("{} {}", v6("2001:db8::1"), v4(0x0a00_0001)), "2001:db8::/64 10.0.0.1");
    assert_eq!(v6("::ffff:10.0.0.1"), Network::of("10.0.0.1".parse().unwrap()));
}

#[test]
fn no_more_are_remembered_than_there_is_room_for_and_one_user_pushes_out_no_other() {
    let mut logins = Logins::default();
    let anna = origin(v4(1), 1, 1);
    logins.succeeded(at(0), &anna);
    for n in 0..100_000 {
        logins.succeeded(at(1), &origin(v4(9), 9, n));
    }
    assert_eq!(logins.known(), STANDING_OF_USER_MAX + 2);
    assert!(logins.is_known(&anna) && logins.is_known(&origin(v4(9), 9, 99_999)));
    for n in 0..2 * u32::try_from(LOGIN_PEERS_MAX).unwrap() {
        logins.failed(at(2 + u64::from(n)), &origin(v4(n), 2, 1));
    }
    assert!(alloc::format!("{logins:?}").len() < 64 << 20);
}

#[test]
fn each_network_has_its_turn() {
    let mut waiting = Waiting::new(10);
    for n in 0..9 {
        assert_eq!(waiting.push(v4(1), (1, n)), None);
    }
    assert_eq!(waiting.push(v4(2), (2, 0)), None);
    // It is full: the network with the most places gives its last one, and gets none for more of its own.
    assert_eq!(waiting.push(v4(1), (1, 9)), Some((1, 9)));
    assert_eq!(waiting.push(v4(3), (3, 0)), Some((1, 8)));
    assert_eq!(waiting.len(), 10);
    let order: Vec<_> = core::iter::from_fn(|| waiting.pop()).collect();
    assert_eq!(order[..4], [(1, 0), (2, 0), (3, 0), (1, 1)]);
    assert!(order.len() == 10 && waiting.is_empty());
}

proptest! {
    #[test]
    fn what_waits_is_given_once_and_in_order(steps in prop::collection::vec((0_u32..5, any::<bool>()), 0..200)) {
        let mut waiting = Waiting::new(8);
        let (mut pushed, mut back) = (0, Vec::new());
        for (network, pop) in steps {
            if pop {
                back.extend(waiting.pop());
            } else {
                back.extend(waiting.push(v4(network), pushed));
                pushed += 1;
            }
            prop_assert!(waiting.len() <= 8);
        }
        back.extend(core::iter::from_fn(|| waiting.pop()));
        back.sort_unstable();
        prop_assert!(back.iter().copied().eq(0..pushed));
    }
}
