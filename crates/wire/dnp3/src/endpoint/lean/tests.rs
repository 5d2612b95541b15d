use super::super::{EndpointConfig, LeanCounters};
use super::*;
use alloc::vec;
use core::time::Duration;
use proptest::prelude::*;

const MASTER: LinkAddress = LinkAddress::new(1);
const STATION: LinkAddress = LinkAddress::new(10);
const START: Instant = Instant(1_000_000_000);

fn endpoint(role: Role, lean: Option<(Side, Carrier)>) -> Endpoint {
    let (local, remote) = if role == Role::Master { (MASTER, STATION) } else { (STATION, MASTER) };
    let mut endpoint = Endpoint::new(EndpointConfig { remote: Some(remote), ..EndpointConfig::new(role, local) });
    if let Some((side, carrier)) = lean {
        endpoint.set_lean(Some(LeanConfig { side, carrier }));
    }
    endpoint
}

fn said(endpoint: &mut Endpoint) -> Vec<u8> {
    let mut out = Vec::new();
    endpoint.poll_transmit(&mut out);
    out
}

/// Gives bytes in pieces; the fragments that came of it.
fn give(endpoint: &mut Endpoint, bytes: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for mut piece in bytes.chunks(piece.max(1)) {
        loop {
            let (used, received) = endpoint.handle_input(piece);
            piece = &piece[used..];
            if let Some(Received::Fragment { .. }) = received {
                found.push(endpoint.fragment().to_vec());
                endpoint.release();
            } else if piece.is_empty() {
                break;
            }
        }
    }
    found
}

/// A connected pair with as much negotiation as there is.
fn pair(offers: Role, lean: bool, carrier: Carrier) -> (Endpoint, Endpoint) {
    let accepts = if offers == Role::Master { Role::Outstation } else { Role::Master };
    let mut left = endpoint(offers, Some((Side::Offers, carrier)));
    let mut right = endpoint(accepts, lean.then_some((Side::Accepts, carrier)));
    left.handle_connected(START);
    right.handle_connected(START);
    for _ in 0..4 {
        let bytes = said(&mut left);
        assert!(give(&mut right, &bytes, usize::MAX).is_empty());
        let bytes = said(&mut right);
        assert!(give(&mut left, &bytes, usize::MAX).is_empty());
    }
    assert!(!left.is_negotiating() && !right.is_negotiating());
    (left, right)
}

/// Sends fragments both ways.
fn exchange(left: &mut Endpoint, right: &mut Endpoint, fragment: &[u8]) -> usize {
    let mut bytes = Vec::new();
    left.write_fragment(right.config().local, fragment, &mut bytes);
    assert_eq!(give(right, &bytes, usize::MAX), [fragment]);
    let mut back = Vec::new();
    right.write_fragment(left.config().local, fragment, &mut back);
    assert_eq!(give(left, &back, usize::MAX), [fragment]);
    bytes.len()
}

#[test]
fn lean_stations_agree_and_standard_ones_are_fallen_back_to() {
    let check = |offers, lean, carrier, overhead: usize| {
        let (mut left, mut right) = pair(offers, lean, carrier);
        assert_eq!((left.is_lean(), right.is_lean()), (lean, lean));
        assert_eq!(exchange(&mut left, &mut right, &[0xAA; 100]), 100 + overhead);
        let counters = left.counters().lean;
        let expect = LeanCounters { offers: 1, agreed: u64::from(lean), fallbacks: u64::from(!lean), ..counters };
        assert_eq!(counters, expect);
    };
    for offers in [Role::Master, Role::Outstation] {
        check(offers, true, Carrier::Stream, 2);
        check(offers, true, Carrier::Datagrams, 7);
        check(offers, false, Carrier::Stream, 10 + 1 + 7 * 2);
        check(offers, false, Carrier::Datagrams, 10 + 1 + 7 * 2);
    }
}

#[test]
fn a_standard_station_sees_noise_once() {
    let (mut left, mut right) = pair(Role::Master, false, Carrier::Stream);
    exchange(&mut left, &mut right, &[1, 2, 3]);
    assert_eq!(right.counters().link.bytes_discarded, HELLO_BYTES as u64);
    assert_eq!(right.counters().link.header_crc_errors, 0);
}

#[test]
fn what_was_sent_in_frames_before_the_offer_is_taken() {
    let mut master = endpoint(Role::Master, Some((Side::Offers, Carrier::Stream)));
    let mut station = endpoint(Role::Outstation, Some((Side::Accepts, Carrier::Stream)));
    master.handle_connected(START);
    station.handle_connected(START);
    let mut bytes = Vec::new();
    station.write_fragment(MASTER, &[0xF0, 0x82, 0x80, 0], &mut bytes);
    let offer = said(&mut master);
    assert!(give(&mut station, &offer, 5).is_empty() && station.is_lean());
    bytes.extend(said(&mut station));
    station.write_fragment(MASTER, &[0xF1, 0x82, 0, 0], &mut bytes);
    for piece in [1, 3, 16, 1000] {
        let mut master = master.clone();
        assert_eq!(give(&mut master, &bytes, piece), [[0xF0, 0x82, 0x80, 0], [0xF1, 0x82, 0, 0]]);
        assert!(master.is_lean());
    }
}

#[test]
fn silence_ends_an_offer_in_standard_dnp3() {
    let check = |carrier, offers: u64| {
        let mut master = endpoint(Role::Master, Some((Side::Offers, carrier)));
        master.handle_connected(START);
        let mut now = START;
        while let Some(at) = master.timeout() {
            assert!(master.is_negotiating());
            said(&mut master);
            now = at;
            master.handle_timeout(now);
        }
        assert_eq!(now, START + Duration::from_secs(2) * u32::try_from(offers).unwrap());
        assert!(!master.is_negotiating() && !master.is_lean());
        assert_eq!(master.counters().lean, LeanCounters { offers, fallbacks: 1, ..LeanCounters::default() });
    };
    check(Carrier::Stream, 1);
    check(Carrier::Datagrams, 3);
}

#[test]
fn a_peer_that_ends_the_connection_is_not_offered_the_next_one() {
    let mut master = endpoint(Role::Master, Some((Side::Offers, Carrier::Stream)));
    let offered: Vec<bool> = (0..18)
        .map(|_| {
            master.handle_connected(START);
            let offers = !said(&mut master).is_empty();
            master.reset();
            offers
        })
        .collect();
    let expect: Vec<bool> = [true].into_iter().chain([false; 16]).chain([true]).collect();
    assert_eq!(offered, expect);
}

#[test]
fn offers_for_others_are_left_to_the_link_layer() {
    let check = |change: &dyn Fn(&mut Hello)| {
        let mut hello = Hello {
            from_master: true,
            answer: false,
            carrier: Carrier::Stream,
            source: MASTER,
            destination: STATION,
            fragment_max: 2048,
        };
        change(&mut hello);
        let mut station = endpoint(Role::Outstation, Some((Side::Accepts, Carrier::Stream)));
        station.handle_connected(START);
        let mut bytes = hello.emit().to_vec();
        let control = Control::new(true, Function::RequestStatus);
        crate::link::Header { control, destination: STATION, source: MASTER }.emit(&[], &mut bytes);
        give(&mut station, &bytes, 7);
        assert!(!station.is_lean());
        assert_eq!(station.counters().lean.refused, 1);
        assert!(said(&mut station).starts_with(&[0x05, 0x64, 5, 0x0B]));
    };
    check(&|hello| hello.destination = LinkAddress::new(11));
    check(&|hello| hello.source = LinkAddress::new(2));
    check(&|hello| hello.from_master = false);
    check(&|hello| hello.answer = true);
    check(&|hello| hello.carrier = Carrier::Datagrams);
}

#[test]
fn a_message_that_no_station_sends_ends_a_stream() {
    let (_, mut station) = pair(Role::Master, true, Carrier::Stream);
    assert_eq!(station.handle_input(&[0, 0xE0, 1, 2]), (4, None));
    assert!(station.is_broken());
    station.reset();
    assert!(!station.is_broken());
}

#[test]
fn a_fragment_that_is_too_long_is_passed_over() {
    for carrier in [Carrier::Stream, Carrier::Datagrams] {
        let (mut master, mut station) = pair(Role::Master, true, carrier);
        let mut bytes = Vec::new();
        master.write_fragment(STATION, &vec![7; 2049], &mut bytes);
        assert!(give(&mut station, &bytes, usize::MAX).is_empty());
        assert_eq!(station.counters().transport.too_long, 1);
        exchange(&mut master, &mut station, &[1, 2]);
    }
}

#[test]
fn lean_stations_keep_each_other_alive_and_broadcasts_arrive() {
    for carrier in [Carrier::Stream, Carrier::Datagrams] {
        let (mut master, mut station) = pair(Role::Master, true, carrier);
        master.request_link_status(STATION);
        let bytes = said(&mut master);
        assert!(bytes.len() <= 7 && give(&mut station, &bytes, usize::MAX).is_empty());
        let bytes = said(&mut station);
        assert_eq!(master.handle_input(&bytes), (bytes.len(), Some(Received::LinkStatus { source: STATION })));
        let mut bytes = Vec::new();
        let all = LinkAddress::new(0xFFFE);
        master.write_fragment(all, &[0xC0, 2], &mut bytes);
        let (_, received) = station.handle_input(&bytes);
        assert_eq!(received, Some(Received::Fragment { source: MASTER, broadcast: all.broadcast() }));
    }
}

#[test]
fn on_datagrams_either_side_may_forget() {
    let (mut master, station) = pair(Role::Master, true, Carrier::Datagrams);
    // The outstation restarts: a message tells it what was agreed on.
    let mut again = endpoint(Role::Outstation, Some((Side::Accepts, Carrier::Datagrams)));
    again.handle_connected(START);
    exchange(&mut master, &mut again, &[1, 2, 3]);
    assert!(again.is_lean());
    // The outstation is replaced by a standard one: its frames are taken, and lean messages are offered again.
    let mut standard = endpoint(Role::Outstation, None);
    let mut bytes = Vec::new();
    standard.write_fragment(MASTER, &[0xF0, 0x82, 0x80, 0], &mut bytes);
    assert_eq!(give(&mut master, &bytes, usize::MAX).len(), 1);
    assert!(master.is_negotiating() && !said(&mut master).is_empty());
    // The master restarts without lean messages: its frames are answered with frames.
    let mut station = station;
    exchange(&mut endpoint(Role::Master, None), &mut station, &[4, 5, 6]);
    assert!(!station.is_lean());
}

#[test]
fn short_messages_are_taken_like_others() {
    // Around the most bytes that are kept without the heap, one after another in one read.
    let fragments: Vec<Vec<u8>> = [1, 39, 40, 41, 2].map(|bytes| vec![0xC0; bytes]).into();
    for carrier in [Carrier::Stream, Carrier::Datagrams] {
        let (mut master, mut station) = pair(Role::Master, true, carrier);
        let mut bytes = Vec::new();
        fragments.iter().for_each(|fragment| master.write_fragment(STATION, fragment, &mut bytes));
        assert_eq!(give(&mut station, &bytes, usize::MAX), fragments, "{carrier:?}");
        assert_eq!(station.counters().transport.fragments, 5);
        // Held until it is released: nothing is used, and nothing is lost.
        let (used, received) = station.handle_input(&bytes);
        assert!(used > 0 && received.is_some(), "{carrier:?}");
        assert_eq!(station.handle_input(bytes.get(used..).unwrap()), (0, None));
        assert_eq!(station.fragment(), [0xC0]);
        station.release();
        assert!(station.fragment().is_empty());
        assert_eq!(give(&mut station, bytes.get(used..).unwrap(), usize::MAX), fragments.get(1..).unwrap());
        // What a connection leaves behind is gone with it.
        assert!(station.handle_input(&bytes).1.is_some());
        station.reset();
        assert!(station.fragment().is_empty());
    }
}

fn any_fragments() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let bytes = prop_oneof![1..48_usize, 1..2049_usize];
    prop::collection::vec(bytes.prop_flat_map(|bytes| prop::collection::vec(any::<u8>(), bytes)), 1..4)
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_fragments(fragments in any_fragments(), piece in 1..700_usize, lean: bool) {
        let mut master = endpoint(Role::Master, Some((Side::Offers, Carrier::Stream)));
        let mut station = endpoint(Role::Outstation, lean.then_some((Side::Accepts, Carrier::Stream)));
        master.handle_connected(START);
        station.handle_connected(START);
        let offer = said(&mut master);
        prop_assert!(give(&mut station, &offer, piece).is_empty());
        let answer = said(&mut station);
        prop_assert!(give(&mut master, &answer, piece).is_empty());
        prop_assert_eq!((master.is_lean(), master.is_negotiating()), (lean, false));
        let mut stream = Vec::new();
        for fragment in &fragments {
            master.write_fragment(STATION, fragment, &mut stream);
        }
        prop_assert_eq!(give(&mut station, &stream, piece), fragments);
    }

    #[test]
    fn hostile_bytes_are_survived(
        lean: bool, datagrams: bool, agreed: bool,
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xD4), Just(0xCC), Just(0xA6), 0..4_u8], 0..2000),
        piece in 1..200_usize,
    ) {
        let carrier = if datagrams { Carrier::Datagrams } else { Carrier::Stream };
        let (offers, accepts) = pair(Role::Master, lean, carrier);
        let mut fresh = endpoint(Role::Master, Some((Side::Offers, carrier)));
        fresh.handle_connected(START);
        let first = if agreed { offers } else { fresh };
        for mut hostile in [first, accepts] {
            give(&mut hostile, &bytes, piece);
            let _ = hostile.is_partial();
            hostile.drop_partial();
            prop_assert!(!hostile.is_partial());
        }
    }

    #[test]
    fn a_side_that_accepts_is_standard_to_whoever_does_not_offer(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        fragment in prop::collection::vec(any::<u8>(), 1..600),
        piece in 1..200_usize,
    ) {
        let mut stream = bytes;
        endpoint(Role::Master, None).write_fragment(STATION, &fragment, &mut stream);
        let mut plain = endpoint(Role::Outstation, None);
        let mut lean = endpoint(Role::Outstation, Some((Side::Accepts, Carrier::Stream)));
        lean.handle_connected(START);
        prop_assert_eq!(give(&mut lean, &stream, piece), give(&mut plain, &stream, usize::MAX));
        prop_assert_eq!(lean.counters().link, plain.counters().link);
    }
}
