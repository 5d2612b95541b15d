//! Any octets are told: as a stream, and as the fragment of a frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tieline_dnp3::dissect::Dissector;
use tieline_dnp3::endpoint::{Endpoint, EndpointConfig, Role};
use tieline_dnp3::link::LinkAddress;

fuzz_target!(|octets: &[u8]| {
    let mut stream = octets.to_vec();
    let mut endpoint = Endpoint::new(EndpointConfig::new(Role::Outstation, LinkAddress::new(10)));
    endpoint.write_fragment(LinkAddress::new(1), octets, &mut stream);
    let (mut dissector, mut entries) = (Dissector::new(), Vec::new());
    dissector.stream(&stream, &mut entries);
    dissector.finish(&mut entries);
    assert!(entries.is_empty() == octets.is_empty());
    let lines: usize = entries.iter().map(|entry| entry.objects.len()).sum();
    assert!(lines <= 10 * stream.len());
});
