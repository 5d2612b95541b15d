use super::super::{Master, MasterConfig};
use super::script::{START, bytes, latch_on, words};
use crate::Classes;
use crate::endpoint::{Endpoint, EndpointConfig, Role};
use crate::link::LinkAddress;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use proptest::prelude::*;
use tieline_core::{CommandMode, Machine};

/// What a driver does with `chunks`; returns all events.
fn drive(master: &mut Master, chunks: &[Vec<u8>], pause: Duration) -> Vec<String> {
    let (mut now, mut events, mut out) = (START, Vec::new(), Vec::new());
    master.handle_connected(now);
    // A driver writes before it waits for input.
    for chunk in core::iter::once(&Vec::new()).chain(chunks) {
        let mut rest = chunk.as_slice();
        loop {
            let used = master.handle_input(now, rest);
            rest = &rest[used..];
            let before = events.len();
            while let Some(event) = master.poll_event() {
                events.extend(words(&event));
            }
            assert!(used > 0 || rest.is_empty() || events.len() > before, "no progress");
            let mut messages = 0;
            while master.poll_transmit(now, &mut out) {
                messages += 1;
                assert!(messages < 20, "endless output");
            }
            out.clear();
            if rest.is_empty() {
                break;
            }
        }
        now = now.later(pause);
        master.handle_timeout(now);
        assert!(master.timeout().is_none_or(|at| at > now.mono), "a deadline that does not move");
    }
    events
}

fn framed(fragments: &[Vec<u8>]) -> Vec<u8> {
    let mut peer = Endpoint::new(EndpointConfig::new(Role::Outstation, LinkAddress::new(10)));
    let mut out = Vec::new();
    fragments.iter().for_each(|fragment| peer.write_fragment(LinkAddress::new(1), fragment, &mut out));
    out
}

/// Responses that may come in any order, good and bad.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "81 0000",
        "81 8000",
        "81 1608 0201 17 02 03 81 04 01",
        "81 0000 0C01 17 01 03 03 01 64000000 00000000 00",
        "81 1000 3402 07 01 1400",
        "82 0000 0201 17 01 03 81",
        "82 8000",
        "82 0000 0203 17 01 03 81 1000",
        "81 0000 1E01 01 0000 FFFF 00",
    ]);
    let control = prop::sample::select(vec![0xC0, 0xC1, 0xC2, 0xE0, 0xE1, 0x81, 0x41, 0xF0, 0xF1, 0xA0]);
    let known = (control, known).prop_map(|(control, rest): (u8, _)| [vec![control], bytes(rest)].concat());
    prop_oneof![4 => known, 1 => prop::collection::vec(any::<u8>(), 1..300)]
}

fn master() -> Master {
    Master::new(MasterConfig { event_poll: Classes::EVENTS, ..MasterConfig::default() })
}

proptest! {
    #[test]
    fn any_bytes_are_survived(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..20)) {
        drive(&mut master(), &chunks, Duration::from_secs(3));
    }

    #[test]
    fn any_fragments_are_survived(fragments in prop::collection::vec(fragment(), 0..40), seconds in 0..10_u64) {
        let mut master = master();
        let chunks: Vec<_> = fragments.iter().map(|fragment| framed(core::slice::from_ref(fragment))).collect();
        drive(&mut master, &chunks, Duration::from_secs(seconds));
        let now = START.later(Duration::from_secs(1000));
        let direct = CommandMode::DirectOperate;
        let _ = master.command(now, latch_on(), 3, direct, now.mono, 1);
        master.handle_disconnected(now);
        let events: Vec<_> = core::iter::from_fn(|| master.poll_event()).take(100).collect();
        prop_assert!(events.len() < 50);
    }

    #[test]
    fn any_chunking_gives_the_same_events(fragments in prop::collection::vec(fragment(), 1..20), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let stream = framed(&fragments);
        let mut at: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len())).chain([0, stream.len()]).collect();
        at.sort_unstable();
        let chunks: Vec<_> = at.windows(2).map(|w| stream[w[0]..w[1]].to_vec()).collect();
        let whole = drive(&mut master(), core::slice::from_ref(&stream), Duration::ZERO);
        prop_assert_eq!(drive(&mut master(), &chunks, Duration::ZERO), whole);
    }
}
