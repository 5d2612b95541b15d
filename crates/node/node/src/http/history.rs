//! `/v1/history`.

use super::authorization::{Authenticated, Authorized};
use super::problem::Problem;
use crate::bus::written::Sample;
use crate::config::{Moment, parse_duration};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use std::io::{self, BufWriter, Write};
use std::time::Duration;
use tieline_access::Reach;
use tieline_core::{Filter, Timestamp};
use tieline_history::{Aggregate, HistoryQuery, HistorySource};
use tieline_service::http::openapi::{Operation, Output, Schemas};
use tieline_service::http::parameters::{Fault, Parameter, Query, Whole, of_word, words_schema};
use tieline_service::parameters;
use tieline_store::{Format, Kinds, export};
use tokio::sync::mpsc;

/// Pieces of an answer that may wait for the caller.
const WAITING_MAX: usize = 2;
/// Bytes of a piece.
const PIECE_BYTES: usize = 32 * 1024;
/// Rows of an answer.
const ROWS_MAX: usize = 10_000_000;

parameters! {
    /// Which recorded values are asked for.
    pub struct HistoryAsked {
        /// Topic or topic filter
        topic: Filter,
        /// Start, inclusive: RFC 3339, or a duration before the end, as in 24h
        from: Moment = "24h",
        /// End, exclusive: RFC 3339; default the present
        to: Option<Moment>,
        /// Width of a bucket, as in 1m; needs agg
        every: Option<Width>,
        /// What a bucket shows
        agg: Option<Shown>,
        /// Most rows
        limit: Whole<1, ROWS_MAX> = "100000",
        /// How rows are written
        format: Form = "json",
        /// Whether each row says what its value is, in a last column or a member `kind`, so that an import takes it exactly
        kinds: bool = "false",
    }
}

/// The width of a bucket.
#[derive(Debug)]
pub struct Width(Duration);

impl Parameter for Width {
    fn read(text: &str) -> Result<Self, Fault> {
        let every = parse_duration(text).filter(|every| !every.is_zero());
        every.map(Self).ok_or_else(|| Fault::Expected("a duration like 1m".to_owned()))
    }

    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "string", "pattern": "^[1-9][0-9]{0,6}(ms|s|m|h|d)$" })
    }
}

/// What a bucket shows.
#[derive(Debug)]
pub struct Shown(Aggregate);

impl Parameter for Shown {
    fn read(text: &str) -> Result<Self, Fault> {
        of_word(Aggregate::ALL, text).map(Self)
    }

    fn schema() -> serde_json::Value {
        words_schema(Aggregate::ALL.map(|(word, _)| word))
    }
}

/// How rows are written.
#[derive(Debug)]
pub struct Form(Format);

impl Parameter for Form {
    fn read(text: &str) -> Result<Self, Fault> {
        of_word(Format::ALL, text).map(Self)
    }

    fn schema() -> serde_json::Value {
        words_schema(Format::ALL.map(|(word, _)| word))
    }
}

/// Rows in the form that was asked for.
pub struct Rows(Format, Body);

impl IntoResponse for Rows {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, HeaderValue::from_static(self.0.media_type()))], self.1).into_response()
    }
}

impl Output for Rows {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        for (_, format) in Format::ALL {
            let schema = match format {
                Format::Json => schemas.written::<Vec<Sample>>(),
                Format::Csv | Format::Table | Format::Parquet => serde_json::Value::Null,
            };
            let media_type = format.media_type();
            operation.content(200, media_type.split(';').next().unwrap_or(media_type), schema);
        }
    }
}

/// Rows of a topic, or of all topics that a filter selects.
pub async fn query(authenticated: Authenticated, Query(asked): Query<HistoryAsked>) -> Result<Rows, Problem> {
    let Form(format) = asked.format;
    let written = (format, if asked.kinds { Kinds::Told } else { Kinds::Untold });
    let question = question(asked, authenticated.now().utc)?;
    let authorized = must_read_all(authenticated, &question.topics).await?;
    let source = source(&authorized)?;
    let recall = authorized.app.about.recalls.enter(authorized.share()).await?;
    let (pieces, incoming) = mpsc::channel::<Result<Bytes, io::Error>>(WAITING_MAX);
    tokio::task::spawn_blocking(move || {
        answer(&source, question, written, &pieces);
        drop(recall);
    });
    let body = streamed(incoming).await.map_err(|error| Problem::unavailable(error.to_string()))?;
    Ok(Rows(format, body))
}

/// Pieces as the body of an answer. The first says whether there is an answer at all; from then on an error can only break it off.
pub(super) async fn streamed(mut incoming: mpsc::Receiver<Result<Bytes, io::Error>>) -> Result<Body, io::Error> {
    let first = incoming.recv().await.transpose()?.unwrap_or_default();
    let stream = futures_util::stream::unfold((Some(first), incoming), |(first, mut incoming)| async {
        match first {
            Some(piece) => Some((Ok(piece), (None, incoming))),
            None => incoming.recv().await.map(|piece| (piece, (None, incoming))),
        }
    });
    Ok(Body::from_stream(stream))
}

/// Goes on only where the caller may read all of what a filter selects: the store answers whole filters, and topics that may not be
/// read are not sorted out of its answer.
pub(super) async fn must_read_all(authenticated: Authenticated, filter: &Filter) -> Result<Authorized, Problem> {
    let (authorized, reach) = authenticated.reads(std::slice::from_ref(filter)).await?;
    match reach {
        Reach::All => Ok(authorized),
        Reach::Some | Reach::Nothing => {
            let words = "only some of these topics may be read; ask for a topic or a filter that may be read whole";
            Err(Problem::new(StatusCode::FORBIDDEN, words))
        }
    }
}

/// The history, where it is on.
pub(super) fn source(authorized: &Authorized) -> Result<HistorySource, Problem> {
    let off = || Problem::unavailable("history is off: history.enabled is false");
    authorized.app.about.history.clone().ok_or_else(off)
}

fn question(asked: HistoryAsked, now: Timestamp) -> Result<HistoryQuery, Problem> {
    let mut question = HistoryQuery::of(asked.topic);
    let to = asked.to.map(|to| to.resolve(now, now));
    question.to = to;
    let from = asked.from.resolve(to.unwrap_or(now), now);
    if let Some(to) = to.filter(|to| *to < from) {
        return Err(Problem::bad_request(format!("from is {from}, expected a time before to, which is {to}")));
    }
    question.from = Some(from);
    question.limit = Some(asked.limit.0 as u64);
    question.every = asked.every.map(|Width(every)| every);
    if let Some(Shown(aggregate)) = asked.agg {
        question.aggregate = aggregate;
        if question.every.is_none() {
            return Err(Problem::bad_request("agg needs every, the width of a bucket"));
        }
    }
    Ok(question)
}

fn answer(
    source: &HistorySource,
    question: HistoryQuery,
    (format, kinds): (Format, Kinds),
    pieces: &mpsc::Sender<Result<Bytes, io::Error>>,
) {
    let written = source.reader().map_err(|e| e.to_string()).and_then(|reader| {
        let rows = reader.query(question).map_err(|e| e.to_string())?;
        // A caller that has gone needs no more rows.
        let rows = rows.take_while(|_| !pieces.is_closed());
        let out = BufWriter::with_capacity(PIECE_BYTES, Pieces(pieces.clone()));
        export(rows, format, kinds, out).map_err(|e| e.to_string())
    });
    if let Err(error) = written {
        // A caller that has gone needs no error.
        let _ = pieces.blocking_send(Err(io::Error::other(error)));
    }
}

/// Pieces of an answer, on their way to the caller.
pub(super) struct Pieces(pub(super) mpsc::Sender<Result<Bytes, io::Error>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
