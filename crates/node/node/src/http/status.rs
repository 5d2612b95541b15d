//! `/v1/status` and `/healthz`.

use super::App;
use super::access::Caller;
use super::authorization::{Authenticated, Public};
use super::body::Answer;
use super::cluster::{self, ClusterShown};
use super::databases::{self, DatabaseShown};
use super::edge::{self, EdgeShown};
use super::problem::Problem;
use super::sites::{self, CentreShown, LinkShown, SitesOnBus};
use crate::access::Authenticator;
use crate::bus::ledger::LedgerStatus;
use crate::bus::process::Usage;
use crate::bus::{Bus, BusCounters, DerivedSeen, Ends, Lag, MirrorSeen};
use crate::control::audit::FileCounts;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tieline_access::{Stats as AccessStats, Verb};
use tieline_core::{Body, Histogram, Instant, Now, Value};
use tieline_history::{HistoryState, HistoryStatus};
use tieline_net::{Counters, SocketShardStatus};
use tieline_service::http::openapi::{Operation, Output, Schemas};
use tieline_topics::{LockCounters, Stats as TreeStats};
use tieline_views::Stats as ViewStats;

/// One look at everything that is counted.
pub(super) struct Seen {
    pub(super) now: Now,
    pub(super) tree: TreeStats,
    pub(super) counters: BusCounters,
    pub(super) ends: Ends,
    /// From a message to its acknowledgement, turns of the bus, and commands.
    pub(super) acknowledgements: Histogram,
    pub(super) turns: Histogram,
    pub(super) command_durations: Histogram,
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
    pub(super) commands: tieline_control::CoordinatorStats,
    pub(super) history: Option<HistoryStatus>,
    pub(super) ledger: LedgerStatus,
    pub(super) audit_trouble: Option<String>,
    pub(super) audit_under_way: Duration,
    pub(super) audit_files: FileCounts,
    pub(super) access: Option<AccessSeen>,
    /// Requests that wait, and how many were refused.
    pub(super) asks: (usize, u64),
    pub(super) views: Option<ViewStats>,
    pub(super) derived: Vec<DerivedSeen>,
    /// The upstreams of an edge.
    pub(super) mirrors: Vec<MirrorSeen>,
    pub(super) sites: SitesOnBus,
    pub(super) locks: LockCounters,
    pub(super) alarms: Option<(tieline_alarms::Counts, tieline_alarms::Stats)>,
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
        let devices = app.known.all();
        let usage = Usage::look();
        let look = move |bus: &mut Bus, now| Self {
            now,
            tree: bus.tree().stats(),
            counters: bus.counters(),
            ends: bus.ends().clone(),
            acknowledgements: *bus.durations().acknowledgements(),
            turns: bus.durations().turns,
            command_durations: *bus.commands().durations(),
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
            derived: bus.derived_seen(),
            mirrors: bus.mirrors_seen(),
            sites: SitesOnBus {
                topics: bus.site_topics(),
                to_sites: bus.site_calls(),
                of_centre: bus.calls_of_centre(),
                events: bus.site_events(),
            },
            locks: bus.lock_counters(),
            alarms: bus.alarm_counts(),
            sockets: bus.socket_shards(),
            states: devices
                .iter()
                .map(|device| (device.config.topic.to_string(), state_of(bus, &device.config.topic)))
                .collect(),
        };
        Ok(app.bus.ask_once(share, look).await?)
    }

    pub(super) fn count(&self, state: &str) -> usize {
        self.states.iter().filter(|(_, found)| found == state).count()
    }

    /// The word, and the words, for how history is doing.
    pub(super) fn history(&self) -> (&'static str, String) {
        let Some(status) = &self.history else { return (OFF, String::new()) };
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
#[derive(JsonSchema, Serialize)]
pub struct Status {
    name: String,
    version: &'static str,
    #[schemars(extend("format" = "date-time"))]
    time: String,
    #[schemars(extend("format" = "date-time"))]
    started: String,
    /// Where HTTP listens, as address:port
    http: String,
    /// Where MQTT listens, as address:port
    mqtt: String,
    uptime_s: f64,
    topics: usize,
    points: usize,
    sessions: usize,
    subscriptions: usize,
    devices: DeviceTotals,
    updates_per_s: f64,
    history: HistoryShown,
    /// Only on an edge
    #[serde(skip_serializing_if = "Option::is_none")]
    edge: Option<EdgeShown>,
    /// Only on a site
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<LinkShown>,
    /// Only on a centre
    #[serde(skip_serializing_if = "Option::is_none")]
    centre: Option<CentreShown>,
    /// Only in a core with standbys
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterShown>,
    totals: Totals,
    lag: LagShown,
    process: Process,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct DeviceTotals {
    total: usize,
    online: usize,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct HistoryShown {
    #[schemars(extend("enum" = HISTORY_STATES))]
    state: &'static str,
    detail: String,
    backlog: u64,
    stored: u64,
    databases: Vec<DatabaseShown>,
}

/// The words for how history is doing.
const HISTORY_STATES: [&str; 6] = ["ok", "catching_up", "disk_full", "hung", "failed", OFF];
const OFF: &str = "off";

/// Counted from the start. Two readings give the rates between them.
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct Totals {
    /// Updates of all topics
    updates: u64,
    /// Messages queued for subscribers, and values that they are owed
    deliveries: u64,
    /// Values never sent because a newer one of the topic came first
    conflated: u64,
    /// Messages that clients never get, of all causes
    dropped: u64,
    /// Messages that MQTT clients published
    published: u64,
    /// Bytes that MQTT clients sent
    bytes_in: u64,
    /// Bytes that sockets of MQTT clients took
    bytes_out: u64,
}

/// How far MQTT clients are behind.
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct LagShown {
    /// Clients whose socket does not take all that is due
    sessions: usize,
    /// Topics and messages that wait, for all clients
    waiting: usize,
    /// Bytes that are made and wait
    bytes: usize,
    /// How long the client that is latest is
    ms: u64,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct Process {
    /// Bytes of memory that are resident
    memory_bytes: u64,
    /// Processor time since the start, user and system
    cpu_s: f64,
}

/// What the node is and how it is doing.
pub async fn status(authenticated: Authenticated) -> Result<Answer<Status>, Problem> {
    let authorized = authenticated.must(Verb::Read, "$SYS/status").await?;
    let seen = Seen::look(&authorized.app, &authorized.share()).await?;
    let (state, detail) = seen.history();
    let (backlog, stored) =
        seen.history.as_ref().map_or((0, 0), |status| (status.backlog_records(), status.stored_points));
    let about = &authorized.app.about;
    let uptime_ms = seen.now.utc.millis() - about.started.millis();
    Ok(Answer(Status {
        name: about.name.clone(),
        version: env!("CARGO_PKG_VERSION"),
        time: seen.now.utc.to_string(),
        started: about.started.to_string(),
        http: about.addresses.0.to_string(),
        mqtt: about.addresses.1.to_string(),
        uptime_s: uptime_ms as f64 / 1000.0,
        topics: seen.tree.topics,
        points: authorized.app.known.all().iter().map(|device| device.config.points.len()).sum(),
        sessions: seen.clients,
        subscriptions: seen.tree.subscriptions,
        devices: DeviceTotals { total: seen.states.len(), online: seen.count("online") },
        updates_per_s: seen.updates_per_s,
        history: HistoryShown { state, detail, backlog, stored, databases: databases::shown(&seen) },
        edge: EdgeShown::of(&seen.mirrors),
        site: sites::link_of(&authorized.app),
        centre: sites::centre_of(&authorized.app),
        cluster: cluster::shown(&authorized.app),
        totals: totals(&seen, &about.mqtt),
        lag: LagShown {
            sessions: seen.lag.sessions,
            waiting: seen.lag.waiting,
            bytes: seen.lag.bytes,
            ms: u64::try_from(seen.lag.longest.as_millis()).unwrap_or(u64::MAX),
        },
        process: Process { memory_bytes: seen.usage.resident_bytes, cpu_s: seen.usage.cpu.as_secs_f64() },
    }))
}

fn totals(seen: &Seen, mqtt: &Counters) -> Totals {
    let counters = &seen.counters;
    Totals {
        updates: counters.updates,
        deliveries: counters.deliveries,
        conflated: counters.conflated,
        dropped: counters.dropped.total(),
        published: counters.published,
        bytes_in: mqtt.bytes_in.load(Ordering::Relaxed),
        bytes_out: mqtt.bytes_out.load(Ordering::Relaxed),
    }
}

/// How long an answer of health holds: anybody may ask, as often as it likes.
const HEALTH_HOLDS: Duration = Duration::from_millis(250);

/// What health says, until it is looked again.
#[derive(Clone, Debug, Default)]
pub struct KnownHealth(Arc<Mutex<Option<(Instant, Health)>>>);

/// Whether the node can do its work.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Health {
    status: HealthWord,
    /// An unauthenticated caller learns the status, without details
    #[serde(flatten)]
    detail: Option<HealthDetail>,
}

#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum HealthWord {
    Ok,
    Degraded,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
struct HealthDetail {
    history: &'static str,
    devices_away: usize,
    detail: Vec<String>,
}

impl IntoResponse for Health {
    fn into_response(self) -> Response {
        let status = match self.status {
            HealthWord::Ok => StatusCode::OK,
            HealthWord::Degraded => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, Answer(self)).into_response()
    }
}

impl Output for Health {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        let schema = schemas.written::<Self>();
        operation.content(200, "application/json", schema.clone());
        operation.content(503, "application/json", schema);
    }
}

impl Health {
    async fn look(app: &App) -> Result<Self, Problem> {
        let seen = Seen::look(app, &Arc::from("$health")).await?;
        let (state, detail) = seen.history();
        let mut details = Vec::new();
        if !matches!(state, "ok" | OFF | "catching_up") {
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
        let (lost, away): (Vec<_>, Vec<_>) = databases::trouble(&seen).into_iter().partition(|(lost, _)| *lost);
        details.extend(lost.into_iter().map(|(_, words)| words));
        let status = if details.is_empty() { HealthWord::Ok } else { HealthWord::Degraded };
        // Certificates that end, and what is lost, are for a person to see to: the node does its work.
        details.extend(seen.ledger.lost.as_ref().map(|lost| format!("ledger: {lost}")));
        details.extend(app.about.tls.trouble(seen.now.utc));
        details.extend(away.into_iter().map(|(_, words)| words));
        details.extend(app.reloader.status().trouble());
        details.extend(edge::trouble(&seen));
        details.extend(sites::trouble(app));
        let away = seen.count("away");
        let detail = HealthDetail { history: state, devices_away: away, detail: details };
        Ok(Self { status, detail: Some(detail) })
    }
}

/// Whether the node can do its work.
pub async fn health(Public { app, caller }: Public) -> Result<Health, Problem> {
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
    Ok(match caller {
        Caller::Unauthenticated => Health { detail: None, ..health },
        Caller::Everyone | Caller::User(_) => health,
    })
}
