//! The schedule once more, as a list that is searched from end to end.

extern crate std;
use super::world::DEVICES;
use crate::{Owner, Priority};
use core::time::Duration;
use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;
use tieline_core::{Instant, Now, Timestamp};

pub(super) const GRACE: Duration = Duration::from_secs(5);
const SLACK_MICROS: i64 = 5_000_000;

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) requester: String,
    pub(super) name: String,
    pub(super) priority: Priority,
    /// Device, start, end.
    pub(super) slots: Vec<(usize, Timestamp, Timestamp)>,
    pub(super) grace: Option<(Instant, Timestamp)>,
    pub(super) lease: Option<Duration>,
    /// When its lease began to count.
    pub(super) begun: Option<Instant>,
}

impl Task {
    fn start(&self) -> Timestamp {
        self.slots.iter().map(|slot| slot.1).min().unwrap()
    }

    fn end(&self) -> Timestamp {
        self.slots.iter().map(|slot| slot.2).max().unwrap()
    }
}

#[derive(Debug, Default)]
pub(super) struct Oracle {
    pub(super) tasks: Vec<Task>,
    /// When each requester was last heard.
    heard: BTreeMap<String, Instant>,
    seen: Timestamp,
}

impl Oracle {
    fn wall(&self, utc: Timestamp) -> Timestamp {
        let back = self.seen.micros() - utc.micros();
        if back > 0 && back <= SLACK_MICROS { self.seen } else { utc }
    }

    pub(super) fn advance(&mut self, now: Now) {
        self.seen = self.wall(now.utc);
        let seen = self.seen;
        self.tasks.retain(|task| match task.grace {
            Some((until, _)) => until > now.mono,
            None => task.end() > seen,
        });
        let heard = |task: &Task| self.heard.get(&task.requester).copied().unwrap_or_default();
        self.tasks.retain(|task| {
            let is_over = |(lease, begun): (Duration, Instant)| begun.max(heard(task)) + lease <= now.mono;
            !task.lease.zip(task.begun).is_some_and(is_over)
        });
        for device in 0..DEVICES {
            let Some(name) = self.holder(now, device).map(|task| task.name.clone()) else { continue };
            let holder = self.tasks.iter_mut().find(|task| task.name == name).unwrap();
            holder.begun.get_or_insert(now.mono);
        }
    }

    pub(super) fn hear(&mut self, now: Now, requester: &str) {
        self.heard.insert(requester.into(), now.mono);
    }

    /// Who may command a device.
    pub(super) fn holder(&self, now: Now, device: usize) -> Option<&Task> {
        let utc = self.wall(now.utc);
        // What a pre-empted task keeps has begun, whatever the wall clock says later.
        let is_current = |task: &&Task| {
            let has_begun = |start: Timestamp| task.grace.is_some() || start <= utc;
            task.slots.iter().any(|slot| slot.0 == device && has_begun(slot.1) && utc < slot.2)
        };
        let (grace, plain): (Vec<&Task>, Vec<&Task>) =
            self.tasks.iter().filter(is_current).partition(|task| task.grace.is_some());
        assert!(plain.len() <= 1, "two tasks have device {device}: {plain:?}");
        let grace = grace.into_iter().filter(|task| task.grace.is_some_and(|(until, _)| until > now.mono));
        // There are two only after a step of the wall clock: who was pre-empted last has the device.
        grace.max_by_key(|task| (task.grace, &task.name)).or(plain.first().copied())
    }

    /// How long until a slot of another begins.
    pub(super) fn free_for(&self, now: Now, device: usize, requester: &str) -> Option<Duration> {
        let others = self.tasks.iter().filter(|task| task.requester != requester && task.grace.is_none());
        let slots = others.flat_map(|task| &task.slots).filter(|slot| slot.0 == device && slot.1 < slot.2);
        let start = slots.map(|slot| slot.1.micros()).filter(|start| *start > self.wall(now.utc).micros()).min()?;
        Some(Duration::from_micros(u64::try_from(start - now.utc.micros()).unwrap()))
    }

    /// Whether a request would be granted, and which tasks it would pre-empt.
    pub(super) fn ask(&self, asked: &Task) -> Option<Vec<String>> {
        let crosses = |other: &&Task| {
            let pairs = asked.slots.iter().flat_map(|a| other.slots.iter().map(move |b| (a, b)));
            let mut crossing = pairs.filter(|(a, b)| a.0 == b.0 && a.1 < b.2 && b.1 < a.2 && b.1 < b.2);
            crossing.next().is_some()
        };
        let in_the_way: Vec<&Task> = self.tasks.iter().filter(crosses).collect();
        let loses = |other: &&Task| {
            let is_running = other.grace.is_none() && other.start() <= self.seen && self.seen < other.end();
            asked.priority == Priority::High
                && match other.priority {
                    Priority::High => false,
                    Priority::Low => !is_running,
                    Priority::LowPreempt => true,
                }
        };
        in_the_way.iter().all(loses).then(|| in_the_way.iter().map(|task| task.name.clone()).collect())
    }

    pub(super) fn grant(&mut self, now: Now, asked: Task, losers: &[Owner]) {
        let utc = self.seen;
        let end = utc.later(GRACE);
        for task in &mut self.tasks {
            let loses = losers.iter().any(|loser| *loser.task == *task.name);
            if !loses || task.grace.is_some() {
                continue;
            }
            task.slots.retain(|slot| slot.1 <= utc && utc < slot.2);
            task.slots.iter_mut().for_each(|slot| slot.2 = slot.2.min(end));
            task.grace = Some((now.mono + GRACE, end));
        }
        self.tasks.retain(|task| !task.slots.is_empty());
        self.tasks.push(asked);
        self.advance(now);
    }

    pub(super) fn remove(&mut self, now: Now, name: &str) {
        self.tasks.retain(|task| task.name != name);
        self.advance(now);
    }

    pub(super) fn release(&mut self, now: Now, requester: &str) {
        let seen = self.seen;
        let has_begun = |task: &Task| task.grace.is_some() || task.start() <= seen;
        self.tasks.retain(|task| task.requester != requester || !has_begun(task));
        self.advance(now);
    }

    pub(super) fn restart(&mut self, now: Now) {
        self.seen = Timestamp::default();
        self.heard.values_mut().for_each(|heard| *heard = now.mono);
        self.tasks.iter_mut().for_each(|task| task.begun = None);
        for (until, end) in self.tasks.iter_mut().filter_map(|task| task.grace.as_mut()) {
            let left = u64::try_from(end.micros() - now.utc.micros()).unwrap_or(0);
            *until = now.mono + Duration::from_micros(left).min(GRACE);
        }
        self.advance(now);
    }
}
