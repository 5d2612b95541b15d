//! `tieline discover`: who is there, and what it says of itself. Devices are only read.

pub mod args;
mod bacnet;
mod dnp3;
mod hosts;
mod modbus;
mod progress;
mod proposal;
mod walk;

use crate::{log, signals};
use anyhow::{Result, anyhow};
use args::DiscoverVerb;
use progress::Progress;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use tieline_net::{Clock, Counters, Shard, ShardThread};
use tokio::sync::oneshot;

/// Looks for devices, and prints each as it is found.
pub fn discover(verb: &DiscoverVerb) -> Result<ExitCode> {
    log::start("warn", false);
    match verb {
        DiscoverVerb::Modbus(args) => modbus::discover(args, false),
        DiscoverVerb::Sunspec(args) => modbus::discover(args, true),
        DiscoverVerb::Bacnet(args) => bacnet::discover(args),
        DiscoverVerb::Dnp3(args) => dnp3::discover(args),
    }
}

/// Does work on a thread with sockets, until it is done; none where a signal came first.
fn on_shard<T: Send + 'static, F>(work: impl FnOnce(Rc<Shard>) -> F + Send + 'static) -> Result<Option<T>>
where
    F: Future<Output = T> + 'static,
{
    let (end, ended) = oneshot::channel();
    let thread =
        ShardThread::spawn("discover", Clock::start(), Arc::new(Counters::default()), move |shard| async move {
            let _ = end.send(work(shard).await);
        })?;
    let done = signals::until_done(ended)?;
    drop(thread);
    done.transpose().map_err(|_| anyhow!("the discovery ended"))
}

/// Writes the proposed files, and says which.
fn propose(folder: Option<&Path>, files: proposal::Files) -> Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    for name in proposal::write(folder, &files)? {
        eprintln!("tieline: {} written", folder.join(name).display());
    }
    Ok(())
}
