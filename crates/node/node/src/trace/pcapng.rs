//! Traces as pcapng, for Wireshark (draft-ietf-opsawg-pcapng).
//!
//! A trace has no packets: what was read or written is put into made-up ones, so that Wireshark finds the protocol by its port,
//! whatever carried it: TCP, TLS (the plain bytes), or a serial line.
//!
//! ```text
//! section ─ interface (Ethernet): device ─ packet: Ethernet, IPv4, TCP or UDP, bytes; comment: the device's topic, what happened
//!         └ interface (exported PDU): for messages whose protocol has no port, such as Modbus RTU
//! ```
//!
//! The node is 192.0.2.1 and the device 192.0.2.2 (RFC 5737), unless its own address is known. Each connection has a port of the
//! node to itself, so that Wireshark tells streams apart.

use super::decoder::{Capture, Decoder};
use super::record::{Kind, Record, Records};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use tieline_core::{DeviceId, Timestamp};
use tieline_net::Direction;

const NODE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const DEVICE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// The first port of the node.
const NODE_PORT: u16 = 49_152;
/// Link types of tcpdump.org.
const ETHERNET: u16 = 1;
const EXPORTED_PDU: u16 = 252;
/// Bytes of one packet: what IPv4 has room for behind its own header and TCP's.
const PAYLOAD_BYTES_MAX: usize = 65_535 - 20 - 20;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Connections of one device at most: the main one, and those that stand by.
const STREAMS: usize = 8;

/// Writes a capture.
pub struct PcapngWriter<W> {
    out: W,
    decoder: Box<dyn Decoder>,
    device: DeviceId,
    topic: String,
    /// By connection.
    streams: [Stream; STREAMS],
    /// Streams that began.
    began: u16,
    /// What is to be said with the next packet.
    notes: Vec<String>,
}

/// One connection, as Wireshark is to see it.
#[derive(Clone, Copy, Debug)]
struct Stream {
    port: u16,
    device: Ipv4Addr,
    /// The numbers of the next bytes, of the node and of the device.
    next: [u32; 2],
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a capture of a device.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(mut out: W, decoder: Box<dyn Decoder>, device: DeviceId, topic: &str) -> io::Result<Self> {
        let version = [&0x1A2B_3C4D_u32.to_le_bytes()[..], &1_u16.to_le_bytes(), &0_u16.to_le_bytes(), &[0xFF; 8]];
        let section = [version.concat(), option(4, b"Tieline"), option(0, &[])].concat();
        out.write_all(&block(0x0A0D_0D0A, &section))?;
        let link = match decoder.capture() {
            Capture::Stream { .. } | Capture::Datagrams { .. } | Capture::Frames => ETHERNET,
            Capture::Messages { .. } => EXPORTED_PDU,
        };
        let head = [&link.to_le_bytes()[..], &[0; 2], &0_u32.to_le_bytes()].concat();
        // if_name; if_tsresol: microseconds.
        let interface = [head, option(2, topic.as_bytes()), option(9, &[6]), option(0, &[])].concat();
        out.write_all(&block(1, &interface))?;
        let address = match decoder.capture() {
            Capture::Datagrams { device, .. } => device,
            Capture::Stream { .. } | Capture::Frames | Capture::Messages { .. } => None,
        };
        let stream = Stream { port: NODE_PORT, device: address.unwrap_or(DEVICE), next: [1, 1] };
        let mut streams = [stream; STREAMS];
        let mut began = 0;
        for stream in &mut streams {
            stream.port = NODE_PORT + began;
            began += 1;
        }
        Ok(Self { out, decoder, device, topic: topic.to_owned(), streams, began, notes: Vec::new() })
    }

    /// Appends records that follow those of before.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self, records: &[u8]) -> io::Result<()> {
        Records(records).try_for_each(|record| self.record(&record))
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn record(&mut self, record: &Record<'_>) -> io::Result<()> {
        let direction = match record.kind {
            Kind::Received => Direction::Received,
            Kind::Sent => Direction::Sent,
            Kind::Connected | Kind::Closed | Kind::State | Kind::Failed => return self.note(record),
        };
        match self.decoder.capture() {
            Capture::Stream { port } => record
                .payload
                .chunks(PAYLOAD_BYTES_MAX)
                .try_for_each(|part| self.segment(record, direction, port, part)),
            Capture::Datagrams { port, .. } => {
                let datagram = record.payload.get(..PAYLOAD_BYTES_MAX).unwrap_or(record.payload);
                self.datagram(record, direction, port, datagram)
            }
            Capture::Frames => self.packet(record.at, record.payload),
            Capture::Messages { dissector } => {
                let mut messages = Vec::new();
                self.decoder.push(record.connection, direction, record.payload, &mut messages);
                for message in messages {
                    match message.frame.is_empty() {
                        true => self.notes.push(message.error.unwrap_or(message.summary)),
                        false => self.pdu(record, direction, dissector, &message.frame)?,
                    }
                }
                Ok(())
            }
        }
    }

    /// What happened is said by an empty packet, or by the next one.
    fn note(&mut self, record: &Record<'_>) -> io::Result<()> {
        let Some((device, text)) = record.note() else { return Ok(()) };
        if device.is_some_and(|device| device != self.device) {
            return Ok(());
        }
        if record.kind == Kind::Connected {
            self.decoder.restart(record.connection, &mut Vec::new());
            let peer = text.parse::<SocketAddr>().ok().and_then(|peer| match peer {
                SocketAddr::V4(peer) => Some(*peer.ip()),
                SocketAddr::V6(peer) => peer.ip().to_ipv4_mapped(),
            });
            let port = NODE_PORT + self.began % 16_000;
            self.began = self.began.wrapping_add(1);
            *self.stream(record.connection) = Stream { port, device: peer.unwrap_or(DEVICE), next: [1, 1] };
        }
        self.notes.push(format!("{}: {text}", record.kind.word()));
        match self.decoder.capture() {
            Capture::Stream { port } => self.segment(record, Direction::Sent, port, &[]),
            Capture::Datagrams { .. } | Capture::Frames | Capture::Messages { .. } => Ok(()),
        }
    }

    fn stream(&mut self, connection: u8) -> &mut Stream {
        let [main, others @ ..] = &mut self.streams;
        match usize::from(connection).checked_sub(1) {
            Some(number) => others.get_mut(number).unwrap_or(main),
            None => main,
        }
    }

    fn segment(&mut self, record: &Record<'_>, direction: Direction, port: u16, payload: &[u8]) -> io::Result<()> {
        let stream = self.stream(record.connection);
        let [node, device] = &mut stream.next;
        let (own, other) = if direction == Direction::Sent { (node, device) } else { (device, node) };
        let numbers = [own.to_be_bytes(), other.to_be_bytes()].concat();
        *own = own.wrapping_add(u32::try_from(payload.len()).unwrap_or(0));
        // Data offset 5, ACK, and PSH where there are bytes; no checksum; the window is as large as can be.
        let flags = if payload.is_empty() { 0x10 } else { 0x18 };
        let header = [&ports(*stream, direction, port)[..], &numbers, &[0x50, flags, 0xFF, 0xFF, 0, 0, 0, 0]].concat();
        let packet = ip(*stream, direction, TCP, &[&header[..], payload].concat());
        self.packet(record.at, &packet)
    }

    fn datagram(&mut self, record: &Record<'_>, direction: Direction, port: u16, payload: &[u8]) -> io::Result<()> {
        let stream = *self.stream(record.connection);
        let length = u16::try_from(payload.len() + 8).unwrap_or(u16::MAX);
        let header = [&ports(stream, direction, port)[..], &length.to_be_bytes(), &[0, 0]].concat();
        self.packet(record.at, &ip(stream, direction, UDP, &[&header[..], payload].concat()))
    }

    fn pdu(&mut self, record: &Record<'_>, direction: Direction, dissector: &str, frame: &[u8]) -> io::Result<()> {
        let stream = *self.stream(record.connection);
        let (node, device) = (NODE.octets(), stream.device.octets());
        // That a frame goes to port 502 says that it is a request.
        let (near, far) = (u32::from(stream.port).to_be_bytes(), 502_u32.to_be_bytes());
        let ends = match direction {
            Direction::Sent => [node, device, near, far],
            Direction::Received => [device, node, far, near],
        };
        let [from, to, from_port, to_port] = ends;
        let tag = |code: u16, value: &[u8]| {
            let mut tag = [&code.to_be_bytes()[..], &padded_length(value).to_be_bytes(), value].concat();
            tag.resize(tag.len().next_multiple_of(4), 0);
            tag
        };
        // Wireshark's exported_pdu.h: the dissector's name, addresses, the type of port (TCP), ports, the end.
        let tags = [
            tag(12, dissector.as_bytes()),
            tag(20, &from),
            tag(21, &to),
            tag(24, &2_u32.to_be_bytes()),
            tag(25, &from_port),
            tag(26, &to_port),
            vec![0; 4],
        ];
        self.packet(record.at, &[&tags.concat()[..], frame].concat())
    }

    /// An enhanced packet block.
    fn packet(&mut self, at: Timestamp, packet: &[u8]) -> io::Result<()> {
        let micros = at.micros().max(0).unsigned_abs();
        let (high, low) = (micros >> 32, micros & u64::from(u32::MAX));
        let half = |half: u64| u32::try_from(half).unwrap_or(0).to_le_bytes();
        let length = u32::try_from(packet.len()).unwrap_or(0).to_le_bytes();
        let mut body = [&0_u32.to_le_bytes()[..], &half(high), &half(low), &length, &length, packet].concat();
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(option(1, self.topic.as_bytes()));
        for note in std::mem::take(&mut self.notes) {
            body.extend(option(1, note.as_bytes()));
        }
        body.extend(option(0, &[]));
        self.out.write_all(&block(6, &body))
    }
}

fn padded_length(value: &[u8]) -> u16 {
    u16::try_from(value.len().next_multiple_of(4)).unwrap_or(0)
}

fn ports(stream: Stream, direction: Direction, port: u16) -> [u8; 4] {
    let (from, to) = match direction {
        Direction::Sent => (stream.port, port),
        Direction::Received => (port, stream.port),
    };
    let ([a, b], [c, d]) = (from.to_be_bytes(), to.to_be_bytes());
    [a, b, c, d]
}

/// An Ethernet frame with an IPv4 packet (RFC 791).
fn ip(stream: Stream, direction: Direction, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (node, device) = (NODE.octets(), stream.device.octets());
    let (from, to) = match direction {
        Direction::Sent => (node, device),
        Direction::Received => (device, node),
    };
    let length = u16::try_from(payload.len() + 20).unwrap_or(u16::MAX).to_be_bytes();
    let head = [&[0x45, 0][..], &length, &[0, 0, 0x40, 0, 64, protocol]].concat();
    let sum = checksum(&[&head[..], &from, &to].concat()).to_be_bytes();
    let mac = |address: [u8; 4]| [&[0x02, 0][..], &address].concat();
    [&mac(to)[..], &mac(from), &[8, 0], &head, &sum, &from, &to, payload].concat()
}

/// The checksum of an IPv4 header, in which it is 0 itself (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let (words, _) = header.as_chunks::<2>();
    let sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !u16::try_from((folded & 0xFFFF) + (folded >> 16)).unwrap_or(0)
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 12).unwrap_or(0).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, body, &length].concat()
}

/// An option of a block, cut to what its length has room for.
fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let value = value.get(..1024).unwrap_or(value);
    let length = u16::try_from(value.len()).unwrap_or(0);
    let mut option = [&code.to_le_bytes()[..], &length.to_le_bytes(), value].concat();
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

#[cfg(test)]
mod tests {
    use super::super::record::{header, note};
    use super::*;
    use crate::trace::Message;
    use tieline_core::{Instant, Now};

    struct Plain(Capture);

    impl Decoder for Plain {
        fn push(&mut self, _: u8, _: Direction, bytes: &[u8], messages: &mut Vec<Message>) {
            messages.push(Message { frame: bytes.to_vec(), ..Message::default() });
        }

        fn restart(&mut self, _: u8, _: &mut Vec<Message>) {}

        fn capture(&self) -> Capture {
            self.0
        }
    }

    /// Of parts on these connections.
    fn capture(how: Capture, parts: &[(Kind, u8, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = PcapngWriter::new(&mut out, Box::new(Plain(how)), DeviceId(0), "site/pump").unwrap();
        for (kind, connection, payload) in parts {
            let now = Now { mono: Instant(1), utc: Timestamp::from_millis(1_700_000_000_000) };
            let length = u32::try_from(payload.len()).unwrap();
            writer.write(&[&header(*kind, *connection, now, length)[..], payload].concat()).unwrap();
        }
        writer.finish().unwrap();
        out
    }

    /// The kinds of the blocks, whose two lengths are equal.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut blocks = Vec::new();
        while let Some((kind, rest)) = bytes.split_first_chunk::<4>() {
            let length = usize::try_from(u32::from_le_bytes(*rest.first_chunk().unwrap())).unwrap();
            assert_eq!(bytes[length - 4..length], rest[..4]);
            assert_eq!(length % 4, 0);
            blocks.push((u32::from_le_bytes(*kind), bytes[8..length - 4].to_vec()));
            bytes = &bytes[length..];
        }
        blocks
    }

    #[test]
    fn blocks_are_whole_and_streams_are_numbered() {
        let connected = note(None, "10.0.0.9:502");
        let huge = vec![7; 70_000];
        let parts: [(Kind, u8, &[u8]); 4] = [
            (Kind::Connected, 0, &connected),
            (Kind::Sent, 0, b"abc"),
            (Kind::Received, 0, b"de"),
            (Kind::Sent, 0, &huge),
        ];
        let blocks = blocks(&capture(Capture::Stream { port: 20_000 }, &parts));
        let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [0x0A0D_0D0A, 1, 6, 6, 6, 6, 6]);
        let tcp = |at: usize| blocks[at].1[20 + 34..].to_vec();
        let number = |at: usize| u32::from_be_bytes(*tcp(at)[4..].first_chunk().unwrap());
        assert_eq!([2, 3, 4, 5, 6].map(number), [1, 1, 1, 4, 4 + 65_495]);
        assert_eq!(tcp(3)[2..4], 20_000_u16.to_be_bytes());
        assert_eq!(tcp(4)[..2], 20_000_u16.to_be_bytes());
        assert!(blocks[2].1.windows(9).any(|part| part == b"site/pump"));
        assert!(blocks[2].1.windows(23).any(|part| part == b"connected: 10.0.0.9:502"));
    }

    #[test]
    fn each_connection_is_a_stream_of_its_own() {
        let parts: [(Kind, u8, &[u8]); 4] =
            [(Kind::Sent, 1, b"abc"), (Kind::Sent, 2, b"de"), (Kind::Sent, 1, b"f"), (Kind::Sent, 0, b"g")];
        let blocks = blocks(&capture(Capture::Stream { port: 2404 }, &parts));
        let tcp = |at: usize| blocks[at].1[20 + 34..].to_vec();
        let port = |at: usize| u16::from_be_bytes(*tcp(at).first_chunk().unwrap()) - NODE_PORT;
        let number = |at: usize| u32::from_be_bytes(*tcp(at)[4..].first_chunk().unwrap());
        assert_eq!([2, 3, 4, 5].map(|at| (port(at), number(at))), [(1, 1), (2, 1), (1, 4), (0, 1)]);
    }

    #[test]
    fn headers_have_their_checksum() {
        let packet = ip(Stream { port: 1, device: DEVICE, next: [0; 2] }, Direction::Sent, UDP, &[0; 8]);
        let (words, _) = packet[14..34].as_chunks::<2>();
        let sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
        assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF);
    }
}
