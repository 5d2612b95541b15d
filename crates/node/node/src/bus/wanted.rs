//! Requests of control as they come over MQTT, and from the centre of a site: read, with the rights that they need, carried out.

use super::Bus;
use super::control::{Asked, Callback};
use super::questions::OfSeveralNodes;
use super::reasons;
use crate::control::Done;
use crate::control::answer::{CallResult, OverrideList, OverrideResult, ReservationResult, Reservations};
use crate::control::command::{CommandRequest, CommandResult};
use crate::control::request::{
    CancelBody, GetBody, OffBody, OverrideBody, Points, RenewBody, ReserveBody, RevertBody, SetBody,
};
use crate::control::tags::{LiftBody, TagBody, TagList, TagResult};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tieline_access::Verb;
use tieline_core::{Now, Topic};

/// A request that was read, and needs rights.
#[derive(Debug)]
pub enum Wanted {
    /// A command for one point.
    Command(CommandRequest),
    /// Time at devices.
    Reserve(ReserveBody),
    /// A sign of life of a holder.
    Renew(RenewBody),
    /// The end of a reservation.
    Cancel(CancelBody),
    /// All reservations.
    Reservations,
    /// Points to set or to revert.
    Points(Points),
    /// Last values.
    Get(GetBody),
    /// An override.
    On(OverrideBody),
    /// Its end.
    Off(OffBody),
    /// All overrides.
    Overrides,
    /// A tag.
    Tag(TagBody),
    /// Its end.
    Lift(LiftBody),
    /// All tags.
    Tags,
}

impl Wanted {
    /// Reads a payload of a request of this name, but `command`; the answer where it cannot be read. The outer option is none where there is no such request.
    pub fn read(verb: &str, payload: &[u8]) -> Option<Result<Self, String>> {
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
            "tag_place" => body(payload).map(Self::Tag).map_err(malformed),
            "tag_lift" => body(payload).map(Self::Lift).map_err(malformed),
            "tags" => Ok(Self::Tags),
            _ => return None,
        })
    }

    /// The upstreams that are asked one after the other, and not this node.
    ///
    /// # Errors
    /// It is of several nodes: the answer.
    pub fn upstreams(&self, bus: &Bus) -> Result<Vec<usize>, String> {
        let topics: Vec<&str> = match self {
            Self::Reserve(body) => body.devices().collect(),
            Self::Points(points) => points.topics().map(Topic::as_str).collect(),
            Self::Get(body) => body.topics.iter().map(String::as_str).collect(),
            Self::Renew(RenewBody { task, .. }) | Self::Cancel(CancelBody { task, .. }) => {
                return Ok(if bus.devices_of(task).is_empty() { bus.upstreams().collect() } else { Vec::new() });
            }
            Self::Command(_) | Self::Reservations => return Ok(Vec::new()),
            Self::On(_) | Self::Off(_) | Self::Overrides => return Ok(Vec::new()),
            Self::Tag(_) | Self::Lift(_) | Self::Tags => return Ok(Vec::new()),
        };
        let above = bus.controls_above(topics).map(|up| up.into_iter().collect());
        match (above, self) {
            (Ok(above), _) => Ok(above),
            (Err(OfSeveralNodes), Self::Reserve(_)) => Err(text(&ReservationResult::malformed(reasons::MIXED))),
            (Err(OfSeveralNodes), Self::Get(_)) => Ok(Vec::new()),
            (Err(OfSeveralNodes), _) => Err(text(&CallResult::malformed(reasons::MIXED.to_owned()))),
        }
    }

    /// With the points of devices that are reverted in their place.
    ///
    /// # Errors
    /// The answer where there are none.
    pub fn with_points_of_devices(self, bus: &Bus) -> Result<Self, String> {
        match self {
            Self::Points(points) => {
                bus.with_points_of_devices(points).map(Self::Points).map_err(|result| text(&result))
            }
            other => Ok(other),
        }
    }

    /// What the client must be allowed to do that asks as this holder.
    #[must_use]
    pub fn rights(&self, bus: &Bus, own: &str) -> Vec<(Verb, String)> {
        let admin = |topics: Vec<Topic>| topics.iter().map(|topic| (Verb::Admin, topic.to_string())).collect();
        match self {
            Self::Command(request) => vec![(Verb::Command, request.topic.to_string())],
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
            Self::Tag(body) => bus.rights_to_tag(&body.topic),
            Self::Lift(body) => bus.rights_to_lift(body.id, &[own]),
            // What may not be read is left out.
            Self::Renew(_) | Self::Cancel(_) | Self::Reservations | Self::Get(_) => Vec::new(),
            Self::Overrides | Self::Tags => Vec::new(),
        }
    }

    /// Carries it out; what may not be seen is not in the answer.
    pub fn carry_out(
        self,
        bus: &mut Bus,
        now: Now,
        asked: &Asked,
        may_see: impl Fn(&Bus, &str) -> bool,
        answer: Callback<String>,
    ) {
        match self {
            Self::Command(request) => {
                let shown = request.clone();
                let done = move |bus: &mut Bus, done: Done| {
                    if let Some(done) = done.into_command() {
                        answer(bus, CommandResult::of(&shown, &done).to_string());
                    }
                };
                bus.request(now, request, &asked.by, Box::new(done));
            }
            Self::Reserve(body) => bus.reserve(now, body, asked, answering::<ReservationResult>(answer)),
            Self::Renew(body) => bus.renew(now, &body, &asked.by, answering::<ReservationResult>(answer)),
            Self::Cancel(body) => bus.cancel(now, &body, &asked.by, answering::<ReservationResult>(answer)),
            Self::Points(points) => bus.control_points(now, points, &asked.by, answering::<CallResult>(answer)),
            Self::On(body) => bus.override_on(now, body, &asked.by, answering::<OverrideResult>(answer)),
            Self::Off(body) => bus.override_off(now, &body, &asked.by, answering::<OverrideResult>(answer)),
            Self::Reservations => {
                let may_see = |topic: &str| may_see(bus, topic);
                let shown = text(&Reservations::of(now, bus.commands().coordinator(), None, &may_see));
                answer(bus, shown);
            }
            Self::Overrides => {
                let may_see = |topic: &str| may_see(bus, topic);
                let shown = text(&OverrideList::of(bus.commands().coordinator(), None, may_see));
                answer(bus, shown);
            }
            Self::Tag(body) => bus.place_tag(now, &body, &asked.by, answering::<TagResult>(answer)),
            Self::Lift(body) => bus.lift_tag(now, &body, &asked.by, answering::<TagResult>(answer)),
            Self::Tags => {
                let may_see = |topic: &str| may_see(bus, topic);
                let shown = text(&TagList::of(bus.commands().coordinator(), None, may_see));
                answer(bus, shown);
            }
            Self::Get(body) => {
                let shown = bus.got(body.topics, |topic| may_see(bus, topic));
                answer(bus, shown);
            }
        }
    }
}

/// Gives an answer as text once it is there.
fn answering<T: Serialize + 'static>(answer: Callback<String>) -> Callback<T> {
    Box::new(move |bus, result| answer(bus, text(&result)))
}

fn body<T: DeserializeOwned>(payload: &[u8]) -> Result<T, String> {
    tieline_service::json::read(payload).map_err(|error| error.to_string())
}

pub(super) fn text(answer: &impl Serialize) -> String {
    // Texts and numbers can be written.
    serde_json::to_string(answer).unwrap_or_default()
}
