//! Answers from history that are under way: each takes a thread and memory for as long as its reader reads.

use super::problem::Problem;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tieline_core::SharedHistogram;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Answers at once, and those of one user.
const RECALLS_MAX: usize = 8;
const USER_RECALLS_MAX: usize = 4;
/// Requests of one user, those that wait counted.
const USER_WAITING_MAX: usize = 32;
/// How long one may wait for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// All of them.
#[derive(Clone, Debug)]
pub struct Recalls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    all: Arc<Semaphore>,
    by_user: Mutex<HashMap<Arc<str>, Share>>,
    refused: AtomicU64,
    queries: SharedHistogram,
}

#[derive(Debug)]
struct Share {
    turns: Arc<Semaphore>,
    here: usize,
}

impl Default for Recalls {
    fn default() -> Self {
        let all = Arc::new(Semaphore::new(RECALLS_MAX));
        Self(Arc::new(Shared {
            all,
            by_user: Mutex::default(),
            refused: AtomicU64::new(0),
            queries: SharedHistogram::default(),
        }))
    }
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct Recall {
    turns: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
    user: Arc<str>,
    shared: Arc<Shared>,
}

impl Recalls {
    /// Waits for a turn.
    ///
    /// # Errors
    /// Too many are under way.
    pub async fn enter(&self, user: Arc<str>) -> Result<Recall, Problem> {
        let refused = |words: &str| {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            Problem::unavailable(words)
        };
        let own = {
            let mut users = self.0.by_user.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = || Share { turns: Arc::new(Semaphore::new(USER_RECALLS_MAX)), here: 0 };
            let share = users.entry(Arc::clone(&user)).or_insert_with(fresh);
            share.here += 1;
            (share.here <= USER_WAITING_MAX).then(|| Arc::clone(&share.turns))
        };
        let mut recall = Recall { turns: None, user, shared: Arc::clone(&self.0) };
        let Some(own) = own else { return Err(refused("too many requests for history of this user wait already")) };
        let turns = async {
            // Nobody closes them.
            let own = own.acquire_owned().await.ok()?;
            Some((own, Arc::clone(&self.0.all).acquire_owned().await.ok()?))
        };
        recall.turns = tokio::time::timeout(PATIENCE, turns).await.ok().flatten();
        if recall.turns.is_none() {
            return Err(refused("too many answers from history are under way; ask again later"));
        }
        Ok(recall)
    }

    /// How long answers took to their first bytes.
    #[must_use]
    pub fn queries(&self) -> &SharedHistogram {
        &self.0.queries
    }

    /// Answers under way, and how many were refused.
    #[must_use]
    pub fn seen(&self) -> (usize, u64) {
        (RECALLS_MAX - self.0.all.available_permits(), self.0.refused.load(Ordering::Relaxed))
    }
}

impl Recall {
    /// What counts how long answers take to their first bytes.
    #[must_use]
    pub fn recalls(&self) -> Recalls {
        Recalls(Arc::clone(&self.shared))
    }
}

impl Drop for Recall {
    fn drop(&mut self) {
        let mut users = self.shared.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = users.get_mut(&self.user) {
            share.here -= 1;
            if share.here == 0 {
                users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_user_leavesturns_to_others() {
        let (recalls, one, other) = (Recalls::default(), Arc::from("one"), Arc::from("other"));
        let mut held = Vec::new();
        for _ in 0..USER_RECALLS_MAX {
            held.push(recalls.enter(Arc::clone(&one)).await.unwrap());
        }
        assert!(recalls.enter(Arc::clone(&one)).await.is_err());
        held.push(recalls.enter(Arc::clone(&other)).await.unwrap());
        assert_eq!(recalls.seen(), (USER_RECALLS_MAX + 1, 1));
        held.remove(0);
        held.push(recalls.enter(Arc::clone(&one)).await.unwrap());
        held.clear();
        assert_eq!(recalls.seen(), (0, 1));
        assert!(recalls.0.by_user.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_some_wait() {
        let (recalls, user) = (Recalls::default(), Arc::<str>::from("one"));
        let _held: Vec<_> = futures_util::future::join_all((0..4).map(|_| recalls.enter(Arc::clone(&user)))).await;
        let waiting = (0..USER_WAITING_MAX).map(|_| recalls.enter(Arc::clone(&user)));
        let began = tokio::time::Instant::now();
        let found = futures_util::future::join_all(waiting).await;
        assert!(found.iter().all(Result::is_err) && began.elapsed() >= PATIENCE);
        assert_eq!(recalls.seen(), (USER_RECALLS_MAX, USER_WAITING_MAX as u64));
    }
}
