//! Every frame of every capture is decoded, or refused with a reason.

use super::pcap::{Payload, payloads};
use super::{files, root};
use std::collections::HashMap;
use tieline_dnp3::dissect::{Dissector, Entry};

/// Link frames of all captures together, as tshark counts them.
const FRAMES: usize = 130;
/// What is refused, and why: empty virtual terminal strings, made to crash other decoders.
const REFUSALS: [(&str, &str); 1] =
    [("write_vto_empty_string.pcap", "g112v0: objects of unknown size; 1995 bytes left unread")];

/// The entries of a capture, direction by direction.
fn dissect(file: &[u8]) -> Vec<Entry> {
    let (mut dissectors, mut entries) = (HashMap::new(), Vec::new());
    for (flow, payload) in payloads(file) {
        let dissector = dissectors.entry(flow).or_insert_with(Dissector::new);
        match payload {
            Payload::Stream(bytes) => dissector.stream(&bytes, &mut entries),
            Payload::Datagram(bytes) => dissector.datagram(&bytes, &mut entries),
        }
    }
    dissectors.values_mut().for_each(|dissector| dissector.finish(&mut entries));
    entries
}

#[test]
fn every_frame_of_the_captures_is_told() {
    let paths = files(&root().join("../shared/data/dnp3/captures"));
    let (mut frames, mut refusals) = (0, Vec::new());
    for path in &paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for entry in dissect(&std::fs::read(path).unwrap()) {
            frames += 1;
            refusals.extend(entry.refusal.map(|refusal| (name.clone(), refusal)));
        }
    }
    if !paths.is_empty() {
        let found: Vec<_> = refusals.iter().map(|(name, refusal)| (name.as_str(), refusal.as_str())).collect();
        assert_eq!((frames, found), (FRAMES, REFUSALS.to_vec()));
    }
}
