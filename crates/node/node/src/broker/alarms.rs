//! Requests for alarms over MQTT: a message to `$alarm-command/ack` and others with a response topic and a body as over HTTP.

use super::messages::Taken;
use super::reply::Reply;
use super::upward::SpokenFor;
use super::{ClientOwner, ConnectedClient};
use crate::bus::reasons;
use crate::control::alarms::{AlarmAction, AlarmRequest};
use crate::control::command::CommandResult;
use serde_json::json;
use tieline_core::{Now, Words as _};
use tieline_mqtt::{Message, ReasonCode};

const NO_REQUEST: &str = "no such request: expected ack, shelve, unshelve, reset, out_of_service, in_service or note";

impl ClientOwner {
    pub(super) fn take_alarm_request(
        &self,
        client: &ConnectedClient,
        now: Now,
        (verb, message): (&str, &Message),
        spoken_for: Option<&SpokenFor>,
    ) -> Taken {
        let Some(action) = AlarmAction::of_word(verb) else {
            return Taken::Refused(ReasonCode::ImplementationSpecificError, NO_REQUEST.to_owned());
        };
        if !self.may_be_answered(client, now, message, spoken_for) {
            return Taken::Refused(ReasonCode::NotAuthorized, reasons::RESPONSE.to_owned());
        }
        let reply = Reply::of(message, client, |topic| self.is_reserved(topic));
        let request = match AlarmRequest::read(action, &message.payload) {
            Ok(request) => request,
            Err(detail) => {
                reply.send(&mut self.bus.borrow_mut(), now, CommandResult::malformed(detail).to_string());
                return Taken::Done;
            }
        };
        let may = |topic: &str| self.may(client, now, spoken_for, action.verb(), topic);
        let allowed: Vec<bool> = request.targets.iter().map(|target| may(&target.topic)).collect();
        let who = self.asked_by(client, spoken_for).by.who;
        let answer = reply.awaited();
        let answer = Box::new(move |bus: &mut _, results| answer(bus, json!({ "results": results }).to_string()));
        self.bus.borrow_mut().request_alarms(now, &request, &who, &allowed, answer);
        Taken::Done
    }
}
