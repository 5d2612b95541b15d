//! `[edge]`: the node shows topics of another node, its upstream.

use super::parse;
use super::reader::{Document, Expected, Section};
use super::settings::{EDGE_LINGER, EDGE_RETRY_MAX, EDGE_SILENCE};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline_core::Filter;
use toml::de::DeValue;

/// Upstreams of one node.
const UPSTREAMS_MAX: usize = 8;
/// The ports of MQTT, and of MQTT over TLS.
const PORT: u16 = 1883;
const TLS_PORT: u16 = 8883;

/// An edge: what it shows of its upstream, and how it reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeConfig {
    /// Where the upstream is: the first that answers is used.
    pub upstreams: Vec<Upstream>,
    /// The topics that are the upstream's; others are the node's own.
    pub topics: Vec<Filter>,
    /// Those of them that are shown although no client asks for them.
    pub keep: Vec<Filter>,
    /// The node's name.
    pub node_name: String,
    /// The name of the node's session at the upstream.
    pub client_id: String,
    /// As whom the node comes.
    pub user: Option<String>,
    /// The file of the password, or of a token.
    pub password_file: Option<PathBuf>,
    /// The file of the authorities that are trusted; none: those of the machine.
    pub authorities: Option<PathBuf>,
    /// The files of the node's certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// How long a filter stays subscribed that no client has any more.
    pub linger: Duration,
    /// The longest wait between attempts to connect.
    pub retry_max: Duration,
    /// How long the upstream may say nothing.
    pub silence: Duration,
}

/// Where an upstream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// `host:port`.
    pub address: String,
    /// Whether it is reached over TLS.
    pub is_tls: bool,
}

impl std::fmt::Display for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "mqtts" } else { "mqtt" }, self.address)
    }
}

const UPSTREAM: &str =
    "where the upstream is, as in \"mqtts://core.example:8883\" or [\"mqtt://10.1.0.5\", \"mqtt://10.1.0.6\"]";

/// Reads the table. Files are found beside `folder`; `name` is the node's.
pub(super) fn read_edge(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path, name: &str) -> Option<EdgeConfig> {
    let upstreams = s.required(doc, "upstream", UPSTREAM, read_upstreams);
    let topics = s.or(doc, "topics", Filter::new("#").into_iter().collect(), read_topics);
    let keep = s.or(doc, "keep", Vec::new(), read_topics);
    for outside in keep.iter().filter(|keep| topics.iter().all(|topics| topics.common(keep).is_none())) {
        let expected = "filters of topics that edge.topics selects, too".to_owned();
        doc.report(s.value_at("keep"), &s.key("keep"), format!("{outside:?}"), expected);
    }
    let client_id = s.or(doc, "client_id", format!("edge-{name}"), parse::text);
    let user = s.optional(doc, "user", parse::text);
    let password_file = s.optional(doc, "password_file", parse::text).map(|file| folder.join(file));
    if user.is_some() && password_file.is_none() {
        let found = "a user without a password".to_owned();
        doc.report(s.value_at("user"), &s.key("user"), found, "password_file beside it".to_owned());
    }
    let authorities = s.optional(doc, "authorities", parse::text).map(|file| folder.join(file));
    let certificate = s.optional(doc, "certificate", parse::text).map(|file| folder.join(file));
    let key = s.optional(doc, "key", parse::text).map(|file| folder.join(file));
    for (one, other) in [("certificate", "key"), ("key", "certificate")] {
        if s.has(one) && !s.has(other) {
            doc.report(s.value_at(one), &s.key(one), format!("{one} alone"), format!("{other} beside it"));
        }
    }
    let is_plain = upstreams.as_ref().is_some_and(|upstreams| upstreams.iter().all(|upstream| !upstream.is_tls));
    for name in ["authorities", "certificate", "key"] {
        if is_plain && s.has(name) {
            let found = "a file of TLS, and no upstream that is reached over TLS".to_owned();
            doc.report(s.value_at(name), &s.key(name), found, "an upstream with mqtts://".to_owned());
        }
    }
    let linger = EDGE_LINGER.read(&mut s, doc);
    let retry_max = EDGE_RETRY_MAX.read(&mut s, doc);
    let silence = EDGE_SILENCE.read(&mut s, doc);
    s.finish(doc);
    let (upstreams, identity) = (upstreams?, certificate.zip(key));
    Some(EdgeConfig {
        upstreams,
        topics,
        keep,
        node_name: name.to_owned(),
        client_id,
        user,
        password_file,
        authorities,
        identity,
        linger,
        retry_max,
        silence,
    })
}

/// System topics are each node's own.
fn read_topics(value: &DeValue<'_>) -> Result<Vec<Filter>, Expected> {
    let filters = parse::filters(value)?;
    let is_system = |filter: &Filter| filter.starts_with('$');
    let expected = || "filters that do not begin with $, as in [\"plant/#\"]".to_owned();
    if filters.is_empty() || filters.iter().any(is_system) { Err(expected()) } else { Ok(filters) }
}

fn read_upstreams(value: &DeValue<'_>) -> Result<Vec<Upstream>, Expected> {
    let texts = match value.as_str() {
        Some(text) => vec![text.to_owned()],
        None => parse::texts(value).map_err(|_| UPSTREAM.to_owned())?,
    };
    if !(1..=UPSTREAMS_MAX).contains(&texts.len()) {
        return Err(format!("1 to {UPSTREAMS_MAX} upstreams, as in \"mqtts://core.example:8883\""));
    }
    let wrong = |text: &String| match texts.len() {
        1 => UPSTREAM.to_owned(),
        _ => format!("{UPSTREAM}; {text:?} is none"),
    };
    texts.iter().map(|text| read_upstream(text).ok_or_else(|| wrong(text))).collect()
}

fn read_upstream(text: &str) -> Option<Upstream> {
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
    is_whole.then(|| Upstream { address: format!("{host}:{port}"), is_tls })
}

#[cfg(test)]
mod tests {
    use super::super::from_text;
    use super::*;

    fn read(text: &str) -> Result<EdgeConfig, String> {
        match from_text("t.toml", &format!("[node]\nname='north'\n[edge]\n{text}"), Path::new("/etc/t")) {
            Ok(config) => Ok(config.edge.unwrap()),
            Err(error) => Err(error.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
        }
    }

    #[test]
    fn an_upstream_is_a_url_or_several() {
        let check = |text: &str, expect: &[&str]| {
            let found = read(&format!("upstream={text}")).map(|edge| edge.upstreams).unwrap_or_default();
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, expect, "{text}");
        };
        check("'mqtt://core'", &["mqtt://core:1883"]);
        check("['mqtts://core', 'mqtt://10.1.0.5:7']", &["mqtts://core:8883", "mqtt://10.1.0.5:7"]);
        check("'mqtt://[::1]:9'", &["mqtt://[::1]:9"]);
        check("'mqtt://[::1]'", &["mqtt://[::1]:1883"]);
        for wrong in
            ["'core:1883'", "'http://core'", "'mqtt://'", "'mqtt://a:0'", "'mqtt://a/b'", "[]", "7", "'mqtt://u@h'"]
        {
            check(wrong, &[]);
        }
    }

    #[test]
    fn a_node_without_the_table_is_no_edge() {
        assert_eq!(from_text("t.toml", "", Path::new(".")).unwrap().edge, None);
        let edge = read("upstream='mqtt://core'\npassword_file='p'\nkeep=['a/#']").unwrap();
        assert_eq!(
            (edge.client_id.as_str(), edge.password_file.as_deref()),
            ("edge-north", Some(Path::new("/etc/t/p")))
        );
        assert_eq!((edge.topics.len(), edge.keep.len(), edge.linger), (1, 1, Duration::from_secs(10)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |text: &str, part: &str| {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        };
        check("", "edge.upstream");
        check("upstream='core'", "mqtts://core.example:8883");
        check("upstream=['mqtt://a', 'b']", "; \"b\" is none");
        check("upstream=[]", "expected 1 to 8 upstreams");
        check("upstream='mqtt://c'\nuser='u'", "password_file beside it");
        check("upstream='mqtt://c'\nauthorities='ca.pem'", "an upstream with mqtts://");
        check("upstream='mqtts://c'\ncertificate='c.pem'", "key beside it");
        check("upstream='mqtt://c'\ntopics=['$SYS/#']", "do not begin with $");
        check("upstream='mqtt://c'\ntopics=[]", "do not begin with $");
        check("upstream='mqtt://c'\ntopics=['plant/#']\nkeep=['site/#']", "edge.topics selects, too");
        check("upstream='mqtt://c'\nlinger='2d'", "edge.linger");
        check("upstream='mqtt://c'\nfilters=['#']", "edge.filters");
    }
}
