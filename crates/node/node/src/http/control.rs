//! Reservations, overrides, and calls for many points.

use super::access::Caller;
use super::authorization::{Authenticated, Authorized};
use super::body::{Answer, Written, takes_json};
use super::command::status_of;
use super::problem::Problem;
use super::site_calls::{ForwardedAnswer, forwarded};
use super::upstream::{self, Above};
use crate::bus::written::Topic as TopicShown;
use crate::bus::{Bus, Callback};
use crate::control::answer::{CallResult, OverrideList, OverrideResult, Reader, ReservationResult, Reservations};
use crate::control::is_own;
use crate::control::request::{
    CancelBody, GetBody, OffBody, OverrideBody, Points, RenewBody, ReserveBody, RevertBody, SetBody,
};
use crate::sites::CallVerb;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use tieline_access::Verb;
use tieline_control::TaskRecord;
use tieline_core::{Now, Topic};
use tieline_poll::Urgency;
use tieline_service::http::openapi::{Input, Operation, Output, Schemas};
use tieline_service::http::parameters::Query;
use tieline_service::parameters;

/// Bytes of the body of a call for many points.
pub const CALL_BYTES_MAX: usize = 16 << 20;

/// The body of a request of control: one that cannot be read has an answer like the others.
pub struct Body<T> {
    json: Json,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Body<T> {
    /// What it says.
    pub(super) fn read(&self) -> Result<T, String> {
        tieline_service::json::read_value(&self.json).map_err(|error| error.to_string())
    }

    /// The name that the caller gives itself.
    fn requester(&self) -> Option<String> {
        self.json.get("requester").and_then(Json::as_str).map(str::to_owned)
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let super::body::Json(json) = super::body::Json::<Json>::from_request(request, state).await?;
        Ok(Self { json, of: PhantomData })
    }
}

impl<T: JsonSchema> Input for Body<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        takes_json(operation, schemas.read::<T>());
    }
}

/// What became of a request, with the status that says it.
pub enum Outcome<T> {
    /// Here.
    Own(StatusCode, T),
    /// At the site, or at the upstream of this node, that has the points.
    Forwarded(ForwardedAnswer),
}

impl<T: Serialize> IntoResponse for Outcome<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Own(status, result) => (status, Answer(result)).into_response(),
            Self::Forwarded(answer) => answer.into_response(),
        }
    }
}

impl<T: JsonSchema> Output for Outcome<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        for (status, words) in [
            (StatusCode::OK, "It was taken: the answer says what became of it"),
            (StatusCode::BAD_REQUEST, "The request is malformed"),
            (StatusCode::NOT_FOUND, "There is no such reservation, or nothing of that name"),
            (StatusCode::CONFLICT, "Refused; the answer says why"),
            (StatusCode::UNPROCESSABLE_ENTITY, "There are no points in the call, or too many"),
            (StatusCode::SERVICE_UNAVAILABLE, "It cannot be written to the disk, so nothing was done"),
        ] {
            operation.content(status.as_u16(), "application/json", schemas.written::<T>());
            operation.means(status.as_u16(), words);
        }
    }
}

/// An answer that says with which status it goes out.
pub trait Answered {
    /// The status.
    fn status(&self) -> StatusCode;
}

impl Answered for CallResult {
    fn status(&self) -> StatusCode {
        self.reason().map_or(StatusCode::OK, |reason| status_of(reason, false))
    }
}

impl Answered for OverrideResult {
    fn status(&self) -> StatusCode {
        self.reason().map_or(StatusCode::OK, |reason| status_of(reason, false))
    }
}

impl Answered for ReservationResult {
    fn status(&self) -> StatusCode {
        status_of_reservation(self.failed())
    }
}

/// The status of the result of a reservation that has this info.
pub(super) fn status_of_reservation(info: &str) -> StatusCode {
    match info.split(':').next().unwrap_or_default() {
        "" => StatusCode::OK,
        "TASK_ID_DOES_NOT_EXIST" => StatusCode::NOT_FOUND,
        "NOT_STORED" | "AWAY" | "NO_AUDIT" | "CONNECTION_LOST" => StatusCode::SERVICE_UNAVAILABLE,
        "TIMEOUT" | "UNREADABLE" => StatusCode::GATEWAY_TIMEOUT,
        "CONFLICTS_WITH_EXISTING_SCHEDULES"
        | "TASK_ID_ALREADY_EXISTS"
        | "AGENT_ID_TASK_ID_MISMATCH"
        | "SITE_REFUSES"
        | "BUSY"
        | "LATE"
        | "LIMIT_EXCEEDED" => StatusCode::CONFLICT,
        _ => StatusCode::BAD_REQUEST,
    }
}

impl<T: Answered> Outcome<T> {
    pub(super) fn of(result: T) -> Self {
        Self::Own(result.status(), result)
    }
}

impl<T> Outcome<T> {
    /// What the upstream says to a request.
    async fn above(
        (authorized, above): (&Authorized, Above),
        verb: &str,
        raw: &Json,
        name: Option<String>,
    ) -> Result<Self, Problem> {
        let told = upstream::ask(authorized, above, &format!("$control/{verb}"), raw, name).await?;
        Ok(Self::Forwarded(ForwardedAnswer::of(told.to_string())))
    }
}

/// Asks the bus, and waits for what it answers.
pub(super) async fn ask<T: Send + 'static>(
    authorized: &Authorized,
    ask: impl FnOnce(&mut Bus, Now, Callback<T>) + Send + 'static,
) -> Result<T, Problem> {
    let (answer, hears) = tokio::sync::oneshot::channel();
    let callback: Callback<T> = Box::new(move |_, result| drop(answer.send(result)));
    authorized.app.bus.call_as(Urgency::Protection, move |bus, now| ask(bus, now, callback)).await?;
    let stopped = |_| Problem::unavailable("the node is stopping; what was asked for may have been carried out");
    hears.await.map_err(stopped)
}

parameters! {
    /// Which reservations are asked for.
    pub struct ReservationsAsked {
        /// Only those of this device, or of the device of this point
        topic: Option<Topic>,
    }
}

parameters! {
    /// Which overrides are asked for.
    pub struct OverridesAsked {
        /// Only those that take this device or point
        topic: Option<Topic>,
        /// Whether each says in may_end whether the caller may end it
        rights: bool = "false",
    }
}

/// The caller of a list, and the name that its own reservations have or begin with.
struct CallerReads {
    caller: Caller,
    own: Arc<str>,
}

impl Reader for CallerReads {
    fn may_see(&self, device: &str) -> bool {
        self.caller.may(Verb::Read, device)
    }

    fn may_end(&self, task: &TaskRecord) -> Option<bool> {
        let is_own = is_own(&self.own, &task.owner.requester);
        Some(is_own || task.slots.iter().all(|slot| self.caller.may(Verb::Admin, &slot.device)))
    }
}

/// All reservations, of devices that may be read.
pub async fn reservations(
    authenticated: Authenticated,
    Query(ReservationsAsked { topic }): Query<ReservationsAsked>,
) -> Result<Answer<Reservations>, Problem> {
    let authorized = authenticated.each();
    let reader = CallerReads { caller: authorized.caller.clone(), own: authorized.call(None).by.requester };
    let look = move |bus: &mut Bus, now| Reservations::of(now, bus.commands().coordinator(), topic.as_ref(), &reader);
    Ok(Answer(authorized.app.bus.ask_once(&authorized.share(), look).await?))
}

/// Reserves devices.
pub async fn reserve(
    authenticated: Authenticated,
    body: Body<ReserveBody>,
) -> Result<Outcome<ReservationResult>, Problem> {
    let authorized = authenticated.each();
    if let Some(answer) = of_site(&authorized, CallVerb::Reserve, &body).await? {
        return Ok(answer);
    }
    let raw = &body.json;
    let body = match body.read() {
        Ok(body) => body,
        Err(why) => return Ok(Outcome::of(ReservationResult::malformed(&why))),
    };
    let verb = if body.is_high() { Verb::Admin } else { Verb::Command };
    for device in body.devices() {
        authorized.must(verb, device).await?;
    }
    if let Some(above) = upstream::answers(&authorized, body.devices().map(str::to_owned).collect()).await? {
        return Outcome::above((&authorized, above), "reserve", raw, body.requester).await;
    }
    let asked = authorized.call(body.requester.as_deref());
    let result = ask(&authorized, move |bus, now, answer| bus.reserve(now, body, &asked, answer)).await?;
    Ok(Outcome::of(result))
}

/// Renews the leases of a holder.
pub async fn renew(authenticated: Authenticated, body: Body<RenewBody>) -> Result<Outcome<ReservationResult>, Problem> {
    let authorized = authenticated.each();
    if let Some(answer) = of_site(&authorized, CallVerb::Renew, &body).await? {
        return Ok(answer);
    }
    let raw = &body.json;
    let body = match body.read() {
        Ok(body) => body,
        Err(why) => return Ok(Outcome::of(ReservationResult::malformed(&why))),
    };
    if let Some(above) = upstream::has_task(&authorized, &body.task).await? {
        return Outcome::above((&authorized, above), "renew", raw, body.requester).await;
    }
    let by = authorized.call(body.requester.as_deref()).by;
    let result = ask(&authorized, move |bus, now, answer| bus.renew(now, &body, &by, answer)).await?;
    Ok(Outcome::of(result))
}

/// Ends a reservation.
pub async fn cancel(
    authenticated: Authenticated,
    body: Body<CancelBody>,
) -> Result<Outcome<ReservationResult>, Problem> {
    let authorized = authenticated.each();
    if let Some(answer) = of_site(&authorized, CallVerb::Cancel, &body).await? {
        return Ok(answer);
    }
    let raw = &body.json;
    let body = match body.read() {
        Ok(body) => body,
        Err(why) => return Ok(Outcome::of(ReservationResult::malformed(&why))),
    };
    if let Some(above) = upstream::has_task(&authorized, &body.task).await? {
        return Outcome::above((&authorized, above), "cancel", raw, body.requester).await;
    }
    if body.force {
        let task = body.task.clone();
        let devices = authorized.app.bus.ask_once(&authorized.share(), move |bus, _| bus.devices_of(&task)).await?;
        for device in devices {
            authorized.must(Verb::Admin, &device).await?;
        }
    }
    let by = authorized.call(body.requester.as_deref()).by;
    let result = ask(&authorized, move |bus, now, answer| bus.cancel(now, &body, &by, answer)).await?;
    Ok(Outcome::of(result))
}

/// Sets points.
pub async fn set(authenticated: Authenticated, body: Body<SetBody>) -> Result<Outcome<CallResult>, Problem> {
    let authorized = authenticated.each();
    if let Some(answer) = of_site(&authorized, CallVerb::Set, &body).await? {
        return Ok(answer);
    }
    let raw = &body.json;
    let body = body.read();
    let name = body.as_ref().ok().and_then(|body| body.requester.clone());
    points(authorized, ("set", raw), name, body.and_then(SetBody::read)).await
}

/// Reverts points.
pub async fn revert(authenticated: Authenticated, body: Body<RevertBody>) -> Result<Outcome<CallResult>, Problem> {
    let authorized = authenticated.each();
    if let Some(answer) = of_site(&authorized, CallVerb::Revert, &body).await? {
        return Ok(answer);
    }
    let raw = &body.json;
    let body = body.read();
    let name = body.as_ref().ok().and_then(|body| body.requester.clone());
    points(authorized, ("revert", raw), name, body.and_then(RevertBody::read)).await
}

/// What the site of a request's topics answers; none where they are this node's own.
async fn of_site<T, R>(authorized: &Authorized, verb: CallVerb, body: &Body<R>) -> Result<Option<Outcome<T>>, Problem>
where
    R: DeserializeOwned,
{
    let answer = forwarded(authorized, verb, &body.json, body.requester().as_deref()).await?;
    Ok(answer.map(Outcome::Forwarded))
}

async fn points(
    authorized: Authorized,
    (verb, raw): (&str, &Json),
    name: Option<String>,
    points: Result<Points, String>,
) -> Result<Outcome<CallResult>, Problem> {
    let points = match points {
        Ok(points) => points,
        Err(detail) => return Ok(Outcome::of(CallResult::malformed(detail))),
    };
    if let Some(above) = upstream::answers(&authorized, points.topics().map(ToString::to_string).collect()).await? {
        for topic in points.topics() {
            authorized.must(Verb::Command, topic).await?;
        }
        return Outcome::above((&authorized, above), verb, raw, name).await;
    }
    let points = match with_points_of_devices(&authorized, points).await? {
        Ok(points) => points,
        Err(result) => return Ok(Outcome::of(result)),
    };
    for topic in points.topics() {
        authorized.must(Verb::Command, topic).await?;
    }
    let by = authorized.call(name.as_deref()).by;
    let result = ask(&authorized, move |bus, now, answer| bus.control_points(now, points, &by, answer)).await?;
    Ok(Outcome::of(result))
}

async fn with_points_of_devices(
    authorized: &Authorized,
    points: Points,
) -> Result<Result<Points, CallResult>, Problem> {
    if points.devices.is_empty() {
        return Ok(Ok(points));
    }
    let expand = move |bus: &mut Bus, _: Now| bus.with_points_of_devices(points);
    Ok(authorized.app.bus.ask_once(&authorized.share(), expand).await?)
}

/// Last values of topics, and why some have none.
#[derive(JsonSchema)]
#[schemars(rename = "GetResult")]
pub struct Got {
    #[expect(unused, reason = "it is written without the type")]
    topics: Vec<TopicShown>,
    /// By topic: unknown_topic, denied, or too_large: 16 MiB of values come before it
    #[expect(unused, reason = "it is written without the type")]
    errors: BTreeMap<String, String>,
}

/// Last values of many topics.
pub async fn get(authenticated: Authenticated, body: Body<GetBody>) -> Result<Written<Got>, Problem> {
    let authorized = authenticated.each();
    let GetBody { topics } = body.read().map_err(Problem::bad_request)?;
    let readable = topics.iter().filter(|topic| authorized.caller.may(Verb::Read, topic));
    upstream::look(&authorized, readable.filter_map(|topic| Topic::new(topic).ok()).collect()).await?;
    let (caller, share) = (authorized.caller.clone(), authorized.share());
    let look = move |bus: &mut Bus, _| bus.got(topics, |topic| caller.may(Verb::Read, topic));
    Ok(Written::new(authorized.app.bus.ask_once(&share, look).await?))
}

/// Overrides that are on.
pub async fn overrides(
    authenticated: Authenticated,
    Query(OverridesAsked { topic, rights }): Query<OverridesAsked>,
) -> Result<Answer<OverrideList>, Problem> {
    let authorized = authenticated.each();
    let (caller, share) = (authorized.caller.clone(), authorized.share());
    let look = move |bus: &mut Bus, _| {
        OverrideList::of(bus.commands().coordinator(), topic.as_ref(), |device| caller.may(Verb::Read, device))
    };
    let mut list = authorized.app.bus.ask_once(&share, look).await?;
    if rights {
        // A pattern is held against all points: the bus does other things between two of them.
        for (pattern, may_end) in list.rights() {
            let pattern = pattern.to_owned();
            let selected = authorized.app.bus.ask_once(&share, move |bus, _| bus.selected(&pattern)).await?;
            *may_end = Some(selected.iter().all(|topic| authorized.caller.may(Verb::Admin, topic)));
        }
    }
    Ok(Answer(list))
}

/// Sets an override on.
pub async fn override_on(
    authenticated: Authenticated,
    body: Body<OverrideBody>,
) -> Result<Outcome<OverrideResult>, Problem> {
    let authorized = authenticated.each();
    let body = body.read().map_err(Problem::bad_request)?;
    administers(&authorized, body.pattern.clone()).await?;
    let by = authorized.call(None).by;
    let result = ask(&authorized, move |bus, now, answer| bus.override_on(now, body, &by, answer)).await?;
    Ok(Outcome::of(result))
}

/// Sets an override off, or all of them.
pub async fn override_off(
    authenticated: Authenticated,
    body: Body<OffBody>,
) -> Result<Outcome<OverrideResult>, Problem> {
    let authorized = authenticated.each();
    let body = body.read().map_err(Problem::bad_request)?;
    for pattern in match &body.pattern {
        Some(pattern) => vec![pattern.clone()],
        None => {
            let all = |bus: &mut Bus, _: Now| -> Vec<String> {
                let patterns = bus.commands().coordinator().overrides().patterns();
                patterns.map(|record| record.pattern.as_str().to_owned()).collect()
            };
            authorized.app.bus.ask_once(&authorized.share(), all).await?
        }
    } {
        administers(&authorized, pattern).await?;
    }
    let by = authorized.call(None).by;
    let result = ask(&authorized, move |bus, now, answer| bus.override_off(now, &body, &by, answer)).await?;
    Ok(Outcome::of(result))
}

/// Goes on only where the caller may administer all that a pattern selects.
async fn administers(authorized: &Authorized, pattern: String) -> Result<(), Problem> {
    let look = move |bus: &mut Bus, _: Now| bus.selected(&pattern);
    for topic in authorized.app.bus.ask_once(&authorized.share(), look).await? {
        authorized.must(Verb::Admin, &topic).await?;
    }
    Ok(())
}
