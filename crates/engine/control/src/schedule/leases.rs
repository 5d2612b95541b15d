//! Leases: how long a task goes on without a sign of life of its requester.
//!
//! A lease counts from the moment at which its task first has a device, on the monotonic clock. A sign of life of a requester
//! renews all of its leases, in constant time: it is written down once, and a deadline that passes looks at it.

use alloc::sync::Arc;
use core::time::Duration;
use hashbrown::HashMap;
use tieline_core::{Deadlines, Instant};

/// The lease of one task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) span: Duration,
    /// When its requester was last heard, as far as the task knows.
    heard: Instant,
    /// When it is looked at; none where it does not count yet.
    look_at: Option<Instant>,
}

impl Lease {
    pub(super) const fn new(span: Duration, heard: Instant) -> Self {
        Self { span, heard, look_at: None }
    }
}

/// A requester with leases.
#[derive(Debug)]
struct Requester {
    heard: Instant,
    tasks: usize,
}

/// The leases of all tasks.
#[derive(Debug, Default)]
pub(super) struct Leases {
    requesters: HashMap<Arc<str>, Requester>,
    /// By task.
    deadlines: Deadlines<Arc<str>>,
}

impl Leases {
    pub(super) fn add(&mut self, requester: &Arc<str>, task: &Arc<str>, lease: &Lease) {
        let known = self.requesters.entry(requester.clone()).or_insert(Requester { heard: lease.heard, tasks: 0 });
        known.heard = known.heard.max(lease.heard);
        known.tasks += 1;
        if let Some(at) = lease.look_at {
            self.deadlines.add(at, task.clone());
        }
    }

    pub(super) fn remove(&mut self, requester: &Arc<str>, task: &Arc<str>, lease: &mut Lease) {
        if let Some(at) = lease.look_at {
            self.deadlines.remove(at, task.clone());
        }
        let Some(known) = self.requesters.get_mut(requester) else { return };
        lease.heard = known.heard;
        known.tasks -= 1;
        if known.tasks == 0 {
            self.requesters.remove(requester);
        }
    }

    /// The task has a device: its lease counts from this moment, unless it does already.
    pub(super) fn begin(&mut self, now: Instant, task: &Arc<str>, lease: &mut Lease) {
        if lease.look_at.is_none() {
            self.look_later(now + lease.span, task, lease);
        }
    }

    /// A requester gave a sign of life.
    pub(super) fn hear(&mut self, now: Instant, requester: &str) {
        if let Some(known) = self.requesters.get_mut(requester) {
            known.heard = now;
        }
    }

    /// The next task whose deadline has passed.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Arc<str>> {
        self.deadlines.take_next(now).map(|(_, task)| task)
    }

    /// Whether a lease that was due is over; where its requester was heard since, it is due again later.
    pub(super) fn is_over(&mut self, now: Instant, requester: &str, task: &Arc<str>, lease: &mut Lease) -> bool {
        lease.look_at = None;
        let heard = self.requesters.get(requester).map_or(lease.heard, |known| known.heard);
        let until = heard + lease.span;
        if until > now {
            self.look_later(until, task, lease);
        }
        until <= now
    }

    /// When a lease ends if its requester is not heard; none where it does not count yet.
    pub(super) fn end(&self, requester: &str, lease: &Lease) -> Option<Instant> {
        let heard = self.requesters.get(requester).map_or(lease.heard, |known| known.heard);
        lease.look_at.map(|at| at.max(heard + lease.span))
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.deadlines.timeout()
    }

    fn look_later(&mut self, at: Instant, task: &Arc<str>, lease: &mut Lease) {
        lease.look_at = Some(at);
        self.deadlines.add(at, task.clone());
    }
}
