//! Connections whose clients have not been authenticated: each costs little, and anybody can open them, so their number is limited.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// Unauthenticated connections at one time; a further one is closed.
const UNAUTHENTICATED_MAX: usize = 4096;

/// From so many unauthenticated connections on, the next is accepted when one of them is authenticated or closed, or
/// after [`MOMENT`].
const BUSY_FROM: usize = 256;
const MOMENT: Duration = Duration::from_millis(10);

/// Counts the unauthenticated connections.
#[derive(Clone, Debug, Default)]
pub struct UnauthenticatedConnections(Rc<Here>);

/// One counted unauthenticated connection; dropping it ends the count.
#[derive(Debug)]
pub struct UnauthenticatedConnection(Rc<Here>);

#[derive(Debug, Default)]
struct Here {
    count: Cell<usize>,
    /// Notified when the count gets smaller.
    fewer: Notify,
}

impl UnauthenticatedConnections {
    /// Counts one more connection; none when there are [`UNAUTHENTICATED_MAX`].
    #[must_use]
    pub fn enter(&self) -> Option<UnauthenticatedConnection> {
        let here = self.0.count.get();
        (here < UNAUTHENTICATED_MAX).then(|| {
            self.0.count.set(here + 1);
            UnauthenticatedConnection(Rc::clone(&self.0))
        })
    }

    /// Waits up to [`MOMENT`] while there are many unauthenticated connections: the next one can wait in the kernel's
    /// backlog.
    pub async fn room(&self) {
        if self.0.count.get() >= BUSY_FROM {
            let _ = tokio::time::timeout(MOMENT, self.0.fewer.notified()).await;
        }
    }
}

impl Drop for UnauthenticatedConnection {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get().saturating_sub(1));
        self.0.fewer.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unauthenticated_are_counted_and_bounded() {
        let unauthenticated = UnauthenticatedConnections::default();
        let mut here: Vec<_> = std::iter::from_fn(|| unauthenticated.enter()).collect();
        assert_eq!(here.len(), UNAUTHENTICATED_MAX);
        here.pop();
        assert!(unauthenticated.enter().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_limit_each_waits_for_another_or_a_moment() {
        let unauthenticated = UnauthenticatedConnections::default();
        let began = tokio::time::Instant::now();
        let mut here = Vec::new();
        for _ in 0..BUSY_FROM {
            unauthenticated.room().await;
            here.extend(unauthenticated.enter());
        }
        assert_eq!(began.elapsed(), Duration::ZERO, "below the limit");
        let leaves = async {
            tokio::time::sleep(MOMENT / 2).await;
            here.pop();
        };
        tokio::join!(unauthenticated.room(), leaves);
        assert_eq!(began.elapsed(), MOMENT / 2, "one has gone");
        here.extend(unauthenticated.enter());
        unauthenticated.room().await;
        assert!(began.elapsed() >= MOMENT * 3 / 2, "nobody goes");
    }
}
