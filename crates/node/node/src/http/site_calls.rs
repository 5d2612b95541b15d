//! Control of points of sites, over the HTTP API of their centre.

use super::authorization::Authorized;
use super::command::status_of;
use super::control::{ask, status_of_reservation};
use super::problem::Problem;
use crate::bus::refusal_of;
use crate::sites::{CallVerb, SiteRequest};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::Value as Json;

/// The answer of another node to a request that was sent there, with the status that says what became of it.
pub struct ForwardedAnswer(StatusCode, String);

impl ForwardedAnswer {
    /// With the status that the same answer of this node would have.
    pub fn of(answer: String) -> Self {
        let json: Json = serde_json::from_str(&answer).unwrap_or_default();
        let word = |member: &str| json.get(member).and_then(Json::as_str).unwrap_or_default();
        let status = match (word("result"), word("reason")) {
            ("FAILURE", _) => status_of_reservation(word("info")),
            (_, "") => StatusCode::OK,
            (_, reason) => status_of(reason, word("status") == "unknown"),
        };
        Self(status, answer)
    }
}

impl IntoResponse for ForwardedAnswer {
    fn into_response(self) -> Response {
        (self.0, [(CONTENT_TYPE, "application/json")], self.1).into_response()
    }
}

/// Asks the site of a request's topics; none where the topics are this node's own.
///
/// # Errors
/// The caller may not, or the node is stopping.
pub(super) async fn forwarded(
    authorized: &Authorized,
    verb: CallVerb,
    body: &Json,
    name: Option<&str>,
) -> Result<Option<ForwardedAnswer>, Problem> {
    let Some(prefix) = authorized.app.about.sites.prefix() else { return Ok(None) };
    let reserved = authorized.app.known.reserved();
    let Some(request) = SiteRequest::of(prefix, verb, body, |topic| reserved.is_of_device(topic)) else {
        return Ok(None);
    };
    let request = match request {
        Ok(request) => request,
        Err(refusal) => return Ok(Some(ForwardedAnswer::of(refusal_of(verb, refusal, None)))),
    };
    for (verb, topic) in &request.rights {
        authorized.must(*verb, topic).await?;
    }
    let by = authorized.call(name).by;
    let answer = ask(authorized, move |bus, now, answer| bus.call_site(now, request, &by, answer)).await?;
    Ok(Some(ForwardedAnswer::of(answer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_that_of_the_same_answer_of_a_local_request() {
        let check = |answer: &str, expect: u16| {
            assert_eq!(ForwardedAnswer::of(answer.to_owned()).0.as_u16(), expect, "{answer}")
        };
        check("{\"status\":\"success\"}", 200);
        check("{\"status\":\"refused\",\"reason\":\"away\"}", 503);
        check("{\"status\":\"refused\",\"reason\":\"site_refuses\"}", 409);
        check("{\"status\":\"unknown\",\"reason\":\"timeout\"}", 504);
        check("{\"status\":\"unknown\",\"reason\":\"unreadable\"}", 504);
        check("{\"result\":\"FAILURE\",\"info\":\"AWAY: x\"}", 503);
        check("{\"result\":\"FAILURE\",\"info\":\"TIMEOUT: x\"}", 504);
        check("{\"result\":\"SUCCESS\",\"info\":\"\"}", 200);
        check("{\"topics\":[],\"errors\":{}}", 200);
    }
}
