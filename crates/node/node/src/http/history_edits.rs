//! `/v1/history/edits`: what people changed of the history, and said of it. What was recorded stays as it is.

use super::arguments::EditAt;
use super::authorization::{Authenticated, Authorized};
use super::body::{Answer, Json};
use super::history::source;
use super::problem::Problem;
use crate::access::denial;
use crate::config::Moment;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use tieline_access::Verb;
use tieline_core::{Filter, Quality, Timestamp, Topic, Words as _};
use tieline_history::{EditError, HistorySource};
use tieline_service::http::parameters::{Query, Whole, Word};
use tieline_service::parameters;
use tieline_store::{EditKind, EditQuery, EditRecord, Ended, NewEdit, StoreError, of_json, quality};

/// Who may edit administers this.
pub const EDITS: &str = "$history/edits";

parameters! {
    /// Which edits and annotations are asked for.
    pub struct EditsAsked {
        /// Topic or topic filter
        topic: Filter = "#",
        /// Only those whose time ends behind this: RFC 3339, or a duration before the end
        from: Option<Moment>,
        /// Only those whose time begins before this: RFC 3339
        to: Option<Moment>,
        /// Only those of this author
        who: Option<String>,
        /// Only those of this kind
        kind: Option<Word<EditKind>>,
        /// Only those that are not undone (true), or that are (false)
        active: Option<bool>,
        /// Goes on before this number: next of the page before
        before: Option<u64>,
        /// Edits of the page
        limit: Whole<1, 1000> = "100",
    }
}

/// An edit or an annotation that is to be made.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "HistoryEditGiven")]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// Topic
    topic: String,
    /// value: samples have another value; quality: another quality; exclude: they are left out; insert: a sample is added;
    /// annotation: a text that changes nothing
    kind: String,
    /// The instant, RFC 3339 or so long ago; or from and to
    #[serde(default)]
    at: Option<String>,
    /// Start, inclusive: RFC 3339, or a duration before the end
    #[serde(default)]
    from: Option<String>,
    /// End, exclusive: RFC 3339; default the present
    #[serde(default)]
    to: Option<String>,
    /// The value, of the kinds value and insert; null for none
    #[serde(default, deserialize_with = "present")]
    v: Option<serde_json::Value>,
    /// The quality: good, uncertain or bad; of the kind quality, and of value and insert if it is to be another
    #[serde(default)]
    q: Option<String>,
    /// What an annotation says
    #[serde(default)]
    text: Option<String>,
    /// Why
    why: String,
}

/// Null is a value, too.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(from).map(Some)
}

/// Why an edit is undone.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "HistoryUndoGiven")]
#[serde(deny_unknown_fields)]
pub struct UndoGiven {
    /// Why
    why: String,
}

/// An edit or an annotation.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "HistoryEdit")]
pub struct Shown {
    id: u64,
    topic: String,
    /// value, quality, exclude, insert or annotation
    kind: &'static str,
    /// Start, inclusive
    #[schemars(extend("format" = "date-time"))]
    from: String,
    /// End, exclusive; a microsecond after the start for an instant
    #[schemars(extend("format" = "date-time"))]
    to: String,
    /// The value given; absent where none is, or where it was erased
    #[serde(skip_serializing_if = "Option::is_none")]
    v: Option<serde_json::Value>,
    /// The quality given
    #[serde(skip_serializing_if = "Option::is_none")]
    q: Option<&'static str>,
    /// What an annotation says
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Who made it
    who: String,
    /// When it was made
    #[schemars(extend("format" = "date-time"))]
    time: String,
    why: String,
    /// Who undid it, when and why; absent while it is active
    #[serde(skip_serializing_if = "Option::is_none")]
    undone: Option<Undone>,
    /// Whether value and text were erased, as the samples were deleted
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    erased: bool,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct Undone {
    who: String,
    #[schemars(extend("format" = "date-time"))]
    time: String,
    why: String,
}

/// A page of edits and annotations, the newest first.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "HistoryEdits")]
pub struct Page {
    edits: Vec<Shown>,
    /// What to go on before; null where there are no more
    next: Option<u64>,
}

impl From<EditRecord> for Shown {
    fn from(record: EditRecord) -> Self {
        let EditRecord { id, edit, ended, is_erased } = record;
        let NewEdit { topic, kind, from, to, value, quality, text, who, made, why } = edit;
        let undone = ended.map(|Ended { who, time, why }| Undone { who, time: time.to_string(), why });
        Self {
            id,
            topic: topic.to_string(),
            kind: kind.word(),
            from: from.to_string(),
            to: to.to_string(),
            v: value.as_ref().map(tieline_service::json::of_value),
            q: quality.map(|quality| quality.validity().name()),
            text,
            who,
            time: made.to_string(),
            why,
            undone,
            erased: is_erased,
        }
    }
}

/// An edit, as `/v1/history/edits` shows it.
#[must_use]
pub fn shown_history_edit(record: EditRecord) -> serde_json::Value {
    serde_json::to_value(Shown::from(record)).unwrap_or_default()
}

/// The edit that a body of `POST /v1/history/edits` asks for.
///
/// # Errors
/// What is wrong with it, and what was expected.
pub fn history_edit_of(body: serde_json::Value, who: String, now: Timestamp) -> Result<NewEdit, String> {
    edit_of(tieline_service::json::read_value(&body).map_err(|error| error.to_string())?, who, now)
}

/// Makes an edit or an annotation; the audit log says who did it, and why.
pub async fn make(authenticated: Authenticated, Json(given): Json<Given>) -> Result<Answer<Shown>, Problem> {
    let authorized = authenticated.must(Verb::Admin, EDITS).await?;
    let now = authorized.app.about.clock.now().utc;
    let new = edit_of(given, author(&authorized), now).map_err(Problem::bad_request)?;
    authorized.must(Verb::Read, &new.topic).await?;
    change(authorized, "history_edit", move |source| source.make_edit(new)).await
}

/// Ends an edit or an annotation; it stays in the list.
pub async fn undo(
    authenticated: Authenticated,
    EditAt(id): EditAt,
    Json(given): Json<UndoGiven>,
) -> Result<Answer<Shown>, Problem> {
    let authorized = authenticated.must(Verb::Admin, EDITS).await?;
    let source = source(&authorized.app)?;
    let found = tokio::task::spawn_blocking(move || source.edit(id)).await;
    let found = found.map_err(|error| Problem::unavailable(error.to_string()))?.map_err(EditError::Store);
    let topic = found.and_then(|found| found.ok_or(EditError::Unknown(id))).map_err(problem_of)?.edit.topic;
    authorized.must(Verb::Read, &topic).await?;
    let end = Ended { who: author(&authorized), time: authorized.app.about.clock.now().utc, why: given.why };
    change(authorized, "history_undo", move |source| source.undo_edit(id, end)).await
}

/// Changes the edits, and has the audit log say so.
async fn change(
    authorized: Authorized,
    phase: &'static str,
    change: impl FnOnce(&HistorySource) -> Result<EditRecord, EditError> + Send + 'static,
) -> Result<Answer<Shown>, Problem> {
    let source = source(&authorized.app)?;
    let (who, bus) = (authorized.who(), authorized.app.bus.clone());
    // It is carried through where the caller has gone.
    let done = tokio::spawn(async move {
        let done = tokio::task::spawn_blocking(move || change(&source)).await;
        let record = done.map_err(|error| Problem::unavailable(error.to_string()))?.map_err(problem_of)?;
        let (topic, detail) = (record.edit.topic.to_string(), detail_of(&record));
        bus.call(move |bus, now| bus.note_access(denial(now, &who, phase, "", &topic, "", detail))).await?;
        Ok::<_, Problem>(record)
    });
    let record = done.await.map_err(|error| Problem::unavailable(error.to_string()))??;
    Ok(Answer(Shown::from(record)))
}

/// The user; where nobody shows who it is, the address.
fn author(authorized: &Authorized) -> String {
    authorized.caller.user().map_or_else(|| authorized.who(), str::to_owned)
}

/// What the audit log says of an edit: not the value, which a deletion erases.
fn detail_of(record: &EditRecord) -> String {
    let EditRecord { id, edit, ended, .. } = record;
    let why = ended.as_ref().map_or(&edit.why, |ended| &ended.why);
    format!("edit {id}, {}, from {} to {}: {why}", edit.kind.word(), edit.from, edit.to)
}

/// Edits and annotations of the topics that the caller may read.
pub async fn list(authenticated: Authenticated, Query(asked): Query<EditsAsked>) -> Result<Answer<Page>, Problem> {
    let now = authenticated.now().utc;
    let query = query_of(asked, now)?;
    let (authorized, _) = authenticated.reads(std::slice::from_ref(&query.topics)).await?;
    let source = source(&authorized.app)?;
    let recall = authorized.app.about.recalls.enter(authorized.share()).await?;
    let found = tokio::task::spawn_blocking(move || {
        let found = source.edits(&query);
        drop(recall);
        found
    });
    let found = found.await.map_err(|error| Problem::unavailable(error.to_string()))?;
    let (mut edits, next) = found.map_err(|error| Problem::unavailable(error.to_string()))?;
    edits.retain(|record| authorized.caller.may(Verb::Read, &record.edit.topic));
    Ok(Answer(Page { edits: edits.into_iter().map(Shown::from).collect(), next }))
}

fn query_of(asked: EditsAsked, now: Timestamp) -> Result<EditQuery, Problem> {
    let to = asked.to.map_or(Timestamp::from_micros(i64::MAX), |to| to.resolve(now, now));
    let from = asked.from.map(|from| from.resolve(to.min(now), now)).unwrap_or(Timestamp::from_micros(i64::MIN));
    if to < from {
        return Err(Problem::bad_request(format!("from is {from}, expected a time before to, which is {to}")));
    }
    let kind = asked.kind.map(|Word(kind)| kind);
    Ok(EditQuery {
        topics: asked.topic,
        from,
        to,
        who: asked.who,
        kind,
        active: asked.active,
        before: asked.before,
        limit: asked.limit.0,
    })
}

/// The edit that is asked for; what is wrong with it otherwise.
fn edit_of(given: Given, who: String, now: Timestamp) -> Result<NewEdit, String> {
    let wrong = |name: &str, found: &str, expected: &str| format!("{name} is {found:?}, expected {expected}");
    let Given { topic, kind, at, from, to, v, q, text, why } = given;
    let known = || format!("one of {}", EditKind::words().collect::<Vec<_>>().join(", "));
    let kind = EditKind::of_word(&kind).ok_or_else(|| wrong("kind", &kind, &known()))?;
    let topic = Topic::new(&topic).map_err(|error| format!("topic is {topic:?}: {error}"))?;
    let moment = |name: &str, text: &str| Moment::parse(text).ok_or_else(|| wrong(name, text, Moment::EXPECTED));
    let (from, to) = match (at, from, to) {
        (Some(at), None, None) => {
            let at = moment("at", &at)?.resolve(now, now);
            (at, Timestamp::from_micros(at.micros().saturating_add(1)))
        }
        (None, Some(from), to) => {
            let to = to.map_or(Ok(now), |to| moment("to", &to).map(|to| to.resolve(now, now)))?;
            (moment("from", &from)?.resolve(to, now), to)
        }
        _ => return Err("expected at, or from".to_owned()),
    };
    let value = v.map(|json| {
        let shown = json.to_string();
        of_json(json).ok_or_else(|| wrong("v", &shown, "a number, a text, true, false or null"))
    });
    let quality = q.filter(|word| !word.is_empty()).map(|word| quality(&word, Quality::GOOD));
    Ok(NewEdit {
        topic,
        kind,
        from,
        to,
        value: value.transpose()?,
        quality: quality.transpose()?,
        text,
        who,
        made: now,
        why,
    })
}

fn problem_of(error: EditError) -> Problem {
    let words = error.to_string();
    match error {
        EditError::Wrong(_) => Problem::bad_request(words),
        EditError::Full(_) | EditError::Store(StoreError::Full) => {
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, words)
        }
        EditError::Unknown(_) => Problem::new(StatusCode::NOT_FOUND, words),
        EditError::Over(..) => Problem::new(StatusCode::CONFLICT, words),
        EditError::Store(_) => Problem::unavailable(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::Value;

    fn check(json: &str, expect: Result<(i64, i64, Option<Value>), &str>) {
        let now: Timestamp = "2026-11-27T12:00:00Z".parse().unwrap();
        let given: Given = serde_json::from_str(json).unwrap();
        let since = |time: Timestamp| (time.micros() - now.micros()) / 1_000_000;
        let found = edit_of(given, "anna".to_owned(), now).map(|new| (since(new.from), since(new.to), new.value));
        assert_eq!(found, expect.map_err(str::to_owned), "{json}");
    }

    #[test]
    fn edits_are_read_or_say_what_was_expected() {
        let of = |members: &str| format!(r#"{{"topic":"a","why":"x",{members}}}"#);
        let hour = r#""from":"1h","to":"2026-11-27T12:00:00Z""#;
        check(&of(&format!(r#""kind":"value","v":5,{hour}"#)), Ok((-3600, 0, Some(Value::Int(5)))));
        check(&of(&format!(r#""kind":"value","v":null,{hour}"#)), Ok((-3600, 0, Some(Value::Null))));
        check(&of(&format!(r#""kind":"exclude",{hour}"#)), Ok((-3600, 0, None)));
        check(
            &of(r#""kind":"insert","v":"x","at":"2026-11-27T11:00:00Z""#),
            Ok((-3600, -3599, Some(Value::Text("x".into())))),
        );
        check(&of(r#""kind":"exclude""#), Err("expected at, or from"));
        check(&of(r#""kind":"exclude","at":"1h","from":"1h""#), Err("expected at, or from"));
        check(
            &of(r#""kind":"x","at":"1h""#),
            Err("kind is \"x\", expected one of value, quality, exclude, insert, annotation"),
        );
        check(
            &of(r#""kind":"quality","q":"fine","at":"1h""#),
            Err("the quality is \"fine\", expected good, uncertain or bad"),
        );
        check(
            &of(r#""kind":"value","v":[1],"at":"1h""#),
            Err("v is \"[1]\", expected a number, a text, true, false or null"),
        );
    }
}
