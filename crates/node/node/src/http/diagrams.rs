//! `/v1/diagrams`: single-line diagrams, those of whose topics the caller may read some.

use super::access::Caller;
use super::arguments::{FileAt, KnownTag};
use super::authorization::Authenticated;
use super::body::Answer;
use super::problem::Problem;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use tieline_access::Verb;
use tieline_drawings::DiagramFile;
use tieline_service::http::openapi::{Operation, Output, Schemas};

/// Single-line diagrams
#[derive(JsonSchema, Serialize)]
pub struct DiagramList {
    diagrams: Vec<DiagramShown>,
}

/// A single-line diagram
#[derive(JsonSchema, Serialize)]
struct DiagramShown {
    name: String,
    /// Its title; its name where it has none
    title: String,
    /// The ETag of its SVG, without quotes
    version: String,
    /// Topics that it shows, of which the user may not be able to read all
    topics: usize,
}

/// All diagrams that the caller may see, by their names.
pub async fn list(authenticated: Authenticated) -> Answer<DiagramList> {
    let authorized = authenticated.each();
    let all = authorized.app.reloader.shown().diagrams();
    let shown = all.iter().filter(|file| may_see(&authorized.caller, file)).map(|file| DiagramShown {
        name: file.name.clone(),
        title: file.diagram.title.clone().filter(|title| !title.is_empty()).unwrap_or_else(|| file.name.clone()),
        version: file.version.clone(),
        topics: file.diagram.topics.len(),
    });
    Answer(DiagramList { diagrams: shown.collect() })
}

/// Whether a caller may read some topic of a diagram. One without topics shows nothing of the node.
fn may_see(caller: &Caller, file: &DiagramFile) -> bool {
    let topics = &file.diagram.topics;
    topics.is_empty() || topics.iter().any(|topic| caller.may(Verb::Read, topic.as_str()))
}

/// An SVG file, or that the caller has it.
pub struct Svg {
    version: String,
    svg: Option<String>,
}

impl IntoResponse for Svg {
    fn into_response(self) -> Response {
        let response = match self.svg {
            Some(svg) => ([(header::CONTENT_TYPE, HeaderValue::from_static("image/svg+xml"))], svg).into_response(),
            None => StatusCode::NOT_MODIFIED.into_response(),
        };
        tagged(&self.version, response)
    }
}

impl Output for Svg {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.content(200, "image/svg+xml", serde_json::json!({ "type": "string" }));
        operation.told(200, "ETag", &serde_json::json!({ "type": "string" }), "The version in quotes");
    }
}

/// One diagram.
pub async fn one(
    authenticated: Authenticated,
    FileAt(name): FileAt,
    KnownTag(known): KnownTag,
) -> Result<Svg, Problem> {
    let authorized = authenticated.each();
    let all = authorized.app.reloader.shown().diagrams();
    // One that the caller may not see is as one that there is not: its name says something of the node.
    let file = all.iter().find(|file| file.name == name && may_see(&authorized.caller, file));
    let file = file.ok_or_else(|| Problem::not_found(format!("there is no diagram {name:?}")))?;
    let is_known = is_known(known.as_deref(), &file.version);
    Ok(Svg { version: file.version.clone(), svg: (!is_known).then(|| file.svg.clone()) })
}

/// An answer with the version of a file as its ETag.
pub(super) fn tagged(version: &str, mut response: Response) -> Response {
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::try_from(format!("\"{version}\"")) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Whether a caller that knows these tags has a version.
pub(super) fn is_known(tags: Option<&str>, version: &str) -> bool {
    tags.is_some_and(|tags| tags.split(',').any(|tag| is_tag(tag, version)))
}

/// Whether a tag of `If-None-Match` is that of a version; a weak one is as good.
fn is_tag(tag: &str, version: &str) -> bool {
    let tag = tag.trim();
    tag == "*" || tag.trim_start_matches("W/").trim_matches('"') == version
}
