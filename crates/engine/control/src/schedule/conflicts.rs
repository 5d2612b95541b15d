//! The slots of one device.

use super::request::{Owner, Slot};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};
use tieline_core::Timestamp;

/// Slots that never overlap, and beside them what a pre-empted task keeps for its grace time.
#[derive(Debug, Default)]
pub(super) struct DeviceSlots {
    /// By start: the end, and the task.
    slots: BTreeMap<Timestamp, (Timestamp, Arc<str>)>,
    /// Start, end and task; the one that was pre-empted last comes last. There are two only after a step of the wall clock.
    grace: Vec<(Timestamp, Timestamp, Arc<str>)>,
    /// The holder as it was told last.
    pub(super) shown: Option<Owner>,
}

impl DeviceSlots {
    pub(super) fn add(&mut self, slot: &Slot, task: &Arc<str>, is_grace: bool) {
        if is_grace {
            self.grace.push((slot.start, slot.end, task.clone()));
        } else if slot.start < slot.end {
            self.slots.insert(slot.start, (slot.end, task.clone()));
        }
    }

    pub(super) fn remove(&mut self, slot: &Slot, task: &str) {
        self.grace.retain(|(_, _, of)| **of != *task);
        if self.slots.get(&slot.start).is_some_and(|(_, of)| **of == *task) {
            self.slots.remove(&slot.start);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.grace.is_empty()
    }

    /// The task that holds the device, and until when. What a pre-empted task keeps comes first.
    pub(super) fn holder(&self, utc: Timestamp, has_grace: impl Fn(&str) -> bool) -> Option<(&str, Timestamp)> {
        if let Some((_, end, task)) = self.grace.iter().rfind(|(_, end, task)| utc < *end && has_grace(task)) {
            return Some((task, *end));
        }
        let (_, (end, task)) = self.slots.range(..=utc).next_back()?;
        (utc < *end).then_some((task, *end))
    }

    /// The slots that begin later, the next one first: start and task.
    pub(super) fn later(&self, utc: Timestamp) -> impl Iterator<Item = (Timestamp, &str)> {
        let slots = self.slots.range((Excluded(utc), Unbounded));
        slots.map(|(start, (_, task))| (*start, &**task))
    }

    /// What crosses a slot: task, start, end.
    pub(super) fn crossing(&self, slot: &Slot) -> Vec<(Arc<str>, Timestamp, Timestamp)> {
        let before_end = self.slots.range(..slot.end).rev();
        let crossing = before_end.take_while(|(_, (end, _))| *end > slot.start);
        let mut found: Vec<_> = crossing.map(|(start, (end, task))| (task.clone(), *start, *end)).collect();
        found.reverse();
        let grace = self.grace.iter().filter(|(start, end, _)| *start < slot.end && slot.start < *end);
        found.extend(grace.map(|(start, end, task)| (task.clone(), *start, *end)));
        found
    }
}
