//! `/v1/locks`: the locks of MQTT sessions, and in `/metrics`.

use super::authorization::Authenticated;
use super::body::{Answer, Json};
use super::problem::Problem;
use super::topics::Done;
use crate::access::denial;
use crate::bus::line_of;
use crate::bus::locks::right;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tieline_access::Verb;
use tieline_service::exposition::Exposition;
use tieline_service::http::parameters::{Query, Whole};
use tieline_service::parameters;
use tieline_topics::LockCounters;

parameters! {
    /// Which locks are asked for.
    pub struct LocksAsked {
        /// Locks behind this one; the member next of the page before
        after: Option<String>,
        /// Entries of the page
        limit: Whole<1, 10_000> = "1000",
    }
}

/// Locks, sorted by name
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Locks")]
pub struct LockList {
    locks: Vec<LockShown>,
    /// The last lock of the page, where there are more
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// All locks of this node that are held
    held: usize,
    /// All requests for locks of this node that wait
    waiting: usize,
}

/// A lock of an MQTT session
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Lock")]
struct LockShown {
    name: String,
    /// The client that has it; absent while the number of its acquisition is written to the disk
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// The session of the edge by which it has it; absent of a client of this node
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<String>,
    /// The upstream whose lock it is, on an edge: of its locks, only those that clients of the edge have or wait for are known
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
    /// What ends it, beside its release
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["session", "connection"]))]
    scope: Option<&'static str>,
    /// The number of the acquisition, higher than those of all before it
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    /// When it was acquired
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    since: Option<String>,
    /// Sessions that wait for it; of a lock of the upstream, those of this node
    waiting: usize,
}

/// What `POST /v1/locks/release` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LockRelease")]
pub struct Release {
    /// The name of the lock
    lock: String,
}

/// A lock that was taken away
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "LockReleased")]
pub struct Released {
    status: Done,
}

/// Locks that are held or waited for.
pub async fn list(
    authenticated: Authenticated,
    Query(LocksAsked { after, limit: Whole(limit) }): Query<LocksAsked>,
) -> Result<Answer<LockList>, Problem> {
    let authorized = authenticated.must(Verb::Read, "$SYS/locks").await?;
    let look = move |bus: &mut crate::bus::Bus, _| (bus.list_locks(after.as_deref(), limit + 1), bus.lock_counters());
    let (mut seen, LockCounters { held, waiting, .. }) = authorized.app.bus.ask_once(&authorized.share(), look).await?;
    let is_more = seen.len() > limit;
    seen.truncate(limit);
    let next = seen.last().filter(|_| is_more).map(|last| last.name.clone());
    let shown = seen.into_iter().map(|lock| LockShown {
        name: lock.name,
        client: lock.client,
        via: lock.via,
        upstream: lock.upstream,
        scope: lock.scope,
        number: lock.number,
        since: lock.since.map(|since| since.to_string()),
        waiting: lock.waiting,
    });
    Ok(Answer(LockList { locks: shown.collect(), next, held, waiting }))
}

/// Takes a lock away from the session that has it.
pub async fn release(
    authenticated: Authenticated,
    Json(Release { lock }): Json<Release>,
) -> Result<Answer<Released>, Problem> {
    let authorized = authenticated.must(Verb::Admin, &right(&lock)).await?;
    let (who, name) = (authorized.who(), lock.clone());
    let released = authorized.app.bus.call(move |bus, now| {
        let detail = format!("the lock {name} was taken away from the session that had it");
        let line = line_of(denial(now, &who, "lock_released", "admin", &right(&name), "", detail));
        bus.revoke_lock(now, &name, line)
    });
    match released.await? {
        true => Ok(Answer(Released { status: Done::Ok })),
        false => Err(Problem::not_found(format!("no session has the lock {lock}"))),
    }
}

pub(super) fn metrics(e: &mut Exposition, locks: &LockCounters) {
    let LockCounters { held, waiting, acquired, refused_held, timed_out, limited, unnumbered, ended, revoked } = *locks;
    e.gauge("tieline_locks_held", "Locks that MQTT sessions have.", held);
    e.gauge("tieline_locks_waiting", "Requests for locks that wait.", waiting);
    e.counter("tieline_locks_acquired_total", "Locks that were acquired.", acquired);
    let refused = ("tieline_locks_refused_total", "Requests for locks that were refused, by reason.", "counter");
    let reasons = [("held", refused_held), ("timeout", timed_out), ("limit", limited), ("disk", unnumbered)];
    e.labelled(refused, "reason", reasons);
    let ended_help = "Locks that ended with their session or connection.";
    e.counter("tieline_locks_ended_total", ended_help, ended);
    e.counter("tieline_locks_revoked_total", "Locks that an operator took away.", revoked);
}
