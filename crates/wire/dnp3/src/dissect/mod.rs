//! Frames as text, for people: what `tieline dnp3 decode` prints.
//!
//! ```text
//! master 1→1024 unconfirmed-user-data | segment 0 fir fin | read 0 fir fin
//!   g60v2 class 1, all
//! outstation 1024→1 unconfirmed-user-data | segment 0 fir fin | response 0 fir fin con | iin need-time device-restart
//!   g32v3 [0] 42 flags online time 2026-11-20T09:36:00.123Z
//! ```
//!
//! A [`Dissector`] follows one direction of a stream. Every frame gives one [`Entry`], and so does every run of bytes
//! that is no frame: nothing is passed over in silence.

mod lean;
mod lines;

use self::lean::LeanView;
use crate::app::{AppControl, CommandStatus, Fragment, FragmentError, Header, Range};
use crate::link::{Decoder, Frame, LinkAddress, LinkError, Refused};
use crate::objects::Layout;
use crate::transport::{Reassembler, SegmentHeader};
use crate::{GroupVar, Iin, PointType};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// Bytes of a fragment that the dissector follows: more than any station takes.
const FRAGMENT_BYTES_MAX: u16 = 65_535;
/// Indications that something was not done (IEEE 1815 4.2.2.4.3).
const DENIALS: [Iin; 6] = [
    Iin::NO_FUNC_CODE_SUPPORT,
    Iin::OBJECT_UNKNOWN,
    Iin::PARAMETER_ERROR,
    Iin::EVENT_BUFFER_OVERFLOW,
    Iin::ALREADY_EXECUTING,
    Iin::CONFIG_CORRUPT,
];

/// One frame, or one run of bytes that is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// One line: direction, addresses, link function, segment, application function, internal indications.
    pub summary: String,
    /// The objects of the fragment that the frame completes, one a line.
    pub objects: Vec<String>,
    /// Why something was not understood; what comes before it stands.
    pub refusal: Option<String>,
    /// What a response says that the outstation did not do: indications of IIN2, the status of a control.
    pub denial: Option<String>,
    /// The link addresses of sender and receiver; none of bytes that are no frame.
    pub addresses: Option<(LinkAddress, LinkAddress)>,
    /// The points that the fragment names, one by one or in ranges.
    pub points: Vec<Touched>,
}

/// Points that a fragment names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Of which type.
    pub point_type: PointType,
    /// The first index.
    pub start: u32,
    /// The last index.
    pub stop: u32,
}

impl Touched {
    /// Whether a point is among them.
    #[must_use]
    pub fn has(&self, point_type: PointType, index: u32) -> bool {
        self.point_type == point_type && (self.start..=self.stop).contains(&index)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)?;
        for object in &self.objects {
            write!(f, "\n  {object}")?;
        }
        match &self.refusal {
            Some(refusal) => write!(f, "\n  refused: {refusal}"),
            None => Ok(()),
        }
    }
}

/// Reads one direction of a stream, or datagrams of one direction.
#[derive(Clone, Debug)]
pub struct Dissector {
    decoder: Decoder,
    reassembler: Reassembler,
    lean: LeanView,
}

impl Default for Dissector {
    fn default() -> Self {
        Self { decoder: Decoder::new(), reassembler: Reassembler::new(FRAGMENT_BYTES_MAX), lean: LeanView::default() }
    }
}

impl Dissector {
    /// A dissector at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what a stream brought next and appends an entry for every frame or lean message that it completes.
    pub fn stream(&mut self, bytes: &[u8], entries: &mut Vec<Entry>) {
        let mut rest = bytes;
        let mut garbage: Option<Refused> = None;
        loop {
            if garbage.is_none() && self.lean.takes(rest, !self.decoder.is_partial()) {
                let (frames, after) = self.lean.stream(rest, entries);
                if !frames.is_empty() {
                    // Two bytes are no frame yet.
                    let _ = self.decoder.decode(&mut &frames[..]);
                }
                let used = after.len() < rest.len();
                rest = after;
                if used {
                    continue;
                }
                return;
            }
            let Some(decoded) = self.decoder.decode(&mut rest) else { break };
            match decoded {
                Ok(frame) => {
                    entries.extend(garbage.take().map(refused));
                    entries.push(dissect(&frame, &mut self.reassembler));
                    self.lean.note_frame();
                }
                // One damaged frame is one entry, with the first cause.
                Err(more) => {
                    let joined = garbage.map_or(more, |g| Refused { bytes: g.bytes + more.bytes, ..g });
                    garbage = Some(joined);
                }
            }
        }
        entries.extend(garbage.map(refused));
    }

    /// Ends the stream: a frame that is still incomplete is refused.
    pub fn finish(&mut self, entries: &mut Vec<Entry>) {
        let bytes = self.decoder.partial_bytes() + self.lean.partial_bytes();
        if bytes > 0 {
            let refusal = format!("the frame ends after {bytes} bytes");
            entries.push(Entry { summary: no_frame(bytes), refusal: Some(refusal), ..Entry::default() });
        }
        self.decoder.reset();
        self.lean.reset();
    }

    /// Takes a datagram: frames and messages begin and end in it, fragments in frames may go on in the next.
    pub fn datagram(&mut self, bytes: &[u8], entries: &mut Vec<Entry>) {
        let mut rest = bytes;
        while let Some((entry, used)) = lean::datagram(rest) {
            entries.push(entry);
            rest = rest.get(used..).unwrap_or_default();
        }
        self.stream(rest, entries);
        self.finish(entries);
    }
}

fn no_frame(bytes: usize) -> String {
    format!("{bytes} bytes that are no frame")
}

fn refused(Refused { error, bytes }: Refused) -> Entry {
    let refusal = match error {
        LinkError::NoStart => "no start 05 64".to_string(),
        LinkError::HeaderCrc | LinkError::Length | LinkError::BodyCrc => error.to_string(),
    };
    Entry { summary: no_frame(bytes), refusal: Some(refusal), ..Entry::default() }
}

fn dissect(frame: &Frame<'_>, reassembler: &mut Reassembler) -> Entry {
    let header = frame.header();
    let addresses = Some((header.source, header.destination));
    let mut entry = Entry { summary: link_text(frame), addresses, ..Entry::default() };
    let Some(function) = header.control.function() else {
        entry.refusal = Some(format!("link function {} has no meaning", header.control.code()));
        return entry;
    };
    if !function.carries_user_data() {
        if frame.user_bytes() > 0 {
            entry.refusal = Some(format!("{} bytes of user data in a {} frame", frame.user_bytes(), function.name()));
        }
        return entry;
    }
    if let Some(first) = frame.blocks().next().and_then(<[u8]>::first) {
        let SegmentHeader { fin, fir, sequence } = SegmentHeader::parse(*first);
        let _ = write!(entry.summary, " | segment {sequence}");
        push_words(&mut entry.summary, &[(fir, "fir"), (fin, "fin")]);
    }
    match reassembler.push(frame) {
        Ok(true) => {
            fragment_text(reassembler.fragment(), &mut entry);
            reassembler.release();
        }
        Ok(false) => {}
        Err(error) => entry.refusal = Some(error.to_string()),
    }
    entry
}

fn link_text(frame: &Frame<'_>) -> String {
    let header = frame.header();
    let control = header.control;
    let sender = if control.from_master() { "master" } else { "outstation" };
    let function = control.function().map_or("unknown", |function| function.name());
    let mut text = format!("{sender} {}→{} {function}", header.source, header.destination);
    let (fcv, dfc) = (control.primary() && control.fcv(), !control.primary() && control.fcv());
    push_words(&mut text, &[(fcv, if control.fcb() { "fcb 1" } else { "fcb 0" }), (dfc, "dfc")]);
    text
}

fn push_words(text: &mut String, words: &[(bool, &str)]) {
    for (_, word) in words.iter().filter(|(set, _)| *set) {
        text.push(' ');
        text.push_str(word);
    }
}

fn push_control(text: &mut String, name: &str, control: AppControl) {
    let _ = write!(text, " | {name} {}", control.sequence.number());
    push_words(text, &[(control.fir, "fir"), (control.fin, "fin"), (control.con, "con"), (control.uns, "uns")]);
}

fn fragment_text(bytes: &[u8], entry: &mut Entry) {
    let fragment = match Fragment::parse(bytes) {
        Ok(fragment) => fragment,
        Err(error) => {
            if let FragmentError::UnknownFunction { control, .. } = error {
                push_control(&mut entry.summary, "unknown", control);
            }
            entry.refusal = Some(error.to_string());
            return;
        }
    };
    push_control(&mut entry.summary, fragment.function.name(), fragment.control);
    if let Some(iin) = fragment.iin.filter(|iin| iin.0 != 0) {
        entry.summary.push_str(" | iin");
        for name in iin.names() {
            let _ = write!(entry.summary, " {name}");
        }
    }
    let denied = DENIALS.into_iter().filter(|denial| fragment.iin.is_some_and(|iin| iin.contains(*denial)));
    let denied: Vec<&str> = denied.flat_map(Iin::names).collect();
    entry.denial = (!denied.is_empty()).then(|| denied.join(" "));
    let (mut headers, mut cto) = (fragment.headers(), None);
    let mut understood = 0;
    while let Some(header) = headers.next() {
        match header {
            Ok(header) => {
                understood = headers.offset();
                cto = header.common_time().or(cto);
                lines::push(&header, cto, &mut entry.objects);
                push_points(&header, &mut entry.points);
                let failed = header.controls().find(|control| control.status != CommandStatus::Success);
                if let Some(failed) = failed {
                    entry.denial.get_or_insert(format!("status {} at index {}", failed.status, failed.index));
                }
            }
            Err(error) => {
                let left = fragment.objects.len() - understood;
                entry.refusal = Some(format!("{error}; {left} bytes left unread"));
            }
        }
    }
}

/// Appends the points that a header names: neighbours are joined, so that a range is one entry.
fn push_points(header: &Header<'_>, points: &mut Vec<Touched>) {
    let object = header.object();
    let layout = Layout::find(GroupVar::new(object.group, object.variation.max(1)));
    let point_type = match object.group {
        12 => PointType::BinaryOutput,
        41 => PointType::AnalogOutput,
        _ => match layout.and_then(|layout| layout.point_type) {
            Some(point_type) => point_type,
            None => return,
        },
    };
    match (header.range(), header.data().is_empty()) {
        (Range::All, true) => points.push(Touched { point_type, start: 0, stop: u32::MAX }),
        (Range::Span { start, stop }, _) => points.push(Touched { point_type, start, stop }),
        (Range::All | Range::Count(_), _) => {
            let indices = header.items().map(|item| item.index);
            for index in indices.chain(header.controls().map(|control| control.index.into())) {
                match points.last_mut().filter(|last| last.point_type == point_type) {
                    Some(last) if (last.start..=last.stop).contains(&index) => {}
                    Some(last) if last.stop.checked_add(1) == Some(index) => last.stop = index,
                    Some(_) | None => points.push(Touched { point_type, start: index, stop: index }),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Endpoint, EndpointConfig, Role};
    use crate::link::LinkAddress;
    use proptest::prelude::*;

    /// A fragment in as many frames as it needs.
    fn framed(fragment: &[u8], out: &mut Vec<u8>) {
        let (master, outstation) = (LinkAddress::new(1), LinkAddress::new(10));
        Endpoint::new(EndpointConfig::new(Role::Outstation, outstation)).write_fragment(master, fragment, out);
    }

    fn entry_of(fragment: &[u8]) -> Entry {
        let (mut stream, mut entries) = (Vec::new(), Vec::new());
        framed(fragment, &mut stream);
        Dissector::new().stream(&stream, &mut entries);
        entries.pop().unwrap()
    }

    #[test]
    fn points_and_denials_are_told() {
        let touched = |point_type, start, stop| Touched { point_type, start, stop };
        // g30v2 3 to 4; g32v2 by index, 7, 8 and 10.
        let values = [30, 2, 0, 3, 4, 1, 0, 42, 1, 0, 43, 32, 2, 0x17, 3, 7, 1, 0, 1, 8, 1, 0, 2, 10, 1, 0, 3];
        let entry = entry_of(&[&[0xC0, 0x81, 0, 0], &values[..]].concat());
        let analog = |start, stop| touched(PointType::Analog, start, stop);
        assert_eq!(entry.points, [analog(3, 4), analog(7, 8), analog(10, 10)]);
        assert_eq!((entry.addresses, entry.denial), (Some((LinkAddress::new(10), LinkAddress::new(1))), None));
        assert!(analog(3, 4).has(PointType::Analog, 4) && !analog(3, 4).has(PointType::Counter, 4));
        // All of a group, and what has no points.
        let entry = entry_of(&[0xC0, 0x81, 0x02, 0x06, 20, 0, 6, 60, 1, 6]);
        assert_eq!(entry.points, [touched(PointType::Counter, 0, u32::MAX)]);
        assert_eq!(entry.denial.as_deref(), Some("object-unknown parameter-error"));
        // The echo of a control that is not supported.
        let control = [12, 1, 0x17, 1, 5, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 4];
        let entry = entry_of(&[&[0xC0, 0x81, 0, 0], &control[..]].concat());
        assert_eq!(entry.points, [touched(PointType::BinaryOutput, 5, 5)]);
        assert!(entry.denial.is_some_and(|denial| denial.ends_with("at index 5")), "{:?}", entry.objects);
    }

    proptest! {
        #[test]
        fn any_fragment_is_told_whatever_the_pieces(
            objects in prop::collection::vec(prop_oneof![any::<u8>(), 0..12_u8], 0..300),
            noise in prop::collection::vec(any::<u8>(), 0..30),
            piece in 1..64_usize,
        ) {
            let mut stream = Vec::new();
            framed(&[&[0xC0, 0x81, 0, 0], objects.as_slice()].concat(), &mut stream);
            let whole = stream.len();
            stream.extend_from_slice(&noise);
            let dissect = |pieces: &mut dyn Iterator<Item = &[u8]>| {
                let (mut dissector, mut entries) = (Dissector::new(), Vec::new());
                pieces.for_each(|piece| dissector.stream(piece, &mut entries));
                dissector.finish(&mut entries);
                entries
            };
            let at_once = dissect(&mut core::iter::once(stream.get(..whole).unwrap()));
            prop_assert_eq!(dissect(&mut stream.get(..whole).unwrap().chunks(piece)), at_once.clone());
            let noisy = dissect(&mut core::iter::once(stream.as_slice()));
            prop_assert!(noisy.starts_with(&at_once));
            prop_assert_eq!(noisy.len() > at_once.len(), !noise.is_empty());
        }
    }
}
