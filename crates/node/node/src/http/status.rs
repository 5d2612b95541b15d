//! `/v1/status`, `/metrics` and `/healthz`.

use super::access::Caller;
use super::problem::Problem;
use super::socket_metrics::{socket_metrics, socket_shard_metrics};
use super::{About, App, json};
use crate::access::Authenticator;
use crate::audit::FileCounts;
use crate::bus::{Bus, BusCounters, Ends, Lag};
use crate::ledger::{LedgerState, LedgerStatus};
use crate::process::Usage;
use axum::Extension;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json as object;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tieline_access::{Stats as AccessStats, Verb};
use tieline_core::{Body, Instant, Now, Value};
use tieline_history::{HistoryState, HistoryStatus};
use tieline_net::tls::Expiry;
use tieline_net::{Counters, SocketShardStatus};
use tieline_service::exposition::Exposition;
use tieline_topics::Stats as TreeStats;
use tieline_views::Stats as ViewStats;

/// One look at everything that is counted.
struct Seen {
    now: Now,
    tree: TreeStats,
    counters: BusCounters,
    ends: Ends,
    updates_per_s: f64,
    clients: usize,
    /// Sessions whose clients are away, and the bytes that wait for them.
    away: (usize, usize),
    lag: Lag,
    usage: Usage,
    feeds: usize,
    /// Counts by quality that are kept for them, and readers that got none.
    counts: (usize, u64),
    /// Bytes of the events that topics keep, and how many were given up.
    series: (usize, u64),
    commands: tieline_control::Stats,
    history: Option<HistoryStatus>,
    ledger: LedgerStatus,
    audit_trouble: Option<String>,
    audit_under_way: Duration,
    audit_files: FileCounts,
    access: Option<AccessSeen>,
    /// Requests that wait, and how many were refused.
    asks: (usize, u64),
    views: Option<ViewStats>,
    /// Threads that have the sockets of MQTT clients.
    sockets: Vec<SocketShardStatus>,
    states: Vec<(String, String)>,
}

/// What came of who may do what.
struct AccessSeen {
    stats: AccessStats,
    denials: Vec<(Verb, u64)>,
    /// Refusals and denials that the audit log has as a number.
    summed: u64,
}

impl Seen {
    async fn look(app: &App, share: &Arc<str>) -> Result<Self, Problem> {
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

    fn count(&self, state: &str) -> usize {
        self.states.iter().filter(|(_, found)| found == state).count()
    }

    /// The word, and the words, for how history is doing.
    fn history(&self) -> (&'static str, String) {
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
        Some(Body::Opaque(_)) | None => "connecting".to_owned(),
    }
}

/// What the node is and how it is doing.
pub async fn status(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> Result<Response, Problem> {
    caller.must(&app, Verb::Read, "$SYS/status").await?;
    let seen = Seen::look(&app, &caller.share(peer)).await?;
    let (state, detail) = seen.history();
    let (backlog, stored) =
        seen.history.as_ref().map_or((0, 0), |status| (status.backlog_records(), status.stored_points));
    let about = &app.about;
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
        "points": app.devices.iter().map(|device| device.points.len()).sum::<usize>(),
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
pub async fn health(State(app): State<App>, Extension(caller): Extension<Caller>) -> Result<Response, Problem> {
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

/// Everything that is counted, for Prometheus.
pub async fn metrics(State(app): State<App>, Extension(caller): Extension<Caller>) -> Result<Response, Problem> {
    caller.must(&app, Verb::Read, "$SYS/metrics").await?;
    let seen = Seen::look(&app, &Arc::from("$metrics")).await?;
    let mut e = Exposition::default();
    let about = &app.about;
    e.labelled(("tieline_build_info", "The version that runs.", "gauge"), "version", [(env!("CARGO_PKG_VERSION"), 1)]);
    e.gauge("tieline_start_time_seconds", "When the node started, since 1970.", about.started.millis() / 1000);
    let doubt = about.wall.doubt();
    e.gauge("tieline_clock_doubted", "1 while nothing is removed or expired by the clock.", u8::from(doubt.is_some()));
    let off = "Seconds that the clock is ahead of what is known, or behind it.";
    e.gauge("tieline_clock_off_seconds", off, doubt.map_or(0, |doubt| doubt.off_s()));
    process_metrics(&mut e, &seen.usage);
    bus_metrics(&mut e, &seen);
    http_metrics(&mut e, about, &seen);
    history_metrics(&mut e, &seen);
    ledger_metrics(&mut e, &seen.ledger);
    command_metrics(&mut e, &seen);
    audit_metrics(&mut e, &seen.audit_files);
    socket_metrics(&mut e, &[("field", &about.field), ("mqtt", &about.mqtt)]);
    super::field::metrics(&mut e, &app).await?;
    access_metrics(&mut e, &app, &seen);
    view_metrics(&mut e, &seen);
    tls_metrics(&mut e, app.about.tls.expiries(), seen.now);
    let states = ["connecting", "online", "slow", "away", "garbage", "restarting"];
    let counts = states.map(|state| (state, seen.count(state)));
    e.labelled(("tieline_devices", "Devices by state.", "gauge"), "state", counts);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], e.into_text()).into_response())
}

fn bus_metrics(e: &mut Exposition, seen: &Seen) {
    let (tree, counters) = (&seen.tree, &seen.counters);
    e.gauge("tieline_topics", "Topics that hold a value.", tree.topics);
    e.gauge("tieline_tree_bytes", "Bytes of all paths and values.", tree.bytes);
    e.gauge("tieline_subscriptions", "Subscriptions of all subscribers.", tree.subscriptions);
    e.gauge("tieline_mqtt_sessions", "MQTT clients that are connected.", seen.clients);
    e.gauge("tieline_live_feeds", "Readers of live updates over HTTP.", seen.feeds);
    e.gauge("tieline_live_counts", "Counts by quality kept for them, one a set of rights.", seen.counts.0);
    e.counter("tieline_live_uncounted_total", "Readers without counts: too many sets of rights.", seen.counts.1);
    e.counter("tieline_updates_total", "Updates applied to the tree.", counters.updates);
    e.counter("tieline_updates_refused_total", "Updates refused because the tree is full.", counters.refused);
    e.counter("tieline_deliveries_total", "Messages queued for subscribers.", counters.deliveries);
    let conflated = "Values never sent to a client because a newer one of the topic came first.";
    e.counter("tieline_mqtt_conflated_total", conflated, counters.conflated);
    let dropped = ("tieline_mqtt_dropped_total", "Messages that clients never get, by cause.", "counter");
    e.labelled(dropped, "cause", counters.dropped.by_cause());
    e.counter("tieline_mqtt_published_total", "Messages that clients published.", counters.published);
    e.counter("tieline_mqtt_publish_refused_total", "Messages of clients not taken.", counters.publish_refused);
    let deltas = "Messages of clients that said what changed.";
    e.counter("tieline_mqtt_published_deltas_total", deltas, counters.published_deltas);
    let refused = "Messages that said what changed of something that the node does not hold.";
    e.counter("tieline_mqtt_deltas_refused_total", refused, counters.deltas_refused);
    e.counter("tieline_topics_unmet_total", "Updates not taken: a condition was not met.", counters.unmet);
    e.counter("tieline_topics_told_anew_total", "Watchers of topics told of all again.", counters.told_anew);
    e.counter("tieline_topics_misfits_total", "Messages not taken: a wrong payload.", counters.misfits);
    e.counter("tieline_topics_removed_total", "Values removed: their time was over.", counters.removed);
    e.gauge("tieline_series_bytes", "Bytes of the events that topics keep.", seen.series.0);
    e.counter("tieline_series_dropped_total", "Events given up: there was no room.", seen.series.1);
    e.counter("tieline_mqtt_connected_total", "Clients connected.", counters.connected);
    e.counter("tieline_mqtt_turned_away_total", "Connections closed: too many unauthenticated.", counters.turned_away);
    e.counter("tieline_mqtt_ended_full_total", "Clients ended because their queue was full.", counters.ended_full);
    session_metrics(e, seen);
    socket_shard_metrics(e, &seen.sockets);
    end_metrics(e, &seen.ends);
    e.counter("tieline_topics_forgotten_total", "Idle topics forgotten for room.", tree.idle_forgotten);
}

/// The names are those that Prometheus' own clients use.
fn process_metrics(e: &mut Exposition, usage: &Usage) {
    e.counter("process_cpu_seconds_total", "Processor time, user and system.", usage.cpu.as_secs_f64());
    e.gauge("process_resident_memory_bytes", "Bytes of memory that are resident.", usage.resident_bytes);
    e.gauge("process_open_fds", "File descriptors that are open.", usage.descriptors);
}

fn http_metrics(e: &mut Exposition, about: &About, seen: &Seen) {
    about.http.expose("tieline_http", e);
    let (recalls, recalls_refused) = about.recalls.seen();
    e.gauge("tieline_http_recalls", "Answers from history that are under way.", recalls);
    e.counter("tieline_http_recalls_refused_total", "Requests for history refused: too many.", recalls_refused);
    let (asks, asks_refused) = seen.asks;
    e.gauge("tieline_requests_waiting", "Requests over HTTP and MQTT that wait for the bus.", asks);
    e.counter("tieline_requests_refused_total", "Requests refused: too many of the user waited.", asks_refused);
}

fn end_metrics(e: &mut Exposition, ends: &Ends) {
    let Ends { by_reason, not_entered, websocket_faults, subscriptions_refused } = ends;
    e.family("tieline_mqtt_ended_total", "Clients that the node ended, by MQTT's reason.", "counter");
    for (reason, count) in by_reason {
        let code = format!("0x{:02x}", reason.code());
        e.sample("tieline_mqtt_ended_total", &[("code", &code), ("reason", reason.words())], *count);
    }
    let unauthenticated = "Connections that ended before their client was authenticated.";
    e.counter("tieline_mqtt_not_entered_total", unauthenticated, *not_entered);
    e.counter("tieline_mqtt_websocket_faults_total", "Connections that broke a rule of WebSocket.", *websocket_faults);
    e.counter("tieline_mqtt_subscriptions_refused_total", "Subscriptions refused.", *subscriptions_refused);
}

fn session_metrics(e: &mut Exposition, seen: &Seen) {
    let ((sessions, bytes), counters, lag) = (seen.away, &seen.counters, &seen.lag);
    e.gauge("tieline_mqtt_late_sessions", "Clients whose socket does not take all that is due.", lag.sessions);
    e.gauge("tieline_mqtt_late_seconds", "How long the one of them that is latest is.", lag.longest.as_secs_f64());
    e.gauge("tieline_mqtt_waiting", "Topics and messages that wait for clients.", lag.waiting);
    e.gauge("tieline_mqtt_waiting_bytes", "Bytes that are made and wait for them.", lag.bytes);
    e.counter("tieline_mqtt_packets_in_total", "Packets that clients sent.", counters.packets_in);
    e.counter("tieline_mqtt_published_bytes_total", "Payloads that clients published.", counters.published_bytes);
    e.gauge("tieline_mqtt_away_sessions", "MQTT sessions whose clients are away.", sessions);
    e.gauge("tieline_mqtt_away_bytes", "Bytes that wait for them.", bytes);
    e.counter("tieline_mqtt_withheld_total", "Messages dropped that waited: rights have changed.", counters.withheld);
    e.counter("tieline_mqtt_resumed_total", "Sessions that went on over another connection.", counters.resumed);
    e.counter("tieline_mqtt_expired_total", "Sessions that ended while away.", counters.sessions_expired);
    e.counter("tieline_mqtt_wills_total", "Wills published.", counters.wills);
    e.counter("tieline_mqtt_redelivered_total", "Shared messages given to another session.", counters.redelivered);
    e.counter("tieline_mqtt_unshared_total", "Shared messages that no session could take.", counters.unshared);
}

fn history_metrics(e: &mut Exposition, seen: &Seen) {
    let (state, _) = seen.history();
    let states =
        ["ok", "catching_up", "disk_full", "hung", "failed", "off"].map(|known| (known, u8::from(known == state)));
    e.labelled(("tieline_history_state", "1 for the state that history is in.", "gauge"), "state", states);
    let Some(status) = &seen.history else { return };
    e.gauge(
        "tieline_history_backlog_records",
        "Journal records that the store has not taken.",
        status.backlog_records(),
    );
    e.gauge("tieline_history_queued_points", "Points that wait for the journal.", status.queued_points);
    e.counter("tieline_history_journaled_points_total", "Points in the journal.", status.journaled_points);
    e.counter("tieline_history_stored_points_total", "Points in the store.", status.stored_points);
    e.counter("tieline_history_dropped_points_total", "Points dropped: nobody waited for them.", status.dropped_points);
    e.counter(
        "tieline_history_refused_points_total",
        "Points refused: their publishers were told.",
        status.refused_points,
    );
    e.counter("tieline_history_lost_records_total", "Journal records that were damaged.", status.lost_records);
    e.counter("tieline_history_removed_samples_total", "Samples removed by age or size.", status.removed_samples);
    e.gauge("tieline_journal_bytes", "Bytes of the journal.", status.journal_bytes);
    e.gauge("tieline_store_bytes", "Bytes of the store.", status.store_bytes);
    e.gauge("tieline_journal_sync_seconds", "How long the last sync took.", status.last_sync.as_secs_f64());
    let under_way = "How long the write has taken so far that is on its way to the disk; 0 for none.";
    e.gauge("tieline_history_write_age_seconds", under_way, status.under_way.as_secs_f64());
    e.counter("tieline_history_hung_total", "Times that a write took longer than 5 s.", status.hung);
}

fn ledger_metrics(e: &mut Exposition, status: &LedgerStatus) {
    let state = status.state.name();
    let states = ["ok", "disk_full", "failed", "hung", "mending", "off"].map(|known| (known, u8::from(known == state)));
    e.labelled(("tieline_ledger_state", "1 for the state that the ledger is in.", "gauge"), "state", states);
    if status.state == LedgerState::Off {
        return;
    }
    e.gauge("tieline_ledger_bytes", "Bytes of the ledger.", status.bytes);
    e.gauge("tieline_ledger_waiting_bytes", "Bytes that wait for the disk.", status.waiting_bytes);
    e.counter("tieline_ledger_batches_total", "Batches on the disk.", status.batches);
    e.counter("tieline_ledger_changes_total", "Changes written.", status.changes);
    e.counter("tieline_ledger_refused_total", "Promises not kept: the disk took nothing.", status.refused);
    let lost = status.lost.clone().unwrap_or_default();
    e.gauge("tieline_ledger_lost_batches", "Batches that could not be read at the start.", lost.records);
    e.gauge("tieline_ledger_lost_sessions", "Sessions that ended because of them.", lost.sessions);
    e.gauge("tieline_ledger_lost_values", "Last values that are gone because of them.", lost.values);
    e.counter("tieline_ledger_walks_total", "Compactions of the ledger.", status.compactions);
    e.gauge("tieline_ledger_batch_seconds", "How long the last batch took.", status.last.as_secs_f64());
    let under_way = "How long the batch has taken so far that is on its way to the disk; 0 for none.";
    e.gauge("tieline_ledger_batch_age_seconds", under_way, status.under_way.as_secs_f64());
    e.counter("tieline_ledger_hung_total", "Times that a batch took longer than 5 s.", status.hung);
}

fn command_metrics(e: &mut Exposition, seen: &Seen) {
    let (stats, audit_failed) = (&seen.commands, seen.audit_trouble.is_some());
    let ends = [
        ("succeeded", stats.succeeded),
        ("refused", stats.refused),
        ("failed", stats.failed),
        ("dropped", stats.dropped),
        ("timed_out", stats.timed_out),
        ("lost", stats.lost),
    ];
    e.labelled(("tieline_commands_total", "Requests by what became of them.", "counter"), "end", ends);
    e.gauge("tieline_audit_failed", "1 while the audit log cannot be written.", u8::from(audit_failed));
    let under_way = "How long the record has taken so far that is on its way to the disk; 0 for none.";
    e.gauge("tieline_audit_write_age_seconds", under_way, seen.audit_under_way.as_secs_f64());
    e.gauge("tieline_commands_under_way", "Commands that wait or are out.", stats.under_way);
}

fn audit_metrics(e: &mut Exposition, files: &FileCounts) {
    e.gauge("tieline_audit_files", "Files of the audit log.", files.files);
    e.gauge("tieline_audit_bytes", "Bytes of them.", files.bytes);
    e.counter("tieline_audit_removed_total", "Files of the audit log removed: there was no room.", files.removed);
    e.gauge("tieline_audit_broken", "Records that at the start were not what was written.", files.broken);
}

fn view_metrics(e: &mut Exposition, seen: &Seen) {
    let Some(stats) = &seen.views else { return };
    e.gauge("tieline_views_derived", "Topics that views derive.", stats.derived);
    e.gauge("tieline_views_contributions", "What sources contribute to them.", stats.contributions);
    e.gauge("tieline_views_waiting", "Changes that are delayed or throttled.", stats.waiting);
    e.counter("tieline_views_updates_total", "Updates that a view took.", stats.updates);
    e.counter("tieline_views_changes_total", "Changes of derived topics.", stats.changes);
    e.counter("tieline_views_refused_total", "Sources or items left out: there were too many.", stats.refused);
    e.counter("tieline_views_hurried_total", "Delayed changes that came early: too many waited.", stats.hurried);
}

fn access_metrics(e: &mut Exposition, app: &App, seen: &Seen) {
    let Some(authenticator) = &app.authenticator else { return };
    let counts = authenticator.counts();
    let ends = [("good", counts.good), ("wrong", counts.wrong), ("too_often", counts.too_often), ("busy", counts.busy)];
    e.labelled(("tieline_logins_total", "Peers that showed who they are, by what came of it.", "counter"), "end", ends);
    e.gauge("tieline_logins_waiting", "Passwords and tokens that wait to be checked.", counts.waiting);
    e.gauge("tieline_logins_known", "Users and clients, by address, in good standing.", counts.known);
    e.gauge("tieline_access_users", "Users in the file.", counts.users);
    e.gauge("tieline_access_files_bad", "1 while the files cannot be used as they are.", u8::from(counts.files_bad));
    e.counter("tieline_access_reloads_total", "Times that changed files were taken.", counts.reloads);
    let Some(AccessSeen { stats, denials, summed }) = &seen.access else { return };
    let denials = denials.iter().map(|(verb, count)| (verb.word(), *count));
    e.labelled(("tieline_denials_total", "What users wanted and may not, by verb.", "counter"), "verb", denials);
    e.counter("tieline_audit_summed_total", "Refusals and denials written as a number.", *summed);
    e.gauge("tieline_access_sessions", "MQTT sessions of users.", stats.sessions);
    e.counter("tieline_access_refused_total", "MQTT sessions of users refused.", stats.refused_sessions);
    e.counter(
        "tieline_access_ended_total",
        "MQTT sessions ended: user gone, password changed, token over.",
        stats.ended,
    );
    e.counter("tieline_access_over_rate_total", "Messages refused: over the session's rate.", stats.over_rate);
}

fn tls_metrics(e: &mut Exposition, expiries: Vec<Expiry>, now: Now) {
    let name = "tieline_tls_certificate_expires_seconds";
    e.family(name, "Seconds until a certificate of TLS ends; below 0 it has.", "gauge");
    for Expiry { file, subject, not_after } in expiries {
        let left = (not_after.millis() - now.utc.millis()) / 1000;
        e.sample(name, &[("file", &file.display().to_string()), ("subject", &subject)], left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_service::http::places::Places;

    #[test]
    fn metrics_of_http_are_in_the_documents() {
        let mut e = Exposition::default();
        Places::default().expose("tieline_http", &mut e);
        let text = e.into_text();
        let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        assert_eq!(names.len(), 6);
        let documents = include_str!("../../../../../docs/metrics.md");
        for name in names {
            assert!(documents.contains(&format!("`{name}")), "{name} is not in docs/metrics.md");
        }
    }
}
