//! Which properties each part of a poll reads: as many as fit one request of the device.

use crate::config::{BacnetConfig, DeviceConfig, PointConfig};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_bacnet::device::Device;
use tieline_bacnet::{ObjectId, PropertyId, PropertyRef};
use tieline_core::PointId;
use tieline_poll::PollClass;

/// A property of a point that is read: its own, or the status flags of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    /// The number of the point.
    pub(super) point: u32,
    /// Whether it is its status flags.
    pub(super) is_flags: bool,
}

/// What one request reads. A copy is of the same lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) class: PollClass,
    pub(super) number: u16,
    /// Flags follow the value of their point.
    pub(super) wanted: Rc<[Wanted]>,
    /// The properties, in the same order.
    pub(super) references: Rc<[PropertyRef]>,
}

impl Part {
    /// Of nothing.
    pub(super) fn empty(class: PollClass, number: u16) -> Self {
        Self { class, number, wanted: Rc::default(), references: Rc::default() }
    }

    /// The same without those that are not there.
    pub(super) fn without(&self, absent: &HashSet<Wanted>) -> Self {
        if absent.is_empty() {
            return self.clone();
        }
        let both = self.wanted.iter().zip(self.references.iter()).filter(|(wanted, _)| !absent.contains(wanted));
        let (wanted, references): (Vec<Wanted>, Vec<PropertyRef>) = both.unzip();
        Self { wanted: wanted.into(), references: references.into(), ..self.clone() }
    }
}

/// The points of a device and how often each is read.
#[derive(Debug)]
pub(super) struct Plan {
    points: Arc<[PointConfig]>,
    /// Intervals by class.
    polls: Vec<Duration>,
    status_flags: bool,
    cov: bool,
}

impl Plan {
    pub(super) fn new(config: &DeviceConfig, bacnet: &BacnetConfig) -> Self {
        let (points, polls) = (Arc::clone(&config.points), config.polls.clone());
        Self { points, polls, status_flags: bacnet.status_flags, cov: bacnet.cov }
    }

    pub(super) fn classes(&self) -> impl Iterator<Item = PollClass> + use<> {
        (0..u8::try_from(self.polls.len()).unwrap_or(u8::MAX)).map(PollClass)
    }

    pub(super) fn point(&self, number: u32) -> Option<&PointConfig> {
        self.points.get(usize::try_from(number).ok()?)
    }

    /// The point that has the name of another plan's; none that it has where there is none.
    pub(super) fn same(&self, other: &Self, point: PointId) -> PointId {
        let name = other.point(point.0).map(|point| &point.name);
        let at = self.points.iter().position(|point| Some(&point.name) == name);
        PointId(at.and_then(|at| u32::try_from(at).ok()).unwrap_or(u32::MAX))
    }

    /// Whether points have the same numbers and addresses, and are read in the same way.
    pub(super) fn reads_same(&self, other: &Self) -> bool {
        let how = |plan: &Self| (plan.status_flags, plan.cov, plan.points.len());
        let each = |plan: &'_ Self| -> Vec<_> {
            plan.points.iter().map(|point| (point.name.clone(), point.kind, point.address.clone())).collect()
        };
        how(self) == how(other) && each(self) == each(other)
    }

    pub(super) fn reference(&self, wanted: Wanted) -> Option<PropertyRef> {
        let reference = self.point(wanted.point)?.address.bacnet()?.reference;
        Some(if wanted.is_flags { PropertyRef::new(reference.object, PropertyId::STATUS_FLAGS) } else { reference })
    }

    /// The points whose changes the device is to tell, by object.
    pub(super) fn told(&self) -> Vec<(ObjectId, u32)> {
        let told = |(point, number): (&PointConfig, u32)| {
            let address = point.address.bacnet().filter(|address| address.wants_cov(self.cov))?;
            Some((address.reference.object, number))
        };
        self.points.iter().zip(0..).filter_map(told).collect()
    }

    /// The property of a point, and the status flags of its object where they are wanted.
    pub(super) fn wanted(&self, point: u32) -> impl Iterator<Item = Wanted> {
        let address = self.point(point).and_then(|point| point.address.bacnet());
        let has_flags = self.status_flags && address.is_some_and(|address| address.is_present_value());
        let own = Wanted { point, is_flags: false };
        std::iter::once(own).chain(has_flags.then_some(Wanted { point, is_flags: true }))
    }

    /// The parts of all classes for a device, which tells changes of these objects.
    pub(super) fn parts(&self, device: &Device, subscribed: &HashSet<ObjectId>) -> Vec<Part> {
        let mut parts = Vec::new();
        for class in self.classes() {
            let mut points: Vec<(PropertyRef, u32)> = self
                .points
                .iter()
                .zip(0..)
                .filter(|(point, _)| self.class_of(point, subscribed) == Some(class))
                .filter_map(|(point, number)| Some((point.address.bacnet()?.reference, number)))
                .collect();
            // Properties of one object share its name in a request.
            points.sort_unstable_by_key(|(reference, number)| (reference.object, reference.property, *number));
            let wanted: Vec<Wanted> = points.iter().flat_map(|(_, point)| self.wanted(*point)).collect();
            let references: Vec<PropertyRef> = wanted.iter().filter_map(|wanted| self.reference(*wanted)).collect();
            let (mut from, mut number) = (0, 0_u16);
            while from < wanted.len() {
                let end = whole(&wanted, from, device.fitting(references.get(from..).unwrap_or_default()));
                parts.push(Part {
                    class,
                    number,
                    wanted: wanted.get(from..end).unwrap_or_default().into(),
                    references: references.get(from..end).unwrap_or_default().into(),
                });
                (from, number) = (end, number.saturating_add(1));
            }
        }
        parts
    }

    fn class_of(&self, point: &PointConfig, subscribed: &HashSet<ObjectId>) -> Option<PollClass> {
        let address = point.address.bacnet()?;
        let every = point.every.or_else(|| self.polls.first().copied())?;
        let is_told = address.wants_cov(self.cov) && subscribed.contains(&address.reference.object);
        let every = if is_told { crate::config::rarely(every) } else { every };
        let at = self.polls.iter().position(|known| *known == every).unwrap_or(0);
        u8::try_from(at).ok().map(PollClass)
    }
}

/// The end of a part of about so many: a value and its flags stay together.
fn whole(wanted: &[Wanted], from: usize, count: usize) -> usize {
    let end = from + count.max(1);
    let splits = wanted.get(end).is_some_and(|next| next.is_flags);
    match splits {
        true if count > 1 => end - 1,
        true => end + 1,
        false => end.min(wanted.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_and_its_flags_stay_together() {
        let wanted: Vec<Wanted> =
            (0..3).flat_map(|point| [false, true].map(|is_flags| Wanted { point, is_flags })).collect();
        let check = |from, count, expect| assert_eq!(whole(&wanted, from, count), expect, "{from} {count}");
        check(0, 1, 2);
        check(0, 2, 2);
        check(0, 3, 2);
        check(2, 3, 4);
        check(4, 100, 6);
        check(4, 0, 6);
    }
}
