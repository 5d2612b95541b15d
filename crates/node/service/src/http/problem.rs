//! Errors of the API: `application/problem+json` (RFC 9457).

use super::openapi::Output;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

/// An error that a caller can act on.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    /// With what was found and what was expected, in one sentence.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    /// A parameter or a body that is not what it must be.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Nothing of that name.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// The node is stopping, or a part of it is not there.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }
}

/// What was found and what was expected.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(super) struct ProblemBody<'a> {
    detail: &'a str,
    #[schemars(range(min = 400, max = 599))]
    status: u16,
    title: &'static str,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("error");
        let body = ProblemBody { detail: &self.detail, status: self.status.as_u16(), title };
        let kind = HeaderValue::from_static("application/problem+json");
        // Texts and a number are always JSON.
        let text = serde_json::to_string(&body).unwrap_or_default();
        (self.status, [(header::CONTENT_TYPE, kind)], text).into_response()
    }
}

impl Output for Problem {}
