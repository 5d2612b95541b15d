//! The audit log: one JSON object a line for every operation, with the exact code and without content.
//!
//! A thread of its own writes what workers hand over; a worker that is far ahead of the disk waits. Lines are written,
//! not synced: they survive the end of the process, not that of the machine.

use crate::access::{Client, hex};
use crate::work::{Done, Operation, Output, Trace};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use tieline_core::Timestamp;
use tieline_crypto::sha256;

/// Batches of lines that may wait for the disk.
const WAITING_MAX: usize = 256;

/// What is known of an operation before it is done.
pub struct Asked {
    verb: &'static str,
    domain: Arc<str>,
    client: Arc<Client>,
    address: SocketAddr,
    octets: usize,
    /// SHA-256 of the message to be unpacked. That of content would let short content be guessed.
    digest: Option<String>,
}

impl Asked {
    /// Notes who asks what.
    pub fn new(operation: &Operation, client: Arc<Client>, address: SocketAddr) -> Self {
        match operation {
            Operation::Pack(pack) => {
                let (domain, octets) = (Arc::clone(&pack.domain), pack.content.len());
                Self { verb: "pack", domain, client, address, octets, digest: None }
            }
            Operation::Unpack(unpack) => {
                let (domain, octets) = (Arc::clone(&unpack.domain), unpack.message.len());
                let digest = Some(hex(&sha256(&unpack.message)));
                Self { verb: "unpack", domain, client, address, octets, digest }
            }
        }
    }

    /// The line, with its end.
    pub fn line(self, now: Timestamp, (result, trace): &Done) -> String {
        let Trace { key_version, serials, peer } = trace;
        let digest = match result {
            Ok(Output::Packed(message)) => Some(hex(&sha256(message))),
            Ok(Output::Unpacked { .. }) | Err(_) => self.digest,
        };
        let mut line = String::with_capacity(512);
        // A line a message is worth the trouble of writing it without a tree of JSON values.
        let _ = write!(
            line,
            "{{\"time\":\"{now}\",\"verb\":\"{}\",\"client\":{},\"address\":\"{}\",\"domain\":{},\"octets\":{},\"ok\":{}",
            self.verb,
            quoted(&self.client.name),
            self.address,
            quoted(&self.domain),
            self.octets,
            result.is_ok(),
        );
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
            let _ = write!(line, ",\"message_sha256\":\"{digest}\"");
        }
        if let Err(refusal) = result {
            let _ = write!(line, ",\"code\":\"{:02X}\",\"reason\":{}", refusal.code().0, quoted(&refusal.text()));
        }
        line.push_str("}\n");
        line
    }
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The thread that writes.
pub struct AuditLog {
    sender: Option<SyncSender<String>>,
    thread: Option<JoinHandle<()>>,
    failures: Arc<AtomicU64>,
}

impl AuditLog {
    /// Opens the file to append to, readable by its owner and group; without a path, nothing is kept.
    ///
    /// # Errors
    /// The file cannot be opened, or no thread started.
    pub fn start(path: Option<&Path>) -> std::io::Result<Self> {
        let failures = Arc::new(AtomicU64::new(0));
        let Some(path) = path else { return Ok(Self { sender: None, thread: None, failures }) };
        let file = OpenOptions::new().append(true).create(true).mode(0o640).open(path)?;
        let (sender, lines) = sync_channel(WAITING_MAX);
        let failed = Arc::clone(&failures);
        let thread = std::thread::Builder::new().name("seal-audit".to_owned());
        let thread = thread.spawn(move || write_all(file, &lines, &failed))?;
        Ok(Self { sender: Some(sender), thread: Some(thread), failures })
    }

    /// Whether anything is kept.
    pub const fn is_kept(&self) -> bool {
        self.sender.is_some()
    }

    /// Hands lines over; waits while the disk is behind.
    pub fn write(&self, lines: String) {
        if let Some(sender) = &self.sender
            && sender.send(lines).is_err()
        {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes that failed; what they held is lost.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_all(mut file: File, lines: &Receiver<String>, failures: &AtomicU64) {
    while let Ok(mut text) = lines.recv() {
        text.extend(lines.try_iter());
        if let Err(error) = file.write_all(text.as_bytes()) {
            failures.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%error, "the audit log cannot be written; operations go on");
        }
    }
}
