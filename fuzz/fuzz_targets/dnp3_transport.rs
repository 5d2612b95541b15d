//! Segments of any kind, in whole frames: an endpoint keeps its limit and gives its memory back. The input is a list of
//! link control, length, user data.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tieline_dnp3::endpoint::{Endpoint, EndpointConfig, Role};
use tieline_dnp3::link::{Control, Header, LinkAddress};

const FRAGMENT_OCTETS_MAX: u16 = 600;

fuzz_target!(|octets: &[u8]| {
    let config = EndpointConfig {
        fragment_max: FRAGMENT_OCTETS_MAX,
        ..EndpointConfig::new(Role::Outstation, LinkAddress::new(10))
    };
    let (mut endpoint, mut rest, mut out) = (Endpoint::new(config), octets, Vec::new());
    while let [control, length, more @ ..] = rest {
        let (user_data, after) = more.split_at(usize::from(*length).min(250).min(more.len()));
        rest = after;
        let mut frame = Vec::new();
        let (destination, source) = (LinkAddress::new(10), LinkAddress::new(1 + u16::from(control & 0x80 == 0)));
        Header { control: Control(control | 0x80), destination, source }.emit(user_data, &mut frame);
        let (used, received) = endpoint.handle_input(&frame);
        assert_eq!(used, frame.len());
        assert!(endpoint.fragment().len() <= usize::from(FRAGMENT_OCTETS_MAX));
        assert!(received.is_some() || endpoint.fragment().is_empty());
        endpoint.release();
        out.clear();
        endpoint.poll_transmit(&mut out);
        assert!(out.len() <= 10);
    }
});
