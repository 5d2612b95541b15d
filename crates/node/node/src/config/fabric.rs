//! `[fabric]`, `[site]`, `[centre]`, `[cluster]`: sites whose history goes to a centre, and nodes of which one leads, over servers of NATS.

use super::Config;
use super::database::DatabaseServer;
use super::parse;
use super::reader::{Document, Expected, Section};
use super::settings::{
    CENTRE_EVENTS_BYTES_MAX, CENTRE_EVENTS_KEEP, CENTRE_REQUESTS_MAX, CENTRE_SILENCE, CENTRE_SITE_BYTES_MAX,
    CENTRE_SITES_MAX, CLUSTER_SILENCE, CLUSTER_STREAM_BYTES_MAX, FABRIC_CLOCK_OFFSET_MAX, SITE_EVENTS_BYTES_MAX,
    SITE_WAITING_BYTES_MAX,
};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline_core::{Filter, Topic, Words};
use toml::de::DeValue;

/// Whether this binary has the client of the servers.
pub const HAS_FABRIC: bool = cfg!(feature = "fabric");
/// Servers of one fabric.
const SERVERS_MAX: usize = 8;
/// Bytes of the name of a site.
const SITE_BYTES_MAX: usize = 128;

/// How the servers are reached that join sites to a centre.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricConfig {
    /// Addresses, `nats://HOST:PORT` or `tls://HOST:PORT`: one of them is used.
    pub servers: Vec<String>,
    /// As whom the node comes. Files are read for each attempt to connect.
    pub access: FabricAccess,
    /// Whether the servers are reached over TLS.
    pub is_tls: bool,
    /// The file of the authorities that are trusted; none: those of the machine.
    pub authorities: Option<PathBuf>,
    /// The files of the node's certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The clock of a site may differ from that of the centre by so much.
    pub clock_offset_max: Duration,
    /// `[cluster]`; none where the node has no standbys.
    pub cluster: Option<ClusterConfig>,
}

/// Nodes of which one leads, and the others take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The name of all of them together: their log and their lease are found by it.
    pub name: String,
    /// Where clients reach this node by MQTT, as it is told to those of other members; none: where MQTT listens, unless that is any address.
    pub reference: Option<String>,
    /// Bytes of the log.
    pub stream_bytes_max: u64,
    /// How long a standby waits for a sign of the leader.
    pub silence: Duration,
}

/// As whom a node comes to the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricAccess {
    /// Nobody, or whom its certificate names.
    Open,
    /// The file of a JWT with the seed of its key.
    Credentials(PathBuf),
    /// The file of the seed of an nkey.
    Seed(PathBuf),
    /// A user, and the file of its password.
    Password(String, PathBuf),
}

impl Config {
    /// Takes `[fabric]` and `[site]` of the file that `tieline join` wrote.
    pub fn take_joined(&mut self, joined: Self) {
        self.source.is_joined = true;
        if self.centre.is_some() {
            // The servers of the file are those of the higher centre.
            self.site = joined.site.map(|site| SiteConfig { fabric: joined.fabric, ..site });
        } else {
            (self.fabric, self.site) = (joined.fabric, joined.site);
        }
    }

    /// Takes the tables that a role stands for, where they are not there.
    pub fn take_role(&mut self, role: Self) {
        self.edge = self.edge.take().or(role.edge);
        self.fabric = self.fabric.take().or(role.fabric);
        self.centre = self.centre.take().or(role.centre);
        self.source.has_role = true;
    }
}

/// A node that sends its history to a centre.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteConfig {
    /// Its name at the centre: a level of topics.
    pub name: String,
    /// What goes up; empty: all that is recorded.
    pub topics: Vec<Filter>,
    /// Bytes of the journal that are kept for the centre while it is away.
    pub waiting_bytes_max: u64,
    /// What the centre may do here.
    pub commands: SiteCommands,
    /// Topics that it may do that with; empty: all.
    pub command_topics: Vec<Filter>,
    /// Messages of these topics may be read at the centre and at its other sites as they are published; empty: none.
    pub share: Vec<Filter>,
    /// Bytes of messages that wait for the centre.
    pub events_bytes_max: usize,
    /// How the servers of the centre are reached, where they are not those of [`FabricConfig`] of the node: it is a centre itself.
    pub fabric: Option<FabricConfig>,
}

/// What a centre may do at a site, each with what is before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SiteCommands {
    /// Nothing.
    #[default]
    None,
    /// Ask for last values.
    Read,
    /// Command, set and revert points, and reserve devices.
    Operate,
    /// Reserve with priority over others, and end their reservations.
    Administer,
}

impl Words for SiteCommands {
    const WORDS: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("read", Self::Read), ("operate", Self::Operate), ("administer", Self::Administer)];
}

/// A node that takes the history of sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CentreConfig {
    /// The topics of a site are below it, and the site's name; it ends with `/`.
    pub prefix: String,
    /// Sites.
    pub sites_max: usize,
    /// Bytes of records of one site that wait for the disk.
    pub site_bytes_max: usize,
    /// Requests of all sites that wait.
    pub requests_max: usize,
    /// A site that says nothing for so long is away.
    pub silence: Duration,
    /// Bytes of messages of other sites that wait for one site.
    pub events_bytes_max: usize,
    /// How long messages wait for a site that is away.
    pub events_keep: Duration,
    /// Addresses of the servers that sites are told when they join; none: those of [`FabricConfig`].
    pub join_servers: Option<Vec<String>>,
    /// The file of the authorities that sites are given; none: that of [`FabricConfig`], if there is one.
    pub join_authorities: Option<PathBuf>,
}

const SITE_ALONE: &str = "what a site has sent is known by places in the journal of one member";
const EDGE_ALONE: &str = "an edge keeps nothing that a standby could take over; run two edges";
const SERVERS: &str = "addresses of servers, as in [\"tls://core.example:4222\"] or [\"nats://10.1.0.5:4222\"]";
const NAME: &str = "a name of 1 to 128 bytes without / + # and control characters, that does not begin with $";

/// Reads `[fabric]`, `[site]` and `[centre]`. Files are found beside `folder`; `name` is the node's.
pub(super) fn read_joined(
    root: &mut Section<'_>,
    doc: &mut Document<'_>,
    folder: &Path,
    name: &str,
) -> (Option<FabricConfig>, Option<SiteConfig>, Option<CentreConfig>) {
    let has = |name| root.has(name);
    let (has_fabric, has_site, has_centre) = (has("fabric"), has("site"), has("centre"));
    let has_cluster = has("cluster");
    for (is_there, key) in [(has_site, "site"), (has_centre, "centre"), (has_cluster, "cluster")] {
        if is_there && !has_fabric {
            let expected = "[fabric] with the servers besides".to_owned();
            doc.report(root.value_at(key), key, format!("[{key}] alone"), expected);
        }
    }
    for (other, why) in [("site", SITE_ALONE), ("edge", EDGE_ALONE)] {
        if has_cluster && has(other) {
            let found = format!("[cluster] and [{other}] in one node");
            doc.report(root.value_at("cluster"), "cluster", found, format!("one of them: {why}"));
        }
    }
    if has_fabric && !HAS_FABRIC {
        let found = "[fabric], which this binary was built without".to_owned();
        doc.report(root.value_at("fabric"), "fabric", found, "a binary with the feature fabric".to_owned());
    }
    let mut fabric = if has_fabric { read_fabric(root.section(doc, "fabric"), doc, folder) } else { None };
    let cluster = if has_cluster { read_cluster(root.section(doc, "cluster"), doc) } else { None };
    fabric.iter_mut().for_each(|fabric| fabric.cluster.clone_from(&cluster));
    let site = if has_site { read_site(root.section(doc, "site"), doc, folder, name) } else { None };
    let centre = if has_centre { Some(read_centre(root.section(doc, "centre"), doc, folder)) } else { None };
    // Two centres at the same servers would each get what is for the other one.
    let is_same = |fabric: &FabricConfig, above: &FabricConfig| {
        above.servers.iter().any(|server| fabric.servers.contains(server)) && above.access == fabric.access
    };
    let is_same = site.as_ref().is_some_and(|site| match (&site.fabric, &fabric) {
        (None, _) => true,
        (Some(above), Some(fabric)) => is_same(fabric, above),
        (Some(_), None) => false,
    });
    if !has_centre && site.as_ref().is_some_and(|site| site.fabric.is_some()) {
        let found = "[site.fabric] in a node that is no centre".to_owned();
        doc.report(root.value_at("site"), "site.fabric", found, "[fabric] with these keys".to_owned());
    }
    if has_centre && site.as_ref().is_some_and(|site| !site.share.is_empty()) {
        let found = "site.share in a node that is a centre".to_owned();
        let expected = "no site.share: messages of sites go through one centre, and no further".to_owned();
        doc.report(root.value_at("site"), "site.share", found, expected);
    }
    if has_centre && is_same {
        let found = "[site] and [centre] in one node, at the same servers as the same user".to_owned();
        let expected = "[site.fabric] with the servers of the higher centre".to_owned();
        doc.report(root.value_at("centre"), "centre", found, expected);
    }
    (fabric, site, centre)
}

fn read_fabric(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<FabricConfig> {
    let servers = s.required(doc, "servers", SERVERS, read_servers);
    let file = |doc: &mut Document<'_>, s: &mut Section<'_>, key: &'static str| {
        s.optional(doc, key, parse::text).map(|file| folder.join(file))
    };
    let credentials = file(doc, &mut s, "credentials_file");
    let seed = file(doc, &mut s, "seed_file");
    let password = file(doc, &mut s, "password_file");
    let authorities = file(doc, &mut s, "authorities");
    let certificate = file(doc, &mut s, "certificate");
    let key = file(doc, &mut s, "key");
    let user = s.optional(doc, "user", parse::text);
    for (one, other) in
        [("certificate", "key"), ("key", "certificate"), ("user", "password_file"), ("password_file", "user")]
    {
        if s.has(one) && !s.has(other) {
            doc.report(s.value_at(one), &s.key(one), format!("{one} alone"), format!("{other} beside it"));
        }
    }
    let ways: Vec<_> = ["credentials_file", "seed_file", "user"].into_iter().filter(|key| s.has(key)).collect();
    if let [first, second, ..] = ways.as_slice() {
        let expected = "one of credentials_file, seed_file, and user with password_file".to_owned();
        doc.report(s.value_at(second), &s.key(second), format!("{second} beside {first}"), expected);
    }
    let is_tls = servers.as_ref().is_some_and(|servers| servers.iter().all(|server| server.starts_with(TLS)));
    let is_plain = servers.is_some() && !is_tls;
    for name in ["authorities", "certificate", "key"] {
        if is_plain && s.has(name) {
            let found = "a file of TLS, and servers that are not all reached over TLS".to_owned();
            doc.report(s.value_at(name), &s.key(name), found, "servers with tls://".to_owned());
        }
    }
    let clock_offset_max = FABRIC_CLOCK_OFFSET_MAX.read(&mut s, doc);
    s.finish(doc);
    let access = match (credentials, seed, user.zip(password)) {
        (Some(file), _, _) => FabricAccess::Credentials(file),
        (None, Some(file), _) => FabricAccess::Seed(file),
        (None, None, Some((user, file))) => FabricAccess::Password(user, file),
        (None, None, None) => FabricAccess::Open,
    };
    let identity = certificate.zip(key);
    Some(FabricConfig { servers: servers?, access, is_tls, authorities, identity, clock_offset_max, cluster: None })
}

/// What tables of this file need of others.
pub(super) fn check_joined(root: &Section<'_>, doc: &mut Document<'_>, config: &Config) {
    let is_joined = [("site", config.site.is_some()), ("centre", config.centre.is_some())];
    if let Some((key, _)) = is_joined.into_iter().find(|(_, is)| *is).filter(|_| !config.history.enabled) {
        let found = format!("history.enabled = false and [{key}]");
        doc.report(root.value_at(key), key, found, "history.enabled = true: what is recorded goes up".to_owned());
    }
    let has_cluster = config.fabric.as_ref().is_some_and(|fabric| fabric.cluster.is_some());
    let is_known =
        |server: &DatabaseServer| matches!(server, DatabaseServer::Postgres { .. } | DatabaseServer::Mariadb { .. });
    if let Some(database) = config.history.databases.iter().find(|database| has_cluster && !is_known(&database.server))
    {
        let found = format!("[cluster] and history.database.{} of the kind {}", database.name, database.server.kind());
        let expected =
            "postgresql, mariadb or mysql: others do not keep the position in the same transaction as the samples"
                .to_owned();
        doc.report(root.value_at("cluster"), "cluster", found, expected);
    }
    if has_cluster && config.mqtt.durability.is_none() {
        let expected =
            "mqtt.durability = \"synced\" or \"written\": what standbys take over is what is kept".to_owned();
        doc.report(
            root.value_at("cluster"),
            "cluster",
            "[cluster] and mqtt.durability = \"memory\"".to_owned(),
            expected,
        );
    }
}

fn read_cluster(mut s: Section<'_>, doc: &mut Document<'_>) -> Option<ClusterConfig> {
    let name = s.required(doc, "name", CLUSTER_NAME, read_cluster_name);
    let reference = s.optional(doc, "reference", read_reference);
    let (stream_bytes_max, silence) = (CLUSTER_STREAM_BYTES_MAX.read(&mut s, doc), CLUSTER_SILENCE.read(&mut s, doc));
    s.finish(doc);
    Some(ClusterConfig { name: name?, reference, stream_bytes_max, silence })
}

const CLUSTER_NAME: &str = "a name of 1 to 32 letters, digits, - and _, the same in all members, as in \"core\"";
const REFERENCE: &str = "HOST:PORT, where clients reach the MQTT listener of this node, as in \"core-a.example:1883\"";

fn read_cluster_name(value: &DeValue<'_>) -> Result<String, Expected> {
    let name = parse::text(value)?;
    let is_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_name = (1..=32).contains(&name.len()) && name.chars().all(is_char);
    if is_name { Ok(name) } else { Err(CLUSTER_NAME.to_owned()) }
}

fn read_reference(value: &DeValue<'_>) -> Result<String, Expected> {
    let reference = parse::text(value)?;
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '[' | ']');
    let port = reference.rsplit_once(':').map(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    let is_reference = port == Some(true) && reference.len() <= 255 && reference.chars().all(is_host);
    if is_reference { Ok(reference) } else { Err(REFERENCE.to_owned()) }
}

fn read_site(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path, node: &str) -> Option<SiteConfig> {
    let name = match s.has("name") {
        true => s.optional(doc, "name", read_name),
        false if is_site_name(node) => Some(node.to_owned()),
        false => {
            let expected = format!("site.name, {NAME}");
            doc.report(s.at(), "site", format!("the name of the node, {node:?}, for the site"), expected);
            None
        }
    };
    let topics = s.or(doc, "topics", Vec::new(), parse::filters);
    let waiting_bytes_max = SITE_WAITING_BYTES_MAX.read(&mut s, doc);
    let commands = s.or(doc, "commands", SiteCommands::default(), read_commands);
    let command_topics = s.or(doc, "command_topics", Vec::new(), parse::filters);
    let share = s.or(doc, "share", Vec::new(), read_share);
    let events_bytes_max = SITE_EVENTS_BYTES_MAX.read_size(&mut s, doc);
    let has_own = s.has("fabric");
    let fabric = if has_own { read_fabric(s.section(doc, "fabric"), doc, folder) } else { None };
    s.finish(doc);
    if has_own && fabric.is_none() {
        return None;
    }
    let name = name?;
    Some(SiteConfig { name, topics, waiting_bytes_max, commands, command_topics, share, events_bytes_max, fabric })
}

fn read_centre(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> CentreConfig {
    let join_servers = s.optional(doc, "join_servers", read_servers);
    let join_authorities = s.optional(doc, "join_authorities", parse::text).map(|file| folder.join(file));
    let prefix = s.or(doc, "prefix", "sites/".to_owned(), read_prefix);
    let centre = CentreConfig {
        prefix,
        sites_max: CENTRE_SITES_MAX.read_size(&mut s, doc),
        site_bytes_max: CENTRE_SITE_BYTES_MAX.read_size(&mut s, doc),
        requests_max: CENTRE_REQUESTS_MAX.read_size(&mut s, doc),
        silence: CENTRE_SILENCE.read(&mut s, doc),
        events_bytes_max: CENTRE_EVENTS_BYTES_MAX.read_size(&mut s, doc),
        events_keep: CENTRE_EVENTS_KEEP.read(&mut s, doc),
        join_servers,
        join_authorities,
    };
    s.finish(doc);
    centre
}

/// Whether a name can be that of a site: it is a level of topics.
#[must_use]
pub fn is_site_name(name: &str) -> bool {
    let is_char = |c: char| !matches!(c, '/' | '+' | '#') && !c.is_control();
    (1..=SITE_BYTES_MAX).contains(&name.len()) && !name.starts_with('$') && name.chars().all(is_char)
}

fn read_name(value: &DeValue<'_>) -> Result<String, Expected> {
    let name = parse::text(value)?;
    if is_site_name(&name) { Ok(name) } else { Err(NAME.to_owned()) }
}

/// What begins with `$` stays at its node: so what other sites have shared goes nowhere.
fn read_share(value: &DeValue<'_>) -> Result<Vec<Filter>, Expected> {
    let filters = parse::filters(value)?;
    let is_own = filters.iter().all(|filter| !filter.starts_with('$'));
    if is_own {
        Ok(filters)
    } else {
        Err("filters of topics that do not begin with $, as in [\"alarms/#\"]".to_owned())
    }
}

fn read_commands(value: &DeValue<'_>) -> Result<SiteCommands, Expected> {
    SiteCommands::of_word(&parse::text(value)?)
        .ok_or_else(|| "\"none\", \"read\", \"operate\" or \"administer\"".to_owned())
}

fn read_prefix(value: &DeValue<'_>) -> Result<String, Expected> {
    let prefix = parse::text(value)?;
    let above = prefix.strip_suffix('/').and_then(|above| Topic::new(above).ok());
    let is_prefix = above.is_some_and(|above| !above.starts_with('$') && above.levels().all(|level| !level.is_empty()));
    if is_prefix { Ok(prefix) } else { Err("a branch of topics that ends with /, as in \"sites/\"".to_owned()) }
}

const TLS: &str = "tls://";

fn read_servers(value: &DeValue<'_>) -> Result<Vec<String>, Expected> {
    let servers = parse::texts(value).map_err(|_| SERVERS.to_owned())?;
    let is_server = |server: &String| {
        let host = server.strip_prefix(TLS).or_else(|| server.strip_prefix("nats://"));
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '[' | ']');
        host.is_some_and(|host| !host.is_empty() && host.chars().all(is_host))
    };
    let is_whole = (1..=SERVERS_MAX).contains(&servers.len()) && servers.iter().all(is_server);
    if is_whole { Ok(servers) } else { Err(SERVERS.to_owned()) }
}

#[cfg(all(test, feature = "fabric"))]
mod tests {
    use super::super::{Config, from_text};
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let text = format!("[node]\nname='north'\n{text}");
        let read = from_text("t.toml", &text, Path::new("/etc/t"));
        read.map_err(|error| error.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn a_node_is_a_site_or_a_centre_with_these_tables_alone() {
        let config = read("").unwrap();
        assert_eq!((config.fabric, config.site, config.centre), (None, None, None));
        let config = read("[fabric]\nservers=['nats://core:4222']\n[site]\n").unwrap();
        let fabric = config.fabric.unwrap();
        assert_eq!(
            (fabric.servers, fabric.access, fabric.is_tls),
            (vec!["nats://core:4222".to_owned()], FabricAccess::Open, false)
        );
        let site = config.site.unwrap();
        assert_eq!((site.name.as_str(), site.topics.len(), site.waiting_bytes_max), ("north", 0, 8 << 30));
        assert_eq!((site.commands, site.command_topics.len()), (SiteCommands::None, 0));
        // Nothing is shared that was not said.
        assert_eq!((site.share.len(), site.events_bytes_max), (0, 4 << 20));
        let text =
            "[fabric]\nservers=['tls://a:1','tls://b']\ncredentials_file='n.creds'\nauthorities='ca.pem'\n[centre]\n";
        let config = read(text).unwrap();
        let fabric = config.fabric.unwrap();
        assert_eq!(fabric.access, FabricAccess::Credentials("/etc/t/n.creds".into()));
        assert!(fabric.is_tls && fabric.authorities.is_some());
        assert_eq!(config.centre.unwrap().prefix, "sites/");
    }

    #[test]
    fn a_centre_is_a_site_of_another_one_at_other_servers() {
        let text = "[fabric]\nservers=['nats://a:1']\n[centre]\n[site]\n[site.fabric]\nservers=['nats://b:2']\n";
        let config = read(text).unwrap();
        let servers = |fabric: Option<FabricConfig>| fabric.unwrap().servers;
        assert_eq!(servers(config.fabric), ["nats://a:1"]);
        assert_eq!(servers(config.site.unwrap().fabric), ["nats://b:2"]);
        assert!(config.centre.is_some());
    }

    #[test]
    fn what_is_wrong_is_said() {
        const SERVER: &str = "[fabric]\nservers=['nats://core:4222']\n";
        let check = |text: &str, part: &str| {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        };
        check("[site]\n", "[fabric] with the servers besides");
        check("[centre]\n", "[fabric] with the servers besides");
        check("[fabric]\n", "fabric.servers");
        for servers in ["'nats://a'", "[]", "['http://a']", "['nats://']", "['nats://u@a']"] {
            check(&format!("[fabric]\nservers={servers}\n"), "tls://core.example:4222");
        }
        check(&format!("{SERVER}user='u'\n"), "password_file beside it");
        check(&format!("{SERVER}seed_file='s'\ncredentials_file='c'\n"), "one of credentials_file");
        check(&format!("{SERVER}authorities='ca.pem'\n"), "servers with tls://");
        check(&format!("{SERVER}[site]\n[centre]\n"), "[site.fabric]");
        check(&format!("{SERVER}[centre]\n[site]\n[site.fabric]\nservers=['nats://core:4222']\n"), "higher centre");
        check(&format!("{SERVER}[site]\n[site.fabric]\nservers=['nats://b:2']\n"), "[fabric] with these keys");
        check(&format!("{SERVER}[site]\n[site.fabric]\n[centre]\n"), "site.fabric.servers");
        check(&format!("{SERVER}[site]\nname='a/b'\n"), "site.name");
        check(&format!("{SERVER}[site]\ncommands='all'\n"), "\"operate\"");
        check(&format!("{SERVER}[site]\nshare=['a/#','$sites/#']\n"), "do not begin with $");
        let above = "[site.fabric]\nservers=['nats://b:2']\n";
        check(&format!("{SERVER}[centre]\n[site]\nshare=['a']\n{above}"), "through one centre");
        check(&format!("{SERVER}[centre]\nevents_keep='1s'\n"), "centre.events_keep");
        check(&format!("{SERVER}[centre]\nprefix='sites'\n"), "ends with /");
        check(&format!("{SERVER}[centre]\nprefix='$sites/'\n"), "ends with /");
        check(&format!("{SERVER}[site]\n[history]\nenabled=false\n"), "history.enabled");
        check("[cluster]\nname='core'\n", "[fabric] with the servers besides");
        check(&format!("{SERVER}[cluster]\n"), "cluster.name");
        check(&format!("{SERVER}[cluster]\nname='a.b'\n"), "cluster.name");
        check(&format!("{SERVER}[cluster]\nname='a'\nreference='host'\n"), "cluster.reference");
        check(&format!("{SERVER}[cluster]\nname='a'\n[site]\n"), "one of them: what a site has sent");
        check(&format!("{SERVER}[cluster]\nname='a'\n[edge]\nupstream='h:1'\n"), "one of them: an edge");
        let config = read(&format!("{SERVER}[cluster]\nname='a'\n[centre]\n")).unwrap();
        assert!(config.centre.is_some() && config.fabric.is_some_and(|fabric| fabric.cluster.is_some()));
        check(&format!("{SERVER}[cluster]\nname='a'\n[mqtt]\ndurability='memory'\n"), "mqtt.durability");
    }
}
