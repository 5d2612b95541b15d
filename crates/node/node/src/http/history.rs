//! `/v1/history`.

use super::App;
use super::authorization::{Authenticated, Authorized};
use super::pieces;
use super::problem::Problem;
use crate::bus::written::Sample;
use crate::config::{Moment, parse_duration};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::time::{Duration, Instant};
use tieline_access::{Reach, Verb};
use tieline_core::{Filter, Timestamp, Value, Words as _};
use tieline_history::{Aggregate, Fill, HistoryQuery, HistorySource, Order, calendar};
use tieline_service::http::openapi::{Operation, Output, Schemas};
use tieline_service::http::parameters::{Fault, Parameter, QueryPairs, Whole, Word, write_form};
use tieline_service::parameters;
use tieline_store::{Extras, Format, Place, PlaceError, Row, RowPage, StoreError, export_with};
use tokio::sync::oneshot;

/// Topics and filters of a request.
const TOPICS_MAX: usize = 64;
/// Rows and bytes of values of an answer that is held until it is known where the next page begins.
const PAGE_ROWS_MAX: usize = 10_000;
const PAGE_BYTES_MAX: usize = 4 << 20;
/// Rows that are counted before an answer begins, so that it says whether there are more.
const COUNTED_ROWS_MAX: usize = 100_000;
/// Rows of an answer.
const ROWS_MAX: usize = 10_000_000;

parameters! {
    /// Which recorded values are asked for.
    pub struct HistoryAsked {
        /// Topic or topic filter; may be given up to 64 times
        topic: Vec<Filter>,
        /// Start, inclusive: RFC 3339, or a duration before the end, as in 24h
        from: Moment = "24h",
        /// End, exclusive: RFC 3339; default the present
        to: Option<Moment>,
        /// Width of a bucket, as in 1m; 1w, 1mo and 1y are those of a calendar; needs agg
        every: Option<Width>,
        /// Time zone whose days, weeks, months and years buckets are, as in Europe/Madrid; default UTC
        tz: Option<String>,
        /// What stands for a bucket without samples
        fill: Word<Fill> = "none",
        /// What a bucket shows
        agg: Option<Word<Aggregate>>,
        /// In which order rows come; buckets come by topic
        order: Word<Order> = "topic",
        /// Goes on behind this place: the one that the header Link of the page before has
        after: Option<Behind>,
        /// Most rows; up to 100000 the answer has a header Link where there are more
        limit: Whole<1, ROWS_MAX> = "100000",
        /// How rows are written
        format: Word<Format> = "json",
        /// Whether each row says what its value is, in a last column or a member `kind`, so that an import takes it exactly
        kinds: bool = "false",
        /// Whether each row says which edit changed it last, in a last column `edited`; JSON always does
        edited: bool = "false",
        /// Whether edits are left out: what was recorded
        raw: bool = "false",
    }
}

/// The width of a bucket.
#[derive(Debug)]
pub struct Width(pub(super) String, pub(super) Option<Duration>);

impl Parameter for Width {
    fn read(text: &str) -> Result<Self, Fault> {
        let duration = parse_duration(text).filter(|every| !every.is_zero());
        let is_width = duration.is_some() || calendar::Unit::parse(text).is_some();
        is_width.then(|| Self(text.to_owned(), duration)).ok_or_else(|| Fault::Expected(calendar::EXPECTED.to_owned()))
    }

    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "string", "pattern": "^[1-9][0-9]{0,6}(ms|s|m|h|d)$|^[1-9][0-9]{0,2}(w|mo|y)$" })
    }
}

/// The place of a row.
#[derive(Debug)]
pub struct Behind(Place);

impl Parameter for Behind {
    fn read(text: &str) -> Result<Self, Fault> {
        text.parse().map(Self).map_err(|error: PlaceError| Fault::Illegal(error.to_string()))
    }

    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "string", "pattern": "^-?[0-9]+[.][0-9]+[.]" })
    }
}

/// Rows in the form that was asked for, and where the next page is.
pub struct Rows(Format, Body, Option<String>);

impl IntoResponse for Rows {
    fn into_response(self) -> Response {
        let Self(format, body, next) = self;
        let mut answer =
            ([(header::CONTENT_TYPE, HeaderValue::from_static(format.media_type()))], body).into_response();
        if let Some(link) = next.and_then(|path| HeaderValue::try_from(format!("<{path}>; rel=\"next\"")).ok()) {
            answer.headers_mut().insert(header::LINK, link);
        }
        answer
    }
}

impl Output for Rows {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        for (_, format) in Format::WORDS {
            let schema = match format {
                Format::Json => schemas.written::<Vec<Sample>>(),
                Format::Csv | Format::Table | Format::Parquet | Format::Arrow => serde_json::Value::Null,
            };
            let media_type = format.media_type();
            operation.content(200, media_type.split(';').next().unwrap_or(media_type), schema);
        }
        let words = "The next page (RFC 8288, next), where there are more rows and limit is 100000 at most";
        operation.told(200, "Link", &serde_json::json!({ "type": "string" }), words);
    }
}

/// Rows of topics, or of all topics that filters select.
pub async fn query(
    authenticated: Authenticated,
    QueryPairs(asked, pairs): QueryPairs<HistoryAsked>,
) -> Result<Rows, Problem> {
    let Word(format) = asked.format;
    let (extras, is_raw) = (Extras { kinds: asked.kinds, edited: asked.edited }, asked.raw);
    let question = question(asked, authenticated.now().utc)?;
    let authorized = reads_all(authenticated, &question.topics).await?;
    let source = source(&authorized.app)?;
    let recall = authorized.app.about.recalls.enter(authorized.share()).await?;
    let (tell_next, next) = oneshot::channel();
    let from = question.from;
    let made = pieces::answer(recall, move |gone, out| {
        let reader = source.reader().map_err(|e| e.to_string())?.or_raw(is_raw);
        let limit = question.limit.and_then(|limit| usize::try_from(limit).ok());
        // What a row is filled with may stand on another page.
        let may_end = matches!(question.fill, Fill::None | Fill::Null);
        let limit = limit.filter(|limit| *limit <= COUNTED_ROWS_MAX && may_end);
        if let Some(limit) = limit.filter(|limit| *limit <= PAGE_ROWS_MAX) {
            let mut rows = reader.query(HistoryQuery { limit: None, ..question }).map_err(|e| e.to_string())?;
            let (page, next) = page(&mut rows, limit).map_err(|e| e.to_string())?;
            let _ = tell_next.send(next);
            let rows = &mut RowPage::from(page);
            return export_with(rows, format, extras, || true, out).map(drop).map_err(|e| e.to_string());
        }
        if let Some(limit) = limit {
            let mut rows = reader.query(HistoryQuery { limit: None, ..question.clone() }).map_err(|e| e.to_string())?;
            let _ = tell_next.send(last_of(&mut rows, limit).map_err(|e| e.to_string())?);
        } else {
            // Its pieces are read once it is known that nothing is said of a next page.
            drop(tell_next);
        }
        let mut rows = reader.query(question).map_err(|e| e.to_string())?;
        export_with(&mut rows, format, extras, || !gone.is_closed(), out).map(drop).map_err(|e| e.to_string())
    });
    let body = made.await?;
    // It is told before the first piece.
    let next = next.await.ok().flatten().map(|place| next_page(&pairs, from, &place));
    Ok(Rows(format, body, next))
}

/// Whether all of the topics may be read: the store answers whole filters.
pub(super) async fn reads_all(authenticated: Authenticated, topics: &[Filter]) -> Result<Authorized, Problem> {
    match authenticated.reads(topics).await? {
        (authorized, Reach::All) => Ok(authorized),
        (_, Reach::Some | Reach::Nothing) => {
            let words = "only some of these topics may be read; ask for a topic or a filter that may be read whole";
            Err(Problem::new(StatusCode::FORBIDDEN, words))
        }
    }
}

/// The rows of a page, as many as there is room for, and the place of the last one where there are more.
fn page(
    rows: &mut impl Iterator<Item = Result<Row, StoreError>>,
    limit: usize,
) -> Result<(Vec<Row>, Option<Place>), StoreError> {
    let (mut page, mut bytes): (Vec<Row>, usize) = (Vec::new(), 0);
    for row in rows {
        let row = row?;
        bytes += row.topic.len() + value_bytes(&row.point.value);
        if page.len() >= limit || (bytes > PAGE_BYTES_MAX && !page.is_empty()) {
            let last = page.last().map(|row| row.place());
            return Ok((page, last));
        }
        page.push(row);
    }
    Ok((page, None))
}

/// The place of the last of so many rows, where there are more.
fn last_of(
    rows: &mut impl Iterator<Item = Result<Row, StoreError>>,
    limit: usize,
) -> Result<Option<Place>, StoreError> {
    let Some(last) = rows.nth(limit.saturating_sub(1)).transpose()? else { return Ok(None) };
    Ok(rows.next().transpose()?.map(|_| last.place()))
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 8,
    }
}

/// The path of the page behind a place, which asks for the same from a time that does not move.
fn next_page(pairs: &[(String, String)], from: Option<Timestamp>, place: &Place) -> String {
    let stays = |(name, _): &&(String, String)| !matches!(name.as_str(), "from" | "after");
    let mut pairs: Vec<(String, String)> = pairs.iter().filter(stays).cloned().collect();
    pairs.extend(from.map(|from| ("from".to_owned(), from.to_string())));
    pairs.push(("after".to_owned(), place.to_string()));
    format!("/v1/history?{}", write_form(&pairs))
}

/// The history of a node.
pub(super) fn source(app: &App) -> Result<HistorySource, Problem> {
    app.about.history.clone().ok_or_else(|| Problem::unavailable("history is off: history.enabled is false"))
}

/// Reads the history on a thread of its own, in the caller's turn; `read` is told which topics the caller may read.
pub(super) async fn in_turn<T: Send + 'static>(
    authorized: Authorized,
    read: impl FnOnce(HistorySource, &dyn Fn(&str) -> bool) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let source = source(&authorized.app)?;
    let recall = authorized.app.about.recalls.enter(authorized.share()).await?;
    let (recalls, began) = (recall.recalls(), Instant::now());
    let caller = authorized.caller;
    let done = tokio::task::spawn_blocking(move || {
        let read = read(source, &|topic| caller.may(Verb::Read, topic));
        drop(recall);
        read
    });
    let done = done.await;
    recalls.queries().record(began.elapsed());
    done.map_err(|_| Problem::unavailable("the history cannot be read"))?
}

/// Whether as many topics are asked for as may be.
pub(super) fn check_topics(topics: &[Filter]) -> Result<(), Problem> {
    match topics.len() {
        1..=TOPICS_MAX => Ok(()),
        0 => Err(Problem::bad_request("topic is missing, expected a topic or a topic filter")),
        count => Err(Problem::bad_request(format!("topic is given {count} times, expected {TOPICS_MAX} at most"))),
    }
}

/// From when to when is asked for.
pub(super) fn span(
    from: &Moment,
    to: Option<&Moment>,
    now: Timestamp,
) -> Result<(Timestamp, Option<Timestamp>), Problem> {
    let to = to.map(|to| to.resolve(now, now));
    let from = from.resolve(to.unwrap_or(now), now);
    match to.filter(|to| *to < from) {
        Some(to) => Err(Problem::bad_request(format!("from is {from}, expected a time before to, which is {to}"))),
        None => Ok((from, to)),
    }
}

fn question(asked: HistoryAsked, now: Timestamp) -> Result<HistoryQuery, Problem> {
    check_topics(&asked.topic)?;
    let (from, to) = span(&asked.from, asked.to.as_ref(), now)?;
    let limit = Some(asked.limit.0 as u64);
    let mut question = HistoryQuery { from: Some(from), to, limit, ..HistoryQuery::of_several(asked.topic) };
    question.fill = asked.fill.0;
    let is_bucketed = asked.every.is_some();
    if let Some(Width(text, duration)) = asked.every {
        let end = to.unwrap_or(now);
        let buckets = calendar::buckets(&text, duration, asked.tz.as_deref(), from, end);
        question = question.in_buckets(buckets.map_err(Problem::bad_request)?, end);
    } else if asked.tz.is_some() || question.fill != Fill::None {
        return Err(Problem::bad_request("tz and fill need every, the width of a bucket"));
    }
    question.after = asked.after.map(|Behind(place)| place);
    question.order = asked.order.0;
    if is_bucketed && question.order == Order::Time {
        return Err(Problem::bad_request("order is \"time\", expected \"topic\": buckets come by topic"));
    }
    if let Some(Word(aggregate)) = asked.agg {
        question.aggregate = aggregate;
        if !is_bucketed {
            return Err(Problem::bad_request("agg needs every, the width of a bucket"));
        }
    }
    Ok(question)
}
