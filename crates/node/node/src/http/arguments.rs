//! What handlers take besides parameters: topics in paths, conditions in headers, a value as a body.

use super::body;
use super::problem::Problem;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use serde_json::json;
use std::marker::PhantomData;
use tieline_core::Topic;
use tieline_drawings as boards;
use tieline_service::http::openapi::{CLIENT_TOPIC, Input, Operation, Schemas, TOPIC};
use tieline_service::http::parameters::{Fault, Parameter, words_schema};
use tieline_topics::Condition;

/// A parameter that is not what it must be.
pub fn wrong(name: &str, found: &str, expected: &str) -> Problem {
    Problem::bad_request(format!("{name} is {found:?}, expected {expected}"))
}

/// A parameter whose own kind says what is wrong with it.
pub fn illegal(name: &str, found: &str, error: &impl std::error::Error) -> Problem {
    Problem::bad_request(format!("{name} is {found:?}: {error}"))
}

/// A part of a path that is no text.
fn undecodable(name: &str) -> Problem {
    Problem::bad_request(format!("{name} in the path: found bytes that are not UTF-8, expected UTF-8, percent-encoded"))
}

/// Which entries of a list come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOrder {
    /// As the list is by itself.
    Plain,
    /// Those that need a person most.
    Worst,
}

impl ListOrder {
    const ALL: [(Self, &str); 2] = [(Self::Plain, "plain"), (Self::Worst, "worst")];
}

impl Parameter for ListOrder {
    fn read(text: &str) -> Result<Self, Fault> {
        let found = Self::ALL.iter().find(|(_, word)| *word == text).map(|(order, _)| *order);
        found.ok_or_else(|| Fault::none_of(Self::ALL.map(|(_, word)| word)))
    }

    fn schema() -> serde_json::Value {
        words_schema(Self::ALL.map(|(_, word)| word))
    }
}

/// Which topics a path may name.
pub trait Named {
    /// As a regular expression.
    const PATTERN: &'static str;
}

/// Any.
pub enum Any {}
/// Those that clients may publish to; the handler checks that.
pub enum OfClients {}

impl Named for Any {
    const PATTERN: &'static str = TOPIC;
}

impl Named for OfClients {
    const PATTERN: &'static str = CLIENT_TOPIC;
}

/// The topic in a path like `/v1/topics/site/relay1`.
pub struct TopicAt<N = Any> {
    pub topic: Topic,
    which: PhantomData<N>,
}

impl<N, S: Send + Sync> FromRequestParts<S> for TopicAt<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|_| undecodable("the topic"))?;
        let topic = Topic::new(&text).map_err(|error| illegal("the topic", &text, &error))?;
        Ok(Self { topic, which: PhantomData })
    }
}

impl<N: Named> Input for TopicAt<N> {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.parameter(json!({
            "name": "topic",
            "in": "path",
            "required": true,
            "description": "The topic; its slashes may stand as they are",
            "schema": { "type": "string", "minLength": 1, "pattern": N::PATTERN },
        }));
        operation.may_fail(400, "The topic, a parameter or a header is wrong");
    }
}

/// The number of an edit in a path.
pub struct EditAt(pub u64);

impl<S: Send + Sync> FromRequestParts<S> for EditAt {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|_| undecodable("the edit"))?;
        text.parse().map(Self).map_err(|_| wrong("the edit", &text, "the number of one"))
    }
}

impl Input for EditAt {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.parameter(json!({
            "name": "id",
            "in": "path",
            "required": true,
            "description": "The number of the edit",
            "schema": { "type": "integer", "minimum": 1 },
        }));
        operation.may_fail(400, "The number or the body is wrong");
    }
}

/// The name of a diagram or a board in a path.
pub struct FileAt(pub String);

impl<S: Send + Sync> FromRequestParts<S> for FileAt {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|_| undecodable("the name"))?;
        if tieline_diagram::is_diagram_name(&text) {
            Ok(Self(text))
        } else {
            Err(wrong("the name", &text, "a-z, 0-9, - and _"))
        }
    }
}

impl Input for FileAt {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.parameter(json!({
            "name": "name",
            "in": "path",
            "required": true,
            "description": "Its name: that of its file, without the end",
            "schema": { "type": "string", "pattern": "^[a-z0-9_-]{1,64}$" },
        }));
        operation.may_fail(400, "The name is wrong");
    }
}

/// The entity tag in `If-None-Match`, where there is one.
pub struct KnownTag(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for KnownTag {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self(header_text(&parts.headers, &header::IF_NONE_MATCH)?.map(str::to_owned)))
    }
}

impl Input for KnownTag {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.header("If-None-Match", &json!({ "type": "string" }), "An ETag: 304 where it is still so");
        operation.means(304, "The version is that of If-None-Match");
    }
}

/// What `If-Match` or `If-None-Match` asks of a board (RFC 9110 section 13); none where neither is there.
pub struct BoardCondition(pub Option<boards::Condition>);

impl<S: Send + Sync> FromRequestParts<S> for BoardCondition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        board_condition(&parts.headers).map(Self)
    }
}

impl Input for BoardCondition {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        let tags = json!({ "type": "string", "pattern": "^(\\*|\"[0-9a-f]{16}\"(, *\"[0-9a-f]{16}\")*)$" });
        operation.header(
            "If-Match",
            &tags,
            "Only if the board is of this version (an ETag), or only if there is one (*)",
        );
        let all = json!({ "type": "string", "pattern": "^\\*$" });
        operation.header("If-None-Match", &all, "Only if there is no board of the name");
        operation.may_fail(400, "The name, a parameter or a header is wrong");
        operation.may_fail(412, "The condition is not met; ETag is that of the board that there is");
        operation.told(
            412,
            "ETag",
            &json!({ "type": "string" }),
            "The version in quotes; absent where there is no board",
        );
        operation.may_fail(428, "Neither If-Match nor If-None-Match was given");
    }
}

fn board_condition(headers: &HeaderMap) -> Result<Option<boards::Condition>, Problem> {
    let (with, without) = (header_text(headers, &header::IF_MATCH)?, header_text(headers, &header::IF_NONE_MATCH)?);
    match (with, without) {
        (None, None) => Ok(None),
        (Some("*"), None) => Ok(Some(boards::Condition::Present)),
        (Some(tags), None) => {
            let version = |tag: &str| tag.trim().strip_prefix('"')?.strip_suffix('"').map(str::to_owned);
            let versions: Option<Vec<String>> = tags.split(',').map(version).collect();
            let expected = "*, or the ETag of the board, as in \"5f0c7bb3a0e1d2c4\" with its quotes";
            let wrong = || Problem::bad_request(format!("If-Match is {tags:?}, expected {expected}"));
            versions.map(boards::Condition::Versions).map(Some).ok_or_else(wrong)
        }
        (None, Some("*")) => Ok(Some(boards::Condition::Absent)),
        (None, Some(other)) => Err(Problem::bad_request(format!("If-None-Match is {other:?}, expected *"))),
        (Some(_), Some(_)) => {
            Err(Problem::bad_request("If-Match and If-None-Match are both given, expected one of them"))
        }
    }
}

/// The text of a file, as the body.
pub struct FileText(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for FileText {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        body::whole(request, state).await.map(Self)
    }
}

impl Input for FileText {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        // Generators of clients do not know the media type of TOML.
        let schema = json!({ "type": "string", "format": "binary", "description": "The file, as it is" });
        operation.body("application/octet-stream", schema);
        operation.body_may_fail();
    }
}

/// What `If-Match` and `If-None-Match` ask of the value that is (RFC 9110 section 13).
pub struct Conditions(pub Vec<Condition>);

impl<S: Send + Sync> FromRequestParts<S> for Conditions {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        conditions(&parts.headers).map(Self)
    }
}

impl Input for Conditions {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        let tag = json!({ "type": "string", "pattern": "^(\\*|\"[0-9]+\")$" });
        let words = "Only if the value is of this version (an ETag), or only if there is one (*)";
        operation.header("If-Match", &tag, words);
        let all = json!({ "type": "string", "pattern": "^\\*$" });
        operation.header("If-None-Match", &all, "Only if there is no value");
        operation.may_fail(412, "A condition is not met; the detail says what is so");
    }
}

fn conditions(headers: &HeaderMap) -> Result<Vec<Condition>, Problem> {
    let mut conditions = Vec::new();
    match header_text(headers, &header::IF_MATCH)? {
        None => {}
        Some("*") => conditions.push(Condition::Present),
        Some(tag) => {
            let number = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let version = number.and_then(|number| number.parse().ok());
            let expected = "*, or the ETag of one value, as in \"41\" with its quotes";
            let wrong = || Problem::bad_request(format!("If-Match is {tag:?}, expected {expected}"));
            conditions.push(Condition::Version(version.ok_or_else(wrong)?));
        }
    }
    match header_text(headers, &header::IF_NONE_MATCH)? {
        None => {}
        Some("*") => conditions.push(Condition::Absent),
        Some(other) => return Err(Problem::bad_request(format!("If-None-Match is {other:?}, expected *"))),
    }
    Ok(conditions)
}

/// The text of a header that may come once.
fn header_text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::bad_request(format!("{name} comes more than once")));
    }
    let text = value.to_str().map_err(|_| Problem::bad_request(format!("{name} is no text")))?;
    Ok(Some(text.trim()))
}

/// A value, as the bytes of the body.
pub struct Payload(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Payload {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = body::whole(request, state).await?;
        match bytes.is_empty() {
            true => Err(Problem::bad_request("the body is empty, expected the value; DELETE removes one")),
            false => Ok(Self(bytes)),
        }
    }
}

impl Input for Payload {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        let schema = json!({
            "type": "string", "format": "binary", "minLength": 1, "description": "The value, as it is",
        });
        operation.body("application/octet-stream", schema);
        operation.body_may_fail();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn check(pairs: &[(&HeaderName, &str)], expect: Option<&[Condition]>) {
        let pairs = pairs.iter().map(|(name, value)| ((*name).clone(), HeaderValue::from_str(value).unwrap()));
        let found = conditions(&pairs.collect()).ok();
        assert_eq!(found.as_deref(), expect);
    }

    #[test]
    fn tags_are_versions() {
        let (with, without) = (&header::IF_MATCH, &header::IF_NONE_MATCH);
        check(&[], Some(&[]));
        check(&[(with, "\"41\"")], Some(&[Condition::Version(41)]));
        check(&[(with, "*")], Some(&[Condition::Present]));
        check(&[(without, "*")], Some(&[Condition::Absent]));
        for wrong in ["41", "W/\"41\"", "\"41\", \"42\"", "\"x\"", ""] {
            check(&[(with, wrong)], None);
        }
        check(&[(without, "\"41\"")], None);
    }

    #[test]
    fn a_board_is_changed_on_one_condition() {
        use boards::Condition as Of;
        let (with, without) = (&header::IF_MATCH, &header::IF_NONE_MATCH);
        let versions = |all: &[&str]| Some(Some(Of::Versions(all.iter().map(ToString::to_string).collect())));
        let check = |pairs: &[(&HeaderName, &str)], expect: Option<Option<Of>>| {
            let headers = pairs.iter().map(|(name, value)| ((*name).clone(), HeaderValue::from_str(value).unwrap()));
            assert_eq!(board_condition(&headers.collect()).ok(), expect, "{pairs:?}");
        };
        check(&[], Some(None));
        check(&[(with, "*")], Some(Some(Of::Present)));
        check(&[(without, "*")], Some(Some(Of::Absent)));
        check(&[(with, "\"ab\"")], versions(&["ab"]));
        check(&[(with, "\"ab\", \"cd\"")], versions(&["ab", "cd"]));
        check(&[(with, "ab")], None);
        // A weak tag says that something is alike, and a change needs the same.
        check(&[(with, "W/\"ab\"")], None);
        check(&[(with, "")], None);
        check(&[(without, "\"ab\"")], None);
        check(&[(with, "*"), (without, "*")], None);
    }
}
