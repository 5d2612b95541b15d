//! The tester of the certification run wrote down what each fragment holds: we read the same.

use super::{files, root};
use std::fmt::Write;
use tieline_dnp3::app::{Fragment, Header, Prefix, Range, RangeCode};
use tieline_dnp3::dissect::Dissector;
use tieline_dnp3::endpoint::{Endpoint, EndpointConfig, Role};
use tieline_dnp3::link::{Decoder, Frame, Function, LinkAddress};
use tieline_dnp3::objects::Layout;
use tieline_dnp3::transport::Reassembler;
use tieline_dnp3::{AnalogCommand, Control, Crob};

/// Bytes of a line that is nothing but hex pairs.
fn hex_line(line: &str) -> Option<Vec<u8>> {
    let pairs = line.split(' ').map(|pair| u8::from_str_radix(pair, 16).ok().filter(|_| pair.len() == 2));
    pairs.collect()
}

/// A header as the tester writes it, and its objects.
fn tell(header: &Header<'_>, text: &mut String) {
    let (object, (prefix, range)) = (header.object(), header.qualifier().parts().unwrap());
    let width = |bytes: u8| format!("{bytes}-Byte");
    let _ = match (range, header.range()) {
        (RangeCode::Span(bytes), Range::Span { start, stop }) => {
            writeln!(text, "{object}, {} Start/Stop, start: {start} stop: {stop}", width(bytes))
        }
        (RangeCode::Count(bytes), Range::Count(count)) => {
            let index = if prefix == Prefix::None { "" } else { " and Index" };
            writeln!(text, "{object}, {} Count{index}, count: {count}", width(bytes))
        }
        _ => writeln!(text, "{object}, All Objects"),
    };
    for control in header.controls() {
        let _ = match control.control {
            Control::Crob(Crob { code, count, on_ms, off_ms }) => {
                write!(text, "[{}] - code: {code} count: {count} onTime: {on_ms} offTime: {off_ms}", control.index)
            }
            Control::Analog(AnalogCommand::Int16(value)) => write!(text, "[{}] - value: {value}", control.index),
            Control::Analog(other) => panic!("the run has no {other:?}"),
        };
        let _ = writeln!(text, " status: {}", control.status.code());
    }
    for (index, state) in header.bits() {
        let _ = writeln!(text, "[{index}] - BooleanValue({state})");
    }
    let Some(&layout) = header.layout().filter(|layout| layout.point_type.is_some()) else { return };
    for item in header.items() {
        tell_point(&layout, item.index, item.bytes, text);
    }
}

/// The flag byte stands first in every object of the run, with its state bits.
fn tell_point(layout: &Layout, index: u32, bytes: &[u8], text: &mut String) {
    use tieline_dnp3::objects::TimeField;
    let Some(flags) = bytes.first() else { return };
    let _ = write!(text, "[{index}] - flags: 0x{flags:02X}");
    let fields = layout.decode(bytes).unwrap();
    let _ = match fields.value {
        Some(tieline_dnp3::Measured::Count(count)) => write!(text, " count: {count}"),
        Some(tieline_dnp3::Measured::Analog(value)) => write!(text, " value: {value}"),
        _ => Ok(()),
    };
    let _ = match fields.time {
        TimeField::None => writeln!(text),
        TimeField::Absolute(time) => writeln!(text, " time: {}", time.millis()),
        TimeField::Relative(millis) => writeln!(text, " cto: {millis}"),
    };
}

/// Whether the tester's line tells a header or an object.
fn tells_objects(line: &str) -> bool {
    let of_header = line.starts_with('g') && line.contains('v') && line.contains(", ");
    of_header || (line.starts_with('[') && line.contains("] - "))
}

/// What came of one procedure's log.
#[derive(Default)]
struct Outcome {
    /// The objects as the tester wrote them down.
    expect: String,
    /// The objects as we read them.
    found: String,
    /// Frames and runs of bytes that are none.
    entries: usize,
    refusals: usize,
}

fn read(log: &str) -> Outcome {
    let (mut outcome, mut entries) = (Outcome::default(), Vec::new());
    let (mut decoder, mut reassembler) = (Decoder::new(), Reassembler::new(2048));
    let mut dissector = Dissector::new();
    for line in log.lines().map(str::trim_end) {
        if tells_objects(line) {
            outcome.expect += line;
            outcome.expect += "\n";
        }
        let Some(bytes) = hex_line(line) else { continue };
        dissector.stream(&bytes, &mut entries);
        let mut rest = bytes.as_slice();
        while let Some(decoded) = decoder.decode(&mut rest) {
            if let Ok(frame) = decoded
                && reassembler.push(&frame) == Ok(true)
            {
                let fragment = Fragment::parse(reassembler.fragment()).unwrap();
                fragment.headers().for_each(|header| tell(&header.unwrap(), &mut outcome.found));
            }
        }
    }
    dissector.finish(&mut entries);
    outcome.refusals = entries.iter().filter(|entry| entry.refusal.is_some()).count();
    outcome.entries = entries.len();
    outcome
}

/// Procedures that send what must be refused: wrong starts, frames shorter than their bytes, user data where none
/// belongs; and how many refusals that gives.
const REFUSALS: [(&str, usize); 3] = [("6.6.2.1.txt", 8), ("6.6.2.3.txt", 4), ("6.6.2.5.txt", 3)];
/// The tester did not write down what it sent with a wrong FCV.
const UNTOLD: &str = "6.6.2.5.txt";

#[test]
fn every_frame_of_the_certification_run_is_read_as_its_tester_read_it() {
    for path in files(&root().join("../shared/data/dnp3/certification")) {
        let name = path.file_name().unwrap().to_string_lossy();
        let log = std::fs::read_to_string(&path).unwrap();
        let outcome = read(&log);
        let refusals = REFUSALS.iter().find(|(of, _)| *of == name).map_or(0, |(_, count)| *count);
        assert_eq!(outcome.refusals, refusals, "{name}");
        assert_eq!(outcome.entries > 0, log.contains("05 64"), "{name}");
        if name != UNTOLD {
            assert_eq!(outcome.found, outcome.expect, "{name}");
        }
    }
}

/// The link frames that an endpoint answers to the tester's, and those that the device of the run answered. Negative
/// acknowledgements are left out: the tester takes them or silence, and the device was silent.
fn link_replies(log: &str) -> (Vec<u8>, Vec<u8>) {
    let fresh = || Endpoint::new(EndpointConfig::new(Role::Outstation, LinkAddress::new(1024)));
    let (mut endpoint, mut decoder) = (fresh(), Decoder::new());
    let (mut found, mut expect) = (Vec::new(), Vec::new());
    for line in log.lines().map(str::trim_end) {
        if line.contains("Cycle power") {
            endpoint = fresh();
        }
        let Some(bytes) = hex_line(line) else { continue };
        let mut rest = bytes.as_slice();
        while let Some(decoded) = decoder.decode(&mut rest) {
            let Ok(frame) = decoded else { continue };
            if frame.header().control.from_master() {
                endpoint.handle_input(frame.bytes());
                endpoint.release();
                let mut reply = Vec::new();
                endpoint.poll_transmit(&mut reply);
                let nack = Frame::parse(&reply).is_some_and(|f| f.header().control.function() == Some(Function::Nack));
                found.extend(reply.iter().filter(|_| !nack));
            } else if !frame.header().control.primary() {
                expect.extend_from_slice(frame.bytes());
            }
        }
    }
    (found, expect)
}

#[test]
fn the_link_layer_answers_as_the_certified_device_did() {
    for path in files(&root().join("../shared/data/dnp3/certification")) {
        let (found, expect) = link_replies(&std::fs::read_to_string(&path).unwrap());
        assert_eq!(found, expect, "{}", path.display());
    }
}
