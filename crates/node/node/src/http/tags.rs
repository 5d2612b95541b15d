//! Tags of devices and points.

use super::authorization::{Authenticated, Authorized};
use super::body::Answer;
use super::command::status_of;
use super::control::{Answered, Body, Outcome, ask};
use super::problem::Problem;
use crate::bus::Bus;
use crate::control::tags::{LiftBody, TagBody, TagList, TagResult, is_owner};
use axum::http::StatusCode;
use tieline_access::Verb;
use tieline_core::{Now, Topic};
use tieline_service::http::parameters::Query;
use tieline_service::parameters;

impl Answered for TagResult {
    fn status(&self) -> StatusCode {
        self.reason().map_or(StatusCode::OK, |reason| status_of(reason, false))
    }
}

parameters! {
    /// Which tags are asked for.
    pub struct TagsAsked {
        /// Only those that hold for this device or point
        topic: Option<Topic>,
        /// Whether each says in may_lift whether the caller may lift it
        rights: bool = "false",
    }
}

/// Tags of topics that may be read.
pub async fn list(
    authenticated: Authenticated,
    Query(TagsAsked { topic, rights }): Query<TagsAsked>,
) -> Result<Answer<TagList>, Problem> {
    let authorized = authenticated.each();
    let (caller, share) = (authorized.caller.clone(), authorized.share());
    let look = move |bus: &mut Bus, _| {
        TagList::of(bus.commands().coordinator(), topic.as_ref(), |topic| caller.may(Verb::Read, topic))
    };
    let mut list = authorized.app.bus.ask_once(&share, look).await?;
    if rights {
        let own = authorized.call(None).by.requester;
        for (owner, topic, may_lift) in list.rights() {
            let verb = if is_owner(&own, owner) { Verb::Command } else { Verb::Admin };
            let topic = topic.to_owned();
            *may_lift = Some(selected(&authorized, topic).await?.iter().all(|at| authorized.caller.may(verb, at)));
        }
    }
    Ok(Answer(list))
}

/// Places a tag.
pub async fn place(authenticated: Authenticated, body: Body<TagBody>) -> Result<Outcome<TagResult>, Problem> {
    let authorized = authenticated.each();
    let body = body.read().map_err(Problem::bad_request)?;
    for topic in selected(&authorized, body.topic.clone()).await? {
        authorized.must(Verb::Command, &topic).await?;
    }
    let by = authorized.call(body.requester.as_deref()).by;
    let result = ask(&authorized, move |bus, now, answer| bus.place_tag(now, &body, &by, answer)).await?;
    Ok(Outcome::of(result))
}

/// Lifts a tag.
pub async fn lift(authenticated: Authenticated, body: Body<LiftBody>) -> Result<Outcome<TagResult>, Problem> {
    let authorized = authenticated.each();
    let body = body.read().map_err(Problem::bad_request)?;
    let (id, share) = (body.id, authorized.share());
    let by = authorized.call(body.requester.as_deref()).by;
    let own = authorized.call(None).by.requester;
    if let Some((owner, topic)) = authorized.app.bus.ask_once(&share, move |bus, _| bus.tag_owner(id)).await? {
        let verb = if is_owner(&own, &owner) || *by.requester == *owner { Verb::Command } else { Verb::Admin };
        for topic in selected(&authorized, topic.to_string()).await? {
            authorized.must(verb, &topic).await?;
        }
    }
    let result = ask(&authorized, move |bus, now, answer| bus.lift_tag(now, &body, &by, answer)).await?;
    Ok(Outcome::of(result))
}

/// What a tag on a topic holds for, and the topic itself.
async fn selected(authorized: &Authorized, topic: String) -> Result<Vec<String>, Problem> {
    let look = move |bus: &mut Bus, _: Now| {
        let below = bus.selected_below(&topic);
        below.iter().map(ToString::to_string).chain([topic]).collect()
    };
    Ok(authorized.app.bus.ask_once(&authorized.share(), look).await?)
}
