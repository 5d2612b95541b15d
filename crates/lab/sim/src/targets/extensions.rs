//! Layouts of their own: lean messages, secure authentication, files, device attributes.

use tieline_core::Instant;
use tieline_dnp3::GroupVar;
use tieline_dnp3::app::{AttributeValue, FileDescriptor, FileObject, Fragment};
use tieline_dnp3::dissect::Dissector;
use tieline_dnp3::endpoint::{Endpoint, EndpointConfig, Received, Role};
use tieline_dnp3::lean::{Carrier, LeanConfig, Side};
use tieline_dnp3::link::LinkAddress;
use tieline_dnp3::secure::Authentication;

fn agree<P: AsRef<[u8]>>(options: u8, pieces: impl Iterator<Item = P>) -> (Vec<Vec<u8>>, bool) {
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

/// An agreement, a size of pieces, then bytes on a stream or in datagrams: on a stream, any two cuts give the same
/// fragments and the same outcome.
pub(super) fn lean(bytes: &[u8]) {
    let [options, size, bytes @ ..] = bytes else { return };
    let whole = agree(*options, std::iter::once(bytes));
    let cut = agree(*options, bytes.chunks(usize::from(*size).max(1)));
    if options & 2 == 0 {
        assert_eq!(cut, whole);
    }
    let (mut dissector, mut entries) = (Dissector::new(), Vec::new());
    bytes.chunks(usize::from(*size).max(1)).for_each(|piece| dissector.stream(piece, &mut entries));
    dissector.finish(&mut entries);
    Dissector::new().datagram(bytes, &mut entries);
}

/// A variation of group 120, then an object of it: what was read and written again reads the same.
pub(super) fn secure(bytes: &[u8]) {
    let [variation, bytes @ ..] = bytes else { return };
    if let Some(object) = Authentication::parse(GroupVar::new(120, variation % 18), bytes) {
        let mut written = vec![0xC0, 32];
        object.write(&mut written);
        let fragment = Fragment::parse(&written).expect("a known function");
        assert_eq!(Authentication::only(&fragment).as_ref(), Some(&object));
    }
    let fragment = [&[0xC0, 131, 0, 0], bytes].concat();
    if let Ok(fragment) = Fragment::parse(&fragment) {
        assert!(Authentication::all(&fragment).count() <= bytes.len());
    }
}

/// A variation of group 70, then an object of it, a directory and an attribute: what was read and written again reads the
/// same, and a directory ends.
pub(super) fn file(bytes: &[u8]) {
    let [variation, bytes @ ..] = bytes else { return };
    let object = GroupVar::new(70, variation % 10);
    if let Ok(read) = FileObject::parse(object, bytes) {
        let mut written = Vec::new();
        read.emit_object(&mut written);
        let again = FileObject::parse(object, &written);
        assert_eq!(format!("{again:?}"), format!("{:?}", Ok::<_, ()>(&read)));
    }
    let mut rest = bytes;
    while let Ok(Some((_, used))) = FileDescriptor::take_from(rest) {
        assert!(used > 0 && used <= rest.len());
        rest = &rest[used..];
    }
    if let Some(value) = AttributeValue::decode(bytes) {
        let mut written = Vec::new();
        value.encode(&mut written);
        assert_eq!(format!("{:?}", AttributeValue::decode(&written)), format!("{:?}", Some(&value)));
    }
}
