//! What became of requests, as programs get it over HTTP and MQTT alike.

use super::command::to_json;
use super::{Called, Notice};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use std::time::Duration;
use tieline_control::{
    Announcement, BatchDone, Coordinator, DryRun, Owner, PointOutcome, ScheduleData, ScheduleEvent, ScheduleResult,
    Slot, TaskRecord, WouldSend,
};
use tieline_core::{Now, Point, Refusal, Topic};

/// What became of a call for many points.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct CallResult {
    status: CallStatus,
    /// In the order of the call
    #[serde(skip_serializing_if = "Vec::is_empty")]
    points: Vec<PointResult>,
    /// Points that the device accepted, without a reading that was waited for
    accepted: usize,
    /// Points that a reading shows
    confirmed: usize,
    /// Points that the device accepted, and no reading showed in time
    unconfirmed: usize,
    /// Points of which nothing was done
    refused: usize,
    /// Points that may have been commanded
    unknown: usize,
    elapsed_ms: f64,
    /// Why nothing of the call was taken, as a stable word
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The same for people
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// success: all points; partial: some; refused: none; unknown: one at least may have been commanded; unconfirmed: no reading
/// showed one of them in time; dry_run: nothing was sent.
#[derive(Clone, Copy, Debug, Default, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum CallStatus {
    Success,
    Partial,
    #[default]
    Refused,
    Unknown,
    Unconfirmed,
    DryRun,
}

/// What became of one point.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
struct PointResult {
    topic: String,
    status: PointStatus,
    /// What a reading of the point shows once it is done
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<Json>,
    /// The reading that showed it
    #[serde(skip_serializing_if = "Option::is_none")]
    reading: Option<Json>,
    /// Of a dry run: what the device would get
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<Json>,
    /// Of a dry run: how the device would be asked
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    /// Of a dry run: whether the point would be reverted when the reservation ends
    #[serde(skip_serializing_if = "Option::is_none")]
    reverts: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_ms: Option<f64>,
    /// A stable word
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// What was found and what was expected
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum PointStatus {
    Accepted,
    Confirmed,
    Unconfirmed,
    #[default]
    Refused,
    Unknown,
    WouldSend,
}

impl CallResult {
    /// Of a call that was taken.
    #[must_use]
    pub fn of(called: &Called) -> Self {
        let BatchDone { accepted, confirmed, unconfirmed, refused, unknown, elapsed, .. } = called.done;
        let status = match () {
            () if unknown > 0 => CallStatus::Unknown,
            () if accepted + confirmed + unconfirmed == 0 => CallStatus::Refused,
            () if refused > 0 => CallStatus::Partial,
            () if unconfirmed > 0 => CallStatus::Unconfirmed,
            () => CallStatus::Success,
        };
        let points = called.topics.iter().zip(&called.outcomes);
        let points = points.filter_map(|(topic, outcome)| Some(PointResult::of(topic, outcome.as_ref()?)));
        Self {
            status,
            points: points.collect(),
            accepted,
            confirmed,
            unconfirmed,
            refused,
            unknown,
            elapsed_ms: ms(elapsed),
            reason: None,
            detail: None,
        }
    }

    /// Of a call of which nothing was taken, or nothing is known.
    #[must_use]
    pub fn refused(refusal: Refusal) -> Self {
        let status = if refusal.maybe_operated { CallStatus::Unknown } else { CallStatus::Refused };
        Self { status, reason: Some(refusal.reason), detail: Some(refusal.detail), ..Self::default() }
    }

    /// Of a call that could not be read.
    #[must_use]
    pub fn malformed(detail: String) -> Self {
        Self { reason: Some("malformed"), detail: Some(detail), ..Self::default() }
    }

    /// Of a dry run.
    #[must_use]
    pub fn dry_run<'a>(topics: impl Iterator<Item = &'a Topic>, found: Vec<DryRun>) -> Self {
        let refused = found.iter().filter(|found| found.is_err()).count();
        let points = topics.zip(found).map(|(topic, found)| PointResult::dry(topic, found)).collect();
        Self { status: CallStatus::DryRun, points, refused, ..Self::default() }
    }

    /// Why nothing of the call was taken.
    #[must_use]
    pub const fn reason(&self) -> Option<&'static str> {
        self.reason
    }
}

impl PointResult {
    fn of(topic: &Topic, (outcome, elapsed): &(PointOutcome, Duration)) -> Self {
        let known = Self { topic: topic.to_string(), elapsed_ms: Some(ms(*elapsed)), ..Self::default() };
        let why = |refusal: &Refusal| (Some(refusal.reason), Some(refusal.detail.clone()));
        match outcome {
            PointOutcome::Accepted { expected } => {
                Self { status: PointStatus::Accepted, expected: expected.as_ref().map(to_json), ..known }
            }
            PointOutcome::Confirmed { reading } => {
                Self { status: PointStatus::Confirmed, reading: Some(shown(reading)), ..known }
            }
            PointOutcome::Unconfirmed { expected, refusal } => {
                let (reason, detail) = why(refusal);
                let expected = expected.as_ref().map(to_json);
                Self { status: PointStatus::Unconfirmed, expected, reason, detail, ..known }
            }
            PointOutcome::Refused(refusal) => {
                let (reason, detail) = why(refusal);
                Self { status: PointStatus::Refused, reason, detail, ..known }
            }
            PointOutcome::Unknown(refusal) => {
                let (reason, detail) = why(refusal);
                Self { status: PointStatus::Unknown, reason, detail, ..known }
            }
        }
    }

    fn dry(topic: &Topic, found: DryRun) -> Self {
        let known = Self { topic: topic.to_string(), ..Self::default() };
        match found {
            Ok(WouldSend { raw, mode, expected, reverts }) => Self {
                status: PointStatus::WouldSend,
                raw: Some(to_json(&raw)),
                mode: Some(mode.name()),
                expected: expected.as_ref().map(to_json),
                reverts: Some(reverts),
                ..known
            },
            Err(refusal) => Self { reason: Some(refusal.reason), detail: Some(refusal.detail), ..known },
        }
    }
}

fn shown(reading: &Point) -> Json {
    json!({ "v": to_json(&reading.value), "q": reading.quality.validity().name(), "t": reading.time.to_string() })
}

fn ms(span: Duration) -> f64 {
    span.as_micros() as f64 / 1000.0
}

/// What became of a request for a reservation, in the words of VOLTTRON's actuator agent.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ReservationResult {
    #[schemars(extend("enum" = ["SUCCESS", "FAILURE"]))]
    result: &'static str,
    /// Why it failed; TASK_WERE_PREEMPTED where others lost their reservations
    info: String,
    /// The tasks that were pre-empted, [requester, task] each; or those in the way, by requester and task, with their slots
    data: Json,
    /// Of a reservation that was granted or renewed: the seconds that its requester may be silent; absent where it has no lease
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_s: Option<f64>,
}

impl ReservationResult {
    /// Of a request.
    #[must_use]
    pub fn of(result: &ScheduleResult) -> Self {
        let data = match &result.data {
            ScheduleData::Empty => json!({}),
            ScheduleData::Preempted(losers) if losers.is_empty() => json!({}),
            ScheduleData::Preempted(losers) => {
                losers.iter().map(|owner| json!([*owner.requester, *owner.task])).collect()
            }
            ScheduleData::Conflicts(found) => conflicts(found),
        };
        let lease_s = result.lease.map(|lease| lease.as_secs_f64());
        Self { result: result.result(), info: result.info.clone(), data, lease_s }
    }

    /// Of one that cannot be read.
    #[must_use]
    pub fn malformed(why: &str) -> Self {
        Self::failure(format!("MALFORMED_REQUEST: ValueError: {why}"))
    }

    /// Of one that failed before it was asked.
    #[must_use]
    pub fn failure(info: String) -> Self {
        Self { result: "FAILURE", info, data: json!({}), lease_s: None }
    }

    /// Why it failed; empty where it was granted.
    #[must_use]
    pub fn failed(&self) -> &str {
        if self.result == "SUCCESS" { "" } else { &self.info }
    }
}

fn conflicts(found: &[(Owner, Vec<Slot>)]) -> Json {
    let mut all = Map::new();
    for (owner, slots) in found {
        let of = all.entry(owner.requester.to_string()).or_insert_with(|| Json::Object(Map::new()));
        if let Json::Object(of) = of {
            let slots =
                slots.iter().map(|slot| json!([slot.device.as_str(), slot.start.to_string(), slot.end.to_string()]));
            of.insert(owner.task.to_string(), slots.collect());
        }
    }
    Json::Object(all)
}

/// What became of an override.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct OverrideResult {
    #[schemars(extend("enum" = ["success", "refused"]))]
    status: &'static str,
    /// The devices, and the points of other devices, that it takes
    #[serde(skip_serializing_if = "Vec::is_empty")]
    selects: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl OverrideResult {
    /// Of a request.
    #[must_use]
    pub fn of(result: Result<(), Refusal>, selects: Vec<String>) -> Self {
        match result {
            Ok(()) => Self { status: "success", selects, reason: None, detail: None },
            Err(Refusal { reason, detail, .. }) => {
                Self { status: "refused", selects: Vec::new(), reason: Some(reason), detail: Some(detail) }
            }
        }
    }

    /// Why it was refused.
    #[must_use]
    pub const fn reason(&self) -> Option<&'static str> {
        self.reason
    }
}

/// Who looks at reservations and overrides.
pub trait Reader {
    /// Whether it may see a device.
    fn may_see(&self, device: &str) -> bool;

    /// Whether it may end a reservation; none where it is not told.
    fn may_end(&self, task: &TaskRecord) -> Option<bool>;
}

impl<F: Fn(&str) -> bool> Reader for F {
    fn may_see(&self, device: &str) -> bool {
        self(device)
    }

    fn may_end(&self, _: &TaskRecord) -> Option<bool> {
        None
    }
}

/// Reservations.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Reservations {
    reservations: Vec<Reservation>,
}

/// A reservation.
#[derive(Clone, Debug, JsonSchema, Serialize)]
struct Reservation {
    task: String,
    requester: String,
    #[schemars(extend("enum" = ["HIGH", "LOW", "LOW_PREEMPT"]))]
    priority: &'static str,
    slots: Vec<ReservedSlot>,
    /// When a pre-empted one ends
    #[schemars(extend("format" = "date-time"))]
    grace_end: Option<String>,
    /// The seconds that its requester may be silent
    lease_s: Option<f64>,
    /// When it ends if its requester is not heard before; null where it has no lease, or no device yet
    #[schemars(extend("format" = "date-time"))]
    lease_end: Option<String>,
    /// Whether the caller may end it; over HTTP
    #[serde(skip_serializing_if = "Option::is_none")]
    may_end: Option<bool>,
}

/// A time slot.
#[derive(Clone, Debug, JsonSchema, Serialize)]
struct ReservedSlot {
    device: String,
    #[schemars(extend("format" = "date-time"))]
    start: String,
    #[schemars(extend("format" = "date-time"))]
    end: String,
    /// Whether its holder has the device at this moment
    current: bool,
}

impl Reservations {
    /// Those at devices that may be seen, by name; of one device only, where one is named, or a point of it.
    #[must_use]
    pub fn of(now: Now, coordinator: &Coordinator, at: Option<&Topic>, reader: &impl Reader) -> Self {
        let at = at.map(|topic| coordinator.device_topic(topic));
        let is_shown = |slot: &&Slot| at.is_none_or(|at| *slot.device == *at) && reader.may_see(&slot.device);
        let mut reservations: Vec<Reservation> = Vec::new();
        for task in coordinator.schedule().tasks() {
            let slot = |slot: &Slot| {
                let holder = coordinator.schedule().holder(now, &slot.device);
                let is_now = slot.start <= now.utc && now.utc < slot.end;
                let current = is_now && holder.is_some_and(|(owner, _)| *owner == task.owner);
                let (device, start) = (slot.device.to_string(), slot.start.to_string());
                ReservedSlot { device, start, end: slot.end.to_string(), current }
            };
            let slots: Vec<_> = task.slots.iter().filter(is_shown).map(slot).collect();
            if !slots.is_empty() {
                reservations.push(Reservation {
                    task: task.owner.task.to_string(),
                    requester: task.owner.requester.to_string(),
                    priority: task.priority.name(),
                    slots,
                    grace_end: task.grace_end.map(|end| end.to_string()),
                    lease_s: task.lease.map(|lease| lease.as_secs_f64()),
                    lease_end: coordinator.schedule().lease_end(now, &task.owner.task).map(|end| end.to_string()),
                    may_end: reader.may_end(&task),
                });
            }
        }
        reservations.sort_by(|a, b| a.task.cmp(&b.task));
        Self { reservations }
    }
}

/// Overrides.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct OverrideList {
    overrides: Vec<OverrideShown>,
    /// The devices that are overridden as a whole
    devices: Vec<String>,
}

/// An override.
#[derive(Clone, Debug, JsonSchema, Serialize)]
struct OverrideShown {
    pattern: String,
    /// When it ends; null: when it is set off
    until: Option<String>,
    /// Who set it on
    who: String,
    /// Whether the caller may end it; where rights were asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    may_end: Option<bool>,
}

impl OverrideList {
    /// All that are on, and the devices that may be seen; those only that take one device or point, where one is named.
    #[must_use]
    pub fn of(coordinator: &Coordinator, at: Option<&Topic>, may_see: impl Fn(&str) -> bool) -> Self {
        let takes = |record: &tieline_control::OverrideRecord| {
            let is_taken = |topic: &str| record.pattern.matches(topic);
            at.is_none_or(|topic| is_taken(topic) || is_taken(coordinator.device_topic(topic)))
        };
        let shown = |record: tieline_control::OverrideRecord| OverrideShown {
            pattern: record.pattern.as_str().to_owned(),
            until: record.end.map(|end| end.to_string()),
            who: record.who.to_string(),
            may_end: None,
        };
        let overrides = coordinator.overrides().patterns().filter(takes).map(shown).collect();
        let devices = coordinator.override_devices();
        let mut devices: Vec<String> =
            devices.iter().filter(|device| may_see(device)).map(ToString::to_string).collect();
        devices.sort();
        Self { overrides, devices }
    }

    /// The patterns, each with whether the caller may end it.
    pub fn rights(&mut self) -> impl Iterator<Item = (&str, &mut Option<bool>)> {
        self.overrides.iter_mut().map(|shown| (shown.pattern.as_str(), &mut shown.may_end))
    }
}

/// The topic below `$control` and the payload of what others are told.
#[must_use]
pub fn notice(notice: &Notice) -> (String, Json) {
    match notice {
        Notice::Announced(Announcement { device, owner, window }) => (
            format!("announce/{device}"),
            json!({ "requester": *owner.requester, "task": *owner.task, "window": window.as_secs_f64() }),
        ),
        Notice::Changed(ScheduleEvent::Changed { device, after, .. }) => (
            format!("holder/{device}"),
            match after {
                Some(owner) => json!({ "requester": *owner.requester, "task": *owner.task }),
                None => json!({ "requester": null, "task": null }),
            },
        ),
        Notice::Changed(ScheduleEvent::LeaseExpired { owner, lease }) => (
            "lease_expired".to_owned(),
            json!({ "requester": *owner.requester, "task": *owner.task, "lease": lease.as_secs_f64() }),
        ),
        Notice::Changed(ScheduleEvent::Preempted { owner, by, grace }) => (
            "preempted".to_owned(),
            json!({
                "result": "PREEMPTED",
                "info": "",
                "data": { "agentID": *owner.requester, "taskID": *owner.task },
                "by": { "requester": *by.requester, "task": *by.task },
                "grace": grace.as_secs_f64(),
            }),
        ),
    }
}
