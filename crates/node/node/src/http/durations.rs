//! How long requests take, and all histograms of `/metrics`.

use super::App;
use super::status::Seen;
use crate::field::Counted;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use std::time::Instant;
use tieline_core::{Histogram, SharedHistogram};
use tieline_service::exposition::Exposition;

/// Kinds of routes: one for each route would be a thousand time series.
const ROUTES: [&str; 3] = ["values", "history", "other"];
/// Where routes of values begin.
const VALUES: [&str; 3] = ["/v1/topics", "/v1/publish", "/v1/get"];
/// Where routes of the history begin: Grafana asks for it by the first.
const HISTORY: [&str; 2] = ["/graphite", "/v1/history"];

/// From the head of a request to the head of its answer, by kind of route.
#[derive(Clone, Debug, Default)]
pub struct RequestDurations(Arc<[SharedHistogram; ROUTES.len()]>);

/// The kind of the route at a path, as a place in [`ROUTES`].
fn kind_of(path: &str) -> usize {
    let begins = |with: &&str| path.starts_with(*with);
    match (VALUES.iter().any(begins), HISTORY.iter().any(begins)) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}

/// Measures a request.
pub(super) async fn measure(State(durations): State<RequestDurations>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let kind = kind_of(request.uri().path());
    let response = next.run(request).await;
    durations.0.get(kind).into_iter().for_each(|kind| kind.record(began.elapsed()));
    response
}

/// Adds all histograms.
pub(super) fn metrics(e: &mut Exposition, app: &App, seen: &Seen, answers: &Counted) {
    let about = &app.about;
    let acknowledged = "From a message of QoS 1 or 2 to its acknowledgement, by sample.";
    e.histogram("tieline_publish_ack_seconds", acknowledged, &seen.acknowledgements);
    let turns = "Turns of the bus: what has come is applied, and what is due is sent.";
    e.histogram("tieline_bus_turn_seconds", turns, &seen.turns);
    let commands = "From a request to command a point to its result, of those that were not refused.";
    e.histogram("tieline_command_seconds", commands, &seen.command_durations);
    let responses = "From a poll of a device to the end of its answer.";
    e.histogram("tieline_device_response_seconds", responses, &answers.responses);
    if let Some(status) = &seen.history {
        let syncs = "Writes and syncs of the journal.";
        e.histogram("tieline_journal_sync_seconds", syncs, &status.syncs);
        let batches = "Batches that the store was given.";
        e.histogram("tieline_store_batch_seconds", batches, &status.store_batches);
        let queries = "From a query of the history to the first bytes of its answer.";
        e.histogram("tieline_history_query_seconds", queries, &about.recalls.queries().look());
    }
    let name = "tieline_http_request_seconds";
    e.family(name, "From the head of an HTTP request to the head of its answer, by kind of route.", "histogram");
    for (route, durations) in ROUTES.iter().zip(&*about.requests.0) {
        let durations: Histogram = durations.look();
        e.histogram_samples(name, &[("route", *route)], &durations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_is_of_a_kind() {
        let check = |path: &str, expect: &str| assert_eq!(ROUTES.get(kind_of(path)), Some(&expect), "{path}");
        check("/v1/topics/plant/volts", "values");
        check("/v1/publish", "values");
        check("/v1/history/tail", "history");
        check("/graphite/render", "history");
        check("/metrics", "other");
        check("", "other");
    }
}
