//! Other people's databases: in `/v1/status`, in health and as metrics.

use super::status::Seen;
use schemars::JsonSchema;
use serde::Serialize;
use tieline_history::DatabaseStatus;
use tieline_service::exposition::Exposition;

/// A database that history is written to
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
pub struct DatabaseShown {
    name: String,
    kind: &'static str,
    #[schemars(extend("enum" = ["ok", "away", "connecting"]))]
    state: &'static str,
    /// Why nothing is written
    detail: String,
    /// Journal records that wait; null until the database has said what it has
    backlog: Option<u64>,
    /// Samples written since the start
    written: u64,
    /// Journal records that it will never get: they were given up or damaged
    missing: u64,
}

fn all(seen: &Seen) -> &[DatabaseStatus] {
    seen.history.as_ref().map_or(&[], |status| &status.databases)
}

pub(super) fn shown(seen: &Seen) -> Vec<DatabaseShown> {
    let each = |status: &DatabaseStatus| DatabaseShown {
        name: status.name.clone(),
        kind: status.kind,
        state: state_of(status),
        detail: status.trouble.clone().unwrap_or_default(),
        backlog: status.backlog_records,
        written: status.written_points,
        missing: status.missing_records + status.given_up_records,
    };
    all(seen).iter().map(each).collect()
}

const fn state_of(status: &DatabaseStatus) -> &'static str {
    match (&status.trouble, status.position) {
        (Some(_), _) => "away",
        (None, Some(_)) => "ok",
        (None, None) => "connecting",
    }
}

/// What a person must see to: nothing is lost yet, or samples are given up (true).
pub(super) fn trouble(seen: &Seen) -> Vec<(bool, String)> {
    let each = |status: &DatabaseStatus| {
        let why = status.trouble.as_ref()?;
        let (name, away, given_up) = (&status.name, status.away.as_secs(), status.given_up_records);
        let what = match status.backlog_records {
            _ if given_up > 0 => format!("{given_up} journal records were given up"),
            Some(waiting) => format!("{waiting} journal records wait"),
            None => "how many journal records wait is not known".to_owned(),
        };
        Some((given_up > 0, format!("database {name}: away for {away} s, {what}: {why}")))
    };
    all(seen).iter().filter_map(each).collect()
}

pub(super) fn metrics(e: &mut Exposition, seen: &Seen) {
    let databases = all(seen);
    if databases.is_empty() {
        return;
    }
    let mut family = |name: &str, help: &str, kind: &str, of: &dyn Fn(&DatabaseStatus) -> f64| {
        e.labelled((name, help, kind), "database", databases.iter().map(|status| (&status.name, of(status))));
    };
    let is_up = |status: &DatabaseStatus| f64::from(u8::from(state_of(status) == "ok"));
    family("tieline_database_up", "1 while samples are written to the database.", "gauge", &is_up);
    let seconds = |status: &DatabaseStatus| status.away.as_secs_f64();
    family("tieline_database_away_seconds", "Time since when nothing can be written.", "gauge", &seconds);
    let seconds = |status: &DatabaseStatus| status.last_batch.as_secs_f64();
    family("tieline_database_batch_seconds", "Duration of the last batch.", "gauge", &seconds);
    let waiting = databases.iter().filter_map(|status| Some((&status.name, status.backlog_records?)));
    e.labelled(("tieline_database_backlog_records", "Journal records that wait.", "gauge"), "database", waiting);
    type Count = (&'static str, &'static str, &'static str, fn(&DatabaseStatus) -> u64);
    let counts: [Count; 8] = [
        ("tieline_database_given_up_records", "Journal records that were given up meanwhile.", "gauge", |s| {
            s.given_up_records
        }),
        ("tieline_database_missing_records_total", "Journal records that it does not get.", "counter", |s| {
            s.missing_records
        }),
        ("tieline_database_written_points_total", "Points written.", "counter", |s| s.written_points),
        ("tieline_database_skipped_points_total", "Points that it has no place for.", "counter", |s| s.skipped_points),
        ("tieline_database_rejected_points_total", "Points that it refused for their values.", "counter", |s| {
            s.rejected_points
        }),
        ("tieline_database_batches_total", "Batches written.", "counter", |s| s.batches),
        ("tieline_database_connects_total", "Connections made.", "counter", |s| s.connects),
        ("tieline_database_failures_total", "Attempts to connect or to write that failed.", "counter", |s| s.failures),
    ];
    for (name, help, kind, of) in counts {
        e.labelled((name, help, kind), "database", databases.iter().map(|status| (&status.name, of(status))));
    }
}
