//! A thread with a runtime of its own.

use crate::coalescing::{Coalescing, GIVER, Pace, SERVER, WRITER, take_arrivals};
use crate::mailbox::pause;
use crate::{Clock, Counters, Shard};
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::oneshot;

/// A thread that sends to many looks at its sockets after so many steps of its tasks, each of which may be a long one.
const STEPS_A_LOOK: u32 = 8;
/// How long a shard that ends waits for calls of [`tokio::task::spawn_blocking`] that are under way.
const BLOCKING_PATIENCE: Duration = Duration::from_secs(1);

/// An OS thread that runs one shard. Dropping it stops the shard and waits for the thread.
#[derive(Debug)]
pub struct ShardThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ShardThread {
    /// Starts a thread called `name` (15 bytes show up in `top`) and runs there the future that `main` makes.
    /// `main` may start further tasks with [`tokio::task::spawn_local`]; they end with the thread.
    ///
    /// # Errors
    /// The system gives no thread, or no epoll instance.
    pub fn spawn<F, Fut>(name: &str, clock: Clock, counters: Arc<Counters>, main: F) -> io::Result<Self>
    where
        F: FnOnce(Rc<Shard>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        Self::start(name, Builder::new_current_thread(), clock, counters, main)
    }

    /// The same for a thread that sends what it gets on to many: while it is busy, it looks for more only every 0.3 ms, so
    /// that what comes together goes together.
    ///
    /// # Errors
    /// The system gives no thread, or no epoll instance.
    pub fn spawn_coalescing<F, Fut>(name: &str, clock: Clock, counters: Arc<Counters>, main: F) -> io::Result<Self>
    where
        F: FnOnce(Rc<Shard>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        Self::start(name, coalescing_runtime(WRITER), clock, counters, main)
    }

    /// The same for a thread that gives work to other threads: each wake costs both. It coalesces when it is a twentieth of its
    /// time at work.
    ///
    /// # Errors
    /// The system gives no thread, or no epoll instance.
    pub fn spawn_giving<F, Fut>(name: &str, clock: Clock, counters: Arc<Counters>, main: F) -> io::Result<Self>
    where
        F: FnOnce(Rc<Shard>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        Self::start(name, coalescing_runtime(GIVER), clock, counters, main)
    }

    /// The same for one of several threads that do the writes of another: while it is busy, it looks so rarely that a look is
    /// worth its cost, at least every 0.8 ms; where that gathers nothing, at once.
    pub(crate) fn spawn_serving<F, Fut>(name: &str, clock: Clock, counters: Arc<Counters>, main: F) -> io::Result<Self>
    where
        F: FnOnce(Rc<Shard>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        Self::start(name, coalescing_runtime(SERVER), clock, counters, main)
    }

    fn start<F, Fut>(
        name: &str,
        mut runtime: Builder,
        clock: Clock,
        counters: Arc<Counters>,
        main: F,
    ) -> io::Result<Self>
    where
        F: FnOnce(Rc<Shard>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        let body = move || {
            let runtime = match runtime.enable_all().build_local(LocalOptions::default()) {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            let _ = ready.send(Ok(()));
            runtime.block_on(async move {
                let main = tokio::task::spawn_local(main(Shard::new(clock, counters)));
                tokio::select! {
                    ended = main => if let Err(error) = ended && error.is_panic() {
                        std::panic::resume_unwind(error.into_panic());
                    },
                    _ = stopped => {}
                }
            });
            runtime.shutdown_timeout(BLOCKING_PATIENCE);
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(body)?;
        started.recv().map_err(|_| io::Error::other("the shard's thread ended before it began"))??;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Asks the shard to end: its tasks are dropped, their sockets close.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Whether the thread has ended: stopped, or its future came to an end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the shard has ended by itself.
    ///
    /// # Errors
    /// The shard panicked; the error is what it panicked with.
    pub fn join(mut self) -> std::thread::Result<()> {
        self.thread.take().map_or(Ok(()), JoinHandle::join)
    }
}

/// A runtime whose thread gathers.
fn coalescing_runtime(pace: Pace) -> Builder {
    let (start, parks) = (Instant::now(), Arc::new(Mutex::new(Coalescing::new(pace))));
    let wakes = Arc::clone(&parks);
    let mut builder = Builder::new_current_thread();
    builder.event_interval(STEPS_A_LOOK);
    builder.on_thread_unpark(move || lock(&wakes).wake(start.elapsed()));
    builder.on_thread_park(move || {
        let wait = lock(&parks).rest(start.elapsed(), take_arrivals());
        if !wait.is_zero() {
            pause(wait);
        }
    });
    builder
}

fn lock(coalescing: &Mutex<Coalescing>) -> MutexGuard<'_, Coalescing> {
    coalescing.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for ShardThread {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
