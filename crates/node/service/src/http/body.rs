//! A JSON body, whose errors are problems like all others.

use super::problem::Problem;
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

/// The body of a request, read as JSON.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let read = axum::Json::from_request(request, state).await;
        read.map(|axum::Json(body)| Self(body)).map_err(|error| Problem::new(error.status(), error.body_text()))
    }
}
