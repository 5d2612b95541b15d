//! What the poller is told of a device, from its configuration.

use crate::config::{DeviceConfig, Numbered, PointAddress, PointConfig, Priority};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::PointId;
use tieline_poll::{
    Collection, DeviceSpec, GroupId, Heartbeat, HeartbeatValue, Kind, Missed, PointSpec, PointTable, PollClass,
    PollSpec, Publish, SpecError, Urgency,
};

/// The shortest rest between two polls of a device that reports by itself.
const GAP_MIN: Duration = Duration::from_millis(50);

/// The points of a device.
pub(super) fn table_of(config: &DeviceConfig) -> Result<Arc<PointTable>, SpecError> {
    let spec = |point: &PointConfig| PointSpec {
        name: point.name.as_str().into(),
        kind: Kind::AsRead,
        scale: point.scale,
        offset: point.offset,
        invert: false,
        class: class_of(config, point),
        source: source_of(&point.address),
    };
    PointTable::new(config.points.iter().map(spec).collect())
}

pub(super) fn spec_of(
    device: &Numbered,
    table: Arc<PointTable>,
    urgency: Urgency,
    network: Option<GroupId>,
) -> DeviceSpec {
    let Numbered { config, recorded, .. } = device;
    let polls = config.polls.iter().zip(0..).map(|(every, class)| PollSpec { class: PollClass(class), every: *every });
    DeviceSpec {
        topic: config.topic.clone(),
        table,
        polls: polls.collect(),
        // A poll of many parts would take long with a rest between them.
        gap_min: if config.collection.is_some() { Duration::ZERO } else { GAP_MIN },
        slow_after: None,
        stale_after: config.stale_after,
        publish: Publish {
            each: config.publish_points || *recorded,
            unchanged: true,
            all: config.publish_all,
            all_every: config.all_every,
        },
        urgency,
        collection: collection_of(config, network),
    }
}

/// The class that brings a point; none of a device that reports by itself.
fn class_of(config: &DeviceConfig, point: &PointConfig) -> Option<PollClass> {
    config.collection?;
    let every = config.every_of(point);
    let at = config.polls.iter().position(|known| *known == every).unwrap_or(0);
    u8::try_from(at).ok().map(PollClass)
}

/// A number for where a point is: a point that moved has another.
fn source_of(address: &PointAddress) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{address:?}").hash(&mut hasher);
    hasher.finish()
}

fn collection_of(config: &DeviceConfig, network: Option<GroupId>) -> Collection {
    let heartbeat = config.heartbeat.map(|heartbeat| Heartbeat {
        point: PointId(heartbeat.point),
        every: heartbeat.every,
        value: heartbeat.count_max.map_or(HeartbeatValue::Toggle, |max| HeartbeatValue::Count { max }),
    });
    // What reports by itself is read by its protocol when it comes online.
    let Some(collection) = config.collection else { return Collection { network, heartbeat, ..Collection::REPORTED } };
    Collection {
        in_flight_max: config.protocol.in_flight(),
        network,
        heartbeat,
        back_off_max: Some(collection.back_off_max),
        missed: if collection.missed_once { Missed::Once } else { Missed::Skip },
        stale_after_missed: Some(collection.stale_after_missed),
        ..Collection::POLLED
    }
}

pub(super) const fn urgency_of(priority: Option<Priority>) -> Urgency {
    match priority {
        Some(Priority::Protection) => Urgency::Protection,
        Some(Priority::Monitoring) | None => Urgency::Monitoring,
        Some(Priority::Bulk) => Urgency::Bulk,
    }
}
