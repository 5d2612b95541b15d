//! Against real servers, and one that only says that it is old.

mod cluster;
mod door;
mod servers;
mod single;

use std::future::Future;
use std::time::Duration;

/// Runs a test; nothing in it takes longer than this.
fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), test).await.expect("the test hangs") })
}

/// Asks again and again until there is an answer.
async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let mut beat = tokio::time::interval(Duration::from_millis(50));
    let found = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            beat.tick().await;
            if let Some(found) = ask().await {
                return found;
            }
        }
    });
    found.await.unwrap_or_else(|_| panic!("not within a minute: {what}"))
}

/// How a server matches subjects.
pub(crate) fn takes(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(a), Some(b)) if a == b => {}
            _ => return false,
        }
    }
}
