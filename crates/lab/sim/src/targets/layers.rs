//! One layer each, on bytes as they come.

use tieline_dnp3::app::{Fragment, Function, Headers, Walk};
use tieline_dnp3::dissect::Dissector;
use tieline_dnp3::endpoint::{Endpoint, EndpointConfig, Role};
use tieline_dnp3::link::{Control, Decoder, Frame, Header, LinkAddress, LinkCounters};
use tieline_dnp3::objects::Layout;

fn decode<P: AsRef<[u8]>>(pieces: impl Iterator<Item = P>) -> (Vec<Vec<u8>>, LinkCounters, usize) {
    let (mut decoder, mut frames) = (Decoder::new(), Vec::new());
    for piece in pieces {
        let mut rest = piece.as_ref();
        while let Some(decoded) = decoder.decode(&mut rest) {
            if let Ok(frame) = decoded {
                assert_eq!(Frame::parse(frame.bytes()), Some(frame));
                frames.push(frame.bytes().to_vec());
            }
        }
        assert!(rest.is_empty());
    }
    (frames, decoder.counters(), decoder.partial_bytes())
}

/// A size of pieces, then bytes of a line: any two cuts give the same frames and counters, and every frame parses alone.
pub(super) fn link(bytes: &[u8]) {
    let Some((size, bytes)) = bytes.split_first() else { return };
    let whole = decode(std::iter::once(bytes));
    assert_eq!(decode(bytes.chunks(usize::from(*size).max(1))), whole);
}

/// Bytes of a fragment, at most, that the endpoints of these targets take.
const FRAGMENT_BYTES_MAX: u16 = 600;

fn small_endpoint(role: Role) -> Endpoint {
    let (local, remote) = if role == Role::Master { (1, 10) } else { (10, 1) };
    Endpoint::new(EndpointConfig {
        fragment_max: FRAGMENT_BYTES_MAX,
        remote: Some(LinkAddress::new(remote)),
        ..EndpointConfig::new(role, LinkAddress::new(local))
    })
}

/// A list of link control, length, user data, in whole frames: an endpoint keeps its limit and gives its memory back.
pub(super) fn transport(bytes: &[u8]) {
    let mut endpoint = Endpoint::new(EndpointConfig {
        fragment_max: FRAGMENT_BYTES_MAX,
        ..EndpointConfig::new(Role::Outstation, LinkAddress::new(10))
    });
    let (mut rest, mut out) = (bytes, Vec::new());
    while let [control, length, more @ ..] = rest {
        let (user_data, after) = more.split_at(usize::from(*length).min(250).min(more.len()));
        rest = after;
        let mut frame = Vec::new();
        let (destination, source) = (LinkAddress::new(10), LinkAddress::new(1 + u16::from(control & 0x80 == 0)));
        Header { control: Control(control | 0x80), destination, source }.emit(user_data, &mut frame);
        let (used, received) = endpoint.handle_input(&frame);
        assert_eq!(used, frame.len());
        assert!(endpoint.fragment().len() <= usize::from(FRAGMENT_BYTES_MAX));
        assert!(received.is_some() || endpoint.fragment().is_empty());
        endpoint.release();
        out.clear();
        endpoint.poll_transmit(&mut out);
        assert!(out.len() <= 10);
    }
}

/// A role, then bytes of a line: no fragment is longer than the limit, replies are few, and a reset forgets all.
pub(super) fn endpoint(bytes: &[u8]) {
    let Some((role, bytes)) = bytes.split_first() else { return };
    let mut endpoint = small_endpoint(if role & 1 == 0 { Role::Outstation } else { Role::Master });
    let (mut rest, mut out, mut rounds) = (bytes, Vec::new(), 0);
    loop {
        let (used, received) = endpoint.handle_input(rest);
        rest = &rest[used..];
        assert!(endpoint.fragment().len() <= usize::from(FRAGMENT_BYTES_MAX));
        endpoint.release();
        out.clear();
        endpoint.poll_transmit(&mut out);
        assert!(out.len() <= 40);
        if rest.is_empty() && received.is_none() {
            break;
        }
        rounds += 1;
        assert!(rounds <= bytes.len() + 1, "work without progress");
    }
    endpoint.reset();
    assert!(!endpoint.is_partial());
}

/// A fragment: bounded work, and both ways of reading measurements agree.
pub(super) fn app(bytes: &[u8]) {
    let Ok(fragment) = Fragment::parse(bytes) else { return };
    let (mut headers, mut last, mut work) = (fragment.headers(), 0, 0);
    while let Some(Ok(header)) = headers.next() {
        assert!(headers.offset() >= last + 3);
        last = headers.offset();
        work += header.items().count() + header.bits().count() + header.controls().count();
        let _ = (header.time(), header.common_time(), header.delay_ms(), header.classes(), header.is_event());
    }
    assert!(work <= 18 * bytes.len());

    let (mut cto, mut measured) = (None, Vec::new());
    for header in Headers::new(Function::Response, fragment.objects).map_while(Result::ok) {
        cto = header.common_time().or(cto);
        measured.extend(header.measurements(cto).map(|measurement| (header.object(), measurement)));
    }
    let walked: Vec<_> = Walk::new(fragment.objects).measurements().collect();
    // As text: what is no number does not equal itself.
    assert_eq!(format!("{walked:?}"), format!("{measured:?}"));
    // All at once goes another way than one by one.
    let (mut walk, mut together) = (Walk::new(fragment.objects), Vec::new());
    let one_by_one: Vec<_> = std::iter::from_fn(|| walk.next()).collect();
    Walk::new(fragment.objects).for_each(|found| together.push(found));
    assert_eq!(format!("{one_by_one:?}"), format!("{together:?}"));
}

/// The number of a layout of the table, then bytes of an object: what was read and written again reads the same.
pub(super) fn objects(bytes: &[u8]) {
    let [number, bytes @ ..] = bytes else { return };
    let Some(layout) = Layout::all().nth(usize::from(*number) % Layout::all().count()) else { return };
    for position in 0..8 {
        if let Some(value) = layout.decode_packed(bytes, position) {
            let packed = layout.encode_packed(&value).expect("what was read can be written");
            assert!(packed <= 3);
        }
    }
    let Ok(fields) = layout.decode(bytes) else { return };
    assert!(layout.bytes().is_none_or(|needed| needed <= bytes.len()));
    let Some(value) = &fields.value else { return };
    let mut again = Vec::new();
    if layout.encode(value, fields.flags, fields.time, &mut again).is_ok() {
        let read = layout.decode(&again).expect("what was written can be read");
        assert_eq!(format!("{read:?}"), format!("{fields:?}"));
    }
}

/// Bytes of a line, and the same as the fragment of a frame: all of them are told, in bounded text.
pub(super) fn dissect(bytes: &[u8]) {
    let mut stream = bytes.to_vec();
    let mut endpoint = Endpoint::new(EndpointConfig::new(Role::Outstation, LinkAddress::new(10)));
    endpoint.write_fragment(LinkAddress::new(1), bytes, &mut stream);
    let (mut dissector, mut entries) = (Dissector::new(), Vec::new());
    dissector.stream(&stream, &mut entries);
    dissector.finish(&mut entries);
    assert!(entries.is_empty() == bytes.is_empty());
    let lines: usize = entries.iter().map(|entry| entry.objects.len()).sum();
    assert!(lines <= 10 * stream.len());
}
