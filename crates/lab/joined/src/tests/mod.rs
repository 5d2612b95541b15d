//! The relay over the fabric, with a real server: what a node joins, in a few lines, with kills.

mod centre;
mod leaders;
mod server;

use std::time::{Duration, SystemTime};
use tieline_core::{Instant, Now, Timestamp};

/// Clocks for machines that have none.
#[derive(Clone, Copy)]
struct Clock(std::time::Instant);

impl Clock {
    fn new() -> Self {
        Self(std::time::Instant::now())
    }

    fn now(self) -> Now {
        let utc = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let utc = Timestamp::from_micros(i64::try_from(utc.as_micros()).unwrap());
        Now { mono: Instant::ZERO + Duration::from_secs(1) + self.0.elapsed(), utc }
    }
}

/// Runs a test, with tasks that stay on its thread; nothing in it takes longer than this.
fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(Duration::from_secs(120), test).await.expect("the test hangs");
    });
}

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let mut beat = tokio::time::interval(Duration::from_millis(5));
    let wait = async {
        while !is_so() {
            beat.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap_or_else(|_| panic!("not within a minute: {what}"));
}
