//! What outlives a restart.

use super::Coordinator;
use super::job::{Hold, HoldState};
use crate::pattern::Pattern;
use crate::schedule::{Owner, TaskRecord};
use crate::{Entry, HoldRecord, OverrideRecord, TagRecord};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use tieline_core::{Now, Topic};

impl Coordinator {
    /// All that must outlive a restart, as few entries as possible: to begin a new file with.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Entry> {
        let tasks = self.grounds.schedule.tasks().map(Entry::Task);
        let holds = self.holds.keys().filter_map(|key| self.hold_record(*key)).map(Entry::Held);
        let overrides = self.grounds.overrides.patterns().map(Entry::Override);
        tasks.chain(holds).chain(overrides).chain(self.grounds.tags.snapshot()).collect()
    }

    /// Takes the entries of the life before, in their order, once all points and rules are there and before anything else.
    /// Afterwards write [`Coordinator::snapshot`] in their place.
    ///
    /// A holder keeps what it held if its slot is current and [`Coordinator::handle_holder_here`] tells of it within
    /// [`super::CoordinatorLimits::return_within`]; else its points are reverted.
    pub fn restore(&mut self, now: Now, entries: impl IntoIterator<Item = Entry>) {
        let mut tasks = BTreeMap::<Arc<str>, TaskRecord>::new();
        let mut holds = BTreeMap::<Topic, HoldRecord>::new();
        let mut overrides = BTreeMap::<Pattern, OverrideRecord>::new();
        let (mut tags, mut last_tag) = (BTreeMap::<u64, TagRecord>::new(), 0);
        for entry in entries {
            match entry {
                Entry::Task(record) => drop(tasks.insert(record.owner.task.clone(), record)),
                Entry::TaskEnded { task } => drop(tasks.remove(&task)),
                Entry::Held(record) => drop(holds.insert(record.topic.clone(), record)),
                Entry::Released { topic } => drop(holds.remove(&topic)),
                Entry::Override(record) => drop(overrides.insert(record.pattern.clone(), record)),
                Entry::OverrideEnded { pattern } => drop(overrides.remove(&pattern)),
                Entry::Tag(record) => drop(tags.insert(record.id, record)),
                Entry::TagLifted { id } => {
                    last_tag = last_tag.max(id);
                    tags.remove(&id);
                }
            }
        }
        let mut tasks: Vec<TaskRecord> = tasks.into_values().collect();
        // What a pre-empted task keeps is nobody's before its grace time ends.
        tasks.sort_by_key(|task| (task.grace_end.is_none(), task.grace_end));
        for record in tasks {
            self.grounds.schedule.restore(now, record);
        }
        for record in overrides.into_values() {
            self.grounds.overrides.restore(now, record);
        }
        self.grounds.tags.restore(tags.into_values(), last_tag);
        for record in holds.into_values() {
            self.restore_hold(record);
        }
        self.grounds.schedule.handle_timeout(now);
        while self.grounds.schedule.poll_event().is_some() {}
        self.sort_holds(now);
        self.settle(now);
        self.entries.clear();
    }

    fn restore_hold(&mut self, record: HoldRecord) {
        let Ok(point) = self.control.resolve(&record.topic, false) else {
            self.counts.holds_lost += 1;
            return;
        };
        let hold = Hold {
            is_failsafe: record.is_failsafe,
            owner: record.owner,
            revert_to: record.revert_to,
            state: HoldState::Held,
            is_commanded: true,
            attempts: 0,
            tried: None,
        };
        self.holds.insert((point.device, point.point), hold);
    }

    /// Reverts what nobody holds any more, and waits for the holders of the rest.
    fn sort_holds(&mut self, now: Now) {
        let keys: Vec<_> = self.holds.keys().copied().collect();
        for key in keys {
            let Some(point) = self.points.get(&key) else { continue };
            let owner = self.grounds.owner(now, point).cloned();
            let Some(hold) = self.holds.get_mut(&key) else { continue };
            let is_of = |owner: &Owner| hold.owner.as_ref().is_some_and(|of| of.requester == owner.requester);
            match owner.filter(is_of) {
                Some(owner) => {
                    hold.owner = Some(owner.clone());
                    let until = now.mono + self.limits.return_within;
                    if self.absent.insert(owner.requester.clone(), until).is_none() {
                        self.absent_until.add(until, owner.requester);
                    }
                }
                None => self.make_due(key, now.mono),
            }
        }
    }
}
