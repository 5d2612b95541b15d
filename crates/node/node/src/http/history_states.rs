//! `/v1/history/states`: how long topics were in each state.

use super::authorization::Authenticated;
use super::history::{Width, check_topics, reads_all, source, span};
use super::pieces;
use super::problem::Problem;
use crate::bus::written::StateDuration;
use crate::config::Moment;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tieline_core::{Filter, Timestamp, Words as _};
use tieline_history::{HistoryQuery, calendar};
use tieline_service::http::openapi::{Operation, Output, Schemas};
use tieline_service::http::parameters::{Fault, Parameter, QueryPairs, Whole, words_schema};
use tieline_service::parameters;
use tieline_store::{Format, STATE_FORMATS, export_states};

/// Rows of an answer.
const ROWS_MAX: usize = 10_000_000;

parameters! {
    /// Whose states are asked for.
    pub struct StatesAsked {
        /// Topic or topic filter; may be given up to 64 times
        topic: Vec<Filter>,
        /// Start, inclusive: RFC 3339, or a duration before the end, as in 24h
        from: Moment = "24h",
        /// End, exclusive: RFC 3339; default and latest the present
        to: Option<Moment>,
        /// Width of a bucket, as in 1h; 1w, 1mo and 1y are those of a calendar; default all of the time
        every: Option<Width>,
        /// Time zone whose days, weeks, months and years buckets are, as in Europe/Madrid; default UTC
        tz: Option<String>,
        /// Most rows
        limit: Whole<1, ROWS_MAX> = "100000",
        /// Whether edits are left out: the states that were recorded
        raw: bool = "false",
        /// How rows are written
        format: Form = "json",
    }
}

/// How rows are written.
#[derive(Debug)]
pub struct Form(Format);

impl Form {
    fn words() -> impl Iterator<Item = &'static str> {
        STATE_FORMATS.iter().map(|format| format.word())
    }
}

impl Parameter for Form {
    fn read(text: &str) -> Result<Self, Fault> {
        let format = Format::of_word(text).filter(|format| STATE_FORMATS.contains(format));
        format.map(Self).ok_or_else(|| Fault::none_of(Self::words()))
    }

    fn schema() -> serde_json::Value {
        words_schema(Self::words())
    }
}

/// States in the form that was asked for.
pub struct Rows(Format, Body);

impl IntoResponse for Rows {
    fn into_response(self) -> Response {
        let Self(format, body) = self;
        ([(header::CONTENT_TYPE, HeaderValue::from_static(format.media_type()))], body).into_response()
    }
}

impl Output for Rows {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        for format in STATE_FORMATS {
            let schema = match format {
                Format::Json => schemas.written::<Vec<StateDuration>>(),
                Format::Csv | Format::Table | Format::Parquet | Format::Arrow => serde_json::Value::Null,
            };
            let media_type = format.media_type();
            operation.content(200, media_type.split(';').next().unwrap_or(media_type), schema);
        }
    }
}

/// How long topics, or all topics that filters select, were in each state.
pub async fn query(
    authenticated: Authenticated,
    QueryPairs(asked, _): QueryPairs<StatesAsked>,
) -> Result<Rows, Problem> {
    let (format, is_raw) = (asked.format.0, asked.raw);
    let question = question(asked, authenticated.now().utc)?;
    let authorized = reads_all(authenticated, &question.topics).await?;
    let source = source(&authorized.app)?;
    let recall = authorized.app.about.recalls.enter(authorized.share()).await?;
    let body = pieces::answer(recall, move |gone, out| {
        let reader = source.reader().map_err(|error| error.to_string())?.or_raw(is_raw);
        let states = reader.states(question).map_err(|error| error.to_string())?;
        export_states(states.take_while(|_| !gone.is_closed()), format, out)
            .map(drop)
            .map_err(|error| error.to_string())
    });
    Ok(Rows(format, body.await?))
}

fn question(asked: StatesAsked, now: Timestamp) -> Result<HistoryQuery, Problem> {
    check_topics(&asked.topic)?;
    let (from, to) = span(&asked.from, asked.to.as_ref(), now)?;
    // No state is known of the time to come.
    let (to, limit) = (to.unwrap_or(now).min(now), Some(asked.limit.0 as u64));
    let question = HistoryQuery { from: Some(from), to: Some(to), limit, ..HistoryQuery::of_several(asked.topic) };
    match asked.every {
        Some(Width(text, duration)) => {
            let buckets = calendar::buckets(&text, duration, asked.tz.as_deref(), from, to);
            Ok(question.in_buckets(buckets.map_err(Problem::bad_request)?, to))
        }
        None if asked.tz.is_some() => Err(Problem::bad_request("tz needs every, the width of a bucket")),
        None => Ok(question),
    }
}
