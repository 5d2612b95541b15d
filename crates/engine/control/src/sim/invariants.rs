//! What must be true, whatever happens.
//!
//! # Never two act
//!
//! A command of a requester is sent only while the requester holds the device, or nobody does and none must; a device has
//! one command at a time; what is sent may not be carried out after the slot, nor in a later one of another. Who holds a device is what the second
//! schedule says ([`super::oracle`]). A revert by the node may be sent while another holds the device: it is the end of
//! the holder before.
//!
//! Allowed:
//!
//! - What is out when a reservation is granted stays out; the holder's first command waits for its end.
//! - A device that has not answered for [`super::devices::UNANSWERED_AFTER`] after the time of a command is over
//!   gets the next one. Nothing may be sent to the device from [`Dispatch::until`] on, so what has not been carried out
//!   by then is not carried out later.
//!
//! What a requester asked for is not sent once its lease ran out, or it has ended. Which tasks there are, both schedules say alike.
//!
//! A command that a tag forbids is never sent, nor a revert while a point has one that forbids commands.
//!
//! # No point is left commanded
//!
//! When all holders have ended and the devices are well, all points are as they were, but for those that somebody without
//! a reservation has commanded: these are nobody's to revert.
//!
//! # None is commanded twice
//!
//! No value is sent twice. A point is reverted by the node only once its holder's time is over, and not again once a
//! device has accepted the revert. Allowed:
//!
//! - Only a reading ends the revert of a point that is read back: without one it is reverted again.
//! - A command that the device certainly did not carry out changes nothing: what was last before it is last again. One that
//!   is refused after its deadline counts as perhaps carried out, for so its requester was told, and is reverted.
//! - An override with `failsafe_revert` reverts a point at once and again for each such override.
//! - A command without a reservation whose outcome is not known is reverted if the holder before left the point to be
//!   reverted. One that is known to be carried out never is.

extern crate std;
use super::Counters;
use super::oracle::Task;
use super::world::{AGENTS, DEVICES, KEPT, Last, Out, World, name};
use crate::*;
use core::time::Duration;
use std::format;
use std::string::{String, ToString};
use std::sync::Arc;
use std::vec::Vec;
use tieline_core::{CommandOutcome, Value};

/// The point that is read back.
const READ_BACK: usize = 2;

impl World {
    pub(super) fn watch_tenures(&mut self) {
        for device in 0..DEVICES {
            let holder = self.oracle.holder(self.now, device).map(|task| task.requester.clone());
            if self.tenures[device].0 != holder {
                self.tenures[device] = (holder, self.tenures[device].1 + 1);
            }
        }
    }

    pub(super) fn check_tasks(&self) {
        let found: Vec<String> = self.coordinator.schedule().tasks().map(|task| task.owner.task.to_string()).collect();
        let mut expected: Vec<String> = self.oracle.tasks.iter().map(|task| task.name.clone()).collect();
        expected.sort();
        assert_eq!(found, expected, "tasks");
    }

    pub(super) fn is_overridden(&self, device: usize) -> bool {
        self.overrides.keys().any(|pattern| pattern.parse::<Pattern>().unwrap().matches(&name(device)))
    }

    /// Whether a tag forbids a command of an agent, or without one a revert by the node.
    fn is_tagged(&self, device: usize, point: usize, who: Option<&str>) -> bool {
        let point = format!("{}/p{point}/", name(device));
        self.tags.values().any(|(kind, owner, topic)| {
            let holds = point.starts_with(&format!("{topic}/"));
            holds && (*kind == TagKind::DoNotOperate || *kind == TagKind::Hold && who != Some(owner.as_str()))
        })
    }

    /// A command goes to a device; `who` is of its record in the audit log.
    pub(super) fn check_sent(&mut self, device: usize, point: usize, dispatch: &Dispatch, who: &str) {
        let holder = self.oracle.holder(self.now, device).cloned();
        self.say(|| format!("sent to d{device}/p{point} for {who}: {dispatch:?}; held by {holder:?}"));
        let last = if who.starts_with("revert after") {
            self.check_revert(device, point)
        } else {
            self.check_command(device, point, dispatch, who, holder.as_ref())
        };
        self.last.insert((device, point), last);
    }

    fn check_revert(&mut self, device: usize, point: usize) -> Last {
        self.counters.reverts += 1;
        let key = (device, point);
        let tenure = self.tenures[device].1;
        let is_failsafe = self.failsafe.contains(&key);
        assert!(point != KEPT, "a point is reverted that is to stay");
        assert!(!self.is_tagged(device, point, None), "reverted in spite of a tag");
        assert!(!self.is_overridden(device) || is_failsafe, "reverted in spite of an override");
        if let Some(last) = self.last.get(&key).filter(|_| !is_failsafe) {
            if last.agent.is_none() {
                assert!(!last.is_done || point == READ_BACK, "reverted twice");
            } else if last.is_reserved {
                assert!(last.tenure != tenure, "reverted before its time");
            } else if last.is_set {
                assert!(!last.is_known, "reverted although nobody had reserved it");
            }
        }
        Last { tenure, ..Last::default() }
    }

    fn check_command(
        &mut self,
        device: usize,
        point: usize,
        dispatch: &Dispatch,
        who: &str,
        holder: Option<&Task>,
    ) -> Last {
        self.counters.sent += 1;
        assert!(!self.is_overridden(device), "sent in spite of an override");
        assert!(!self.is_tagged(device, point, Some(who)), "sent in spite of a tag");
        match holder {
            Some(holder) => assert_eq!(holder.requester, who, "two agents act"),
            None => assert!(!self.limits.is_reservation_required, "sent without a reservation"),
        }
        if let Some((_, end)) = self.coordinator.schedule().holder(self.now, &name(device)) {
            let left = Duration::from_micros(u64::try_from(end.micros() - self.now.utc.micros()).unwrap());
            assert!(dispatch.until <= self.now.mono + left, "it may be carried out when the slot is over");
        } else if let Some(left) = self.oracle.free_for(self.now, device, who) {
            assert!(dispatch.until <= self.now.mono + left, "it may be carried out in the slot of another");
        }
        let value = match &dispatch.command.value {
            Value::Int(value) => Some(*value),
            _ => None,
        };
        let set = value.and_then(|value| Some((value, self.asked.get(&value)?)));
        if let Some((value, asked)) = set {
            assert_eq!(asked, who, "sent for another than who asked");
            assert!(self.sent.insert(value), "{value} was sent twice");
            let silent = self.silent.get(who).copied().unwrap_or_default();
            assert!(u64::try_from(value).unwrap() > silent, "sent although its requester was silent");
            self.failsafe.remove(&(device, point));
            if holder.is_none() {
                self.free_values.insert(value);
            }
        } else {
            assert!(value.unwrap_or_default() == 0, "nobody asked for {value:?}");
        }
        Last {
            agent: Some(who.to_string()),
            tenure: self.tenures[device].1,
            is_set: set.is_some(),
            is_reserved: holder.is_some() && set.is_some(),
            ..Last::default()
        }
    }

    /// The command at a device has ended; without an outcome nothing is known.
    pub(super) fn mark_outcome(&mut self, device: usize, outcome: Option<&CommandOutcome>) {
        let Some(Out { point, until, before, was_failsafe }) = self.at[device].take() else { return };
        // The node takes an outcome that comes before it has looked at its deadlines.
        let is_in_time = self.drained_at < until;
        let is_refused = matches!(outcome, Some(Err(refusal)) if !refusal.maybe_operated) && is_in_time;
        let key = (device, point);
        if is_refused && was_failsafe {
            self.failsafe.insert(key);
        }
        match before {
            Some(before) if is_refused => drop(self.last.insert(key, before)),
            None if is_refused => drop(self.last.remove(&key)),
            Some(_) | None => {
                if let Some(last) = self.last.get_mut(&key) {
                    last.is_done = matches!(outcome, Some(Ok(())));
                    last.is_known = last.is_done && is_in_time;
                }
            }
        }
    }

    pub(super) fn take_event(&mut self, event: BatchEvent) {
        match event {
            BatchEvent::Answer(answer) => {
                self.say(|| format!("{answer:?}"));
                let open = self.open.get_mut(&answer.batch).expect("an answer to a batch that is over");
                assert!(open.remove(&answer.index), "two answers to one point");
                match answer.outcome {
                    PointOutcome::Confirmed { .. } => self.counters.confirmed += 1,
                    PointOutcome::Refused(refusal) => {
                        self.counters.refused += 1;
                        self.counters.changed += u64::from(refusal.reason == "point_changed");
                        self.counters.tagged += u64::from(refusal.reason == "tagged");
                    }
                    PointOutcome::Unknown(_) => self.counters.unknown += 1,
                    PointOutcome::Accepted { .. } | PointOutcome::Unconfirmed { .. } => {}
                }
            }
            BatchEvent::Done(done) => {
                let left = self.open.remove(&done.batch).expect("a batch ended twice");
                assert!(left.is_empty(), "a batch ended before its points");
            }
        }
    }

    /// All holders go, the devices are well, and in the end nothing is commanded.
    pub(super) fn end(mut self) -> Counters {
        self.say(|| "the end".into());
        for device in 0..DEVICES {
            self.devices[device].is_well = true;
            self.link(device, true);
        }
        self.coordinator.clear_overrides(self.now, &"operator".into());
        self.overrides.clear();
        while !self.tags.is_empty() {
            self.lift();
        }
        for agent in 0..AGENTS {
            let agent = format!("agent{agent}");
            self.coordinator.handle_holder_gone(self.now, &Arc::from(&*agent));
            self.oracle.release(self.now, &agent);
        }
        self.drain();
        self.wait(60_000);
        let stats = self.coordinator.stats();
        self.say(|| format!("{:?}", self.coordinator));
        assert_eq!((stats.jobs, stats.holds, self.open.len()), (0, 0, 0), "{stats:?}");
        for (device, point) in (0..DEVICES).flat_map(|device| (0..KEPT).map(move |point| (device, point))) {
            let is_free = match &self.devices[device].values[point] {
                Value::Int(0) | Value::Null => true,
                Value::Int(value) => self.free_values.contains(value),
                _ => false,
            };
            let value = &self.devices[device].values[point];
            assert!(is_free, "d{device}/p{point} is left at {value:?}");
        }
        self.counters.superseded += stats.superseded;
        self.counters
    }
}
