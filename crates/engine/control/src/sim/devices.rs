//! Devices that may refuse, hang, answer late, or be lost.

extern crate std;
use crate::{CommandId, Dispatch};
use core::time::Duration;
use std::vec::Vec;
use tieline_core::{CommandOutcome, Instant, Random, Refusal, Value};

pub(super) const POINTS: usize = 4;
pub(super) const UNANSWERED_AFTER: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Out {
    pub(super) command_id: CommandId,
    point: usize,
    value: Value,
    until: Instant,
    operates_at: Option<Instant>,
    answers_at: Option<Instant>,
    answer: CommandOutcome,
}

#[derive(Debug, Default)]
pub(super) struct Device {
    pub(super) is_online: bool,
    pub(super) is_well: bool,
    pub(super) values: [Value; POINTS],
    pub(super) out: Option<Out>,
    /// Points that have changed and are not reported.
    pub(super) changed: Vec<usize>,
}

impl Device {
    pub(super) fn send(&mut self, random: &mut Random, now: Instant, point: usize, dispatch: &Dispatch) {
        assert!(self.is_online, "sent to a device that is away");
        // What has not answered for so long never will.
        let is_given_up = |out: &Out| out.until + UNANSWERED_AFTER <= now;
        assert!(self.out.as_ref().is_none_or(is_given_up), "two commands at one device");
        let after = |random: &mut Random| now + Duration::from_millis(random.below(500));
        let (operates, answers, answer) = match random.below(if self.is_well { 1 } else { 10 }) {
            6 => (false, true, Err(Refusal::new("local", "in local mode".into()))),
            7 => (true, false, Ok(())),
            8 => (false, false, Ok(())),
            9 => (random.is_one_of(2), true, Err(Refusal::unknown("bad_echo", "garbled".into()))),
            _ => (true, true, Ok(())),
        };
        let operates_at = operates.then(|| after(random));
        let late = Duration::from_millis(if random.is_one_of(8) { 4_000 } else { 50 });
        let answers_at = answers.then(|| operates_at.unwrap_or(now) + late);
        let value = dispatch.command.value.clone();
        let (command_id, until) = (dispatch.command_id, dispatch.until);
        self.out = Some(Out { command_id, point, value, until, operates_at, answers_at, answer });
    }

    /// What the device does until a moment. Nothing is sent to it once the time of a command is over.
    pub(super) fn advance(&mut self, now: Instant) -> Option<(CommandId, CommandOutcome)> {
        let out = self.out.as_mut()?;
        if let Some(at) = out.operates_at.filter(|at| *at <= now) {
            out.operates_at = None;
            if at >= out.until {
                let late = Refusal::new("timeout", "its time was over before anything was sent".into());
                out.answer = Err(late);
            } else {
                self.values[out.point] = out.value.clone();
                self.changed.push(out.point);
            }
        }
        out.answers_at.filter(|at| *at <= now)?;
        let out = self.out.take()?;
        Some((out.command_id, out.answer))
    }

    pub(super) fn lose(&mut self) {
        (self.is_online, self.out) = (false, None);
    }
}
