//! The configuration of a node: every value legal, every default stated once.

use super::Checks;
use super::access::{AccessConfig, read_access};
use super::alarms::{AlarmConfig, read_alarm};
use super::audit::{AuditConfig, read_audit};
use super::control::{CoordinationConfig, read_control};
use super::database::{DatabaseConfig, read_databases};
use super::derived::{Beside, read_derived};
use super::device::{DeviceConfig, PointLists, Shared, read_device};
use super::edge::{EdgeConfig, read_edge};
use super::fabric::{CentreConfig, FabricConfig, SiteConfig, check_joined, read_joined};
use super::mqtt::{MqttConfig, proxies, read_mqtt};
use super::notify::read_notify;
use super::parse;
use super::protocol::Protocol;
use super::reader::{Document, Section};
use super::restart::Source;
use super::retention::read_retention;
use super::settings::{
    COMMAND_QUEUE_MAX, COMMAND_TIMEOUT, HISTORY_DATABASES_BYTES_MAX, HISTORY_DURABILITY, HISTORY_EDITS_MAX,
    HISTORY_EDITS_PER_TOPIC_MAX, HISTORY_ENABLED, HISTORY_JOURNAL_BYTES_MAX, HISTORY_KEEP, HISTORY_MEMORY_BYTES_MAX,
    HISTORY_STORE_BYTES_MAX, HTTP_FORWARDED_HEADER, HTTP_LISTEN, NODE_INSECURE_NETWORK, NODE_NAME, NODE_WORKERS,
};
use super::topics::{TopicRule, read_topics};
use super::views::read_views;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tieline_core::{Filter, Topic};
use tieline_derived::Series;
use tieline_drawings::{ConsoleConfig, read_console};
use tieline_history::{Durability, Rule};
use tieline_net::Trusted;
use tieline_net::tls::TlsFiles;
use tieline_senders::Receivers;
use tieline_service::http::places::{self, Limits};
use tieline_service::tls::{self, Peers};
use tieline_views::View;

/// What the words of `history.durability` mean, and the first two of `mqtt.durability`.
pub(super) const DURABILITIES: [Durability; 2] = [Durability::Synced, Durability::Written];

/// All that a node is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[node]`.
    pub node: NodeConfig,
    /// `[http]`.
    pub http: HttpConfig,
    /// `[mqtt]`.
    pub mqtt: MqttConfig,
    /// `[access]`.
    pub access: AccessConfig,
    /// `[audit]`.
    pub audit: AuditConfig,
    /// `[history]`.
    pub history: HistoryConfig,
    /// `[command]`.
    pub command: CommandConfig,
    /// `[control]`.
    pub control: CoordinationConfig,
    /// `[alarm]`; none where the node has no alarms.
    pub alarm: Option<AlarmConfig>,
    /// `[notify]`: who is told of alarms.
    pub notify: Receivers,
    /// `[console]`.
    pub console: ConsoleConfig,
    /// `[edge]`; none where the node has no upstream.
    pub edge: Option<EdgeConfig>,
    /// `[fabric]`; none where the node is joined to no other.
    pub fabric: Option<FabricConfig>,
    /// `[site]`; none where the node sends its history nowhere.
    pub site: Option<SiteConfig>,
    /// `[centre]`; none where the node takes no history of sites.
    pub centre: Option<CentreConfig>,
    /// `[[topic]]`, in the order of the file.
    pub topics: Vec<TopicRule>,
    /// `[[view]]`, in the order of the file.
    pub views: Vec<View>,
    /// `[[derived]]`, in the order of the file.
    pub derived: Vec<Series>,
    /// `[device.NAME]`, in the order of the file.
    pub devices: Vec<DeviceConfig>,
    /// Where it came from.
    pub source: Source,
}

/// Who this node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Its name in the console, in logs and in metrics.
    pub name: String,
    /// Threads that serve field devices; 0 for one a core.
    pub workers: usize,
    /// Whether addresses that other machines can reach may be listened on without authentication.
    pub insecure_network: bool,
}

/// The HTTP server: API, console, metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Host names, besides its address and localhost, under which browsers may reach it.
    pub hosts: Vec<String>,
    /// Proxies that say in a header for whom they ask; that of others is not looked at.
    pub forwarded_from: Trusted,
    /// The header in which they do.
    pub forwarded_header: ForwardedHeader,
    /// `[http.tls]`; none is plain HTTP.
    pub tls: Option<TlsFiles>,
    /// How many connections, and how much they may hold.
    pub limits: Limits,
}

/// The header that a proxy writes. The other one is not looked at: a client may have written it, and the proxy let it through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded`.
    Forwarded,
}

/// What is recorded, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryConfig {
    /// Whether anything is.
    pub enabled: bool,
    /// Which topics.
    pub record: Vec<Filter>,
    /// When a publisher or a device gets its acknowledgement.
    pub durability: Durability,
    /// Bytes of the journal; what the store has not taken by then is refused.
    pub journal_bytes_max: u64,
    /// Age at which samples are removed; none keeps them.
    pub keep: Option<Duration>,
    /// Bytes of the store at which the oldest samples are removed; none lets it grow.
    pub store_bytes_max: Option<u64>,
    /// Bytes of the newest samples in memory; above it they are written as chunks.
    pub memory_bytes_max: usize,
    /// Edits and annotations that are not undone, of all topics.
    pub edits_max: usize,
    /// The same of one topic.
    pub edits_per_topic_max: usize,
    /// Bytes of the journal that are kept for databases alone; above it the oldest are given up.
    pub databases_bytes_max: u64,
    /// How long samples of some topics are kept, and how many of them; the first that matches counts.
    pub retention: Vec<Rule>,
    /// Other people's databases that it is written to.
    pub databases: Vec<DatabaseConfig>,
}

/// Limits of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandConfig {
    /// How long a command may take, unless the request says so.
    pub timeout: Duration,
    /// Commands that may wait for one device.
    pub queue_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node: NodeConfig {
                name: NODE_NAME.default.to_owned(),
                workers: NODE_WORKERS.default_size(),
                insecure_network: NODE_INSECURE_NETWORK.default,
            },
            http: HttpConfig {
                listen: HTTP_LISTEN.default_listen(),
                hosts: Vec::new(),
                forwarded_from: Trusted::default(),
                forwarded_header: ForwardedHeader::default(),
                tls: None,
                limits: Limits::default(),
            },
            mqtt: MqttConfig::default(),
            access: AccessConfig::default(),
            audit: AuditConfig::default(),
            history: HistoryConfig {
                enabled: HISTORY_ENABLED.default,
                record: Filter::new("#").into_iter().collect(),
                durability: HISTORY_DURABILITY.default(DURABILITIES),
                journal_bytes_max: HISTORY_JOURNAL_BYTES_MAX.default,
                keep: Some(HISTORY_KEEP.default),
                store_bytes_max: Some(HISTORY_STORE_BYTES_MAX.default),
                memory_bytes_max: HISTORY_MEMORY_BYTES_MAX.default_size(),
                edits_max: HISTORY_EDITS_MAX.default_size(),
                edits_per_topic_max: HISTORY_EDITS_PER_TOPIC_MAX.default_size(),
                databases_bytes_max: HISTORY_DATABASES_BYTES_MAX.default,
                retention: Vec::new(),
                databases: Vec::new(),
            },
            command: CommandConfig { timeout: COMMAND_TIMEOUT.default, queue_max: COMMAND_QUEUE_MAX.default_size() },
            control: CoordinationConfig::default(),
            alarm: None,
            notify: Receivers { node: NODE_NAME.default.to_owned(), ..Receivers::default() },
            console: ConsoleConfig::default(),
            edge: None,
            fabric: None,
            site: None,
            centre: None,
            topics: Vec::new(),
            views: Vec::new(),
            derived: Vec::new(),
            devices: Vec::new(),
            source: Source::default(),
        }
    }
}

/// Reads the root of a node's configuration. Point lists are found beside `folder`; `checks` look at what words do not show.
pub fn read_config<'a>(doc: &mut Document<'_>, mut root: Section<'a>, folder: &Path, checks: Checks) -> Config {
    let default = Config::default();
    let node = read_node(root.section(doc, "node"), doc);
    let access = read_access(root.section(doc, "access"), doc, folder, checks);
    let reach = Reach { insecure_network: node.insecure_network, authenticated: access.is_configured() };
    let shared = Shared::read(&mut root, doc, folder);
    let derived = root.array(doc, "derived");
    let edge = if root.has("edge") { read_edge(root.section(doc, "edge"), doc, folder, &node.name) } else { None };
    let (fabric, site, centre) = read_joined(&mut root, doc, folder, &node.name);
    let mut config = Config {
        http: read_http(root.section(doc, "http"), doc, default.http, reach, folder),
        mqtt: read_mqtt(root.section(doc, "mqtt"), doc, default.mqtt, reach, folder),
        access,
        audit: read_audit(root.section(doc, "audit"), doc),
        notify: read_notify(root.section(doc, "notify"), doc, folder, &node.name),
        node,
        history: read_history(root.section(doc, "history"), doc, default.history, folder),
        command: read_command(root.section(doc, "command"), doc),
        control: read_control(root.section(doc, "control"), doc),
        alarm: read_alarm(&mut root, doc, folder, centre.as_ref()),
        console: read_console(root.section(doc, "console"), doc, folder),
        edge,
        fabric,
        site,
        centre,
        topics: read_topics(root.array(doc, "topic"), doc),
        views: read_views(root.array(doc, "view"), doc, checks),
        derived: Vec::new(),
        source: Source::default(),
        devices: read_devices(root.section(doc, "device"), doc, folder, &shared),
    };
    let beside = Beside { history: &config.history, views: &config.views, devices: &config.devices };
    check_joined(&root, doc, &config);
    config.derived = read_derived(derived, doc, beside, checks);
    root.finish(doc);
    config
}

/// What makes it safe that other machines reach an address.
#[derive(Clone, Copy)]
pub(super) struct Reach {
    insecure_network: bool,
    authenticated: bool,
}

impl Reach {
    /// The same over TLS: it is enough that the node knows who comes, by certificate or otherwise.
    pub(super) const fn over_tls(self, knows_certificates: bool) -> Self {
        let insecure_network = self.insecure_network || self.authenticated || knows_certificates;
        Self { insecure_network, ..self }
    }
}

/// An address that the network can reach is refused, unless the operator has said that it is meant.
pub(super) fn check_reach(doc: &mut Document<'_>, section: &Section<'_>, listen: SocketAddr, reach: Reach) {
    if !listen.ip().is_loopback() && !reach.insecure_network {
        let without = if reach.authenticated { "TLS" } else { "authentication" };
        let found = format!("{listen}, which other machines can reach without {without}");
        let expected =
            "an address of this machine alone, as in \"127.0.0.1\", or node.insecure_network = true".to_owned();
        doc.report(section.value_at("listen"), &section.key("listen"), found, expected);
    }
}

fn read_node(mut s: Section<'_>, doc: &mut Document<'_>) -> NodeConfig {
    let config = NodeConfig {
        name: s.or(doc, NODE_NAME.key, NODE_NAME.default.to_owned(), parse::text),
        workers: NODE_WORKERS.read_size(&mut s, doc),
        insecure_network: NODE_INSECURE_NETWORK.read(&mut s, doc),
    };
    s.finish(doc);
    config
}

fn read_http(
    mut s: Section<'_>,
    doc: &mut Document<'_>,
    default: HttpConfig,
    reach: Reach,
    folder: &Path,
) -> HttpConfig {
    let tls = s.has("tls").then(|| {
        let (at, mut inner) = (s.value_at("tls"), s.section(doc, "tls"));
        let files = tls::read_files(&mut inner, doc, folder, Peers::AnyClient, at);
        inner.finish(doc);
        files
    });
    let config = HttpConfig {
        listen: HTTP_LISTEN.read_listen(&mut s, doc),
        hosts: s.or(doc, "hosts", default.hosts, parse::texts),
        forwarded_from: proxies(&mut s, doc, "forwarded_from"),
        forwarded_header: HTTP_FORWARDED_HEADER.read(
            &mut s,
            doc,
            [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded],
        ),
        tls: tls.flatten(),
        limits: places::read_limits(&mut s, doc),
    };
    // With TLS and users nothing goes in the clear and nobody comes in unknown.
    let insecure_network = reach.insecure_network || (s.has("tls") && reach.authenticated);
    check_reach(doc, &s, config.listen, Reach { insecure_network, ..reach });
    s.finish(doc);
    config
}

fn read_history(mut s: Section<'_>, doc: &mut Document<'_>, default: HistoryConfig, folder: &Path) -> HistoryConfig {
    let keep = Some(HISTORY_KEEP.read(&mut s, doc));
    let config = HistoryConfig {
        enabled: HISTORY_ENABLED.read(&mut s, doc),
        record: s.or(doc, "record", default.record, parse::filters),
        durability: HISTORY_DURABILITY.read(&mut s, doc, DURABILITIES),
        journal_bytes_max: HISTORY_JOURNAL_BYTES_MAX.read(&mut s, doc),
        keep,
        store_bytes_max: Some(HISTORY_STORE_BYTES_MAX.read(&mut s, doc)),
        memory_bytes_max: HISTORY_MEMORY_BYTES_MAX.read_size(&mut s, doc),
        edits_max: HISTORY_EDITS_MAX.read_size(&mut s, doc),
        edits_per_topic_max: HISTORY_EDITS_PER_TOPIC_MAX.read_size(&mut s, doc),
        databases_bytes_max: HISTORY_DATABASES_BYTES_MAX.read(&mut s, doc),
        retention: read_retention(s.array(doc, "retention"), doc, keep),
        databases: read_databases(s.section(doc, "database"), doc, folder),
    };
    s.finish(doc);
    config
}

fn read_command(mut s: Section<'_>, doc: &mut Document<'_>) -> CommandConfig {
    let config = CommandConfig {
        timeout: COMMAND_TIMEOUT.read(&mut s, doc),
        queue_max: COMMAND_QUEUE_MAX.read_size(&mut s, doc),
    };
    s.finish(doc);
    config
}

fn read_devices<'a>(
    mut all: Section<'a>,
    doc: &mut Document<'_>,
    folder: &Path,
    shared: &Shared<'a>,
) -> Vec<DeviceConfig> {
    let mut lists = PointLists::new(folder);
    let mut topics: HashMap<Topic, DeviceConfig> = HashMap::new();
    let (mut devices, mut places) = (Vec::<DeviceConfig>::new(), Vec::new());
    let mut groups: HashMap<String, Vec<usize>> = HashMap::new();
    for (name, section) in all.sections(doc) {
        let place = (section.value_at("topic"), section.key("topic"));
        let Some(device) = read_device(doc, &name, section, &mut lists, shared) else { continue };
        if let Some(other) = topics.insert(device.topic.clone(), device.clone()) {
            let found = format!("{:?}, which device.{} has", device.topic, other.name);
            doc.report(place.0, &place.1, found, "a topic of its own".to_owned());
        }
        let group = group_of(&device).map(|group| groups.entry(group).or_default());
        let mut together = group.iter().flat_map(|group| group.iter()).filter_map(|at| devices.get(*at));
        if let Some((other, clash)) = together.find_map(|other| Some((other, clash(&device, other)?))) {
            let found = format!("{} that device.{} has {}", clash.found, other.name, clash.together);
            doc.report(place.0, &place.1.replace("topic", clash.key), found, clash.expected.to_owned());
        }
        // All devices of a port are to be as the first.
        if let Some(group) = group.filter(|group| device.channel.is_some() || group.is_empty()) {
            group.push(devices.len());
        }
        devices.push(device);
        places.push(place);
    }
    for (device, (at, key)) in devices.iter().zip(&places) {
        if let Some((outer, point)) = point_of_both(device, &topics) {
            let found = format!("{:?}, so that {point:?} would be a point of device.{outer} too", device.topic);
            doc.report(*at, key, found, "topics of its own".to_owned());
        }
    }
    devices
}

/// What a device may clash with others about: its channel, or the local port of its socket.
fn group_of(device: &DeviceConfig) -> Option<String> {
    if let Some(channel) = &device.channel {
        return Some(format!("channel {}", channel.name));
    }
    let hub = device.protocol.bacnet().and_then(|bacnet| bacnet.socket.hub.as_ref());
    let hub = hub.map(|hub| format!("hub {}", hub.network));
    hub.or_else(|| device.local_port().map(|local| local.to_string()))
}

/// What two devices on one connection must not have, or must not have differently.
struct Clash {
    key: &'static str,
    /// What both share.
    together: &'static str,
    found: String,
    expected: &'static str,
}

/// Whether two devices share a connection and cannot be told apart on it, or use it in different ways.
fn clash(one: &DeviceConfig, other: &DeviceConfig) -> Option<Clash> {
    if let (Protocol::Bacnet(a), Protocol::Bacnet(b)) = (&one.protocol, &other.protocol) {
        if a.socket.hub.is_some() && a.socket.hub == b.socket.hub {
            return (a.socket != b.socket).then(|| Clash {
                key: "bacnet",
                together: "of the same network",
                found: "another apdu_timeout or retries than those".to_owned(),
                expected: "the same for all devices of a hub",
            });
        }
        let is_one_port = a.socket.local == b.socket.local && a.socket.local.port() != 0;
        if is_one_port && one.network != other.network {
            let together = "with the same local port";
            let (found, expected) =
                ("another network than the one".to_owned(), "one network for all devices of a port");
            return Some(Clash { key: "network", together, found, expected });
        }
        return (is_one_port && a.socket != b.socket).then(|| Clash {
            key: "bacnet",
            together: "with the same local port",
            found: "another apdu_timeout, retries, bbmd or foreign_lifetime than those".to_owned(),
            expected: "the same for all devices of a port",
        });
    }
    one.channel.as_ref().filter(|channel| other.channel.as_ref() == Some(*channel))?;
    let together = "on the same channel";
    if one.network != other.network {
        let (found, expected) = ("another network than the one".to_owned(), "one network for all devices of a channel");
        return Some(Clash { key: "network", together, found, expected });
    }
    if one.protocol.name() != other.protocol.name() {
        return Some(Clash {
            key: "protocol",
            together,
            found: "another protocol than the one".to_owned(),
            expected: "one protocol for all devices of a channel",
        });
    }
    match (&one.protocol, &other.protocol) {
        (Protocol::Dnp3(a), Protocol::Dnp3(b)) => {
            ((a.master, a.outstation) == (b.master, b.outstation)).then(|| Clash {
                key: "dnp3.outstation",
                together,
                found: "the link addresses".to_owned(),
                expected: "addresses of its own",
            })
        }
        (Protocol::Modbus(a), Protocol::Modbus(b)) if a.unit == b.unit => Some(Clash {
            key: "modbus.unit",
            together,
            found: format!("unit {}", a.unit),
            expected: "a unit of its own",
        }),
        (Protocol::Modbus(a), Protocol::Modbus(b)) => (a.line != b.line).then(|| Clash {
            key: "modbus",
            together,
            found: "another framing, in_flight, timeout, retries or pause than those".to_owned(),
            expected: "the same for all devices of a channel",
        }),
        (
            Protocol::Dnp3(_)
            | Protocol::Modbus(_)
            | Protocol::Bacnet(_)
            | Protocol::Iec104(_)
            | Protocol::Goose(_)
            | Protocol::Simulated(_),
            _,
        ) => None,
    }
}

/// A point of a device that an outer device, whose topic is a branch above, has under the same topic.
fn point_of_both(device: &DeviceConfig, topics: &HashMap<Topic, DeviceConfig>) -> Option<(String, String)> {
    let mut names = None;
    for (slash, _) in device.topic.match_indices('/') {
        let (branch, rest) = device.topic.split_at(slash);
        let Some(outer) = topics.get(branch) else { continue };
        let names: &HashSet<&str> =
            names.get_or_insert_with(|| device.points.iter().map(|point| &*point.name).chain(["all"]).collect());
        let below = |name: &str| -> Option<String> {
            let inner = name.strip_prefix(rest.strip_prefix('/')?)?.strip_prefix('/')?;
            names.contains(inner).then(|| format!("{}/{inner}", device.topic))
        };
        if let Some(point) = outer.points.iter().find_map(|point| below(&point.name)) {
            return Some((outer.name.clone(), point));
        }
    }
    None
}
