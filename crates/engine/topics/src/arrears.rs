//! What a subscriber is owed: the topics of which it has not been sent the newest value, and when it may be.
//!
//! A topic is owed once, however often it changes: the value is read when it is sent. So conflation is what happens
//! by itself, and a subscriber that reads nothing costs no more than its subscriptions.
//!
//! ```text
//!            owe ──▶ throttled? ──yes──▶ resting until its time ──┐
//!                        │no                                      ▼
//!                        └────────────▶ lane: protection │ monitoring │ bulk ──▶ next
//!                                       open since the window is over
//! ```
//!
//! Whoever was sent nothing for a window's length is sent an update at once; after that, updates wait for each other
//! until the window is over. Protection never waits, and takes along what does.

use crate::{TopicId, Wish};
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

/// Entries of the lanes that are owed no more are swept out beyond this and twice what is owed.
const SWEEP: usize = 64;

/// What one subscriber is owed.
#[derive(Debug, Default)]
pub struct Arrears {
    lanes: [VecDeque<(TopicId, Ticket)>; 3],
    /// The ticket of each: a topic that was forgotten and is owed again stands in a lane by its newest only.
    owed: HashMap<TopicId, Ticket>,
    last_ticket: Ticket,
    /// When updates of throttled topics may come again, and how long after each other.
    throttles: HashMap<TopicId, Throttle>,
    /// Owed, but not yet to be sent.
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
type Ticket = u32;

#[derive(Clone, Copy, Debug)]
struct Throttle {
    every: Duration,
    free: Instant,
}

impl Arrears {
    /// The topic has a new value.
    pub fn owe(&mut self, now: Instant, topic: TopicId, lane: Lane, wish: Wish) {
        if self.owes(topic) {
            self.conflated += 1;
            return;
        }
        self.has_windows |= wish.window() > 0;
        self.last_ticket = self.last_ticket.wrapping_add(1);
        self.owed.insert(topic, self.last_ticket);
        if let Some(free) = self.throttle(now, topic, wish) {
            self.resting.insert((free, topic), lane);
            return;
        }
        let window = if lane == Lane::Protection { 0 } else { wish.window() };
        let opens = self.emptied.map_or(now, |emptied| (emptied + Duration::from_millis(window.into())).max(now));
        self.line_up(topic, lane, opens);
    }

    /// Whether a new value may be sent at once, past all this; then it has been. What is throttled never may.
    pub fn pass(&mut self, now: Instant, lane: Lane, wish: Wish) -> bool {
        let window = Duration::from_millis(wish.window().into());
        // What comes together goes together.
        let is_open = |emptied: Instant| emptied + window <= now || emptied == now;
        let may =
            wish.throttle() == 0 && self.is_empty() && (lane == Lane::Protection || self.emptied.is_none_or(is_open));
        self.has_windows |= wish.window() > 0;
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
                Some((topic, ticket)) if self.owed.get(&topic) == Some(&ticket) => break topic,
                Some(_) => {}
                None => {
                    self.close_if_empty();
                    return None;
                }
            }
        };
        self.owed.remove(&topic);
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
        if self.owed.remove(&topic).is_some() {
            self.resting.retain(|(_, resting), _| *resting != topic);
            self.close_if_empty();
            self.sweep();
        }
    }

    /// Whether the topic is owed.
    #[must_use]
    pub fn owes(&self, topic: TopicId) -> bool {
        self.owed.contains_key(&topic)
    }

    /// Topics that are owed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.owed.len()
    }

    /// Whether nothing is owed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    /// Whether new ones would know as much, but for what was conflated: nothing is owed, or to be remembered.
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
    fn throttle(&mut self, now: Instant, topic: TopicId, wish: Wish) -> Option<Instant> {
        if wish.throttle() == 0 {
            self.throttles.remove(&topic);
            return None;
        }
        if self.throttles.len() >= self.sweep_at.max(SWEEP) {
            let owed = &self.owed;
            self.throttles.retain(|topic, throttle| throttle.free > now || owed.contains_key(topic));
            self.sweep_at = 2 * self.throttles.len();
        }
        let every = Duration::from_millis(wish.throttle().into());
        let throttle = self.throttles.entry(topic).or_insert(Throttle { every, free: now });
        throttle.every = every;
        (throttle.free > now).then_some(throttle.free)
    }

    fn line_up(&mut self, topic: TopicId, lane: Lane, opens: Instant) {
        let Some(ticket) = self.owed.get(&topic) else { return };
        self.lanes[lane as usize].push_back((topic, *ticket));
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
        let empty = self.owed.len() == self.resting.len();
        if empty {
            for lane in &mut self.lanes {
                // What many took at once is given back.
                if lane.capacity() > SWEEP { *lane = VecDeque::new() } else { lane.clear() }
            }
            self.opens = None;
        }
        if self.owed.is_empty() && self.owed.capacity() > SWEEP {
            self.owed = HashMap::new();
        }
        empty
    }

    /// Keeps the lanes no longer than what is owed needs.
    fn sweep(&mut self) {
        let listed: usize = self.lanes.iter().map(VecDeque::len).sum();
        if listed <= 2 * self.owed.len() + SWEEP {
            return;
        }
        for lane in &mut self.lanes {
            lane.retain(|(topic, ticket)| self.owed.get(topic) == Some(ticket));
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
        let mut arrears = Arrears::default();
        let wish = Wish::default().window_ms(50);
        let mut check = |ms, owed: &[(u32, Lane)], expect: &[u32], opens: Option<u64>| {
            owed.iter().for_each(|(topic, lane)| arrears.owe(at(ms), TopicId(*topic), *lane, wish));
            let sent: Vec<u32> = core::iter::from_fn(|| arrears.next(at(ms))).map(|topic| topic.0).collect();
            assert_eq!((&sent[..], arrears.timeout()), (expect, opens.map(at)), "{ms}");
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
        let mut arrears = Arrears::default();
        let slow = Wish::default().throttle_ms(1000);
        arrears.owe(at(0), TopicId(1), Lane::Monitoring, slow);
        assert_eq!(arrears.next(at(0)), Some(TopicId(1)));
        arrears.owe(at(10), TopicId(1), Lane::Monitoring, slow);
        arrears.owe(at(20), TopicId(1), Lane::Monitoring, slow);
        arrears.owe(at(20), TopicId(2), Lane::Bulk, Wish::default());
        assert_eq!((arrears.next(at(20)), arrears.next(at(20))), (Some(TopicId(2)), None));
        assert_eq!((arrears.timeout(), arrears.conflated()), (Some(at(1000)), 1));
        assert_eq!((arrears.next(at(999)), arrears.next(at(1000))), (None, Some(TopicId(1))));
        assert!(arrears.is_empty() && arrears.timeout().is_none());
    }

    #[test]
    fn what_may_go_at_once_passes_and_begins_a_window() {
        let mut arrears = Arrears::default();
        let wish = Wish::default().window_ms(50);
        let monitoring = Lane::Monitoring;
        assert!(arrears.pass(at(0), monitoring, wish) && arrears.pass(at(0), monitoring, wish));
        assert!(!arrears.pass(at(49), monitoring, wish) && arrears.pass(at(49), Lane::Protection, wish));
        assert!(!arrears.pass(at(98), monitoring, wish));
        arrears.owe(at(98), TopicId(1), monitoring, wish);
        assert_eq!((arrears.timeout(), arrears.pass(at(99), monitoring, wish)), (Some(at(99)), false));
        assert_eq!((arrears.next(at(99)), arrears.pass(at(148), monitoring, wish)), (Some(TopicId(1)), false));
        assert!(arrears.pass(at(149), monitoring, wish) && !arrears.pass(at(900), monitoring, wish.throttle_ms(10)));
        assert!(!arrears.is_spent() && Arrears::default().is_spent());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Owe(u32),
        Forget(u32),
        Pass(u64),
        Send(usize),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0u32..12).prop_map(Step::Owe),
            1 => (0u32..12).prop_map(Step::Forget),
            2 => (0u64..80).prop_map(Step::Pass),
            3 => (0usize..6).prop_map(Step::Send),
        ]
    }

    /// Every fourth topic is throttled; the lane is the topic's number modulo 3.
    fn wish_of(topic: u32, window: u32) -> Wish {
        Wish::default().window_ms(window).throttle_ms(if topic.is_multiple_of(4) { 100 } else { 0 })
    }

    proptest! {
        #[test]
        fn what_is_owed_is_sent_once_in_time_and_in_order(
            steps in proptest::collection::vec(any_step(), 0..200),
            window in 0u32..=100,
        ) {
            let (mut arrears, mut ms) = (Arrears::default(), 0);
            // The model: what was owed since when, and when each topic was last sent.
            let (mut owed, mut sent): (BTreeMap<u32, u64>, BTreeMap<u32, u64>) = Default::default();
            for step in steps.into_iter().chain([Step::Pass(101), Step::Send(100)]) {
                match step {
                    Step::Owe(topic) => {
                        arrears.owe(at(ms), TopicId(topic), Lane::ALL[topic as usize % 3], wish_of(topic, window));
                        owed.entry(topic).or_insert(ms);
                    }
                    Step::Forget(topic) => {
                        arrears.forget(TopicId(topic));
                        owed.remove(&topic);
                    }
                    Step::Pass(more) => ms += more,
                    Step::Send(most) => {
                        let mut lane = 0;
                        for _ in 0..most {
                            let Some(TopicId(topic)) = arrears.next(at(ms)) else {
                                // Nothing may go: no timeout has come, and nothing has waited beyond its window and throttle.
                                prop_assert!(arrears.timeout().is_none_or(|next| next > at(ms)));
                                let late = |topic: &u32, since: &u64| {
                                    let wish = wish_of(*topic, window);
                                    ms - since > u64::from(wish.window().max(wish.throttle()))
                                };
                                prop_assert!(!owed.iter().any(|(topic, since)| late(topic, since)));
                                break;
                            };
                            prop_assert!(topic % 3 >= lane);
                            lane = topic % 3;
                            prop_assert!(owed.remove(&topic).is_some());
                            if let Some(before) = sent.insert(topic, ms) {
                                prop_assert!(ms - before >= u64::from(wish_of(topic, window).throttle()));
                            }
                        }
                    }
                }
                let known: BTreeSet<u32> = (0..12).filter(|topic| arrears.owes(TopicId(*topic))).collect();
                prop_assert!(known.iter().eq(owed.keys()) && arrears.len() == owed.len());
                prop_assert!(arrears.lanes.iter().map(VecDeque::len).sum::<usize>() <= 2 * owed.len() + SWEEP);
            }
            prop_assert!(owed.is_empty());
        }
    }
}
