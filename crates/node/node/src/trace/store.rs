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
    rings: HashMap<TracedConnection, Shared>,
    devices: HashMap<DeviceId, Traced>,
}

#[derive(Debug)]
struct Shared {
    ring: Rc<Ring>,
    /// Bytes of its files at most.
    disk: u64,
}

#[derive(Debug)]
struct Traced {
    ring: Rc<Ring>,
    away: Option<Arc<[u8]>>,
}

impl DeviceTraces {
    /// None yet.
    #[must_use]
    pub fn new(disk: TraceDisk) -> Self {
        Self { disk, rings: HashMap::new(), devices: HashMap::new() }
    }

    /// Adds a device, where it is to be traced. Devices of one connection share a trace, whose limits are those of the first.
    pub fn add(&mut self, id: DeviceId, config: &DeviceConfig) {
        let TraceConfig { enabled, disk, .. } = config.trace;
        if !enabled {
            return;
        }
        let counters: &Arc<TraceCounters> = self.disk.counters();
        let new = || Shared { ring: Rc::new(Ring::new(&config.trace, counters)), disk };
        let shared = self.rings.entry(TracedConnection::of(config)).or_insert_with(new);
        self.devices.insert(id, Traced { ring: Rc::clone(&shared.ring), away: None });
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

    /// Whether something of it goes to the disk.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.rings.values().any(|shared| shared.disk > 0)
    }

    /// Hands what waits to the thread that writes.
    pub fn flush(&self) {
        for (connection, shared) in self.rings.iter().filter(|(_, shared)| shared.disk > 0) {
            if let Some(pending) = shared.ring.take_pending()
                && let Err(pending) = self.disk.write(connection, shared.disk, pending)
            {
                shared.ring.put_back(pending);
            }
        }
    }
}
