//! `/v1/clock`: what the clock says, and its confirmation.

use super::authorization::Authenticated;
use super::body::{Answer, Json};
use super::problem::Problem;
use super::topics::Done;
use crate::access::denial;
use crate::bus::line_of;
use crate::control::audit::AuditLine;
use crate::wall_clock::Doubt;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tieline_access::Verb;
use tieline_core::{Now, Timestamp, TimestampError};

/// What `POST /v1/clock` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ClockConfirmation")]
pub struct Confirm {
    /// What the clock of the caller says; the node's must say the same, give or take 10 minutes
    #[schemars(extend("format" = "date-time"), example = "2026-11-20T09:36:00Z")]
    time: String,
}

/// The clock.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Clock")]
pub struct Shown {
    /// What the node's clock says
    #[schemars(extend("format" = "date-time"))]
    time: String,
    /// Whether that is far from what is known: nothing is removed or expired by it
    in_doubt: bool,
    /// What it should say by what is known; null where it is not in doubt
    #[schemars(extend("format" = "date-time"))]
    expected: Option<String>,
    /// How far it is off in seconds, below 0 where it is behind; null where it is not in doubt
    off_s: Option<i64>,
}

/// A clock that is believed.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "ClockConfirmed")]
pub struct Confirmed {
    status: Done,
    /// What the node's clock says
    #[schemars(extend("format" = "date-time"))]
    time: String,
}

/// What the node's clock says, and whether it is believed.
pub async fn show(authenticated: Authenticated) -> Result<Answer<Shown>, Problem> {
    let authorized = authenticated.must(Verb::Read, "$SYS/status").await?;
    let wall = &authorized.app.about.wall;
    let doubt = wall.doubt();
    Ok(Answer(Shown {
        time: wall.says().to_string(),
        in_doubt: doubt.is_some(),
        expected: doubt.map(|doubt| doubt.expected.to_string()),
        off_s: doubt.map(|doubt| doubt.off_s()),
    }))
}

/// Believes the node's clock, where that of the caller says the same.
pub async fn confirm(authenticated: Authenticated, Json(request): Json<Confirm>) -> Result<Answer<Confirmed>, Problem> {
    let authorized = authenticated.must(Verb::Admin, "$clock").await?;
    let wrong = |error: TimestampError| Problem::bad_request(format!("time is {:?}: {error}", request.time));
    let time: Timestamp = request.time.parse().map_err(wrong)?;
    let doubt = authorized.app.about.wall.confirm(time).map_err(|now| {
        let detail =
            format!("the node's clock says {now}, which is more than 10 minutes from {time}: set it right first");
        Problem::new(StatusCode::CONFLICT, detail)
    })?;
    let who = authorized.who();
    let now = authorized.app.bus.call(move |bus, now| {
        bus.confirm_clock(now, confirmation(now, &who, time, doubt));
        now
    });
    Ok(Answer(Confirmed { status: Done::Ok, time: now.await?.utc.to_string() }))
}

/// The record of a confirmation: what both clocks said, and what was known.
fn confirmation(now: Now, who: &str, other: Timestamp, doubt: Option<Doubt>) -> AuditLine {
    let says = now.utc;
    let before = match doubt {
        Some(doubt) => format!("by what was known it was {}", doubt.expected),
        None => "it was not in doubt".to_owned(),
    };
    let detail = format!("the node's clock says {says}, that of who confirms it {other}; {before}");
    AuditLine { value: says.to_string(), ..line_of(denial(now, who, "clock", "", "", "", detail)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmation_is_recorded_with_both_times() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = Now { utc: at("2026-11-20T09:36:00Z"), ..Now::default() };
        let doubt = Doubt { says: now.utc, expected: at("2026-08-12T00:00:00Z") };
        let line = confirmation(now, "http 10.0.0.7:1 anna", at("2026-11-20T09:35:58Z"), Some(doubt));
        assert_eq!((&*line.who, &*line.phase), ("http 10.0.0.7:1 anna", "clock"));
        let [own, other, known] = [now.utc, at("2026-11-20T09:35:58Z"), doubt.expected].map(|time| time.to_string());
        for time in [own, other, known] {
            assert!(line.detail.contains(&time), "{}", line.detail);
        }
        let line = confirmation(now, "http 10.0.0.7:1", now.utc, None);
        assert!(line.detail.ends_with("it was not in doubt"), "{}", line.detail);
    }
}
