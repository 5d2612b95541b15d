//! The traces of a shard's devices.

use super::counters::TraceCounters;
use super::disk::TraceDisk;
use super::record::{self, Kind};
use super::ring::{Ring, RingTap};
use crate::config::{DeviceConfig, TraceConfig};
use bytes::Bytes;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::{DeviceId, Now};
use tieline_net::Tap;
use tokio::sync::{mpsc, oneshot};

/// A question for the trace of a device, to the shard that has the device.
#[derive(Debug)]
pub struct TraceAsk {
    /// Which device.
    pub device: DeviceId,
    /// Who is given each record from here on.
    pub follower: Option<mpsc::Sender<Bytes>>,
    /// Where the answer goes; a shard without the device gives none.
    pub answer: oneshot::Sender<Copied>,
}

/// What a trace holds.
#[derive(Clone, Debug, Default)]
pub struct Copied {
    /// The records of the last minute.
    pub records: Vec<u8>,
    /// The minute before the device went away the last time.
    pub away: Option<Arc<[u8]>>,
    /// Whether the follower was taken; there may be enough of them.
    pub follows: bool,
}

/// A connection that is traced: of one device, or of several that share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TracedConnection(String);

impl TracedConnection {
    /// That of a device.
    #[must_use]
    pub fn of(config: &DeviceConfig) -> Self {
        Self(match &config.channel {
            Some(channel) => format!("channel-{}", channel.name),
            None => format!("device-{}", config.topic),
        })
    }

    #[cfg(test)]
    pub(super) fn of_name(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Its folder on the disk: letters, digits and `-` are as they are, other bytes are `%` and two digits.
    #[must_use]
    pub fn folder(&self) -> String {
        let mut folder = String::new();
        for byte in self.0.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => folder.push(char::from(byte)),
                other => folder.push_str(&format!("%{other:02X}")),
            }
        }
        folder
    }
}

/// The traces of a shard's devices.
#[derive(Debug)]
pub struct DeviceTraces {
    disk: TraceDisk,
    /// Files of connections that are no more, which the disk is to close.
    closing: Vec<(TracedConnection, u64, Vec<u8>)>,
    rings: HashMap<TracedConnection, Shared>,
    devices: HashMap<DeviceId, Traced>,
}

#[derive(Debug)]
struct Shared {
    ring: Rc<Ring>,
    config: TraceConfig,
    /// How many devices share it.
    devices: usize,
}

impl Shared {
    /// Whether no device has it and no session tells it anything.
    fn is_over(&self) -> bool {
        self.devices == 0 && Rc::strong_count(&self.ring) == 1
    }
}

#[derive(Debug)]
struct Traced {
    connection: TracedConnection,
    ring: Rc<Ring>,
    away: Option<Arc<[u8]>>,
}

impl DeviceTraces {
    /// None yet.
    #[must_use]
    pub fn new(disk: TraceDisk) -> Self {
        Self { disk, closing: Vec::new(), rings: HashMap::new(), devices: HashMap::new() }
    }

    /// Adds a device, where it is to be traced. Devices of one connection share a trace, whose limits are those of the first.
    /// One that was here before goes on where its connection and its limits are the same.
    pub fn add(&mut self, id: DeviceId, config: &DeviceConfig) {
        let connection = TracedConnection::of(config);
        let shared = self.rings.get(&connection);
        let is_same = |known: &Traced| {
            known.connection == connection && shared.is_some_and(|shared| shared.config == config.trace)
        };
        if self.devices.get(&id).is_some_and(is_same) {
            return;
        }
        self.forget(id);
        if self.rings.get(&connection).is_some_and(Shared::is_over) {
            self.end(connection.clone());
        }
        if !config.trace.enabled {
            return;
        }
        let counters: &Arc<TraceCounters> = self.disk.counters();
        let new = || Shared { ring: Rc::new(Ring::new(&config.trace, counters)), config: config.trace, devices: 0 };
        let shared = self.rings.entry(connection.clone()).or_insert_with(new);
        shared.devices += 1;
        self.devices.insert(id, Traced { connection, ring: Rc::clone(&shared.ring), away: None });
    }

    /// A device is no more: its trace ends with that, for those who follow it and on the disk.
    pub fn remove(&mut self, now: Now, id: DeviceId) {
        self.note(now, id, Kind::State, "removed from the configuration");
        self.forget(id);
    }

    #[cfg(test)]
    fn is_written(&self) -> bool {
        self.rings.values().any(|shared| shared.config.disk > 0)
    }

    fn forget(&mut self, id: DeviceId) {
        let Some(gone) = self.devices.remove(&id) else { return };
        if let Some(shared) = self.rings.get_mut(&gone.connection) {
            shared.devices = shared.devices.saturating_sub(1);
        }
    }

    /// Ends the traces that no device has any more. A connection that goes on with other devices keeps its own: another may come.
    fn sweep(&mut self) {
        let over = self.rings.iter().filter(|(_, shared)| shared.is_over()).map(|(connection, _)| connection.clone());
        over.collect::<Vec<_>>().into_iter().for_each(|connection| self.end(connection));
    }

    fn end(&mut self, connection: TracedConnection) {
        if let Some(shared) = self.rings.remove(&connection).filter(|shared| shared.config.disk > 0) {
            let pending = shared.ring.take_pending().unwrap_or_default();
            self.closing.push((connection, shared.config.disk, pending));
        }
    }

    /// What a session of these devices tells; none where none of them is traced.
    #[must_use]
    pub fn tap(&self, devices: &[DeviceId], connection: u8) -> Option<Rc<dyn Tap>> {
        let traced = devices.iter().find_map(|device| self.devices.get(device))?;
        Some(Rc::new(RingTap { ring: Rc::clone(&traced.ring), connection }))
    }

    /// Writes down what the node knows of a device.
    pub fn note(&self, now: Now, device: DeviceId, kind: Kind, text: &str) {
        if let Some(traced) = self.devices.get(&device) {
            traced.ring.push(kind, 0, now, &record::note(Some(device), text));
        }
    }

    /// The device went away: what was said before is kept until it goes the next time.
    pub fn went_away(&mut self, now: Now, device: DeviceId) {
        let Some(traced) = self.devices.get_mut(&device) else { return };
        traced.away = Some(traced.ring.copy(now).into());
    }

    /// Answers, where the device is here.
    pub fn answer(&self, now: Now, ask: TraceAsk) {
        let Some(traced) = self.devices.get(&ask.device) else { return };
        let records = traced.ring.copy(now);
        let follows = ask.follower.is_none_or(|follower| traced.ring.follow(follower));
        // Who asked may have gone.
        let _ = ask.answer.send(Copied { records, away: traced.away.clone(), follows });
    }

    /// Hands what waits to the thread that writes, and ends traces that no device has any more.
    pub fn flush(&mut self) {
        self.sweep();
        for (connection, shared) in self.rings.iter().filter(|(_, shared)| shared.config.disk > 0) {
            if let Some(pending) = shared.ring.take_pending()
                && let Err(pending) = self.disk.write(connection, shared.config.disk, pending)
            {
                shared.ring.put_back(pending);
            }
        }
        self.closing.retain_mut(|(connection, bytes_max, pending)| {
            let closed = self.disk.close(connection, *bytes_max, std::mem::take(pending));
            closed.map_err(|rest| *pending = rest).is_err()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::from_text;
    use std::path::Path;
    use tieline_core::{Instant, Timestamp};

    fn device(folder: &Path, name: &str, more: &str) -> DeviceConfig {
        std::fs::write(folder.join("p.csv"), "name,type\na,float\n").unwrap();
        let text = format!("[device.{name}]\nprotocol='simulated'\npoints='p.csv'\ntrace={{{more}}}\n");
        from_text("t.toml", &text, folder).unwrap().devices.remove(0)
    }

    #[test]
    fn a_trace_ends_with_its_device_and_goes_on_where_nothing_changes() {
        let folder = tempfile::tempdir().unwrap();
        let mut traces = DeviceTraces::new(TraceDisk::start(folder.path(), false).unwrap());
        let now = Now { mono: Instant(1), utc: Timestamp::from_millis(1) };
        let id = DeviceId(1);
        traces.add(id, &device(folder.path(), "d", "keep='2m'"));
        let (follower, mut following) = mpsc::channel(8);
        let ask = |traces: &DeviceTraces, follower: Option<mpsc::Sender<Bytes>>| {
            let (answer, answered) = oneshot::channel();
            traces.answer(now, TraceAsk { device: id, follower, answer });
            answered.blocking_recv().ok()
        };
        assert!(ask(&traces, Some(follower)).unwrap().follows);
        traces.note(now, id, Kind::Failed, "one");
        // Started again with the same limits: what was recorded is there.
        traces.add(id, &device(folder.path(), "d", "keep='2m'"));
        let before = ask(&traces, None).unwrap().records.len();
        assert!(before > 0);
        // With others it begins again, and ends for those that follow it.
        let tap = traces.tap(&[id], 0).unwrap();
        drop(tap);
        traces.add(id, &device(folder.path(), "d", "keep='3m', disk='1MiB'"));
        assert_eq!(ask(&traces, None).unwrap().records.len(), 0);
        assert!(following.try_recv().is_ok());
        assert_eq!(following.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
        assert!(traces.is_written());
        traces.remove(now, id);
        assert!(ask(&traces, None).is_none());
        traces.flush();
        assert!(!traces.is_written() && traces.closing.is_empty());
    }
}
