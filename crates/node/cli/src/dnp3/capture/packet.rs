//! One packet, down to what TCP or UDP carries.

use super::file::Packet;
use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use std::net::SocketAddr;

/// What a packet carries from one end to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Who sent it.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
    /// How.
    pub carrier: Carrier,
    /// The bytes; padding of the link is cut off.
    pub payload: &'a [u8],
}

/// How bytes are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// As a part of a stream.
    Tcp {
        /// The number of the first byte, or of SYN.
        sequence: u32,
        /// A stream begins.
        syn: bool,
        /// The stream ends behind the payload, or was cut.
        ends: bool,
    },
    /// As a datagram.
    Udp,
}

/// What a packet carries by TCP or UDP; none where it carries something else.
///
/// # Errors
/// Why the packet cannot be read.
pub fn segment(packet: &Packet) -> Result<Option<Segment<'_>>, String> {
    let sliced = slice(packet)?;
    let (source, destination) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        Some(LaxNetSlice::Ipv6(ip)) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        Some(LaxNetSlice::Arp(_)) | None => {
            return sliced.stop_err.map_or(Ok(None), |(error, _)| Err(error.to_string()));
        }
    };
    if sliced.ip_payload().is_some_and(|payload| payload.fragmented) {
        return Err("a fragment of an IP packet".to_owned());
    }
    let (ports, carrier, payload) = match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            let carrier =
                Carrier::Tcp { sequence: tcp.sequence_number(), syn: tcp.syn(), ends: tcp.fin() || tcp.rst() };
            ((tcp.source_port(), tcp.destination_port()), carrier, tcp.payload())
        }
        Some(TransportSlice::Udp(udp)) => ((udp.source_port(), udp.destination_port()), Carrier::Udp, udp.payload()),
        Some(_) => return Ok(None),
        None => return sliced.stop_err.map_or(Ok(None), |(error, _)| Err(error.to_string())),
    };
    let (source, destination) = (SocketAddr::new(source, ports.0), SocketAddr::new(destination, ports.1));
    Ok(Some(Segment { source, destination, carrier, payload }))
}

/// Takes the link header off: LINKTYPE numbers of tcpdump.org.
fn slice(packet: &Packet) -> Result<LaxSlicedPacket<'_>, String> {
    let bytes = packet.bytes.as_slice();
    let short = || format!("{} bytes, shorter than a link header", bytes.len());
    let typed = |at: usize, header: usize| match (bytes.get(at..at + 2), bytes.get(header..)) {
        (Some(&[high, low]), Some(rest)) => {
            Ok(LaxSlicedPacket::from_ether_type(EtherType(u16::from_be_bytes([high, low])), rest))
        }
        _ => Err(short()),
    };
    let bare = |bytes| LaxSlicedPacket::from_ip(bytes).map_err(|error| error.to_string());
    match packet.link {
        1 => LaxSlicedPacket::from_ethernet(bytes).map_err(|error| error.to_string()),
        // Loopback of the BSDs: an address family of 4 bytes.
        0 | 108 => bare(bytes.get(4..).ok_or_else(short)?),
        12 | 14 | 101 | 228 | 229 => bare(bytes),
        // Linux cooked, versions 1 and 2.
        113 => typed(14, 16),
        276 => typed(0, 20),
        other => Err(format!("link type {other}, expected Ethernet, raw IP, loopback or Linux cooked")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    fn packet(link: u32, bytes: Vec<u8>) -> Packet {
        Packet { number: 1, time: None, link, bytes }
    }

    fn ip_udp() -> Vec<u8> {
        let mut out = Vec::new();
        let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(20_000, 1024);
        builder.write(&mut out, &[5, 100]).unwrap();
        out
    }

    fn check(link: u32, bytes: Vec<u8>, expect: Result<&[u8], &str>) {
        let packet = packet(link, bytes);
        match (segment(&packet), expect) {
            (Ok(Some(found)), Ok(payload)) => {
                assert_eq!(found.source.to_string(), "10.0.0.1:20000", "link {link}");
                assert_eq!(found.payload, payload, "link {link}");
            }
            (Err(found), Err(expect)) => assert!(found.contains(expect), "link {link}: {found}"),
            (found, expect) => panic!("link {link}: {found:?}, expected {expect:?}"),
        }
    }

    #[test]
    fn link_headers_are_taken_off() {
        let with = |header: &[u8], trailer: &[u8]| [header, &ip_udp(), trailer].concat();
        let ethernet = [&[0; 12][..], &[8, 0]].concat();
        check(1, with(&ethernet, &[]), Ok(&[5, 100]));
        check(1, with(&ethernet, &[0; 16]), Ok(&[5, 100]));
        check(101, ip_udp(), Ok(&[5, 100]));
        check(0, with(&[2, 0, 0, 0], &[]), Ok(&[5, 100]));
        check(113, with(&[&[0; 14][..], &[8, 0]].concat(), &[]), Ok(&[5, 100]));
        check(276, with(&[&[8, 0][..], &[0; 18]].concat(), &[]), Ok(&[5, 100]));
        check(147, ip_udp(), Err("link type 147"));
        check(113, vec![0; 8], Err("shorter than a link header"));
        check(1, ethernet, Err(""));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(link in prop::sample::select(vec![0, 1, 101, 113, 276]), bytes: Vec<u8>, ip: bool) {
            let bytes = if ip { [ip_udp().get(..20).unwrap(), &bytes].concat() } else { bytes };
            let _ = segment(&packet(link, bytes));
        }
    }
}
