//! Requests of control over MQTT: reservations, overrides, calls for many points.
//!
//! A request is a message to `$control/<what>` with a response topic and a body as over HTTP. The requester is the client:
//! its reservations end with its session.

use super::messages::Taken;
use super::reply::{Reply, is_private};
use super::upward::SpokenFor;
use super::{ClientOwner, ConnectedClient};
use crate::bus::reasons;
use crate::bus::{Asked, Bus, Callback};
use crate::control::answer::{CallResult, OverrideList, OverrideResult, ReservationResult, Reservations};
use crate::control::request::{
    CancelBody, GetBody, OffBody, OverrideBody, Points, RenewBody, ReserveBody, RevertBody, SetBody,
};
use crate::control::{Call, holder_of};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tieline_access::Verb;
use tieline_core::{Now, Topic};
use tieline_mqtt::{Message, ReasonCode};

/// Requests are published to topics that begin so.
pub const REQUEST_PREFIX: &str = "$control/";

const WORDS: &str = "no such request: expected reserve, renew, cancel, reservations, set, revert, get, override_on, override_off or overrides";

/// A request that was read, and needs rights.
enum Wanted {
    Reserve(ReserveBody),
    Renew(RenewBody),
    Cancel(CancelBody),
    Reservations,
    Points(Points),
    Get(GetBody),
    On(OverrideBody),
    Off(OffBody),
    Overrides,
}

impl Wanted {
    /// Reads a payload; the answer where it cannot be read. The outer option is none where there is no such request.
    fn read(verb: &str, payload: &[u8]) -> Option<Result<Self, String>> {
        let failure = |why: String| text(&ReservationResult::malformed(&why));
        let malformed = |why| text(&CallResult::malformed(why));
        Some(match verb {
            "reserve" => body(payload).map(Self::Reserve).map_err(failure),
            "renew" => body(payload).map(Self::Renew).map_err(failure),
            "cancel" => body(payload).map(Self::Cancel).map_err(failure),
            "reservations" => Ok(Self::Reservations),
            "set" => body(payload).and_then(SetBody::read).map(Self::Points).map_err(malformed),
            "revert" => body(payload).and_then(RevertBody::read).map(Self::Points).map_err(malformed),
            "get" => body(payload).map(Self::Get).map_err(malformed),
            "override_on" => body(payload).map(Self::On).map_err(malformed),
            "override_off" => body(payload).map(Self::Off).map_err(malformed),
            "overrides" => Ok(Self::Overrides),
            _ => return None,
        })
    }

    /// Whether the upstream is asked, and not this node.
    ///
    /// # Errors
    /// Some of it is the upstream's, and some this node's: the answer.
    fn is_for_upstream(&self, bus: &Bus) -> Result<bool, String> {
        let topics: Vec<&str> = match self {
            Self::Reserve(body) => body.devices().collect(),
            Self::Points(points) => points.topics().map(Topic::as_str).collect(),
            Self::Get(body) => body.topics.iter().map(String::as_str).collect(),
            Self::Renew(RenewBody { task, .. }) | Self::Cancel(CancelBody { task, .. }) => {
                return Ok(bus.has_upstream() && bus.devices_of(task).is_empty());
            }
            Self::Reservations | Self::On(_) | Self::Off(_) | Self::Overrides => return Ok(false),
        };
        let above = topics.iter().filter(|topic| bus.is_controlled_above(topic)).count();
        match self {
            _ if above == 0 => Ok(false),
            _ if above == topics.len() => Ok(true),
            Self::Reserve(_) => Err(text(&ReservationResult::malformed(reasons::MIXED))),
            Self::Get(_) => Ok(false),
            _ => Err(text(&CallResult::malformed(reasons::MIXED.to_owned()))),
        }
    }

    /// With the points of devices that are reverted in their place; the answer where there are none.
    fn with_points_of_devices(self, bus: &Bus) -> Result<Self, String> {
        match self {
            Self::Points(points) => {
                bus.with_points_of_devices(points).map(Self::Points).map_err(|result| text(&result))
            }
            other => Ok(other),
        }
    }

    /// What the client must be allowed to do.
    fn rights(&self, bus: &Bus) -> Vec<(Verb, String)> {
        let admin = |topics: Vec<Topic>| topics.iter().map(|topic| (Verb::Admin, topic.to_string())).collect();
        match self {
            Self::Reserve(body) => {
                let verb = if body.is_high() { Verb::Admin } else { Verb::Command };
                body.devices().map(|device| (verb, device.to_owned())).collect()
            }
            Self::Cancel(body) if body.force => admin(bus.devices_of(&body.task)),
            Self::Points(points) => points.topics().map(|topic| (Verb::Command, topic.to_string())).collect(),
            Self::On(body) => admin(bus.selected(&body.pattern)),
            Self::Off(OffBody { pattern: Some(pattern) }) => admin(bus.selected(pattern)),
            Self::Off(OffBody { pattern: None }) => {
                let all = bus.commands().coordinator().overrides().patterns();
                admin(all.flat_map(|record| bus.selected(record.pattern.as_str())).collect())
            }
            // What may not be read is left out.
            Self::Renew(_) | Self::Cancel(_) | Self::Reservations | Self::Get(_) | Self::Overrides => Vec::new(),
        }
    }
}

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
        // The node must not be made to write where the client may not.
        let answered = message.properties.response_topic().filter(|to| !is_private(to));
        if answered.is_some_and(|to| !self.may(client, now, spoken_for, Verb::Publish, &to)) {
            return Taken::Refused(ReasonCode::NotAuthorized, reasons::RESPONSE.to_owned());
        }
        let reply = Reply::of(message, client, |topic| self.is_reserved(topic));
        let wanted = wanted.and_then(|wanted| {
            let bus = self.bus.borrow();
            let is_for_upstream = wanted.is_for_upstream(&bus)?;
            let wanted = if is_for_upstream { wanted } else { wanted.with_points_of_devices(&bus)? };
            Ok((wanted, is_for_upstream))
        });
        let (wanted, is_for_upstream) = match wanted {
            Ok(wanted) => wanted,
            Err(answer) => {
                reply.send(&mut self.bus.borrow_mut(), now, answer);
                return Taken::Done;
            }
        };
        let rights = wanted.rights(&self.bus.borrow());
        for (verb, topic) in rights {
            if !self.may(client, now, spoken_for, verb, &topic) {
                return Taken::Refused(ReasonCode::NotAuthorized, reasons::COMMAND.to_owned());
            }
        }
        if is_for_upstream {
            return self.ask_above(client, now, message, spoken_for);
        }
        self.carry_out(client, now, wanted, (reply, spoken_for));
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
        let mut bus = self.bus.borrow_mut();
        let bus = &mut *bus;
        match wanted {
            Wanted::Reserve(body) => bus.reserve(now, body, &asked, answering::<ReservationResult>(reply)),
            Wanted::Renew(body) => bus.renew(now, &body, &asked.by, answering::<ReservationResult>(reply)),
            Wanted::Cancel(body) => bus.cancel(now, &body, &asked.by, answering::<ReservationResult>(reply)),
            Wanted::Points(points) => bus.control_points(now, points, &asked.by, answering::<CallResult>(reply)),
            Wanted::On(body) => bus.override_on(now, body, &asked.by, answering::<OverrideResult>(reply)),
            Wanted::Off(body) => bus.override_off(now, &body, &asked.by, answering::<OverrideResult>(reply)),
            Wanted::Reservations => {
                let may_see = |topic: &str| may_see(bus, topic);
                let shown = text(&Reservations::of(now, bus.commands().coordinator(), None, &may_see));
                reply.send(bus, now, shown);
            }
            Wanted::Overrides => {
                let may_see = |topic: &str| may_see(bus, topic);
                let shown = text(&OverrideList::of(bus.commands().coordinator(), None, may_see));
                reply.send(bus, now, shown);
            }
            Wanted::Get(body) => {
                let shown = bus.got(body.topics, |topic| may_see(bus, topic));
                reply.send(bus, now, shown);
            }
        }
    }
}

/// Sends an answer once it is there.
fn answering<T: Serialize + 'static>(reply: Reply) -> Callback<T> {
    Box::new(move |bus, result| {
        let now = bus.now();
        reply.send(bus, now, text(&result));
    })
}

fn body<T: DeserializeOwned>(payload: &[u8]) -> Result<T, String> {
    tieline_service::json::read(payload).map_err(|error| error.to_string())
}

fn text(answer: &impl Serialize) -> String {
    // Texts and numbers can be written.
    serde_json::to_string(answer).unwrap_or_default()
}
