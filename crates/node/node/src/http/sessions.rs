//! `/v1/sessions` and `/v1/busiest`.

use super::authorization::Authenticated;
use super::json;
use super::problem::Problem;
use super::query::{Query, wrong};
use crate::bus::SessionOrder;
use axum::extract::RawQuery;
use axum::response::Response;
use tieline_access::Verb;

/// MQTT clients that are connected, in an order.
pub async fn sessions(authenticated: Authenticated, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let authorized = authenticated.must(Verb::Read, "$SYS/sessions").await?;
    let query = Query::new(query.as_deref(), &["limit", "client", "order"])?;
    let limit = query.limit(100, 10_000)?;
    let part = query.text("client").unwrap_or_default().to_owned();
    let order = match query.text("order") {
        None => SessionOrder::Lag,
        Some(text) => SessionOrder::named(text)
            .ok_or_else(|| wrong("order", text, &SessionOrder::ALL.map(|(_, word, _)| word).join(", ")))?,
    };
    let look = move |bus: &mut crate::bus::Bus, now: tieline_core::Now| {
        (bus.sessions(now.mono, order, limit, &part), bus.client_count(), bus.away().0)
    };
    let (seen, connected, away) = authorized.app.bus.ask_once(&authorized.share(), look).await?;
    let sessions: Vec<_> = seen
        .into_iter()
        .map(|session| {
            serde_json::json!({
                "client": session.client,
                "subscriptions": session.subscriptions,
                "waiting": session.waiting,
                "waiting_bytes": session.waiting_bytes,
                "late_ms": u64::try_from(session.late.as_millis()).unwrap_or(u64::MAX),
                "blocked": session.blocked,
                "deltas": session.deltas,
                "messages_out": session.messages_out,
                "bytes_out": session.bytes_out,
                "messages_per_s": tenths(session.messages_per_s),
                "bytes_per_s": tenths(session.bytes_per_s),
                "conflated": session.conflated,
                "dropped": session.dropped,
                "lost": session.lost,
            })
        })
        .collect();
    Ok(json(serde_json::json!({ "sessions": sessions, "connected": connected, "away": away }).to_string()))
}

/// The topics with the most updates, of those that the caller may read.
pub async fn busiest(authenticated: Authenticated, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let authorized = authenticated.must(Verb::Read, "$SYS/topics").await?;
    let limit = Query::new(query.as_deref(), &["limit"])?.limit(20, 500)?;
    let (share, caller) = (authorized.share(), authorized.caller);
    let shows = move |topic: &str| caller.may(Verb::Read, topic);
    let seen = authorized.app.bus.ask_once(&share, move |bus, now| bus.busiest_topics(now.mono, limit, shows)).await?;
    let seconds = seen.window.as_secs_f64();
    let per_s = |count: u64| if seconds > 0.0 { tenths(count as f64 / seconds) } else { 0.0 };
    let topics: Vec<_> = seen
        .topics
        .iter()
        .map(|busy| {
            serde_json::json!({
                "topic": busy.topic.as_str(),
                "updates": busy.updates,
                "over": busy.over,
                "bytes": busy.bytes,
                "updates_per_s": per_s(busy.updates),
                "bytes_per_s": per_s(busy.bytes),
            })
        })
        .collect();
    let answer = serde_json::json!({ "window_s": tenths(seconds), "updates": seen.updates, "topics": topics });
    Ok(json(answer.to_string()))
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
