use super::*;
use alloc::format;
use alloc::string::String;

/// Reads headers and shows each as object, qualifier, range and bytes of data; then the error, if any.
fn check(function: Function, objects: &[u8], expect: &str) {
    let mut found = String::new();
    for header in Headers::new(function, objects) {
        match header {
            Ok(h) => found += &format!("{} {} {:?} {}; ", h.object(), h.qualifier(), h.range(), h.data().len()),
            Err(error) => found += &format!("{error} at {} {:04X}; ", error.at, error.iin().0),
        }
    }
    assert_eq!(found.trim_end(), expect);
}

#[test]
fn requests_name_objects_without_bringing_them() {
    check(Function::Read, &[60, 2, 6, 60, 1, 6], "g60v2 06 All 0; g60v1 06 All 0;");
    check(Function::Read, &[1, 0, 0, 1, 9], "g1v0 00 Span { start: 1, stop: 9 } 0;");
    check(Function::Read, &[1, 0, 0x17, 2, 4, 9], "g1v0 17 Count(2) 2;");
    check(Function::Read, &[99, 0, 6, 1, 2, 6], "g99v0 06 All 0; g1v2 06 All 0;");
    check(Function::Read, &[1, 2, 2, 0, 0, 0, 0, 0, 0, 1, 0], "g1v2 02 Span { start: 0, stop: 65536 } 0;");
    let freeze = [50, 2, 7, 1, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 20, 0, 6];
    check(Function::FreezeAtTime, &freeze, "g50v2 07 Count(1) 10; g20v0 06 All 0;");
}

#[test]
fn what_was_understood_before_an_error_stands() {
    let good = [1, 2, 0, 0, 0, 1];
    check(
        Function::Response,
        &[&good[..], &[99, 1, 0, 0, 0, 1]].concat(),
        "g1v2 00 Span { start: 0, stop: 0 } 1; g99v1: objects of unknown size at 6 0200;",
    );
    check(
        Function::Response,
        &[&good[..], &[1]].concat(),
        "g1v2 00 Span { start: 0, stop: 0 } 1; object header: the fragment ends too early at 6 0400;",
    );
}

#[test]
fn malformed_headers_are_told_from_unknown_objects() {
    check(Function::Response, &[1, 2, 0, 5, 4], "g1v2: range 5-4 runs backward at 0 0400;");
    check(Function::Response, &[1, 2, 0x1B, 5], "g1v2: qualifier 1B has no meaning at 0 0400;");
    check(Function::Response, &[1, 2, 0x06, 1, 2, 0xF6], "g1v2 06 All 0; g1v2: qualifier F6 has no meaning at 3 0400;");
    check(Function::Response, &[1, 1, 0x17, 1, 1, 1], "g1v1: qualifier 17 does not fit these objects at 0 0400;");
    check(Function::Response, &[1, 2, 0, 0, 1, 1], "g1v2: the fragment ends too early at 0 0400;");
    check(Function::Response, &[1, 2, 0x39, 255, 255, 255, 255], "g1v2: the fragment ends too early at 0 0400;");
    check(Function::Response, &[1, 2, 0x39, 1, 0, 0, 0, 0, 0, 1, 0, 1], "g1v2: index 65536 is above 65535 at 0 0400;");
    check(Function::Response, &[30, 0, 0, 1, 1, 0], "g30v0: objects of unknown size at 0 0200;");
}

#[test]
fn points_without_an_index_are_refused() {
    check(Function::Response, &[2, 1, 7, 1, 0x81], "g2v1: qualifier 07 does not fit these objects at 0 0400;");
    check(Function::Response, &[1, 2, 8, 1, 0, 0x81], "g1v2: qualifier 08 does not fit these objects at 0 0400;");
    check(Function::Select, &[41, 2, 7, 1, 1, 0, 0], "g41v2: qualifier 07 does not fit these objects at 0 0400;");
    check(Function::Read, &[2, 1, 7, 1], "g2v1 07 Count(1) 0;");
}

#[test]
fn sizes_are_found_in_every_way() {
    check(Function::Response, &[0x78, 1, 0x5B, 1, 3, 0, 1, 2, 3, 60, 1, 6], "g120v1 5B Count(1) 5; g60v1 06 All 0;");
    check(Function::Response, &[99, 1, 0x5B, 1, 1, 0, 1], "g99v1 5B Count(1) 3;");
    check(
        Function::Response,
        &[0, 242, 0, 0, 0, 1, 2, 65, 66, 1, 2, 0, 0, 0, 1],
        "g0v242 00 Span { start: 0, stop: 0 } 4; g1v2 00 Span { start: 0, stop: 0 } 1;",
    );
    check(Function::Response, &[110, 3, 0, 0, 1, 1, 2, 3, 4, 5, 6], "g110v3 00 Span { start: 0, stop: 1 } 6;");
    check(Function::Response, &[1, 1, 0, 0, 8, 255, 1], "g1v1 00 Span { start: 0, stop: 8 } 2;");
    check(
        Function::Response,
        &[50, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        "g50v4 00 Span { start: 0, stop: 0 } 11;",
    );
}

#[test]
fn deltas_are_read_and_are_no_measurements() {
    // Counters that tell by how much they grew (IEEE 1815 A.9: obsolete), each before a binary.
    let binary = [1, 2, 0, 7, 7, 0x81];
    let delta = |head: [u8; 2], bytes: usize| [&head[..], &[0x17, 1, 3], &alloc::vec![1; bytes], &binary].concat();
    for (group, variation, bytes) in
        [(20, 3, 5), (20, 4, 3), (20, 7, 4), (20, 8, 2), (21, 3, 5), (21, 7, 11), (21, 8, 9), (21, 11, 4), (21, 12, 2)]
            .into_iter()
            .chain([(22, 3, 5), (22, 4, 3), (22, 7, 11), (22, 8, 9), (23, 3, 5), (23, 7, 11), (23, 8, 9)])
    {
        let objects = delta([group, variation], bytes);
        assert!(Headers::new(Function::Response, &objects).all(|header| header.is_ok()), "g{group}v{variation}");
        let walk = crate::app::Walk::new(&objects);
        let indices: alloc::vec::Vec<u16> = walk.measurements().map(|(_, measurement)| measurement.index).collect();
        assert_eq!(indices, [7], "g{group}v{variation}");
    }
}
