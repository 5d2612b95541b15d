//! `/v1/status` and `/healthz`.

use super::access::Caller;
use super::authorization::{Authenticated, Public};
use super::problem::Problem;
use super::{App, json};
use crate::access::Authenticator;
use crate::bus::ledger::LedgerStatus;
use crate::bus::process::Usage;
use crate::bus::{Bus, BusCounters, Ends, Lag};
use crate::control::audit::FileCounts;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json as object;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tieline_access::{Stats as AccessStats, Verb};
use tieline_core::{Body, Instant, Now, Value};
use tieline_history::{HistoryState, HistoryStatus};
use tieline_net::{Counters, SocketShardStatus};
use tieline_topics::Stats as TreeStats;
use tieline_views::Stats as ViewStats;

/// One look at everything that is counted.
pub(super) struct Seen {
    pub(super) now: Now,
    pub(super) tree: TreeStats,
    pub(super) counters: BusCounters,
    pub(super) ends: Ends,
    pub(super) updates_per_s: f64,
    pub(super) clients: usize,
    /// Sessions whose clients are away, and the bytes that wait for them.
    pub(super) away: (usize, usize),
    pub(super) lag: Lag,
    pub(super) usage: Usage,
    pub(super) feeds: usize,
    /// Counts by quality that are kept for them, and readers that got none.
    pub(super) counts: (usize, u64),
    /// Bytes of the events that topics keep, and how many were given up.
    pub(super) series: (usize, u64),
    pub(super) commands: tieline_control::Stats,
    pub(super) history: Option<HistoryStatus>,
    pub(super) ledger: LedgerStatus,
    pub(super) audit_trouble: Option<String>,
    pub(super) audit_under_way: Duration,
    pub(super) audit_files: FileCounts,
    pub(super) access: Option<AccessSeen>,
    /// Requests that wait, and how many were refused.
    pub(super) asks: (usize, u64),
    pub(super) views: Option<ViewStats>,
    /// Threads that have the sockets of MQTT clients.
    pub(super) sockets: Vec<SocketShardStatus>,
    pub(super) states: Vec<(String, String)>,
}

/// What came of who may do what.
pub(super) struct AccessSeen {
    pub(super) stats: AccessStats,
    pub(super) denials: Vec<(Verb, u64)>,
    /// Refusals and denials that the audit log has as a number.
    pub(super) summed: u64,
}

impl Seen {
    pub(super) async fn look(app: &App, share: &Arc<str>) -> Result<Self, Problem> {
        let devices = app.devices.clone();
        let usage = Usage::look();
        let look = move |bus: &mut Bus, now| Self {
            now,
            tree: bus.tree().stats(),
            counters: bus.counters(),
            ends: bus.ends().clone(),
            updates_per_s: bus.updates_per_s(),
            clients: bus.client_count(),
            away: bus.away(),
            lag: bus.lag(now.mono),
            usage,
            feeds: bus.feed_count(),
            counts: bus.count_stats(),
            series: bus.series_stats(),
            commands: bus.commands().stats(),
            history: bus.recorder().status(),
            ledger: bus.ledger_status(now),
            audit_trouble: bus.commands().audit_trouble(),
            audit_under_way: bus.commands().audit_under_way(),
            audit_files: bus.commands().audit_files(),
            access: bus.guard().map(|guard| AccessSeen {
                stats: guard.stats(),
                denials: guard.denials().collect(),
                summed: guard.summed(),
            }),
            asks: bus.ask_stats(),
            views: bus.view_stats(),
            sockets: bus.socket_shards(),
            states: devices.iter().map(|device| (device.topic.to_string(), state_of(bus, &device.topic))).collect(),
        };
        Ok(app.bus.ask_once(share, look).await?)
    }

    pub(super) fn count(&self, state: &str) -> usize {
        self.states.iter().filter(|(_, found)| found == state).count()
    }

    /// The word, and the words, for how history is doing.
    pub(super) fn history(&self) -> (&'static str, String) {
        let Some(status) = &self.history else { return ("off", String::new()) };
        let detail = match &status.state {
            HistoryState::Failed { why } => why.clone(),
            HistoryState::Hung { age } => {
                format!("the disk has not answered for {} s: nothing is recorded until it does", age.as_secs())
            }
            HistoryState::DiskFull => "no space is left: nothing is recorded until there is".to_owned(),
            HistoryState::CatchingUp => format!("{} journal records wait for the store", status.backlog_records()),
            HistoryState::Ok => String::new(),
        };
        (status.state.name(), detail)
    }
}

/// The state of a device as its topic shows it.
pub(crate) fn state_of(bus: &Bus, device: &str) -> String {
    let view = bus.tree().get(&format!("$SYS/devices/{device}/state"));
    match view.map(|view| view.body) {
        Some(Body::Point(point)) => match &point.value {
            Value::Text(text) => text.to_string(),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Bytes(_) => String::new(),
        },
        Some(Body::Published(_) | Body::Opaque(_)) | None => "connecting".to_owned(),
    }
}

/// What the node is and how it is doing.
pub async fn status(authenticated: Authenticated) -> Result<Response, Problem> {
    let authorized = authenticated.must(Verb::Read, "$SYS/status").await?;
    let seen = Seen::look(&authorized.app, &authorized.share()).await?;
    let (state, detail) = seen.history();
    let (backlog, stored) =
        seen.history.as_ref().map_or((0, 0), |status| (status.backlog_records(), status.stored_points));
    let about = &authorized.app.about;
    let uptime_ms = seen.now.utc.millis() - about.started.millis();
    let status = object!({
        "name": about.name,
        "version": env!("CARGO_PKG_VERSION"),
        "time": seen.now.utc.to_string(),
        "started": about.started.to_string(),
        "http": about.addresses.0.to_string(),
        "mqtt": about.addresses.1.to_string(),
        "uptime_s": uptime_ms as f64 / 1000.0,
        "topics": seen.tree.topics,
        "points": authorized.app.devices.iter().map(|device| device.points.len()).sum::<usize>(),
        "sessions": seen.clients,
        "subscriptions": seen.tree.subscriptions,
        "devices": { "total": seen.states.len(), "online": seen.count("online") },
        "updates_per_s": seen.updates_per_s,
        "history": { "state": state, "detail": detail, "backlog": backlog, "stored": stored },
        "totals": totals(&seen, &about.mqtt),
        "lag": {
            "sessions": seen.lag.sessions,
            "waiting": seen.lag.waiting,
            "bytes": seen.lag.bytes,
            "ms": u64::try_from(seen.lag.longest.as_millis()).unwrap_or(u64::MAX),
        },
        "process": { "memory_bytes": seen.usage.resident_bytes, "cpu_s": seen.usage.cpu.as_secs_f64() },
    });
    Ok(json(status.to_string()))
}

/// Counted from the start: two looks give the rates between them.
fn totals(seen: &Seen, mqtt: &Counters) -> serde_json::Value {
    let counters = &seen.counters;
    object!({
        "updates": counters.updates,
        "deliveries": counters.deliveries,
        "conflated": counters.conflated,
        "dropped": counters.dropped.total(),
        "published": counters.published,
        "bytes_in": mqtt.bytes_in.load(Ordering::Relaxed),
        "bytes_out": mqtt.bytes_out.load(Ordering::Relaxed),
    })
}

/// How long an answer of health holds: anybody may ask, as often as it likes.
const HEALTH_HOLDS: Duration = Duration::from_millis(250);

/// What health says, until it is looked again.
#[derive(Clone, Debug, Default)]
pub struct KnownHealth(Arc<Mutex<Option<(Instant, Health)>>>);

#[derive(Clone, Debug)]
struct Health {
    status: StatusCode,
    word: &'static str,
    /// For callers that are authenticated.
    body: String,
}

impl Health {
    async fn look(app: &App) -> Result<Self, Problem> {
        let seen = Seen::look(app, &Arc::from("$health")).await?;
        let (state, detail) = seen.history();
        let mut details = Vec::new();
        if !matches!(state, "ok" | "off" | "catching_up") {
            details.push(format!("history: {state}: {detail}"));
        }
        if let Some(why) = seen.ledger.state.trouble() {
            details.push(format!("ledger: {why}"));
        }
        if let Some(why) = &seen.audit_trouble {
            details.push(format!("audit: {why}: commands are refused"));
        }
        details.extend(app.about.wall.doubt().map(|doubt| format!("clock: {doubt}")));
        if let Some(why) = app.authenticator.as_ref().and_then(Authenticator::trouble) {
            details.push(format!("access: users and roles are not those of the files: {why}"));
        }
        let status = if details.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let word = if details.is_empty() { "ok" } else { "degraded" };
        // Certificates that end, and what is lost, are for a person to see to: the node does its work.
        details.extend(seen.ledger.lost.as_ref().map(|lost| format!("ledger: {lost}")));
        details.extend(app.about.tls.trouble(seen.now.utc));
        let away = seen.count("away");
        let body = object!({ "status": word, "history": state, "devices_away": away, "detail": details });
        Ok(Self { status, word, body: body.to_string() })
    }
}

/// Whether the node can do its work.
pub async fn health(Public { app, caller }: Public) -> Result<Response, Problem> {
    let now = app.about.clock.now().mono;
    let known = app.about.health.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let health = match known.filter(|(until, _)| *until > now) {
        Some((_, health)) => health,
        None => {
            let health = Health::look(&app).await?;
            let mut known = app.about.health.0.lock().unwrap_or_else(PoisonError::into_inner);
            *known = Some((now + HEALTH_HOLDS, health.clone()));
            health
        }
    };
    // An unauthenticated caller learns the status, without details.
    let body = match caller {
        Caller::Unauthenticated => object!({ "status": health.word }).to_string(),
        Caller::Everyone | Caller::User(_) => health.body,
    };
    let mut response = json(body);
    *response.status_mut() = health.status;
    Ok(response)
}
