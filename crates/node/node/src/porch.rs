//! Where connections work that have just come, and those that end, a little between any two turns of the bus.
//!
//! When ten thousand clients come back at once, each is a task that is ready: a handshake, a CONNECT, a SUBSCRIBE. Those who
//! have been here go on meanwhile: whatever there is to do for newcomers, the bus and what its clients say have
//! their turn after [`SHARE`] of it.
//!
//! ```text
//! newcomer polled ── share left ──▶ works, or ends ──▶ calls the next one
//!        └────────── none left ───▶ waits ◀── the bus's turn: a share again
//! ```

use pin_project_lite::pin_project;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tieline_net::Shard;
use tokio::sync::Notify;

/// How long newcomers work between two turns of the bus; whoever has begun ends what it does.
const SHARE: Duration = Duration::from_micros(500);
/// A connection is a newcomer until it was polled so often.
const STEPS: u32 = 32;

/// Room for so many stays when nobody waits.
const WAITING_KEPT: usize = 64;

/// The share of newcomers, and those who wait for it.
#[derive(Debug)]
pub struct Porch {
    left: Cell<Duration>,
    waiting: RefCell<VecDeque<(Rc<Cell<Place>>, Waker)>>,
    /// Whether the task that is polled has asked to be a newcomer.
    regroups: Cell<bool>,
    shard: Rc<Shard>,
    work: Rc<Notify>,
}

/// Where a newcomer stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Comes,
    Waits,
    /// It was woken, and calls the next one when it has worked.
    IsCalled,
    Gone,
}

impl Porch {
    /// One that wakes the bus by `work` where newcomers wait and the share is spent.
    #[must_use]
    pub fn new(shard: &Rc<Shard>, work: &Rc<Notify>) -> Self {
        let (shard, work) = (Rc::clone(shard), Rc::clone(work));
        Self { left: Cell::new(SHARE), waiting: RefCell::default(), regroups: Cell::new(false), shard, work }
    }

    /// The bus has had its turn.
    pub fn open(&self) {
        self.left.set(SHARE);
        self.call_next();
    }

    /// What a newcomer does, step by step.
    pub const fn lead<F: Future>(&self, steps: F) -> Newcomer<'_, F> {
        Newcomer { steps, porch: self, count: 0, place: None }
    }

    /// The task that is polled is a newcomer from its next step on.
    pub fn regroup(&self) {
        self.regroups.set(true);
    }

    fn call_next(&self) {
        loop {
            let Some((place, waker)) = self.next() else { return };
            if place.get() == Place::Waits {
                place.set(Place::IsCalled);
                return waker.wake();
            }
        }
    }

    /// The one that has waited longest. What a crowd needed is given back once nobody waits.
    fn next(&self) -> Option<(Rc<Cell<Place>>, Waker)> {
        let mut waiting = self.waiting.borrow_mut();
        let next = waiting.pop_front();
        if waiting.is_empty() && waiting.capacity() > WAITING_KEPT {
            *waiting = VecDeque::new();
        }
        next
    }

    fn wait(&self, place: &Rc<Cell<Place>>, waker: &Waker) {
        if place.replace(Place::Waits) != Place::Waits {
            self.waiting.borrow_mut().push_back((Rc::clone(place), waker.clone()));
        }
        self.work.notify_one();
    }

    fn spend(&self, took: Duration) {
        self.left.set(self.left.get().saturating_sub(took));
        if !self.left.get().is_zero() {
            self.call_next();
        } else if !self.waiting.borrow().is_empty() {
            self.work.notify_one();
        }
    }
}

pin_project! {
    /// A connection's task.
    #[derive(Debug)]
    pub struct Newcomer<'a, F> {
        #[pin]
        steps: F,
        porch: &'a Porch,
        count: u32,
        place: Option<Rc<Cell<Place>>>,
    }

    impl<F> PinnedDrop for Newcomer<'_, F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            let was = this.place.as_ref().map(|place| place.replace(Place::Gone));
            if was == Some(Place::IsCalled) {
                this.porch.call_next();
            }
        }
    }
}

impl<F: Future> Future for Newcomer<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let is_newcomer = *this.count < STEPS;
        if is_newcomer && this.porch.left.get().is_zero() {
            this.porch.wait(this.place.get_or_insert_default(), cx.waker());
            return Poll::Pending;
        }
        let polled = if is_newcomer {
            *this.count += 1;
            if let Some(place) = this.place.take() {
                place.set(Place::Comes);
            }
            let began = this.porch.shard.now().mono;
            let polled = this.steps.poll(cx);
            this.porch.spend(this.porch.shard.now().mono.since(began));
            polled
        } else {
            this.steps.poll(cx)
        };
        if this.porch.regroups.take() {
            *this.count = 0;
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tieline_net::{Clock, Counters};
    use tokio::task::JoinHandle;

    fn porch(work: &Rc<Notify>) -> Rc<Porch> {
        Rc::new(Porch::new(&Shard::new(Clock::start(), Arc::new(Counters::default())), work))
    }

    fn come(porch: &Rc<Porch>, steps: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
        let porch = Rc::clone(porch);
        tokio::task::spawn_local(async move { porch.lead(steps).await })
    }

    /// Steps that newcomers take of 200 µs each between turns of the bus, until none takes one.
    async fn steps_by_turn(newcomers: usize, steps: usize) -> Vec<usize> {
        let porch = porch(&Rc::default());
        let taken = Rc::new(Cell::new(0));
        for _ in 0..newcomers {
            let taken = Rc::clone(&taken);
            come(&porch, async move {
                for _ in 0..steps {
                    taken.set(taken.get() + 1);
                    // Comes back at once, later by what it took.
                    tokio::time::advance(Duration::from_micros(200)).await;
                }
            });
        }
        let mut counts = Vec::new();
        loop {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            match taken.take() {
                0 => return counts,
                count => counts.push(count),
            }
            porch.open();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn newcomers_share_what_is_between_two_turns() {
        let tasks = tokio::task::LocalSet::new();
        // Three steps begin within the share.
        let counts = tasks.run_until(steps_by_turn(10, 3)).await;
        assert_eq!(counts, [3; 10]);
        // One alone is a newcomer for 32 steps.
        let counts = tasks.run_until(steps_by_turn(1, 60)).await;
        assert_eq!(counts.iter().rev().take(1).sum::<usize>(), 60 - 30, "{counts:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_ends_is_a_newcomer_again() {
        let tasks = tokio::task::LocalSet::new();
        let counts = tasks.run_until(async {
            let porch = porch(&Rc::default());
            let ended = Rc::new(Cell::new(0));
            for _ in 0..10 {
                let (lobby, ended) = (Rc::clone(&porch), Rc::clone(&ended));
                come(&porch, async move {
                    for _ in 0..STEPS {
                        tokio::task::yield_now().await;
                    }
                    lobby.regroup();
                    tokio::task::yield_now().await;
                    ended.set(ended.get() + 1);
                    tokio::time::advance(Duration::from_micros(200)).await;
                });
            }
            let mut counts = Vec::new();
            while counts.iter().sum::<usize>() < 10 {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                counts.push(ended.take());
                porch.open();
            }
            counts
        });
        let counts = counts.await;
        assert!(counts.iter().all(|count| *count <= 3), "{counts:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_has_gone_does_not_keep_others_waiting() {
        let tasks = tokio::task::LocalSet::new();
        let counts = tasks.run_until(async {
            let work = Rc::new(Notify::new());
            let porch = porch(&work);
            porch.spend(SHARE);
            let (gone, stays) = (come(&porch, std::future::pending()), come(&porch, std::future::ready(())));
            tokio::task::yield_now().await;
            gone.abort();
            let mut turns = 0;
            while !stays.is_finished() {
                work.notified().await;
                porch.open();
                turns += 1;
                tokio::task::yield_now().await;
            }
            turns
        });
        assert!(counts.await <= 3);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_goes_when_it_is_called_calls_the_next() {
        let tasks = tokio::task::LocalSet::new();
        let stays = tasks.run_until(async {
            let porch = porch(&Rc::default());
            porch.spend(SHARE);
            let (gone, stays) = (come(&porch, std::future::pending()), come(&porch, std::future::ready(())));
            tokio::task::yield_now().await;
            porch.open();
            gone.abort();
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            stays.is_finished()
        });
        assert!(stays.await);
    }
}
