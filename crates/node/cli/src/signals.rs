//! Work that a signal may end.

use anyhow::Result;
use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};

/// Runs until `work` is done, or the process is asked to end by SIGINT or SIGTERM: none then.
pub fn until_done<F: Future>(work: F) -> Result<Option<F::Output>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = interrupt.recv() => Ok(None),
            _ = terminate.recv() => Ok(None),
            output = work => Ok(Some(output)),
        }
    })
}
