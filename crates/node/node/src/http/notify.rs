//! `/v1/notify`: who is told of alarms, what waits for them, and a test; and as metrics.

use super::authorization::Authenticated;
use super::body::{Answer, Json};
use super::problem::Problem;
use crate::bus::alarms::Notifications;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tieline_access::Verb;
use tieline_core::Words as _;
use tieline_senders::{Full, ReceiverState};
use tieline_service::exposition::Exposition;

/// What a caller must have admin on.
pub(super) const TOPIC: &str = "$notify";
/// How long a test is waited for: an attempt ends before, unless one is under way.
const TEST_WITHIN: Duration = Duration::from_mins(1);

/// Who is told of alarms
#[derive(JsonSchema, Serialize)]
pub struct NotifyShown {
    receivers: Vec<ReceiverShown>,
    /// Routes that are configured
    routes: usize,
    /// Messages that have not arrived yet
    waiting: u64,
    /// Messages that were not sent: too many waited, or their receiver is configured no longer
    dropped: u64,
}

/// A receiver of notifications
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct ReceiverShown {
    name: String,
    #[schemars(extend("enum" = ["webhook", "alertmanager", "smtp", "mqtt"]))]
    kind: &'static str,
    /// Messages that have not arrived yet
    waiting: usize,
    /// When a message last arrived
    delivered: Option<String>,
    /// Since when each attempt has failed; null: the last one did not
    failing_since: Option<String>,
    /// The last attempt that failed
    last_failure: Option<FailureShown>,
    /// When a message last found nobody on call: it went to the next step
    nobody: Option<String>,
}

/// An attempt that failed
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct FailureShown {
    time: String,
    detail: String,
}

/// Whom to send a test to
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotifyTest {
    /// The name of a receiver
    to: String,
}

/// What became of a test
#[derive(JsonSchema, Serialize)]
pub struct NotifyTested {
    to: String,
    /// The receiver has it
    delivered: bool,
    /// Why it has not
    detail: String,
}

impl ReceiverShown {
    fn of(name: &str, state: ReceiverState) -> Self {
        let ReceiverState { kind, waiting, delivered, failure, failing_since, nobody } = state;
        Self {
            name: name.to_owned(),
            kind: kind.word(),
            waiting,
            delivered: delivered.map(|time| time.to_string()),
            failing_since: failing_since.map(|time| time.to_string()),
            last_failure: failure.map(|(time, detail)| FailureShown { time: time.to_string(), detail }),
            nobody: nobody.map(|time| time.to_string()),
        }
    }
}

/// Shows receivers and how they are doing.
pub async fn list(authenticated: Authenticated) -> Result<Answer<NotifyShown>, Problem> {
    let authorized = authenticated.must(Verb::Admin, TOPIC).await?;
    let notifications = &authorized.app.notifications;
    let routes = notifications.routes();
    let Some(desk) = notifications.desk() else {
        return Ok(Answer(NotifyShown { receivers: Vec::new(), routes, waiting: 0, dropped: 0 }));
    };
    let counts = desk.counts();
    let receivers = counts.receivers().into_iter().map(|(name, state)| ReceiverShown::of(&name, state)).collect();
    let (waiting, dropped) = (counts.waiting.load(Ordering::Relaxed), counts.dropped.load(Ordering::Relaxed));
    Ok(Answer(NotifyShown { receivers, routes, waiting, dropped }))
}

/// Sends a test to a receiver, and says whether it has arrived.
pub async fn test(
    authenticated: Authenticated,
    Json(asked): Json<NotifyTest>,
) -> Result<Answer<NotifyTested>, Problem> {
    let authorized = authenticated.must(Verb::Admin, TOPIC).await?;
    let NotifyTest { to } = asked;
    let unknown = || Problem::new(StatusCode::NOT_FOUND, format!("there is no receiver {to}"));
    let desk = authorized.app.notifications.desk().ok_or_else(unknown)?;
    if !desk.counts().receivers().contains_key(&*to) {
        return Err(unknown());
    }
    let busy = |Full| Problem::unavailable("too many notifications wait".to_owned());
    let answer = desk.test(&to).map_err(busy)?;
    let waited = tokio::task::spawn_blocking(move || answer.recv_timeout(TEST_WITHIN)).await;
    let (delivered, detail) = match waited {
        Ok(Ok(Ok(()))) => (true, String::new()),
        Ok(Ok(Err(failure))) => (false, failure.why),
        Ok(Err(_)) => (false, "it waits for another message to the receiver".to_owned()),
        Err(error) => return Err(Problem::unavailable(error.to_string())),
    };
    Ok(Answer(NotifyTested { to, delivered, detail }))
}

/// Notifications in `/metrics`; nothing where no receiver is configured.
pub(super) fn metrics(e: &mut Exposition, notifications: &Notifications) {
    let Some(desk) = notifications.desk() else { return };
    let counts = desk.counts();
    let ends = ("tieline_notifications_total", "Notifications that ended, by kind of receiver and end.", "counter");
    e.family(ends.0, ends.1, ends.2);
    for (kind, end, count) in counts.ends() {
        e.sample(ends.0, &[("kind", kind), ("end", end)], count);
    }
    let load = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    e.gauge("tieline_notifications_waiting", "Notifications that have not arrived yet.", load(&counts.waiting));
    let failures = "Attempts to send a notification that failed.";
    e.counter("tieline_notifications_failures_total", failures, load(&counts.failures));
    let dropped = "Notifications and alarms that there were too many of.";
    e.counter("tieline_notifications_dropped_total", dropped, load(&counts.dropped));
    let unwritten = "Writes of the file of notifications that failed.";
    e.counter("tieline_notifications_unwritten_total", unwritten, load(&counts.unwritten));
    let receivers = counts.receivers();
    let failing = receivers.iter().map(|(name, state)| (name, u8::from(state.failing_since.is_some())));
    let help = "1 while the last attempt to send to the receiver failed.";
    e.labelled(("tieline_notification_receiver_failing", help, "gauge"), "receiver", failing);
}
