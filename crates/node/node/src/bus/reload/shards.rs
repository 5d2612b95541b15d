//! The field shards of a node: started as there are devices for them, and told what changes.

use crate::bus::BusInput;
use crate::config::Numbered;
use crate::field::{self, Changing, FieldHandle, FieldInput, Leaving, Positions, ReportSenders, ShardChange};
use crate::trace::TraceDisk;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tieline_core::DeviceId;
use tieline_net::{Clock, Counters};
use tieline_transport::CertificateCache;
use tokio::sync::{mpsc, oneshot};

/// What shards are started with.
pub struct ShardParts {
    /// Shards at most.
    pub shards_max: usize,
    /// The clock of all threads.
    pub clock: Clock,
    /// What sockets count.
    pub counters: Arc<Counters>,
    /// TLS files in use.
    pub certificates: Arc<CertificateCache>,
    /// Where traces are written.
    pub traces: TraceDisk,
    /// Up to when the past of devices is known.
    pub positions: Positions,
    /// Where reports go.
    pub lanes: ReportSenders<BusInput>,
}

/// The field shards of a node. Dropped, they end.
pub struct FieldShards {
    parts: ShardParts,
    handles: Mutex<Vec<FieldHandle>>,
}

impl FieldShards {
    /// None yet.
    #[must_use]
    pub const fn new(parts: ShardParts) -> Self {
        Self { parts, handles: Mutex::new(Vec::new()) }
    }

    /// How many there are to be for so many devices: no more than devices, and those that there are stay.
    #[must_use]
    pub fn count_for(&self, devices: usize) -> usize {
        self.parts.shards_max.min(devices).max(self.with(Vec::len))
    }

    /// Starts those that are missing, each with its devices.
    ///
    /// # Errors
    /// The system gives no thread, or a device cannot be started.
    pub fn start(&self, mut devices: impl Iterator<Item = Vec<Numbered>>, count: usize) -> io::Result<()> {
        for number in self.with(Vec::len)..count {
            let ShardParts { clock, counters, certificates, traces, positions, lanes, .. } = &self.parts;
            let shared = (Arc::clone(certificates), traces.clone(), positions.clone());
            let here = devices.next().unwrap_or_default();
            let handle = field::start(number, here, *clock, Arc::clone(counters), shared, lanes.clone())?;
            self.handles.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
        }
        Ok(())
    }

    /// What the bus tells commands and confirms.
    #[must_use]
    pub fn senders(&self) -> Vec<mpsc::Sender<FieldInput>> {
        self.with(|handles| handles.iter().map(FieldHandle::sender).collect())
    }

    /// Whether one has ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.with(|handles| handles.iter().any(FieldHandle::is_finished))
    }

    /// TLS files in use.
    #[must_use]
    pub const fn certificates(&self) -> &Arc<CertificateCache> {
        &self.parts.certificates
    }

    /// Where traces are written.
    #[must_use]
    pub const fn traces(&self) -> &TraceDisk {
        &self.parts.traces
    }

    /// Up to when the past of devices is known.
    #[must_use]
    pub const fn positions(&self) -> &Positions {
        &self.parts.positions
    }

    /// Ends devices, and waits until all that they have told has been read.
    pub async fn leave(&self, shards: &[ShardChange]) {
        let (barrier, mut passed) = mpsc::channel(1);
        for (sender, shard) in self.senders().iter().zip(shards) {
            if !shard.leave.is_empty() {
                let leaving = Leaving { devices: shard.leave.clone(), barrier: barrier.clone() };
                // A shard that has ended has no devices.
                let _ = sender.send(FieldInput::Leave(leaving)).await;
            }
        }
        drop(barrier);
        let None = passed.recv().await;
    }

    /// Changes devices and starts others, and waits until all that they have told has been read; those that could not be, and
    /// why.
    pub async fn change(&self, shards: Vec<ShardChange>) -> Vec<(DeviceId, String)> {
        let (mut failed, mut waiting) = (Vec::new(), Vec::new());
        let (barrier, mut passed) = mpsc::channel(1);
        for (sender, ShardChange { replace, start, .. }) in self.senders().iter().zip(shards) {
            if replace.is_empty() && start.is_empty() {
                continue;
            }
            let (done, answer) = oneshot::channel();
            let changing = Changing { replace, start, done, barrier: barrier.clone() };
            if sender.send(FieldInput::Change(changing)).await.is_ok() {
                waiting.push(answer);
            }
        }
        for answer in waiting {
            failed.extend(answer.await.unwrap_or_default());
        }
        drop(barrier);
        let None = passed.recv().await;
        failed
    }

    fn with<T>(&self, look: impl FnOnce(&Vec<FieldHandle>) -> T) -> T {
        look(&self.handles.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
