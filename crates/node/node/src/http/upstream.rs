//! Topics of the upstream over the HTTP API of an edge.

use super::authorization::Authorized;
use super::problem::Problem;
use crate::bus::Bus;
use crate::bus::upward::{UpwardRefusal, speak_for};
use axum::http::StatusCode;
use bytes::Bytes;
use std::time::Duration;
use tieline_core::{Filter, Now, Topic};
use tieline_mqtt::{Message, Properties, ReasonCode};

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
) -> Result<bool, Problem> {
    if !authorized.app.about.is_edge {
        return Ok(false);
    }
    let user = authorized.caller.user().map(str::to_owned);
    let (topic, payload) = (topic.clone(), payload.clone());
    let sent = authorized.app.bus.call(move |bus: &mut Bus, now: Now| {
        if !bus.is_of_upstream(&topic) {
            return None;
        }
        let mut message = Message { topic, payload, properties: Properties::default(), received: now.mono };
        if let Some(user) = user {
            speak_for(&mut message, &user, "");
        }
        Some(bus.publish_up_for_call(now, message, retain))
    });
    let Some(sent) = sent.await? else { return Ok(false) };
    let answered = sent.map_err(refused)?.await;
    let away = || Problem::unavailable("the node is stopping".to_owned());
    answered.map_err(|_| away())?.map_err(refused).map(|()| true)
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

/// Asks the upstream for a topic that is its own, and waits a moment for the value.
pub(super) async fn look(authorized: &Authorized, topic: &Topic) -> Result<(), Problem> {
    if !authorized.app.about.is_edge {
        return Ok(());
    }
    let Ok(filter) = Filter::new(topic) else { return Ok(()) };
    let asked = topic.clone();
    let waits = authorized.app.bus.call(move |bus, now| {
        let is_upward = bus.is_of_upstream(&asked);
        if is_upward {
            bus.look_upstream(now, &filter);
        }
        is_upward && bus.tree().get(&asked).is_none() && bus.is_upstream_there()
    });
    if !waits.await? {
        return Ok(());
    }
    let coming = async {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let asked = topic.clone();
            if authorized.app.bus.call(move |bus, _| bus.tree().get(&asked).is_some()).await? {
                return Ok(());
            }
        }
    };
    // A topic without a value does not come.
    tokio::time::timeout(VALUE_WITHIN, coming).await.unwrap_or(Ok(()))
}
