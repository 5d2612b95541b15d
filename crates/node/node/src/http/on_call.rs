//! `/v1/notify/on-call`: who is on call at a time, who is next, and holes of the week after it.

use super::authorization::Authenticated;
use super::body::Answer;
use super::notify::TOPIC;
use super::problem::Problem;
use crate::config::Moment;
use schemars::JsonSchema;
use serde::Serialize;
use tieline_access::Verb;
use tieline_core::Timestamp;
use tieline_senders::{OnCall, Outlook, Shift, Span};
use tieline_service::http::parameters::Query;
use tieline_service::parameters;

parameters! {
    /// Of which time the shifts are asked for.
    pub struct OnCallAsked {
        /// RFC 3339, a date, or how long ago; default the present
        at: Option<Moment>,
    }
}

/// Who is on call
#[derive(JsonSchema, Serialize)]
pub struct OnCallShown {
    /// The time that is asked for
    at: String,
    receivers: Vec<CalendarShown>,
}

/// A calendar of those on call
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct CalendarShown {
    /// The receiver of notifications that has it
    receiver: String,
    file: String,
    /// Shifts at that time; none: nobody is on call
    now: Vec<ShiftShown>,
    /// The next shift that begins, within 31 days
    next: Option<ShiftShown>,
    /// Where nobody is on call, within 7 days
    holes: Vec<SpanShown>,
    /// Where several shifts are at once, within 7 days
    overlaps: Vec<SpanShown>,
}

/// A shift
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct ShiftShown {
    from: String,
    to: String,
    /// The name of the event
    title: String,
    /// Addresses, or the name of the event
    who: Vec<String>,
}

/// A span of time
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct SpanShown {
    from: String,
    to: String,
    who: Vec<String>,
}

impl CalendarShown {
    fn of(receiver: &str, calendar: &OnCall, at: Timestamp) -> Self {
        let Outlook { now, next, holes, overlaps } = calendar.outlook(at);
        let spans = |all: Vec<Span>| all.into_iter().map(SpanShown::of).collect();
        Self {
            receiver: receiver.to_owned(),
            file: calendar.file().display().to_string(),
            now: now.into_iter().map(ShiftShown::of).collect(),
            next: next.map(ShiftShown::of),
            holes: spans(holes),
            overlaps: spans(overlaps),
        }
    }
}

impl ShiftShown {
    fn of(Shift { from, to, title, who }: Shift) -> Self {
        Self { from: from.to_string(), to: to.to_string(), title, who }
    }
}

impl SpanShown {
    fn of(Span { from, to, who }: Span) -> Self {
        Self { from: from.to_string(), to: to.to_string(), who }
    }
}

/// Shows the shifts of a time, of each receiver with a calendar.
pub async fn show(
    authenticated: Authenticated,
    Query(OnCallAsked { at }): Query<OnCallAsked>,
) -> Result<Answer<OnCallShown>, Problem> {
    let authorized = authenticated.must(Verb::Admin, TOPIC).await?;
    let (calendars, now) = authorized.app.notifications.calendars();
    let at = at.map_or(now, |at| at.resolve(now, now));
    let shown = calendars.iter().map(|(receiver, calendar)| CalendarShown::of(receiver, calendar, at));
    Ok(Answer(OnCallShown { at: at.to_string(), receivers: shown.collect() }))
}
