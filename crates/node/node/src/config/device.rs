//! `[device.NAME]`: one table a device.

use super::bacnet::{BacnetPlace, read_address, read_bacnet};
use super::collection::{
    CollectionConfig, HeartbeatConfig, NetworkConfig, Networks, Rates, rarely, read_heartbeat, read_network,
    read_networks, read_polls,
};
use super::dnp3::{read_dnp3_device, read_polls as read_dnp3_polls};
use super::goose::{GooseConfig, read_goose, with_role};
use super::hub::check_network;
use super::iec104::{read_iec104, read_polls as read_iec104_polls, with_mode};
use super::modbus::read_modbus;
use super::names::{NamePatterns, Pattern};
use super::parse;
use super::points::{PointConfig, TAGS, parse_tag, read_named_points};
use super::protocol::{Protocol, ProtocolName};
use super::reader::{Document, Section, Template};
use super::settings::{DEVICE_ALL_EVERY, DEVICE_PRIORITY, DEVICE_STALE_AFTER};
use super::simulated::read_simulated;
use super::trace::TraceConfig;
use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{DeviceId, Topic};
use tieline_transport::{Over, Transport, read_transport};

/// One device: where it is, what it has, how it is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceConfig {
    /// The key of its table.
    pub name: String,
    /// Its topic; its points lie below it.
    pub topic: Topic,
    /// How it is reached; none of a device that is not outside.
    pub transport: Option<Transport>,
    /// The connection that it shares with others, if it does.
    pub channel: Option<SharedChannel>,
    /// Its points; shared by all devices that name the same list.
    pub points: Arc<[PointConfig]>,
    /// How often it is polled, by class of poll: what a class is its protocol says.
    pub polls: Vec<Duration>,
    /// Whether each point is published on a topic of its own.
    pub publish_points: bool,
    /// Whether all points are published together on `<topic>/all`.
    pub publish_all: bool,
    /// The shortest time between two publications of `<topic>/all`.
    pub all_every: Duration,
    /// What happens to polls that are missed or time out; none of a device that reports by itself.
    pub collection: Option<CollectionConfig>,
    /// The network whose limits it shares.
    pub network: Option<NetworkConfig>,
    /// What is written to it again and again.
    pub heartbeat: Option<HeartbeatConfig>,
    /// Age at which a value that was not renewed is marked stale; none never.
    pub stale_after: Option<Duration>,
    /// How urgent its connection is; none leaves it unmarked.
    pub priority: Option<Priority>,
    /// Words by which people and programs find it.
    pub tags: Vec<String>,
    /// How much of what it says is kept.
    pub trace: TraceConfig,
    /// What its protocol needs.
    pub protocol: Protocol,
}

impl DeviceConfig {
    /// Where it is, in words; none of a device that is not outside.
    #[must_use]
    pub fn address(&self) -> Option<String> {
        let goose = self.protocol.goose().map(GooseConfig::address);
        self.transport.as_ref().map(ToString::to_string).or(goose)
    }

    /// The network interface whose one socket it shares with others.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        self.protocol.goose().map(|goose| &*goose.interface)
    }

    /// Whether the device keeps the past of points itself, which is read when it has been away.
    #[must_use]
    pub fn keeps_past(&self) -> bool {
        self.points.iter().any(|point| point.address.bacnet().is_some_and(|address| address.trend_log.is_some()))
    }

    /// How often a point of a polled device is read.
    #[must_use]
    pub fn every_of(&self, point: &PointConfig) -> Duration {
        let every = point.every.or_else(|| self.polls.first().copied()).unwrap_or_default();
        if self.protocol.tells(point) { rarely(every) } else { every }
    }

    /// The local address whose one socket it shares with others; none where any free port will do.
    #[must_use]
    pub fn local_port(&self) -> Option<SocketAddrV4> {
        self.protocol.bacnet().map(|bacnet| bacnet.socket.local).filter(|local| local.port() != 0)
    }

    /// The second connection of a device that has one.
    #[must_use]
    pub fn second_connection(&self) -> Option<(&Transport, Priority)> {
        let lane = self.protocol.dnp3()?.lane.as_ref()?;
        Some((&lane.transport, lane.priority))
    }
}

/// A device with its number.
#[derive(Clone, Debug)]
pub struct Numbered {
    /// Its number, the same in every room.
    pub id: DeviceId,
    /// Its configuration.
    pub config: DeviceConfig,
    /// Whether history takes its points, even where they are not published one by one.
    pub recorded: bool,
    /// How often its configuration has changed.
    pub revision: u32,
}

/// How urgent a device's connection is, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Trips and commands.
    Protection,
    /// Reports of states.
    Monitoring,
    /// Samples and files.
    Bulk,
}

impl Priority {
    /// All, in the order of their words in settings.
    pub const ALL: [Self; 3] = [Self::Protection, Self::Monitoring, Self::Bulk];
}

/// `[channel.NAME]`: a connection that several devices share, besides its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedChannel {
    /// The key of its table.
    pub name: String,
    /// Whether one request may be out at a time, as on a multi-drop line.
    pub one_at_a_time: bool,
}

/// What devices refer to by its name.
pub struct Shared<'a> {
    names: NamePatterns,
    channels: Channels,
    networks: Networks,
    templates: HashMap<String, Template<'a>>,
}

impl<'a> Shared<'a> {
    /// Reads `[names]`, `[channel.NAME]`, `[network.NAME]` and `[template.NAME]`; files are found beside `folder`.
    pub fn read(root: &mut Section<'a>, doc: &mut Document<'_>, folder: &Path) -> Self {
        let names = NamePatterns::read(root.section(doc, "names"), doc);
        let channels = read_channels(root.section(doc, "channel"), doc, folder);
        let networks = read_networks(root.section(doc, "network"), doc, folder);
        let templates = root.section(doc, "template").sections(doc).into_iter();
        let templates = templates.filter_map(|(name, section)| Some((name, section.into_template()?))).collect();
        Self { names, channels, networks, templates }
    }

    /// A device with `template = "NAME"` has the keys of the template that it does not have itself. None where there is no
    /// such template (which has been reported then).
    fn apply_template(&self, doc: &mut Document<'_>, s: &mut Section<'a>) -> Option<()> {
        if !s.has("template") {
            let _ = s.optional(doc, "template", parse::text);
            return Some(());
        }
        let name = s.optional(doc, "template", parse::text)?;
        let template = self.templates.get(&name).cloned();
        if template.is_none() {
            let expected = format!("the name of a [template.{name}] in this file");
            doc.report(s.value_at("template"), &s.key("template"), format!("{name:?}"), expected);
        }
        s.take_template(template?);
        Some(())
    }
}

/// Connections that devices may share, by name.
type Channels = HashMap<String, Option<(Transport, SharedChannel)>>;

fn read_channels(mut all: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Channels {
    let sections = all.sections(doc);
    let read = |(name, mut s): (String, Section<'_>)| {
        let transport = read_transport(doc, &mut s, folder);
        let serial = transport.as_ref().is_some_and(|transport| matches!(transport.over, Over::Serial(_)));
        let one_at_a_time = s.or(doc, "one_at_a_time", serial, parse::boolean);
        s.finish(doc);
        let shared = SharedChannel { name: name.clone(), one_at_a_time };
        (name, transport.map(|transport| (transport, shared)))
    };
    sections.into_iter().map(read).collect()
}

/// The connection of its own that a device has, or the one that it shares.
fn read_connection(
    doc: &mut Document<'_>,
    s: &mut Section<'_>,
    folder: &Path,
    channels: &Channels,
) -> Option<(Transport, Option<SharedChannel>)> {
    if !s.has("channel") {
        let _ = s.optional(doc, "channel", parse::text);
        return read_transport(doc, s, folder).map(|transport| (transport, None));
    }
    let name = s.optional(doc, "channel", parse::text)?;
    match channels.get(&name) {
        Some(channel) => channel.clone().map(|(transport, shared)| (transport, Some(shared))),
        None => {
            let expected = format!("the name of a [channel.{name}] in this file");
            doc.report(s.value_at("channel"), &s.key("channel"), format!("{name:?}"), expected);
            None
        }
    }
}

/// Reads one device; none where something essential is missing or wrong (which has been reported then).
pub fn read_device<'a>(
    doc: &mut Document<'_>,
    name: &str,
    mut s: Section<'a>,
    lists: &mut PointLists<'_>,
    shared: &Shared<'a>,
) -> Option<DeviceConfig> {
    shared.apply_template(doc, &mut s)?;
    let topic = match s.optional(doc, "topic", parse::topic) {
        None if !s.has("topic") => default_topic(doc, name, &s),
        given => given,
    };
    if let Some(topic) = &topic
        && let Some(pattern) = shared.names.topics.as_ref().filter(|pattern| !pattern.matches(topic))
    {
        let expected = format!("a topic that matches names.topics, {pattern}");
        doc.report(s.value_at("topic"), &s.key("topic"), format!("{:?}", topic.as_str()), expected);
    }
    let expected = "\"dnp3\", \"modbus\", \"bacnet\", \"iec104\", \"goose\" or \"simulated\"";
    let protocol = s.required(doc, "protocol", expected, parse::word(&ProtocolName::WORDS));
    // What is wrong with the rest is told all the same.
    let protocol = protocol.unwrap_or(ProtocolName::Dnp3);
    let network = read_network(doc, &mut s, &shared.networks);
    check_network(doc, &s, protocol, network.as_ref());
    let place = read_place(doc, &mut s, protocol, (lists.folder, &shared.channels, network.as_ref()));
    let points = lists.read(doc, &mut s, (protocol, shared.names.points.as_ref()));
    let listed = points.as_deref().unwrap_or_default();
    let mut own = read_protocol(doc, &mut s, protocol, (lists.folder, &place, listed));
    let poll = s.section(doc, "poll");
    let is_told = |point: &PointConfig| own.as_ref().is_some_and(|own| own.tells(point));
    let (polls, collection) = match protocol {
        ProtocolName::Dnp3 => (read_dnp3_polls(doc, poll), None),
        ProtocolName::Iec104 => (read_iec104_polls(doc, poll, own.as_mut().and_then(Protocol::iec104_mut)), None),
        ProtocolName::Goose => {
            // Nothing is asked.
            poll.finish(doc);
            (Vec::new(), None)
        }
        ProtocolName::Modbus | ProtocolName::Bacnet | ProtocolName::Simulated => {
            let (polls, collection) = read_polls(doc, poll, Rates { points: listed, is_told: &is_told });
            (polls, Some(collection))
        }
    };
    let heartbeat = read_heartbeat(doc, &mut s, listed);
    let publish = s.or(doc, "publish", vec!["points".to_owned(), "all".to_owned()], parse_publish);
    let all_every = DEVICE_ALL_EVERY.read(&mut s, doc);
    let stale_after = DEVICE_STALE_AFTER.optional(&mut s, doc);
    let priority = DEVICE_PRIORITY.optional(&mut s, doc).and_then(|place| Priority::ALL.into_iter().nth(place));
    let priority = priority.or((protocol == ProtocolName::Goose).then_some(Priority::Protection));
    let trace = s.section(doc, "trace");
    let trace = TraceConfig::read(doc, trace);
    let tags = s.each_text(doc, "tags", TAGS, |text| parse_tag(text).ok_or_else(|| TAGS.to_owned()));
    s.finish(doc);
    let ((transport, channel), protocol) = (place.connection?, own?);
    let points = match &protocol {
        Protocol::Iec104(iec104) => points.map(|points| with_mode(points, iec104)),
        Protocol::Goose(goose) => points.map(|points| with_role(points, goose)),
        Protocol::Dnp3(_) | Protocol::Modbus(_) | Protocol::Bacnet(_) | Protocol::Simulated(_) => points,
    };
    Some(DeviceConfig {
        name: name.to_owned(),
        topic: topic?,
        transport,
        channel,
        points: points?,
        polls,
        collection,
        network,
        heartbeat,
        publish_points: publish.iter().any(|word| word == "points"),
        publish_all: publish.iter().any(|word| word == "all"),
        all_every,
        stale_after,
        priority,
        tags,
        trace,
        protocol,
    })
}

/// How a device is reached.
struct DevicePlace {
    /// None where something is wrong (which has been reported then); without a transport where there is no device.
    connection: Option<(Option<Transport>, Option<SharedChannel>)>,
    /// Where a BACnet device is.
    bacnet: BacnetPlace,
}

fn read_place(
    doc: &mut Document<'_>,
    s: &mut Section<'_>,
    protocol: ProtocolName,
    (folder, channels, network): (&Path, &Channels, Option<&NetworkConfig>),
) -> DevicePlace {
    match protocol {
        ProtocolName::Bacnet => {
            let (bacnet, transport) = read_address(doc, s, network);
            DevicePlace { connection: transport.map(|transport| (Some(transport), None)), bacnet }
        }
        ProtocolName::Dnp3 | ProtocolName::Modbus | ProtocolName::Iec104 => {
            let connection = read_connection(doc, s, folder, channels);
            let connection = connection.map(|(transport, channel)| (Some(transport), channel));
            DevicePlace { connection, bacnet: BacnetPlace::default() }
        }
        ProtocolName::Goose | ProtocolName::Simulated => {
            DevicePlace { connection: Some((None, None)), bacnet: BacnetPlace::default() }
        }
    }
}

/// The tables that only devices of a protocol have; none where something essential is missing (which has been reported then).
fn read_protocol(
    doc: &mut Document<'_>,
    s: &mut Section<'_>,
    protocol: ProtocolName,
    (folder, place, points): (&Path, &DevicePlace, &[PointConfig]),
) -> Option<Protocol> {
    let transport = place.connection.as_ref().and_then(|(transport, _)| transport.as_ref());
    match protocol {
        ProtocolName::Dnp3 => read_dnp3_device(doc, s, folder, transport).map(Protocol::Dnp3),
        ProtocolName::Modbus => {
            let modbus = s.section(doc, "modbus");
            Some(Protocol::Modbus(read_modbus(doc, modbus, transport, points)))
        }
        ProtocolName::Bacnet => {
            let bacnet = s.section(doc, "bacnet");
            Some(Protocol::Bacnet(read_bacnet(doc, bacnet, &place.bacnet, points)))
        }
        ProtocolName::Iec104 => Some(Protocol::Iec104(read_iec104(doc, s, transport, points))),
        ProtocolName::Goose => {
            let goose = s.section(doc, "goose");
            read_goose(doc, goose, points).map(Protocol::Goose)
        }
        ProtocolName::Simulated => {
            let simulated = s.section(doc, "simulated");
            Some(Protocol::Simulated(read_simulated(doc, simulated, points)))
        }
    }
}

fn parse_publish(value: &toml::de::DeValue<'_>) -> Result<Vec<String>, String> {
    let words = parse::texts(value).ok().filter(|words| words.iter().all(|word| word == "points" || word == "all"));
    words.ok_or_else(|| "a list of \"points\" and \"all\"".to_owned())
}

/// The key of a device's table, where it can be a topic.
fn default_topic(doc: &mut Document<'_>, name: &str, s: &Section<'_>) -> Option<Topic> {
    let topic = Topic::new(name).ok().filter(|topic| !topic.starts_with('$'));
    if topic.is_none() {
        let found = format!("nothing, and a device named {name:?}");
        doc.report(s.at(), &s.key("topic"), found, "a topic like \"site/feeder1/relay1\"".to_owned());
    }
    topic
}

/// Point lists that were read: each once, however many devices name it.
pub struct PointLists<'a> {
    folder: &'a Path,
    known: HashMap<(PathBuf, ProtocolName), Option<Arc<[PointConfig]>>>,
}

impl<'a> PointLists<'a> {
    /// Lists beside `folder`.
    pub fn new(folder: &'a Path) -> Self {
        Self { folder, known: HashMap::new() }
    }

    /// The list that a device names; none where it is wrong (which has been reported then).
    fn read(
        &mut self,
        doc: &mut Document<'_>,
        s: &mut Section<'_>,
        (protocol, names): (ProtocolName, Option<&Pattern>),
    ) -> Option<Arc<[PointConfig]>> {
        let file = s.required(doc, "points", "the name of a point list, as in \"relay1.csv\"", parse::text)?;
        let path = self.folder.join(&file);
        if let Some(known) = self.known.get(&(path.clone(), protocol)) {
            return known.clone();
        }
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let file = path.display().to_string();
                let points = read_named_points(doc.findings(), &file, &text, (protocol, names));
                let points: Option<Arc<[PointConfig]>> = points.map(Arc::from);
                self.known.insert((path, protocol), points.clone());
                points
            }
            Err(error) => {
                let found = format!("{file:?} ({error})");
                doc.report(s.value_at("points"), &s.key("points"), found, "a readable CSV file".to_owned());
                None
            }
        }
    }
}
