//! Any octets as a fragment: bounded work, and both ways of reading measurements agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tieline_dnp3::app::{Fragment, Function, Headers, Walk};

fuzz_target!(|octets: &[u8]| {
    let Ok(fragment) = Fragment::parse(octets) else { return };
    let (mut headers, mut last, mut work) = (fragment.headers(), 0, 0);
    while let Some(Ok(header)) = headers.next() {
        assert!(headers.offset() >= last + 3);
        last = headers.offset();
        work += header.items().count() + header.bits().count() + header.controls().count();
    }
    assert!(work <= 18 * octets.len());

    let (mut cto, mut measured) = (None, Vec::new());
    for header in Headers::new(Function::Response, fragment.objects).map_while(Result::ok) {
        cto = header.common_time().or(cto);
        measured.extend(header.measurements(cto).map(|measurement| (header.object(), measurement)));
    }
    let mut walk = Walk::new();
    let walked: Vec<_> = std::iter::from_fn(|| walk.next(fragment.objects)).collect();
    // As text: what is no number does not equal itself.
    assert_eq!(format!("{walked:?}"), format!("{measured:?}"));
});
