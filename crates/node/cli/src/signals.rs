//! Work that a signal may end.

use anyhow::Result;
use std::future::Future;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Runs until `work` is done, or the process is asked to end by SIGINT or SIGTERM: none then.
pub fn until_done<F: Future>(work: F) -> Result<Option<F::Output>> {
    Signals::listen()?.until_done(work)
}

/// SIGINT and SIGTERM, which from here on end nothing by themselves.
pub struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Begins to listen; what comes before the work begins ends it at once.
    pub fn listen() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let inside = runtime.enter();
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        drop(inside);
        Ok(Self { runtime, terminate, interrupt })
    }

    /// Runs until `work` is done, or the process is asked to end: none then.
    pub fn until_done<F: Future>(self, work: F) -> Result<Option<F::Output>> {
        let Self { runtime, mut terminate, mut interrupt } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => Ok(None),
                _ = terminate.recv() => Ok(None),
                output = work => Ok(Some(output)),
            }
        })
    }
}
