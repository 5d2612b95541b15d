//! What an edge publishes for its clients: at the edge, on its way to the upstream; at the upstream, whether the edge may.

use super::messages::Taken;
use super::reply::Reply;
use super::{ClientOwner, ConnectedClient};
use crate::bus::conditions::LockCondition;
use crate::bus::reasons;
use crate::bus::upward::{OwnWords, SPEAK_PREFIX, Ticket, own_words, speak_for, topic_of};
use crate::bus::{Asked, Bus, LastWill, Question, Unanswered, is_marked};
use crate::control::command::{CommandResult, REQUEST_PREFIX};
use crate::control::{Call, holder_of};
use bytes::Bytes;
use tieline_access::Verb;
use tieline_core::{Now, Refusal};
use tieline_mqtt::{Message, PublishRequest, Qos, ReasonCode};

/// For whom an edge publishes: it is not connected here.
#[derive(Debug)]
pub(super) struct SpokenFor {
    /// The user; none where the edge knows none.
    user: Option<String>,
    /// The edge's client, or the name that a program gives itself.
    client: String,
    /// The client's session, as the edge tells its sessions apart.
    session: String,
    /// Whether users have to show who they are here. Where they do not, the names tell holders apart, and nothing else.
    is_checked: bool,
}

impl SpokenFor {
    /// Its call, through the edge that makes it.
    pub(super) fn call(&self, by: &Call) -> Call {
        let Self { user, client, .. } = self;
        let client = Some(client.as_str()).filter(|client| !client.is_empty());
        let user = user.as_deref().unwrap_or(&by.requester);
        let requester = holder_of(Some(user), client).unwrap_or_else(|| user.into());
        Call { requester, who: format!("{} for {user} {}", by.who, client.unwrap_or_default()).trim_end().into() }
    }

    /// The edge's client.
    pub(super) fn client(&self) -> &str {
        &self.client
    }

    /// The session of the edge's client.
    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// The user, where users have to show who they are.
    pub(super) fn checked_user(&self) -> Option<&str> {
        self.user.as_deref().filter(|_| self.is_checked)
    }

    /// Whether its user may read a topic.
    pub(super) fn may_read(&self, bus: &Bus, topic: &str) -> bool {
        let Self { user: Some(user), client, is_checked: true, .. } = self else { return true };
        bus.guard().is_some_and(|guard| guard.user_may(user, client, Verb::Read, topic))
    }
}

impl ClientOwner {
    /// For whom a message is published, which it says no more.
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
        let Some(OwnWords { user, client: of, session }) = own_words(message) else { return Ok(None) };
        let is_checked = self.authentication.user(&self.bus).is_some();
        if let (true, Some(user)) = (is_checked, &user) {
            let right = format!("{SPEAK_PREFIX}{user}");
            if !self.authentication.may(&self.bus, now, &client.name, Verb::Publish, &right) {
                return Err(Taken::Refused(ReasonCode::NotAuthorized, reasons::SPEAK.to_owned()));
            }
        }
        Ok(Some(SpokenFor { user, client: of, session, is_checked }))
    }

    /// Who asks for what a message asks. What an edge asks for another does not end with the edge's session.
    pub(super) fn asked_by(&self, client: &ConnectedClient, spoken_for: Option<&SpokenFor>) -> Asked {
        let asked = self.asked(client);
        match spoken_for {
            Some(spoken_for) => Asked { by: spoken_for.call(&asked.by), session: None },
            None => asked,
        }
    }

    /// Sends a request to the upstream, which the client may make as far as this node knows. The answer goes where the client
    /// wants it.
    pub(super) fn ask_above(
        &self,
        client: &ConnectedClient,
        now: Now,
        (upstreams, message): (Vec<usize>, &Message),
        spoken_for: Option<&SpokenFor>,
    ) -> Taken {
        let mut bus = self.bus.borrow_mut();
        let reply = Reply::of(message, client, |topic| bus.is_reserved(topic));
        let own = self.authentication.user_on(&bus);
        let (user, of) = match spoken_for.filter(|spoken_for| spoken_for.is_checked) {
            Some(SpokenFor { user, client, .. }) => (user.clone().or(own), client.clone()),
            None => (own, client.name.to_string()),
        };
        let (topic, payload) = (message.topic.clone(), message.payload.clone());
        let question = Question { topic, payload, user, client: Some(of) };
        let answer = move |bus: &mut Bus, answered: Result<Bytes, Unanswered>| {
            let now = bus.now();
            let text = match answered {
                Ok(text) => String::from_utf8_lossy(&text).into_owned(),
                Err(Unanswered { refusal: (reason, words), may_be_done }) => {
                    let word = if reason == ReasonCode::NotAuthorized { "denied" } else { "away" };
                    let refusal = if may_be_done { Refusal::unknown(word, words) } else { Refusal::new(word, words) };
                    CommandResult::refused(None, &refusal).to_string()
                }
            };
            reply.send(bus, now, text);
        };
        bus.ask_above(now, upstreams, question, Box::new(answer));
        Taken::Done
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
        let Some(SpokenFor { user: Some(user), client: of, is_checked: true, .. }) = spoken_for else { return true };
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

    /// The session with the upstream by which a message goes that depends on locks: that of the locks. None where it depends on
    /// none: then it goes as its topic does.
    fn way_of_locks(
        &self,
        client: &ConnectedClient,
        now: Now,
        (topic, locks): (&str, &[LockCondition]),
        spoken_for: Option<&SpokenFor>,
    ) -> Result<Option<usize>, (ReasonCode, String)> {
        if locks.is_empty() {
            return Ok(None);
        }
        let because = |words: &str| Err((ReasonCode::ImplementationSpecificError, words.to_owned()));
        if topic.starts_with(REQUEST_PREFIX) {
            return because(reasons::LOCK_COMMAND);
        }
        self.may_use_locks(client, now, locks, spoken_for)?;
        let bus = self.bus.borrow();
        let up = bus.upstream_of_lock(topic);
        let is_there = |lock: &LockCondition| bus.upstream_of_lock(&lock.name) == up;
        if locks.iter().all(is_there) { Ok(up) } else { because(reasons::LOCK_ELSEWHERE) }
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
        let conditions = match self.conditions(client, now, &message, spoken_for) {
            Ok(conditions) => conditions,
            Err((reason, words)) => return Taken::Refused(reason, words),
        };
        debug_assert!(!is_marked(&message.properties), "it was rebuilt");
        let up = match self.way_of_locks(client, now, (&message.topic, &conditions.locks), spoken_for) {
            Ok(up) => up,
            Err((reason, words)) => return Taken::Refused(reason, words),
        };
        let mut bus = self.bus.borrow_mut();
        let user = self.authentication.user_on(&bus);
        match (spoken_for.filter(|spoken_for| spoken_for.is_checked), &user) {
            _ if up.is_some() => self.lock_asker(client, &bus, spoken_for).speak(&mut message),
            (Some(SpokenFor { user: Some(user), client, .. }), _) => speak_for(&mut message, user, client),
            (_, Some(user)) => speak_for(&mut message, user, &client.name),
            (_, None) => {}
        }
        let (key, number) = (client.key, client.number);
        let ticket = packet_id.map_or(Ticket::Nobody, |packet_id| Ticket::Client { key, number, packet_id });
        let up = up.or_else(|| bus.upstream_of(topic_of(&message)));
        match bus.publish_up_by(now, up, (message, qos, retain), ticket) {
            Ok(()) if qos == Qos::AtMostOnce => Taken::Done,
            Ok(()) => Taken::Later,
            Err((reason, words)) => Taken::Refused(reason, words),
        }
    }
}
