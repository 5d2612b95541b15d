//! Joins the commands with who may give them: reservations, overrides, tags, rules of points, reverts and confirmations.

mod batches;
mod grounds;
mod job;
mod lanes;
mod limits;
mod outcomes;
mod replace;
mod restart;
mod reverts;
mod tags;
mod tenure;
#[cfg(test)]
mod tests;

pub use limits::{CoordinatorLimits, CoordinatorStats};
pub use replace::{DevicePoints, PointChange};

use self::grounds::Grounds;
use self::job::{Hold, Job, JobId, Key, Lane, OpenBatch};
use crate::batch::BatchEvent;
use crate::overrides::Overrides;
use crate::rules::PointRules;
use crate::schedule::{Announcement, Schedule, ScheduleEvent};
use crate::tags::Tags;
use crate::{AuditRecord, CommandId, Control, ControlPoint, Dispatch, Entry, PointError};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use hashbrown::{HashMap, HashSet};
use tieline_core::{CommandOutcome, Deadlines, DeviceId, Instant, Now, Point, Refusal, Topic};

/// Commands of many holders to many devices.
///
/// After any `handle_*`, drain in this order: [`Coordinator::poll_command`], [`Coordinator::poll_entry`],
/// [`Coordinator::poll_audit`]; then make the entries and records durable; then send the commands. Then drain the events,
/// and call [`Coordinator::handle_timeout`] when [`Coordinator::timeout`] has passed, and after a step of the wall clock.
#[derive(Debug)]
pub struct Coordinator {
    limits: CoordinatorLimits,
    control: Control,
    grounds: Grounds,
    points: BTreeMap<Key, Arc<ControlPoint>>,
    jobs: BTreeMap<JobId, Job>,
    next_job: JobId,
    batches: HashMap<u64, OpenBatch>,
    next_batch: u64,
    lanes: HashMap<DeviceId, Lane>,
    /// Lanes that wait for room among the commands under way.
    starved: VecDeque<DeviceId>,
    deadlines: Deadlines<JobId>,
    /// Jobs that wait for readings of a topic.
    confirming: HashMap<Topic, Vec<JobId>>,
    holds: BTreeMap<Key, Hold>,
    revert_at: Deadlines<Key>,
    /// Holders that have not come back after a restart.
    absent: HashMap<Arc<str>, Instant>,
    absent_until: Deadlines<Arc<str>>,
    events: VecDeque<BatchEvent>,
    schedule_events: VecDeque<ScheduleEvent>,
    entries: VecDeque<Entry>,
    counts: CoordinatorStats,
}

impl Coordinator {
    /// Without points. Audit records are numbered from `first_record`.
    #[must_use]
    pub fn new(limits: CoordinatorLimits, first_record: u64) -> Self {
        let grounds = Grounds {
            schedule: Schedule::new(limits.schedule),
            overrides: Overrides::default(),
            tags: Tags::default(),
            devices: HashMap::new(),
            device_ids: HashMap::new(),
            rules: HashMap::new(),
            readings: HashMap::new(),
            watched: HashSet::new(),
            commanded: HashMap::new(),
            gone: HashMap::new(),
            is_reservation_required: limits.is_reservation_required,
        };
        Self {
            control: Control::with_late_outcomes(limits.control, first_record),
            limits,
            grounds,
            points: BTreeMap::new(),
            jobs: BTreeMap::new(),
            next_job: 1,
            batches: HashMap::new(),
            next_batch: 1,
            lanes: HashMap::new(),
            starved: VecDeque::new(),
            deadlines: Deadlines::default(),
            confirming: HashMap::new(),
            holds: BTreeMap::new(),
            revert_at: Deadlines::default(),
            absent: HashMap::new(),
            absent_until: Deadlines::default(),
            events: VecDeque::new(),
            schedule_events: VecDeque::new(),
            entries: VecDeque::new(),
            counts: CoordinatorStats::default(),
        }
    }

    /// Names a device as the schedule and overrides know it. One without a name is known by its points' topics without
    /// their last level.
    pub fn add_device(&mut self, device: DeviceId, topic: Topic) {
        self.control.add_device(device);
        self.grounds.device_ids.insert(topic.clone(), device);
        self.grounds.devices.insert(device, topic);
    }

    /// Adds a point, as [`Control::add_point`] does.
    ///
    /// # Errors
    /// The point contradicts itself, its topic is taken, or the table is full.
    pub fn add_point(&mut self, point: ControlPoint) -> Result<(), PointError> {
        let topic = point.topic.clone();
        self.control.add_point(point)?;
        if let Ok(point) = self.control.resolve(&topic, true) {
            self.points.insert((point.device, point.point), point);
        }
        Ok(())
    }

    /// Gives a point its rules.
    ///
    /// # Errors
    /// There is no such point, a number is not finite or below zero, or the point does not take what it is reverted to.
    pub fn set_rules(&mut self, topic: &Topic, rules: PointRules) -> Result<(), Refusal> {
        let point = self.control.resolve(topic, false)?;
        rules.check(&point)?;
        let others = rules.interlocks.iter().map(|interlock| &interlock.topic);
        let read_back = rules.read_back.iter().filter_map(|by| by.topic.as_ref());
        self.grounds.watched.extend(others.chain(read_back).chain([topic]).cloned());
        self.grounds.rules.insert((point.device, point.point), Arc::new(rules));
        Ok(())
    }

    /// The point of a topic.
    #[must_use]
    pub fn point(&self, topic: &str) -> Option<&ControlPoint> {
        self.control.point(topic)
    }

    /// The topic of the device of a point that can be commanded; any other topic is its own.
    #[must_use]
    pub fn device_topic<'a>(&'a self, topic: &'a str) -> &'a str {
        self.point(topic).map_or(topic, |point| self.grounds.device_topic(point))
    }

    /// Whether a topic is that of a device here, or of a point of one.
    #[must_use]
    pub fn has_device(&self, topic: &str) -> bool {
        self.grounds.device_ids.contains_key(topic) || self.point(topic).is_some()
    }

    /// The reservations.
    #[must_use]
    pub const fn schedule(&self) -> &Schedule {
        &self.grounds.schedule
    }

    /// The overrides.
    #[must_use]
    pub const fn overrides(&self) -> &Overrides {
        &self.grounds.overrides
    }

    /// Whether readings of a topic are of any use to [`Coordinator::handle_reading`].
    #[must_use]
    pub fn watches(&self, topic: &str) -> bool {
        self.grounds.watched.contains(topic) || self.confirming.contains_key(topic)
    }

    /// Takes a reading in engineering units: it may confirm a command, and interlocks look at it.
    pub fn handle_reading(&mut self, now: Now, topic: &Topic, reading: &Point) {
        if self.grounds.watched.contains(topic) {
            self.grounds.readings.insert(topic.clone(), (now.mono, reading.clone()));
        }
        self.confirm_by(now, topic, reading);
    }

    /// Takes whether a device can be reached.
    pub fn handle_link(&mut self, now: Now, device: DeviceId, is_online: bool) {
        self.control.handle_link(now, device, is_online);
        if is_online {
            self.unblock(now, device);
        }
        self.follow_device(now, device);
    }

    /// Takes what the end of commands at a device means, and gives it the next ones.
    fn follow_device(&mut self, now: Now, device: DeviceId) {
        self.settle(now);
        self.feed(now, device);
        self.settle(now);
    }

    /// Takes what became of the command that is out at a device.
    pub fn handle_outcome(&mut self, now: Now, device: DeviceId, command_id: CommandId, outcome: CommandOutcome) {
        self.control.handle_outcome(now, device, command_id, outcome);
        self.settle(now);
    }

    /// Lets deadlines that have passed take effect.
    pub fn handle_timeout(&mut self, now: Now) {
        self.control.handle_timeout(now);
        self.grounds.schedule.handle_timeout(now);
        self.end_overrides(now);
        self.end_absences(now);
        self.settle(now);
        while let Some((_, id)) = self.deadlines.take_next(now.mono) {
            self.expire(now, id);
        }
        self.settle(now);
    }

    /// When [`Coordinator::handle_timeout`] must be called at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        let grounds = &self.grounds;
        let commands = [self.control.timeout(), self.deadlines.timeout(), self.revert_at.timeout()];
        let others = [grounds.schedule.timeout(), grounds.overrides.timeout(), self.absent_until.timeout()];
        commands.into_iter().chain(others).flatten().min()
    }

    /// The next command. It is allowed at this moment; what waited and is not any more has been refused.
    pub fn poll_command(&mut self, now: Now) -> Option<Dispatch> {
        self.handle_timeout(now);
        loop {
            self.feed_starved(now);
            let (grounds, jobs, holds) = (&self.grounds, &self.jobs, &self.holds);
            let allows = |id| {
                lanes::allows(grounds, jobs, holds, now, id)?;
                Ok(lanes::window(grounds, jobs, now, id))
            };
            if let Some((dispatch, id)) = self.control.poll_allowed(now, allows) {
                self.handle_sent(now, id);
                self.settle(now);
                return Some(dispatch);
            }
            if !self.settle(now) {
                return None;
            }
        }
    }

    /// The next record that must be durable before the commands that were polled before it are sent.
    pub fn poll_entry(&mut self) -> Option<Entry> {
        self.entries.pop_front()
    }

    /// The next record for the audit log.
    pub fn poll_audit(&mut self) -> Option<AuditRecord> {
        self.control.poll_audit()
    }

    /// The next answer of a batch.
    pub fn poll_event(&mut self) -> Option<BatchEvent> {
        self.events.pop_front()
    }

    /// The next task that was pre-empted, or device that changed hands.
    pub fn poll_schedule_event(&mut self) -> Option<ScheduleEvent> {
        self.schedule_events.pop_front()
    }

    /// The next reserved device whose state is to be announced.
    pub fn poll_announcement(&mut self, now: Now) -> Option<Announcement> {
        self.grounds.schedule.poll_announcement(now)
    }

    /// Sizes and counts.
    #[must_use]
    pub fn stats(&self) -> CoordinatorStats {
        CoordinatorStats {
            control: self.control.stats(),
            tasks: self.grounds.schedule.len(),
            overrides: self.grounds.overrides.len(),
            tags: self.grounds.tags.len(),
            jobs: self.jobs.len(),
            holds: self.holds.len(),
            ..self.counts
        }
    }

    /// Acts on what the parts have to tell; false where they had nothing.
    fn settle(&mut self, now: Now) -> bool {
        let mut was_any = false;
        loop {
            if let Some(done) = self.control.poll_done() {
                self.handle_done(now, done);
            } else if let Some(late) = self.control.poll_late() {
                self.handle_late(now, &late);
            } else if let Some(event) = self.grounds.schedule.poll_event() {
                self.handle_schedule_event(now, event);
            } else if let Some((at, key)) = self.revert_at.take_next(now.mono) {
                self.queue_revert(now, at, key);
            } else {
                break;
            }
            was_any = true;
        }
        let grounds = &mut self.grounds;
        self.entries.extend(core::iter::from_fn(|| grounds.schedule.poll_entry()));
        self.entries.extend(core::iter::from_fn(|| grounds.overrides.poll_entry()));
        self.entries.extend(core::iter::from_fn(|| grounds.tags.poll_entry()));
        was_any
    }
}

/// The points of a device.
fn range_of(device: DeviceId) -> core::ops::RangeInclusive<Key> {
    (device, tieline_core::PointId(0))..=(device, tieline_core::PointId(u32::MAX))
}
