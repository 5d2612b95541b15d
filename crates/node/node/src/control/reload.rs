//! Devices whose commands change while the node runs.

use super::{Commands, Place, points};
use crate::config::{Numbered, ValueKind};
use std::collections::BTreeSet;
use tieline_control::{PointChange, PointError};
use tieline_core::{DeviceId, Now};

/// Devices whose commands change.
#[derive(Clone, Debug, Default)]
pub struct DeviceChange {
    /// Those that are no more.
    pub removed: BTreeSet<DeviceId>,
    /// Those that are new, or have another configuration, with their shards.
    pub changed: Vec<(Numbered, usize)>,
}

impl<A> Commands<A> {
    /// Whether devices can have other points.
    ///
    /// # Errors
    /// Two points have one topic, a point contradicts itself or its rules, or there are too many.
    pub fn check_devices(&self, change: &DeviceChange) -> Result<(), PointError> {
        self.coordinator.check_points(&self.points_of(change))
    }

    /// Devices have other points, or are no more: what waits for a point that has changed is not sent, and what is out at a
    /// device that is no more may have been carried out. Points are held on by their topics.
    ///
    /// # Errors
    /// As of [`Commands::check_devices`]; nothing has changed then.
    pub fn change_devices(&mut self, now: Now, change: DeviceChange) -> Result<(), PointError> {
        let lost = self.coordinator.stats().holds_lost;
        let points = self.points_of(&change);
        self.coordinator.replace_points(now, points)?;
        let lost = self.coordinator.stats().holds_lost - lost;
        if lost > 0 {
            tracing::warn!(points = lost, "commanded points are no more, and are not reverted");
        }
        for (device, shard) in &change.changed {
            self.places.insert(device.id, Place::of(device, *shard));
            let config = &device.config;
            self.double_bits.extend(points::double_bits_of(config));
            let others = config.points.iter().filter(|point| point.kind != ValueKind::DoubleBit);
            for topic in others.filter_map(|point| config.topic.join(&point.name).ok()) {
                self.double_bits.remove(&topic);
            }
        }
        // Records of devices that are no more say their topics.
        self.send(now, None);
        for device in &change.removed {
            self.places.remove(device);
        }
        Ok(())
    }

    /// A topic is no more: commands do not depend on what it was.
    pub fn forget_reading(&mut self, topic: &str) {
        self.coordinator.forget_reading(topic);
    }

    fn points_of(&self, change: &DeviceChange) -> PointChange {
        let changed = change.changed.iter().map(|(device, _)| points::device_of(device, self.confirm_within));
        PointChange { removed: change.removed.clone(), changed: changed.collect() }
    }
}
