//! Other points for devices that are here, or none: what does not change goes on undisturbed.

use super::Control;
use crate::refusals::{away_unsent, changed_unsent};
use crate::{ControlPoint, Phase, PointError};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use hashbrown::{HashMap, HashSet};
use tieline_core::{DeviceId, Now, Topic};

impl Control {
    /// Whether devices can have these points ([`Control::replace_points`]).
    ///
    /// # Errors
    /// A point contradicts itself, its topic is taken, or the table would be full.
    pub fn check_points(&self, devices: &BTreeSet<DeviceId>, points: &[ControlPoint]) -> Result<(), PointError> {
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

    /// Gives devices other points; a device of `devices` that has none of `points` is forgotten once nothing is out at it. A
    /// command that waits for a point that has changed or has gone is not sent; one that is out ends as it would have, by
    /// [`Control::handle_outcome`] or [`Control::handle_link`].
    ///
    /// # Errors
    /// As of [`Control::check_points`]; nothing has changed then.
    pub fn replace_points(
        &mut self,
        now: Now,
        devices: &BTreeSet<DeviceId>,
        points: Vec<ControlPoint>,
    ) -> Result<(), PointError> {
        self.check_points(devices, &points)?;
        let mut new: HashMap<Topic, Arc<ControlPoint>> = HashMap::new();
        for point in points {
            self.devices.entry(point.device).or_default();
            new.insert(point.topic.clone(), Arc::new(point));
        }
        for device in devices {
            self.drop_changed(now, *device, &new);
        }
        self.points.retain(|_, point| !devices.contains(&point.device));
        let kept: HashSet<DeviceId> = new.values().map(|point| point.device).collect();
        self.points.extend(new);
        let is_idle = |id: &DeviceId, out: bool| !devices.contains(id) || kept.contains(id) || out;
        self.devices.retain(|id, device| is_idle(id, device.out.is_some()));
        Ok(())
    }

    /// A device is gone for good: what is out at it may have been carried out.
    pub fn forget_devices(&mut self, now: Now, devices: impl IntoIterator<Item = DeviceId>) {
        for device in devices {
            self.handle_link(now, device, false);
            self.devices.remove(&device);
        }
    }

    /// Ends the commands that wait for points that are not the same among `new`.
    fn drop_changed(&mut self, now: Now, id: DeviceId, new: &HashMap<Topic, Arc<ControlPoint>>) {
        let Some(device) = self.devices.get_mut(&id) else { return };
        let waiting = core::mem::take(&mut device.waiting).into_iter();
        let (kept, dropped): (VecDeque<_>, VecDeque<_>) = waiting.partition(|command_id| {
            let point = self.pending.get(command_id).map(|pending| &pending.point);
            point.is_some_and(|point| new.get(&point.topic).is_some_and(|new| new == point))
        });
        device.waiting = kept;
        for command_id in dropped {
            let is_gone = self.pending.get(&command_id).is_none_or(|pending| !new.contains_key(&pending.point.topic));
            let refusal = if is_gone { away_unsent() } else { changed_unsent() };
            self.finish(now, command_id, Phase::Dropped, Err(refusal));
            self.forget(command_id);
        }
    }
}
