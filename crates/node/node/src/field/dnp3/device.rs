//! One DNP3 device: what the events of its session mean.

use super::counters::FreezeCounters;
use super::device_session::{Association, Dnp3Session, POLL_TOKEN};
use super::scheduled::{FREEZE_TOKEN, START_TOKEN};
use super::translate::to_reading;
use crate::field::driver::{EVENTS, INTEGRITY, Reporter, WHOLE};
use crate::field::lanes::Lane;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::{CommandOutcome, DeviceId, Now, PointId, Refusal};
use tieline_dnp3::app::{Found, Values};
use tieline_dnp3::master::{Master, MasterEvent, OfflineReason, TaskOutcome};
use tieline_dnp3::secure::{AuthError, SecurityEvent};
use tieline_net::{Closed, Owner, Peer, Session};
use tieline_poll::PollResult;

/// Learns of one of a device's sessions.
#[derive(Clone)]
pub(super) struct DeviceOwner {
    pub(super) reporter: Reporter,
    pub(super) lane: Lane,
    /// That of the lane.
    pub(super) association: Association,
    pub(super) device: Rc<Dnp3Session>,
    pub(super) freezes: Rc<FreezeCounters>,
}

impl DeviceOwner {
    /// The owner of the device's other session.
    pub(super) fn on_urgent_lane(self) -> Self {
        let association = self.device.urgent.clone().unwrap_or_else(|| self.association.clone());
        Self { lane: Lane::Urgent, association, ..self }
    }

    const fn id(&self) -> DeviceId {
        self.reporter.device()
    }

    /// Says whether the session is up; whether the device's other one is.
    fn set_up(&self, up: bool) -> bool {
        self.device.lanes.as_ref().is_some_and(|lanes| lanes.borrow_mut().set_up(self.lane, up))
    }

    pub(super) fn away(&self, now: Now, why: &str) {
        if self.set_up(false) {
            tracing::warn!(device = %self.device.topic, lane = self.lane.name(), why, "one of a device's connections is lost");
            return;
        }
        self.reporter.away(now, why);
    }

    fn online(&self, now: Now) {
        if self.set_up(true) {
            tracing::info!(device = %self.device.topic, lane = self.lane.name(), "both of a device's connections are up");
            return;
        }
        self.reporter.online(now);
    }

    /// Says what the device must be told.
    pub(super) fn run_tasks(&self, now: Now) {
        if let Some(tasks) = self.device.tasks() {
            tasks.start(now, &self.association.link);
        }
    }

    fn task_done(&self, now: Now, token: u64, outcome: TaskOutcome) {
        match token {
            FREEZE_TOKEN => return self.freeze_done(outcome),
            START_TOKEN => return self.start_task_done(&outcome),
            command_id if command_id & POLL_TOKEN == 0 => {
                return self.reporter.command_done(command_id, command_outcome(outcome));
            }
            _ => {}
        }
        let class = if token & 1 == 1 { EVENTS } else { INTEGRITY };
        let result = match outcome {
            TaskOutcome::Done | TaskOutcome::Sent => PollResult::Ok,
            TaskOutcome::Timeout { .. } => PollResult::Timeout,
            TaskOutcome::Refused(_)
            | TaskOutcome::Indicated(_)
            | TaskOutcome::ConnectionLost { .. }
            | TaskOutcome::BadEcho { .. }
            | TaskOutcome::Malformed
            | TaskOutcome::TooLong
            | TaskOutcome::Unauthenticated(_) => PollResult::Error,
        };
        if result != PollResult::Ok {
            self.reporter.poll_error(now, &outcome.to_string());
        }
        self.reporter.poll_done(now, class, WHOLE, result);
    }

    fn start_task_done(&self, outcome: &TaskOutcome) {
        if *outcome != TaskOutcome::Done {
            tracing::warn!(device = %self.device.topic, %outcome, "the device did not take its dead-bands or freezes");
        }
        if let Some(tasks) = self.device.tasks() {
            tasks.go_on(&self.association.link);
        }
    }

    fn freeze_done(&self, outcome: TaskOutcome) {
        let done = outcome == TaskOutcome::Done;
        if !done {
            tracing::warn!(device = %self.device.topic, %outcome, "a freeze failed");
        }
        let count = if done { &self.freezes.done } else { &self.freezes.failed };
        count.update(|count| count + 1);
    }

    fn read(&self, now: Now, values: &Values) {
        let index = self.device.index.borrow();
        let mut readings = self.reporter.readings(now);
        values.iter().for_each(|found| {
            let Found::Measurement { measurement, event, .. } = found else { return };
            let point = index.find(measurement.point_type, measurement.index).unwrap_or(PointId(u32::MAX));
            if let Some(lanes) = &self.device.lanes {
                let millis = measurement.stamp.map(|stamp| stamp.time.millis()).filter(|millis| *millis > 0);
                if !lanes.borrow_mut().admits(now.mono, self.lane, point, event, millis) {
                    return;
                }
            }
            readings.push(to_reading(point, measurement, event));
        });
    }
}

/// What a person should know of a device's secure authentication.
fn note_security(device: DeviceId, event: &SecurityEvent) {
    match event {
        SecurityEvent::KeysChanged { user } => tracing::info!(device = device.0, user, "session keys changed"),
        SecurityEvent::KeyChangeFailed { user } => {
            tracing::warn!(device = device.0, user, "session keys could not be changed");
        }
        SecurityEvent::ErrorReceived { user, error } => {
            let error = error.map_or("unknown", AuthError::name);
            tracing::warn!(device = device.0, user, error, "the device refuses our authentication");
        }
        SecurityEvent::Statistic { statistic, count } => {
            tracing::debug!(device = device.0, statistic = statistic.name(), count, "security statistic");
        }
        SecurityEvent::KeysLost { .. }
        | SecurityEvent::Refused { .. }
        | SecurityEvent::UpdateKeyChanged { .. }
        | SecurityEvent::UserRemoved { .. }
        | SecurityEvent::StatusSequence(_) => {}
    }
}

fn command_outcome(outcome: TaskOutcome) -> CommandOutcome {
    match outcome {
        TaskOutcome::Done => Ok(()),
        // Of an answer that does not end it is not known which step it is of.
        other if other.maybe_operated() || other == TaskOutcome::TooLong => {
            Err(Refusal::unknown(other.name(), other.to_string()))
        }
        other => Err(Refusal::new(other.name(), other.to_string())),
    }
}

impl DeviceOwner {
    pub(super) fn heard(&self, now: Now, event: MasterEvent) {
        match event {
            MasterEvent::Online => self.online(now),
            // The session's end, which follows, says why.
            MasterEvent::Offline(OfflineReason::Disconnected) => {}
            MasterEvent::Offline(OfflineReason::Timeout) => self.away(now, "no answer in time"),
            MasterEvent::Offline(OfflineReason::Garbage) => {
                self.reporter.garbage(now);
                self.away(now, "what it sends cannot be read");
            }
            // The other session says the same, and reads everything.
            MasterEvent::Restarted | MasterEvent::Ready if self.lane == Lane::Urgent => {}
            MasterEvent::Restarted => {
                self.reporter.restarted(now);
                self.run_tasks(now);
            }
            MasterEvent::Ready => {
                self.reporter.poll_done(now, INTEGRITY, WHOLE, PollResult::Ok);
                self.run_tasks(now);
            }
            MasterEvent::LinkAlive => self.reporter.alive(now),
            MasterEvent::EventsLost => tracing::warn!(device = self.id().0, "the device lost events to a full buffer"),
            MasterEvent::Indications(iin) => tracing::debug!(device = self.id().0, iin = iin.0, "indications"),
            MasterEvent::Values { values, unsolicited: _ } => self.read(now, &values),
            MasterEvent::FragmentEnd { confirm_held, unsolicited: _ } => {
                let held = confirm_held.then(|| (self.lane, self.association.next_held()));
                self.reporter.batch_end(now, held);
            }
            MasterEvent::TaskDone { token, outcome } => self.task_done(now, token, outcome),
            MasterEvent::Answer { .. } | MasterEvent::Files(_) => {}
            MasterEvent::Security(event) => {
                if matches!(*event, SecurityEvent::KeyChangeFailed { .. } | SecurityEvent::ErrorReceived { .. }) {
                    self.reporter.authentication_failed();
                }
                note_security(self.id(), &event);
            }
        }
    }

    pub(super) fn begun(&self, now: Now, peer: &Peer) {
        tracing::debug!(device = self.id().0, %peer, "connected");
        if !self.set_up(false) {
            self.reporter.connecting(now);
        }
    }

    pub(super) fn ended(&self, now: Now, why: Closed) {
        match why {
            // The master gave up, and said why before.
            Closed::Machine => {}
            Closed::Peer
            | Closed::Io(_)
            | Closed::Owner
            | Closed::Replaced
            | Closed::Slow
            | Closed::Full
            | Closed::Silent
            | Closed::Tls(_)
            | Closed::Stuck => self.away(now, &why.to_string()),
        }
    }
}

impl Owner<Master> for DeviceOwner {
    fn event(&mut self, _session: &Session<Master>, now: Now, event: MasterEvent) {
        self.heard(now, event);
    }

    fn connected(&mut self, _session: &Session<Master>, now: Now, peer: &Peer) {
        self.begun(now, peer);
    }

    fn closed(&mut self, _session: &Session<Master>, now: Now, why: Closed) {
        self.ended(now, why);
    }

    fn connect_failed(&mut self, _session: &Session<Master>, now: Now, error: &std::io::Error, _retry: Duration) {
        self.away(now, &error.to_string());
    }
}
