//! `GET /v1/alarms/journal`.

use super::super::authorization::Authenticated;
use super::super::body::Answer;
use super::super::history::{in_turn, span};
use super::super::problem::Problem;
use super::rows::each_row;
use crate::config::Moment;
use crate::control::alarms::JournalRow;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::ControlFlow;
use tieline_alarms::Transition;
use tieline_core::{Filter, Timestamp, Words};
use tieline_service::http::openapi::{Operation, Output, Schemas};
use tieline_service::http::parameters::{Query, Whole, Word, write_form};
use tieline_service::parameters;

/// Rows that one request looks at.
const LOOKED_AT_MAX: usize = 200_000;

parameters! {
    /// Which rows of the journal are asked for.
    pub struct JournalAsked {
        /// Start, inclusive: RFC 3339, or a duration before the end, as in 24h
        from: Moment = "24h",
        /// End, exclusive: RFC 3339; default the present
        to: Option<Moment>,
        /// Topic filter of the alarmed topics
        filter: Filter = "#",
        /// Only this transition
        transition: Option<Word<Transition>>,
        /// Rows behind the one of this id; the member next of the page before
        after: Option<u64>,
        /// Rows of the page
        limit: Whole<1, 10_000> = "1000",
        /// How rows are written
        format: Word<JournalFormat> = "json",
    }
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalFormat {
    /// An object.
    Json,
    /// RFC 4180, with a head.
    Csv,
}

impl Words for JournalFormat {
    const WORDS: &'static [(&'static str, Self)] = &[("json", Self::Json), ("csv", Self::Csv)];
}

/// Rows of the journal of alarms, the oldest first
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "AlarmJournal")]
pub struct Rows {
    rows: Vec<JournalRow>,
    /// What to ask for the next page with, as `after`; null where there are no more. A page may be short, or empty, and there is a
    /// next one all the same
    next: Option<u64>,
}

/// A page in the form that was asked for.
pub enum Page {
    /// As an object.
    Json(Rows),
    /// As CSV, and the path of the next page.
    Csv(Vec<u8>, Option<String>),
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let (text, next) = match self {
            Self::Json(rows) => return Answer(rows).into_response(),
            Self::Csv(text, next) => (text, next),
        };
        let media_type = HeaderValue::from_static("text/csv; charset=utf-8");
        let mut answer = ([(header::CONTENT_TYPE, media_type)], text).into_response();
        if let Some(link) = next.and_then(|path| HeaderValue::try_from(format!("<{path}>; rel=\"next\"")).ok()) {
            answer.headers_mut().insert(header::LINK, link);
        }
        answer
    }
}

impl Output for Page {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Answer::<Rows>::describe(operation, schemas);
        operation.content(200, "text/csv", serde_json::Value::Null);
        let words = "Of CSV: the next page (RFC 8288, next), where there is one";
        operation.told(200, "Link", &serde_json::json!({ "type": "string" }), words);
    }
}

/// A page of the rows that the caller may read.
pub async fn journal(authenticated: Authenticated, Query(asked): Query<JournalAsked>) -> Result<Page, Problem> {
    let now = authenticated.now().utc;
    let (from, to) = span(&asked.from, asked.to.as_ref(), now)?;
    let Word(format) = asked.format;
    let to = to.unwrap_or(Timestamp::from_micros(i64::MAX));
    let following = following(&asked, to);
    let rows = in_turn(authenticated.each(), move |source, may_read| {
        let (mut page, mut looked_at) = (Rows { rows: Vec::new(), next: None }, 0);
        let begin = asked
            .after
            .and_then(|after| i64::try_from(after).ok())
            .map_or(from, |after| Timestamp::from_micros(after.saturating_add(1)).max(from));
        let mut last = None;
        each_row(&source, (begin, to), |row| {
            if page.rows.len() >= asked.limit.0 || looked_at >= LOOKED_AT_MAX {
                page.next = last;
                return ControlFlow::Break(());
            }
            looked_at += 1;
            last = u64::try_from(row.id).ok();
            if asked.selects(&row) && may_read(&row.topic) {
                page.rows.push(row);
            }
            ControlFlow::Continue(())
        })?;
        Ok(page)
    });
    let rows = rows.await?;
    Ok(match format {
        JournalFormat::Json => Page::Json(rows),
        JournalFormat::Csv => Page::Csv(csv_of(&rows.rows), rows.next.map(following)),
    })
}

impl JournalAsked {
    fn selects(&self, row: &JournalRow) -> bool {
        let is_of = |Word(transition): &Word<Transition>| transition.word() == row.transition;
        self.filter.matches_all_or(&row.topic) && self.transition.as_ref().is_none_or(is_of)
    }
}

/// The path of the page behind a row.
fn following(asked: &JournalAsked, to: Timestamp) -> impl FnOnce(u64) -> String + use<> {
    let mut pairs = vec![("filter".to_owned(), asked.filter.to_string()), ("format".to_owned(), "csv".to_owned())];
    pairs.push(("limit".to_owned(), asked.limit.0.to_string()));
    pairs.extend(asked.transition.as_ref().map(|Word(one)| ("transition".to_owned(), one.word().to_owned())));
    pairs.extend(asked.to.as_ref().map(|_| ("to".to_owned(), to.to_string())));
    move |after| {
        // Rows begin behind this one, whatever the time.
        let from = i64::try_from(after).map(Timestamp::from_micros).unwrap_or_default();
        pairs.push(("from".to_owned(), from.to_string()));
        pairs.push(("after".to_owned(), after.to_string()));
        format!("/v1/alarms/journal?{}", write_form(&pairs))
    }
}

const COLUMNS: [&str; 16] = [
    "id",
    "time",
    "topic",
    "kind",
    "seq",
    "transition",
    "state",
    "priority",
    "group",
    "text",
    "value",
    "who",
    "why",
    "annunciated",
    "cause_topic",
    "cause_kind",
];

fn csv_of(rows: &[JournalRow]) -> Vec<u8> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let mut write = |cells: [&str; COLUMNS.len()]| csv.write_record(cells).is_ok();
    write(COLUMNS);
    for row in rows {
        let (id, seq) = (row.id.to_string(), row.seq.to_string());
        let value = match &row.value {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let of = |text: &'_ Option<String>| text.clone().unwrap_or_default();
        let (who, why) = (of(&row.who), of(&row.why));
        let cause = row.cause.as_ref().map_or(("", ""), |cause| (&cause.topic, &cause.kind));
        write([
            &id,
            &row.time,
            &row.topic,
            &row.kind,
            &seq,
            &row.transition,
            &row.state,
            &row.priority,
            &row.group,
            &row.text,
            &value,
            &who,
            &why,
            if row.annunciated { "true" } else { "false" },
            cause.0,
            cause.1,
        ]);
    }
    csv.into_inner().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::alarms::AlarmName;

    #[test]
    fn rows_are_written_as_csv() {
        let row = JournalRow {
            id: 7,
            time: "2026-11-29T02:00:00.000000Z".into(),
            topic: "a/b".into(),
            kind: "high".into(),
            seq: 3,
            transition: "noted".into(),
            state: "shelved".into(),
            priority: "low".into(),
            group: String::new(),
            text: "over, load".into(),
            value: serde_json::json!(412.5),
            who: Some("anna".into()),
            why: Some("said \"so\"".into()),
            annunciated: true,
            cause: Some(AlarmName { topic: "a".into(), kind: "away".into() }),
        };
        let text = String::from_utf8(csv_of(&[row])).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], COLUMNS.join(","));
        let expect = "7,2026-11-29T02:00:00.000000Z,a/b,high,3,noted,shelved,low,,\"over, load\",412.5,anna,\"said \"\"so\"\"\",true,a,away";
        assert_eq!(lines[1], expect);
    }
}
