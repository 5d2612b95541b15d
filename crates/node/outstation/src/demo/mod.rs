//! The demo: a small site that moves, as devices on sockets of this machine.
//!
//! In: which site, a data folder. Out: its devices on free ports, and a configuration that collects from them, written to
//! the folder so that it can be read and copied.
//!
//! Read first: `substation/model.rs` or `building/model.rs`.

mod building;
mod substation;
mod sun;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use tieline_net::{Clock, Counters, Shard, ShardThread};

/// How often the devices look at their model.
const TICK: Duration = Duration::from_secs(1);
/// Seconds of the site's day that pass in one second.
const SPEED: u32 = 60;
/// The site's day begins in the morning, when the sun climbs.
const START_S: f64 = 8.0 * 3600.0;
const SEED: u64 = 0x7e_11_1e;

/// Which site is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DemoSite {
    /// A substation: DNP3 outstations.
    #[default]
    Substation,
    /// An office building: air handlers and rooms (BACnet), meters (Modbus), inverters (SunSpec).
    Building,
}

/// The demo while it runs. Dropping it stops the devices.
#[derive(Debug)]
pub struct Demo {
    _thread: ShardThread,
    config_file: PathBuf,
}

impl Demo {
    /// Starts the devices of a site and writes the configuration that collects from them to `folder`.
    ///
    /// # Errors
    /// A port or a thread cannot be had, or the folder cannot be written.
    pub fn start(site: DemoSite, folder: &Path) -> io::Result<Self> {
        let (thread, files) = match site {
            DemoSite::Substation => substation::start()?,
            DemoSite::Building => building::start()?,
        };
        Ok(Self { _thread: thread, config_file: files.write(folder)? })
    }

    /// The configuration that collects from the devices.
    #[must_use]
    pub fn config_file(&self) -> &Path {
        &self.config_file
    }
}

/// What a node needs to collect from a site.
struct SiteFiles {
    /// The text of the configuration.
    config: String,
    /// The files that it names, some in a folder.
    lists: Vec<(&'static str, &'static str)>,
}

impl SiteFiles {
    fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        for (name, text) in &self.lists {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().unwrap_or(folder))?;
            std::fs::write(file, text)?;
        }
        let path = folder.join("tieline.toml");
        std::fs::write(&path, &self.config)?;
        Ok(path)
    }
}

/// Where the addresses of devices are told, or why there are none.
type Report<T> = SyncSender<io::Result<T>>;

/// Starts a thread with the devices of a site, and waits for their addresses.
fn spawn<T, F, Fut>(serve: F) -> io::Result<(ShardThread, T)>
where
    T: Send + 'static,
    F: FnOnce(Rc<Shard>, Report<T>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let (report, reported) = sync_channel(1);
    let thread =
        ShardThread::spawn("demo", Clock::start(), Arc::new(Counters::default()), move |shard| serve(shard, report))?;
    let told = reported.recv().map_err(|_| io::Error::other("the demo ended before it began"))??;
    Ok((thread, told))
}
