//! The devices behind the bus, while they come and go: who may publish to their topics, which topics are removed, where
//! commands go.

use super::alarms::AlarmPlaces;
use super::reserved::Reserved;
use super::state::Bus;
use crate::config::{DeviceConfig, MqttConfig, Numbered, Priority};
use crate::control::{CommandSender, DeviceChange};
use crate::field::FieldInput;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tieline_control::{Dispatch, PointError};
use tieline_core::{Body, Filter, Now, Topic};
use tieline_topics::Lane;
use tokio::sync::mpsc;

/// Which topics are those of devices.
#[derive(Debug, Default)]
pub struct Ownership {
    reserved: Arc<Reserved>,
    /// While the devices change: topics that stay, as somebody has them afterwards.
    staying: Option<Arc<Reserved>>,
}

/// What the bus is told of devices that have changed.
#[derive(Debug)]
pub struct BusChange {
    /// Devices whose points are no topics.
    pub unpublished: HashSet<Topic>,
    /// How urgent topics are that come from here on.
    pub lanes: Vec<(Filter, Lane)>,
    /// Which devices can be commanded how.
    pub commands: DeviceChange,
    /// What may be away.
    pub places: AlarmPlaces,
}

impl Ownership {
    /// Whether a device has the topic.
    pub(super) fn is_of_device(&self, topic: &str) -> bool {
        self.reserved.is_of_device(topic)
    }
}

impl Bus {
    /// Gives the bus its field shards, for commands and confirms.
    pub fn set_field(&mut self, field: Vec<mpsc::Sender<FieldInput>>) {
        self.commands.set_senders(field.iter().cloned().map(command_sender).collect());
        self.field = field;
        self.tell_untold();
    }

    /// Says which topics are those of devices.
    pub fn set_reserved(&mut self, reserved: Arc<Reserved>) {
        self.ownership = Ownership { reserved, staying: None };
    }

    /// Whether a client must not publish there.
    #[must_use]
    pub fn is_reserved(&self, topic: &str) -> bool {
        self.ownership.reserved.contains(topic) || self.is_of_site(topic)
    }

    /// Devices are about to change: until [`Bus::set_reserved`] nobody publishes to the topics of those before or afterwards, and
    /// topics that stay are not removed.
    ///
    /// # Errors
    /// Points that can be commanded contradict each other; nothing has changed then.
    pub fn begin_change(
        &mut self,
        reserved: Arc<Reserved>,
        staying: Arc<Reserved>,
        commands: &DeviceChange,
    ) -> Result<(), PointError> {
        self.commands.check_devices(commands)?;
        self.ownership = Ownership { reserved, staying: Some(staying) };
        Ok(())
    }

    /// What left has been told: commands go to the devices that are there from here on.
    ///
    /// # Errors
    /// As of [`Bus::begin_change`].
    pub fn change_devices(&mut self, now: Now, change: BusChange) -> Result<(), PointError> {
        let BusChange { unpublished, lanes, commands, places } = change;
        self.set_alarm_places(now, places);
        self.recorder.set_unpublished(unpublished);
        self.set_lanes(lanes);
        let changed = self.commands.change_devices(now, commands);
        self.read_watched(now);
        self.work.notify_one();
        changed
    }

    /// Topics that nobody updates any more are removed, and their subscribers are told.
    pub(super) fn remove_gone(&mut self, now: Now, gone: Vec<Topic>) {
        for topic in gone {
            let stays = self.ownership.staying.as_ref().is_some_and(|staying| staying.is_of_device(&topic));
            if !stays && self.tree.get(&topic).is_some() {
                self.commands.forget_reading(&topic);
                self.apply_node(now, topic, Body::empty(), true);
            }
        }
    }
}

/// How commands reach a field shard.
fn command_sender(shard: mpsc::Sender<FieldInput>) -> CommandSender {
    Arc::new(move |Dispatch { device, command, until, command_id }, revision| {
        let command_id = command_id.0;
        shard.blocking_send(FieldInput::Command { device, revision, command_id, command, until }).is_ok()
    })
}

/// Devices whose points are no topics.
#[must_use]
pub fn unpublished(devices: &[DeviceConfig]) -> HashSet<Topic> {
    let unpublished = devices.iter().filter(|device| !device.publish_points);
    unpublished.map(|device| device.topic.clone()).collect()
}

/// How urgent topics are: as the configuration of MQTT says, then as that of their device does.
#[must_use]
pub fn lanes(mqtt: &MqttConfig, devices: &[DeviceConfig]) -> Vec<(Filter, Lane)> {
    let of = |filters: &[Filter], lane| filters.iter().map(move |filter| (filter.clone(), lane)).collect::<Vec<_>>();
    let mut lanes = of(&mqtt.protection, Lane::Protection);
    lanes.extend(of(&mqtt.bulk, Lane::Bulk));
    lanes.extend(devices.iter().filter_map(|device| {
        let lane = match device.priority? {
            Priority::Protection => Lane::Protection,
            Priority::Monitoring => Lane::Monitoring,
            Priority::Bulk => Lane::Bulk,
        };
        Some((Filter::new(&format!("{}/#", device.topic)).ok()?, lane))
    }));
    lanes
}

/// The topics that stay when devices change: those that some device has afterwards. Topics of a device whose urgency changes
/// are removed and come again: the urgency decides how they are sent.
#[must_use]
pub fn staying<'a>(before: &[Numbered], after: impl IntoIterator<Item = &'a Numbered>) -> Reserved {
    let priorities: HashMap<_, _> =
        before.iter().map(|device| (&device.config.topic, device.config.priority)).collect();
    let keeps = |device: &&Numbered| {
        let before = priorities.get(&device.config.topic);
        before.is_none_or(|before| *before == device.config.priority)
    };
    Reserved::published(after.into_iter().filter(keeps))
}
