//! Any octets, after any agreement, on a stream or in datagrams, make no panic; on a stream, two different cuts give the
//! same fragments and the same verdict.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tieline_core::Instant;
use tieline_dnp3::dissect::Dissector;
use tieline_dnp3::endpoint::{Endpoint, EndpointConfig, Received, Role};
use tieline_dnp3::lean::{Carrier, LeanConfig, Side};
use tieline_dnp3::link::LinkAddress;

fn run(options: u8, pieces: impl Iterator<Item = impl AsRef<[u8]>>) -> (Vec<Vec<u8>>, bool) {
    let side = if options & 1 == 0 { Side::Offers } else { Side::Accepts };
    let carrier = if options & 2 == 0 { Carrier::Stream } else { Carrier::Datagrams };
    let role = if options & 4 == 0 { Role::Master } else { Role::Outstation };
    let mut endpoint = Endpoint::new(EndpointConfig::new(role, LinkAddress::new(1)));
    endpoint.set_lean(Some(LeanConfig { side, carrier }));
    endpoint.handle_connected(Instant(0));
    let (mut fragments, mut out) = (Vec::new(), Vec::new());
    for piece in pieces {
        let mut rest = piece.as_ref();
        loop {
            let (used, received) = endpoint.handle_input(rest);
            rest = &rest[used..];
            if let Some(Received::Fragment { .. }) = received {
                fragments.push(endpoint.fragment().to_vec());
                endpoint.release();
            } else if received.is_none() && rest.is_empty() {
                break;
            }
        }
        out.clear();
        endpoint.poll_transmit(&mut out);
    }
    (fragments, endpoint.is_broken())
}

fuzz_target!(|octets: &[u8]| {
    let [options, size, octets @ ..] = octets else { return };
    let whole = run(*options, std::iter::once(octets));
    let cut = run(*options, octets.chunks(usize::from(*size).max(1)));
    if options & 2 == 0 {
        assert_eq!(cut, whole);
    }
    let (mut dissector, mut entries) = (Dissector::new(), Vec::new());
    octets.chunks(usize::from(*size).max(1)).for_each(|piece| dissector.stream(piece, &mut entries));
    dissector.finish(&mut entries);
    Dissector::new().datagram(octets, &mut entries);
});
