//! A node whose tasks are apart from those of all others, so that it can be stopped as if it were killed, and its processor time be
//! told from theirs.

use rustix::time::{ClockId, clock_gettime};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::task::Poll;
use std::time::Duration;
use tieline_net::{Clock, Connection, Counters, Shard};
use tieline_node::{InProcessBroker, config};
use tokio::task::LocalSet;

/// Makes the connections of an edge with its upstream, and where its random numbers begin.
pub type Upstream = (Rc<dyn Fn(&str) -> io::Result<Connection>>, u64);

/// Looks at the clock that tell what one takes.
const LOOKS: usize = 101;

/// A node. Copies are the same node.
#[derive(Clone)]
pub struct SimNode(Rc<Inner>);

struct Inner {
    /// Its tasks, and what it is; none where it was killed.
    running: RefCell<Option<(LocalSet, InProcessBroker)>>,
    cpu: Cell<Duration>,
}

impl SimNode {
    /// Starts a node: its configuration, what it has its upstream by, and its wall clock.
    ///
    /// # Errors
    /// The configuration is wrong, or there is no thread for its audit log.
    pub fn start(text: &str, upstream: Option<Upstream>, wall: &'static AtomicI64) -> Result<Self, String> {
        let config = config::from_text("bus-sim", text, Path::new(".")).map_err(|wrong| format!("{wrong:?}"))?;
        let tasks = LocalSet::new();
        let broker = {
            let _in = tasks.enter();
            let shard = Shard::new(Clock::start_with(wall), Arc::new(Counters::default()));
            // No command is given: nothing is written there.
            let folder = Path::new("nowhere");
            match upstream {
                Some(upstream) => InProcessBroker::open_edge(&shard, &config, folder, upstream),
                None => InProcessBroker::open(&shard, &config, folder),
            }
        };
        let broker = broker.map_err(|error| error.to_string())?;
        let node = Self(Rc::new(Inner { running: RefCell::new(Some((tasks, broker))), cpu: Cell::default() }));
        let (inner, looking) = (Rc::clone(&node.0), looking());
        tokio::task::spawn_local(poll_fn(move |cx| {
            let mut running = inner.running.borrow_mut();
            let Some((tasks, _)) = running.as_mut() else { return Poll::Ready(()) };
            let before = thread_cpu();
            let polled = Pin::new(tasks).poll(cx);
            inner.cpu.set(inner.cpu.get() + thread_cpu().saturating_sub(before + looking));
            polled
        }));
        Ok(node)
    }

    /// A client comes; where the node was killed, its connection ends.
    pub fn enter(&self, connection: Connection, number: u64) {
        if let Some((tasks, broker)) = &*self.0.running.borrow() {
            let _in = tasks.enter();
            broker.listener().enter(connection, number);
        }
    }

    /// It is gone from one moment to the next, with all that it has not written.
    pub fn kill(&self) {
        let running = self.0.running.borrow_mut().take();
        drop(running);
    }

    /// What is read of its broker; none where it was killed.
    pub fn look<R>(&self, look: impl FnOnce(&InProcessBroker) -> R) -> Option<R> {
        self.0.running.borrow().as_ref().map(|(_, broker)| look(broker))
    }

    /// The processor time that its tasks have taken, without that of the looks at the clock.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        self.0.cpu.get()
    }
}

/// What two looks at the clock, one right after the other, are apart.
fn looking() -> Duration {
    let mut looks: Vec<Duration> = (0..LOOKS).map(|_| (thread_cpu(), thread_cpu())).map(|(a, b)| b - a).collect();
    looks.sort_unstable();
    looks.get(LOOKS / 2).copied().unwrap_or_default()
}

/// Processor time of the present thread.
#[must_use]
pub fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let (s, ns) = (u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0));
    Duration::new(s, ns)
}
