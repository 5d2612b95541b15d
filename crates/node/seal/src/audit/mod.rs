//! The audit log: one JSON object a line for every operation, with the exact code and without content.

mod log;
#[cfg(test)]
mod tests;

pub use log::{AuditLimits, AuditLog};

use crate::access::{Client, push_hex};
use crate::work::{Done, Operation, Output, Trace};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use tieline_crypto::{DIGEST_BYTES, sha256};

/// What is known of an operation before it is done.
pub struct Asked {
    verb: &'static str,
    domain: Arc<str>,
    client: Arc<Client>,
    address: SocketAddr,
    bytes: usize,
    /// SHA-256 of the message to be unpacked. That of content would let short content be guessed.
    digest: Option<[u8; DIGEST_BYTES]>,
}

impl Asked {
    /// Notes who asks what.
    pub fn new(operation: &Operation, client: Arc<Client>, address: SocketAddr) -> Self {
        match operation {
            Operation::Pack(pack) => {
                let (domain, bytes) = (Arc::clone(&pack.domain), pack.content.len());
                Self { verb: "pack", domain, client, address, bytes, digest: None }
            }
            Operation::Unpack(unpack) => {
                let (domain, bytes) = (Arc::clone(&unpack.domain), unpack.message.len());
                let digest = Some(sha256(&unpack.message));
                Self { verb: "unpack", domain, client, address, bytes, digest }
            }
        }
    }

    /// Appends the line, with its end. `now` is the time in RFC 3339.
    pub fn write(self, now: &str, (result, trace): &Done, line: &mut String) {
        let Trace { key_version, serials, peer } = trace;
        let digest = match result {
            Ok(Output::Packed(message)) => Some(sha256(message)),
            Ok(Output::Unpacked { .. }) | Err(_) => self.digest,
        };
        // A line a message is worth the trouble of writing it without a tree of JSON values.
        for (name, text) in [("{\"time\":\"", now), ("\",\"verb\":\"", self.verb), ("\",\"client\":", "")] {
            line.push_str(name);
            line.push_str(text);
        }
        push_quoted(line, &self.client.name);
        let _ = write!(line, ",\"address\":\"{}\",\"domain\":", self.address);
        push_quoted(line, &self.domain);
        let _ = write!(line, ",\"bytes\":{},\"ok\":{}", self.bytes, result.is_ok());
        if let Some(peer) = peer {
            let _ = write!(line, ",\"peer\":\"{peer}\"");
        }
        if let Some(version) = key_version {
            let _ = write!(line, ",\"key_version\":{version}");
        }
        if let Some((sender, recipient)) = serials {
            let _ = write!(line, ",\"sender_serial\":\"{sender}\",\"recipient_serial\":\"{recipient}\"");
        }
        if let Some(digest) = digest {
            line.push_str(",\"message_sha256\":\"");
            push_hex(line, &digest);
            line.push('"');
        }
        if let Err(refusal) = result {
            let _ = write!(line, ",\"code\":\"{:02X}\",\"reason\":", refusal.code().0);
            push_quoted(line, &refusal.text());
        }
        line.push_str("}\n");
    }
}

/// A change of keys by a client of the HTTP API, as a line with its end.
pub fn change_line(now: &str, client: &Client, address: SocketAddr, change: &Change<'_>) -> String {
    let Change { verb, domain, key_version, serial, refused } = change;
    let mut line = format!("{{\"time\":\"{now}\",\"verb\":\"{verb}\",\"client\":");
    push_quoted(&mut line, &client.name);
    let _ = write!(line, ",\"address\":\"{address}\",\"domain\":");
    push_quoted(&mut line, domain);
    let _ = write!(line, ",\"ok\":{}", refused.is_none());
    if let Some(version) = key_version {
        let _ = write!(line, ",\"key_version\":{version}");
    }
    if let Some(serial) = serial {
        line.push_str(",\"serial\":");
        push_quoted(&mut line, serial);
    }
    if let Some(reason) = refused {
        line.push_str(",\"reason\":");
        push_quoted(&mut line, reason);
    }
    line.push_str("}\n");
    line
}

/// What a client changes.
pub struct Change<'a> {
    /// `key_import`, `key_state` or `peer_import`.
    pub verb: &'a str,
    /// Where.
    pub domain: &'a str,
    /// Our key's version.
    pub key_version: Option<u32>,
    /// The certificate's serial.
    pub serial: Option<&'a str>,
    /// Why it was not done.
    pub refused: Option<&'a str>,
}

/// A text as JSON has it.
fn push_quoted(line: &mut String, text: &str) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        line.push('"');
        line.push_str(text);
        line.push('"');
    } else {
        line.push_str(&serde_json::Value::from(text).to_string());
    }
}
