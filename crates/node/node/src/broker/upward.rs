//! What an edge publishes for its clients: at the edge, on its way to the upstream; at the upstream, whether the edge may.

use super::messages::Taken;
use super::{ClientOwner, ConnectedClient};
use crate::bus::reasons;
use crate::bus::upward::{SPEAK_PREFIX, Ticket, own_words, speak_for};
use crate::bus::{Bus, LastWill, is_marked};
use crate::control::{Call, holder_of};
use tieline_access::Verb;
use tieline_core::Now;
use tieline_mqtt::{Message, PublishRequest, Qos, ReasonCode};

/// A user for whom an edge publishes: it is not connected here.
#[derive(Debug)]
pub(super) struct SpokenFor {
    user: String,
    /// The edge's client that the user has.
    client: String,
}

impl SpokenFor {
    /// A call of the user's, through the edge that makes it.
    pub(super) fn call(&self, by: &Call) -> Call {
        let Self { user, client } = self;
        let requester = holder_of(Some(user), Some(client).filter(|client| !client.is_empty()).map(String::as_str));
        let requester = requester.unwrap_or_else(|| user.as_str().into());
        Call { requester, who: format!("{} for {user} {client}", by.who).into() }
    }
}

/// The condition that only the node can check that has the version.
const IF_VERSION: &str = "tieline-if-version";

impl ClientOwner {
    /// For whom a message is published, which it says no more. Where nobody has to show who it is, it is the client's own.
    ///
    /// # Errors
    /// The client may not speak for that user.
    pub(super) fn spoken_for(
        &self,
        client: &ConnectedClient,
        now: Now,
        message: &mut Message,
    ) -> Result<Option<SpokenFor>, Taken> {
        if message.properties.is_empty() {
            return Ok(None);
        }
        let Some((user, of)) = own_words(message) else { return Ok(None) };
        if self.authentication.user(&self.bus).is_none() {
            return Ok(None);
        }
        let right = format!("{SPEAK_PREFIX}{user}");
        if !self.authentication.may(&self.bus, now, &client.name, Verb::Publish, &right) {
            return Err(Taken::Refused(ReasonCode::NotAuthorized, reasons::SPEAK.to_owned()));
        }
        Ok(Some(SpokenFor { user, client: of }))
    }

    /// Whether a client may do something, and the user for whom it speaks, too.
    pub(super) fn may(
        &self,
        client: &ConnectedClient,
        now: Now,
        spoken_for: Option<&SpokenFor>,
        verb: Verb,
        topic: &str,
    ) -> bool {
        if !self.authentication.may(&self.bus, now, &client.name, verb, topic) {
            return false;
        }
        let Some(SpokenFor { user, client: of }) = spoken_for else { return true };
        let may = |bus: &Bus| bus.guard().is_some_and(|guard| guard.user_may(user, of, verb, topic));
        if may(&self.bus.borrow()) {
            return true;
        }
        let who = format!("mqtt {} {user} {of}", self.peer);
        self.bus.borrow_mut().deny(now, user, &who, verb, topic);
        false
    }

    /// A will that says whose it is, where it will go to the upstream.
    pub(super) fn will_of_user(&self, client: &str, mut will: LastWill) -> LastWill {
        let bus = self.bus.borrow();
        if bus.is_of_upstream(will.topic())
            && let Some(user) = self.authentication.user_on(&bus)
        {
            will.speak_for(&user, client);
        }
        will
    }

    /// Sends a message of a client to the upstream, which the client may publish as far as this node knows.
    pub(super) fn take_upward(
        &self,
        client: &ConnectedClient,
        now: Now,
        request: PublishRequest,
        spoken_for: Option<&SpokenFor>,
    ) -> Taken {
        let PublishRequest { mut message, qos, packet_id, retain, .. } = request;
        let because = |words: &str| Taken::Refused(ReasonCode::ImplementationSpecificError, words.to_owned());
        if message.properties.own_property(IF_VERSION).is_some() {
            return because(reasons::VERSION_OF_UPSTREAM);
        }
        debug_assert!(!is_marked(&message.properties), "it was rebuilt");
        let mut bus = self.bus.borrow_mut();
        if message.properties.response_topic().is_some_and(|to| !bus.is_of_upstream(&to)) {
            return because(reasons::RESPONSE_OF_UPSTREAM);
        }
        let user = self.authentication.user_on(&bus);
        match (spoken_for, &user) {
            (Some(SpokenFor { user, client }), _) => speak_for(&mut message, user, client),
            (None, Some(user)) => speak_for(&mut message, user, &client.name),
            (None, None) => {}
        }
        let (key, number) = (client.key, client.number);
        let ticket = packet_id.map_or(Ticket::Nobody, |packet_id| Ticket::Client { key, number, packet_id });
        match bus.publish_up(now, message, qos, retain, ticket) {
            Ok(()) if qos == Qos::AtMostOnce => Taken::Done,
            Ok(()) => Taken::Later,
            Err((reason, words)) => Taken::Refused(reason, words),
        }
    }
}
