//! What is declared of topics: what they may hold, which events they keep, and when their values are removed.

use super::put::PutError;
use super::reserved::REPLAY_PREFIX;
use super::state::{Bus, Subscriber, id_of, key_of};
use crate::config::{TopicKind, TopicRule};
use bytes::Bytes;
use serde::de::IgnoredAny;
use std::sync::Arc;
use tieline_core::{Body, Instant, Now, Point, PublishedPoint, Timestamp, Topic, Update};
use tieline_mqtt::{Message, Properties};
use tieline_topics::{Applied, Change, Event, Lives, Range, Removal, Series, SubscriberId};

/// What is declared of topics.
#[derive(Debug)]
pub struct Declared {
    rules: Vec<TopicRule>,
    lives: Lives,
    series: Series,
}

impl Default for Declared {
    fn default() -> Self {
        Self { rules: Vec::new(), lives: Lives::default(), series: Series::new(0) }
    }
}

impl Declared {
    /// The events that topics keep.
    pub(super) const fn series(&self) -> &Series {
        &self.series
    }
}

impl Bus {
    /// From the start on, these rules hold; all topics together keep so many bytes of events.
    pub fn set_rules(&mut self, rules: Vec<TopicRule>, series_bytes_max: usize) {
        self.tree.set_rules(rules.iter().map(|rule| rule.filter.clone()).collect());
        self.declared = Declared { rules, lives: Lives::default(), series: Series::new(series_bytes_max) };
    }

    /// The door of what clients publish: whether a payload is a point is decided here, and whether it is what its topic may
    /// hold, and what it says of itself. What is to be retained has bytes of its own where it is a point.
    ///
    /// # Errors
    /// It is not, and was counted; the words are for the client.
    pub fn admit(&mut self, message: &Message, retain: bool) -> Result<Body, PutError> {
        let Message { topic, payload, properties, .. } = message;
        let body = read(payload, retain);
        if payload.is_empty() {
            return Ok(body);
        }
        let own = if properties.is_empty() { Ok(()) } else { check_own(&body, properties) };
        let checked = own.and_then(|()| {
            let Some(rule) = self.tree.rule_of(topic).and_then(|at| self.declared.rules.get(at)) else { return Ok(()) };
            check(rule.kind, &body)
                .map_err(|why| format!("{why}; required by [[topic]] with the filter {:?}", rule.filter))
        });
        checked.map(|()| body).map_err(|words| {
            self.counters.type_mismatches += 1;
            PutError::Format(words)
        })
    }

    /// A topic was updated: what else happens then.
    pub(super) fn note(&mut self, now: Now, topic: &Topic, applied: &Applied, body: &Body, from: Option<SubscriberId>) {
        self.watchers.note(topic, applied);
        self.censuses.note(topic, applied, body);
        self.note_alarms(now, topic, applied, body);
        let Self { declared: Declared { rules, lives, series }, tree, .. } = self;
        let is_replayed = topic.starts_with(REPLAY_PREFIX);
        if rules.is_empty() && !is_replayed {
            return;
        }
        let id = applied.topic;
        match applied.change {
            Change::Passed => {}
            Change::Cleared => {
                lives.cleared(id);
                series.cleared(id);
            }
            Change::Stored if is_replayed => {
                let removal = Removal { with_publisher: true, ..Removal::default() };
                lives.stored(now.mono, id, &removal, from);
            }
            Change::Stored => {
                let Some(rule) = tree.rule_of(topic).and_then(|at| rules.get(at)) else { return };
                if !rule.remove.is_never() {
                    lives.stored(now.mono, id, &rule.remove, from);
                }
                if let Some(keep) = &rule.keep {
                    // What is kept for long has bytes of its own.
                    let body = match body {
                        Body::Opaque(bytes) => Body::Opaque(Bytes::copy_from_slice(bytes)),
                        point @ (Body::Point(_) | Body::Published(_)) => point.clone(),
                    };
                    series.stored(id, keep, Event { seq: applied.version, time: now.utc, body, stamp: tree.stamp() });
                }
            }
        }
    }

    /// When a value may have to be removed.
    pub(super) fn removal_timeout(&self) -> Option<Instant> {
        self.declared.lives.timeout()
    }

    /// Removes the values whose time is over.
    pub(super) fn remove_due(&mut self, now: Now) {
        loop {
            let Self { declared, tree, .. } = self;
            let due = declared.lives.next_due(now.mono, |topic| !tree.matches(topic).is_empty());
            let Some(topic) = due.and_then(|id| tree.view(id)).map(|view| view.topic.clone()) else { return };
            self.counters.removed += 1;
            self.remove_value(now, &topic);
        }
    }

    /// The session of a publisher has ended, and with it the values that do not outlive it.
    pub(super) fn remove_of(&mut self, now: Now, key: usize) {
        for id in self.declared.lives.left(id_of(key)) {
            if let Some(topic) = self.tree.view(id).map(|view| view.topic.clone()) {
                self.counters.removed += 1;
                self.remove_value(now, &topic);
            }
        }
    }

    /// Removes a value. Subscribers are told nothing, for no message was published; watchers of topics and readers of live
    /// updates are.
    pub(super) fn remove_value(&mut self, now: Now, topic: &Topic) {
        let gone = Body::empty();
        let update = Update { topic: topic.clone(), body: gone.clone() };
        self.retained.forget(topic);
        let Ok(applied) = self.tree.apply(now, update, true) else { return };
        if applied.change != Change::Cleared {
            return;
        }
        self.forget_value(now, applied.topic, topic);
        self.note(now, topic, &applied, &gone, None);
        if self.site_events.is_some() {
            self.share_value((topic, applied.topic), &gone, true);
        }
        self.derive(now, topic, &gone);
        let Self { tree, subscribers, .. } = self;
        tree.matches(applied.topic).for_each(None, |to| {
            if let Some(Subscriber::Feed(feed)) = subscribers.get_mut(key_of(to.subscriber)) {
                feed.removed(applied.topic, topic);
            }
        });
    }

    /// Events that a topic keeps; none where it keeps none.
    #[must_use]
    pub fn events(&self, topic: &Topic, range: &Range) -> Option<Vec<&Event>> {
        let rule = self.tree.rule_of(topic).and_then(|at| self.declared.rules.get(at))?;
        rule.keep.as_ref()?;
        Some(self.tree.find(topic).map(|id| self.declared.series.range(id, range)).unwrap_or_default())
    }

    /// Bytes of the events that topics keep, and how many were given up because there was no room.
    #[must_use]
    pub const fn series_stats(&self) -> (usize, u64) {
        (self.declared.series.bytes(), self.declared.series.dropped())
    }
}

/// A payload as a body. A payload shares the bytes of its packet: a point that is to be retained is copied, to its size.
pub(super) fn read(payload: &Bytes, retain: bool) -> Body {
    match PublishedPoint::read(payload.clone()) {
        Ok(point) => Body::Published(Arc::new(if retain { point.compact() } else { point })),
        Err(payload) => Body::Opaque(payload),
    }
}

/// Whether a payload is what its message says.
fn check_own(body: &Body, properties: &Properties) -> Result<(), String> {
    if properties.payload_is_text() == Some(true) {
        check(TopicKind::Text, body)?;
    }
    let kind = properties.content_type();
    let kind = kind.as_ref().map(|kind| kind.split(';').next().unwrap_or_default().trim());
    if kind.is_some_and(|kind| kind == "application/json" || kind.ends_with("+json")) {
        check(TopicKind::Json, body)?;
    }
    Ok(())
}

fn check(kind: TopicKind, body: &Body) -> Result<(), String> {
    let payload = match body {
        // A point is JSON, and JSON is text.
        Body::Point(_) | Body::Published(_) => return Ok(()),
        Body::Opaque(payload) => payload,
    };
    match kind {
        TopicKind::Any | TopicKind::Binary => Ok(()),
        TopicKind::Text => {
            std::str::from_utf8(payload).map(drop).map_err(|why| format!("the payload is no text ({why})"))
        }
        TopicKind::Json => {
            let read = serde_json::from_slice::<IgnoredAny>(payload);
            read.map(drop).map_err(|why| format!("the payload is no JSON ({why})"))
        }
        TopicKind::Point => {
            let why = Point::from_json(payload, Timestamp::default()).err();
            Err(format!("the payload is no point ({})", why.map(|why| why.to_string()).unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: TopicKind, payload: &'static [u8]) -> bool {
        check(kind, &Body::read(Bytes::from_static(payload))).is_ok()
    }

    #[test]
    fn payloads_are_what_topics_may_hold() {
        for (payload, point, json, text) in [
            (&b"{\"v\":1}"[..], true, true, true),
            (b"{\"a\":1}", false, true, true),
            (b"5", true, true, true),
            (b"on", false, false, true),
            (b"\xff", false, false, false),
        ] {
            let found =
                (shown(TopicKind::Point, payload), shown(TopicKind::Json, payload), shown(TopicKind::Text, payload));
            assert_eq!(found, (point, json, text), "{payload:?}");
            assert!(shown(TopicKind::Binary, payload) && shown(TopicKind::Any, payload));
        }
    }
}
