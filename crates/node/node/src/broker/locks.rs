//! Requests for locks over MQTT: a message to `$locks/acquire` or `$locks/release` with a response topic.

use super::messages::Taken;
use super::reply::Reply;
use super::upward::SpokenFor;
use super::{ClientOwner, ConnectedClient};
use crate::bus::conditions::LockCondition;
use crate::bus::locks::{LockRequest, NO_REQUEST, refusal, right};
use crate::bus::reasons;
use crate::control::command::CommandResult;
use std::sync::Arc;
use tieline_access::Verb;
use tieline_core::Now;
use tieline_mqtt::{Message, ReasonCode};
use tieline_topics::LockOwner;

impl ClientOwner {
    pub(super) fn take_lock(
        &self,
        client: &ConnectedClient,
        now: Now,
        (verb, message): (&str, &Message),
        spoken_for: Option<&SpokenFor>,
    ) -> Taken {
        let Some(request) = LockRequest::read(verb, &message.payload) else {
            return Taken::Refused(ReasonCode::ImplementationSpecificError, NO_REQUEST.to_owned());
        };
        if !self.may_be_answered(client, now, message, spoken_for) {
            return Taken::Refused(ReasonCode::NotAuthorized, reasons::RESPONSE.to_owned());
        }
        let right = request.as_ref().ok().and_then(LockRequest::right);
        if right.is_some_and(|right| !self.may(client, now, spoken_for, Verb::Publish, &right)) {
            return Taken::Refused(ReasonCode::NotAuthorized, reasons::LOCK.to_owned());
        }
        let reply = Reply::of(message, client, |topic| self.is_reserved(topic));
        let owner = lock_owner(client, spoken_for);
        let bus = &mut *self.bus.borrow_mut();
        match request {
            Ok(request) if bus.is_of_upstream(request.name()) => {
                reply.send(bus, now, refusal("elsewhere", reasons::LOCK_ABOVE));
            }
            Ok(request) => bus.lock(now, &request, owner, reply.awaited()),
            Err(detail) => reply.send(bus, now, CommandResult::malformed(detail).to_string()),
        }
        Taken::Done
    }

    /// Whether a client has the locks that a message names, and may use them still.
    pub(super) fn check_locks(
        &self,
        client: &ConnectedClient,
        now: Now,
        conditions: &[LockCondition],
        spoken_for: Option<&SpokenFor>,
    ) -> Result<(), (ReasonCode, String)> {
        if conditions.is_empty() {
            return Ok(());
        }
        if !conditions.iter().all(|lock| self.may(client, now, spoken_for, Verb::Publish, &right(&lock.name))) {
            return Err((ReasonCode::NotAuthorized, reasons::LOCK.to_owned()));
        }
        let checked = self.bus.borrow_mut().check_locks(&lock_owner(client, spoken_for), conditions);
        checked.map_err(|not_held| (ReasonCode::ImplementationSpecificError, not_held.to_string()))
    }
}

/// Who has the locks that a client acquires: what an edge acquires for its clients is of each of them.
fn lock_owner(client: &ConnectedClient, spoken_for: Option<&SpokenFor>) -> LockOwner {
    let name = spoken_for.map_or_else(|| Arc::clone(&client.name), |spoken_for| spoken_for.client().into());
    LockOwner { session: client.number, client: name }
}
