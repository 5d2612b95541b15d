//! What decides whether a command is allowed at a moment.

use super::job::{Job, JobId, JobKind, Key};
use crate::ControlPoint;
use crate::overrides::Overrides;
use crate::rules::{Commanded, Known, PointRules, ReadBack, RevertTo};
use crate::schedule::{Owner, Schedule};
use crate::tags::Tags;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use hashbrown::{HashMap, HashSet};
use tieline_core::{DeviceId, Instant, Now, Point, Refusal, Topic, Validity, Value};

#[derive(Debug)]
pub(super) struct Grounds {
    pub(super) schedule: Schedule,
    pub(super) overrides: Overrides,
    pub(super) tags: Tags,
    pub(super) devices: HashMap<DeviceId, Topic>,
    pub(super) device_ids: HashMap<Topic, DeviceId>,
    pub(super) rules: HashMap<Key, Arc<PointRules>>,
    /// The last readings of what rules look at, and when they came.
    pub(super) readings: HashMap<Topic, (Instant, Point)>,
    pub(super) watched: HashSet<Topic>,
    /// The last commands of points with rules.
    pub(super) commanded: HashMap<Key, Commanded>,
    /// Holders that have ended, and the first job that is of a later life.
    pub(super) gone: HashMap<Arc<str>, JobId>,
    pub(super) is_reservation_required: bool,
}

impl Grounds {
    /// The topic of a device; of one without a topic that of the point without its last level.
    pub(super) fn device_topic<'a>(&'a self, point: &'a ControlPoint) -> &'a str {
        let above = || point.topic.as_str().rsplit_once('/').map_or(point.topic.as_str(), |(above, _)| above);
        self.devices.get(&point.device).map_or_else(above, |topic| topic.as_str())
    }

    pub(super) fn rules_of(&self, key: Key) -> Option<&Arc<PointRules>> {
        self.rules.get(&key)
    }

    /// Who has the device of a point.
    pub(super) fn owner(&self, now: Now, point: &ControlPoint) -> Option<&Owner> {
        self.schedule.holder(now, self.device_topic(point)).map(|(owner, _)| owner)
    }

    /// Whether a requester may command a point, by tags, overrides and the schedule.
    pub(super) fn check_hands(
        &self,
        now: Now,
        requester: &str,
        kind: JobKind,
        point: &ControlPoint,
    ) -> Result<(), Refusal> {
        let device = self.device_topic(point);
        self.tags.check(device, &point.topic, Some(requester))?;
        self.check_override(device, kind, point)?;
        // As VOLTTRON's actuator says it.
        let caller = || match kind {
            JobKind::Set => format!("caller ({requester})"),
            JobKind::Revert | JobKind::EndOfHold => "caller".into(),
        };
        match self.schedule.holder(now, device) {
            Some((owner, _)) if *owner.requester == *requester => Ok(()),
            Some((owner, end)) => {
                let detail = format!(
                    "{} does not have this lock: {} has reserved {device} for {} until {end}",
                    caller(),
                    owner.requester,
                    owner.task
                );
                Err(Refusal::new("reserved", detail))
            }
            None if self.is_reservation_required => {
                let detail = format!("{} does not have this lock: {device} is not reserved", caller());
                Err(Refusal::new("not_reserved", detail))
            }
            None => Ok(()),
        }
    }

    /// Whether the node may revert a point whose holder's time is over. A failsafe revert is one of an override itself.
    pub(super) fn check_revert(&self, point: &ControlPoint, is_failsafe: bool) -> Result<(), Refusal> {
        let device = self.device_topic(point);
        self.tags.check(device, &point.topic, None)?;
        if is_failsafe { Ok(()) } else { self.check_override(device, JobKind::EndOfHold, point) }
    }

    fn check_override(&self, device: &str, kind: JobKind, point: &ControlPoint) -> Result<(), Refusal> {
        let Some(pattern) = self.overrides.of(device, &point.topic) else { return Ok(()) };
        let pattern = pattern.as_str();
        let verb = if kind == JobKind::Set { "set" } else { "revert" };
        let detail =
            format!("Cannot {verb} point on device {device} since global override is set by the pattern {pattern:?}");
        Err(Refusal::new("override", detail))
    }

    /// Whether a point's rules allow a value.
    pub(super) fn check_rules(&self, now: Instant, key: Key, topic: &Topic, value: &Value) -> Result<(), Refusal> {
        let Some(rules) = self.rules.get(&key) else { return Ok(()) };
        let known = Known { reading: self.good(topic).and_then(Value::as_f64), commanded: self.commanded.get(&key) };
        let named = |refusal: Refusal| Refusal { detail: format!("{topic}: {}", refusal.detail), ..refusal };
        rules.check_change(now, value, known).map_err(named)?;
        for interlock in &rules.interlocks {
            let reading = self.readings.get(&interlock.topic).map(|(_, reading)| reading);
            interlock.check(reading).map_err(named)?;
        }
        Ok(())
    }

    /// Whether a job may be sent at this moment.
    pub(super) fn check_job(&self, now: Now, id: JobId, job: &Job, is_failsafe: bool) -> Result<(), Refusal> {
        if job.kind == JobKind::EndOfHold {
            return self.check_revert(&job.point, is_failsafe);
        }
        if self.gone.get(&job.requester).is_some_and(|later| id < *later) {
            return Err(holder_gone(&job.requester));
        }
        self.check_hands(now, &job.requester, job.kind, &job.point)?;
        match (job.kind, &job.expected) {
            (JobKind::Set, Some(value)) => self.check_rules(now.mono, job.key(), &job.point.topic, value),
            (JobKind::Set, None) | (JobKind::Revert | JobKind::EndOfHold, _) => Ok(()),
        }
    }

    /// How long a requester may still command a point; none: for ever.
    pub(super) fn window(&self, now: Now, requester: &str, point: &ControlPoint) -> Option<Duration> {
        self.schedule.window(now, self.device_topic(point), requester)
    }

    /// The value of the last reading, where it is good.
    pub(super) fn good(&self, topic: &Topic) -> Option<&Value> {
        let (_, reading) = self.readings.get(topic)?;
        (reading.quality.validity() == Validity::Good).then_some(&reading.value)
    }

    /// What a revert of a point that is not held would set; none: it is relinquished.
    pub(super) fn revert_target(&self, key: Key, topic: &Topic) -> Result<Option<Value>, Refusal> {
        let refuse = |why: &str| Err(Refusal::new("not_revertible", format!("{topic} cannot be reverted: {why}")));
        match self.rules.get(&key).map(|rules| &rules.revert) {
            None | Some(RevertTo::Nothing) => refuse("its rules say nothing to revert to"),
            Some(RevertTo::Value(value)) => Ok(Some(value.clone())),
            Some(RevertTo::Relinquish) => Ok(None),
            Some(RevertTo::Previous) => match self.previous(key, topic) {
                Some(value) => Ok(Some(value)),
                None => refuse("no good reading from before the command is known"),
            },
        }
    }

    /// The value of a point at this moment: of a reading that came after the last command, or else of the command, where
    /// the device has carried it out.
    fn previous(&self, key: Key, topic: &Topic) -> Option<Value> {
        let read_at = self.readings.get(topic).map(|(at, _)| *at);
        let commanded = self.commanded.get(&key);
        let is_newer = |at: Instant| read_at.is_none_or(|read_at| read_at <= at);
        match commanded.filter(|commanded| is_newer(commanded.done_at.unwrap_or(commanded.at))) {
            Some(commanded) => commanded.done_at.map(|_| commanded.value.clone()),
            None => self.good(topic).map(|value| self.command_value(key, value)),
        }
    }

    /// The device has carried out the last command.
    pub(super) fn mark_done(&mut self, now: Now, key: Key) {
        if let Some(commanded) = self.commanded.get_mut(&key) {
            commanded.done_at = Some(now.mono);
        }
    }

    /// What commands the state that a reading shows.
    fn command_value(&self, key: Key, value: &Value) -> Value {
        let is_double = self.rules.get(&key).and_then(|rules| rules.read_back.as_ref()).is_some_and(|by| by.double_bit);
        match value {
            Value::Int(1) if is_double => Value::Bool(false),
            Value::Int(2) if is_double => Value::Bool(true),
            other => other.clone(),
        }
    }

    pub(super) fn reverts(&self, key: Key) -> bool {
        self.rules.get(&key).is_some_and(|rules| rules.revert != RevertTo::Nothing)
    }

    pub(super) fn read_back(&self, key: Key) -> Option<ReadBack> {
        self.rules.get(&key)?.read_back.clone()
    }

    /// Finds again what rules look at.
    pub(super) fn watch<'a>(&mut self, points: impl Iterator<Item = (Key, &'a Topic)>) {
        self.watched.clear();
        for (key, topic) in points {
            let Some(rules) = self.rules.get(&key) else { continue };
            let others = rules.interlocks.iter().map(|interlock| &interlock.topic);
            let read_back = rules.read_back.iter().filter_map(|read_back| read_back.topic.as_ref());
            let topics: Vec<Topic> = others.chain(read_back).chain([topic]).cloned().collect();
            self.watched.extend(topics);
        }
        let watched = &self.watched;
        self.readings.retain(|topic, _| watched.contains(topic));
    }
}

pub(super) fn holder_gone(requester: &str) -> Refusal {
    Refusal::new("holder_gone", format!("{requester} has ended; nothing was sent"))
}
