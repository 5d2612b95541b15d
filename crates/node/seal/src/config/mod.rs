//! What a server of seals is told: TOML, one table a domain and a client, files for keys and certificates.
//!
//! In: files. Out: a [`Config`] that holds only legal values and keys that were read and checked, or every error at once
//! with file, line, key, what was found and what was expected.

mod domain;
mod file;
mod settings;
#[cfg(test)]
mod tests;

pub use file::{ConfigFile, EditError, NewKey, NewPeer};

use crate::access::{Client, Clients, Right};
use crate::audit::AuditLimits;
use crate::work::{Domains, Limits};
use domain::read_domains;
use settings::{
    AUDIT_FILE_BYTES_MAX, AUDIT_FILES_MAX, HTTP_LISTEN, PROTOCOL_CONNECTIONS_MAX, PROTOCOL_IN_FLIGHT_MAX,
    PROTOCOL_LISTEN, SEAL_BATCH, SEAL_CONTENT_BYTES_MAX, SEAL_EXACT_ERRORS, SEAL_EXPIRY_WARNING,
    SEAL_INFLATE_BYTES_MAX, SEAL_INFLATE_RATIO_MAX, SEAL_QUEUE_MAX, SEAL_WORKERS,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tieline_net::tls::Tls;
use tieline_rsfn::InflateLimits;
use tieline_service::http::places;
use tieline_service::parse;
use tieline_service::reader::{ConfigError, Document, Findings, Section, read_text};
use tieline_service::setting::Text;
use tieline_service::tls::{self, Peers};

/// All that a server is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Threads that do operations; 0 for one a core.
    pub workers: usize,
    /// Operations that may wait; one more is answered with "busy".
    pub queue_max: usize,
    /// Bytes of content at most.
    pub content_bytes_max: u64,
    /// How far compressed content may grow.
    pub inflate: InflateLimits,
    /// Whether private-key operations that wait are done together.
    pub batch: bool,
    /// Whether clients are told why a message could not be opened. A client that can send messages of its own making and
    /// learns that can decrypt with the key: see `docs/seal.md`.
    pub exact_errors: bool,
    /// How long before a certificate ends its end is warned of.
    pub expiry_warning: Duration,
    /// What both doors show and whom they trust; none is plain TCP, for this machine alone.
    pub tls: Option<Arc<Tls>>,
    /// Where HTTP listens.
    pub http: SocketAddr,
    /// Host names, besides addresses and localhost, under which HTTP may be reached.
    pub hosts: Vec<String>,
    /// How many connections of HTTP, and how much they may hold.
    pub http_limits: places::Limits,
    /// Where the binary protocol listens.
    pub protocol: SocketAddr,
    /// Connections of the binary protocol at once; one more is closed.
    pub connections_max: usize,
    /// Requests of one connection that are not answered yet; then nothing more is read from it.
    pub in_flight_max: u32,
    /// The audit log; none keeps none.
    pub audit: Option<PathBuf>,
    /// How much of it is kept.
    pub audit_limits: AuditLimits,
    /// Domains, keys, peers.
    pub domains: Domains,
    /// Who may ask.
    pub clients: Clients,
    /// The file that all this was read from; none when it was a text.
    pub path: Option<PathBuf>,
}

impl Config {
    /// How large things may be.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        Limits { content_bytes_max: self.content_bytes_max, inflate: self.inflate }
    }

    /// Whether a key lies in a token, which takes its time.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        self.domains.values().any(|domain| domain.has_tokens)
    }
}

/// Reads a configuration and the keys and certificates that it names.
///
/// # Errors
/// Everything that is wrong in any of the files.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let text = read_text(path)?;
    let config = from_text(&path.display().to_string(), &text, path.parent().unwrap_or(Path::new(".")))?;
    Ok(Config { path: Some(path.to_owned()), ..config })
}

/// Reads a configuration from text; keys and certificates are found beside `folder`.
///
/// # Errors
/// Everything that is wrong.
pub fn from_text(file: &str, text: &str, folder: &Path) -> Result<Config, ConfigError> {
    let mut findings = Findings::default();
    let config = Document::read(file, text, &mut findings, |doc, root| read_config(doc, root, folder));
    if findings.is_empty() { Ok(config) } else { Err(ConfigError(findings.sorted())) }
}

fn read_config(doc: &mut Document<'_>, mut root: Section<'_>, folder: &Path) -> Config {
    let mut seal = root.section(doc, "seal");
    let (secured, tls_at) = (root.has("tls"), root.value_at("tls"));
    let tls = root.section(doc, "tls");
    let tls = secured.then(|| read_tls(tls, doc, folder, tls_at)).flatten();
    let mut http = root.section(doc, "http");
    let mut protocol = root.section(doc, "protocol");
    let mut audit = root.section(doc, "audit");
    let domains = read_domains(root.section(doc, "domain"), doc, folder);
    let clients = read_clients(root.section(doc, "client"), doc, &domains);
    if !root.has("client") {
        doc.report(root.at(), "client", "no client".to_owned(), "at least one, as in [client.app1]".to_owned());
    }
    let config = Config {
        workers: SEAL_WORKERS.read_size(&mut seal, doc),
        queue_max: SEAL_QUEUE_MAX.read_size(&mut seal, doc),
        content_bytes_max: SEAL_CONTENT_BYTES_MAX.read(&mut seal, doc),
        inflate: InflateLimits {
            bytes_max: SEAL_INFLATE_BYTES_MAX.read(&mut seal, doc),
            ratio_max: SEAL_INFLATE_RATIO_MAX.read(&mut seal, doc),
        },
        batch: SEAL_BATCH.read(&mut seal, doc),
        exact_errors: SEAL_EXACT_ERRORS.read(&mut seal, doc),
        expiry_warning: SEAL_EXPIRY_WARNING.read(&mut seal, doc),
        tls,
        http: read_listen(&mut http, doc, HTTP_LISTEN, secured),
        hosts: http.or(doc, "hosts", Vec::new(), parse::texts),
        http_limits: places::read_limits(&mut http, doc),
        protocol: read_listen(&mut protocol, doc, PROTOCOL_LISTEN, secured),
        connections_max: PROTOCOL_CONNECTIONS_MAX.read_size(&mut protocol, doc),
        in_flight_max: PROTOCOL_IN_FLIGHT_MAX.read(&mut protocol, doc),
        audit: audit.optional(doc, "file", parse::text).map(|file| folder.join(file)),
        audit_limits: AuditLimits {
            file_bytes_max: AUDIT_FILE_BYTES_MAX.read(&mut audit, doc),
            files_max: AUDIT_FILES_MAX.read_size(&mut audit, doc),
        },
        domains,
        clients,
        path: None,
    };
    for section in [seal, http, protocol, audit, root] {
        section.finish(doc);
    }
    config
}

fn read_tls(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path, at: usize) -> Option<Arc<Tls>> {
    let loaded = tls::read(&mut s, doc, folder, Peers::AnyClient, at);
    s.finish(doc);
    loaded
}

/// Without TLS tokens travel in the clear, so only this machine may be listened to.
fn read_listen(s: &mut Section<'_>, doc: &mut Document<'_>, setting: Text, secured: bool) -> SocketAddr {
    let listen = setting.read_listen(s, doc);
    if !listen.ip().is_loopback() && !secured {
        let found = format!("{listen}, which other machines can reach");
        let expected = "an address of this machine alone, as in \"127.0.0.1:7480\", or a table [tls]".to_owned();
        doc.report(s.value_at("listen"), &s.key("listen"), found, expected);
    }
    listen
}

fn read_clients(mut all: Section<'_>, doc: &mut Document<'_>, domains: &Domains) -> Clients {
    let mut clients = Clients::new();
    for (name, mut s) in all.sections(doc) {
        let expected = "the SHA-256 of a token, 64 hexadecimal digits; `tieline seal token` makes one";
        let token = s.required(doc, "token_sha256", expected, |value| {
            value.as_str().and_then(from_hex).ok_or_else(|| expected.to_owned())
        });
        let rights = s.required(doc, "rights", "a list like [\"pack:spb\", \"unpack:*\"]", |value| {
            let words = || "a list like [\"pack:spb\", \"unpack:*\", \"admin:spb\"] of domains that exist".to_owned();
            let rights: Option<Vec<_>> = parse::texts(value)?.iter().map(|text| Right::from_text(text)).collect();
            let known = |right: &Right| right.domain.as_ref().is_none_or(|domain| domains.contains_key(domain));
            rights.filter(|rights| rights.iter().all(known)).ok_or_else(words)
        });
        if let (Some(token), Some(rights)) = (token, rights) {
            let client = Arc::new(Client { name, token, rights });
            if let Some(other) = clients.insert(token, client) {
                let found = format!("the token of client {:?}", other.name);
                doc.report(s.value_at("token_sha256"), &s.key("token_sha256"), found, "a token of its own".to_owned());
            }
        }
        s.finish(doc);
    }
    clients
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    if !text.is_ascii() || text.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}
