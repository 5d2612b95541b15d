//! `/metrics/device`: what is counted of one device, for Prometheus.

use super::authorization::{Authenticated, Authorized};
use super::devices::{DeviceHealth, health};
use super::metrics::Metrics;
use super::problem::Problem;
use axum::http::HeaderMap;
use serde_json::Value as Json;
use tieline_access::Verb;
use tieline_core::Timestamp;
use tieline_poll::DeviceState;
use tieline_service::exposition::{Exposition, TextFormat};
use tieline_service::http::parameters::Query;
use tieline_service::parameters;

parameters! {
    /// Which device is asked for.
    pub struct DeviceAsked {
        /// Topic of the device
        name: Option<String>,
    }
}

/// Counters of a device: member of its health, metric, meaning.
const COUNTERS: [(&str, &str, &str); 13] = [
    ("polls", "tieline_device_polls_total", "Polls that ended, successful or not."),
    ("poll_failures", "tieline_device_poll_failures_total", "Polls that failed: timeouts and errors."),
    ("timeouts", "tieline_device_timeouts_total", "Polls that were not answered in time."),
    ("polls_skipped", "tieline_device_polls_skipped_total", "Polls that were due while the one before was not done."),
    ("rounds", "tieline_device_rounds_total", "Times that all parts of a class were polled."),
    ("readings", "tieline_device_readings_total", "Readings of configured points."),
    ("events", "tieline_device_events_total", "Readings that the device reported as changes."),
    ("unknown_readings", "tieline_device_unknown_readings_total", "Readings of points that are not configured."),
    ("garbage", "tieline_device_garbage_total", "Messages that the protocol does not allow."),
    ("restarts", "tieline_device_restarts_total", "Restarts that the device reported."),
    ("connects", "tieline_device_connects_total", "Times that the link came up."),
    ("losses", "tieline_device_losses_total", "Times that the link was lost."),
    (
        "authentication_failures",
        "tieline_device_authentication_failures_total",
        "Failed authentications between node and device.",
    ),
];

/// What is counted of one device.
pub async fn metrics(
    authenticated: Authenticated,
    headers: HeaderMap,
    Query(asked): Query<DeviceAsked>,
) -> Result<Metrics, Problem> {
    let topic = asked
        .name
        .ok_or_else(|| Problem::bad_request("the parameter name is missing, expected the topic of a device"))?;
    let authorized = authenticated.must(Verb::Read, &topic).await?;
    let missing = || Problem::not_found(format!("there is no device {topic:?}"));
    let (devices, share) = (authorized.app.known.all(), authorized.share());
    let at = devices.iter().position(|device| *device.config.topic == *topic).ok_or_else(missing)?;
    let Authorized { app, .. } = authorized;
    let shown = app.bus.ask_once(&share, move |bus, _| Some(health(bus, &devices.get(at)?.config))).await?;
    let health = shown.ok_or_else(missing)?;
    let mut e = Exposition::new(TextFormat::accepted(&headers));
    write(&mut e, &health);
    Ok(Metrics(e))
}

fn write(e: &mut Exposition, health: &DeviceHealth) {
    let device = ("device", health.topic.as_str());
    let name = "tieline_device_info";
    e.family(name, "1; the protocol of the device.", "gauge");
    e.sample(name, &[device, ("protocol", health.protocol)], 1);
    let name = "tieline_device_state";
    e.family(name, "1 for the current state of the device, 0 for the others.", "gauge");
    for state in DeviceState::ALL.map(DeviceState::name) {
        e.sample(name, &[device, ("state", state)], u8::from(state == health.state));
    }
    let number = |member: &str| health.stats.get(member).and_then(Json::as_f64);
    let time = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
    let gauges = [
        (
            "tieline_device_state_since_seconds",
            "Start of the current state, seconds since 1970.",
            seconds(time(&health.since)),
        ),
        (
            "tieline_device_last_seen_seconds",
            "Last reading or successful poll, seconds since 1970.",
            seconds(time(&health.last_seen)),
        ),
        (
            "tieline_device_last_poll_seconds",
            "Duration of the last successful poll.",
            number("rtt_ms").map(|ms| ms / 1000.0),
        ),
    ];
    for (name, help, value) in gauges {
        e.family(name, help, "gauge");
        value.into_iter().for_each(|value| e.sample(name, &[device], value));
    }
    for (member, name, help) in COUNTERS {
        e.family(name, help, "counter");
        number(member).into_iter().for_each(|count| e.sample(name, &[device], count));
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds since 1970 have fewer than 53 bits")]
fn seconds(time: Option<Timestamp>) -> Option<f64> {
    time.map(|time| time.millis() as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_in_the_documents() {
        let mut e = Exposition::default();
        write(&mut e, &DeviceHealth::default());
        let text = e.into_text();
        let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        assert_eq!(names.len(), 5 + COUNTERS.len());
        let documents = include_str!("../../../../../docs/metrics.md");
        for name in names {
            assert!(documents.contains(&format!("`{name}")), "{name} is not in docs/metrics.md");
        }
    }

    #[test]
    fn a_member_that_is_null_has_no_sample() {
        let stats = serde_json::json!({ "polls": 7, "rtt_ms": 1.5, "readings": null });
        let mut health = DeviceHealth::default();
        "site/relay".clone_into(&mut health.topic);
        "online".clone_into(&mut health.state);
        health.protocol = "dnp3";
        health.since = Some("2026-11-20T14:28:54.5Z".to_owned());
        health.stats = stats.as_object().cloned().unwrap_or_default();
        let mut e = Exposition::default();
        write(&mut e, &health);
        let text = e.into_text();
        for line in [
            "tieline_device_info{device=\"site/relay\",protocol=\"dnp3\"} 1",
            "tieline_device_state{device=\"site/relay\",state=\"online\"} 1",
            "tieline_device_state{device=\"site/relay\",state=\"away\"} 0",
            "tieline_device_state_since_seconds{device=\"site/relay\"} 1795184934.5",
            "tieline_device_last_poll_seconds{device=\"site/relay\"} 0.0015",
            "tieline_device_polls_total{device=\"site/relay\"} 7",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in {text}");
        }
        assert!(!text.contains("\ntieline_device_readings_total"), "{text}");
    }
}
