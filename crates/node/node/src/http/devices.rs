//! `/v1/devices` and `/v1/points`: what is configured, with the health that the tree shows.

use super::access::Caller;
use super::arguments::{ListOrder, TopicAt, wrong};
use super::authorization::{Authenticated, Authorized};
use super::body::Answer;
use super::problem::Problem;
use super::status::state_of;
use crate::bus::Bus;
use crate::config::{DeviceConfig, PointConfig, Takes, ValueKind};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::cmp::Reverse;
use tieline_access::Verb;
use tieline_core::{Body, CommandMode, Filter, Topic};
use tieline_poll::DeviceState;
use tieline_service::http::parameters::{Query, Whole, words_schema};
use tieline_service::parameters;

/// Devices, in the order that was asked for.
#[derive(JsonSchema, Serialize)]
pub struct Devices {
    devices: Vec<Device>,
    /// Devices that the caller may read; more than are listed where there is a limit
    total: usize,
}

/// A device with its health.
#[derive(JsonSchema, Serialize)]
struct Device {
    #[serde(flatten)]
    health: DeviceHealth,
    /// How many it has
    points: usize,
}

/// A device with its health and its points.
#[derive(JsonSchema, Serialize)]
pub struct DeviceDetail {
    #[serde(flatten)]
    health: DeviceHealth,
    points: Vec<PointInfo>,
}

#[derive(Default, JsonSchema, Serialize)]
pub(super) struct DeviceHealth {
    pub(super) topic: String,
    name: String,
    pub(super) protocol: &'static str,
    address: String,
    #[schemars(schema_with = "state_schema")]
    pub(super) state: String,
    pub(super) since: Option<String>,
    pub(super) last_seen: Option<String>,
    /// Words by which it is found
    tags: Vec<String>,
    pub(super) stats: Map<String, Json>,
}

fn state_schema(_: &mut SchemaGenerator) -> Schema {
    words_schema(DeviceState::ALL.map(DeviceState::name)).try_into().unwrap_or_default()
}

/// One page of points.
#[derive(JsonSchema, Serialize)]
pub struct PointPage {
    points: Vec<PointInfo>,
    /// The last topic of the page, to go on with; null where there are no more
    next: Option<String>,
}

/// What is configured about a point.
#[derive(JsonSchema, Serialize)]
struct PointInfo {
    topic: String,
    device: String,
    name: String,
    r#type: &'static str,
    index: u32,
    unit: String,
    description: String,
    /// Words by which it is found
    tags: Vec<String>,
    writable: bool,
    kind: PointKind,
    mode: &'static str,
    min: Option<f64>,
    max: Option<f64>,
    /// Whether the caller may operate it
    may_command: bool,
    /// The words for false and true
    states: Option<[String; 2]>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum PointKind {
    Bool,
    Int,
    Float,
    Text,
}

parameters! {
    /// Which devices are asked for.
    pub struct DevicesAsked {
        /// Which device comes first
        order: ListOrder = "plain",
        /// Devices of the answer
        limit: Whole<1, 100_000> = "100000",
    }
}

parameters! {
    /// Which points are asked for.
    pub struct PointsAsked {
        /// Topic filter with the wildcards of MQTT
        filter: Filter = "#",
        /// Points behind this one; the member next of the page before
        after: Option<Topic>,
        /// Entries of the page
        limit: Whole<1, 10_000> = "1000",
    }
}

/// All devices, or the worst of them.
pub async fn list(
    authenticated: Authenticated,
    Query(DevicesAsked { order, limit: Whole(limit) }): Query<DevicesAsked>,
) -> Result<Answer<Devices>, Problem> {
    let authorized = authenticated.each();
    let (devices, share) = (authorized.app.known.all(), authorized.share());
    let Authorized { app, caller, .. } = authorized;
    let shown = app.bus.ask_once(&share, move |bus, _| {
        let configs = devices.iter().map(|device| &device.config);
        let mut readable: Vec<_> = configs.filter(|device| caller.may(Verb::Read, &device.topic)).collect();
        let total = readable.len();
        if order == ListOrder::Worst {
            readable.sort_by_cached_key(|device| worst_first(&state_of(bus, &device.topic), device));
        }
        let shown = |device: &DeviceConfig| Device { health: health(bus, device), points: device.points.len() };
        Devices { devices: readable.into_iter().take(limit).map(shown).collect(), total }
    });
    Ok(Answer(shown.await?))
}

/// The place of a device in the order worst first.
fn worst_first(state: &str, device: &DeviceConfig) -> (usize, Reverse<usize>, String) {
    let severity = severity(state);
    // Devices that are online stay in the order of their names.
    let points = if severity == ONLINE { 0 } else { device.points.len() };
    (severity, Reverse(points), device.topic.to_string())
}

/// The severity of a device that answers.
const ONLINE: usize = 2;

/// How bad the state of a device is: 0 where its points are bad, [`ONLINE`] where it is online.
fn severity(state: &str) -> usize {
    match DeviceState::ALL.into_iter().find(|known| known.name() == state) {
        Some(DeviceState::Away | DeviceState::Garbage) => 0,
        Some(DeviceState::Connecting | DeviceState::Slow | DeviceState::Restarting) | None => 1,
        Some(DeviceState::Online) => ONLINE,
    }
}

/// One device with its points.
pub async fn one(
    authenticated: Authenticated,
    TopicAt { topic, .. }: TopicAt,
) -> Result<Answer<DeviceDetail>, Problem> {
    let authorized = authenticated.must(Verb::Read, &topic).await?;
    let missing = || Problem::not_found(format!("there is no device {topic:?}"));
    let (devices, share) = (authorized.app.known.all(), authorized.share());
    let at = devices.iter().position(|device| device.config.topic == topic).ok_or_else(missing)?;
    let Authorized { app, caller, .. } = authorized;
    let shown = app.bus.ask_once(&share, move |bus, _| {
        let device = &devices.get(at)?.config;
        let points = device.points.iter().map(|point| shown(device, point, &caller)).collect();
        Some(DeviceDetail { health: health(bus, device), points })
    });
    shown.await?.map(Answer).ok_or_else(missing)
}

/// One page of points, in the order of devices and lists.
pub async fn points(
    authenticated: Authenticated,
    Query(asked): Query<PointsAsked>,
) -> Result<Answer<PointPage>, Problem> {
    let Authorized { app, caller, .. } = authenticated.each();
    let devices = app.known.all();
    let configs = devices.iter().map(|device| &device.config);
    let mut points = configs.flat_map(|device| device.points.iter().map(move |point| (device, point)));
    if let Some(after) = &asked.after
        && !points.any(|(device, point)| topic_text(device, point) == **after)
    {
        return Err(wrong("after", after, "the topic of a configured point"));
    }
    let mut chosen = points.filter(|(device, point)| {
        let topic = topic_text(device, point);
        asked.filter.matches(&topic) && caller.may(Verb::Read, &topic)
    });
    let page: Vec<_> = chosen.by_ref().take(asked.limit.0).collect();
    let next = chosen.next().and(page.last()).map(|(device, point)| topic_text(device, point));
    let points = page.into_iter().map(|(device, point)| shown(device, point, &caller)).collect();
    Ok(Answer(PointPage { points, next }))
}

fn topic_text(device: &DeviceConfig, point: &PointConfig) -> String {
    format!("{}/{}", device.topic, point.name)
}

pub(super) fn health(bus: &Bus, device: &DeviceConfig) -> DeviceHealth {
    let stats = Topic::new(&format!("$SYS/devices/{}/stats", device.topic)).ok();
    let stats = stats.and_then(|topic| json_at(bus, &topic)).unwrap_or_default();
    let time = |name: &str| stats.get(name).and_then(Json::as_str).map(str::to_owned);
    DeviceHealth {
        topic: device.topic.to_string(),
        name: device.name.clone(),
        protocol: device.protocol.name().word(),
        address: device.address().unwrap_or_default(),
        state: state_of(bus, &device.topic),
        since: time("since"),
        last_seen: time("last_seen"),
        tags: device.tags.clone(),
        stats,
    }
}

fn json_at(bus: &Bus, topic: &Topic) -> Option<Map<String, Json>> {
    match bus.tree().get(topic)?.body {
        Body::Point(_) => None,
        body @ (Body::Published(_) | Body::Opaque(_)) => serde_json::from_slice(&body.to_payload()).ok(),
    }
}

fn shown(device: &DeviceConfig, point: &PointConfig, caller: &Caller) -> PointInfo {
    let control = point.control.as_ref();
    let kind = match (point.kind, control.map(|control| &control.takes)) {
        (_, Some(Takes::Bool)) | (ValueKind::Bool, _) => PointKind::Bool,
        (ValueKind::DoubleBit | ValueKind::Int, _) => PointKind::Int,
        (ValueKind::Float, _) => PointKind::Float,
        (ValueKind::Text, _) => PointKind::Text,
    };
    let topic = topic_text(device, point);
    PointInfo {
        may_command: control.is_some() && caller.may(Verb::Command, &topic),
        topic,
        device: device.topic.to_string(),
        name: point.name.clone(),
        r#type: point.address.type_name(),
        index: point.address.index(),
        unit: point.unit.clone(),
        description: point.description.clone(),
        tags: point.tags.clone(),
        writable: control.is_some(),
        kind,
        mode: control.map_or(CommandMode::default(), |control| control.mode).name(),
        min: control.and_then(|control| control.min),
        max: control.and_then(|control| control.max),
        states: point.states.as_ref().map(|states| [states.off.to_string(), states.on.to_string()]),
    }
}
