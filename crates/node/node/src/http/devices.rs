//! `/v1/devices` and `/v1/points`: what is configured, with the health that the tree shows.

use super::access::Caller;
use super::authorization::{Authenticated, Authorized};
use super::json;
use super::problem::Problem;
use super::query::{Query, wrong};
use super::topics::topic_of;
use crate::bus::Bus;
use crate::config::{DeviceConfig, PointConfig, Takes, ValueKind};
use axum::extract::RawQuery;
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Value as Json, json as object};
use tieline_access::Verb;
use tieline_core::{Body, CommandMode, Topic, Value};

/// All devices.
pub async fn list(authenticated: Authenticated) -> Result<Response, Problem> {
    let authorized = authenticated.each();
    let (devices, share) = (authorized.app.devices.clone(), authorized.share());
    let Authorized { app, caller, .. } = authorized;
    let shown = app.bus.ask_once(&share, move |bus, _| {
        let all: Vec<Json> = devices
            .iter()
            .filter(|device| caller.may(Verb::Read, &device.topic))
            .map(|device| device_json(bus, device))
            .collect();
        object!({ "devices": all }).to_string()
    });
    Ok(json(shown.await?))
}

/// One device with its points.
pub async fn one(authenticated: Authenticated, uri: Uri) -> Result<Response, Problem> {
    let topic = topic_of(&uri, "/v1/devices/")?;
    let authorized = authenticated.must(Verb::Read, &topic).await?;
    let at = authorized.app.devices.iter().position(|device| device.topic == topic);
    let at = at.ok_or_else(|| Problem::not_found(format!("there is no device {topic:?}")))?;
    let (devices, share) = (authorized.app.devices.clone(), authorized.share());
    let Authorized { app, caller, .. } = authorized;
    let shown = app.bus.ask_once(&share, move |bus, _| {
        let device = devices.get(at)?;
        let mut shown = device_json(bus, device);
        let points: Vec<Json> = device.points.iter().map(|point| point_json(device, point, &caller)).collect();
        shown["points"] = Json::Array(points);
        Some(shown.to_string())
    });
    shown.await?.map(json).ok_or_else(|| Problem::not_found("no such device"))
}

/// One page of points, in the order of devices and lists.
pub async fn points(authenticated: Authenticated, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let query = Query::new(query.as_deref(), &["filter", "after", "limit"])?;
    let (filter, limit) = (query.filter()?, query.limit(1000, 10_000)?);
    let after = query.text("after");
    let Authorized { app, caller, .. } = authenticated.each();
    let mut points = app.devices.iter().flat_map(|device| device.points.iter().map(move |point| (device, point)));
    if let Some(after) = after
        && !points.any(|(device, point)| topic_text(device, point) == after)
    {
        return Err(wrong("after", after, "the topic of a configured point"));
    }
    let mut chosen = points.filter(|(device, point)| {
        let topic = topic_text(device, point);
        filter.matches(&topic) && caller.may(Verb::Read, &topic)
    });
    let page: Vec<_> = chosen.by_ref().take(limit).collect();
    let next = chosen.next().and(page.last()).map(|(device, point)| topic_text(device, point));
    let page: Vec<Json> = page.into_iter().map(|(device, point)| point_json(device, point, &caller)).collect();
    Ok(json(object!({ "points": page, "next": next }).to_string()))
}

fn topic_text(device: &DeviceConfig, point: &PointConfig) -> String {
    format!("{}/{}", device.topic, point.name)
}

fn device_json(bus: &Bus, device: &DeviceConfig) -> Json {
    let health = |leaf: &str| Topic::new(&format!("$SYS/devices/{}/{leaf}", device.topic)).ok();
    let state = health("state").and_then(|topic| text_at(bus, &topic)).unwrap_or_else(|| "connecting".to_owned());
    let stats = health("stats").and_then(|topic| json_at(bus, &topic)).unwrap_or_else(|| object!({}));
    let time = |name: &str| stats.get(name).cloned().unwrap_or(Json::Null);
    object!({
        "topic": device.topic.as_str(),
        "name": device.name,
        "protocol": device.protocol.name().word(),
        "address": device.transport.as_ref().map(ToString::to_string).unwrap_or_default(),
        "state": state,
        "since": time("since"),
        "last_seen": time("last_seen"),
        "points": device.points.len(),
        "tags": device.tags,
        "stats": stats,
    })
}

fn text_at(bus: &Bus, topic: &Topic) -> Option<String> {
    match bus.tree().get(topic)?.body {
        Body::Point(point) => match &point.value {
            Value::Text(text) => Some(text.to_string()),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Bytes(_) => None,
        },
        Body::Opaque(bytes) => String::from_utf8(bytes.to_vec()).ok(),
    }
}

fn json_at(bus: &Bus, topic: &Topic) -> Option<Json> {
    match bus.tree().get(topic)?.body {
        Body::Point(_) => None,
        Body::Opaque(bytes) => serde_json::from_slice(bytes).ok(),
    }
}

fn point_json(device: &DeviceConfig, point: &PointConfig, caller: &Caller) -> Json {
    let control = point.control.as_ref();
    let kind = match (point.kind, control.map(|control| &control.takes)) {
        (_, Some(Takes::Bool)) | (ValueKind::Bool, _) => "bool",
        (ValueKind::DoubleBit | ValueKind::Int, _) => "int",
        (ValueKind::Float, _) => "float",
        (ValueKind::Text, _) => "text",
    };
    let topic = topic_text(device, point);
    object!({
        "may_command": control.is_some() && caller.may(Verb::Command, &topic),
        "topic": topic,
        "device": device.topic.as_str(),
        "name": point.name,
        "type": point.address.type_name(),
        "index": point.address.index(),
        "unit": point.unit,
        "description": point.description,
        "tags": point.tags,
        "writable": control.is_some(),
        "kind": kind,
        "mode": control.map_or(CommandMode::default(), |control| control.mode).name(),
        "min": control.and_then(|control| control.min),
        "max": control.and_then(|control| control.max),
        "states": point.states.as_ref().map(|states| [&*states.off, &*states.on]),
    })
}
