//! Requests of control over MQTT: reservations, overrides, calls for many points.
//!
//! A request is a message to `$control/<what>` with a response topic and a body as over HTTP. The requester is the client:
//! its reservations end with its session.

use super::messages::Taken;
use super::reply::Reply;
use super::upward::SpokenFor;
use super::{ClientOwner, ConnectedClient};
use crate::bus::reasons;
use crate::bus::wanted::Wanted;
use crate::bus::{Asked, Bus, refusal_of};
use crate::control::{Call, holder_of};
use crate::sites::{CallVerb, SiteRequest};
use std::sync::Arc;
use tieline_core::{Now, Words as _};
use tieline_mqtt::{Message, ReasonCode};

/// Requests are published to topics that begin so.
pub const REQUEST_PREFIX: &str = "$control/";

const WORDS: &str = "no such request: expected reserve, renew, cancel, reservations, set, revert, get, override_on, override_off, overrides, tag_place, tag_lift or tags";

impl ClientOwner {
    /// Who asks, where a client does.
    pub(super) fn asked(&self, client: &ConnectedClient) -> Asked {
        let user = self.authentication.user(&self.bus);
        let shown = user.as_ref().map(|user| format!(" {user}")).unwrap_or_default();
        let who = format!("mqtt {}{shown} {}", self.peer, client.name).into();
        let requester = holder_of(user.as_deref(), Some(&client.name)).unwrap_or_else(|| Arc::clone(&client.name));
        Asked { by: Call { requester, who }, session: Some(Arc::clone(&client.name)) }
    }

    pub(super) fn take_control(
        &self,
        client: &ConnectedClient,
        now: Now,
        (verb, message): (&str, &Message),
        spoken_for: Option<&SpokenFor>,
    ) -> Taken {
        let Some(wanted) = Wanted::read(verb, &message.payload) else {
            return Taken::Refused(ReasonCode::ImplementationSpecificError, WORDS.to_owned());
        };
        if !self.may_be_answered(client, now, message, spoken_for) {
            return Taken::Refused(ReasonCode::NotAuthorized, reasons::RESPONSE.to_owned());
        }
        let reply = Reply::of(message, client, |topic| self.is_reserved(topic));
        if let Some(request) = self.request_of_site(verb, &message.payload) {
            return self.control_site(client, now, request, (reply, spoken_for));
        }
        let wanted = wanted.and_then(|wanted| {
            let bus = self.bus.borrow();
            let upstreams = wanted.upstreams(&bus)?;
            let wanted = if upstreams.is_empty() { wanted.with_points_of_devices(&bus)? } else { wanted };
            Ok((wanted, upstreams))
        });
        let (wanted, upstreams) = match wanted {
            Ok(wanted) => wanted,
            Err(answer) => {
                reply.send(&mut self.bus.borrow_mut(), now, answer);
                return Taken::Done;
            }
        };
        let own = self.asked_by(client, spoken_for).by.requester;
        let rights = wanted.rights(&self.bus.borrow(), &own);
        for (verb, topic) in rights {
            if !self.may(client, now, spoken_for, verb, &topic) {
                return Taken::Refused(ReasonCode::NotAuthorized, reasons::COMMAND.to_owned());
            }
        }
        if !upstreams.is_empty() {
            return self.ask_above(client, now, (upstreams, message), spoken_for);
        }
        self.carry_out(client, now, wanted, (reply, spoken_for));
        Taken::Done
    }

    /// A request for points of a site, where the payload is one; else the answer.
    fn request_of_site(&self, verb: &str, payload: &[u8]) -> Option<Result<SiteRequest, String>> {
        let bus = self.bus.borrow();
        if !bus.has_sites() {
            return None;
        }
        let verb = CallVerb::of_word(verb).filter(|verb| *verb != CallVerb::Command)?;
        let request = bus.site_request(verb, &serde_json::from_slice(payload).ok()?)?;
        if let (CallVerb::Get, Ok(request)) = (verb, &request)
            && request.points.iter().all(|(topic, _)| bus.has_value(topic))
        {
            return None;
        }
        Some(request.map_err(|refusal| refusal_of(verb, refusal, None)))
    }

    fn control_site(
        &self,
        client: &ConnectedClient,
        now: Now,
        request: Result<SiteRequest, String>,
        (reply, spoken_for): (Reply, Option<&SpokenFor>),
    ) -> Taken {
        let request = match request {
            Ok(request) => request,
            Err(answer) => {
                reply.send(&mut self.bus.borrow_mut(), now, answer);
                return Taken::Done;
            }
        };
        for (verb, topic) in &request.rights {
            if !self.may(client, now, spoken_for, *verb, topic) {
                return Taken::Refused(ReasonCode::NotAuthorized, reasons::COMMAND.to_owned());
            }
        }
        let by = self.asked_by(client, spoken_for).by;
        self.bus.borrow_mut().call_site(now, request, &by, reply.awaited());
        Taken::Done
    }

    fn carry_out(
        &self,
        client: &ConnectedClient,
        now: Now,
        wanted: Wanted,
        (reply, spoken_for): (Reply, Option<&SpokenFor>),
    ) {
        let asked = self.asked_by(client, spoken_for);
        let read_filter = self.authentication.read_filter(&self.bus, &client.name);
        let may_see = |bus: &Bus, topic: &str| {
            let may = read_filter.as_ref().is_none_or(|filter| filter.allows(topic));
            may && spoken_for.is_none_or(|spoken_for| spoken_for.may_read(bus, topic))
        };
        wanted.carry_out(&mut self.bus.borrow_mut(), now, &asked, may_see, reply.awaited());
    }
}
