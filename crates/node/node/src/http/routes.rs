//! The table of all routes, and the OpenAPI document that is made of it.
//!
//! A handler's first argument says who may call its route; its other arguments and its answer say what is in the document.
//! What types cannot say are the words here.

use super::authorization::{Protected, Public, routes as none_yet};
use super::body::Written;
use super::{
    access, backups, clock, command, console, control, derived, devices, history, history_compaction, history_deletion,
    history_edits, history_import, history_states, history_stats, history_tail, metrics, reload, sessions, status,
    topics, trace, values,
};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use tieline_service::http::openapi::Operation as Op;
use tieline_service::http::routes::Routes;

/// Each route of a node.
pub fn routes() -> Routes<Protected> {
    let routes = none_yet(console::file);
    of_login(of_node(of_control(of_devices(of_edits(of_history(of_topics(routes)))))))
}

fn of_topics(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get(
            "/v1/topics",
            topics::list,
            Op::new("topics", "Topics with their last values, in the order of their names"),
        )
        .get(
            "/v1/topics/{*topic}",
            values::one,
            Op::new("topic", "The last value of one topic")
                .says(200, "The topic, or its events")
                .problem(404, "No such topic has a value, or keeps events"),
        )
        .put(
            "/v1/topics/{*topic}",
            values::put,
            Op::new("put_topic", "Sets the value of a topic; answered when it is stored")
                .says(200, "Done and stored")
                .problem(400, "The topic, a header or the body is wrong")
                .problem(422, NOT_HELD)
                .problem(507, FULL),
        )
        .delete(
            "/v1/topics/{*topic}",
            values::remove,
            Op::new("remove_topic", "Removes the value of a topic; answered when it is stored")
                .says(200, "Done and stored")
                .problem(404, "No such topic has a value")
                .problem(507, FULL),
        )
        .get("/v1/live", topics::live, Op::new("live", "Changes as they come, as server-sent events").about(LIVE))
        .post(
            "/v1/publish",
            topics::publish,
            Op::new("publish", "Publishes to a topic; answered when it is stored")
                .says(200, "Taken")
                .problem(400, "The body is no JSON, or the topic is wrong")
                .problem(422, "A member is missing or of the wrong type; or the value is not what the topic may hold")
                .problem(507, FULL),
        )
}

fn of_history(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get(
            "/v1/history",
            history::query,
            Op::new("history", "Recorded values of a topic, or of all topics that a filter selects")
                .says(200, "Rows in the order of time")
                .problem(503, "History is off or cannot be read, or too much is under way"),
        )
        .put(
            "/v1/history",
            history_import::import,
            Op::new("importHistory", "Stores samples of the past; answered when they are stored")
                .about("A sample that the history has already, with the same topic, time, value and quality, counts once: a call \
                        can be repeated. Last values do not change, and subscribers are not told.")
                .problem(400, "The body is no JSON, or a sample is wrong; detail has its number")
                .problem(507, FULL),
        )
        .delete(
            "/v1/history",
            history_deletion::delete,
            Op::new("deleteHistory", "Deletes recorded values; answered when their bytes are gone from the store")
                .about("The audit log gets a record before and after. The last value of a topic is no part of the history and stays.")
                .problem(400, "A time is wrong"),
        )
        .post(
            "/v1/history/compact",
            history_compaction::compact,
            Op::new("compactHistory", "Closes the days that have ended, without waiting for late samples; answered when it is done")
                .about("The audit log gets a record. Each day, UTC, becomes one Parquet file.")
                .problem(503, "History is off or cannot be written, or the clock is in doubt"),
        )
        .get(
            "/v1/history/stats",
            history_stats::stats,
            Op::new("historyStats", "Samples and bytes of the topics that a filter selects, the largest first")
                .problem(503, "History is off or cannot be read, or too much is under way"),
        )
        .get(
            "/v1/history/tail",
            history_tail::tail,
            Op::new("historyTail", "Samples from a time on, and then each as it is recorded, as server-sent events")
                .about(TAIL)
                .problem(503, "History is off or cannot be read, or there are enough readers"),
        )
        .get(
            "/v1/history/states",
            history_states::query,
            Op::new("historyStates", "How long topics were in each state")
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
            Op::new("historyEdits", "Edits and annotations of history, the newest first")
                .about("Those that were undone are among them: none is ever removed. A page may have fewer than limit.")
                .problem(400, "A parameter is wrong")
                .problem(503, "History is off or cannot be read, or too much is under way"),
        )
        .post(
            "/v1/history/edits",
            history_edits::make,
            Op::new("editHistory", "Edits recorded values, or adds an annotation; what was recorded stays as it is")
                .about(EDITS)
                .problem(400, "The body is no JSON, or a member is wrong")
                .problem(503, "History is off or cannot be read")
                .problem(507, "There are as many edits as may be, or the disk is full"),
        )
        .post(
            "/v1/history/edits/{id}/undo",
            history_edits::undo,
            Op::new("undoHistoryEdit", "Ends an edit or an annotation; it stays in the list of edits")
                .about("The audit log gets a record.")
                .problem(404, "There is no such edit")
                .problem(409, "It is undone already")
                .problem(503, "History is off or cannot be read")
                .problem(507, "The disk is full"),
        )
}

fn of_devices(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get("/v1/devices", devices::list, Op::new("devices", "Devices with their health"))
        .get(
            "/v1/devices/{*topic}",
            devices::one,
            Op::new("device", "One device with its points").problem(404, "No such device"),
        )
        .get("/v1/points", devices::points, Op::new("points", "What is configured about points"))
        .get(
            "/v1/trace/{*topic}",
            trace::trace,
            Op::new("trace", "What a device and the node said to each other, message by message")
                .about(TRACE)
                .says(200, "Lines, events or a capture")
                .problem(404, "There is no such device, or it has not gone away")
                .problem(409, "The device is not traced, not on the disk, or has no connection to capture")
                .problem(503, "The node is stopping or busy, or enough readers follow the device"),
        )
        .post("/v1/command", command::command, Op::new("command", "Operates a point and waits for what became of it"))
        .get(
            "/v1/audit",
            command::audit,
            Op::new("audit", "Commands and what became of them, refusals, and changes of rights, newest first"),
        )
}

fn of_control(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get("/v1/reservations", control::reservations, Op::new("reservations", "Reservations, by name"))
        .post_at_most(
            control::CALL_BYTES_MAX,
            "/v1/reservations",
            control::reserve,
            Op::new("reserve", "Reserves devices for a time; answered when it is stored").about(RESERVE),
        )
        .post(
            "/v1/reservations/renew",
            control::renew,
            Op::new("renewReservation", "Renews the leases of the holder of a reservation"),
        )
        .post(
            "/v1/reservations/cancel",
            control::cancel,
            Op::new("cancelReservation", "Ends a reservation; what was commanded under it is reverted"),
        )
        .post_at_most(
            control::CALL_BYTES_MAX,
            "/v1/set",
            control::set,
            Op::new("set", "Sets many points, devices at the same time, and waits for what became of each"),
        )
        .post_at_most(
            control::CALL_BYTES_MAX,
            "/v1/revert",
            control::revert,
            Op::new("revert", "Reverts points and devices, and waits for what became of each"),
        )
        .post_at_most(
            control::CALL_BYTES_MAX,
            "/v1/get",
            control::get,
            Op::new("get", "Last values of many topics").says(200, "The values, and why some topics have none"),
        )
        .get("/v1/overrides", control::overrides, Op::new("overrides", "Overrides that are on"))
        .post(
            "/v1/overrides",
            control::override_on,
            Op::new("overrideOn", "Takes devices or points from all programs; answered when it is stored")
                .about(OVERRIDE),
        )
        .post("/v1/overrides/off", control::override_off, Op::new("overrideOff", "Ends an override, or all of them"))
}

fn of_node(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get("/v1/status", status::status, Op::new("status", "What the node is and how it is doing"))
        .get("/v1/sessions", sessions::sessions, Op::new("sessions", "MQTT clients that are connected, in an order"))
        .get(
            "/v1/busiest",
            sessions::busiest,
            Op::new("busiest", "Topics with the most updates over the last window, of those that may be read"),
        )
        .get(
            "/v1/derived",
            derived::list,
            Op::new("derived", "Series that are calculated from series: their state, progress and last results"),
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
            Op::new("backup", "Everything that the data folder holds, as it is now: a tar archive")
                .says(200, "The archive")
                .about("It is whole where its last entry, backup.json, lists all files before it, with their sums (SHA-256).")
                .problem(409, "Another backup is under way"),
        )
        .get("/v1/clock", clock::show, Op::new("clock", "What the node's clock says, and whether it is believed"))
        .post(
            "/v1/clock",
            clock::confirm,
            Op::new(
                "confirmClock",
                "Confirm the node's clock, which says something far from what is known: what is removed or expired by \
                 age goes on",
            )
            .problem(400, "The body is no JSON, or the time cannot be read")
            .problem(409, "The two clocks differ; detail has both"),
        )
        .get("/v1/openapi.json", document, Op::new("openapi", "This document").says(200, "OpenAPI 3.1"))
        .get(
            "/metrics",
            metrics::metrics,
            Op::new("metrics", "Counters for Prometheus").says(200, "Exposition format 0.0.4"),
        )
        .get(
            "/healthz",
            status::health,
            Op::new("healthz", "Whether the node can do its work")
                .says(200, "It can")
                .says(503, "Something needs a person; or the node is stopping"),
        )
}

fn of_login(routes: Routes<Protected>) -> Routes<Protected> {
    routes
        .get(
            "/v1/me",
            access::me,
            Op::new("me", "Who the caller is, its roles, and what it may see")
                .says(200, "The user; null where nobody has to show who it is"),
        )
        .get("/login", access::login_page, Op::new("loginPage", "The page that asks who one is").page(200, "The page"))
        .post_at_most(
            access::FORM_BYTES_MAX,
            "/login",
            access::login,
            Op::new("login", "Logs in; a cookie comes back")
                .says(303, "Logged in")
                .page(401, "The page again: the user or the password is wrong, or it cannot be checked now")
                .page(403, "The page again: the user has no role; or a foreign page asked"),
        )
        .post("/logout", access::logout, Op::new("logout", "Forgets a login").says(303, "Logged out"))
}

const LIVE: &str = "First the last values, in several events, then changes, conflated by topic, at most ten events a \
    second (event: update, LiveUpdate). Each second the node's time, said by the thread that owns the values: without \
    one for some seconds, what was sent is old (event: beat, LiveBeat). With group: counts of values by quality, in \
    all and of the groups, when they change (event: counts, LiveCounts).";
const STATES: &str = "A state stands from its sample until the next one, and the last one until the end. After a sample of bad \
    quality it is unknown.";
const TAIL: &str = "Samples of before come in order of time, then the event live, then each sample in the order in which it is \
    recorded: none is missing between the two, and none is there twice. Up to 1,000,000 samples of before.";
const TRACE: &str = "Needs the right to administer the device's topic. Lines are TraceLine, one JSON object a line; with \
    follow, server-sent events (event: line), first those of the last minute, then each as it comes.";
const RESERVE: &str = "Needs the right to command the devices, and with the priority HIGH to administer them. The answer is \
    in the words of VOLTTRON's actuator agent.";
const OVERRIDE: &str = "Needs the right to administer all that the pattern selects. Commands are refused with the reason \
    override until it ends.";
const RELOAD: &str = "Devices that have not changed are not touched: they keep their connections, their values and the times \
    of their polls. Topics of devices and points that are gone are removed; history stays. What cannot be reloaded is named \
    in restart_needed.";
const NOT_HELD: &str = "The value is not what the topic may hold";
const EDITS: &str = "Answers show the edited values from then on, and the recorded ones with raw=true. Edits apply in the order in which \
                     they were made. The audit log gets a record.";
const FULL: &str = "The tree or history is full";

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

const DESCRIPTION: &str = "Topics, devices, history and commands of one node. Times are RFC 3339 in UTC. Errors are \
    application/problem+json (RFC 9457), except refused commands, which say so themselves. Where access is guarded \
    (docs/access.md), requests show a user by Basic, a token by Bearer, or the cookie of /login; 401 is answered to \
    unauthenticated requests and 403 to users who may not.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_whole() {
        let document: Json = serde_json::from_str(openapi()).unwrap();
        assert_eq!(tieline_service::http::openapi::gaps(&document), Vec::<String>::new());
    }
}
