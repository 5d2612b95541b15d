//! `/v1/backup`: everything that the data folder holds, as it is now.

use super::authorization::Authenticated;
use super::pieces::{Pieces, streamed};
use super::problem::Problem;
use crate::access::denial;
use crate::backup::{self, BackupError};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use std::io::{self, BufWriter};
use tieline_access::Verb;
use tieline_service::http::openapi::{Operation, Output, Schemas};
use tokio::sync::mpsc;

/// Pieces of an archive that may wait for the caller.
const WAITING_MAX: usize = 4;
const PIECE_BYTES: usize = 128 * 1024;
const ARCHIVE: &str = "application/x-tar";

/// An archive.
pub struct Archive(Body);

impl IntoResponse for Archive {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, HeaderValue::from_static(ARCHIVE))], self.0).into_response()
    }
}

impl Output for Archive {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.content(200, ARCHIVE, serde_json::Value::Null);
    }
}

/// A backup, which is whole where it ends with its list of files.
pub async fn backup(authenticated: Authenticated) -> Result<Archive, Problem> {
    let authorized = authenticated.must(Verb::Admin, "$backup").await?;
    let (who, data) = (authorized.who(), authorized.app.about.data.clone());
    let noted = authorized.app.bus.call(move |bus, now| {
        bus.note_access(denial(
            now,
            &who,
            "backup",
            "",
            "",
            "",
            "a backup of the data folder was asked for".to_owned(),
        ));
        now.utc
    });
    let now = noted.await?;
    let (pieces, incoming) = mpsc::channel::<Result<Bytes, io::Error>>(WAITING_MAX);
    tokio::task::spawn_blocking(move || {
        let mut out = BufWriter::with_capacity(PIECE_BYTES, Pieces(pieces.clone()));
        if let Err(error) = backup::write(&data, now, &mut out, &mut |_, _| {}) {
            tracing::warn!(%error, "a backup was not made");
            // What is left in the buffer is no part of an answer.
            let (_, _rest) = out.into_parts();
            let _ = pieces.blocking_send(Err(io::Error::other(error)));
        }
    });
    let body = streamed(incoming).await.map_err(|error| {
        let why = error.get_ref().and_then(|error| error.downcast_ref());
        let status = match why {
            Some(BackupError::Busy) => StatusCode::CONFLICT,
            Some(_) | None => StatusCode::SERVICE_UNAVAILABLE,
        };
        Problem::new(status, error.to_string())
    })?;
    Ok(Archive(body))
}
