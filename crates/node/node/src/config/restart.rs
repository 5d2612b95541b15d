//! Where a configuration came from, and what of it holds after a restart only.

use super::{Config, EdgeConfig, HistoryConfig, HttpConfig, NodeConfig, UpstreamConfig};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where the configuration came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The file; none where the node runs without one.
    pub file: Option<PathBuf>,
    /// Another file whose devices are added to those of the first.
    pub devices_of: Option<PathBuf>,
    /// Where HTTP and MQTT listen by the file, whatever the command line says.
    pub listen: Option<(SocketAddr, SocketAddr)>,
    /// Whether `[fabric]` and `[site]` are those that `tieline join` wrote, and not of the file.
    pub is_joined: bool,
    /// Whether tables that are not in the file are those of the role that the command line names.
    pub has_role: bool,
}

/// The keys of what differs from the configuration that a node was started with, and is not reloaded. Devices with all that they
/// name, views, derived series, alarms, who is told of them, diagrams, and the files of users and certificates are: they are not among them.
#[must_use]
pub fn restart_needed(started: &Config, file: &Config) -> Vec<&'static str> {
    let Config { node, http, mqtt, access, audit, history, command, control, edge, topics, .. } = started;
    let Config {
        devices: _, views: _, derived: _, alarm: _, notify: _, console: _, source, fabric, site, centre, ..
    } = started;
    // What the command line says instead is not that of the file.
    let (http_listen, mqtt_listen) = source.listen.unwrap_or((http.listen, mqtt.listen));
    let mut found = Vec::new();
    let mut note = |key, is_same: bool| found.extend((!is_same).then_some(key));
    let NodeConfig { name, workers, insecure_network } = node;
    note("node.name", *name == file.node.name);
    note("node.workers", *workers == file.node.workers);
    note("node.insecure_network", *insecure_network == file.node.insecure_network);
    let HttpConfig { listen: _, hosts, forwarded_from, forwarded_header, tls, limits } = http;
    note("http.listen", http_listen == file.http.listen);
    note("http.hosts", *hosts == file.http.hosts);
    note("http.forwarded_from", *forwarded_from == file.http.forwarded_from);
    note("http.forwarded_header", *forwarded_header == file.http.forwarded_header);
    note("http.tls", *tls == file.http.tls);
    note("http (limits)", *limits == file.http.limits);
    note("mqtt.listen", mqtt_listen == file.mqtt.listen);
    let mut others = mqtt.clone();
    others.listen = file.mqtt.listen;
    note("mqtt", others == file.mqtt);
    note("access", *access == file.access);
    note("audit", *audit == file.audit);
    let HistoryConfig {
        enabled,
        record,
        durability,
        journal_bytes_max,
        keep,
        store_bytes_max,
        memory_bytes_max,
        retention: _,
        edits_max,
        edits_per_topic_max,
        databases_bytes_max,
        databases,
    } = history;
    note("history.enabled", *enabled == file.history.enabled);
    note("history.record", *record == file.history.record);
    note("history.durability", *durability == file.history.durability);
    note("history.journal_bytes_max", *journal_bytes_max == file.history.journal_bytes_max);
    note("history.keep", *keep == file.history.keep);
    note("history.store_bytes_max", *store_bytes_max == file.history.store_bytes_max);
    note("history.memory_bytes_max", *memory_bytes_max == file.history.memory_bytes_max);
    note("history.edits_max", *edits_max == file.history.edits_max);
    note("history.edits_per_topic_max", *edits_per_topic_max == file.history.edits_per_topic_max);
    note("history.databases_bytes_max", *databases_bytes_max == file.history.databases_bytes_max);
    note("history.database", *databases == file.history.databases);
    note("command", *command == file.command);
    note("control", *control == file.control);
    match (edge, &file.edge) {
        (Some(started), Some(file)) => note_edge(started, file, &mut note),
        (started, file) => note("edge", file.is_none() && (started.is_none() || source.has_role)),
    }
    // What `tieline join` wrote, and what a role stands for, is in no file of the configuration.
    let is_joined = source.is_joined && file.site.is_none() && (file.fabric.is_none() || centre.is_some());
    let is_of_role = |is_absent| source.has_role && is_absent;
    note("fabric", (is_joined && centre.is_none()) || is_of_role(file.fabric.is_none()) || *fabric == file.fabric);
    note("site", is_joined || *site == file.site);
    note("centre", is_of_role(file.centre.is_none()) || *centre == file.centre);
    note("topic", *topics == file.topics);
    found
}

/// The keys of an edge. What it keeps is reloaded.
fn note_edge(started: &EdgeConfig, file: &EdgeConfig, mut note: impl FnMut(&'static str, bool)) {
    let EdgeConfig { upstreams, node_name: _, linger, retry_max, window, silence } = started;
    note("edge.linger", *linger == file.linger);
    note("edge.retry_max", *retry_max == file.retry_max);
    note("edge.window", *window == file.window);
    note("edge.silence", *silence == file.silence);
    match (upstreams.as_slice(), file.upstreams.as_slice()) {
        ([started], [file]) => note_upstream(started, file, note),
        (started, others) => {
            let without_keep = |all: &[UpstreamConfig]| {
                all.iter().map(|one| UpstreamConfig { keep: Vec::new(), ..one.clone() }).collect::<Vec<_>>()
            };
            note("edge.upstream", without_keep(started) == without_keep(others));
        }
    }
}

fn note_upstream(started: &UpstreamConfig, file: &UpstreamConfig, mut note: impl FnMut(&'static str, bool)) {
    let UpstreamConfig { name, addresses, prefix, topics, keep: _, client_id, user, .. } = started;
    let UpstreamConfig { password_file, authorities, identity, protection, bulk, .. } = started;
    note("edge.upstream", *addresses == file.addresses && *name == file.name);
    note("edge.protection", *protection == file.protection);
    note("edge.bulk", *bulk == file.bulk);
    note("edge.prefix", *prefix == file.prefix);
    note("edge.topics", *topics == file.topics);
    note("edge.client_id", *client_id == file.client_id);
    note("edge.user", *user == file.user);
    note("edge.password_file", *password_file == file.password_file);
    note("edge.authorities", *authorities == file.authorities);
    note("edge.certificate and edge.key", *identity == file.identity);
}

#[cfg(test)]
mod tests {
    use super::super::from_text;
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_not_reloaded_is_named() {
        let read = |text: &str| from_text("t.toml", text, Path::new(".")).unwrap();
        let check = |before: &str, after: &str, expect: &[&str]| {
            assert_eq!(restart_needed(&read(before), &read(after)), expect, "{before} {after}");
        };
        check("", "", &[]);
        check("", "[[history.retention]]\ntopics='a/#'\nkeep='3d'\n", &[]);
        check("", "[[view]]\nname='a'\nfrom='x/+'\nto='y/{1}'\n[network.n]\n", &[]);
        check("", "[node]\nname='b'\nworkers=3\n", &["node.name", "node.workers"]);
        check("[http]\nlisten='127.0.0.1:1'\n", "[mqtt]\nlisten='127.0.0.1:2'\n", &["http.listen", "mqtt.listen"]);
        check(
            "[mqtt]\ntopics_max=9\n",
            "[history]\nenabled=false\nkeep='3d'\n",
            &["mqtt", "history.enabled", "history.keep"],
        );
        check("", "[edge]\nupstream='mqtt://core'\n", &["edge"]);
        let edge = "[edge]\nupstream='mqtt://core'\n";
        check(edge, &format!("{edge}keep=['a/#']\n"), &[]);
        let others = "[edge]\nupstream='mqtt://other'\ntopics=['a/#']\nlinger='3s'\n";
        check(edge, others, &["edge.linger", "edge.upstream", "edge.topics"]);
        check("[command]\ntimeout='3s'\n", "[[topic]]\nfilter='a'\ntype='point'\n", &["command", "topic"]);
    }

    #[test]
    fn addresses_of_the_command_line_are_not_those_of_the_file() {
        let file = from_text("t.toml", "", Path::new(".")).unwrap();
        let mut started = file.clone();
        started.source.listen = Some((file.http.listen, file.mqtt.listen));
        started.http.listen.set_port(0);
        started.mqtt.listen.set_port(0);
        assert_eq!(restart_needed(&started, &file), [""; 0]);
    }

    #[test]
    fn what_a_role_stands_for_is_not_missed_in_the_file() {
        let read = |text: &str| from_text("t.toml", text, Path::new(".")).unwrap();
        let (file, role) = (read(""), read("[edge]\nupstream='mqtt://a'\n"));
        let mut started = file.clone();
        started.take_role(role.clone());
        assert_eq!((&started.edge, restart_needed(&started, &file)), (&role.edge, vec![]));
        let other = read("[edge]\nupstream='mqtt://b'\n");
        assert_eq!(restart_needed(&started, &other), ["edge.upstream"]);
        // What the file has stays.
        let mut own = other.clone();
        own.take_role(role);
        assert_eq!(own.edge, other.edge);
    }

    #[cfg(feature = "fabric")]
    #[test]
    fn what_a_site_joined_is_not_missed_in_the_file() {
        let read = |text: &str| from_text("t.toml", text, Path::new(".")).unwrap();
        let (file, joined) = (read(""), read("[fabric]\nservers=['nats://a:1']\n[site]\nname='a'\n"));
        let mut started = file.clone();
        started.take_joined(joined.clone());
        assert_eq!(restart_needed(&started, &file), [""; 0]);
        assert_eq!(restart_needed(&started, &read("[fabric]\nservers=['nats://b:1']\n[site]\nname='a'\n")), ["fabric"]);
        assert_eq!(restart_needed(&joined, &file), ["fabric", "site"]);
    }
}
