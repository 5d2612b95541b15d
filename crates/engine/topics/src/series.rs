//! Topics that keep their last events, to be asked for by number and by time.

use crate::TopicId;
use crate::tree::payload_bytes;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use hashbrown::HashMap;
use tieline_core::{Body, Timestamp};

/// What an event costs besides its value.
const EVENT_BYTES: usize = 96;

/// What a topic keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// So many of the last events.
    pub events: usize,
    /// Those that are no older than the last by so much.
    pub span: Option<Duration>,
}

/// One value that a topic has had.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The version that it was.
    pub seq: u64,
    /// When the tree took it.
    pub time: Timestamp,
    /// The value.
    pub body: Body,
    /// The value's [`crate::View::stamp`].
    pub stamp: u64,
}

/// Which events are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Behind this one; without, the last that there are.
    pub after: Option<u64>,
    /// Not before.
    pub from: Option<Timestamp>,
    /// Not after.
    pub to: Option<Timestamp>,
    /// How many.
    pub limit: usize,
}

/// Which of a topic's events a new subscription gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// So many of the last.
    Events(usize),
    /// Those that are not before.
    Since(Timestamp),
}

/// The last events of topics.
#[derive(Debug)]
pub struct Series {
    by_topic: HashMap<TopicId, VecDeque<Event>>,
    bytes: usize,
    bytes_max: usize,
    dropped: u64,
}

impl Series {
    /// Keeps `bytes_max` bytes of all topics; a topic that has no more room gives up its oldest events.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { by_topic: HashMap::new(), bytes: 0, bytes_max, dropped: 0 }
    }

    /// A topic was given a value.
    pub fn stored(&mut self, topic: TopicId, keep: &Keep, event: Event) {
        let events = self.by_topic.entry(topic).or_default();
        let oldest = keep.span.map(|span| before(event.time, span));
        self.bytes += weight(&event);
        events.push_back(event);
        let is_old = |first: &Event| oldest.is_some_and(|oldest| first.time < oldest);
        while events.len() > keep.events || events.front().is_some_and(is_old) {
            let Some(event) = events.pop_front() else { break };
            self.bytes -= weight(&event);
        }
        while self.bytes > self.bytes_max
            && let Some(event) = events.pop_front()
        {
            self.bytes -= weight(&event);
            self.dropped += 1;
        }
    }

    /// A topic has no value any more, and its events are forgotten.
    pub fn cleared(&mut self, topic: TopicId) {
        let events = self.by_topic.remove(&topic).into_iter().flatten();
        self.bytes -= events.map(|event| weight(&event)).sum::<usize>();
    }

    /// Events of a topic, oldest first.
    #[must_use]
    pub fn range(&self, topic: TopicId, range: &Range) -> Vec<&Event> {
        let Some(events) = self.by_topic.get(&topic) else { return Vec::new() };
        let within = |event: &&Event| {
            range.after.is_none_or(|after| event.seq > after)
                && range.from.is_none_or(|from| event.time >= from)
                && range.to.is_none_or(|to| event.time <= to)
        };
        if range.after.is_some() || range.from.is_some() {
            return events.iter().filter(within).take(range.limit).collect();
        }
        let mut last: Vec<&Event> = events.iter().rev().filter(within).take(range.limit).collect();
        last.reverse();
        last
    }

    /// The number behind which the events that are asked for begin; none where there are none.
    #[must_use]
    pub fn before_last(&self, topic: TopicId, last: Last) -> Option<u64> {
        let events = self.by_topic.get(&topic)?;
        let at = match last {
            Last::Events(count) => events.len().saturating_sub(count),
            // Clocks are set back: times may not rise with numbers.
            Last::Since(time) => events.iter().position(|event| event.time >= time)?,
        };
        events.get(at).map(|event| event.seq.saturating_sub(1))
    }

    /// The events of a topic behind a number, oldest first.
    pub fn after(&self, topic: TopicId, seq: u64) -> impl Iterator<Item = &Event> {
        let events = self.by_topic.get(&topic);
        let at = events.map_or(0, |events| events.partition_point(|event| event.seq <= seq));
        events.into_iter().flat_map(move |events| events.range(at..))
    }

    /// Bytes of all events.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Events that were given up because there was no room.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}

fn weight(event: &Event) -> usize {
    EVENT_BYTES + payload_bytes(&event.body)
}

fn before(time: Timestamp, span: Duration) -> Timestamp {
    Timestamp::from_micros(time.micros().saturating_sub_unsigned(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn event(seq: u64, ms: i64, bytes: usize) -> Event {
        let body = Body::Opaque(Bytes::from(alloc::vec![b'x'; bytes]));
        Event { seq, time: Timestamp::from_millis(ms), body, stamp: seq }
    }

    fn any_range() -> impl Strategy<Value = Range> {
        let time = || proptest::option::of((0i64..3000).prop_map(Timestamp::from_millis));
        (proptest::option::of(0u64..60), time(), time(), 1usize..10).prop_map(|(after, from, to, limit)| Range {
            after,
            from,
            to,
            limit,
        })
    }

    proptest! {
        #[test]
        fn a_topic_keeps_its_last_events(
            gaps in proptest::collection::vec((0i64..100, 0usize..40), 0..60),
            most in 1usize..20,
            span in proptest::option::of(1u64..500),
            ranges in proptest::collection::vec(any_range(), 4),
        ) {
            let keep = Keep { events: most, span: span.map(Duration::from_millis) };
            let mut series = Series::new(usize::MAX);
            let (mut all, mut ms) = (Vec::new(), 0);
            for (seq, (gap, bytes)) in (1..).zip(gaps) {
                ms += gap;
                all.push(event(seq, ms, bytes));
                series.stored(TopicId(1), &keep, event(seq, ms, bytes));
                series.stored(TopicId(2), &keep, event(seq, ms, bytes));
            }
            let oldest = span.map_or(i64::MIN, |span| ms - i64::try_from(span).unwrap());
            let kept: Vec<&Event> = all.iter().filter(|event| event.time.millis() >= oldest).collect();
            let kept = &kept[kept.len().saturating_sub(most)..];
            for range in ranges {
                let wanted: Vec<&Event> = kept.iter().copied().filter(|event| {
                    range.after.is_none_or(|after| event.seq > after)
                        && range.from.is_none_or(|from| event.time >= from)
                        && range.to.is_none_or(|to| event.time <= to)
                }).collect();
                let first = range.after.is_some() || range.from.is_some();
                let skipped = if first { 0 } else { wanted.len().saturating_sub(range.limit) };
                let expect: Vec<&Event> = wanted.into_iter().skip(skipped).take(range.limit).collect();
                prop_assert_eq!(series.range(TopicId(1), &range), expect);
            }
            for count in 0..kept.len() + 2 {
                let first = kept.len().saturating_sub(count);
                let expect = kept.get(first).map(|event| event.seq - 1);
                prop_assert_eq!(series.before_last(TopicId(1), Last::Events(count)), expect);
                let since = Timestamp::from_millis(ms - i64::try_from(count * 10).unwrap());
                let expect = kept.iter().find(|event| event.time >= since).map(|event| event.seq - 1);
                prop_assert_eq!(series.before_last(TopicId(1), Last::Since(since)), expect);
                let seq = u64::try_from(count).unwrap();
                let expect: Vec<&Event> = kept.iter().copied().filter(|event| event.seq > seq).collect();
                prop_assert_eq!(series.after(TopicId(1), seq).collect::<Vec<_>>(), expect);
            }
            prop_assert_eq!(series.bytes(), 2 * kept.iter().map(|event| weight(event)).sum::<usize>());
            series.cleared(TopicId(1));
            series.cleared(TopicId(2));
            prop_assert_eq!((series.bytes(), series.range(TopicId(1), &Range { limit: 9, ..Range::default() }).len()), (0, 0));
        }
    }

    #[test]
    fn a_topic_without_room_gives_up_its_oldest() {
        let mut series = Series::new(3 * (EVENT_BYTES + 10));
        let keep = Keep { events: 100, span: None };
        series.stored(TopicId(1), &keep, event(1, 0, 10));
        for seq in 1..=4 {
            series.stored(TopicId(2), &keep, event(seq, 0, 10));
        }
        let all = Range { limit: 9, ..Range::default() };
        let kept = |topic| series.range(TopicId(topic), &all).iter().map(|event| event.seq).collect::<Vec<_>>();
        assert_eq!((kept(1), kept(2), series.dropped()), (alloc::vec![1], alloc::vec![3, 4], 2));
    }
}
