//! The pending set of a subscriber: the topics whose newest value has not been sent to it, and when it may be.
//!
//! A topic is pending once, however often it changes: the value is read when it is sent. So conflation is what happens
//! by itself, and a subscriber that reads nothing costs no more than its subscriptions.
//!
//! ```text
//!            add ──▶ throttled? ──yes──▶ resting until its time ──┐
//!                        │no                                      ▼
//!                        └────────────▶ lane: protection │ monitoring │ bulk ──▶ next
//!                                       open since the window is over
//! ```
//!
//! A subscriber that was sent nothing for a window's length is sent an update at once; after that, updates wait for
//! each other until the window is over. Protection never waits, and takes along what does.

use crate::{DeliveryOptions, TopicId};
use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;
use hashbrown::HashMap;
use tieline_core::Instant;

/// How urgent a topic is: each passes those after it wherever they wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Trips and commands.
    Protection,
    /// Reports of states and measurements.
    #[default]
    Monitoring,
    /// Samples and files.
    Bulk,
}

impl Lane {
    /// All, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Protection, Self::Monitoring, Self::Bulk];
}

/// Entries of the lanes that are no longer pending are removed beyond this and twice what is pending.
const SWEEP: usize = 64;

/// The topics pending for one subscriber.
#[derive(Debug, Default)]
pub struct PendingSet {
    lanes: [VecDeque<(TopicId, EntryNumber)>; 3],
    /// The entry number of each: a topic that was forgotten and is pending again stands in a lane by its newest only.
    pending: HashMap<TopicId, EntryNumber>,
    last_number: EntryNumber,
    /// When updates of throttled topics may come again, and how long after each other.
    throttles: HashMap<TopicId, Throttle>,
    /// Pending, but not yet to be sent.
    resting: BTreeMap<(Instant, TopicId), Lane>,
    /// When the lanes were last emptied.
    emptied: Option<Instant>,
    /// Whether that matters to anything.
    has_windows: bool,
    /// When the lanes open; none while they are empty.
    opens: Option<Instant>,
    conflated: u64,
    sweep_at: usize,
}

/// Tells the entries of one topic apart. It wraps; no lane holds as many.
type EntryNumber = u32;

#[derive(Clone, Copy, Debug)]
struct Throttle {
    every: Duration,
    free: Instant,
}

impl PendingSet {
    /// The topic has a new value.
    pub fn add(&mut self, now: Instant, topic: TopicId, lane: Lane, delivery_options: DeliveryOptions) {
        if self.contains(topic) {
            self.conflated += 1;
            return;
        }
        self.has_windows |= delivery_options.window() > 0;
        self.last_number = self.last_number.wrapping_add(1);
        self.pending.insert(topic, self.last_number);
        if let Some(free) = self.throttle(now, topic, delivery_options) {
            self.resting.insert((free, topic), lane);
            return;
        }
        let window = if lane == Lane::Protection { 0 } else { delivery_options.window() };
        let opens = self.emptied.map_or(now, |emptied| (emptied + Duration::from_millis(window.into())).max(now));
        self.line_up(topic, lane, opens);
    }

    /// Whether a new value may be sent at once, past all this; then it has been. What is throttled never may.
    pub fn pass(&mut self, now: Instant, lane: Lane, delivery_options: DeliveryOptions) -> bool {
        let window = Duration::from_millis(delivery_options.window().into());
        // What comes together goes together.
        let is_open = |emptied: Instant| emptied + window <= now || emptied == now;
        let may = delivery_options.throttle() == 0
            && self.is_empty()
            && (lane == Lane::Protection || self.emptied.is_none_or(is_open));
        self.has_windows |= delivery_options.window() > 0;
        if may {
            self.emptied = Some(now);
        }
        may
    }

    /// The next topic whose newest value may be sent, of the most urgent lane that has one.
    pub fn next(&mut self, now: Instant) -> Option<TopicId> {
        Lane::ALL.into_iter().find_map(|lane| self.next_of(now, lane))
    }

    /// The next topic of one lane whose newest value may be sent.
    pub fn next_of(&mut self, now: Instant, lane: Lane) -> Option<TopicId> {
        self.wake(now);
        if self.opens.is_none_or(|opens| opens > now) {
            return None;
        }
        let topic = loop {
            match self.lanes[lane as usize].pop_front() {
                Some((topic, number)) if self.pending.get(&topic) == Some(&number) => break topic,
                Some(_) => {}
                None => {
                    self.close_if_empty();
                    return None;
                }
            }
        };
        self.pending.remove(&topic);
        if let Some(throttle) = self.throttles.get_mut(&topic) {
            throttle.free = now + throttle.every;
        }
        if self.close_if_empty() {
            self.emptied = Some(now);
        }
        Some(topic)
    }

    /// The topic's value was sent another way, or is none any more.
    pub fn forget(&mut self, topic: TopicId) {
        if self.pending.remove(&topic).is_some() {
            self.resting.retain(|(_, resting), _| *resting != topic);
            self.close_if_empty();
            self.sweep();
        }
    }

    /// Whether the topic is pending.
    #[must_use]
    pub fn contains(&self, topic: TopicId) -> bool {
        self.pending.contains_key(&topic)
    }

    /// Topics that are pending.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether nothing is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether new ones would know as much, but for what was conflated: nothing is pending, or to be remembered.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.is_empty() && self.throttles.is_empty() && !self.has_windows
    }

    /// Updates that were never sent because a newer one of their topic came first.
    #[must_use]
    pub const fn conflated(&self) -> u64 {
        self.conflated
    }

    /// When something may be sent.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        let rested = self.resting.first_key_value().map(|((free, _), _)| *free);
        self.opens.into_iter().chain(rested).min()
    }

    /// When the topic may be sent, where its throttle does not let it be sent now.
    fn throttle(&mut self, now: Instant, topic: TopicId, delivery_options: DeliveryOptions) -> Option<Instant> {
        if delivery_options.throttle() == 0 {
            self.throttles.remove(&topic);
            return None;
        }
        if self.throttles.len() >= self.sweep_at.max(SWEEP) {
            let pending = &self.pending;
            self.throttles.retain(|topic, throttle| throttle.free > now || pending.contains_key(topic));
            self.sweep_at = 2 * self.throttles.len();
        }
        let every = Duration::from_millis(delivery_options.throttle().into());
        let throttle = self.throttles.entry(topic).or_insert(Throttle { every, free: now });
        throttle.every = every;
        (throttle.free > now).then_some(throttle.free)
    }

    fn line_up(&mut self, topic: TopicId, lane: Lane, opens: Instant) {
        let Some(number) = self.pending.get(&topic) else { return };
        self.lanes[lane as usize].push_back((topic, *number));
        self.opens = Some(self.opens.map_or(opens, |known| known.min(opens)));
        self.sweep();
    }

    /// Lines up what has rested long enough.
    fn wake(&mut self, now: Instant) {
        while let Some(entry) = self.resting.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((free, topic), lane) = entry.remove_entry();
            self.line_up(topic, lane, free);
        }
    }

    /// Whether nothing is in the lanes but what was forgotten.
    fn close_if_empty(&mut self) -> bool {
        let empty = self.pending.len() == self.resting.len();
        if empty {
            for lane in &mut self.lanes {
                // What many took at once is given back.
                if lane.capacity() > SWEEP { *lane = VecDeque::new() } else { lane.clear() }
            }
            self.opens = None;
        }
        if self.pending.is_empty() && self.pending.capacity() > SWEEP {
            self.pending = HashMap::new();
        }
        empty
    }

    /// Keeps the lanes no longer than what is pending needs.
    fn sweep(&mut self) {
        let listed: usize = self.lanes.iter().map(VecDeque::len).sum();
        if listed <= 2 * self.pending.len() + SWEEP {
            return;
        }
        for lane in &mut self.lanes {
            lane.retain(|(topic, number)| self.pending.get(topic) == Some(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn an_idle_subscriber_is_sent_at_once_and_a_busy_one_in_windows() {
        let mut pending = PendingSet::default();
        let delivery_options = DeliveryOptions::default().window_ms(50);
        let mut check = |ms, topics: &[(u32, Lane)], expect: &[u32], opens: Option<u64>| {
            topics.iter().for_each(|(topic, lane)| pending.add(at(ms), TopicId(*topic), *lane, delivery_options));
            let sent: Vec<u32> = core::iter::from_fn(|| pending.next(at(ms))).map(|topic| topic.0).collect();
            assert_eq!((&sent[..], pending.timeout()), (expect, opens.map(at)), "{ms}");
        };
        use Lane::{Bulk, Monitoring, Protection};
        check(100, &[(1, Monitoring)], &[1], None);
        check(110, &[(1, Monitoring), (2, Bulk), (1, Monitoring)], &[], Some(150));
        check(120, &[(3, Protection)], &[3, 1, 2], None);
        check(130, &[(4, Bulk)], &[], Some(170));
        check(170, &[(5, Monitoring)], &[5, 4], None);
        check(300, &[(5, Monitoring)], &[5], None);
    }

    #[test]
    fn a_throttled_topic_rests_and_others_do_not() {
        let mut pending = PendingSet::default();
        let throttled = DeliveryOptions::default().throttle_ms(1000);
        pending.add(at(0), TopicId(1), Lane::Monitoring, throttled);
        assert_eq!(pending.next(at(0)), Some(TopicId(1)));
        pending.add(at(10), TopicId(1), Lane::Monitoring, throttled);
        pending.add(at(20), TopicId(1), Lane::Monitoring, throttled);
        pending.add(at(20), TopicId(2), Lane::Bulk, DeliveryOptions::default());
        assert_eq!((pending.next(at(20)), pending.next(at(20))), (Some(TopicId(2)), None));
        assert_eq!((pending.timeout(), pending.conflated()), (Some(at(1000)), 1));
        assert_eq!((pending.next(at(999)), pending.next(at(1000))), (None, Some(TopicId(1))));
        assert!(pending.is_empty() && pending.timeout().is_none());
    }

    #[test]
    fn what_may_go_at_once_passes_and_begins_a_window() {
        let mut pending = PendingSet::default();
        let delivery_options = DeliveryOptions::default().window_ms(50);
        let monitoring = Lane::Monitoring;
        assert!(pending.pass(at(0), monitoring, delivery_options) && pending.pass(at(0), monitoring, delivery_options));
        assert!(
            !pending.pass(at(49), monitoring, delivery_options)
                && pending.pass(at(49), Lane::Protection, delivery_options)
        );
        assert!(!pending.pass(at(98), monitoring, delivery_options));
        pending.add(at(98), TopicId(1), monitoring, delivery_options);
        assert_eq!((pending.timeout(), pending.pass(at(99), monitoring, delivery_options)), (Some(at(99)), false));
        assert_eq!(
            (pending.next(at(99)), pending.pass(at(148), monitoring, delivery_options)),
            (Some(TopicId(1)), false)
        );
        assert!(
            pending.pass(at(149), monitoring, delivery_options)
                && !pending.pass(at(900), monitoring, delivery_options.throttle_ms(10))
        );
        assert!(!pending.is_spent() && PendingSet::default().is_spent());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(u32),
        Forget(u32),
        Pass(u64),
        Send(usize),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0u32..12).prop_map(Step::Add),
            1 => (0u32..12).prop_map(Step::Forget),
            2 => (0u64..80).prop_map(Step::Pass),
            3 => (0usize..6).prop_map(Step::Send),
        ]
    }

    /// Every fourth topic is throttled; the lane is the topic's number modulo 3.
    fn delivery_options_of(topic: u32, window: u32) -> DeliveryOptions {
        DeliveryOptions::default().window_ms(window).throttle_ms(if topic.is_multiple_of(4) { 100 } else { 0 })
    }

    proptest! {
        #[test]
        fn what_is_pending_is_sent_once_in_time_and_in_order(
            steps in proptest::collection::vec(any_step(), 0..200),
            window in 0u32..=100,
        ) {
            let (mut pending, mut ms) = (PendingSet::default(), 0);
            // The model: since when each topic is pending, and when each topic was last sent.
            let (mut model, mut sent): (BTreeMap<u32, u64>, BTreeMap<u32, u64>) = Default::default();
            for step in steps.into_iter().chain([Step::Pass(101), Step::Send(100)]) {
                match step {
                    Step::Add(topic) => {
                        pending.add(at(ms), TopicId(topic), Lane::ALL[topic as usize % 3], delivery_options_of(topic, window));
                        model.entry(topic).or_insert(ms);
                    }
                    Step::Forget(topic) => {
                        pending.forget(TopicId(topic));
                        model.remove(&topic);
                    }
                    Step::Pass(more) => ms += more,
                    Step::Send(most) => {
                        let mut lane = 0;
                        for _ in 0..most {
                            let Some(TopicId(topic)) = pending.next(at(ms)) else {
                                // Nothing may go: no timeout has come, and nothing has waited beyond its window and throttle.
                                prop_assert!(pending.timeout().is_none_or(|next| next > at(ms)));
                                let late = |topic: &u32, since: &u64| {
                                    let delivery_options = delivery_options_of(*topic, window);
                                    ms - since > u64::from(delivery_options.window().max(delivery_options.throttle()))
                                };
                                prop_assert!(!model.iter().any(|(topic, since)| late(topic, since)));
                                break;
                            };
                            prop_assert!(topic % 3 >= lane);
                            lane = topic % 3;
                            prop_assert!(model.remove(&topic).is_some());
                            if let Some(before) = sent.insert(topic, ms) {
                                prop_assert!(ms - before >= u64::from(delivery_options_of(topic, window).throttle()));
                            }
                        }
                    }
                }
                let known: BTreeSet<u32> = (0..12).filter(|topic| pending.contains(TopicId(*topic))).collect();
                prop_assert!(known.iter().eq(model.keys()) && pending.len() == model.len());
                prop_assert!(pending.lanes.iter().map(VecDeque::len).sum::<usize>() <= 2 * model.len() + SWEEP);
            }
            prop_assert!(model.is_empty());
        }
    }
}
