//! Tags of devices and points.

use super::authorization::{Authenticated, Authorized};
use super::body::Answer;
use super::command::status_of;
use super::control::{Answered, Body, Outcome, ask};
use super::problem::Problem;
use crate::bus::Bus;
use crate::control::tags::{LiftBody, TagBody, TagList, TagResult};
use axum::http::StatusCode;
use std::sync::Arc;
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
        for (id, may_lift) in list.rights() {
            let own = Arc::clone(&own);
            let look = move |bus: &mut Bus, _: Now| bus.rights_to_lift(id, &[&own]);
            let needed = authorized.app.bus.ask_once(&share, look).await?;
            *may_lift = Some(needed.iter().all(|(verb, topic)| authorized.caller.may(*verb, topic)));
        }
    }
    Ok(Answer(list))
}

/// Places a tag.
pub async fn place(authenticated: Authenticated, body: Body<TagBody>) -> Result<Outcome<TagResult>, Problem> {
    let authorized = authenticated.each();
    let body = body.read().map_err(Problem::bad_request)?;
    let topic = body.topic.clone();
    allowed(&authorized, move |bus| bus.rights_to_tag(&topic)).await?;
    let by = authorized.call(body.requester.as_deref()).by;
    let result = ask(&authorized, move |bus, now, answer| bus.place_tag(now, &body, &by, answer)).await?;
    Ok(Outcome::of(result))
}

/// Lifts a tag.
pub async fn lift(authenticated: Authenticated, body: Body<LiftBody>) -> Result<Outcome<TagResult>, Problem> {
    let authorized = authenticated.each();
    let body = body.read().map_err(Problem::bad_request)?;
    let by = authorized.call(body.requester.as_deref()).by;
    let (id, own) = (body.id, [authorized.call(None).by.requester, Arc::clone(&by.requester)]);
    allowed(&authorized, move |bus| bus.rights_to_lift(id, &own.each_ref().map(|own| &**own))).await?;
    let result = ask(&authorized, move |bus, now, answer| bus.lift_tag(now, &body, &by, answer)).await?;
    Ok(Outcome::of(result))
}

/// Goes on only where the caller may do what the bus says that is needed.
async fn allowed(
    authorized: &Authorized,
    needed: impl Fn(&Bus) -> Vec<(Verb, String)> + Send + 'static,
) -> Result<(), Problem> {
    let look = move |bus: &mut Bus, _: Now| needed(bus);
    for (verb, topic) in authorized.app.bus.ask_once(&authorized.share(), look).await? {
        authorized.must(verb, &topic).await?;
    }
    Ok(())
}
