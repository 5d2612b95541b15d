//! What a new table of devices means for the devices that run: which come, go and change, and which are not touched.
//!
//! ```text
//! device table, new configuration ─▶ TableChange: by shard who leaves, who changes in place, who is started
//! ```
//!
//! A device is the one with the same name in the file. It keeps its number as long as its topics and values can stay: on the
//! same shard, by the same protocol, with the same priority.

use super::homes::homes;
use super::keeps_connection;
use crate::config::{DeviceConfig, Numbered, PointConfig};
use std::collections::HashMap;
use std::sync::Arc;
use tieline_core::DeviceId;

/// The devices of a node: which numbers they have, and on which shards they are.
#[derive(Clone, Debug, Default)]
pub struct DeviceTable {
    places: Vec<Placed>,
    next: u32,
}

/// A device with its place.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The device.
    pub device: Numbered,
    /// Its shard.
    pub shard: usize,
    /// Whether it was started; one that was not is started again by the next change.
    pub has_started: bool,
}

/// How many devices a change touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCounts {
    /// They were not there.
    pub added: usize,
    /// They are there no more.
    pub removed: usize,
    /// They have another configuration, or are started again.
    pub changed: usize,
    /// Those of them that keep their connections.
    pub kept_connection: usize,
    /// Nothing is done to them.
    pub unchanged: usize,
}

/// What a shard has to do.
#[derive(Clone, Debug, Default)]
pub struct ShardChange {
    /// Who leaves, each with whether it is forgotten.
    pub leave: Vec<(DeviceId, bool)>,
    /// Who changes and keeps its connection.
    pub replace: Vec<Numbered>,
    /// Who is started.
    pub start: Vec<Numbered>,
}

/// What is to be done, and what is so afterwards.
#[derive(Clone, Debug, Default)]
pub struct TableChange {
    /// By shard.
    pub shards: Vec<ShardChange>,
    /// The devices afterwards.
    pub table: DeviceTable,
    /// How many devices it touches.
    pub counts: ChangeCounts,
}

impl DeviceTable {
    /// All devices, in the order of the file.
    #[must_use]
    pub fn places(&self) -> &[Placed] {
        &self.places
    }

    /// The devices alone.
    #[must_use]
    pub fn devices(&self) -> Arc<[Numbered]> {
        self.places.iter().map(|placed| placed.device.clone()).collect()
    }

    /// A device could not be started.
    pub fn note_failure(&mut self, device: DeviceId) {
        if let Some(placed) = self.places.iter_mut().find(|placed| placed.device.id == device) {
            placed.has_started = false;
        }
    }

    /// What has to be done for the devices to be those of `configs`, on so many shards.
    #[must_use]
    pub fn change_to(&self, configs: &[DeviceConfig], recorded: bool, shards: usize) -> TableChange {
        let known: HashMap<&str, &Placed> =
            self.places.iter().map(|placed| (placed.device.config.name.as_str(), placed)).collect();
        let befores: Vec<Option<&Placed>> =
            configs.iter().map(|config| known.get(config.name.as_str()).copied()).collect();
        let homes = homes(configs, &befores, shards);
        let mut change = TableChange { shards: vec![ShardChange::default(); shards], ..TableChange::default() };
        change.table.next = self.next;
        let mut lists = Lists::default();
        for ((config, before), shard) in configs.iter().zip(befores).zip(homes) {
            let config = match before {
                Some(before) => lists.intern(&before.device.config, config),
                None => config.clone(),
            };
            change.place(before, config, recorded, shard);
        }
        let new: HashMap<&str, ()> = configs.iter().map(|config| (config.name.as_str(), ())).collect();
        for placed in self.places.iter().filter(|placed| !new.contains_key(placed.device.config.name.as_str())) {
            change.counts.removed += 1;
            change.leave(placed, true);
        }
        change
    }
}

impl ShardChange {
    /// Whether nothing has to be done.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.leave.is_empty() && self.replace.is_empty() && self.start.is_empty()
    }
}

impl TableChange {
    fn shard(&mut self, shard: usize) -> Option<&mut ShardChange> {
        self.shards.get_mut(shard)
    }

    fn leave(&mut self, placed: &Placed, is_forgotten: bool) {
        if let Some(shard) = self.shard(placed.shard) {
            shard.leave.push((placed.device.id, is_forgotten));
        }
    }

    /// Decides what becomes of one device.
    fn place(&mut self, before: Option<&Placed>, config: DeviceConfig, recorded: bool, shard: usize) {
        let Some(before) = before else {
            self.counts.added += 1;
            return self.start(None, config, recorded, shard);
        };
        let old = &before.device.config;
        if *old == config && before.has_started && before.shard == shard {
            self.counts.unchanged += 1;
            return self.table.places.push(before.clone());
        }
        self.counts.changed += 1;
        if before.has_started && before.shard == shard && keeps_connection(old, &config) {
            self.counts.kept_connection += 1;
            let device = Numbered { config, revision: before.device.revision + 1, ..before.device.clone() };
            if let Some(shard) = self.shard(shard) {
                shard.replace.push(device.clone());
            }
            return self.table.places.push(Placed { device, shard, has_started: true });
        }
        let keeps_number = before.shard == shard && keeps_topics(old, &config);
        self.leave(before, !keeps_number);
        self.start(Some(&before.device).filter(|_| keeps_number), config, recorded, shard);
    }

    fn start(&mut self, before: Option<&Numbered>, config: DeviceConfig, recorded: bool, shard: usize) {
        let (id, revision) = match before {
            Some(before) => (before.id, before.revision + 1),
            None => {
                let id = DeviceId(self.table.next);
                self.table.next += 1;
                (id, 0)
            }
        };
        let device = Numbered { id, config, recorded, revision };
        if let Some(shard) = self.shard(shard) {
            shard.start.push(device.clone());
        }
        self.table.places.push(Placed { device, shard, has_started: true });
    }
}

/// Whether the poller can go on with the topics and values of a device that is connected again. What other devices may have had
/// before is told in order only by those that leave.
fn keeps_topics(old: &DeviceConfig, new: &DeviceConfig) -> bool {
    let DeviceConfig { topic, priority, publish_points, .. } = old;
    let second = |config: &DeviceConfig| config.second_connection().map(|(_, priority)| priority);
    let is_same_protocol = old.protocol.name() == new.protocol.name();
    is_same_protocol
        && (topic, priority, publish_points, second(old))
            == (&new.topic, &new.priority, &new.publish_points, second(new))
}

/// Point lists that were read again and are the same: each is compared once, and the one that is in use is kept.
#[derive(Default)]
struct Lists {
    same: HashMap<(*const PointConfig, *const PointConfig), bool>,
}

impl Lists {
    fn intern(&mut self, old: &DeviceConfig, new: &DeviceConfig) -> DeviceConfig {
        let mut config = new.clone();
        let key = (old.points.as_ptr(), new.points.as_ptr());
        if *self.same.entry(key).or_insert_with(|| old.points == new.points) {
            config.points = Arc::clone(&old.points);
        }
        config
    }
}
