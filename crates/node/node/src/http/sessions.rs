//! `/v1/sessions`.

use super::access::Caller;
use super::problem::Problem;
use super::query::Query;
use super::{App, json};
use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use tieline_access::Verb;

/// MQTT clients that are connected, those that are furthest behind first.
pub async fn sessions(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    caller.must(&app, Verb::Read, "$SYS/sessions").await?;
    let query = Query::new(query.as_deref(), &["limit"])?;
    let limit = query.limit(100, 10_000)?;
    let seen = app.bus.call(move |bus, _| bus.sessions_by_lag(limit)).await?;
    let sessions: Vec<_> = seen
        .into_iter()
        .map(|session| {
            serde_json::json!({
                "client": session.client,
                "subscriptions": session.subscriptions,
                "waiting": session.waiting,
                "blocked": session.blocked,
                "deltas": session.deltas,
                "messages_out": session.messages_out,
                "octets_out": session.octets_out,
                "conflated": session.conflated,
                "dropped": session.dropped,
            })
        })
        .collect();
    Ok(json(serde_json::json!({ "sessions": sessions }).to_string()))
}
