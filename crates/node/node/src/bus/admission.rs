//! Admission of new connections: they share a fixed time between any two turns of the bus. Connections that end share
//! it too.
//!
//! When ten thousand clients reconnect at once, each is a task that is ready: a handshake, a CONNECT, a SUBSCRIBE.
//! Clients that are already connected must not wait for all of them: after [`SHARE`] of work for new connections, the
//! bus and its
//! connected clients have their turn.
//!
//! ```text
//! new connection polled ── share left ──▶ works, or ends ──▶ wakes the next one
//!            └──────────── none left ───▶ waits ◀── the bus's turn: a share again
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

/// How long new connections work between two turns of the bus; a step that has begun is finished.
const SHARE: Duration = Duration::from_micros(500);
/// A connection counts as new until it was polled this many times.
const STEPS: u32 = 32;

/// The capacity of the queue that is kept when no connection waits.
const WAITING_KEPT: usize = 64;

/// The time left for new connections, and the connections that wait for it.
#[derive(Debug)]
pub struct Admission {
    left: Cell<Duration>,
    waiting: RefCell<VecDeque<(Rc<Cell<Place>>, Waker)>>,
    /// Whether the task that is being polled has asked to count as new again.
    requeues: Cell<bool>,
    shard: Rc<Shard>,
    work: Rc<Notify>,
}

/// The state of a new connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Comes,
    Waits,
    /// It was woken, and wakes the next one when it has worked.
    IsCalled,
    Gone,
}

impl Admission {
    /// An admission that wakes the bus by `work` when new connections wait and the share is spent.
    #[must_use]
    pub fn new(shard: &Rc<Shard>, work: &Rc<Notify>) -> Self {
        let (shard, work) = (Rc::clone(shard), Rc::clone(work));
        Self { left: Cell::new(SHARE), waiting: RefCell::default(), requeues: Cell::new(false), shard, work }
    }

    /// The bus has had its turn: new connections have a full share again.
    pub fn open(&self) {
        self.left.set(SHARE);
        self.call_next();
    }

    /// Runs a new connection's task within the share.
    pub const fn run_new<F: Future>(&self, steps: F) -> NewConnection<'_, F> {
        NewConnection { steps, admission: self, count: 0, place: None }
    }

    /// The task that is being polled counts as new from its next step on.
    pub fn requeue(&self) {
        self.requeues.set(true);
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

    /// The connection that has waited longest. Memory that many needed is given back once none waits.
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
    /// The task of a connection, within the share while it is new.
    #[derive(Debug)]
    pub struct NewConnection<'a, F> {
        #[pin]
        steps: F,
        admission: &'a Admission,
        count: u32,
        place: Option<Rc<Cell<Place>>>,
    }

    impl<F> PinnedDrop for NewConnection<'_, F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            let was = this.place.as_ref().map(|place| place.replace(Place::Gone));
            if was == Some(Place::IsCalled) {
                this.admission.call_next();
            }
        }
    }
}

impl<F: Future> Future for NewConnection<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let is_new_connection = *this.count < STEPS;
        if is_new_connection && this.admission.left.get().is_zero() {
            this.admission.wait(this.place.get_or_insert_default(), cx.waker());
            return Poll::Pending;
        }
        let polled = if is_new_connection {
            *this.count += 1;
            if let Some(place) = this.place.take() {
                place.set(Place::Comes);
            }
            let began = this.admission.shard.now().mono;
            let polled = this.steps.poll(cx);
            this.admission.spend(this.admission.shard.now().mono.since(began));
            polled
        } else {
            this.steps.poll(cx)
        };
        if this.admission.requeues.take() {
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

    fn admission(work: &Rc<Notify>) -> Rc<Admission> {
        Rc::new(Admission::new(&Shard::new(Clock::start(), Arc::new(Counters::default())), work))
    }

    fn come(admission: &Rc<Admission>, steps: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
        let admission = Rc::clone(admission);
        tokio::task::spawn_local(async move { admission.run_new(steps).await })
    }

    /// Steps that new connections take of 200 µs each between turns of the bus, until none takes one.
    async fn steps_by_turn(new_connections: usize, steps: usize) -> Vec<usize> {
        let admission = admission(&Rc::default());
        let taken = Rc::new(Cell::new(0));
        for _ in 0..new_connections {
            let taken = Rc::clone(&taken);
            come(&admission, async move {
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
            admission.open();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn new_connections_share_what_is_between_two_turns() {
        let tasks = tokio::task::LocalSet::new();
        // Three steps begin within the share.
        let counts = tasks.run_until(steps_by_turn(10, 3)).await;
        assert_eq!(counts, [3; 10]);
        // One alone is new for 32 steps.
        let counts = tasks.run_until(steps_by_turn(1, 60)).await;
        assert_eq!(counts.iter().rev().take(1).sum::<usize>(), 60 - 30, "{counts:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_ending_connection_is_a_new_one_again() {
        let tasks = tokio::task::LocalSet::new();
        let counts = tasks.run_until(async {
            let admission = admission(&Rc::default());
            let ended = Rc::new(Cell::new(0));
            for _ in 0..10 {
                let (own, ended) = (Rc::clone(&admission), Rc::clone(&ended));
                come(&admission, async move {
                    for _ in 0..STEPS {
                        tokio::task::yield_now().await;
                    }
                    own.requeue();
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
                admission.open();
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
            let admission = admission(&work);
            admission.spend(SHARE);
            let (gone, stays) = (come(&admission, std::future::pending()), come(&admission, std::future::ready(())));
            tokio::task::yield_now().await;
            gone.abort();
            let mut turns = 0;
            while !stays.is_finished() {
                work.notified().await;
                admission.open();
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
            let admission = admission(&Rc::default());
            admission.spend(SHARE);
            let (gone, stays) = (come(&admission, std::future::pending()), come(&admission, std::future::ready(())));
            tokio::task::yield_now().await;
            admission.open();
            gone.abort();
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            stays.is_finished()
        });
        assert!(stays.await);
    }
}
