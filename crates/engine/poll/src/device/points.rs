//! The points of one device: which states wait to be published, and what makes them doubtful.

use super::{Device, stale_missed};
use crate::outbox::{Document, Outbox};
use crate::schedule::{NEVER, Timer};
use alloc::string::String;
use tieline_core::{Body, Instant, Now, Point, Quality, Reading, TimeWritten, Timestamp, Update, Value, json_string};

/// Reasons that say more than `stale`, and `stale` itself.
pub(super) const UNTOLD: Quality = Quality::INITIAL.with(Quality::AWAY).with(Quality::STALE);

/// The last known state of one point: 48 bytes.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) value: Value,
    pub(super) time: Timestamp,
    /// When the last reading came.
    pub(super) seen: Instant,
    pub(super) quality: Quality,
    /// Whether this state waits to be published by a sweep.
    pub(super) waits: bool,
}

// A hundred thousand devices of a hundred points: a word more here is 80 MB.
const _: () = assert!(size_of::<Held>() <= 48);

/// All points may be published this part of their shortest interval early; not more often on average.
const ALL_EARLY: u32 = 2;

impl Device {
    pub(super) fn publish_point(&mut self, at: usize, out: &mut Outbox) {
        let (Some(topic), Some(held)) = (self.topics.get(at), self.points.get_mut(at)) else { return };
        let updates_max = out.updates_max;
        let updates = &mut out.lane(self.urgency).updates;
        if updates.len() < updates_max {
            held.waits = false;
            updates.push_back(Update { topic: topic.clone(), body: Body::Point(held.point()) });
            return;
        }
        if held.waits {
            out.counts.conflated += 1;
        }
        held.waits = true;
        self.sweep(out);
    }

    /// What a reading says of a time that has passed.
    pub(crate) fn past_update(&self, reading: Reading) -> Option<Update> {
        let topic = self.topics.get(reading.point.0 as usize)?;
        let value = self.table.get(reading.point)?.scaled(reading.value);
        let point = Point { value, quality: reading.quality, time: reading.time? };
        Some(Update { topic: topic.clone(), body: Body::Point(point) })
    }

    pub(super) fn sweep(&mut self, out: &mut Outbox) {
        if self.publish.each && self.sweep_from.replace(0).is_none() {
            out.lane(self.urgency).sweeps.push_back(self.id);
        }
    }

    /// The next point whose state waits; none ends the sweep.
    pub(crate) fn next_waiting(&mut self) -> Option<Update> {
        let from = self.sweep_from?;
        let held = self.points.iter_mut().enumerate().skip(from).find(|(_, held)| held.waits);
        let Some((at, held)) = held else {
            self.sweep_from = None;
            return None;
        };
        held.waits = false;
        self.sweep_from = Some(at + 1);
        Some(Update { topic: self.topics.get(at)?.clone(), body: Body::Point(held.point()) })
    }

    /// Adds a reason to every point that has none of `unless`.
    pub(super) fn mark(&mut self, now: Now, reason: Quality, unless: Quality, out: &mut Outbox) {
        let mut changed = false;
        for held in &mut self.points {
            if held.quality.bits() & unless.bits() == 0 {
                held.add(reason, self.publish.each);
                changed = true;
            }
        }
        if changed {
            self.sweep(out);
            self.change_all(now);
            self.offer_all(now, out);
        }
    }

    pub(super) fn find_stale(&mut self, now: Now, out: &mut Outbox) {
        let mut next = NEVER;
        let mut changed = false;
        for (held, spec) in self.points.iter_mut().zip(self.table.points()) {
            let of_class = spec.class.and_then(|class| self.polls.iter().find(|poll| poll.class() == class));
            let missed = of_class.and_then(|poll| stale_missed(&self.collection, poll.every()));
            let after = self.stale_after.into_iter().chain(missed).min();
            let Some(after) = after.filter(|_| held.quality.bits() & UNTOLD.bits() == 0) else { continue };
            let at = held.seen + after;
            if at <= now.mono {
                held.add(Quality::STALE, self.publish.each);
                changed = true;
            } else {
                next = next.min(at);
            }
        }
        self.timers.set(Timer::Stale, next);
        if changed {
            self.sweep(out);
            self.change_all(now);
            self.offer_all(now, out);
        }
    }

    // All points in one.

    /// Notes a change, which is published within [`Publish::all_every`] even when no batch ends.
    pub(super) fn change_all(&mut self, now: Now) {
        if !self.publish.all {
            return;
        }
        self.all_changed = true;
        if !self.timers.is_set(Timer::All) {
            self.timers.set(Timer::All, now.mono + self.publish.all_every);
        }
    }

    pub(super) fn offer_all(&mut self, now: Now, out: &mut Outbox) {
        if !self.all_changed {
            return;
        }
        let at = self.all_last.map_or(now.mono, |last| last + self.publish.all_every);
        // Polls are late by chance. One that comes as often as this may be published goes out at once all the same: if it
        // waited, each would, for as long as the latest of all.
        if now.mono + self.publish.all_every / ALL_EARLY < at {
            return self.timers.set(Timer::All, at);
        }
        self.timers.clear(Timer::All);
        self.all_changed = false;
        self.all_last = Some(at.max(now.mono));
        self.queue(Document::All, out);
    }

    pub(super) fn all_json(&self) -> String {
        let mut out = String::with_capacity(2 + 80 * self.points.len());
        let (mut separator, mut last) = ('{', TimeWritten::default());
        for (spec, held) in self.table.points().iter().zip(&self.points) {
            out.push(separator);
            json_string(&spec.name, &mut out);
            out.push(':');
            held.point().write_json_after(&mut last, &mut out);
            separator = ',';
        }
        out.push_str(if self.points.is_empty() { "{}" } else { "}" });
        out
    }
}

impl Held {
    pub(super) const fn initial(now: Now, waits: bool) -> Self {
        Self { value: Value::Null, time: now.utc, seen: now.mono, quality: Quality::INITIAL, waits }
    }

    fn add(&mut self, reason: Quality, waits: bool) {
        self.quality = self.quality.with(reason);
        self.waits |= waits;
    }

    fn point(&self) -> Point {
        Point { value: self.value.clone(), quality: self.quality, time: self.time }
    }
}
