//! `tieline dnp3 decode`: every DNP3 frame of a capture.

use super::capture::file::{Capture, Packet};
use super::capture::packet::{Carrier, Segment, segment};
use super::capture::stream::{Ordered, Piece};
use crate::terminal;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use tieline_core::Timestamp;
use tieline_dnp3::dissect::{Dissector, Entry};
use tieline_dnp3::lean::{HELLO_START, Message};

/// `tieline dnp3 decode`.
#[derive(Debug, Args)]
pub struct DecodeArgs {
    /// Capture: pcap or pcapng, with DNP3 over TCP or UDP
    pub file: PathBuf,
    /// One JSON object a frame
    #[arg(long)]
    pub json: bool,
    /// Ports to look at, besides 20000; without any, every port whose bytes begin with 05 64
    #[arg(long, value_name = "PORT")]
    pub port: Vec<u16>,
}

/// The port of DNP3 (IEEE 1815 13.2).
const PORT: u16 = 20_000;
/// What every frame begins with.
const START: [u8; 2] = [0x05, 0x64];
/// Directions that are followed at one time. Beyond it those that are no DNP3 are forgotten, and then it is an error.
const FLOWS_MAX: usize = 50_000;

/// Prints every frame of a capture.
pub fn decode(args: &DecodeArgs) -> Result<ExitCode> {
    let name = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("{name} cannot be read"))?;
    let mut capture =
        Capture::open(BufReader::new(file)).with_context(|| format!("{name} is no capture that can be read"))?;
    let mut out = Printer { out: BufWriter::new(std::io::stdout().lock()), json: args.json, frames: 0 };
    let mut flows = Flows::new(&args.port);
    let mut unread = Unread::default();
    let damage = loop {
        match capture.next_packet() {
            Ok(Some(packet)) => match segment(&packet) {
                Ok(Some(segment)) => flows.push(&packet, &segment, &mut out)?,
                Ok(None) => {}
                Err(why) => unread.note(packet.number, why),
            },
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    flows.finish(&mut out)?;
    out.out.flush()?;
    unread.tell();
    match damage {
        Some(error) => Err(error.context(format!("{name} is damaged"))),
        None => {
            if out.frames == 0 {
                eprintln!("tieline: {name}: no DNP3 found; --port names another port than {PORT}");
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Packets that could not be read: how many, and the first.
#[derive(Default)]
struct Unread(u64, Option<(u64, String)>);

impl Unread {
    fn note(&mut self, number: u64, why: String) {
        self.0 += 1;
        self.1.get_or_insert((number, why));
    }

    fn tell(&self) {
        if let Some((number, why)) = &self.1 {
            eprintln!("tieline: {} packets could not be read; the first is packet {number}: {why}", self.0);
        }
    }
}

/// Who speaks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ends {
    source: SocketAddr,
    destination: SocketAddr,
    udp: bool,
}

/// One direction.
#[derive(Debug)]
struct Flow {
    order: Ordered,
    content: Content,
    /// When it began, among all.
    born: u64,
    /// The packet that brought the last bytes.
    last: (u64, Option<Timestamp>),
}

#[derive(Debug)]
enum Content {
    /// Its first bytes so far, fewer than [`START`].
    Unknown(Vec<u8>),
    Dnp3(Dissector),
    Other,
}

impl Content {
    fn push(&mut self, bytes: &[u8], any_port: bool, entries: &mut Vec<Entry>) {
        if let Self::Unknown(first) = self {
            first.extend_from_slice(bytes);
            if first.len() < START.len() {
                return;
            }
            let first = std::mem::take(first);
            if any_port && (first.starts_with(&START) || first.starts_with(&HELLO_START)) {
                let mut dissector = Dissector::new();
                dissector.stream(&first, entries);
                *self = Self::Dnp3(dissector);
            } else {
                *self = Self::Other;
            }
        } else if let Self::Dnp3(dissector) = self {
            dissector.stream(bytes, entries);
        }
    }

    fn lose(&mut self, bytes: usize, entries: &mut Vec<Entry>) {
        if let Self::Dnp3(dissector) = self {
            dissector.finish(entries);
            let refusal = Some("they are not in the capture".to_owned());
            entries.push(Entry { summary: format!("{bytes} bytes missing"), refusal, ..Entry::default() });
        }
    }

    fn finish(&mut self, entries: &mut Vec<Entry>) {
        if let Self::Dnp3(dissector) = self {
            dissector.finish(entries);
        }
    }
}

/// All directions of a capture.
struct Flows {
    ports: Vec<u16>,
    /// Whether a stream of any port is looked at that begins as DNP3 does.
    any_port: bool,
    flows: HashMap<Ends, Flow>,
    born: u64,
}

impl Flows {
    fn new(ports: &[u16]) -> Self {
        let any_port = ports.is_empty();
        Self { ports: [ports, &[PORT]].concat(), any_port, flows: HashMap::new(), born: 0 }
    }

    fn push(&mut self, packet: &Packet, segment: &Segment<'_>, out: &mut Printer<impl Write>) -> Result<()> {
        let (source, destination) = (segment.source, segment.destination);
        let ends = Ends { source, destination, udp: segment.carrier == Carrier::Udp };
        let at = (packet.number, packet.time);
        let mut entries = Vec::new();
        match segment.carrier {
            Carrier::Udp if self.is_dnp3(&ends, segment.payload) => {
                let flow = self.flow(ends, at)?;
                if let Content::Dnp3(dissector) = &mut flow.content {
                    dissector.datagram(segment.payload, &mut entries);
                }
            }
            Carrier::Udp => {}
            Carrier::Tcp { sequence, syn, ends: is_end } => {
                if syn {
                    self.end(ends, out)?;
                }
                let any_port = self.any_port;
                let flow = self.flow(ends, at)?;
                // SYN has a number of its own, before the first byte (RFC 9293 3.4).
                let sequence = if syn { sequence.wrapping_add(1) } else { sequence };
                let mut pieces = Vec::new();
                if !matches!(flow.content, Content::Other) {
                    flow.order.push(sequence, segment.payload, &mut pieces);
                }
                flow.take(&pieces, any_port, &mut entries);
                if is_end {
                    out.print(&ends, at, &entries)?;
                    return self.end(ends, out);
                }
            }
        }
        out.print(&ends, at, &entries)
    }

    /// The flow of these ends, looked at from the start where a port says that it is DNP3.
    fn flow(&mut self, ends: Ends, at: (u64, Option<Timestamp>)) -> Result<&mut Flow> {
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&ends) {
            self.flows.retain(|_, flow| matches!(flow.content, Content::Dnp3(_)));
            if self.flows.len() >= FLOWS_MAX {
                bail!("packet {}: more than {FLOWS_MAX} directions of DNP3 at one time", at.0);
            }
        }
        let known = ends.udp || self.has_port(&ends);
        let content = if known { Content::Dnp3(Dissector::new()) } else { Content::Unknown(Vec::new()) };
        self.born += 1;
        let fresh = Flow { order: Ordered::default(), content, born: self.born, last: at };
        let flow = self.flows.entry(ends).or_insert(fresh);
        flow.last = at;
        Ok(flow)
    }

    fn has_port(&self, ends: &Ends) -> bool {
        self.ports.iter().any(|port| [ends.source.port(), ends.destination.port()].contains(port))
    }

    fn is_dnp3(&self, ends: &Ends, datagram: &[u8]) -> bool {
        self.has_port(ends) || (self.any_port && begins_as_dnp3(datagram))
    }

    fn end(&mut self, ends: Ends, out: &mut Printer<impl Write>) -> Result<()> {
        let Some(mut flow) = self.flows.remove(&ends) else { return Ok(()) };
        let (mut pieces, mut entries) = (Vec::new(), Vec::new());
        flow.order.finish(&mut pieces);
        flow.take(&pieces, self.any_port, &mut entries);
        flow.content.finish(&mut entries);
        out.print(&ends, flow.last, &entries)
    }

    fn finish(&mut self, out: &mut Printer<impl Write>) -> Result<()> {
        let mut left: Vec<_> = self.flows.iter().map(|(ends, flow)| (flow.born, *ends)).collect();
        left.sort_unstable_by_key(|(born, _)| *born);
        left.into_iter().try_for_each(|(_, ends)| self.end(ends, out))
    }
}

/// Whether a datagram begins with a link frame or a hello, or is one lean message.
fn begins_as_dnp3(datagram: &[u8]) -> bool {
    let is_message = || Message::parse(datagram).is_some_and(|(_, used)| used == datagram.len());
    datagram.starts_with(&START) || datagram.starts_with(&HELLO_START) || is_message()
}

impl Flow {
    fn take(&mut self, pieces: &[Piece], any_port: bool, entries: &mut Vec<Entry>) {
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => self.content.push(bytes, any_port, entries),
                Piece::Missing(bytes) => self.content.lose(*bytes, entries),
            }
        }
    }
}

struct Printer<W> {
    out: W,
    json: bool,
    frames: u64,
}

impl<W: Write> Printer<W> {
    fn print(&mut self, ends: &Ends, (packet, time): (u64, Option<Timestamp>), entries: &[Entry]) -> Result<()> {
        let Ends { source, destination, udp } = ends;
        for entry in entries {
            self.frames += 1;
            if self.json {
                let line = json!({
                    "packet": packet,
                    "time": time.map_or(Json::Null, |time| time.to_string().into()),
                    "source": source.to_string(),
                    "destination": destination.to_string(),
                    "transport": if *udp { "udp" } else { "tcp" },
                    "summary": entry.summary,
                    "objects": entry.objects,
                    "refused": entry.refusal,
                });
                writeln!(self.out, "{}", terminal::json(&line.to_string()))?;
            } else {
                let time = time.map_or_else(String::new, |time| format!(" {time}"));
                let shown = format!("{packet}{time} {source} → {destination} {entry}");
                writeln!(self.out, "{}", terminal::lines(&shown))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_dnp3::endpoint::{Endpoint, EndpointConfig, Role};
    use tieline_dnp3::link::LinkAddress;

    /// A read of class 1 from master 1 to outstation 10, as one frame.
    fn frame() -> Vec<u8> {
        let mut out = Vec::new();
        let mut endpoint = Endpoint::new(EndpointConfig::new(Role::Master, LinkAddress::new(1)));
        endpoint.write_fragment(LinkAddress::new(10), &[0xC0, 0x01, 60, 2, 6], &mut out);
        out
    }

    /// What is printed for segments: port, sequence, payload.
    fn shown(ports: &[u16], segments: &[(u16, u32, &[u8])]) -> Vec<String> {
        let mut printer = Printer { out: Vec::new(), json: false, frames: 0 };
        let mut flows = Flows::new(ports);
        for (number, (port, sequence, payload)) in (1..).zip(segments) {
            let packet = Packet { number, time: None, link: 1, bytes: Vec::new() };
            let (source, destination) = (([10, 0, 0, 1], 4000).into(), ([10, 0, 0, 2], *port).into());
            let carrier = Carrier::Tcp { sequence: *sequence, syn: false, ends: false };
            flows.push(&packet, &Segment { source, destination, carrier, payload }, &mut printer).unwrap();
        }
        flows.finish(&mut printer).unwrap();
        let text = String::from_utf8(printer.out).unwrap();
        text.lines().map(|line| line.split_once(" → ").map_or(line, |(number, _)| number).to_owned()).collect()
    }

    fn check(ports: &[u16], segments: &[(u16, u32, &[u8])], expect: &[&str]) {
        assert_eq!(shown(ports, segments), expect);
    }

    /// What a device calls itself and its files reaches the terminal as escapes.
    #[test]
    fn words_of_a_device_move_no_cursor() {
        let hostile = b"a\x1b[2J\n9b\xc2\x9bm";
        let text = u8::try_from(hostile.len()).unwrap();
        // An octet string of its length, a device attribute (its name), and a file's description.
        let string = [&[111, text, 0x17, 1, 3][..], hostile].concat();
        let attribute = [&[0, 247, 0, 0, 0, 1, text][..], hostile].concat();
        let file = [&[70, 7, 0x5B, 1, 20 + text, 0, 20, 0, text][..], &[0; 17], hostile].concat();
        for objects in [string, attribute, file] {
            let fragment = [&[0xC0, 0x81, 0, 0][..], &objects].concat();
            let mut bytes = Vec::new();
            let mut outstation = Endpoint::new(EndpointConfig::new(Role::Outstation, LinkAddress::new(10)));
            outstation.write_fragment(LinkAddress::new(1), &fragment, &mut bytes);
            let mut entries = Vec::new();
            let mut dissector = Dissector::new();
            dissector.stream(&bytes, &mut entries);
            let (source, destination) = (([10, 0, 0, 1], 4000).into(), ([10, 0, 0, 2], 20_000).into());
            for json in [false, true] {
                let mut printer = Printer { out: Vec::new(), json, frames: 0 };
                printer.print(&Ends { source, destination, udp: false }, (1, None), &entries).unwrap();
                let shown = String::from_utf8(printer.out).unwrap();
                assert!(!shown.replace('\n', "").contains(terminal::is_active), "{shown:?}");
                assert!(!shown.lines().any(|line| line.starts_with("9b")), "{shown:?}");
            }
        }
    }

    #[test]
    fn streams_of_dnp3_are_found_and_others_are_not() {
        let frame = frame();
        let (one, two) = frame.split_at(1);
        let found = |packet: u32| format!("{packet} 10.0.0.1:4000");
        let read = "  g60v2 class 1, all";
        check(&[], &[(20_000, 1, &frame)], &[&found(1), read]);
        check(&[], &[(7, 1, one), (7, 2, two)], &[&found(2), read]);
        check(&[], &[(7, 1, b"GET"), (7, 4, &frame)], &[]);
        check(&[9], &[(7, 1, &frame), (9, 1, &frame)], &[&found(2), read]);
        let lost = ["  refused: the frame ends after 1 bytes", "  refused: they are not in the capture"];
        let again = u32::try_from(frame.len()).unwrap() + 5;
        let expect = [&found(2), lost[0], &found(2), lost[1], &found(2), read];
        check(&[], &[(20_000, 1, one), (20_000, again, &frame)], &expect);
    }
}
