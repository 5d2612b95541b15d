//! What goes into the alarms: values of topics, and which devices are reached.

use super::super::state::Bus;
use super::Alarming;
use tieline_alarms::InputId;
use tieline_core::{Body, DeviceId, Filter, Now, Topic};
use tieline_topics::{Applied, Change, Snapshot, TopicId};

/// Topics that are declared again in one turn.
const CHUNK: usize = 512;

/// What a topic is to the engine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Known {
    /// It was not asked.
    #[default]
    No,
    /// It has no alarm, by the rules of this generation.
    Without(u64),
    /// It has some.
    With(InputId),
}

impl Alarming {
    /// Takes a value of a topic in, with its number in the tree where it is the topic's last value: it is its own while it has one.
    fn take(&mut self, now: Now, topic: &Topic, id: Option<TopicId>, body: &Body) {
        if matches!(body, Body::Opaque(_)) {
            return;
        }
        let Some(input) = self.input_of(now, topic, id) else { return };
        match body {
            Body::Point(point) => self.engine.handle_point(now, input, point),
            Body::Published(point) => self.engine.handle_point(now, input, &point.point(now.utc)),
            Body::Opaque(_) => {}
        }
    }

    fn input_of(&mut self, now: Now, topic: &Topic, id: Option<TopicId>) -> Option<InputId> {
        let Some(id) = id else { return self.engine.declare(now, topic) };
        let at = id.0 as usize;
        if self.known.len() <= at {
            self.known.resize(at + 1, Known::No);
        }
        match self.known[at] {
            Known::With(input) => return Some(input),
            Known::Without(generation) if generation == self.engine.generation() => return None,
            Known::Without(_) | Known::No => {}
        }
        let input = self.engine.declare(now, topic);
        self.known[at] = input.map_or(Known::Without(self.engine.generation()), Known::With);
        input
    }
}

impl Bus {
    /// A topic was updated.
    pub(in crate::bus) fn note_alarms(&mut self, now: Now, topic: &Topic, applied: &Applied, body: &Body) {
        let Some(alarming) = self.alarming.as_deref_mut() else { return };
        match applied.change {
            Change::Stored => alarming.take(now, topic, Some(applied.topic), body),
            Change::Passed => alarming.take(now, topic, None, body),
            Change::Cleared => {
                if let Some(known) = alarming.known.get_mut(applied.topic.0 as usize)
                    && let Known::With(_) = std::mem::take(known)
                {
                    alarming.engine.remove(now, topic);
                }
            }
        }
    }

    /// Whether devices are reached.
    pub(in crate::bus) fn note_presence(&mut self, now: Now, links: &[(DeviceId, bool)]) {
        let Some(alarming) = self.alarming.as_deref_mut() else { return };
        for (device, is_up) in links {
            if let Some(place) = alarming.places.get(device) {
                alarming.engine.handle_presence(now, place, *is_up);
            }
        }
    }

    /// A site is there, or is away. `place` is what its topics are below.
    pub(in crate::bus) fn note_site_presence(&mut self, now: Now, place: &str, is_up: bool) {
        let (Some(alarming), Ok(place)) = (self.alarming.as_deref_mut(), Topic::new(place)) else { return };
        if alarming.sites.insert(place.clone()) {
            alarming.place(now);
        }
        alarming.engine.handle_presence(now, &place, is_up);
    }

    /// Commands that have ended. A point without a value has no alarm yet.
    pub(super) fn note_ended_commands(&mut self, now: Now) {
        let ended = self.commands.take_ended();
        let Some(alarming) = self.alarming.as_deref_mut() else { return };
        for (topic, has_succeeded) in ended {
            alarming.engine.handle_command(now, &topic, has_succeeded);
        }
    }

    /// All topics that have values are declared, some in each turn.
    pub(super) fn walk_alarms(&mut self) {
        let Some(alarming) = self.alarming.as_deref_mut() else { return };
        alarming.generation = alarming.engine.generation();
        alarming.walk = Filter::new("#").ok().map(Snapshot::new);
        self.work.notify_one();
    }

    pub(super) fn declare_some(&mut self, now: Now) {
        let Some(alarming) = self.alarming.as_deref_mut() else { return };
        if alarming.generation != alarming.engine.generation() {
            self.walk_alarms();
        }
        let Self { alarming: Some(alarming), tree, work, .. } = self else { return };
        let Some(mut walk) = alarming.walk.take() else { return };
        for view in tree.next(&mut walk, CHUNK) {
            let at = view.id.0 as usize;
            if matches!(alarming.known.get(at), Some(Known::With(_))) {
                continue;
            }
            alarming.take(now, view.topic, Some(view.id), view.body);
        }
        if !walk.is_done() {
            alarming.walk = Some(walk);
            work.notify_one();
        }
    }
}
