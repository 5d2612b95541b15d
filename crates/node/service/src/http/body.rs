//! JSON bodies: what is wrong with one is a problem like all others.

use super::openapi::{Input, Operation, Output, Schemas};
use super::problem::Problem;
use crate::json::{self, JsonError};
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::marker::PhantomData;

const JSON: &str = "application/json";

/// The body of a request, read as JSON.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        check_declared(request.headers())?;
        let bytes = whole(request, state).await?;
        json::read(&bytes).map(Self).map_err(|error| {
            let status = match error {
                JsonError::Syntax(_) => StatusCode::BAD_REQUEST,
                JsonError::Content(_) => StatusCode::UNPROCESSABLE_ENTITY,
            };
            Problem::new(status, format!("the body: {error}"))
        })
    }
}

/// Whether the body is declared as JSON, or as a kind of it (`application/problem+json`).
fn check_declared(headers: &HeaderMap) -> Result<(), Problem> {
    let declared = headers.get(header::CONTENT_TYPE);
    let media = declared.and_then(|value| value.to_str().ok()).and_then(|text| text.split(';').next());
    let media = media.unwrap_or_default().trim().to_ascii_lowercase();
    if media == JSON || media.starts_with("application/") && media.ends_with("+json") {
        return Ok(());
    }
    let found = declared.map_or_else(|| "none".to_owned(), |value| format!("{value:?}"));
    let detail = format!("the header Content-Type: found {found}, expected {JSON}");
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// The most bytes that the body of a route may have; [`Routes`](super::routes::Routes) gives it to the route.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyBytesMax(pub(super) usize);

/// The whole body of a request.
///
/// # Errors
/// It is longer than the route takes, or did not come whole.
pub async fn whole<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    let declared =
        request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let limit = request.extensions().get::<BodyBytesMax>().copied();
    let read = Bytes::from_request(request, state).await;
    read.map_err(|error| match error.status() {
        status @ StatusCode::PAYLOAD_TOO_LARGE => {
            let found = declared.map_or_else(|| "more".to_owned(), |bytes| format!("{bytes} bytes"));
            let expected = limit.map_or_else(|| "fewer".to_owned(), |most| format!("at most {} bytes", most.0));
            Problem::new(status, format!("the body: found {found}, expected {expected}"))
        }
        status => Problem::new(status, "the body: found its end too soon, expected all of it"),
    })
}

impl<T: JsonSchema> Input for Json<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        takes_json(operation, schemas.read::<T>());
        operation.may_fail(422, "A member is missing or of the wrong type");
    }
}

/// A body in JSON, whatever it holds.
pub fn takes_json(operation: &mut Operation, schema: Value) {
    operation.body(JSON, schema);
    operation.may_fail(400, "The body is no JSON");
    operation.may_fail(415, "The body is not declared as application/json");
    operation.body_may_fail();
}

/// An answer in JSON.
#[derive(Debug)]
pub struct Answer<T>(pub T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        match serde_json::to_string(&self.0) {
            Ok(text) => json(text),
            Err(error) => Problem::unavailable(error.to_string()).into_response(),
        }
    }
}

impl<T: JsonSchema> Output for Answer<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.content(200, JSON, schemas.written::<T>());
        if let Some(words) = schemas.words::<T>() {
            operation.means(200, &words);
        }
    }
}

/// An answer in JSON of the type `T` that was written without it.
#[derive(Debug)]
pub struct Written<T> {
    body: Body,
    of: PhantomData<T>,
}

impl<T> Written<T> {
    /// The text, or a stream of it.
    pub fn new(body: impl Into<Body>) -> Self {
        Self { body: body.into(), of: PhantomData }
    }
}

impl<T> IntoResponse for Written<T> {
    fn into_response(self) -> Response {
        json(self.body)
    }
}

impl<T: JsonSchema> Output for Written<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Answer::<T>::describe(operation, schemas);
    }
}

/// A JSON text as a response.
pub fn json(text: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(JSON))], text.into()).into_response()
}
