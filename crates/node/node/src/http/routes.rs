//! The table of all routes, and the OpenAPI document that is made of it.
//!
//! A handler's first argument says who may call its route; its other arguments and its answer say what is in the document.
//! What types cannot say are the words here.

mod alarms;
mod drawings;
mod graphite;
mod logins;
mod notify;
mod users;

use super::authorization::{Protected, Public, routes as none_yet};
use super::body::Written;
use super::{
    access, backups, clock, cluster, command, console, control, derived, device_metrics, devices, history,
    history_compaction, history_deletion, history_edits, history_import, history_states, history_stats, history_tail,
    joining, locks, metrics, reload, sessions, sites, status, tags, topics, trace, values,
};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use tieline_service::http::openapi::Operation as Op;
use tieline_service::http::routes::Routes;

/// Each route of a node.
pub fn routes() -> Routes<Protected> {
    let routes = none_yet(console::file);
    let routes = of_devices(of_edits(of_history(of_topics(routes))));
    let routes = drawings::add(of_fabric(of_locks(of_monitoring(of_node(of_control(routes))))));
    notify::add(alarms::add(graphite::add(users::add(logins::add(routes)))))
}

fn of_topics(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get("/v1/topics", topics::list, Op::new("topics", "List topics with their last values, sorted by name"))
        .get(
            "/v1/topics/{*topic}",
            values::one,
            Op::new("topic", "Get the last value of a topic")
                .says(200, "The topic, or its events")
                .problem(404, "The topic has no value, or has no events"),
        )
        .put(
            "/v1/topics/{*topic}",
            values::put,
            Op::new("put_topic", "Set the value of a topic. The answer is sent when the value is stored")
                .says(200, "The change is stored")
                .problem(400, "The topic, a header or the body is wrong")
                .problem(422, NOT_HELD)
                .problem(507, FULL),
        )
        .delete(
            "/v1/topics/{*topic}",
            values::remove,
            Op::new("remove_topic", "Remove the value of a topic. The answer is sent when the change is stored")
                .says(200, "The change is stored")
                .problem(404, "The topic has no value")
                .problem(507, FULL),
        )
        .get("/v1/live", topics::live, Op::new("live", "Stream changes of values as server-sent events").about(LIVE))
        .post(
            "/v1/publish",
            topics::publish,
            Op::new("publish", "Publish a value to a topic. The answer is sent when the value is stored")
                .says(200, "The value is stored")
                .problem(400, "The body is no JSON, or the topic is wrong")
                .problem(422, "A member is missing or of the wrong type; or the topic does not accept the value")
                .problem(507, FULL),
        )
}

fn of_history(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get(
            "/v1/history",
            history::query,
            Op::new("history", "Query recorded values of topics")
                .says(200, "The recorded values, sorted by time")
                .problem(503, "History is off or cannot be read, or too much is under way"),
        )
        .put(
            "/v1/history",
            history_import::import,
            Op::new("importHistory", "Import samples of the past. The answer is sent when they are stored")
                .about("A sample with the same topic, time, value and quality as a stored one is ignored: a call can be repeated. \
                        Last values do not change, and subscribers get no message.")
                .problem(400, "The body is no JSON, or a sample is wrong; detail has its number")
                .problem(507, FULL),
        )
        .delete(
            "/v1/history",
            history_deletion::delete,
            Op::new("deleteHistory", "Delete recorded values. The answer is sent when their bytes are overwritten")
                .about("The audit log gets a record before and after the deletion. The last value of a topic is not part of the history and is kept.")
                .problem(400, "A time is wrong"),
        )
        .post(
            "/v1/history/compact",
            history_compaction::compact,
            Op::new("compactHistory", "Write each day that has ended to a Parquet file now, without waiting for late samples")
                .about("Days are UTC days. The answer is sent when the files are written. The audit log gets a record.")
                .problem(503, "History is off or cannot be written, or the clock is in doubt"),
        )
        .get(
            "/v1/history/stats",
            history_stats::stats,
            Op::new("historyStats", "Number of samples and bytes of each topic, the largest first")
                .problem(503, "History is off or cannot be read, or too much is under way"),
        )
        .get(
            "/v1/history/tail",
            history_tail::tail,
            Op::new("historyTail", "Stream samples since a time, then each new sample, as server-sent events")
                .about(TAIL)
                .problem(503, "History is off or cannot be read, or there are enough readers"),
        )
        .get(
            "/v1/history/states",
            history_states::query,
            Op::new("historyStates", "How long topics had each of their values")
                .about(STATES)
                .says(200, "States, by topic and bucket")
                .problem(
                    503,
                    "History is off or cannot be read, a topic has too many states, or too much is under way",
                ),
        )
}

fn of_edits(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get(
            "/v1/history/edits",
            history_edits::list,
            Op::new("historyEdits", "List edits and annotations of the history, the newest first")
                .about("The list includes edits that were undone: no edit is ever removed from it. A page may have fewer entries than limit.")
                .problem(400, "A parameter is wrong")
                .problem(503, "History is off or cannot be read, or too much is under way"),
        )
        .post(
            "/v1/history/edits",
            history_edits::make,
            Op::new("editHistory", "Correct recorded values, or add an annotation. The recorded values are kept")
                .about(EDITS)
                .problem(400, "The body is no JSON, or a member is wrong")
                .problem(503, "History is off or cannot be read")
                .problem(507, "The limit of edits is reached, or the disk is full"),
        )
        .post(
            "/v1/history/edits/{id}/undo",
            history_edits::undo,
            Op::new("undoHistoryEdit", "Undo an edit or an annotation. It stays in the list of edits")
                .about("The audit log gets a record.")
                .problem(404, "There is no such edit")
                .problem(409, "The edit is already undone")
                .problem(503, "History is off or cannot be read")
                .problem(507, "The disk is full"),
        )
}

fn of_devices(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get("/v1/devices", devices::list, Op::new("devices", "List devices with their health"))
        .get(
            "/v1/devices/{*topic}",
            devices::one,
            Op::new("device", "Get a device with its points").problem(404, "No such device"),
        )
        .get("/v1/points", devices::points, Op::new("points", "List the configuration of points"))
        .get(
            "/v1/trace/{*topic}",
            trace::trace,
            Op::new("trace", "Get the messages between the node and a device")
                .about(TRACE)
                .says(200, "Lines, events or a capture")
                .problem(404, "The device does not exist, or it was never away")
                .problem(
                    409,
                    "The device is not traced, its trace is not on the disk, or it has no connection to capture",
                )
                .problem(503, "The node is stopping or busy, or the limit of readers of the device is reached"),
        )
        .post("/v1/command", command::command, Op::new("command", "Command a point, and wait for the result"))
        .get(
            "/v1/audit",
            command::audit,
            Op::new(
                "audit",
                "Read the audit log: commands and their results, refusals, and changes of rights, the newest first",
            ),
        )
}

fn of_control(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get("/v1/reservations", control::reservations, Op::new("reservations", "List reservations, sorted by name"))
        .post_at_most(
            control::CALL_BYTES_MAX,
            "/v1/reservations",
            control::reserve,
            Op::new("reserve", "Reserve devices for a time. The answer is sent when the reservation is stored").about(RESERVE),
        )
        .post(
            "/v1/reservations/renew",
            control::renew,
            Op::new("renewReservation", "Renew the leases of the holder of a reservation"),
        )
        .post(
            "/v1/reservations/cancel",
            control::cancel,
            Op::new("cancelReservation", "End a reservation. The points that were commanded under it are reverted"),
        )
        .post_at_most(
            control::CALL_BYTES_MAX,
            "/v1/set",
            control::set,
            Op::new("set", "Set many points, and wait for the result of each. Devices are commanded in parallel"),
        )
        .post_at_most(
            control::CALL_BYTES_MAX,
            "/v1/revert",
            control::revert,
            Op::new("revert", "Revert points and devices, and wait for the result of each"),
        )
        .post_at_most(
            control::CALL_BYTES_MAX,
            "/v1/get",
            control::get,
            Op::new("get", "Get the last values of many topics").says(200, "The values; for each topic without a value, the reason"),
        )
        .get("/v1/overrides", control::overrides, Op::new("overrides", "List active overrides"))
        .post(
            "/v1/overrides",
            control::override_on,
            Op::new("overrideOn", "Override devices or points: programs cannot command them. The answer is sent when the override is stored")
                .about(OVERRIDE),
        )
        .post("/v1/overrides/off", control::override_off, Op::new("overrideOff", "End one override, or all overrides"))
        .get("/v1/tags", tags::list, Op::new("tags", "List tags"))
        .post(
            "/v1/tags",
            tags::place,
            Op::new("placeTag", "Place a tag on a device, a point, or all below a topic. The answer is sent when the tag is stored").about(TAG),
        )
        .post("/v1/tags/lift", tags::lift, Op::new("liftTag", "Lift a tag").about(LIFT))
}

fn of_node(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get("/v1/status", status::status, Op::new("status", "Get the state and the counters of the node"))
        .get("/v1/sessions", sessions::sessions, Op::new("sessions", "List connected MQTT clients"))
        .get(
            "/v1/busiest",
            sessions::busiest,
            Op::new("busiest", "List the topics with the most updates in the last window, of those that the user may read"),
        )
        .get(
            "/v1/derived",
            derived::list,
            Op::new("derived", "List derived series with their state, progress and last results"),
        )
        .post(
            "/v1/reload",
            reload::reload,
            Op::new(
                "reload",
                "Read the configuration file again: devices with their templates, networks, channels and point lists, views, \
                 and TLS files. Either all of it applies from now on, or nothing changes",
            )
            .about(RELOAD)
            .problem(409, "The node runs without a configuration file")
            .problem(422, "A file is wrong; detail has every error"),
        )
        .post(
            "/v1/views/reload",
            reload::views,
            Op::new(
                "reloadViews",
                "Read the views of the configuration file again. Either all of them apply from now on, or nothing changes",
            )
            .problem(409, "The node runs without a configuration file")
            .problem(422, "The file is wrong; detail has every error"),
        )
        .get(
            "/v1/backup",
            backups::backup,
            Op::new("backup", "Make a backup of the data folder: a tar archive")
                .says(200, "The archive")
                .about("The archive is complete if its last entry, backup.json, lists all files before it with their SHA-256.")
                .problem(409, "Another backup is under way"),
        )
        .get("/v1/clock", clock::show, Op::new("clock", "Get the time of the node, and whether the node trusts it"))
        .post(
            "/v1/clock",
            clock::confirm,
            Op::new(
                "confirmClock",
                "Confirm the clock of the node after it was found in doubt. Removal and expiry by age then continue",
            )
            .problem(400, "The body is no JSON, or the time cannot be read")
            .problem(409, "The clock of the node and the time in the body differ; detail has both"),
        )
        .get("/v1/openapi.json", document, Op::new("openapi", "Get this document").says(200, "OpenAPI 3.1"))
}

/// What watches a node.
fn of_monitoring(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get(
            "/metrics",
            metrics::metrics,
            Op::new("metrics", "Get metrics in the text format of Prometheus")
                .says(200, "Exposition format 0.0.4, or OpenMetrics 1.0 where Accept prefers it"),
        )
        .get(
            "/metrics/device",
            device_metrics::metrics,
            Op::new("deviceMetrics", "Get metrics of one device in the text format of Prometheus")
                .says(200, "Exposition format 0.0.4, or OpenMetrics 1.0 where Accept prefers it")
                .problem(404, "No such device"),
        )
        .get(
            "/healthz",
            status::health,
            Op::new("healthz", "Check the health of the node")
                .says(200, "The node works")
                .says(503, "Something needs attention, or the node is stopping"),
        )
}

/// Of locks of sessions.
fn of_locks(routes: Routes<Protected>) -> Routes<Protected> {
    routes.get("/v1/locks", locks::list, Op::new("locks", "List the locks that MQTT sessions have or wait for")).post(
        "/v1/locks/release",
        locks::release,
        Op::new("releaseLock", "Take a lock away from the session that has it. The next session that waits gets it")
            .about("The audit log gets a record.")
            .problem(404, "No session has the lock"),
    )
}

/// Of a node among others.
fn of_fabric(routes: Routes<Protected>) -> Routes<Protected> {
    const NO_CENTRE: &str = "The node is no centre";
    routes
        .get(
            "/v1/cluster",
            cluster::cluster,
            Op::new("cluster", "Get the role of this node in its core, the leader and the log")
                .problem(404, "The node is no member of a core: it has no `[cluster]`"),
        )
        .get("/v1/sites", sites::list, Op::new("sites", "List sites whose history comes to this node"))
        .post_at_most(
            joining::JOIN_BYTES_MAX,
            "/v1/join",
            joining::join,
            Op::new("join", "Join a site to the centre with its token")
                .about(JOIN)
                .problem(403, "The token is wrong, expired or used with another key, or is for another site; or a foreign page asked")
                .problem(409, "The node is no centre, or the site is revoked, or another site has the key"),
        )
        .get("/v1/fabric/sites", joining::list, Op::new("fabricSites", "List sites of the centre").problem(409, NO_CENTRE))
        .post_at_most(
            joining::JOIN_BYTES_MAX,
            "/v1/fabric/sites",
            joining::add,
            Op::new("addSite", "Add a site, or take up a revoked one. The answer is sent when it is stored")
                .problem(409, "The node is no centre, the site exists, there are too many, or another site has the key"),
        )
        .post_at_most(
            joining::JOIN_BYTES_MAX,
            "/v1/fabric/sites/token",
            joining::token,
            Op::new("siteToken", "Make a token by which a site joins once. It replaces the token before")
                .problem(404, "There is no such site")
                .problem(409, "The node is no centre, or the site is revoked"),
        )
        .post_at_most(
            joining::JOIN_BYTES_MAX,
            "/v1/fabric/sites/revoke",
            joining::revoke,
            Op::new("revokeSite", "Revoke a site: its keys and its token are void, and its connections are ended")
                .problem(404, "There is no such site")
                .problem(409, NO_CENTRE),
        )
}

const LIVE: &str = "The stream begins with the last values, in several events. Changes follow, conflated by topic, at most ten events a second (event: update, LiveUpdate). \
    Each second there is an event with the time of the node: if there is none for some seconds, the values are old (event: beat, LiveBeat). With group, \
    there are counts of values by quality, of all topics and of each group, when they change (event: counts, LiveCounts).";
const STATES: &str = "A value counts from its sample until the next one, the last value until the end. After a sample of bad quality the \
    value is unknown.";
const TAIL: &str = "Samples of the past are sent in the order of time, up to 1,000,000. Then there is the event live, then each new sample in \
    the order in which it is recorded. No sample between the two is missing or sent twice.";
const TRACE: &str = "Needs admin on the topic of the device. Each line is a JSON object (TraceLine). With follow, the lines are server-sent \
    events (event: line): first those of the last minute, then each new one.";
const RESERVE: &str = "Needs command on the devices, and admin on them for the priority HIGH. The answer has the format of VOLTTRON's actuator \
    agent.";
const TAG: &str = "Needs command on the topic, and on all devices and points at and below it. hold: only its owner can command them; \
    do_not_operate: nobody can, and nothing is reverted; note: for information. Commands are refused with the reason tagged.";

const LIFT: &str = "Needs command on what the tag holds for; for the tag of somebody else, admin.";

const OVERRIDE: &str = "Needs admin on all topics that the pattern selects. Until the override ends, commands are refused with the reason \
    override.";
const RELOAD: &str = "Devices that have not changed keep their connections, their values and the times of their polls. Topics of removed \
    devices and points are removed; their history is kept. restart_needed names changed settings that need a restart.";
const JOIN: &str = "Needs no login: the token says who calls. A call with the same token and the same key has the same answer, so that it can be \
    repeated after a lost one. The audit log gets a record.";
const NOT_HELD: &str = "The topic does not accept this value";
const EDITS: &str = "Queries return the edited values, and the recorded values with raw=true. Edits apply in the order in which they were \
                     made. The audit log gets a record.";
const FULL: &str = "The limit of topics is reached, or the history is full";

async fn document(_: Public) -> Written<Json> {
    Written::new(openapi())
}

/// The OpenAPI document that describes the API.
#[must_use]
pub fn openapi() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let base = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Tieline",
                "version": "1",
                "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
                "description": DESCRIPTION,
            },
            "components": {
                "securitySchemes": {
                    "basic": { "type": "http", "scheme": "basic" },
                    "bearer": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" },
                    "cookie": { "type": "apiKey", "in": "cookie", "name": access::COOKIE },
                },
            },
            "security": [{}, { "basic": [] }, { "bearer": [] }, { "cookie": [] }],
        });
        routes().into_document().into_json(base).to_string()
    });
    &TEXT
}

const DESCRIPTION: &str = "Topics, devices, history and commands of one node. Times are RFC 3339 in UTC. Errors are application/problem+json (RFC 9457), except \
    refused commands, which say so themselves. Where access is guarded (docs/access.md), requests show a user by Basic, a token by Bearer, \
    or the cookie of /login; 401 is answered to unauthenticated requests and 403 to users who may not.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_whole() {
        let document: Json = serde_json::from_str(openapi()).unwrap();
        assert_eq!(tieline_service::http::openapi::gaps(&document), Vec::<String>::new());
    }
}
