//! `/v1/topics/{topic}`: one value, with its version as the entity tag, so that it can be read, set and removed on
//! conditions (RFC 9110 section 13).

use super::authorization::Authenticated;
use super::json;
use super::problem::Problem;
use super::query::Query;
use super::topics::{derived, topic_of};
use crate::bus::fetch;
use crate::bus::{Bus, PutError, write_topic};
use axum::extract::RawQuery;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tieline_access::Verb;
use tieline_topics::Condition;

/// One topic.
pub async fn one(
    authenticated: Authenticated,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    uri: Uri,
) -> Result<Response, Problem> {
    let topic = topic_of(&uri, "/v1/topics/")?;
    let query = Query::new(query.as_deref(), &fetch::EVENT_MEMBERS)?;
    let range = fetch::read_range(|name| query.text(name).map(str::to_owned), authenticated.now().utc);
    let range = range.map_err(Problem::bad_request)?;
    let authorized = authenticated.must(Verb::Read, &topic).await?;
    let name = topic.clone();
    if let Some(range) = range {
        let look = move |bus: &mut Bus, _| fetch::events(fetch::Interface::Http, bus, &topic, &range);
        let events = authorized.app.bus.ask_once(&authorized.share(), look).await?;
        let missing = || Problem::not_found(format!("the topic {name:?} keeps no events"));
        return events.map(json).ok_or_else(missing);
    }
    let found = authorized.app.bus.call(move |bus, _| {
        let view = bus.tree().get(&topic)?;
        let mut text = String::new();
        write_topic(&view, &mut text);
        Some((view.version, text))
    });
    let missing = || Problem::not_found(format!("the topic {name:?} has no value"));
    let (version, text) = found.await?.ok_or_else(missing)?;
    if header_text(&headers, header::IF_NONE_MATCH)?.is_some_and(|known| known == tag_of(version)) {
        return Ok(tagged(version, StatusCode::NOT_MODIFIED.into_response()));
    }
    Ok(tagged(version, json(text)))
}

/// Sets a topic's value to the bytes of the body, and answers when history has stored it.
pub async fn put(
    authenticated: Authenticated,
    headers: HeaderMap,
    uri: Uri,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let payload = body.map_err(|error| Problem::new(error.status(), error.body_text()))?;
    if payload.is_empty() {
        return Err(Problem::bad_request("the body is empty, expected the value; DELETE removes one"));
    }
    set(authenticated, &headers, &uri, payload).await
}

/// Removes a topic's value.
pub async fn remove(authenticated: Authenticated, headers: HeaderMap, uri: Uri) -> Result<Response, Problem> {
    set(authenticated, &headers, &uri, Bytes::new()).await
}

async fn set(
    authenticated: Authenticated,
    headers: &HeaderMap,
    uri: &Uri,
    payload: Bytes,
) -> Result<Response, Problem> {
    let topic = authenticated.client_topic(&topic_of(uri, "/v1/topics/")?)?;
    let authorized = authenticated.must(Verb::Publish, &topic).await?;
    let mut conditions = conditions(headers)?;
    if !conditions.is_empty() {
        // Whether a condition is met tells of the value.
        authorized.must(Verb::Read, &topic).await?;
    }
    let removes = payload.is_empty();
    let name = topic.clone();
    let done = authorized.app.bus.call(move |bus, now| {
        if bus.derives(&topic) {
            return None;
        }
        if removes && bus.tree().get(&topic).is_none() && conditions.is_empty() {
            conditions.push(Condition::Present);
        }
        Some(bus.put(now, topic, payload, &conditions))
    });
    let (version, stored) = match done.await?.ok_or_else(|| derived(&name))? {
        Ok(done) => done,
        Err(PutError::Unmet(_)) if removes && is_plain(headers) => {
            return Err(Problem::not_found(format!("the topic {name:?} has no value")));
        }
        Err(error @ PutError::Unmet(_)) => {
            return Err(Problem::new(StatusCode::PRECONDITION_FAILED, error.to_string()));
        }
        Err(error @ PutError::Format(_)) => {
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()));
        }
        Err(error @ (PutError::Full(_) | PutError::Disk(_))) => {
            return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string()));
        }
    };
    if !stored.await.unwrap_or(false) {
        let detail = "history cannot store it; see /healthz";
        return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail));
    }
    if removes {
        return Ok(json("{\"status\":\"ok\"}".to_owned()));
    }
    Ok(tagged(version, json(format!("{{\"status\":\"ok\",\"seq\":{version}}}"))))
}

/// What `If-Match` and `If-None-Match` ask of the value that is.
fn conditions(headers: &HeaderMap) -> Result<Vec<Condition>, Problem> {
    let mut conditions = Vec::new();
    match header_text(headers, header::IF_MATCH)? {
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
    match header_text(headers, header::IF_NONE_MATCH)? {
        None => {}
        Some("*") => conditions.push(Condition::Absent),
        Some(other) => return Err(Problem::bad_request(format!("If-None-Match is {other:?}, expected *"))),
    }
    Ok(conditions)
}

fn is_plain(headers: &HeaderMap) -> bool {
    !headers.contains_key(header::IF_MATCH) && !headers.contains_key(header::IF_NONE_MATCH)
}

/// The text of a header that may come once.
fn header_text(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::bad_request(format!("{name} comes more than once")));
    }
    let text = value.to_str().map_err(|_| Problem::bad_request(format!("{name} is no text")))?;
    Ok(Some(text.trim()))
}

fn tag_of(version: u64) -> String {
    format!("\"{version}\"")
}

fn tagged(version: u64, mut response: Response) -> Response {
    if let Ok(tag) = HeaderValue::try_from(tag_of(version)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
