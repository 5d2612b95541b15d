//! What agents, operators, links and clocks do.

extern crate std;
use super::devices::POINTS;
use super::oracle::Task;
use super::tables::{Table, coordinator};
use super::world::{AGENTS, DEVICES, KEPT, World, name};
use crate::*;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::format;
use std::string::{String, ToString};
use std::sync::Arc;
use std::vec::Vec;
use tieline_core::{Instant, Timestamp, Topic, Value};

impl World {
    pub(super) fn request(&mut self) {
        let (requester, task) = (self.some_agent(), format!("task{}", self.number()));
        let priority = [Priority::High, Priority::Low, Priority::LowPreempt][self.random.below(3) as usize];
        let mut slots = Vec::new();
        for device in 0..DEVICES {
            if self.random.is_one_of(2) {
                let start = self.now.utc.micros() / 1_000_000 + i64::try_from(self.random.below(8)).unwrap() - 2;
                let end = start + i64::try_from(self.random.below(12)).unwrap();
                slots.push((
                    device,
                    Timestamp::from_micros(start * 1_000_000),
                    Timestamp::from_micros(end * 1_000_000),
                ));
            }
        }
        let slot = |slot: &(usize, Timestamp, Timestamp)| SlotRequest {
            device: name(slot.0),
            start: slot.1.to_string(),
            end: slot.2.to_string(),
        };
        let request = NewSchedule {
            requester: Some(requester.clone()),
            task: Some(task.clone()),
            priority: Some(priority.name().into()),
            slots: slots.iter().map(slot).collect(),
            lease: self.random.is_one_of(3).then(|| Duration::from_millis(500 + self.random.below(5_000))),
        };
        self.hear(&requester);
        let result = self.coordinator.request_schedule(self.now, &request, &Arc::from(&*requester));
        self.say(|| format!("{requester} asks {priority:?} {slots:?} {task}: {result:?}"));
        if slots.is_empty() {
            assert_eq!(result.info, "MALFORMED_REQUEST_EMPTY");
            return;
        }
        let asked = Task { requester, name: task, priority, slots, grace: None, lease: request.lease, begun: None };
        let expected = self.oracle.ask(&asked);
        assert_eq!(result.is_success(), expected.is_some(), "{result:?} {expected:?}");
        if let ScheduleData::Preempted(losers) = &result.data {
            let found: BTreeSet<String> = losers.iter().map(|loser| loser.task.to_string()).collect();
            assert_eq!(found, expected.unwrap().into_iter().collect());
            self.counters.granted += 1;
            self.counters.preempted += losers.len() as u64;
            self.oracle.grant(self.now, asked, losers);
        }
    }

    pub(super) fn cancel(&mut self) {
        if self.oracle.tasks.is_empty() {
            return;
        }
        let at = self.random.below(self.oracle.tasks.len() as u64) as usize;
        let task = self.oracle.tasks[at].clone();
        let who = Arc::from(&*task.requester);
        self.hear(&task.requester);
        let result = self.coordinator.cancel_schedule(self.now, Some(&task.requester), Some(&task.name), &who);
        self.say(|| format!("{} cancels {}", task.requester, task.name));
        assert!(result.is_success(), "{result:?}");
        self.oracle.remove(self.now, &task.name);
    }

    /// The node takes any call of an agent for a sign of life.
    fn hear(&mut self, agent: &str) {
        self.coordinator.handle_holder_here(self.now.mono, &Arc::from(agent));
        self.oracle.hear(self.now, agent);
    }

    pub(super) fn renew(&mut self) {
        let agent = self.some_agent();
        let of_agent = |task: &&Task| task.requester == agent;
        let Some(task) = self.oracle.tasks.iter().find(of_agent).cloned() else { return };
        let result = self.coordinator.renew_schedule(self.now, &Arc::from(&*agent), &task.name);
        self.say(|| format!("{agent} renews {}: {result:?}", task.name));
        assert!(result.is_success(), "{result:?}");
        assert_eq!(result.lease, task.lease);
        self.oracle.hear(self.now, &agent);
    }

    pub(super) fn batch(&mut self) {
        let (agent, id) = (self.some_agent(), self.number());
        let mut entries = Vec::new();
        for _ in 0..1 + self.random.below(5) {
            let (device, point) = (self.some_device(), self.random.below(POINTS as u64));
            let value = i64::try_from(self.number()).unwrap();
            self.asked.insert(value, agent.clone());
            entries.push(BatchEntry {
                topic: Topic::new(&format!("{}/p{point}", name(device))).unwrap(),
                topic_exists: true,
                action: Action::Set { value: Value::Int(value), mode: None },
            });
        }
        self.send_batch(&agent, id, entries);
    }

    pub(super) fn revert_request(&mut self) {
        let (agent, id, device) = (self.some_agent(), self.number(), self.some_device());
        let entries = self.coordinator.revert_device(&name(device));
        if entries.is_empty() {
            return;
        }
        self.send_batch(&agent, id, entries);
    }

    pub(super) fn send_batch(&mut self, agent: &str, id: u64, entries: Vec<BatchEntry>) {
        self.say(|| format!("{agent} batch {id} {entries:?}"));
        let (requester, confirm): (Arc<str>, bool) = (agent.into(), self.random.is_one_of(2));
        let places = (0..entries.len()).collect();
        self.hear(agent);
        let timeout = self.random.is_one_of(3).then(|| Duration::from_millis(100 + self.random.below(8_000)));
        let batch =
            Batch { id, requester: requester.clone(), who: requester, entries, timeout, confirm, is_single: false };
        let before = self.coordinator.stats();
        assert_eq!(self.coordinator.dry_run(self.now, &batch).len(), batch.entries.len());
        assert_eq!(self.coordinator.stats(), before);
        self.coordinator.handle_batch(self.now, batch).unwrap();
        self.open.insert(id, places);
    }

    pub(super) fn die(&mut self) {
        let agent = self.some_agent();
        self.counters.deaths += 1;
        self.say(|| format!("{agent} dies"));
        self.coordinator.handle_holder_gone(self.now, &Arc::from(&*agent));
        self.oracle.release(self.now, &agent);
        self.silent.insert(agent, self.next);
    }

    pub(super) fn link(&mut self, device: usize, is_online: bool) {
        self.say(|| format!("d{device} online {is_online}"));
        if is_online {
            self.devices[device].is_online = true;
        } else {
            self.devices[device].lose();
            self.mark_outcome(device, None);
        }
        self.coordinator.handle_link(self.now, self.tables[device].id(), is_online);
    }

    pub(super) fn override_on(&mut self) {
        let pattern = if self.random.is_one_of(4) { "site/*".into() } else { name(self.some_device()) };
        let duration = (!self.random.is_one_of(3)).then(|| Duration::from_millis(1 + self.random.below(6_000)));
        let (failsafe_revert, staggered_revert) = (self.random.is_one_of(2), self.random.is_one_of(2));
        self.counters.overrides += 1;
        self.say(|| format!("override {pattern} {duration:?} failsafe {failsafe_revert}"));
        let parsed: Pattern = pattern.parse().unwrap();
        for device in 0..DEVICES {
            if failsafe_revert && parsed.matches(&name(device)) {
                self.failsafe.extend((0..KEPT).map(|point| (device, point)));
            }
        }
        let who = "operator".into();
        let asked = NewOverride { pattern: parsed, duration, failsafe_revert, staggered_revert, who };
        self.coordinator.set_override_on(self.now, &asked).unwrap();
        let end = duration.map(|duration| self.now.mono + duration);
        let entry = self.overrides.entry(pattern).or_insert(end);
        *entry = entry.zip(end).map(|(old, new)| old.max(new));
    }

    pub(super) fn override_off(&mut self) {
        let Some(pattern) = self.overrides.keys().next().cloned() else { return };
        self.say(|| format!("override off {pattern}"));
        self.overrides.remove(&pattern);
        self.coordinator.set_override_off(self.now, &pattern.parse().unwrap(), &"operator".into()).unwrap();
    }

    pub(super) fn tag(&mut self) {
        let device = self.some_device();
        let point = self.random.below(POINTS as u64);
        let topic = ["site".into(), name(device), format!("{}/p{point}", name(device))];
        let topic = topic[self.random.below(3) as usize].clone();
        let kind = TagKind::ALL[self.random.below(3) as usize];
        let owner = self.some_agent();
        let asked = NewTag {
            topic: Topic::new(&topic).unwrap(),
            kind,
            why: "work".into(),
            owner: owner.as_str().into(),
            who: "operator".into(),
        };
        let record = self.coordinator.place_tag(self.now, &asked).unwrap();
        self.say(|| format!("{record:?}"));
        self.counters.tags += 1;
        assert!(self.tags.insert(record.id, (kind, owner, topic)).is_none(), "a number was used twice");
    }

    pub(super) fn lift(&mut self) {
        let at = self.random.below(self.tags.len().max(1) as u64) as usize;
        let Some(id) = self.tags.keys().nth(at).copied() else { return };
        self.say(|| format!("lift tag {id}"));
        self.tags.remove(&id);
        self.coordinator.lift_tag(self.now, id, &"operator".into()).unwrap();
    }

    pub(super) fn jump(&mut self) {
        let seconds = [-90, -3, -1, 2, 20][self.random.below(5) as usize];
        self.say(|| format!("the clock jumps by {seconds} s"));
        self.counters.jumps += 1;
        self.now.utc = Timestamp::from_micros(self.now.utc.micros() + seconds * 1_000_000);
        self.advance();
    }

    /// A device has another table of points; it may be connected again, by another number.
    pub(super) fn reload(&mut self) {
        let device = self.some_device();
        let before = self.tables[device].clone();
        let mut table = Table::random(&mut self.random, before.id);
        let is_new = self.random.is_one_of(3);
        self.counters.reloads += 1;
        let mut change = PointChange::default();
        if is_new {
            table.id = u32::try_from(self.number()).unwrap() + 1_000;
            change.removed.insert(before.id());
            self.devices[device].lose();
            self.mark_outcome(device, None);
        }
        self.say(|| format!("d{device} has {table:?}"));
        change.changed.push(table.points(device));
        self.tables[device] = table;
        self.coordinator.replace_points(self.now, change).unwrap();
        if is_new && self.random.is_one_of(2) {
            self.link(device, true);
        }
    }

    /// The node is killed and comes back with what was durable. What was out may still be carried out.
    pub(super) fn restart(&mut self) {
        self.say(|| "restart".into());
        self.counters.restarts += 1;
        self.counters.superseded += self.coordinator.stats().superseded;
        self.open.clear();
        for device in 0..DEVICES {
            self.devices[device].lose();
            self.mark_outcome(device, None);
        }
        self.now = self.now.later(Duration::from_millis(self.random.below(3_000)));
        self.coordinator = coordinator(self.limits, &self.tables);
        let entries = core::mem::take(&mut self.durable);
        self.coordinator.restore(self.now, entries);
        self.durable = self.coordinator.snapshot();
        self.oracle.restart(self.now);
        let tags: Vec<u64> = self.coordinator.tags().all().map(|tag| tag.id).collect();
        assert_eq!(tags, self.tags.keys().copied().collect::<Vec<u64>>(), "tags after a restart");
        let now = self.now;
        self.overrides.retain(|_, end| end.is_none_or(|end| end > now.mono));
        // Ends are kept on the wall clock.
        let patterns: BTreeMap<String, Option<Instant>> = self
            .coordinator
            .overrides()
            .patterns()
            .map(|record| {
                let left = |end: Timestamp| u64::try_from(end.micros() - now.utc.micros()).unwrap_or(0);
                let end = record.end.map(|end| now.mono + Duration::from_micros(left(end)));
                (record.pattern.as_str().into(), end)
            })
            .collect();
        self.overrides = patterns;
        for agent in 0..AGENTS {
            if !self.random.is_one_of(3) {
                self.hear(&format!("agent{agent}"));
            }
        }
        for device in 0..DEVICES {
            self.link(device, true);
        }
        self.advance();
    }
}
