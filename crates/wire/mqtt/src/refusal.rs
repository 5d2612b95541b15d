//! The answer to a client that is at the wrong server. It needs no session: the version is in the first bytes.

use crate::{Connack, Packet, Properties, Property, ReasonCode, Text, Version};
use alloc::vec::Vec;

/// The answer to the first packet of a client, if that is a CONNECT: it is to use the server at `reference`, or none is known. MQTT 5
/// clients get `words`, too (MQTT 5.0 section 4.11, 3.1.1 section 3.2.2.3).
#[must_use]
pub fn refuse_connect(first: &[u8], reference: Option<&str>, words: &str) -> Option<Vec<u8>> {
    const NAME: &[u8] = b"\0\x04MQTT";
    let (kind, rest) = first.split_first()?;
    // The remaining length takes one byte to four.
    let level = (1..=4).find_map(|bytes| rest.get(bytes..)?.strip_prefix(NAME)?.first().copied());
    let (version, reason, properties) = match level.filter(|_| *kind == 0x10)? {
        5 => {
            let server = reference.map(|reference| Property::ServerReference(Text::truncated(reference)));
            let reason = if server.is_some() { ReasonCode::UseAnotherServer } else { ReasonCode::ServerUnavailable };
            let words = Property::ReasonString(Text::truncated(words));
            (Version::V5, reason, server.into_iter().chain([words]).collect())
        }
        _ => (Version::V311, ReasonCode::ServerUnavailable, Properties::default()),
    };
    let mut answer = Vec::new();
    let packet = Packet::Connack(Connack { session_present: false, reason, properties });
    packet.emit(version, &mut answer).ok().map(|_| answer)
}
