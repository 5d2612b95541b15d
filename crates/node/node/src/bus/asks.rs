//! Requests that take time: pages of topics, lists, metrics. A turn of the bus works on them for [`ASKS_A_TURN`], users one
//! after the other, so that neither requests stop the bus nor one user's the others'.

use super::state::Bus;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Now;

/// How long requests are worked on in a turn. A step is short; the last one may go over.
const ASKS_A_TURN: Duration = Duration::from_micros(500);
/// Requests that may wait, of all users and of one.
const WAITING_MAX: usize = 1024;
const USER_WAITING_MAX: usize = 64;

/// Whether a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to do.
    Again,
    /// It is.
    Done,
}

/// Works on a request for a moment.
pub type Ask = Box<dyn FnMut(&mut Bus, Now) -> Step>;

/// As many requests wait as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsksFull;

impl fmt::Display for AsksFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "too many requests wait: {USER_WAITING_MAX} of a user, {WAITING_MAX} in all; ask again later")
    }
}

impl std::error::Error for AsksFull {}

/// What waits, users one after the other.
pub(super) struct Turns<T> {
    by_user: HashMap<Arc<str>, VecDeque<T>>,
    order: VecDeque<Arc<str>>,
    len: usize,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { by_user: HashMap::new(), order: VecDeque::new(), len: 0 }
    }
}

impl<T> fmt::Debug for Turns<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} users", self.len, self.order.len())
    }
}

impl<T> Turns<T> {
    /// Behind what waits of the user.
    pub(super) fn push(&mut self, user: &Arc<str>, item: T) {
        self.enter(user, |waiting| waiting.push_back(item));
    }

    /// Before what waits of the user: it goes on in the user's next turn.
    pub(super) fn push_front(&mut self, user: &Arc<str>, item: T) {
        self.enter(user, |waiting| waiting.push_front(item));
    }

    fn enter(&mut self, user: &Arc<str>, put: impl FnOnce(&mut VecDeque<T>)) {
        let waiting = self.by_user.entry(Arc::clone(user)).or_default();
        if waiting.is_empty() {
            self.order.push_back(Arc::clone(user));
        }
        put(waiting);
        self.len += 1;
    }

    /// The first of the user whose turn it is.
    pub(super) fn pop(&mut self) -> Option<(Arc<str>, T)> {
        let user = self.order.pop_front()?;
        let waiting = self.by_user.get_mut(&user)?;
        let item = waiting.pop_front()?;
        if waiting.is_empty() {
            self.by_user.remove(&user);
        } else {
            self.order.push_back(Arc::clone(&user));
        }
        self.len -= 1;
        Some((user, item))
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    fn of(&self, user: &str) -> usize {
        self.by_user.get(user).map_or(0, VecDeque::len)
    }
}

/// Requests that wait, and how many were refused.
#[derive(Debug, Default)]
pub(super) struct Asks {
    turns: Turns<Ask>,
    refused: u64,
}

impl Bus {
    /// Takes a request of a user.
    ///
    /// # Errors
    /// Too many wait, which is counted.
    pub fn ask(&mut self, user: &Arc<str>, ask: Ask) -> Result<(), AsksFull> {
        let turns = &mut self.asks.turns;
        if turns.len() >= WAITING_MAX || turns.of(user) >= USER_WAITING_MAX {
            self.asks.refused += 1;
            return Err(AsksFull);
        }
        self.ask_on(user, ask);
        Ok(())
    }

    /// Takes the next part of a request that was taken before, of which there is one at a time.
    pub fn ask_on(&mut self, user: &Arc<str>, ask: Ask) {
        self.asks.turns.push(user, ask);
        self.work.notify_one();
    }

    /// Requests that wait, and how many were refused.
    #[must_use]
    pub const fn ask_stats(&self) -> (usize, u64) {
        (self.asks.turns.len(), self.asks.refused)
    }

    /// Works on requests for as long as a turn may.
    pub(super) fn run_asks(&mut self, now: Now) {
        if self.asks.turns.len() == 0 {
            return;
        }
        let began = self.shard.now().mono;
        while let Some((user, mut ask)) = self.asks.turns.pop() {
            match ask(self, now) {
                Step::Again => self.asks.turns.push_front(&user, ask),
                Step::Done => {}
            }
            // What was answered is sent, and what has come meanwhile is applied, before the rest.
            self.work.notify_one();
            if self.shard.now().mono.since(began) >= ASKS_A_TURN {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::alone::alone;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn users_have_their_turns_one_after_the_other() {
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        let mut turns = Turns::default();
        for number in 0..3 {
            turns.push(&one, number);
        }
        turns.push(&other, 10);
        let (user, first) = turns.pop().unwrap();
        turns.push_front(&user, first);
        assert_eq!((turns.len(), turns.of("one")), (4, 3));
        let order: Vec<_> = std::iter::from_fn(|| turns.pop()).map(|(_, item)| item).collect();
        assert_eq!(order, [10, 0, 1, 2]);
        assert_eq!((turns.len(), turns.by_user.len(), turns.order.len()), (0, 0, 0));
    }

    /// However many wait, and whatever they cost: the bus has its turn after one that has taken all of the share.
    #[test]
    fn a_turn_works_on_requests_for_its_share_and_no_longer() {
        let (mut bus, _rest) = alone();
        let shard = Rc::clone(&bus.shard);
        let done = Rc::new(Cell::new(0));
        for user in ["one", "other"].repeat(USER_WAITING_MAX) {
            let done = Rc::clone(&done);
            let costly = move |bus: &mut Bus, _: Now| {
                let began = bus.shard.now().mono;
                while bus.shard.now().mono.since(began) < ASKS_A_TURN {}
                done.set(done.get() + 1);
                Step::Done
            };
            bus.ask(&user.into(), Box::new(costly)).unwrap();
        }
        assert_eq!(bus.ask(&"one".into(), Box::new(|_, _| Step::Done)), Err(AsksFull));
        for turn in 1..=2 * USER_WAITING_MAX {
            bus.run_asks(shard.now());
            assert_eq!(done.get(), turn);
        }
    }
}
