//! `/v1/history`.

use super::authorization::Authenticated;
use super::problem::Problem;
use super::query::{Query, illegal, wrong};
use crate::config::{Moment, parse_duration};
use axum::body::Body;
use axum::extract::RawQuery;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use tieline_access::Reach;
use tieline_core::{Filter, Timestamp};
use tieline_store::{Aggregate, Format, HistoryQuery, StoreReader, export};
use tokio::sync::mpsc;

/// Pieces of an answer that may wait for the caller.
const WAITING_MAX: usize = 2;
/// Bytes of a piece.
const PIECE_BYTES: usize = 32 * 1024;
/// Rows of an answer, unless the question says.
const ROWS: u64 = 100_000;
const ROWS_MAX: usize = 10_000_000;

/// Rows of a topic, or of all topics that a filter selects.
pub async fn query(authenticated: Authenticated, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let known = ["topic", "from", "to", "every", "agg", "limit", "format"];
    let query = Query::new(query.as_deref(), &known)?;
    let format = query.text("format").unwrap_or("json");
    let format = Format::from_name(format).ok_or_else(|| wrong("format", format, "json, csv, table or parquet"))?;
    let question = question(&query, authenticated.now().utc)?;
    // The store answers whole filters; topics that may not be read are not sorted out of its answer.
    let (authorized, reach) = authenticated.reads(std::slice::from_ref(&question.topics)).await?;
    match reach {
        Reach::All => {}
        Reach::Some | Reach::Nothing => {
            let words = "only some of these topics may be read; ask for a topic or a filter that may be read whole";
            return Err(Problem::new(StatusCode::FORBIDDEN, words));
        }
    }
    let off = || Problem::unavailable("history is off: history.enabled is false");
    let folder = authorized.app.about.history.clone().ok_or_else(off)?;
    let recall = authorized.app.about.recalls.enter(authorized.share()).await?;
    let (pieces, mut incoming) = mpsc::channel::<Result<Bytes, io::Error>>(WAITING_MAX);
    tokio::task::spawn_blocking(move || {
        answer(&folder, question, format, &pieces);
        drop(recall);
    });
    // The first piece says whether there is an answer at all; from then on an error can only break it off.
    let first = match incoming.recv().await {
        Some(Ok(piece)) => piece,
        Some(Err(error)) => return Err(Problem::unavailable(error.to_string())),
        None => Bytes::new(),
    };
    let stream = futures_util::stream::unfold((Some(first), incoming), |(first, mut incoming)| async {
        match first {
            Some(piece) => Some((Ok(piece), (None, incoming))),
            None => incoming.recv().await.map(|piece| (piece, (None, incoming))),
        }
    });
    let kind = HeaderValue::from_static(format.media_type());
    Ok(([(header::CONTENT_TYPE, kind)], Body::from_stream(stream)).into_response())
}

fn question(query: &Query, now: Timestamp) -> Result<HistoryQuery, Problem> {
    let topic =
        query.text("topic").ok_or_else(|| Problem::bad_request("topic is missing, expected a topic or a filter"))?;
    let mut question = HistoryQuery::of(Filter::new(topic).map_err(|e| illegal("topic", topic, &e))?);
    let moment = |name: &str, text: &str| Moment::parse(text).ok_or_else(|| wrong(name, text, Moment::EXPECTED));
    let to = query.text("to").map(|text| moment("to", text)).transpose()?.map(|to| to.resolve(now, now));
    question.to = to;
    let from = moment("from", query.text("from").unwrap_or("24h"))?.resolve(to.unwrap_or(now), now);
    if let Some(to) = to.filter(|to| *to < from) {
        return Err(Problem::bad_request(format!("from is {from}, expected a time before to, which is {to}")));
    }
    question.from = Some(from);
    question.limit = Some(query.limit(usize::try_from(ROWS).unwrap_or(ROWS_MAX), ROWS_MAX)? as u64);
    if let Some(text) = query.text("every") {
        let every = parse_duration(text).filter(|every| !every.is_zero());
        question.every = Some(every.ok_or_else(|| wrong("every", text, "a duration like 1m"))?);
    }
    if let Some(text) = query.text("agg") {
        let words: Vec<_> = Aggregate::ALL.iter().map(|(word, _)| *word).collect();
        let found = Aggregate::ALL.iter().find(|(word, _)| *word == text).map(|(_, aggregate)| *aggregate);
        question.aggregate = found.ok_or_else(|| wrong("agg", text, &format!("one of {}", words.join(", "))))?;
        if question.every.is_none() {
            return Err(Problem::bad_request("agg needs every, the width of a bucket"));
        }
    }
    Ok(question)
}

fn answer(folder: &Path, question: HistoryQuery, format: Format, pieces: &mpsc::Sender<Result<Bytes, io::Error>>) {
    let written = StoreReader::open(folder).map_err(|e| e.to_string()).and_then(|reader| {
        let rows = reader.query(question).map_err(|e| e.to_string())?;
        // A caller that has gone needs no more rows.
        let rows = rows.take_while(|_| !pieces.is_closed());
        let out = BufWriter::with_capacity(PIECE_BYTES, Pieces(pieces.clone()));
        export(rows, format, out).map_err(|e| e.to_string())
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
