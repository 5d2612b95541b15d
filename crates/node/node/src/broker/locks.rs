//! Requests for locks over MQTT: a message to `$locks/acquire` or `$locks/release` with a response topic.

use super::messages::Taken;
use super::reply::Reply;
use super::upward::SpokenFor;
use super::{ClientOwner, ConnectedClient};
use crate::bus::conditions::LockCondition;
use crate::bus::locks::{LockRequest, NO_REQUEST, refusal, right};
use crate::bus::{Bus, LockAsker, SESSION_BYTES_MAX, reasons};
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
        let bus = &mut *self.bus.borrow_mut();
        let request = match request {
            Ok(request) => request,
            Err(detail) => {
                reply.send(bus, now, CommandResult::malformed(detail).to_string());
                return Taken::Done;
            }
        };
        if spoken_for.is_some_and(|spoken_for| spoken_for.session().len() > SESSION_BYTES_MAX) {
            reply.send(bus, now, refusal("limit", reasons::LOCK_FAR));
            return Taken::Done;
        }
        match bus.upstream_of_lock(request.name()) {
            Some(up) => {
                let asker = self.lock_asker(client, bus, spoken_for);
                bus.lock_above(now, up, (&request, asker), (reply.clone().awaited(), reply.awaited()));
            }
            None => bus.lock(now, &request, lock_owner(client, spoken_for), reply.awaited()),
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
        self.may_use_locks(client, now, conditions, spoken_for)?;
        if conditions.iter().any(|lock| self.bus.borrow().upstream_of_lock(&lock.name).is_some()) {
            return Err((ReasonCode::ImplementationSpecificError, reasons::LOCK_ELSEWHERE.to_owned()));
        }
        let checked = self.bus.borrow_mut().check_locks(&lock_owner(client, spoken_for), conditions);
        checked.map_err(|not_held| (ReasonCode::ImplementationSpecificError, not_held.to_string()))
    }

    /// Whether a client may use the locks that a message names.
    pub(super) fn may_use_locks(
        &self,
        client: &ConnectedClient,
        now: Now,
        conditions: &[LockCondition],
        spoken_for: Option<&SpokenFor>,
    ) -> Result<(), (ReasonCode, String)> {
        if !conditions.iter().all(|lock| self.may(client, now, spoken_for, Verb::Publish, &right(&lock.name))) {
            return Err((ReasonCode::NotAuthorized, reasons::LOCK.to_owned()));
        }
        Ok(())
    }

    /// Who asks for a lock of the upstream: the client, or the one for which it asks, each as its user.
    pub(super) fn lock_asker(&self, client: &ConnectedClient, bus: &Bus, spoken_for: Option<&SpokenFor>) -> LockAsker {
        let user = spoken_for.and_then(SpokenFor::checked_user).map(str::to_owned);
        LockAsker { owner: lock_owner(client, spoken_for), user: user.or_else(|| self.authentication.user_on(bus)) }
    }
}

/// Who has the locks that a client acquires: what an edge acquires for its clients is of each of them.
fn lock_owner(client: &ConnectedClient, spoken_for: Option<&SpokenFor>) -> LockOwner {
    let Some(spoken_for) = spoken_for else { return LockOwner::new(client.number, Arc::clone(&client.name)) };
    LockOwner {
        within: spoken_for.session().into(),
        via: Some(Arc::clone(&client.name)),
        ..LockOwner::new(client.number, spoken_for.client().into())
    }
}
