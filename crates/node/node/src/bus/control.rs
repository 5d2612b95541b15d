//! Reservations, overrides and calls for many points, on the bus.

use super::state::{Answer, Bus};
use super::view::write_topic;
use crate::control::answer::{self, CallResult, OverrideResult, ReservationResult};
use crate::control::command::CommandRequest;
use crate::control::request::{CancelBody, OffBody, OverrideBody, Points, RenewBody, ReserveBody};
use crate::control::{Call, Done};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use tieline_control::{Action, Pattern, RequestType};
use tieline_core::{Body, Now, Refusal, Topic};
use tokio::sync::oneshot;

/// Who asks, and with which MQTT session it ends; none where it has none.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Who asks.
    pub by: Call,
    /// The client identifier.
    pub session: Option<Arc<str>>,
}

/// Bytes of an answer with values, beyond which no further value is in it.
const GOT_BYTES_MAX: usize = 16 << 20;

/// What is done with an answer.
pub type Callback<T> = Box<dyn FnOnce(&mut Bus, T) + Send>;

impl Bus {
    /// Takes a command for a point; the receiver hears what became of it.
    pub fn command(&mut self, now: Now, request: CommandRequest, by: &Call) -> oneshot::Receiver<Done> {
        let (done, hears) = oneshot::channel();
        self.request(now, request, by, Box::new(move |_, answer| drop(done.send(answer))));
        hears
    }

    /// The same for a caller on this thread.
    pub fn request(&mut self, now: Now, request: CommandRequest, by: &Call, answer: Answer) {
        let topic_exists = self.tree.get(&request.topic).is_some();
        self.commands.request(now, request, topic_exists, by, answer);
        self.work.notify_one();
    }

    /// Looks at a value that commands may wait for or depend on.
    pub(super) fn look_at(&mut self, now: Now, topic: &Topic, body: &Body) {
        if !self.commands.watches(topic) {
            return;
        }
        match body {
            Body::Point(point) => self.commands.handle_reading(now, topic, point),
            Body::Published(published) => self.commands.handle_reading(now, topic, &published.point(now.utc)),
            Body::Opaque(_) => {}
        }
    }

    /// Looks at values that nobody has told since commands depend on them.
    pub(super) fn read_watched(&mut self, now: Now) {
        let topics: Vec<Topic> = self.commands.coordinator().unread().cloned().collect();
        for topic in topics {
            if let Some(body) = self.tree.get(&topic).map(|state| state.body.clone()) {
                self.look_at(now, &topic, &body);
            }
        }
    }

    /// A call with the points of its devices in their place: the caller must be allowed to command each of them.
    ///
    /// # Errors
    /// `not_revertible`: a device has no point that can be reverted, or there is no such device.
    pub fn with_points_of_devices(&self, points: Points) -> Result<Points, CallResult> {
        let Points { mut actions, devices, .. } = points;
        for device in devices {
            let entries = self.commands.coordinator().revert_device(&device);
            if entries.is_empty() {
                let detail = format!("{device} is no device with a point that can be reverted at this moment");
                return Err(CallResult::refused(Refusal::new("not_revertible", detail)));
            }
            actions.extend(entries.into_iter().map(|entry| (entry.topic, Action::Revert)));
        }
        Ok(Points { actions, devices: Vec::new(), ..points })
    }

    /// Sets or reverts points, or says what would happen.
    pub fn control_points(&mut self, now: Now, points: Points, by: &Call, answer: Callback<CallResult>) {
        let Points { actions, devices: _, timeout, confirm, dry_run } = points;
        let topics: Vec<Topic> = actions.iter().map(|(topic, _)| topic.clone()).collect();
        let entries = Points::entries(actions, |topic| self.tree.get(topic).is_some());
        if dry_run {
            let found = self.commands.dry_run(now, entries, by);
            return answer(self, CallResult::dry_run(topics.iter(), found));
        }
        let answer: Answer = Box::new(move |bus, done| {
            let result = match done {
                Done::Points(Ok(called)) => CallResult::of(&called),
                Done::Points(Err(refusal)) => CallResult::refused(refusal),
                Done::Command(_) | Done::Reservation(_) | Done::Override(_) | Done::Tag(_) => return,
            };
            answer(bus, result);
        });
        self.commands.call(now, entries, (timeout, confirm), by, answer);
        self.work.notify_one();
    }

    /// Asks for time at devices.
    pub fn reserve(&mut self, now: Now, body: ReserveBody, asked: &Asked, answer: Callback<ReservationResult>) {
        match body.request_type() {
            Ok(RequestType::New) => {}
            Ok(RequestType::Cancel) => {
                let body = CancelBody { task: body.task().to_owned(), requester: None, force: false };
                return self.cancel(now, &body, &asked.by, answer);
            }
            Err(result) => return answer(self, ReservationResult::of(&result)),
        }
        let lease = self.commands.default_lease(asked.session.is_some());
        match body.schedule(now, &asked.by.requester, lease) {
            Ok(wanted) => {
                let answer = of_reservation(answer);
                self.commands.reserve(now, &wanted, &asked.by, asked.session.as_ref(), answer);
                self.work.notify_one();
            }
            Err(info) => answer(self, ReservationResult::failure(info)),
        }
    }

    /// Renews the leases of a holder.
    pub fn renew(&mut self, now: Now, body: &RenewBody, by: &Call, answer: Callback<ReservationResult>) {
        self.commands.renew(now, &body.task, by, of_reservation(answer));
        self.work.notify_one();
    }

    /// Cancels a reservation.
    pub fn cancel(&mut self, now: Now, body: &CancelBody, by: &Call, answer: Callback<ReservationResult>) {
        self.commands.cancel(now, &body.task, by, body.force, of_reservation(answer));
        self.work.notify_one();
    }

    /// The devices of a reservation.
    #[must_use]
    pub fn devices_of(&self, task: &str) -> Vec<Topic> {
        let mut tasks = self.commands.coordinator().schedule().tasks();
        let task = tasks.find(|known| *known.owner.task == *task);
        task.into_iter().flat_map(|task| task.slots).map(|slot| slot.device).collect()
    }

    /// What a pattern selects; none where it is no pattern.
    #[must_use]
    pub fn selected(&self, pattern: &str) -> Vec<Topic> {
        let pattern: Option<Pattern> = pattern.parse().ok();
        pattern.map(|pattern| self.commands.coordinator().selected(&pattern)).unwrap_or_default()
    }

    /// Sets an override on.
    pub fn override_on(&mut self, now: Now, body: OverrideBody, by: &Call, answer: Callback<OverrideResult>) {
        let malformed = |detail| OverrideResult::of(Err(Refusal::new("malformed", detail)), Vec::new());
        let asked = match body.read(&by.who) {
            Ok(asked) => asked,
            Err(detail) => return answer(self, malformed(detail)),
        };
        let selects = self.selected(asked.pattern.as_str());
        if selects.is_empty() {
            let detail = format!("the pattern {:?} selects no device and no point", asked.pattern.as_str());
            return answer(self, OverrideResult::of(Err(Refusal::new("unknown_topic", detail)), Vec::new()));
        }
        let selects = selects.iter().map(ToString::to_string).collect();
        self.commands.set_override_on(now, &asked, of_override(answer, selects));
        self.work.notify_one();
    }

    /// Sets an override off, or all.
    pub fn override_off(&mut self, now: Now, body: &OffBody, by: &Call, answer: Callback<OverrideResult>) {
        let pattern = body.pattern.as_ref().map(|text| text.parse::<Pattern>()).transpose();
        match pattern {
            Ok(pattern) => {
                self.commands.set_override_off(now, pattern.as_ref(), by, of_override(answer, Vec::new()));
                self.work.notify_one();
            }
            Err(error) => {
                let refusal = Refusal::new("malformed", format!("pattern: {error}"));
                answer(self, OverrideResult::of(Err(refusal), Vec::new()));
            }
        }
    }

    /// Last values of topics as JSON, and why some have none.
    #[must_use]
    pub fn got(&self, topics: Vec<String>, may: impl Fn(&str) -> bool) -> String {
        let (mut text, mut errors) = (String::from("{\"topics\":["), BTreeMap::new());
        for name in topics {
            let found = Topic::new(&name).ok().and_then(|topic| self.tree.get(&topic));
            match found.filter(|_| may(&name)) {
                Some(_) if text.len() >= GOT_BYTES_MAX => drop(errors.insert(name, "too_large")),
                Some(view) => {
                    if !text.ends_with('[') {
                        text.push(',');
                    }
                    write_topic(&self.tree, &view, &mut text);
                }
                None => {
                    let why = if may(&name) { "unknown_topic" } else { "denied" };
                    errors.insert(name, why);
                }
            }
        }
        text.push_str("],\"errors\":");
        text.push_str(&serde_json::json!(errors).to_string());
        text.push('}');
        text
    }

    /// Says after a restart whose sessions were kept.
    pub fn settle_holders(&mut self, now: Now) {
        let Self { commands, clients, .. } = self;
        commands.settle_holders(now, |client| clients.contains_key(client));
    }

    /// Tells others of reservations.
    pub(super) fn publish_notices(&mut self, now: Now) {
        while let Some(notice) = self.commands.poll_notice(now) {
            let (below, payload) = answer::notice(&notice);
            let Ok(topic) = Topic::new(&format!("$control/{below}")) else { continue };
            self.apply_value(now, topic, Body::Opaque(Bytes::from(payload.to_string())), false);
        }
    }
}

fn of_reservation(answer: Callback<ReservationResult>) -> Answer {
    Box::new(move |bus, done| {
        if let Done::Reservation(result) = done {
            answer(bus, ReservationResult::of(&result));
        }
    })
}

fn of_override(answer: Callback<OverrideResult>, selects: Vec<String>) -> Answer {
    Box::new(move |bus, done| {
        if let Done::Override(result) = done {
            answer(bus, OverrideResult::of(result, selects));
        }
    })
}
