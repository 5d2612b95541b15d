//! Requests on their way: those that wait for their turn, and those that were sent and wait for an answer.
//!
//! ```text
//! queue ─ select ─▶ Selecting ─ confirmed ─▶ Selected ─ execute ─┐
//!   └──────────────── activation ────────────────────────────────┴▶ Asked ─ confirmed ─▶ Accepted ─ terminated ─▶ done
//! ```
//!
//! Of what is asked of whole stations one request is under way at a time; commands go beside it, one at a time for each object.

use super::config::{Outcome, Request, Task};
use super::{Failure, Origin};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use tieline_core::Instant;

/// How far a request that left the queue has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Selecting,
    Selected,
    Asked,
    Accepted,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub(super) task: Task,
    pub(super) step: Step,
    /// When the answer of this step is late.
    pub(super) by: Instant,
}

impl Active {
    /// When something is to be done about it.
    fn deadline(&self) -> Instant {
        match self.step {
            // Nothing is sent for it after its own deadline, so that an answer to a select has no use then.
            Step::Selecting => self.by.min(self.task.until),
            Step::Selected => self.task.until,
            Step::Asked | Step::Accepted => self.by,
        }
    }

    pub(super) const fn maybe_done(&self) -> bool {
        self.task.request.command().is_some() && matches!(self.step, Step::Asked | Step::Accepted)
    }

    const fn lateness(&self) -> Failure {
        match self.step {
            Step::Selected => Failure::TooLate,
            Step::Selecting | Step::Asked => Failure::NoConfirmation,
            Step::Accepted => Failure::NoTermination,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Tasks {
    queue: VecDeque<Task>,
    active: Vec<Active>,
}

impl Tasks {
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.active.len()
    }

    pub(super) fn push(&mut self, task: Task) {
        self.queue.push_back(task);
    }

    /// Whether something of the client's own is not over.
    pub(super) fn has_own(&self) -> bool {
        let mut all = self.queue.iter().chain(self.active.iter().map(|active| &active.task));
        all.any(|task| matches!(task.origin, Origin::Own(..)))
    }

    /// Whether the same is to be asked already.
    pub(super) fn is_queued(&self, origin: Origin, request: &Request) -> bool {
        self.queue.iter().any(|task| task.origin == origin && task.request == *request)
    }

    /// What is to be sent next: a command that was selected, a command, then what is asked of whole stations.
    pub(super) fn next(&mut self) -> Option<Active> {
        if let Some(at) = self.active.iter().position(|active| active.step == Step::Selected) {
            return Some(self.active.swap_remove(at));
        }
        let may_go = |task: &&Task| self.may_go(&task.request);
        let is_command = |task: &Task| task.request.command().is_some();
        let place = |commands: bool| self.queue.iter().position(|task| is_command(task) == commands && may_go(&task));
        let task = self.queue.remove(place(true).or_else(|| place(false))?)?;
        Some(Active { step: Step::Asked, by: task.until, task })
    }

    fn may_go(&self, request: &Request) -> bool {
        let others = self.active.iter().map(|active| active.task.request.command());
        match request.command() {
            None => others.flatten().count() == self.active.len(),
            Some(command) => {
                let place = (command.common_address, command.address);
                others.flatten().all(|other| (other.common_address, other.address) != place)
            }
        }
    }

    pub(super) fn put(&mut self, active: Active) {
        self.active.push(active);
    }

    pub(super) fn find(&mut self, mut is_it: impl FnMut(&Active) -> bool) -> Option<&mut Active> {
        self.active.iter_mut().find(|active| is_it(active))
    }

    pub(super) fn take(&mut self, is_it: impl FnMut(&Active) -> bool) -> Option<Active> {
        let at = self.active.iter().position(is_it)?;
        Some(self.active.swap_remove(at))
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.active.iter().map(Active::deadline).chain(self.queue.iter().map(|task| task.until)).min()
    }

    /// Takes a request whose deadline has passed.
    pub(super) fn take_late(&mut self, now: Instant) -> Option<(Origin, Outcome)> {
        if let Some(late) = self.take(|active| active.deadline() <= now) {
            let is_overdue = late.step == Step::Selecting && late.by > now;
            let reason = if is_overdue { Failure::TooLate } else { late.lateness() };
            return Some((late.task.origin, Outcome::Failed { reason, maybe_done: late.maybe_done() }));
        }
        let at = self.queue.iter().position(|task| task.until <= now)?;
        let task = self.queue.remove(at)?;
        Some((task.origin, Outcome::Failed { reason: Failure::TooLate, maybe_done: false }))
    }

    /// Takes all: the connection ended.
    pub(super) fn take_all(&mut self) -> Vec<(Origin, bool)> {
        let sent = self.active.drain(..).map(|active| (active.task.origin, active.maybe_done()));
        let mut all: Vec<_> = sent.collect();
        all.extend(self.queue.drain(..).map(|task| (task.origin, false)));
        all
    }
}
