//! `[edge]`: the node shows topics of other nodes, its upstreams.

use super::reader::{Document, Section};
use super::settings::{EDGE_LINGER, EDGE_RETRY_MAX, EDGE_SILENCE, EDGE_WINDOW};
use super::upstream::{UpstreamConfig, read_short, read_table};
use std::path::Path;
use std::time::Duration;
use tieline_core::Filter;

/// Upstreams of one node, each with a session of its own.
const UPSTREAMS_MAX: usize = 8;
/// The keys of a table `[[edge.upstream]]` that stand in `[edge]` where it has one upstream.
const OF_UPSTREAM: [&str; 11] = [
    "topics",
    "keep",
    "protection",
    "bulk",
    "prefix",
    "client_id",
    "user",
    "password_file",
    "authorities",
    "certificate",
    "key",
];

/// An edge: what it shows of its upstreams, and how it reaches them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeConfig {
    /// The node's name.
    pub node_name: String,
    /// The upstreams, none of which has topics of another.
    pub upstreams: Vec<UpstreamConfig>,
    /// How long a filter stays subscribed that no client has any more.
    pub linger: Duration,
    /// The longest wait between attempts to connect.
    pub retry_max: Duration,
    /// How long an upstream may collect values for one write.
    pub window: Duration,
    /// How long an upstream may say nothing.
    pub silence: Duration,
}

impl EdgeConfig {
    /// What is shown although no client asks for it, by the names that it has here.
    pub fn keep(&self) -> impl Iterator<Item = Filter> {
        self.upstreams.iter().flat_map(UpstreamConfig::keep_here)
    }
}

/// Reads the table. Files are found beside `folder`; `name` is the node's.
pub(super) fn read_edge(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path, name: &str) -> Option<EdgeConfig> {
    let upstreams = if s.has_tables("upstream") {
        read_several(&mut s, doc, folder, name)
    } else {
        read_short(&mut s, doc, folder, name).map(|upstream| vec![upstream])
    };
    let linger = EDGE_LINGER.read(&mut s, doc);
    let retry_max = EDGE_RETRY_MAX.read(&mut s, doc);
    let window = EDGE_WINDOW.read_short(&mut s, doc);
    let silence = EDGE_SILENCE.read(&mut s, doc);
    s.finish(doc);
    Some(EdgeConfig { node_name: name.to_owned(), upstreams: upstreams?, linger, retry_max, window, silence })
}

fn read_several(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path, node: &str) -> Option<Vec<UpstreamConfig>> {
    let misplaced: Vec<&'static str> = OF_UPSTREAM.into_iter().filter(|key| s.has(key)).collect();
    for key in misplaced {
        let expected = format!("{key} in each table [[edge.upstream]] that needs it");
        let _ = s.optional(doc, key, |_| Err::<(), _>(expected));
    }
    let tables = s.array(doc, "upstream");
    if tables.len() > UPSTREAMS_MAX {
        doc.report(s.value_at("upstream"), &s.key("upstream"), format!("{} tables", tables.len()), at_most());
    }
    let (mut upstreams, mut is_whole) = (Vec::<UpstreamConfig>::new(), true);
    for table in tables {
        let (at, path) = (table.at(), table.path());
        let Some(upstream) = read_table(table, doc, folder, node) else {
            is_whole = false;
            continue;
        };
        for other in &upstreams {
            if let Some((found, expected)) = conflict(other, &upstream) {
                doc.report(at, &path.to_string(), found, expected);
            }
        }
        upstreams.push(upstream);
    }
    is_whole.then_some(upstreams)
}

fn at_most() -> String {
    format!("{UPSTREAMS_MAX} at most")
}

/// Why two upstreams cannot be together, and what would be right: each topic is one upstream's.
fn conflict(one: &UpstreamConfig, other: &UpstreamConfig) -> Option<(String, String)> {
    let names = |upstream: &UpstreamConfig| upstream.sessions().into_iter().map(|(session, _)| session.name);
    if names(one).any(|name| names(other).any(|other| name == other)) {
        return Some((format!("a second upstream {:?}", one.name), "a name of its own".to_owned()));
    }
    let theirs: Vec<Filter> = other.topics_here().collect();
    let common = one.topics_here().flat_map(|filter| theirs.iter().find_map(|other| filter.common(other)).into_iter());
    let common = common.into_iter().next()?;
    let found = format!("topics {:?}, which are topics of the upstream {:?}, too", common.as_str(), one.name);
    Some((found, "topics that no other upstream has: another prefix, or other topics".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::from_text;
    use super::*;
    use crate::config::Priority;

    fn read(text: &str) -> Result<EdgeConfig, String> {
        match from_text("t.toml", &format!("[node]\nname='north'\n[edge]\n{text}"), Path::new("/etc/t")) {
            Ok(config) => Ok(config.edge.unwrap()),
            Err(error) => Err(error.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
        }
    }

    /// The only upstream.
    fn read_one(text: &str) -> UpstreamConfig {
        read(text).unwrap().upstreams.remove(0)
    }

    #[test]
    fn an_upstream_is_a_url_or_several() {
        let check = |text: &str, expect: &[&str]| {
            let found = read(&format!("upstream={text}")).map(|edge| edge.upstreams[0].addresses.clone());
            let found = found.unwrap_or_default();
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
        let edge = read_one("upstream='mqtt://core'\npassword_file='p'\nkeep=['a/#']");
        assert_eq!(
            (edge.client_id.as_str(), edge.password_file.as_deref()),
            ("edge-north", Some(Path::new("/etc/t/p")))
        );
        assert_eq!((edge.topics.len(), edge.keep.len(), edge.name.as_str()), (1, 1, "upstream"));
        assert_eq!(read("upstream='mqtt://core'").unwrap().linger, Duration::from_secs(10));
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
        check("upstream='mqtt://c'\nprefix='a/#'", "a prefix of topics");
    }

    fn several(tables: &[&str]) -> String {
        tables.iter().map(|table| format!("[[edge.upstream]]\n{table}\n")).collect()
    }

    #[test]
    fn upstreams_have_topics_below_their_prefixes() {
        let edge = read(&several(&[
            "name='west'\naddress='mqtt://w'\nprefix='west'\nkeep=['plant/+/alarm']",
            "name='east'\naddress=['mqtt://e1', 'mqtt://e2']\nprefix='far/east'\ntopics=['plant/#']\nuser='u'\npassword_file='p'",
            "name='core'\naddress='mqtt://c'\ntopics=['core/#']",
        ]));
        let edge = edge.unwrap();
        let topics =
            |edge: &EdgeConfig| edge.upstreams.iter().flat_map(UpstreamConfig::topics_here).collect::<Vec<_>>();
        assert_eq!(
            topics(&edge).iter().map(Filter::as_str).collect::<Vec<_>>(),
            ["west/#", "far/east/plant/#", "core/#"]
        );
        assert_eq!(edge.keep().map(|filter| filter.to_string()).collect::<Vec<_>>(), ["west/plant/+/alarm"]);
        let ids: Vec<&str> = edge.upstreams.iter().map(|upstream| upstream.client_id.as_str()).collect();
        assert_eq!(ids, ["edge-north-west", "edge-north-east", "edge-north-core"]);
        assert_eq!(edge.upstreams[1].addresses.len(), 2);
    }

    #[test]
    fn topics_of_protection_and_bulk_have_sessions_of_their_own() {
        let upstream =
            read_one("upstream='mqtt://c'\nprotection=['+/alarm']\nbulk=['b/#','samples/#']\nkeep=['a/#','b/power']");
        let sessions: Vec<_> = upstream
            .sessions()
            .into_iter()
            .map(|(session, priority)| {
                let keep: Vec<String> = session.keep.iter().map(ToString::to_string).collect();
                let beside: Vec<String> = session.beside_here().map(|filter| filter.to_string()).collect();
                (session.name, session.client_id, keep.join(" "), beside.join(" "), priority)
            })
            .collect();
        let expect = [
            ("upstream-protection", "edge-north-protection", "a/alarm", "", Priority::Protection),
            ("upstream-bulk", "edge-north-bulk", "b/power", "+/alarm", Priority::Bulk),
            ("upstream", "edge-north", "a/# b/power", "+/alarm b/# samples/#", Priority::Monitoring),
        ];
        let expect = expect.map(|(name, id, keep, beside, priority)| {
            (name.to_owned(), id.to_owned(), keep.to_owned(), beside.to_owned(), priority)
        });
        assert_eq!(sessions, expect);
    }

    #[test]
    fn upstreams_do_not_share_topics() {
        let check = |tables: &[&str], part: &str| {
            let error = read(&several(tables)).unwrap_err();
            assert!(error.contains(part), "{tables:?}: {error}");
        };
        let (a, b) = ("name='a'\naddress='mqtt://a'", "name='b'\naddress='mqtt://b'");
        let with = |table: &str, more: &str| format!("{table}\n{more}");
        check(&[a, b], "topics \"#\", which are topics of the upstream \"a\", too");
        check(&[&with(a, "prefix='w'"), &with(b, "topics=['+/1']")], "topics \"w/1\"");
        check(&[&with(a, "prefix='w'"), &with(b, "prefix='w'\ntopics=['x/#']")], "another prefix");
        check(&[&with(a, "prefix='w'"), &with(a, "prefix='x'")], "a second upstream \"a\"");
        check(&["address='mqtt://a'"], "edge.upstream[0].name");
        check(&["name='a'"], "edge.upstream[0].address");
        check(&[&with(a, "protection=['x/#']\ntopics=['y/#']")], "edge.upstream[0].protection");
        check(&[&with(a, "bulk=['x/#']\ntopics=['y/#']")], "edge.upstream[0].bulk");
        check(&["name='nodes'\naddress='mqtt://a'"], "nodes and state are taken");
        check(&["name='a/b'\naddress='mqtt://a'"], "a name of letters");
        check(&[&with(a, "prefix='$x'")], "a prefix of topics");
        check(&[&with(a, "prefix='x/'")], "a prefix of topics");
        check(&[&with(a, "keep=['b']\ntopics=['c']")], "edge.upstream[0].topics selects, too");
        let error = read(&format!("user='u'\n{}", several(&[a]))).unwrap_err();
        assert!(error.contains("user in each table [[edge.upstream]]"), "{error}");
        let nine: Vec<String> = (0..9).map(|at| format!("name='n{at}'\naddress='mqtt://a'\nprefix='p{at}'")).collect();
        check(&nine.iter().map(String::as_str).collect::<Vec<_>>(), "expected 8 at most");
    }
}
