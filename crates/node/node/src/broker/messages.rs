//! What becomes of a message that a client publishes.

use super::control;
use super::reply::{Reply, command, is_private};
use super::upward::SpokenFor;
use super::{ClientOwner, ConnectedClient};
use crate::access::DeliveryFilter;
use crate::bus::conditions::Conditions;
use crate::bus::fetch::{self, Asked, Paging};
use crate::bus::reasons;
use crate::bus::{Bus, Receipt, Step, Wire, conditions, is_marked, locks};
use crate::control::alarms;
use crate::control::command::{CommandResult, REQUEST_PREFIX};
use std::rc::Rc;
use tieline_access::{Reach, Verb};
use tieline_core::{Body, Now, Topic, Update};
use tieline_mqtt::{Message, PublishRequest, Qos, ReasonCode, Version};
use tieline_net::Session;
use tieline_topics::Range;

/// What became of a message.
pub(super) enum Taken {
    /// It was taken.
    Done,
    /// History will say.
    Later,
    /// It was not taken. A client that cannot be told loses its connection.
    Refused(ReasonCode, String),
}

impl ClientOwner {
    pub(super) fn publish(&mut self, session: &Session<Wire>, now: Now, request: PublishRequest) {
        let Some(client) = &self.client else { return };
        let (packet_id, again) = (request.packet_id, request.again);
        let marked = self.publisher.get_mut().marked(&request.message);
        let taken = self.take(client, now, request);
        if let (Taken::Refused(..), Some(packet_id)) = (&taken, packet_id.filter(|_| again)) {
            self.bus.borrow_mut().forget_held(now, client.key, packet_id);
        }
        if let (Taken::Refused(..), Some(topic)) = (&taken, marked) {
            let asks = self.publisher.get_mut().refused(&topic, packet_id.is_some(), now.mono);
            // What does not reach it is asked for again.
            let _ = asks.map(|asks| session.with(|wire, _| wire.mqtt.deliver(asks)));
        }
        let (reason, words) = match taken {
            Taken::Later => return,
            Taken::Done => (ReasonCode::Success, String::new()),
            Taken::Refused(reason, words) => {
                self.bus.borrow_mut().count_publish_refused();
                // 3.1.1 knows no refusal, and would take an answer for success.
                if let Some(packet_id) = packet_id
                    && session.look(|wire| wire.mqtt.version()) == Version::V311
                {
                    return session.with(|wire, _| wire.mqtt.disconnect_refusing(packet_id, reason, &words));
                }
                (reason, words)
            }
        };
        if let Some(packet_id) = packet_id {
            session.with(|wire, _| wire.mqtt.acknowledge_because(packet_id, reason, &words));
        }
    }

    /// What becomes of a message.
    fn take(&self, client: &ConnectedClient, now: Now, mut request: PublishRequest) -> Taken {
        let spoken_for = match self.spoken_for(client, now, &mut request.message) {
            Ok(spoken_for) => spoken_for,
            Err(refused) => return refused,
        };
        let spoken_for = spoken_for.as_ref();
        let message = &request.message;
        // What was taken before is recorded, and nothing else: it counted then.
        let counts = !request.again;
        if counts && !self.authentication.spend(&self.bus, now, self.publisher.borrow().bytes(message)) {
            return Taken::Refused(ReasonCode::QuotaExceeded, reasons::OVER_RATE.to_owned());
        }
        if message.topic.starts_with('$') && is_marked(&message.properties) {
            return Taken::Refused(ReasonCode::PayloadFormatInvalid, reasons::MARKED_REQUEST.to_owned());
        }
        if let Some(topic) = message.topic.strip_prefix(REQUEST_PREFIX) {
            if let Some(refused) = self.refuses_command(client, now, (topic, spoken_for), message) {
                return refused;
            }
            let upstream = self.bus.borrow().upstream_of(topic);
            if let Some(up) = upstream {
                let answered = message.properties.response_topic();
                // What is answered at the upstream's topic comes back as what is published there.
                return match answered.is_some_and(|to| self.bus.borrow().upstream_of(&to) != Some(up)) {
                    true => self.ask_above(client, now, (vec![up], message), spoken_for),
                    false => self.take_upward(client, now, request, spoken_for),
                };
            }
            command(&self.bus, now, client, (topic, message), &self.asked_by(client, spoken_for));
            return Taken::Done;
        }
        if let Some(verb) = message.topic.strip_prefix(control::REQUEST_PREFIX) {
            return self.take_control(client, now, (verb, message), spoken_for);
        }
        if let Some(verb) = message.topic.strip_prefix(alarms::REQUEST_PREFIX) {
            return self.take_alarm_request(client, now, (verb, message), spoken_for);
        }
        if let Some(verb) = message.topic.strip_prefix(locks::REQUEST_PREFIX) {
            return self.take_lock(client, now, (verb, message), spoken_for);
        }
        if *message.topic == *fetch::REQUEST_TOPIC {
            return self.take_fetch(client, now, message);
        }
        if *message.topic == *tieline_delta::RESYNC_TOPIC {
            if let Ok(topic) = std::str::from_utf8(&message.payload) {
                self.bus.borrow_mut().resync(now, client.key, topic);
            }
            return Taken::Done;
        }
        if self.is_reserved(&message.topic) {
            let bus = self.bus.borrow();
            let words = match bus.is_reserved(&message.topic) {
                true if bus.is_of_site(&message.topic) => reasons::OF_SITE.to_owned(),
                true => reasons::reserved(&message.topic),
                false => reasons::DERIVED.to_owned(),
            };
            return Taken::Refused(ReasonCode::NotAuthorized, words);
        }
        if !self.may(client, now, spoken_for, Verb::Publish, &message.topic) {
            return Taken::Refused(ReasonCode::NotAuthorized, reasons::PUBLISH.to_owned());
        }
        self.take_value(client, now, request, spoken_for)
    }

    /// Why a command is not taken.
    fn refuses_command(
        &self,
        client: &ConnectedClient,
        now: Now,
        (topic, spoken_for): (&str, Option<&SpokenFor>),
        message: &Message,
    ) -> Option<Taken> {
        if !self.may(client, now, spoken_for, Verb::Command, topic) {
            return Some(Taken::Refused(ReasonCode::NotAuthorized, reasons::COMMAND.to_owned()));
        }
        let refused = !self.may_be_answered(client, now, message, spoken_for);
        refused.then(|| Taken::Refused(ReasonCode::NotAuthorized, reasons::RESPONSE.to_owned()))
    }

    /// Whether the answer to a request may go where it asks for: the node must not be made to write where the client may not.
    pub(super) fn may_be_answered(
        &self,
        client: &ConnectedClient,
        now: Now,
        message: &Message,
        spoken_for: Option<&SpokenFor>,
    ) -> bool {
        let answered = message.properties.response_topic().filter(|to| !is_private(to));
        answered.is_none_or(|to| self.may(client, now, spoken_for, Verb::Publish, &to))
    }

    /// Takes a request for topics: the answer is a page of those that the client may read now.
    fn take_fetch(&self, client: &ConnectedClient, now: Now, message: &Message) -> Taken {
        let Some(to) = message.properties.response_topic() else {
            let words = "a request without a response topic".to_owned();
            return Taken::Refused(ReasonCode::ImplementationSpecificError, words);
        };
        if !is_private(&to) && !self.authentication.may(&self.bus, now, &client.name, Verb::Publish, &to) {
            return Taken::Refused(ReasonCode::NotAuthorized, reasons::RESPONSE.to_owned());
        }
        let reply = Reply::of(message, client, |topic| self.is_reserved(topic));
        let asked = match fetch::read_json(&message.payload, now.utc) {
            Ok(asked) => asked,
            Err(detail) => {
                reply.send(&mut self.bus.borrow_mut(), now, CommandResult::malformed(detail).to_string());
                return Taken::Done;
            }
        };
        if !self.may_fetch(client, now, &asked) {
            return Taken::Refused(ReasonCode::NotAuthorized, String::new());
        }
        if let Asked::Topics(fetch, _) = &asked {
            self.bus.borrow_mut().miss(&fetch.filter);
        }
        let read_filter = self.authentication.read_filter(&self.bus, &client.name);
        let mut work = Answering { reply: Some(reply), read_filter, asked: Fetching::of(asked) };
        let user = self.authentication.user(&self.bus).unwrap_or_else(|| client.name.to_string());
        let taken = self.bus.borrow_mut().ask(&user.into(), Box::new(move |bus, now| work.step(bus, now)));
        match taken {
            Ok(()) => Taken::Done,
            Err(full) => {
                let (reply, words) = (Reply::of(message, client, |topic| self.is_reserved(topic)), full.to_string());
                reply.send(&mut self.bus.borrow_mut(), now, CommandResult::busy(&words).to_string());
                Taken::Refused(ReasonCode::QuotaExceeded, words)
            }
        }
    }

    fn may_fetch(&self, client: &ConnectedClient, now: Now, asked: &Asked) -> bool {
        let wanted: &str = match asked {
            Asked::Topics(fetch, _)
                if self.authentication.reads(&self.bus.borrow(), &fetch.filter) != Reach::Nothing =>
            {
                return true;
            }
            // For the denial that is counted and written down.
            Asked::Topics(fetch, _) => &fetch.filter,
            Asked::Events(topic, _) => topic,
        };
        self.authentication.may(&self.bus, now, &client.name, Verb::Read, wanted)
    }

    fn take_value(
        &self,
        client: &ConnectedClient,
        now: Now,
        request: PublishRequest,
        spoken_for: Option<&SpokenFor>,
    ) -> Taken {
        let request = match self.publisher.borrow_mut().rebuild(&self.bus, request) {
            Ok(request) => request,
            Err(words) => {
                tracing::debug!(client = %client.name, words, "publish refused");
                return Taken::Refused(ReasonCode::PayloadFormatInvalid, words);
            }
        };
        if self.bus.borrow().is_of_upstream(&request.message.topic) {
            return self.take_upward(client, now, request, spoken_for);
        }
        if let (true, Some(packet_id)) = (request.again, request.packet_id) {
            let Message { topic, payload, .. } = &request.message;
            let update = Update { topic: topic.clone(), body: Body::read(payload.clone()) };
            let again = self.bus.borrow_mut().record_again((client.key, client.number), packet_id, &update);
            return if again { Taken::Later } else { Taken::Done };
        }
        let PublishRequest { message, qos, packet_id, retain, .. } = request;
        if !message.properties.is_empty()
            && let Err((reason, words)) = self.check_conditions(client, now, &message, spoken_for)
        {
            tracing::debug!(client = %client.name, words, "publish refused");
            return Taken::Refused(reason, words);
        }
        let mut bus = self.bus.borrow_mut();
        let body = match bus.admit(&message, retain) {
            Ok(body) => body,
            Err(why) => {
                drop(bus);
                tracing::debug!(client = %client.name, %why, "publish refused");
                return Taken::Refused(ReasonCode::PayloadFormatInvalid, why.to_string());
            }
        };
        let update = Update { topic: message.topic.clone(), body };
        if let Some(why) = bus.cannot_store(&message, &update, qos, retain, Some(client.key)) {
            tracing::debug!(client = %client.name, why, "publish refused");
            return Taken::Refused(ReasonCode::QuotaExceeded, why.to_owned());
        }
        if qos != Qos::AtMostOnce
            && let Err(words) = bus.check_length(&message, &update)
        {
            return Taken::Refused(ReasonCode::QuotaExceeded, words);
        }
        bus.begin_act();
        if let Err(error) = bus.take_message(now, message, &update.body, qos, retain, client.key) {
            tracing::debug!(client = %client.name, %error, "publish refused");
            drop(bus);
            return Taken::Refused(ReasonCode::QuotaExceeded, error.to_string());
        }
        let (key, number) = (client.key, client.number);
        let later = match packet_id.filter(|_| qos == Qos::ExactlyOnce) {
            Some(packet_id) => bus.record_held(now, (key, number), packet_id, &update),
            None => {
                let batch_number = bus.end_act(now).unwrap_or(0);
                let receipt = packet_id.map(|packet_id| Receipt::Client { key, number, packet_id, batch_number });
                bus.record(now, &update, receipt)
            }
        };
        match packet_id {
            Some(packet_id) if later => bus.publish_waits(now, (key, number), packet_id),
            Some(_) => bus.publish_done(now),
            None => {}
        }
        if later { Taken::Later } else { Taken::Done }
    }

    /// What has to be true for a message to be taken. Who asks something of the topic's value may read it.
    pub(super) fn conditions(
        &self,
        client: &ConnectedClient,
        now: Now,
        message: &Message,
        spoken_for: Option<&SpokenFor>,
    ) -> Result<Conditions, (ReasonCode, String)> {
        let because = |words: String| (ReasonCode::ImplementationSpecificError, words);
        let conditions = conditions::read(&message.properties).map_err(because)?;
        // Whether a condition is met tells of the value.
        if !conditions.values.is_empty() && !self.may(client, now, spoken_for, Verb::Read, &message.topic) {
            return Err((ReasonCode::NotAuthorized, String::new()));
        }
        Ok(conditions)
    }

    /// Whether what has to be true for a message is.
    fn check_conditions(
        &self,
        client: &ConnectedClient,
        now: Now,
        message: &Message,
        spoken_for: Option<&SpokenFor>,
    ) -> Result<(), (ReasonCode, String)> {
        let because = |words: String| (ReasonCode::ImplementationSpecificError, words);
        let conditions = self.conditions(client, now, message, spoken_for)?;
        self.check_locks(client, now, &conditions.locks, spoken_for)?;
        let checked = self.bus.borrow_mut().check_conditions(&message.topic, &conditions.values);
        checked.map_err(|unmet| because(unmet.to_string()))
    }
}

/// A request for topics or events that is being answered.
struct Answering {
    reply: Option<Reply>,
    /// What may be read; none where all may.
    read_filter: Option<Rc<DeliveryFilter>>,
    asked: Fetching,
}

enum Fetching {
    Topics(Box<Paging>),
    Events(Topic, Range),
}

impl Fetching {
    fn of(asked: Asked) -> Self {
        match asked {
            Asked::Topics(fetch, select) => Self::Topics(Box::new(Paging::new(fetch::Interface::Mqtt, fetch, select))),
            Asked::Events(topic, range) => Self::Events(topic, range),
        }
    }
}

impl Answering {
    fn step(&mut self, bus: &mut Bus, now: Now) -> Step {
        let text = match &mut self.asked {
            Fetching::Topics(paging) => {
                let may = |topic: &Topic| self.read_filter.as_ref().is_none_or(|read_filter| read_filter.allows(topic));
                match paging.step(bus.tree(), may) {
                    Ok(_) if paging.is_done() => paging.take(),
                    Ok(_) => return Step::Again,
                    Err(detail) => CommandResult::malformed(detail).to_string(),
                }
            }
            Fetching::Events(topic, range) => {
                let events = fetch::events(fetch::Interface::Mqtt, bus, topic, range);
                events.unwrap_or_else(|| {
                    CommandResult::malformed(format!("the topic {topic:?} keeps no events")).to_string()
                })
            }
        };
        if let Some(reply) = self.reply.take() {
            reply.send(bus, now, text);
        }
        Step::Done
    }
}
