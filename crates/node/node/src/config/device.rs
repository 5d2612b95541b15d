//! `[device.NAME]`: one table a device.

use super::dnp3::{Dnp3Config, read_dnp3, read_freezes, read_lane};
use super::parse;
use super::points::{PointConfig, read_points};
use super::reader::{Document, Expected, Section};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{DeviceId, Topic};
use tieline_transport::secure::read_device_security;
use tieline_transport::{Over, Transport, read_transport};
use toml::de::DeValue;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// One device: where it is, what it has, how it is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceConfig {
    /// The key of its table.
    pub name: String,
    /// Its topic; its points lie below it.
    pub topic: Topic,
    /// How it is reached.
    pub transport: Transport,
    /// The connection that it shares with others, if it does.
    pub channel: Option<SharedChannel>,
    /// Its points; shared by all devices that name the same list.
    pub points: Arc<[PointConfig]>,
    /// How often classes 1, 2, 3 and 0 are all read; none for only at the start and on demand.
    pub poll_integrity: Option<Duration>,
    /// How often the event classes are read; none where the device reports by itself.
    pub poll_events: Option<Duration>,
    /// Whether each point is published on a topic of its own.
    pub publish_points: bool,
    /// Whether all points are published together on `<topic>/all`.
    pub publish_all: bool,
    /// The shortest time between two publications of `<topic>/all`.
    pub all_every: Duration,
    /// Age at which a value that was not renewed is marked stale; none never.
    pub stale_after: Option<Duration>,
    /// How urgent its connection is; none leaves it unmarked.
    pub priority: Option<Priority>,
    /// What its protocol needs.
    pub protocol: Protocol,
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

/// `[channel.NAME]`: a connection that several devices share, besides its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedChannel {
    /// The key of its table.
    pub name: String,
    /// Whether one request may be out at a time, as on a multi-drop line.
    pub one_at_a_time: bool,
}

/// Connections that devices may share, by name.
pub type Channels = HashMap<String, Option<(Transport, SharedChannel)>>;

/// Reads `[channel.NAME]`; files are found beside `folder`.
pub fn read_channels(mut all: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Channels {
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

/// The protocol of a device, with its own settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Protocol {
    /// IEEE 1815.
    Dnp3(Dnp3Config),
}

impl Protocol {
    /// Which.
    #[must_use]
    pub const fn name(&self) -> ProtocolName {
        match self {
            Self::Dnp3(_) => ProtocolName::Dnp3,
        }
    }

    /// The settings of DNP3; none of a device that speaks another protocol.
    #[must_use]
    pub const fn dnp3(&self) -> Option<&Dnp3Config> {
        match self {
            Self::Dnp3(dnp3) => Some(dnp3),
        }
    }
}

/// A protocol without its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolName {
    /// IEEE 1815.
    Dnp3,
}

impl ProtocolName {
    /// All.
    pub const ALL: [Self; 1] = [Self::Dnp3];

    /// The word in the configuration, the API and the names of metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Dnp3 => "dnp3",
        }
    }
}

/// Reads one device; none where something essential is missing or wrong (which has been reported then).
pub fn read_device(
    doc: &mut Document<'_>,
    name: &str,
    mut s: Section<'_>,
    lists: &mut PointLists<'_>,
    channels: &Channels,
) -> Option<DeviceConfig> {
    let topic = match s.optional(doc, "topic", parse::topic) {
        None if !s.has("topic") => default_topic(doc, name, &s),
        given => given,
    };
    let _ = s.required(doc, "protocol", "\"dnp3\"", parse::word(&[("dnp3", ())]));
    let connection = read_connection(doc, &mut s, lists.folder, channels);
    let points = lists.read(doc, &mut s);
    let mut poll = s.section(doc, "poll");
    let period = || parse::duration(SECOND / 10..=7 * 24 * HOUR);
    let poll_integrity = poll.or(doc, "integrity", HOUR, period());
    let poll_events = poll.optional(doc, "events", period());
    poll.finish(doc);
    let publish = s.or(doc, "publish", vec!["points".to_owned(), "all".to_owned()], parse_publish);
    let all_every = s.or(doc, "all_every", SECOND, parse::duration(Duration::from_millis(10)..=HOUR));
    let stale_after = s.optional(doc, "stale_after", parse::duration(SECOND..=7 * 24 * HOUR));
    let mut dnp3 = read_dnp3(s.section(doc, "dnp3"), doc);
    let secure = read_device_security(doc, &mut s, lists.folder);
    let freezes = read_freezes(doc, &mut s);
    let lane = read_lane(doc, &mut s, connection.as_ref().map(|(transport, _)| transport), dnp3.as_ref());
    if let Some(dnp3) = &mut dnp3 {
        (dnp3.secure, dnp3.freezes, dnp3.lane) = (secure.map(Box::new), freezes, lane.map(Box::new));
    }
    if s.has("channel") && dnp3.as_ref().is_some_and(|dnp3| dnp3.lean) {
        let expected = "lean = false: lean messages have no addresses to tell devices of a channel apart by";
        doc.report(s.value_at("dnp3"), &s.key("dnp3.lean"), "true".to_owned(), expected.to_owned());
    }
    let priority = s.optional(doc, "priority", parse_priority());
    s.finish(doc);
    let (transport, channel) = connection?;
    Some(DeviceConfig {
        name: name.to_owned(),
        topic: topic?,
        transport,
        channel,
        points: points?,
        poll_integrity: Some(poll_integrity),
        poll_events,
        publish_points: publish.iter().any(|word| word == "points"),
        publish_all: publish.iter().any(|word| word == "all"),
        all_every,
        stale_after,
        priority,
        protocol: Protocol::Dnp3(dnp3?),
    })
}

/// A word for how urgent a connection is.
pub(super) fn parse_priority() -> impl FnOnce(&DeValue<'_>) -> Result<Priority, Expected> {
    parse::word(&[("protection", Priority::Protection), ("monitoring", Priority::Monitoring), ("bulk", Priority::Bulk)])
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
    known: HashMap<PathBuf, Option<Arc<[PointConfig]>>>,
}

impl<'a> PointLists<'a> {
    /// Lists beside `folder`.
    pub fn new(folder: &'a Path) -> Self {
        Self { folder, known: HashMap::new() }
    }

    /// The list that a device names; none where it is wrong (which has been reported then).
    fn read(&mut self, doc: &mut Document<'_>, s: &mut Section<'_>) -> Option<Arc<[PointConfig]>> {
        let file = s.required(doc, "points", "the name of a point list, as in \"relay1.csv\"", parse::text)?;
        let path = self.folder.join(&file);
        if let Some(known) = self.known.get(&path) {
            return known.clone();
        }
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let points = read_points(doc.findings(), &path.display().to_string(), &text).map(Arc::from);
                self.known.insert(path, points.clone());
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
