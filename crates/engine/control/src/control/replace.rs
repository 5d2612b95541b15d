//! Other points for devices that are here, or none: what does not change goes on undisturbed.

use super::Control;
use crate::refusals::{away_unsent, changed_unsent};
use crate::{ControlPoint, Phase, PointError};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use hashbrown::{HashMap, HashSet};
use tieline_core::{DeviceId, Now, PointId, Refusal, Topic};

/// The number of a point that is in the table no more: a command that is out at it ends there, and touches no other point.
const GONE: PointId = PointId(u32::MAX);

/// Points by their topics.
pub(crate) type ByTopic = HashMap<Topic, Arc<ControlPoint>>;

/// What becomes of a point that a command was made for.
#[derive(Debug)]
pub(crate) enum Follows {
    /// It is the same, at most by another number.
    Same(Arc<ControlPoint>),
    /// It takes other values, or in another way.
    Changed(Arc<ControlPoint>),
    /// It is no more, or at another device.
    Gone(Arc<ControlPoint>),
}

impl Follows {
    pub(crate) fn of(old: &Arc<ControlPoint>, new: &ByTopic) -> Self {
        match new.get(&old.topic).filter(|new| new.device == old.device) {
            Some(new) if ControlPoint { point: new.point, ..(**old).clone() } == **new => Self::Same(new.clone()),
            Some(new) => Self::Changed(new.clone()),
            None => Self::Gone(Arc::new(ControlPoint { point: GONE, ..(**old).clone() })),
        }
    }

    pub(crate) fn point(self) -> Arc<ControlPoint> {
        let (Self::Same(point) | Self::Changed(point) | Self::Gone(point)) = self;
        point
    }
}

impl Control {
    /// Whether devices can have these points ([`Control::replace_points`]).
    ///
    /// # Errors
    /// A point contradicts itself, its topic is taken, or the table would be full.
    pub fn check_points<'a>(
        &self,
        devices: &BTreeSet<DeviceId>,
        points: impl ExactSizeIterator<Item = &'a ControlPoint>,
    ) -> Result<(), PointError> {
        let others = self.points.values().filter(|point| !devices.contains(&point.device)).count();
        let max = self.limits.points_max;
        if others + points.len() > max {
            return Err(PointError::PointsFull { max });
        }
        let mut topics = HashSet::new();
        for point in points {
            point.check()?;
            let is_taken = self.points.get(&point.topic).is_some_and(|known| !devices.contains(&known.device));
            if is_taken || !topics.insert(&point.topic) {
                return Err(PointError::TopicTwice { topic: point.topic.clone() });
            }
        }
        Ok(())
    }

    /// Gives devices other points. A command that waits goes to the point of its topic, whatever its number is now; where that
    /// has changed or has gone, it is not sent. One that is out ends as it would have, by [`Control::handle_outcome`] or
    /// [`Control::handle_link`].
    ///
    /// # Errors
    /// As of [`Control::check_points`]; nothing has changed then.
    pub fn replace_points(
        &mut self,
        now: Now,
        devices: &BTreeSet<DeviceId>,
        points: Vec<ControlPoint>,
    ) -> Result<(), PointError> {
        self.check_points(devices, points.iter())?;
        let mut new = ByTopic::new();
        for point in points {
            self.add_device(point.device);
            new.insert(point.topic.clone(), Arc::new(point));
        }
        for device in devices {
            self.drop_changed(now, *device, &new);
        }
        self.renumber(devices, &new);
        self.points.retain(|_, point| !devices.contains(&point.device));
        self.points.extend(new);
        Ok(())
    }

    /// A device was removed from the configuration: what is out at it may have been carried out.
    pub fn handle_removed(&mut self, now: Now, id: DeviceId) {
        let Some(device) = self.devices.get_mut(&id) else { return };
        device.is_online = false;
        self.end_commands(now, id, || Refusal::reconfigured(true), away_unsent);
    }

    /// A device is gone for good.
    pub fn forget_devices(&mut self, now: Now, devices: impl IntoIterator<Item = DeviceId>) {
        for device in devices {
            self.handle_removed(now, device);
            self.devices.remove(&device);
        }
    }

    /// Ends the commands that wait for points that are not the same among `new`.
    fn drop_changed(&mut self, now: Now, id: DeviceId, new: &ByTopic) {
        let Some(device) = self.devices.get_mut(&id) else { return };
        let (mut kept, mut dropped) = (VecDeque::new(), Vec::new());
        for command_id in core::mem::take(&mut device.waiting) {
            match self.pending.get(&command_id).map(|pending| Follows::of(&pending.point, new)) {
                Some(Follows::Same(_)) => kept.push_back(command_id),
                Some(Follows::Changed(_)) => dropped.push((command_id, changed_unsent())),
                Some(Follows::Gone(_)) | None => dropped.push((command_id, away_unsent())),
            }
        }
        device.waiting = kept;
        for (command_id, refusal) in dropped {
            self.finish(now, command_id, Phase::Dropped, Err(refusal));
            self.forget(command_id);
        }
    }

    /// Commands that are left are of the points of their topics.
    fn renumber(&mut self, devices: &BTreeSet<DeviceId>, new: &ByTopic) {
        self.busy.retain(|(device, _), _| !devices.contains(device));
        for (command_id, pending) in &mut self.pending {
            if devices.contains(&pending.point.device) {
                pending.point = Follows::of(&pending.point, new).point();
                pending.command.point = pending.point.point;
                if pending.point.point != GONE {
                    self.busy.insert((pending.point.device, pending.point.point), *command_id);
                }
            }
        }
    }
}
