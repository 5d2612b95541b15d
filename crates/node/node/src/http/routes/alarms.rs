//! Routes of alarms.

use super::super::alarms;
use super::super::authorization::Protected;
use tieline_service::http::openapi::Operation as Op;
use tieline_service::http::routes::Routes;

/// Adds the routes of alarms.
pub(super) fn add(routes: Routes<Protected>) -> Routes<Protected> {
    const OFF: &str = "History is off or cannot be read, or too much is under way";
    routes
        .get(
            "/v1/alarms",
            alarms::list,
            Op::new("alarms", "List alarms that are not normal, of the topics that the user may read"),
        )
        .get(
            "/v1/alarms/counts",
            alarms::counts,
            Op::new("alarmCounts", "Count alarms by state and priority, of the topics that the user may read"),
        )
        .post(
            "/v1/alarms/ack",
            alarms::acknowledge,
            request("acknowledgeAlarms", "Acknowledge occurrences of alarms").about(ACKNOWLEDGE),
        )
        .post("/v1/alarms/shelve", alarms::shelve, request("shelveAlarms", "Shelve alarms for a time").about(SHELVE))
        .post(
            "/v1/alarms/unshelve",
            alarms::unshelve,
            request("unshelveAlarms", "End the shelving of alarms").about(WITH_ACKNOWLEDGE),
        )
        .post("/v1/alarms/reset", alarms::reset, request("resetAlarms", "Reset latched alarms").about(WITH_ADMIN))
        .post(
            "/v1/alarms/out-of-service",
            alarms::take_out_of_service,
            request("takeAlarmsOutOfService", "Take alarms out of service").about(WITH_ADMIN),
        )
        .post(
            "/v1/alarms/in-service",
            alarms::put_in_service,
            request("putAlarmsInService", "Put alarms in service again").about(WITH_ADMIN),
        )
        .post(
            "/v1/alarms/note",
            alarms::note,
            request("noteAlarms", "Write a note about alarms to the journal").about(WITH_ACKNOWLEDGE),
        )
        .get(
            "/v1/alarms/journal",
            alarms::journal,
            Op::new(
                "alarmJournal",
                "Read the journal of alarms, the oldest row first, of the topics that the user may read",
            )
            .problem(503, OFF),
        )
        .get(
            "/v1/alarms/report",
            alarms::report,
            Op::new("alarmReport", "Get the figures of ISA-18.2 of a time, of the topics that the user may read")
                .problem(503, OFF),
        )
        .get(
            "/v1/alarms/rules",
            alarms::rules,
            Op::new("alarmRules", "List the alarm rules in use, of topics that the user may read"),
        )
}

/// A request of a person.
fn request(id: &'static str, summary: &'static str) -> Op {
    Op::new(id, summary).problem(400, "The body is no JSON, or a member is missing or wrong")
}

const ACKNOWLEDGE: &str = "Needs acknowledge on each alarmed topic. Each alarm names its occurrence with seq; an older occurrence is \
    refused with the reason old_occurrence. The answer is sent when the changes are stored, and has a result for each alarm.";
const SHELVE: &str = "Needs acknowledge on each alarmed topic. The answer is sent when the changes are stored, and has a result for each alarm. \
    A shelved alarm is not annunciated until the time is over.";
const WITH_ACKNOWLEDGE: &str = "Needs acknowledge on each alarmed topic. The answer is sent when the changes are stored, and has a result for each alarm.";
const WITH_ADMIN: &str = "Needs admin on each alarmed topic. The answer is sent when the changes are stored, and has a result for each alarm.";
