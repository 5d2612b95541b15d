//! Messages of BACnet/SC as text.
//!
//! ```text
//! sc from 02:00:00:00:00:09 | answer 7 read-property analog-input,1 present-value: 21.5
//! sc connect-request 3 of 02:00:00:00:00:01
//! sc bvlc-result 3 of connect-request: communication: node-duplicate-vmac
//! ```

use super::{Dissector, Entry, Sender};
use crate::sc::{Body, Message, Options, Vmac, function_name};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Write as _;

/// Header options of a message that are told at most.
const OPTIONS_MAX: usize = 16;

impl Dissector {
    /// Takes the next message of a WebSocket to a hub.
    pub fn secure_message(&mut self, sender: Sender, bytes: &[u8]) -> Entry {
        let mut entry = Entry::default();
        match Message::parse(bytes) {
            Ok(message) => self.secure(sender, &message, &mut entry),
            Err(malformed) => {
                entry.summary.push_str("no message of BACnet/SC");
                entry.refusal = Some(malformed.to_string());
            }
        }
        entry
    }

    fn secure(&mut self, sender: Sender, message: &Message<'_>, entry: &mut Entry) {
        entry.summary.push_str("sc ");
        for (way, vmac) in [("from", message.origin), ("to", message.destination)] {
            match vmac {
                Some(Vmac::BROADCAST) => entry.summary.push_str("broadcast | "),
                Some(vmac) => _ = write!(entry.summary, "{way} {vmac} | "),
                None => {}
            }
        }
        if let Body::Npdu(npdu) = message.body {
            if let Err(error) = self.network(sender, npdu, entry) {
                entry.refusal = Some(error.to_string());
                entry.summary.push_str("no message of the network layer");
            }
        } else {
            let function = message.body.function();
            let _ = write!(entry.summary, "{} {}", name_of(function), message.id);
            tell(&message.body, entry);
        }
        for (place, options) in [("destination", message.destination_options), ("data", message.data_options)] {
            tell_options(place, &options, entry);
        }
    }
}

/// What a message of the link itself says.
fn tell(body: &Body<'_>, entry: &mut Entry) {
    match body {
        Body::Result(function, Ok(())) => _ = write!(entry.summary, " of {}: done", name_of(*function)),
        Body::Result(function, Err(nak)) => {
            let _ = write!(entry.summary, " of {}: {}", name_of(*function), nak.error);
            let details = if nak.details.is_empty() { String::new() } else { format!(": {}", nak.details) };
            entry.refusal = Some(format!("the node refuses: {}{details}", nak.error));
        }
        Body::ConnectRequest(connect) | Body::ConnectAccept(connect) => {
            let _ = write!(entry.summary, " of {}", connect.vmac);
            entry.details.push(format!("uuid: {}", connect.uuid));
            let (bvlc, npdu) = (connect.bvlc_bytes_max, connect.npdu_bytes_max);
            entry.details.push(format!("takes {bvlc} bytes of a message, {npdu} of one of the network layer"));
        }
        Body::Advertisement(advertisement) => {
            let hub = match advertisement.hub {
                1 => "the primary hub",
                2 => "the failover hub",
                _ => "no hub",
            };
            entry.details.push(format!("is connected to {hub}"));
        }
        Body::AddressResolutionAck(uris) => entry.details.push(format!("takes direct connections at: {uris}")),
        Body::Proprietary { vendor, function, data } => {
            let _ = write!(entry.summary, " of vendor {vendor}: function {function}, {} bytes", data.len());
        }
        Body::Npdu(_)
        | Body::AddressResolution
        | Body::AdvertisementSolicitation
        | Body::DisconnectRequest
        | Body::DisconnectAck
        | Body::HeartbeatRequest
        | Body::HeartbeatAck
        | Body::Other(..) => {}
    }
}

fn tell_options(place: &str, options: &Options<'_>, entry: &mut Entry) {
    for option in options.iter().take(OPTIONS_MAX) {
        let must = if option.must_understand { ", must be understood" } else { "" };
        let bytes = option.data.map_or(0, <[u8]>::len);
        entry.details.push(format!("{place} option {}: {bytes} bytes{must}", option.kind));
    }
}

fn name_of(function: u8) -> String {
    function_name(function).map_or_else(|| format!("function {function:#04x}"), ToString::to_string)
}
