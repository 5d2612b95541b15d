//! Any bytes as a header: what is read is written the same, and a legal header stays legal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tieline_rsfn::{Acceptance, HeaderView, Incoming, Profile, RSFN_V2, RSFN_V3};

fuzz_target!(|bytes: &[u8]| {
    let profiles = [Profile { rsa_1024: true, ..RSFN_V2 }, RSFN_V3];
    let acceptance = Acceptance { profiles: &profiles, content_bytes_max: 1024 };
    let read = Incoming::read(bytes, &acceptance);
    let Ok(view) = HeaderView::parse(bytes) else {
        assert!(read.is_err());
        return;
    };
    let mut again = Vec::new();
    view.emit(&mut again);
    assert!(bytes.starts_with(&again));
    let Ok(read) = read else { return };
    let header = read.header();
    let cipher = profiles.iter().find(|profile| profile.version == header.version).expect("an accepted version").cipher;
    again.clear();
    header.emit(cipher, view.wrapped_key, view.signature, &mut again);
    let same = Incoming::read_header(&again, &acceptance).expect("what is written is read");
    assert_eq!(same.header(), header);
});
