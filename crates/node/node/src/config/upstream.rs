//! One upstream of an edge: where it is, which topics are its own, and how the node shows who it is.

use super::device::Priority;
use super::parse;
use super::prefix::TopicPrefix;
use super::reader::{Document, Expected, Section};
use std::path::{Path, PathBuf};
use tieline_core::Filter;
use toml::de::DeValue;

/// Addresses of one upstream.
const ADDRESSES_MAX: usize = 8;
/// The ports of MQTT, and of MQTT over TLS.
const PORT: u16 = 1883;
const TLS_PORT: u16 = 8883;
/// The name of an upstream that has none in the file.
const ONLY: &str = "upstream";
/// What the names of sessions for topics of protection, and for bulk, end with.
const PROTECTION: &str = "protection";
const BULK: &str = "bulk";
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 64;

/// An upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// What it is called here: in topics, metrics and messages.
    pub name: String,
    /// Where it is: the first that answers is used.
    pub addresses: Vec<UpstreamAddress>,
    /// What its topics begin with here.
    pub prefix: TopicPrefix,
    /// The topics that are the upstream's, by their names there; others are the node's own.
    pub topics: Vec<Filter>,
    /// Those of them that are shown although no client asks for them.
    pub keep: Vec<Filter>,
    /// Those of them that come in a session of their own, so that they wait behind no others on a slow link.
    pub protection: Vec<Filter>,
    /// Those of the rest that come in a session of their own, so that others wait behind none of them.
    pub bulk: Vec<Filter>,
    /// The name of the node's session there.
    pub client_id: String,
    /// As whom the node comes.
    pub user: Option<String>,
    /// The file of the password, or of a token.
    pub password_file: Option<PathBuf>,
    /// The file of the authorities that are trusted; none: those of the machine.
    pub authorities: Option<PathBuf>,
    /// The files of the node's certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl UpstreamConfig {
    /// The topics that are the upstream's, by their names here.
    pub fn topics_here(&self) -> impl Iterator<Item = Filter> {
        self.topics.iter().filter_map(|filter| self.prefix.filter_here(filter))
    }

    /// The topics that come in other sessions than this, by their names here.
    pub fn beside_here(&self) -> impl Iterator<Item = Filter> {
        self.protection.iter().chain(&self.bulk).filter_map(|filter| self.prefix.filter_here(filter))
    }

    /// The sessions with the upstream, and how urgent each is: one for its topics of protection and one for bulk, where there are some,
    /// and the last for the others. A topic is of the first that has it.
    #[must_use]
    pub fn sessions(&self) -> Vec<(Self, Priority)> {
        let own = |ending: &str, topics: &[Filter], protection: &[Filter]| {
            let within = |keep: &Filter| topics.iter().filter_map(|filter| filter.common(keep)).collect::<Vec<_>>();
            Self {
                name: format!("{}-{ending}", self.name),
                topics: topics.to_vec(),
                keep: self.keep.iter().flat_map(within).collect(),
                protection: protection.to_vec(),
                bulk: Vec::new(),
                client_id: format!("{}-{ending}", self.client_id),
                ..self.clone()
            }
        };
        let mut sessions = Vec::new();
        if !self.protection.is_empty() {
            sessions.push((own(PROTECTION, &self.protection, &[]), Priority::Protection));
        }
        if !self.bulk.is_empty() {
            sessions.push((own(BULK, &self.bulk, &self.protection), Priority::Bulk));
        }
        sessions.push((self.clone(), Priority::Monitoring));
        sessions
    }

    /// What is shown of it although no client asks for it, by the names here.
    pub fn keep_here(&self) -> impl Iterator<Item = Filter> {
        self.keep.iter().filter_map(|filter| self.prefix.filter_here(filter))
    }
}

/// Where an upstream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamAddress {
    /// `host:port`.
    pub address: String,
    /// Whether it is reached over TLS.
    pub is_tls: bool,
}

impl std::fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "mqtts" } else { "mqtt" }, self.address)
    }
}

const UPSTREAM: &str =
    "where the upstream is, as in \"mqtts://core.example:8883\" or [\"mqtt://10.1.0.5\", \"mqtt://10.1.0.6\"]";
const PREFIX: &str = "a prefix of topics without wildcards, as in \"west\"; no / at its ends, and no $ before it";
const NAME: &str = "a name of letters, digits, - and _, as in \"west\"; nodes and state are taken";

/// Reads the only upstream of `[edge]`.
pub(super) fn read_short(
    s: &mut Section<'_>,
    doc: &mut Document<'_>,
    folder: &Path,
    node: &str,
) -> Option<UpstreamConfig> {
    let addresses = s.required(doc, "upstream", UPSTREAM, read_addresses);
    read_rest(s, doc, folder, (ONLY.to_owned(), addresses, format!("edge-{node}")))
}

/// Reads a table `[[edge.upstream]]`.
pub(super) fn read_table(
    mut s: Section<'_>,
    doc: &mut Document<'_>,
    folder: &Path,
    node: &str,
) -> Option<UpstreamConfig> {
    let name = s.required(doc, "name", NAME, read_name);
    let addresses = s.required(doc, "address", UPSTREAM, read_addresses);
    let client_id = format!("edge-{node}-{}", name.as_deref().unwrap_or_default());
    let upstream = read_rest(&mut s, doc, folder, (name.clone().unwrap_or_default(), addresses, client_id));
    s.finish(doc);
    upstream.filter(|_| name.is_some())
}

fn read_rest(
    s: &mut Section<'_>,
    doc: &mut Document<'_>,
    folder: &Path,
    (name, addresses, client_id): (String, Option<Vec<UpstreamAddress>>, String),
) -> Option<UpstreamConfig> {
    let prefix = s.or(doc, "prefix", TopicPrefix::default(), read_prefix);
    let topics = s.or(doc, "topics", Filter::new("#").into_iter().collect(), read_topics);
    let keep = s.or(doc, "keep", Vec::new(), read_topics);
    for outside in keep.iter().filter(|keep| topics.iter().all(|topics| topics.common(keep).is_none())) {
        let expected = format!("filters of topics that {} selects, too", s.key("topics"));
        doc.report(s.value_at("keep"), &s.key("keep"), format!("{outside:?}"), expected);
    }
    let [protection, bulk] = [PROTECTION, BULK].map(|key| {
        let own = s.or(doc, key, Vec::new(), read_topics);
        for outside in own.iter().filter(|filter| !topics.iter().any(|topics| topics.covers(filter))) {
            let expected = format!("filters of topics that {} selects, too", s.key("topics"));
            doc.report(s.value_at(key), &s.key(key), format!("{outside:?}"), expected);
        }
        own
    });
    let client_id = s.or(doc, "client_id", client_id, parse::text);
    let user = s.optional(doc, "user", parse::text);
    let password_file = s.optional(doc, "password_file", parse::text).map(|file| folder.join(file));
    if user.is_some() && password_file.is_none() {
        let found = "a user without a password".to_owned();
        doc.report(s.value_at("user"), &s.key("user"), found, "password_file beside it".to_owned());
    }
    let is_plain = addresses.as_ref().is_some_and(|all| all.iter().all(|address| !address.is_tls));
    let (authorities, identity) = read_tls(s, doc, folder, is_plain);
    Some(UpstreamConfig {
        name,
        addresses: addresses?,
        prefix,
        topics,
        keep,
        protection,
        bulk,
        client_id,
        user,
        password_file,
        authorities,
        identity,
    })
}

fn read_tls(
    s: &mut Section<'_>,
    doc: &mut Document<'_>,
    folder: &Path,
    is_plain: bool,
) -> (Option<PathBuf>, Option<(PathBuf, PathBuf)>) {
    let authorities = s.optional(doc, "authorities", parse::text).map(|file| folder.join(file));
    let certificate = s.optional(doc, "certificate", parse::text).map(|file| folder.join(file));
    let key = s.optional(doc, "key", parse::text).map(|file| folder.join(file));
    for (one, other) in [("certificate", "key"), ("key", "certificate")] {
        if s.has(one) && !s.has(other) {
            doc.report(s.value_at(one), &s.key(one), format!("{one} alone"), format!("{other} beside it"));
        }
    }
    for name in ["authorities", "certificate", "key"] {
        if is_plain && s.has(name) {
            let found = "a file of TLS, and no upstream that is reached over TLS".to_owned();
            doc.report(s.value_at(name), &s.key(name), found, "an upstream with mqtts://".to_owned());
        }
    }
    (authorities, certificate.zip(key))
}

/// A level of topics, and a label of metrics.
fn read_name(value: &DeValue<'_>) -> Result<String, Expected> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name = value.as_str().filter(|name| (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_letter));
    let name = name.filter(|name| !matches!(*name, "nodes" | "state"));
    name.map(str::to_owned).ok_or_else(|| NAME.to_owned())
}

fn read_prefix(value: &DeValue<'_>) -> Result<TopicPrefix, Expected> {
    value.as_str().and_then(TopicPrefix::new).ok_or_else(|| PREFIX.to_owned())
}

/// System topics are each node's own.
fn read_topics(value: &DeValue<'_>) -> Result<Vec<Filter>, Expected> {
    let filters = parse::filters(value)?;
    let is_system = |filter: &Filter| filter.starts_with('$');
    let expected = || "filters that do not begin with $, as in [\"plant/#\"]".to_owned();
    if filters.is_empty() || filters.iter().any(is_system) { Err(expected()) } else { Ok(filters) }
}

fn read_addresses(value: &DeValue<'_>) -> Result<Vec<UpstreamAddress>, Expected> {
    let texts = match value.as_str() {
        Some(text) => vec![text.to_owned()],
        None => parse::texts(value).map_err(|_| UPSTREAM.to_owned())?,
    };
    if !(1..=ADDRESSES_MAX).contains(&texts.len()) {
        return Err(format!("1 to {ADDRESSES_MAX} upstreams, as in \"mqtts://core.example:8883\""));
    }
    let wrong = |text: &String| match texts.len() {
        1 => UPSTREAM.to_owned(),
        _ => format!("{UPSTREAM}; {text:?} is none"),
    };
    texts.iter().map(|text| read_address(text).ok_or_else(|| wrong(text))).collect()
}

fn read_address(text: &str) -> Option<UpstreamAddress> {
    let (scheme, rest) = text.split_once("://")?;
    let (is_tls, usual) = match scheme {
        "mqtt" => (false, PORT),
        "mqtts" => (true, TLS_PORT),
        _ => return None,
    };
    let is_ipv6 = rest.starts_with('[');
    let (host, port) = match rest.rsplit_once(':').filter(|(host, _)| !is_ipv6 || host.ends_with(']')) {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
        None => (rest, usual),
    };
    let is_host =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '[' | ']') || (is_ipv6 && c == ':');
    let is_whole = !host.is_empty() && host.chars().all(is_host);
    is_whole.then(|| UpstreamAddress { address: format!("{host}:{port}"), is_tls })
}
