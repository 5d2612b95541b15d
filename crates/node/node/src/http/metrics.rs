//! `/metrics`.

use super::About;
use super::authorization::Authenticated;
use super::databases;
use super::problem::Problem;
use super::socket_metrics::{socket_metrics, socket_shard_metrics};
use super::status::Seen;
use crate::bus::Ends;
use crate::bus::ledger::{LedgerState, LedgerStatus};
use crate::bus::process::Usage;
use crate::bus::reload::ReloadStatus;
use crate::field::ChangeCounts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tieline_access::Verb;
use tieline_control::CoordinatorStats;
use tieline_core::Now;
use tieline_net::tls::Expiry;
use tieline_poll::DeviceState;
use tieline_service::exposition::{Exposition, TextFormat};
use tieline_service::http::openapi::{Operation, Output, Schemas};

/// Metrics as text.
pub struct Metrics(pub(super) Exposition);

impl IntoResponse for Metrics {
    fn into_response(self) -> Response {
        let kind = HeaderValue::from_static(self.0.media_type());
        ([(header::CONTENT_TYPE, kind), (header::VARY, HeaderValue::from_static("Accept"))], self.0.into_text())
            .into_response()
    }
}

impl Output for Metrics {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.content(200, "text/plain", serde_json::Value::Null);
        operation.content(200, "application/openmetrics-text", serde_json::Value::Null);
    }
}

/// Everything that is counted, for Prometheus.
pub async fn metrics(authenticated: Authenticated, headers: HeaderMap) -> Result<Metrics, Problem> {
    let authorized = authenticated.must(Verb::Read, "$SYS/metrics").await?;
    let seen = Seen::look(&authorized.app, &Arc::from("$metrics")).await?;
    let mut e = Exposition::new(TextFormat::accepted(&headers));
    let about = &authorized.app.about;
    e.labelled(("tieline_build_info", "The running version.", "gauge"), "version", [(env!("CARGO_PKG_VERSION"), 1)]);
    e.gauge("tieline_start_time_seconds", "Start time of the node, seconds since 1970.", about.started.millis() / 1000);
    let doubt = about.wall.doubt();
    e.gauge(
        "tieline_clock_doubted",
        "1 while the clock is in doubt and nothing is removed or expires.",
        u8::from(doubt.is_some()),
    );
    let off = "Difference of the clock to the recorded time in seconds; below 0 the clock is behind.";
    e.gauge("tieline_clock_off_seconds", off, doubt.map_or(0, |doubt| doubt.off_s()));
    process_metrics(&mut e, &seen.usage);
    bus_metrics(&mut e, &seen);
    http_metrics(&mut e, about, &seen);
    history_metrics(&mut e, &seen);
    edit_metrics(&mut e, about);
    databases::metrics(&mut e, &seen);
    ledger_metrics(&mut e, &seen.ledger);
    command_metrics(&mut e, &seen);
    control_metrics(&mut e, &seen.commands);
    audit_metrics(&mut e, &seen);
    let mut sockets = vec![("field", &*about.field), ("mqtt", &*about.mqtt)];
    sockets.extend(about.edge.as_deref().map(|counters| ("edge", counters)));
    socket_metrics(&mut e, &sockets);
    let answers = super::field::metrics(&mut e, &authorized.app).await?;
    super::durations::metrics(&mut e, &authorized.app, &seen, &answers);
    super::trace::metrics(&mut e, about.traces.counters());
    super::access_metrics::metrics(&mut e, &authorized.app, &seen);
    view_metrics(&mut e, &seen);
    super::derived::metrics(&mut e, &seen.derived);
    super::edge::metrics(&mut e, &seen);
    super::sites::metrics(&mut e, &authorized.app, &seen.sites);
    super::locks::metrics(&mut e, &seen.locks);
    super::alarms::metrics(&mut e, seen.alarms.as_ref());
    super::notify::metrics(&mut e, &authorized.app.notifications);
    super::cluster::metrics(&mut e, about.cluster.as_ref());
    reload_metrics(&mut e, &authorized.app.reloader.status());
    tls_metrics(&mut e, authorized.app.about.tls.expiries(), seen.now);
    let counts = DeviceState::ALL.map(|state| (state.name(), seen.count(state.name())));
    e.labelled(("tieline_devices", "Devices by state.", "gauge"), "state", counts);
    Ok(Metrics(e))
}

fn reload_metrics(e: &mut Exposition, status: &ReloadStatus) {
    let results = [("done", status.done), ("refused", status.refused)];
    e.labelled(("tieline_reloads_total", "Reloads of the configuration, by result.", "counter"), "result", results);
    let ChangeCounts { added, removed, changed, kept_connection, unchanged } = status.counts;
    let counts = [("added", added), ("removed", removed), ("changed", changed)];
    let devices = ("tieline_reload_devices_total", "Devices that reloads touched, by what they did.", "counter");
    e.labelled(devices, "change", counts);
    let kept = "Changed devices that kept their connections.";
    e.counter("tieline_reload_kept_connections_total", kept, kept_connection);
    e.gauge("tieline_reload_devices_unchanged", "Devices that the last reload did not touch.", unchanged);
    let waiting = "Settings that changed in the file and take effect after a restart.";
    e.gauge("tieline_reload_restart_needed", waiting, status.restart_needed.len());
    let failed = "Devices that the last reload could not start.";
    e.gauge("tieline_reload_devices_not_started", failed, status.not_started.len());
}

fn bus_metrics(e: &mut Exposition, seen: &Seen) {
    let (tree, counters) = (&seen.tree, &seen.counters);
    e.gauge("tieline_topics", "Topics that hold a value.", tree.topics);
    e.gauge("tieline_tree_bytes", "Bytes of all topic names, values and filters.", tree.bytes);
    e.gauge("tieline_subscriptions", "Subscriptions of all subscribers.", tree.subscriptions);
    e.gauge("tieline_mqtt_sessions", "Connected MQTT clients.", seen.clients);
    e.gauge("tieline_live_feeds", "Readers of live updates over HTTP.", seen.feeds);
    e.gauge("tieline_live_counts", "Counts by quality for these readers, one for each set of rights.", seen.counts.0);
    e.counter(
        "tieline_live_uncounted_total",
        "Readers without counts because there were too many sets of rights.",
        seen.counts.1,
    );
    e.counter("tieline_updates_total", "Updates applied to the tree.", counters.updates);
    e.counter("tieline_updates_refused_total", "Updates refused because the tree is full.", counters.refused);
    e.counter("tieline_deliveries_total", "Messages queued for subscribers.", counters.deliveries);
    let conflated = "Values not sent to a client because a newer value of the topic replaced them.";
    e.counter("tieline_mqtt_conflated_total", conflated, counters.conflated);
    let dropped = ("tieline_mqtt_dropped_total", "Messages for clients that were dropped, by cause.", "counter");
    e.labelled(dropped, "cause", counters.dropped.by_cause());
    e.counter("tieline_mqtt_published_total", "Messages that clients published.", counters.published);
    e.counter("tieline_mqtt_publish_refused_total", "Messages of clients that were refused.", counters.publish_refused);
    let deltas = "Deltas that clients published.";
    e.counter("tieline_mqtt_published_deltas_total", deltas, counters.published_deltas);
    let refused = "Deltas refused because the node did not have the value that they are based on.";
    e.counter("tieline_mqtt_deltas_refused_total", refused, counters.deltas_refused);
    e.counter("tieline_topics_unmet_total", "Updates refused because a condition was not met.", counters.unmet);
    e.counter(
        "tieline_topics_resynchronized_total",
        "Clients that got all topic notifications again because their queue was too long.",
        counters.resynchronized,
    );
    let missing = "Notifications of missing topics that were dropped because a client's queue was full.";
    e.counter("tieline_topics_missing_dropped_total", missing, counters.missing_untold);
    e.counter(
        "tieline_topics_type_mismatches_total",
        "Messages refused because their payload did not have the declared type.",
        counters.type_mismatches,
    );
    e.counter("tieline_topics_removed_total", "Values removed by a declared removal time.", counters.removed);
    e.gauge("tieline_series_bytes", "Bytes of event series.", seen.series.0);
    e.counter(
        "tieline_series_dropped_total",
        "Events removed because mqtt.series_bytes_max was reached.",
        seen.series.1,
    );
    e.counter("tieline_mqtt_connected_total", "Accepted clients.", counters.connected);
    e.counter(
        "tieline_mqtt_unauthenticated_refused_total",
        "Connections closed because too many were unauthenticated.",
        counters.unauthenticated_refused,
    );
    e.counter(
        "tieline_mqtt_ended_full_total",
        "Clients disconnected because their queue was full.",
        counters.ended_full,
    );
    session_metrics(e, seen);
    socket_shard_metrics(e, &seen.sockets);
    end_metrics(e, &seen.ends);
    e.counter("tieline_topics_forgotten_total", "Idle topics removed to free memory.", tree.idle_forgotten);
}

/// The names are those that Prometheus' own clients use.
fn process_metrics(e: &mut Exposition, usage: &Usage) {
    e.counter("process_cpu_seconds_total", "Processor time, user and system.", usage.cpu.as_secs_f64());
    e.gauge("process_resident_memory_bytes", "Resident memory in bytes.", usage.resident_bytes);
    e.gauge("process_open_fds", "Open file descriptors.", usage.descriptors);
}

fn http_metrics(e: &mut Exposition, about: &About, seen: &Seen) {
    about.http.expose("tieline_http", e);
    let (recalls, recalls_refused) = about.recalls.seen();
    let (tails, tails_refused) = about.tails.seen();
    e.gauge("tieline_http_recalls", "Responses from history in progress.", recalls);
    e.gauge("tieline_http_tails", "Readers that follow history.", tails);
    e.counter(
        "tieline_http_recalls_refused_total",
        "History requests refused because too many were in progress.",
        recalls_refused + tails_refused,
    );
    let (asks, asks_refused) = seen.asks;
    e.gauge("tieline_requests_waiting", "Requests over HTTP and MQTT that wait for the bus.", asks);
    e.counter(
        "tieline_requests_refused_total",
        "Requests refused because too many waited, of the user or in total.",
        asks_refused,
    );
}

fn end_metrics(e: &mut Exposition, ends: &Ends) {
    let Ends { by_reason, unauthenticated_ended, websocket_faults, subscriptions_refused } = ends;
    e.family("tieline_mqtt_ended_total", "Clients disconnected by the node, by MQTT reason code.", "counter");
    for (reason, count) in by_reason {
        let code = format!("0x{:02x}", reason.code());
        e.sample("tieline_mqtt_ended_total", &[("code", &code), ("reason", reason.words())], *count);
    }
    let unauthenticated = "Connections that ended before their client was accepted.";
    e.counter("tieline_mqtt_unauthenticated_ended_total", unauthenticated, *unauthenticated_ended);
    e.counter(
        "tieline_mqtt_websocket_faults_total",
        "Connections that violated the WebSocket protocol.",
        *websocket_faults,
    );
    e.counter("tieline_mqtt_subscriptions_refused_total", "Subscriptions refused.", *subscriptions_refused);
}

fn session_metrics(e: &mut Exposition, seen: &Seen) {
    let ((sessions, bytes), counters, lag) = (seen.away, &seen.counters, &seen.lag);
    e.gauge("tieline_mqtt_late_sessions", "Clients whose socket does not take all data that is due.", lag.sessions);
    e.gauge("tieline_mqtt_late_seconds", "Greatest lag of a client in seconds.", lag.longest.as_secs_f64());
    e.gauge("tieline_mqtt_waiting", "Topics and messages queued for clients.", lag.waiting);
    e.gauge("tieline_mqtt_waiting_bytes", "Bytes of encoded messages that wait for clients.", lag.bytes);
    e.counter("tieline_mqtt_packets_in_total", "MQTT packets received from clients.", counters.packets_in);
    e.counter(
        "tieline_mqtt_published_bytes_total",
        "Bytes of payloads that clients published.",
        counters.published_bytes,
    );
    e.gauge("tieline_mqtt_away_sessions", "MQTT sessions of disconnected clients.", sessions);
    e.gauge("tieline_mqtt_away_bytes", "Bytes queued for disconnected clients.", bytes);
    e.counter(
        "tieline_mqtt_withheld_total",
        "Queued messages dropped because the client may no longer read their topic.",
        counters.withheld,
    );
    e.counter("tieline_mqtt_resumed_total", "Sessions resumed over a new connection.", counters.resumed);
    e.counter(
        "tieline_mqtt_expired_total",
        "Sessions that expired while their client was disconnected.",
        counters.sessions_expired,
    );
    e.counter("tieline_mqtt_wills_total", "Wills published.", counters.wills);
    e.counter(
        "tieline_mqtt_redelivered_total",
        "Messages of shared subscriptions given to another session.",
        counters.redelivered,
    );
    e.counter(
        "tieline_mqtt_unshared_total",
        "Messages of shared subscriptions that no session could take.",
        counters.unshared,
    );
}

fn edit_metrics(e: &mut Exposition, about: &About) {
    let Some(history) = &about.history else { return };
    let (active, refused) = history.edit_counters();
    e.gauge("tieline_history_edits", "Edits and annotations of history that are not undone.", active);
    e.counter("tieline_history_edits_refused_total", "Edits refused because there were enough.", refused);
}

fn history_metrics(e: &mut Exposition, seen: &Seen) {
    let (state, _) = seen.history();
    let states =
        ["ok", "catching_up", "disk_full", "hung", "failed", "off"].map(|known| (known, u8::from(known == state)));
    e.labelled(
        ("tieline_history_state", "1 for the current state of history, 0 for the others.", "gauge"),
        "state",
        states,
    );
    let Some(status) = &seen.history else { return };
    e.gauge(
        "tieline_history_backlog_records",
        "Journal records that the store has not read.",
        status.backlog_records(),
    );
    e.gauge("tieline_history_queued_points", "Points that wait for the journal.", status.queued_points);
    e.counter(
        "tieline_history_journaled_points_total",
        "Points that the journal made durable.",
        status.journaled_points,
    );
    e.counter("tieline_history_stored_points_total", "Points written to the store.", status.stored_points);
    e.counter(
        "tieline_history_dropped_points_total",
        "Points not recorded; nobody waited for an acknowledgement.",
        status.dropped_points,
    );
    e.counter(
        "tieline_history_refused_points_total",
        "Points not recorded; their publishers or devices got no acknowledgement.",
        status.refused_points,
    );
    e.counter("tieline_history_lost_records_total", "Journal records that were damaged.", status.lost_records);
    e.counter("tieline_history_removed_samples_total", "Samples removed by age or size.", status.removed_samples);
    let deleted = "Samples deleted because somebody asked for it.";
    e.counter("tieline_history_deleted_samples_total", deleted, status.deleted_samples);
    e.gauge("tieline_journal_bytes", "Bytes of the journal.", status.journal_bytes);
    let kept = "Of these, bytes that are kept for databases alone.";
    e.gauge("tieline_journal_kept_bytes", kept, status.journal_kept_bytes);
    e.gauge("tieline_store_bytes", "Bytes of the store.", status.store_bytes);
    e.gauge("tieline_history_memory_bytes", "Bytes of samples in memory.", status.memory_bytes);
    e.counter("tieline_history_chunks_total", "Chunks of samples written.", status.chunks);
    let downsampled = "Samples in the place of which others stand, by rules of retention.";
    e.counter("tieline_history_downsampled_samples_total", downsampled, status.rules.downsampled);
    let rewritten = "Days written again because of rules of retention.";
    e.counter("tieline_history_day_files_rewritten_total", rewritten, status.rules.days);
    let rewritten = "Bytes of day files written again because of rules of retention.";
    e.counter("tieline_history_rewritten_bytes_total", rewritten, status.rules.bytes);
    e.counter("tieline_history_chunk_bytes_total", "Bytes of chunks and day files written.", status.chunk_bytes);
    e.counter("tieline_history_day_files_total", "Days written as a file.", status.closed_days);
    let migration = status.migration.map(|migration| migration.topics - migration.topics_done);
    e.gauge(
        "tieline_history_migration_topics",
        "Topics whose history of an earlier release is not moved yet.",
        migration.unwrap_or(0),
    );
    let under_way = "Age of the current write; 0 if there is none.";
    e.gauge("tieline_history_write_age_seconds", under_way, status.under_way.as_secs_f64());
    e.counter("tieline_history_hung_total", "Writes that took longer than 5 s.", status.hung);
}

fn ledger_metrics(e: &mut Exposition, status: &LedgerStatus) {
    let state = status.state.name();
    let states = ["ok", "disk_full", "failed", "hung", "mending", "off"].map(|known| (known, u8::from(known == state)));
    e.labelled(
        ("tieline_ledger_state", "1 for the current state of the ledger, 0 for the others.", "gauge"),
        "state",
        states,
    );
    if status.state == LedgerState::Off {
        return;
    }
    e.gauge("tieline_ledger_bytes", "Bytes of the ledger.", status.bytes);
    e.gauge("tieline_ledger_waiting_bytes", "Bytes that wait for the disk.", status.waiting_bytes);
    e.counter("tieline_ledger_batches_total", "Batches written to the disk.", status.batches);
    e.counter("tieline_ledger_changes_total", "Changes written.", status.changes);
    e.counter("tieline_ledger_refused_total", "Messages that could not be made durable.", status.refused);
    let lost = status.lost.clone().unwrap_or_default();
    e.gauge("tieline_ledger_lost_batches", "Batches that could not be read at the start.", lost.records);
    e.gauge("tieline_ledger_lost_sessions", "Sessions that ended because of them.", lost.sessions);
    e.gauge("tieline_ledger_lost_values", "Last values lost because of them.", lost.values);
    e.counter("tieline_ledger_compactions_total", "Compactions of the ledger.", status.compactions);
    e.gauge("tieline_ledger_batch_seconds", "Duration of the last batch, with its sync.", status.last.as_secs_f64());
    let under_way = "Age of the current batch; 0 if there is none.";
    e.gauge("tieline_ledger_batch_age_seconds", under_way, status.under_way.as_secs_f64());
    e.counter("tieline_ledger_hung_total", "Batches that took longer than 5 s.", status.hung);
}

fn command_metrics(e: &mut Exposition, seen: &Seen) {
    let (stats, audit_failed) = (&seen.commands.control, seen.audit_trouble.is_some());
    let ends = [
        ("succeeded", stats.succeeded),
        ("refused", stats.refused),
        ("failed", stats.failed),
        ("dropped", stats.dropped),
        ("timed_out", stats.timed_out),
        ("lost", stats.lost),
    ];
    e.labelled(("tieline_commands_total", "Requests by result.", "counter"), "end", ends);
    e.gauge("tieline_audit_failed", "1 while the audit log cannot be written.", u8::from(audit_failed));
    let under_way = "Age of the current write of an audit record; 0 if there is none.";
    e.gauge("tieline_audit_write_age_seconds", under_way, seen.audit_under_way.as_secs_f64());
    e.gauge("tieline_commands_under_way", "Commands that wait or are in progress.", stats.under_way);
}

fn control_metrics(e: &mut Exposition, stats: &CoordinatorStats) {
    e.gauge("tieline_control_reservations", "Reservations.", stats.tasks);
    e.gauge("tieline_control_overrides", "Overrides that are on.", stats.overrides);
    e.gauge("tieline_control_tags", "Tags on devices and points.", stats.tags);
    e.gauge(
        "tieline_control_held_points",
        "Points that are reverted when their reservation ends, or are being.",
        stats.holds,
    );
    e.gauge(
        "tieline_control_points_under_way",
        "Points of calls without a result, and reverts in progress.",
        stats.jobs,
    );
    let confirmations = [("confirmed", stats.confirmed), ("unconfirmed", stats.unconfirmed)];
    let name = "tieline_control_confirmations_total";
    e.labelled((name, "Commands that waited for a reading, by result.", "counter"), "end", confirmations);
    e.counter("tieline_control_reverted_total", "Points reverted.", stats.reverted);
    e.counter(
        "tieline_control_revert_failures_total",
        "Failed attempts to revert a point; they are repeated.",
        stats.revert_failures,
    );
    e.counter(
        "tieline_control_superseded_total",
        "Reverts that the next holder's command made unnecessary.",
        stats.superseded,
    );
    e.counter(
        "tieline_control_holders_gone_total",
        "Holders whose MQTT session ended or that did not return.",
        stats.holders_gone,
    );
    e.counter(
        "tieline_control_leases_expired_total",
        "Reservations that ended because their holder made no call for the time of their lease.",
        stats.leases_expired,
    );
    e.counter(
        "tieline_control_holds_lost_total",
        "Held points that are not reverted: too many, or the point is gone.",
        stats.holds_lost,
    );
    e.counter(
        "tieline_control_events_lost_total",
        "Changes of reservations that were not published.",
        stats.events_lost,
    );
}

fn audit_metrics(e: &mut Exposition, seen: &Seen) {
    let files = &seen.audit_files;
    let summed = seen.access.as_ref().map_or(0, |access| access.summed);
    e.counter("tieline_audit_summed_total", "Refusals and denials that the audit log has only as a number.", summed);
    e.gauge("tieline_audit_files", "Files of the audit log.", files.files);
    e.gauge("tieline_audit_bytes", "Bytes of them.", files.bytes);
    e.counter(
        "tieline_audit_removed_total",
        "Files of the audit log removed because of its size limit.",
        files.removed,
    );
    e.gauge("tieline_audit_broken", "Records that failed verification at the start.", files.broken);
}

fn view_metrics(e: &mut Exposition, seen: &Seen) {
    let Some(stats) = &seen.views else { return };
    e.gauge("tieline_views_derived", "Topics that views derive.", stats.derived);
    e.gauge("tieline_views_contributions", "Contributions of sources to derived topics.", stats.contributions);
    e.gauge("tieline_views_waiting", "Changes that are delayed or throttled.", stats.waiting);
    e.counter("tieline_views_updates_total", "Updates that a view processed.", stats.updates);
    e.counter("tieline_views_changes_total", "Changes of derived topics.", stats.changes);
    e.counter("tieline_views_refused_total", "Sources or items left out because there were too many.", stats.refused);
    e.counter(
        "tieline_views_flushed_early_total",
        "Delayed changes that were applied early because too many waited.",
        stats.flushed_early,
    );
}

fn tls_metrics(e: &mut Exposition, expiries: Vec<Expiry>, now: Now) {
    let name = "tieline_tls_certificate_expires_seconds";
    e.family(name, "Seconds until a TLS certificate expires; negative if it has expired.", "gauge");
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
