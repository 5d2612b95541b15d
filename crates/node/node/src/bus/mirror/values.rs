//! What an edge does with the values of an upstream: it shows them, marks them, and removes them.

use super::shown::Shown;
use super::{STEP, USER};
use crate::bus::apply::Origin;
use crate::bus::asks::Step;
use crate::bus::state::Bus;
use tieline_core::{Body, Now, Point, Quality, Topic, Update};
use tieline_mqtt::{Message, Qos};
use tieline_topics::{Change, TopicId};

impl Bus {
    /// A value or a message of the upstream: to all who have subscribed to it here.
    pub(super) fn show(
        &mut self,
        (now, up): (Now, usize),
        topic: Topic,
        body: Body,
        (message, origin): (Option<Box<Message>>, Origin<'_>),
        retain: bool,
    ) {
        let is_own = self.upstream_of(&topic) != Some(up);
        let is_known = !retain || self.tree.get(&topic).is_some();
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        if is_own {
            mirror.counts.own += u64::from(!mirror.comes_beside(&topic));
            return;
        }
        // What was on its way when it was no longer asked for.
        if !is_known && !mirror.wants.asks_for(&topic) {
            return;
        }
        let message = message.map(|message| *message);
        let message = message.unwrap_or_else(|| Message::new(topic.clone(), body.to_payload(), now.mono));
        let update = Update { topic, body };
        match &update.body {
            Body::Point(_) => self.record_node(now, &update),
            Body::Published(_) | Body::Opaque(_) => drop(self.recorder.record(now, &update, None)),
        }
        self.pass_on((now, up), message, (update, origin), retain);
    }

    /// Applies what the upstream says. It is not kept over a restart: the upstream says it again.
    pub(super) fn pass_on(
        &mut self,
        (now, up): (Now, usize),
        message: Message,
        (update, origin): (Update, Origin<'_>),
        retain: bool,
    ) {
        let Update { topic, body } = update;
        let applied = self.apply_from(now, message, &body, (Qos::AtLeastOnce, retain), origin);
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        match applied.map(|applied| (applied.change, applied.topic)) {
            Ok((Change::Stored, id)) => mirror.shown.show(id, &topic),
            Ok((Change::Cleared, id)) => mirror.shown.forget(id),
            Ok((Change::Passed, _)) => {}
            Err(_) => mirror.counts.full += 1,
        }
    }

    /// The upstream has removed a value and published no message: nor is one published here.
    pub(super) fn removed_above(&mut self, now: Now, up: usize, topic: &Topic) {
        let (Some(id), Some(mirror)) = (self.tree.find(topic), self.mirrors.get_mut(up)) else { return };
        if mirror.shown.has(id, topic) {
            mirror.shown.forget(id);
            self.remove_value(now, topic);
        }
    }

    /// All that the upstream has comes once more.
    pub(super) fn comes_again(&mut self, up: usize) {
        if let Some(mirror) = self.mirrors.get_mut(up) {
            mirror.shown.doubt();
        }
    }

    /// Works through all values of an upstream, a slice a turn.
    pub(super) fn work_through(
        &mut self,
        up: usize,
        mut step: impl FnMut(&mut Self, (Now, usize), TopicId, Shown) + 'static,
    ) {
        let mut at = 0;
        let ask = move |bus: &mut Self, now| {
            let Some(mirror) = bus.mirrors.get(up) else { return Step::Done };
            let (some, next) = mirror.shown.slice(at, STEP);
            for (id, shown) in some {
                // The number may be another topic's by now.
                let is_there = bus.tree.view(id).is_some_and(|view| *view.topic == shown.topic);
                if is_there {
                    step(bus, (now, up), id, shown);
                } else if let Some(mirror) = bus.mirrors.get_mut(up) {
                    mirror.shown.forget(id);
                }
            }
            let Some(next) = next else { return Step::Done };
            at = next;
            Step::Again
        };
        self.ask_on(&USER.into(), Box::new(ask));
    }

    /// All that the upstream has has come again: what has not is there no more.
    pub(super) fn caught_up(&mut self, up: usize) {
        let Some(doubts) = self.mirrors.get(up).map(|mirror| mirror.shown.doubts()) else { return };
        self.work_through(up, move |bus, (now, up), id, shown| {
            let Some(mirror) = bus.mirrors.get_mut(up) else { return };
            if mirror.shown.doubts() == doubts && mirror.shown.is_late(&shown) {
                mirror.shown.forget(id);
                bus.apply_node(now, shown.topic, Body::empty(), true);
            }
        });
    }

    /// Removes a value that nobody asks for any more.
    pub(super) fn remove_unwanted(&mut self, (now, up): (Now, usize), id: TopicId, shown: Shown) {
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        if !mirror.wants.asks_for(&shown.topic) {
            mirror.shown.forget(id);
            self.remove_value(now, &shown.topic);
        }
    }

    /// Marks a value that did not come again since the link was lost.
    pub(super) fn mark_away(&mut self, (now, up): (Now, usize), id: TopicId, shown: Shown) {
        let is_late = self.mirrors.get(up).is_some_and(|mirror| mirror.shown.is_late(&shown));
        let Some(view) = self.tree.view(id).filter(|_| is_late) else { return };
        let point = match view.body {
            Body::Point(point) => point.clone(),
            // Of what states no quality, none can be changed.
            Body::Published(point) if point.stated_quality().is_some() => point.point(view.time),
            Body::Published(_) | Body::Opaque(_) => return,
        };
        if point.quality.contains(Quality::AWAY) {
            return;
        }
        let point = Point { quality: point.quality.with(Quality::AWAY), ..point };
        // It is a value more here, and none more there.
        let version = self.tree.version_told(&view);
        self.deltas.leap(id);
        let update = Update { topic: shown.topic, body: Body::Point(point) };
        self.record_node(now, &update);
        self.apply_node(now, update.topic, update.body, true);
        self.tree.adopt(id, version);
    }
}
