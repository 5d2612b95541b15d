//! The tasks, and who holds each device.

use super::conflicts::DeviceSlots;
use super::leases::{Lease, Leases};
use super::parse::{Asked, parse};
use super::request::{
    Announcement, NewSchedule, Owner, Priority, ScheduleData, ScheduleEvent, ScheduleLimits, ScheduleResult, Slot,
    TaskRecord,
};
use crate::Entry;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Included};
use core::time::Duration;
use hashbrown::HashMap;
use tieline_core::{Deadlines, Instant, Now, Timestamp, Topic};

/// A step back of the wall clock that ends no slot.
pub const CLOCK_SLACK: Duration = Duration::from_secs(5);

/// How long a step of the wall clock may be unnoticed where nobody asks in between.
const CLOCK_CHECK_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Task {
    pub(super) owner: Owner,
    pub(super) priority: Priority,
    pub(super) slots: Vec<Slot>,
    start: Timestamp,
    end: Timestamp,
    /// When a pre-empted task ends, on both clocks.
    grace: Option<(Instant, Timestamp)>,
    lease: Option<Lease>,
}

impl Task {
    fn new(owner: Owner, priority: Priority, slots: Vec<Slot>, lease: Option<Lease>) -> Self {
        let start = slots.iter().map(|slot| slot.start).min().unwrap_or_default();
        let end = slots.iter().map(|slot| slot.end).max().unwrap_or_default();
        Self { owner, priority, slots, start, end, grace: None, lease }
    }

    /// Whether it is between its first and its last moment, gaps between its slots included.
    fn is_running(&self, utc: Timestamp) -> bool {
        self.grace.is_none() && self.start <= utc && utc < self.end
    }

    fn can_preempt(priority: Priority, other: &Self, utc: Timestamp) -> bool {
        match (priority, other.priority) {
            (Priority::Low | Priority::LowPreempt, _) | (Priority::High, Priority::High) => false,
            (Priority::High, Priority::Low) => !other.is_running(utc),
            (Priority::High, Priority::LowPreempt) => true,
        }
    }

    fn record(&self) -> TaskRecord {
        TaskRecord {
            owner: self.owner.clone(),
            priority: self.priority,
            slots: self.slots.clone(),
            grace_end: self.grace.map(|(_, utc)| utc),
            lease: self.lease.map(|lease| lease.span),
        }
    }
}

/// Tasks with their time slots at devices. After any call, drain [`Schedule::poll_event`], [`Schedule::poll_entry`] and
/// [`Schedule::poll_announcement`], and call [`Schedule::handle_timeout`] when [`Schedule::timeout`] has passed.
#[derive(Debug)]
pub struct Schedule {
    limits: ScheduleLimits,
    tasks: BTreeMap<Arc<str>, Task>,
    slots: usize,
    devices: HashMap<Topic, DeviceSlots>,
    /// Where the holder of a device may change, and how many slots begin or end there.
    boundaries: BTreeMap<Timestamp, BTreeMap<Topic, usize>>,
    ends: BTreeSet<(Timestamp, Arc<str>)>,
    graces: Deadlines<Arc<str>>,
    leases: Leases,
    seen: Timestamp,
    check_at: Option<Instant>,
    announce_at: Instant,
    events: VecDeque<ScheduleEvent>,
    due: BTreeSet<Topic>,
    entries: VecDeque<Entry>,
}

impl Schedule {
    /// Without tasks.
    #[must_use]
    pub fn new(limits: ScheduleLimits) -> Self {
        Self {
            limits,
            tasks: BTreeMap::new(),
            slots: 0,
            devices: HashMap::new(),
            boundaries: BTreeMap::new(),
            ends: BTreeSet::new(),
            graces: Deadlines::default(),
            leases: Leases::default(),
            seen: Timestamp::default(),
            check_at: None,
            announce_at: Instant::ZERO,
            events: VecDeque::new(),
            due: BTreeSet::new(),
            entries: VecDeque::new(),
        }
    }

    /// Grants a request, or says why not.
    pub fn request(&mut self, now: Now, request: &NewSchedule) -> ScheduleResult {
        self.handle_timeout(now);
        if request.task.as_ref().is_some_and(|task| self.tasks.contains_key(&**task)) {
            return ScheduleResult::failure("TASK_ID_ALREADY_EXISTS");
        }
        let asked = match parse(request, &self.limits).and_then(|asked| self.has_room(asked)) {
            Ok(asked) => asked,
            Err(failure) => return failure,
        };
        let (mut in_the_way, mut losing) = (Vec::new(), Vec::new());
        for (task, slots) in self.conflicts(&asked) {
            let Some(other) = self.tasks.get(&task) else { continue };
            if Task::can_preempt(asked.priority, other, self.seen) {
                losing.push(other.owner.clone());
            } else {
                in_the_way.push((other.owner.clone(), slots));
            }
        }
        if !in_the_way.is_empty() {
            let data = ScheduleData::Conflicts(in_the_way);
            return ScheduleResult { data, ..ScheduleResult::failure("CONFLICTS_WITH_EXISTING_SCHEDULES") };
        }
        for loser in &losing {
            self.preempt(now, loser, &asked.owner);
        }
        let lease = asked.lease.map(|span| Lease::new(span, now.mono));
        self.add(now, Task::new(asked.owner, asked.priority, asked.slots, lease));
        self.handle_timeout(now);
        ScheduleResult { lease: asked.lease, ..ScheduleResult::success(ScheduleData::Preempted(losing)) }
    }

    /// Ends a task.
    pub fn cancel(&mut self, now: Now, requester: Option<&str>, task: Option<&str>) -> ScheduleResult {
        self.handle_timeout(now);
        let task = match self.task_of(requester, task) {
            Ok(task) => task.owner.task.clone(),
            Err(failure) => return failure,
        };
        self.remove(now, &task);
        self.handle_timeout(now);
        ScheduleResult::success(ScheduleData::Empty)
    }

    /// Renews the lease of a task, and with it all leases of its requester.
    pub fn renew(&mut self, now: Now, requester: Option<&str>, task: Option<&str>) -> ScheduleResult {
        self.handle_timeout(now);
        let (requester, lease) = match self.task_of(requester, task) {
            Ok(task) => (task.owner.requester.clone(), task.lease.map(|lease| lease.span)),
            Err(failure) => return failure,
        };
        self.hear(now.mono, &requester);
        ScheduleResult { lease, ..ScheduleResult::success(ScheduleData::Empty) }
    }

    /// A requester gave a sign of life: its leases begin again.
    pub fn hear(&mut self, now: Instant, requester: &str) {
        self.leases.hear(now, requester);
    }

    /// When the lease of a task ends if its requester is not heard; none where it has none, or no device yet.
    #[must_use]
    pub fn lease_end(&self, now: Now, task: &str) -> Option<Timestamp> {
        let task = self.tasks.get(task)?;
        let end = self.leases.end(&task.owner.requester, task.lease.as_ref()?)?;
        Some(now.utc.later(end.since(now.mono)))
    }

    fn task_of(&self, requester: Option<&str>, task: Option<&str>) -> Result<&Task, ScheduleResult> {
        let Some(found) = task.and_then(|task| self.tasks.get(task)) else {
            return Err(ScheduleResult::failure("TASK_ID_DOES_NOT_EXIST"));
        };
        if requester != Some(&*found.owner.requester) {
            return Err(ScheduleResult::failure("AGENT_ID_TASK_ID_MISMATCH"));
        }
        Ok(found)
    }

    /// Ends the tasks of a requester that have started; those that have not are kept for when it is back.
    pub fn release(&mut self, now: Now, requester: &str) {
        self.handle_timeout(now);
        let has_begun = |task: &Task| task.grace.is_some() || task.start <= self.seen;
        let is_started = |task: &&Task| &*task.owner.requester == requester && has_begun(task);
        let started: Vec<Arc<str>> =
            self.tasks.values().filter(is_started).map(|task| task.owner.task.clone()).collect();
        for task in started {
            self.remove(now, &task);
        }
        self.handle_timeout(now);
    }

    /// Who holds a device at this moment, and until when.
    #[must_use]
    pub fn holder(&self, now: Now, device: &str) -> Option<(&Owner, Timestamp)> {
        let (task, end) = self.devices.get(device)?.holder(self.wall(now.utc), |task| self.has_grace(task, now))?;
        let task = self.tasks.get(task)?;
        // The grace time is on the monotonic clock, whatever the wall clock says of its end.
        let end = task.grace.map_or(end, |(until, _)| end.min(now.utc.later(until.since(now.mono))));
        Some((&task.owner, end))
    }

    /// How long a requester may still command a device: until its slot ends, or where nobody holds the device, until
    /// another's begins. None: for ever.
    pub(crate) fn window(&self, now: Now, device: &str, requester: &str) -> Option<Duration> {
        if let Some((_, end)) = self.holder(now, device) {
            return Some(until(now.utc, end));
        }
        let mut later = self.devices.get(device)?.later(self.wall(now.utc));
        let is_another = |task: &str| self.tasks.get(task).is_some_and(|task| &*task.owner.requester != requester);
        let (start, _) = later.find(|(_, task)| is_another(task))?;
        Some(until(now.utc, start))
    }

    /// How many tasks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whose a task is.
    #[must_use]
    pub fn owner_of(&self, task: &str) -> Option<&Owner> {
        self.tasks.get(task).map(|task| &task.owner)
    }

    /// Whether a requester has a task.
    #[must_use]
    pub fn has_requester(&self, requester: &str) -> bool {
        self.tasks.values().any(|task| *task.owner.requester == *requester)
    }

    /// The tasks, by name.
    pub fn tasks(&self) -> impl Iterator<Item = TaskRecord> {
        self.tasks.values().map(Task::record)
    }

    /// Lets slots begin and end.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some((_, task)) = self.graces.take_next(now.mono) {
            self.remove(now, &task);
        }
        while let Some(task) = self.leases.take_due(now.mono) {
            self.end_lease(now, &task);
        }
        let utc = self.wall(now.utc);
        let changed: BTreeSet<Topic> = if utc < self.seen {
            self.devices.keys().cloned().collect()
        } else {
            let passed = self.boundaries.range((Excluded(self.seen), Included(utc)));
            passed.flat_map(|(_, devices)| devices.keys().cloned()).collect()
        };
        self.seen = utc;
        for device in changed {
            self.evaluate(now, &device);
        }
        while let Some((_, task)) = self.ends.first().filter(|(end, _)| *end <= utc).cloned() {
            self.remove(now, &task);
        }
        if now.mono >= self.announce_at {
            self.announce_at = now.mono + self.limits.announce_every;
            let held = self.devices.iter().filter(|(_, slots)| slots.shown.is_some());
            self.due = held.map(|(device, _)| device.clone()).collect();
        }
        self.plan(now);
    }

    /// When [`Schedule::handle_timeout`] must be called at the latest.
    #[must_use]
    pub const fn timeout(&self) -> Option<Instant> {
        self.check_at
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<ScheduleEvent> {
        self.events.pop_front()
    }

    /// The next device whose state is to be announced.
    pub fn poll_announcement(&mut self, now: Now) -> Option<Announcement> {
        while let Some(device) = self.due.pop_first() {
            let Some((owner, end)) = self.holder(now, &device) else { continue };
            let window = until(self.wall(now.utc), end);
            return Some(Announcement { owner: owner.clone(), device, window });
        }
        None
    }

    /// The next record to be kept over restarts.
    pub fn poll_entry(&mut self) -> Option<Entry> {
        self.entries.pop_front()
    }

    /// Takes a task back after a restart. Slots that crossed another's while nobody watched cannot be.
    pub fn restore(&mut self, now: Now, record: TaskRecord) {
        let lease = record.lease.map(|span| Lease::new(span, now.mono));
        let mut task = Task::new(record.owner, record.priority, record.slots, lease);
        if let Some(end) = record.grace_end {
            let left = until(now.utc, end).min(self.limits.grace);
            task.grace = Some((now.mono + left, end));
        }
        if !self.tasks.contains_key(&task.owner.task) {
            self.add(now, task);
        }
    }

    fn has_room(&self, asked: Asked) -> Result<Asked, ScheduleResult> {
        let (tasks, slots) = (self.limits.tasks_max, self.limits.slots_max);
        let waiting = self.entries.len().max(self.events.len());
        let full = if self.tasks.len() >= tasks {
            format!("{tasks} tasks are scheduled")
        } else if self.slots + asked.slots.len() > slots {
            format!("all tasks together may have {slots} time slots")
        } else if waiting >= self.limits.waiting_max {
            format!("{waiting} changes wait to be written")
        } else {
            return Ok(asked);
        };
        Err(ScheduleResult::failure(format!("LIMIT_EXCEEDED: {full}, which is the limit")))
    }

    /// The tasks with slots that cross those asked for.
    fn conflicts(&self, asked: &Asked) -> BTreeMap<Arc<str>, Vec<Slot>> {
        let mut found = BTreeMap::<Arc<str>, Vec<Slot>>::new();
        for slot in &asked.slots {
            let Some(device) = self.devices.get(&slot.device) else { continue };
            for (task, start, end) in device.crossing(slot) {
                found.entry(task).or_default().push(Slot { device: slot.device.clone(), start, end });
            }
        }
        for slots in found.values_mut() {
            slots.dedup();
        }
        found
    }

    fn preempt(&mut self, now: Now, loser: &Owner, by: &Owner) {
        let Some(mut task) = self.take(&loser.task) else { return };
        if task.grace.is_some() {
            return self.add(now, task);
        }
        let (utc, end) = (self.seen, self.seen.later(self.limits.grace));
        let slots = core::mem::take(&mut task.slots);
        let current = slots.iter().filter(|slot| slot.start <= utc && utc < slot.end);
        task.slots = current.map(|slot| Slot { end: slot.end.min(end), ..slot.clone() }).collect();
        let has_current = !task.slots.is_empty();
        let grace = if has_current { self.limits.grace } else { Duration::ZERO };
        self.events.push_back(ScheduleEvent::Preempted { owner: loser.clone(), by: by.clone(), grace });
        if has_current {
            (task.end, task.grace) = (end, Some((now.mono + grace, end)));
            self.add(now, task);
        } else {
            self.entries.push_back(Entry::TaskEnded { task: loser.task.clone() });
        }
        for device in slots.iter().map(|slot| &slot.device).collect::<BTreeSet<_>>() {
            self.evaluate(now, device);
        }
    }

    fn add(&mut self, now: Now, task: Task) {
        let (name, is_grace) = (task.owner.task.clone(), task.grace.is_some());
        for slot in &task.slots {
            self.devices.entry(slot.device.clone()).or_default().add(slot, &name, is_grace);
            for at in [slot.start, slot.end] {
                *self.boundaries.entry(at).or_default().entry(slot.device.clone()).or_default() += 1;
            }
        }
        self.slots += task.slots.len();
        match task.grace {
            Some((until, _)) => self.graces.add(until, name.clone()),
            None => drop(self.ends.insert((task.end, name.clone()))),
        }
        if let Some(lease) = &task.lease {
            self.leases.add(&task.owner.requester, &name, lease);
        }
        self.entries.push_back(Entry::Task(task.record()));
        let devices: BTreeSet<Topic> = task.slots.iter().map(|slot| slot.device.clone()).collect();
        self.tasks.insert(name, task);
        for device in devices {
            self.evaluate(now, &device);
        }
    }

    fn take(&mut self, name: &str) -> Option<Task> {
        let mut task = self.tasks.remove(name)?;
        self.slots -= task.slots.len();
        for slot in &task.slots {
            if let Some(device) = self.devices.get_mut(&slot.device) {
                device.remove(slot, name);
            }
            for at in [slot.start, slot.end] {
                self.unmark(at, &slot.device);
            }
        }
        match task.grace {
            Some((until, _)) => drop(self.graces.remove(until, task.owner.task.clone())),
            None => drop(self.ends.remove(&(task.end, task.owner.task.clone()))),
        }
        if let Some(lease) = &mut task.lease {
            self.leases.remove(&task.owner.requester, &task.owner.task, lease);
        }
        Some(task)
    }

    /// Ends a task whose lease is over; where its requester was heard since, it goes on.
    fn end_lease(&mut self, now: Now, name: &Arc<str>) {
        let Some(task) = self.tasks.get_mut(name) else { return };
        let Some(lease) = &mut task.lease else { return };
        if self.leases.is_over(now.mono, &task.owner.requester, name, lease) {
            let (owner, lease) = (task.owner.clone(), lease.span);
            self.events.push_back(ScheduleEvent::LeaseExpired { owner, lease });
            self.remove(now, name);
        }
    }

    fn remove(&mut self, now: Now, name: &str) {
        let Some(task) = self.take(name) else { return };
        self.entries.push_back(Entry::TaskEnded { task: task.owner.task.clone() });
        for device in task.slots.iter().map(|slot| &slot.device).collect::<BTreeSet<_>>() {
            self.evaluate(now, device);
        }
    }

    fn unmark(&mut self, at: Timestamp, device: &Topic) {
        let Some(devices) = self.boundaries.get_mut(&at) else { return };
        if let Some(count) = devices.get_mut(device) {
            *count -= 1;
            if *count == 0 {
                devices.remove(device);
            }
        }
        if devices.is_empty() {
            self.boundaries.remove(&at);
        }
    }

    /// Finds who holds a device, and tells where that has changed.
    fn evaluate(&mut self, now: Now, device: &Topic) {
        let after = self.holder(now, device).map(|(owner, _)| owner.clone());
        let Some(slots) = self.devices.get_mut(device) else { return };
        let before = core::mem::replace(&mut slots.shown, after.clone());
        if slots.is_empty() && after.is_none() {
            self.devices.remove(device);
        }
        if before == after {
            return;
        }
        if let Some(owner) = &after {
            self.due.insert(device.clone());
            if let Some(lease) = self.tasks.get_mut(&owner.task).and_then(|task| task.lease.as_mut()) {
                self.leases.begin(now.mono, &owner.task, lease);
            }
        }
        self.events.push_back(ScheduleEvent::Changed { device: device.clone(), before, after });
    }

    fn has_grace(&self, task: &str, now: Now) -> bool {
        self.tasks.get(task).and_then(|task| task.grace).is_some_and(|(until, _)| until > now.mono)
    }

    fn wall(&self, utc: Timestamp) -> Timestamp {
        if utc < self.seen && until(utc, self.seen) <= CLOCK_SLACK { self.seen } else { utc }
    }

    fn plan(&mut self, now: Now) {
        if self.tasks.is_empty() {
            self.check_at = None;
            return;
        }
        let boundary = self.boundaries.range((Excluded(self.seen), Included(Timestamp::from_micros(i64::MAX)))).next();
        let next = boundary.map(|(at, _)| now.mono + until(now.utc, *at));
        let check = now.mono + CLOCK_CHECK_EVERY;
        let others = [next, self.graces.timeout(), self.leases.timeout(), Some(self.announce_at)];
        self.check_at = others.into_iter().flatten().chain([check]).min();
    }
}

/// The time from one moment to a later one; zero where it is not later.
pub(crate) fn until(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_micros(u64::try_from(to.micros().saturating_sub(from.micros())).unwrap_or(0))
}
