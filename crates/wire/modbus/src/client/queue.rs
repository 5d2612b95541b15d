//! Transactions that wait for their turn: urgent ones first, then unit after unit.

use super::{NEVER, Priority, Transaction, push_lean};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use tieline_core::Instant;

/// Boxed where it is kept: a client that is idle has no memory for any, and one that is sent does not move.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) transaction: Transaction,
    /// How often it was sent.
    pub(super) attempts: u8,
}

#[derive(Debug)]
pub(super) struct Queue {
    jobs: VecDeque<Box<Job>>,
    /// Not after the earliest deadline; earlier where that job has gone.
    earliest: Instant,
    /// The unit that had the last turn.
    served: u8,
}

impl Default for Queue {
    fn default() -> Self {
        Self { jobs: VecDeque::new(), earliest: NEVER, served: 0 }
    }
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn push(&mut self, job: Box<Job>) {
        self.note(job.transaction.deadline);
        push_lean(&mut self.jobs, job);
    }

    /// Before the others of its unit: it has had its turn before.
    pub(super) fn push_front(&mut self, job: Box<Job>) {
        self.note(job.transaction.deadline);
        self.jobs.push_front(job);
    }

    fn note(&mut self, deadline: Instant) {
        self.earliest = self.earliest.min(deadline);
    }

    /// [`NEVER`] where none waits.
    pub(super) const fn deadline(&self) -> Instant {
        self.earliest
    }

    /// Takes a job whose deadline has passed.
    pub(super) fn take_expired(&mut self, now: Instant) -> Option<Box<Job>> {
        if self.earliest > now {
            return None;
        }
        let late = self.jobs.iter().position(|job| job.transaction.deadline <= now);
        if late.is_none() {
            self.earliest = self.jobs.iter().map(|job| job.transaction.deadline).min().unwrap_or(NEVER);
        }
        self.jobs.remove(late?)
    }

    /// Takes jobs wherever they wait; the deadline of those may stay the earliest for a time.
    pub(super) fn take_if(&mut self, mut wanted: impl FnMut(&Job) -> bool) -> impl Iterator<Item = Box<Job>> {
        let (taken, left): (VecDeque<Box<Job>>, VecDeque<Box<Job>>) =
            core::mem::take(&mut self.jobs).into_iter().partition(|job| wanted(job));
        self.jobs = left;
        taken.into_iter()
    }

    pub(super) fn take_all(&mut self) -> VecDeque<Box<Job>> {
        self.earliest = NEVER;
        core::mem::take(&mut self.jobs)
    }

    /// Takes the job whose turn it is. Where the first of a unit may not go yet, none of that unit and priority goes.
    pub(super) fn pop(&mut self, may_go: impl Fn(&Job) -> bool) -> Option<Box<Job>> {
        let is_only = self.jobs.len() == 1;
        let at = if is_only { self.jobs.front().filter(|job| may_go(job)).map(|_| 0) } else { self.next(may_go) };
        let job = self.jobs.remove(at?)?;
        self.served = job.transaction.unit.0;
        if self.jobs.is_empty() {
            self.earliest = NEVER;
        }
        Some(job)
    }

    fn next(&self, may_go: impl Fn(&Job) -> bool) -> Option<usize> {
        let mut best: Option<(u16, usize)> = None;
        let mut barred = crate::UnitSet::NONE;
        for (at, job) in self.jobs.iter().enumerate() {
            let turn = self.turn(job);
            if best.is_some_and(|(best, _)| best <= turn) || barred.has(job.transaction.unit) {
                continue;
            }
            if !may_go(job) {
                barred.insert(job.transaction.unit);
                continue;
            }
            best = Some((turn, at));
            if turn == 0 {
                break;
            }
        }
        best.map(|(_, at)| at)
    }

    /// How many turns it is away: 0 for what is urgent, then from the unit after the last one around to that one.
    fn turn(&self, job: &Job) -> u16 {
        match job.transaction.priority {
            Priority::Urgent => 0,
            Priority::Normal => 1 + u16::from(job.transaction.unit.0.wrapping_sub(self.served).wrapping_sub(1)),
        }
    }
}
