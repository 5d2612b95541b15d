use super::*;
use proptest::prelude::*;

const LOCAL: u16 = 10;
const PEER: u16 = 1;

fn outstation() -> Endpoint {
    Endpoint::new(EndpointConfig::new(Role::Outstation, LinkAddress::new(LOCAL)))
}

fn frame(control: u8, destination: u16, source: u16, user_data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (destination, source) = (LinkAddress::new(destination), LinkAddress::new(source));
    Header { control: Control(control), destination, source }.emit(user_data, &mut out);
    out
}

/// Gives link control bytes one after another; expects the control bytes of the replies.
fn check(controls: &[u8], replies: &[u8]) {
    let (mut endpoint, mut out) = (outstation(), Vec::new());
    for control in controls {
        let data: &[u8] = if control & 0x4F >= 0x43 && control & 0x4F <= 0x44 { &[0xC0, 1] } else { &[] };
        let bytes = frame(*control, LOCAL, PEER, data);
        assert_eq!(endpoint.handle_input(&bytes).0, bytes.len());
        endpoint.release();
        endpoint.poll_transmit(&mut out);
    }
    let found: Vec<u8> = out.chunks(HEADER_BYTES).map(|f| Frame::parse(f).unwrap().header().control.0).collect();
    assert_eq!(found, replies, "{controls:02X?}");
}

#[test]
fn the_link_layer_answers_as_a_secondary_station() {
    check(&[0xC0], &[0x00]); // reset link: ACK
    check(&[0xC9], &[0x0B]); // request status: status
    check(&[0xC4], &[]); // unconfirmed user data: nothing
    check(&[0xF3], &[0x01]); // confirmed user data before a reset: NACK
    check(&[0xD2], &[0x01]); // test link before a reset: NACK
    check(&[0xC0, 0xF3, 0xD3, 0xF3], &[0, 0, 0, 0]); // the frame count alternates
    check(&[0xC0, 0xF2, 0xD2], &[0, 0, 0]); // test link counts as well
    // Reserved and obsolete functions, with every combination of the frame count bits: nothing.
    for code in [1, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15] {
        check(&[0xC0 | code, 0xD0 | code, 0xE0 | code, 0xF0 | code], &[]);
    }
    check(&[0xD0, 0xC3, 0xD9], &[]); // FCV against the function: dropped
    check(&[0x49, 0x40], &[]); // DIR says an outstation sent it: dropped
}

#[test]
fn a_repeated_frame_is_acknowledged_and_not_taken_again() {
    let mut endpoint = outstation();
    let mut give = |bytes: Vec<u8>| {
        let received = endpoint.handle_input(&bytes).1;
        endpoint.release();
        received.is_some()
    };
    let confirmed = |fcb: u8| frame(0xD3 | fcb, LOCAL, PEER, &[0xC0, 0xC0, 1]);
    assert!(!give(frame(0xC0, LOCAL, PEER, &[])));
    assert!(give(confirmed(0x20)));
    assert!(!give(confirmed(0x20)));
    assert!(give(confirmed(0)));
    assert_eq!(endpoint.counters().service.repeated, 1);
}

#[test]
fn a_broadcast_as_confirmed_user_data_is_taken_once_and_not_acknowledged() {
    let (mut endpoint, mut out) = (outstation(), Vec::new());
    let mut give = |bytes: &[u8]| {
        let received = endpoint.handle_input(bytes).1;
        endpoint.release();
        assert!(!endpoint.poll_transmit(&mut out), "{out:02X?}");
        received
    };
    let taken = |broadcast| Some(Received::Fragment { source: LinkAddress::new(PEER), broadcast: Some(broadcast) });
    // Without a reset of the link, whatever the frame count is, to each of the three addresses.
    let optional = taken(Broadcast::ConfirmOptional);
    assert_eq!(give(&frame(0xF3, 0xFFFF, PEER, &[0xC0, 0xC0, 2])), optional);
    assert_eq!(give(&frame(0xF3, 0xFFFE, PEER, &[0xC1, 0xC1, 2])), taken(Broadcast::ConfirmAlways));
    assert_eq!(give(&frame(0xD3, 0xFFFD, PEER, &[0xC2, 0xC2, 2])), taken(Broadcast::ConfirmNever));
    // Its sender hears no acknowledgement and sends the frame again.
    let again = frame(0xD3, 0xFFFF, PEER, &[0xC3, 0xC3, 2]);
    assert_eq!((give(&again), give(&again), give(&again)), (optional, None, None));
    // The same after something else is another; so is what is not to be acknowledged.
    assert_eq!(give(&frame(0xC4, 0xFFFF, PEER, &[0xC4, 0xC4, 2])), optional);
    assert_eq!((give(&again), give(&again)), (optional, None));
    let unconfirmed = frame(0xC4, 0xFFFF, PEER, &[0xC5, 0xC5, 2]);
    assert_eq!((give(&unconfirmed), give(&unconfirmed)), (optional, optional));
    assert_eq!(endpoint.counters().service, ServiceCounters { repeated: 3, ..ServiceCounters::default() });
}

#[test]
fn frames_for_others_are_counted_and_dropped() {
    let counters = |config: EndpointConfig, bytes: Vec<u8>| {
        let mut endpoint = Endpoint::new(config);
        let received = endpoint.handle_input(&bytes).1;
        (received, endpoint.counters().service)
    };
    let config = EndpointConfig::new(Role::Outstation, LinkAddress::new(LOCAL));
    let none = ServiceCounters::default();
    let request = &[0xC0, 0xC0, 0x17];
    assert_eq!(counters(config, frame(0xC4, 11, PEER, request)), (None, ServiceCounters { not_ours: 1, ..none }));
    assert_eq!(
        counters(config, frame(0xC4, LOCAL, 0xFFF0, request)),
        (None, ServiceCounters { unknown_source: 1, ..none })
    );
    let only = EndpointConfig { remote: Some(LinkAddress::new(3)), ..config };
    assert_eq!(
        counters(only, frame(0xC4, LOCAL, PEER, request)),
        (None, ServiceCounters { unknown_source: 1, ..none })
    );
    let to = |broadcast| Some(Received::Fragment { source: LinkAddress::new(PEER), broadcast });
    assert_eq!(counters(config, frame(0xC4, LOCAL, PEER, request)), (to(None), none));
    let always = Some(Broadcast::ConfirmAlways);
    assert_eq!(counters(config, frame(0xC4, 0xFFFE, PEER, request)), (to(always), none));
    assert_eq!(counters(config, frame(0xC9, 0xFFFE, PEER, &[])), (None, ServiceCounters { malformed: 1, ..none }));
    assert_eq!(counters(config, frame(0xC4, 0xFFFC, PEER, request)), (None, ServiceCounters { not_ours: 1, ..none }));
    let own = EndpointConfig { self_address: true, ..config };
    assert_eq!(counters(own, frame(0xC4, 0xFFFC, PEER, request)), (to(None), none));
    let master = EndpointConfig::new(Role::Master, LinkAddress::new(LOCAL));
    let status = Some(Received::LinkStatus { source: LinkAddress::new(PEER) });
    assert_eq!(counters(master, frame(0x0B, LOCAL, PEER, &[])), (status, none));
}

#[test]
fn a_held_fragment_holds_the_input_back() {
    let mut endpoint = outstation();
    let two = [frame(0xC4, LOCAL, PEER, &[0xC0, 1, 2]), frame(0xC4, LOCAL, PEER, &[0xC1, 3])].concat();
    let (used, received) = endpoint.handle_input(&two);
    assert!(received.is_some() && used == 15 && endpoint.fragment() == [1, 2]);
    assert_eq!(endpoint.handle_input(&two[used..]), (0, None));
    endpoint.release();
    let (more, received) = endpoint.handle_input(&two[used..]);
    assert!(received.is_some() && used + more == two.len() && endpoint.fragment() == [3]);
}

#[test]
fn a_frame_in_two_pieces_leaves_no_memory_behind() {
    let mut endpoint = outstation();
    let bytes = frame(0xC4, LOCAL, PEER, &[0xC0, 1, 2]);
    let (head, tail) = bytes.split_at(7);
    assert_eq!(endpoint.handle_input(head), (7, None));
    assert!(endpoint.handle_input(tail).1.is_some());
    endpoint.release();
    let counters = endpoint.counters();
    assert_eq!(endpoint.decoder.partial_bytes() + endpoint.fragment().len(), 0);
    assert_eq!((counters.link.frames, counters.transport.fragments), (1, 1));
}

#[test]
fn what_was_begun_can_be_given_up() {
    let whole = frame(0xC4, LOCAL, PEER, &[0xC0, 1, 2]);
    for begun in [&whole[..11], &frame(0xC4, LOCAL, PEER, &[0x40, 1, 2])] {
        let mut endpoint = outstation();
        assert!(endpoint.handle_input(begun).1.is_none() && endpoint.is_partial());
        endpoint.drop_partial();
        assert!(!endpoint.is_partial());
        assert!(endpoint.handle_input(&whole).1.is_some() && endpoint.fragment() == [1, 2]);
        endpoint.drop_partial();
        assert_eq!(endpoint.fragment(), [1, 2]);
    }
}

#[test]
fn a_flood_of_requests_fills_no_memory() {
    let mut endpoint = outstation();
    let flood = frame(0xC9, LOCAL, PEER, &[]).repeat(100);
    assert_eq!(endpoint.handle_input(&flood), (flood.len(), None));
    let mut out = Vec::new();
    assert!(endpoint.poll_transmit(&mut out) && !endpoint.poll_transmit(&mut out));
    assert_eq!(out.len(), REPLIES_MAX * HEADER_BYTES);
    assert_eq!(endpoint.counters().service.replies_dropped, 96);
}

proptest! {
    #[test]
    fn fragments_arrive_as_they_were_sent(
        fragments in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..2049), 1..4),
        piece in 1..700_usize,
    ) {
        let mut master = Endpoint::new(EndpointConfig::new(Role::Master, LinkAddress::new(PEER)));
        let (mut outstation, mut stream) = (outstation(), Vec::new());
        for fragment in &fragments {
            let before = stream.len();
            master.write_fragment(LinkAddress::new(LOCAL), fragment, &mut stream);
            prop_assert_eq!(stream.len() - before, framed_bytes(fragment.len()));
        }
        let mut found = Vec::new();
        for mut piece in stream.chunks(piece) {
            while !piece.is_empty() {
                let (used, received) = outstation.handle_input(piece);
                piece = &piece[used..];
                if received.is_some() {
                    found.push(outstation.fragment().to_vec());
                    outstation.release();
                }
            }
        }
        prop_assert_eq!(found, fragments);
        prop_assert_eq!(outstation.counters().service, ServiceCounters::default());
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut endpoint = outstation();
        prop_assert_eq!(endpoint.handle_input(&bytes).0, bytes.len());
    }
}
