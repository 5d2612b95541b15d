//! Topics of the upstream over the HTTP API of an edge.

use super::authorization::Authorized;
use super::problem::Problem;
use crate::bus::upward::{UpwardRefusal, speak_for};
use crate::bus::{Bus, OfSeveralNodes, Question, Unanswered, conditions, reasons};
use axum::http::StatusCode;
use bytes::Bytes;
use serde_json::Value as Json;
use std::time::Duration;
use tieline_core::{Filter, Now, Topic};
use tieline_mqtt::{Message, ReasonCode};
use tieline_topics::{Condition, Unmet};

/// How long a value that was asked for may take to come.
const VALUE_WITHIN: Duration = Duration::from_secs(1);
/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Publishes to a topic of the upstream, and gives what it answers; false where the topic is this node's own.
///
/// # Errors
/// The upstream is away, or refuses it.
pub(super) async fn publish(
    authorized: &Authorized,
    topic: &Topic,
    payload: &Bytes,
    retain: bool,
    conditions: &[Condition],
) -> Result<bool, Problem> {
    if !authorized.app.about.is_edge {
        return Ok(false);
    }
    let user = authorized.caller.user().map(str::to_owned);
    let (topic, payload) = (topic.clone(), payload.clone());
    let (has_conditions, properties) = (!conditions.is_empty(), conditions::write(conditions));
    let sent = authorized.app.bus.call(move |bus: &mut Bus, now: Now| {
        if !bus.is_of_upstream(&topic) {
            return None;
        }
        let mut message = Message { topic, payload, properties, received: now.mono };
        if let Some(user) = user {
            speak_for(&mut message, &user, "");
        }
        Some(bus.publish_up_for_call(now, message, retain))
    });
    let Some(sent) = sent.await? else { return Ok(false) };
    let answered = sent.map_err(refused)?.await;
    let away = || Problem::unavailable("the node is stopping".to_owned());
    let unmet = |refusal: UpwardRefusal| match refusal.1.parse::<Unmet>() {
        Ok(unmet) if has_conditions => Problem::new(StatusCode::PRECONDITION_FAILED, unmet.to_string()),
        Ok(_) | Err(_) => refused(refusal),
    };
    answered.map_err(|_| away())?.map_err(unmet).map(|()| true)
}

fn refused((reason, words): UpwardRefusal) -> Problem {
    let words = if words.is_empty() { format!("the upstream refuses it: {reason}") } else { words };
    let status = match reason {
        ReasonCode::NotAuthorized => StatusCode::FORBIDDEN,
        ReasonCode::PayloadFormatInvalid => StatusCode::UNPROCESSABLE_ENTITY,
        ReasonCode::QuotaExceeded => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    Problem::new(status, words)
}

/// Upstreams that are asked, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Above(Vec<usize>);

/// The upstream that answers requests of control for these topics.
///
/// # Errors
/// They are of several nodes.
pub(super) async fn answers(authorized: &Authorized, topics: Vec<String>) -> Result<Option<Above>, Problem> {
    if !authorized.app.about.is_edge {
        return Ok(None);
    }
    let look = move |bus: &mut Bus, _: Now| bus.controls_above(topics.iter().map(String::as_str));
    let above = authorized.app.bus.ask_once(&authorized.share(), look).await?;
    let mixed = |_: OfSeveralNodes| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, reasons::MIXED);
    Ok(above.map_err(mixed)?.map(|up| Above(vec![up])))
}

/// The upstreams that may have a reservation; none where it is one of this node.
///
/// # Errors
/// The node is stopping.
pub(super) async fn has_task(authorized: &Authorized, task: &str) -> Result<Option<Above>, Problem> {
    if !authorized.app.about.is_edge {
        return Ok(None);
    }
    let task = task.to_owned();
    let look = move |bus: &mut Bus, _: Now| bus.devices_of(&task).is_empty().then(|| Above(bus.upstreams().collect()));
    Ok(authorized.app.bus.ask_once(&authorized.share(), look).await?)
}

/// Asks upstreams what is published to `topic`, for the caller and the name that it gives itself; the answer.
///
/// # Errors
/// The upstream is away, refuses it, or does not answer.
pub(super) async fn ask(
    authorized: &Authorized,
    Above(ups): Above,
    topic: &str,
    body: &Json,
    name: Option<String>,
) -> Result<Json, Problem> {
    let topic = Topic::new(topic).map_err(|error| Problem::bad_request(format!("topic: {error}")))?;
    let user = authorized.caller.user().map(str::to_owned);
    // Without a name, programs of users who are not known are told apart by nothing.
    let client = name.or_else(|| user.is_none().then(|| "http".to_owned()));
    let question = Question { topic, payload: body.to_string().into(), user, client };
    let (answer, hears) = tokio::sync::oneshot::channel();
    let asks = move |bus: &mut Bus, now: Now| {
        bus.ask_above(now, ups, question, Box::new(move |_, answered| drop(answer.send(answered))));
    };
    authorized.app.bus.call(asks).await?;
    let stopped = |_| Problem::unavailable("the node is stopping; what was asked for may have been carried out");
    let answered = hears.await.map_err(stopped)?.map_err(|Unanswered { refusal, may_be_done }| match may_be_done {
        true => Problem::new(StatusCode::GATEWAY_TIMEOUT, refusal.1),
        false => refused(refusal),
    })?;
    let unreadable = |error| Problem::unavailable(format!("the answer of the upstream cannot be read: {error}"));
    serde_json::from_slice(&answered).map_err(unreadable)
}

/// The version of a topic at the upstream; none where it cannot be told.
pub(super) async fn version(authorized: &Authorized, topic: &Topic) -> Option<u64> {
    let body = serde_json::json!({ "topics": [topic.as_str()] });
    let above = answers(authorized, vec![topic.to_string()]).await.ok()??;
    let told = ask(authorized, above, "$control/get", &body, None).await;
    told.ok().and_then(|told| told["topics"][0]["seq"].as_u64())
}

/// Asks the upstream for topics that are its own, and waits a moment for their values.
pub(super) async fn look(authorized: &Authorized, topics: Vec<Topic>) -> Result<(), Problem> {
    if !authorized.app.about.is_edge {
        return Ok(());
    }
    let absent = |bus: &Bus, topics: Vec<Topic>| -> Vec<Topic> {
        topics.into_iter().filter(|topic| bus.tree().get(topic).is_none()).collect()
    };
    let begin = move |bus: &mut Bus, now: Now| {
        let above: Vec<Topic> = topics.into_iter().filter(|topic| bus.is_of_upstream(topic)).collect();
        for filter in above.iter().filter_map(|topic| Filter::new(topic).ok()) {
            bus.look_upstream(now, &filter);
        }
        let there = above.into_iter().filter(|topic| bus.is_upstream_there(topic)).collect();
        absent(bus, there)
    };
    let mut missing = authorized.app.bus.ask_once(&authorized.share(), begin).await?;
    let coming = async {
        while !missing.is_empty() {
            tokio::time::sleep(LOOK_EVERY).await;
            missing = authorized.app.bus.ask_once(&authorized.share(), move |bus, _| absent(bus, missing)).await?;
        }
        Ok(())
    };
    // A topic without a value does not come.
    tokio::time::timeout(VALUE_WITHIN, coming).await.unwrap_or(Ok(()))
}
