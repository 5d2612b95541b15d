//! When a session has something to do although nothing comes.

use super::{NEVER, Session};
use crate::Closed;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;
use tieline_core::{Instant, Machine, Now};
use tokio::time::Sleep;

/// The shortest wait for a deadline, so that a machine whose deadline never moves cannot take the whole shard.
const WAIT_MIN: Duration = Duration::from_millis(1);

impl<M: Machine> Session<M> {
    /// The machine's deadline, or the line's.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let buffered = self.0.buffered.borrow().as_ref().and_then(|buffered| buffered.deadline(&self.0.limits));
        earlier(self.0.machine.borrow().timeout(), buffered)
    }

    pub(super) fn expire(&self, now: Now) -> Result<(), Closed> {
        if let Some(buffered) = &mut *self.0.buffered.borrow_mut() {
            buffered.expire(&self.0.limits, now.mono)?;
        }
        self.0.machine.borrow_mut().handle_timeout(now);
        Ok(())
    }

    /// Makes sure that the timer fires no later than the next deadline; true when it has fired already. A timer that is armed
    /// knows its task, and is left alone.
    pub(super) fn arm(
        &self,
        cx: &mut Context<'_>,
        mut sleep: Pin<&mut Sleep>,
        now: Instant,
        deadline: Option<Instant>,
    ) -> bool {
        if self.0.armed.get() <= now {
            self.0.armed.set(NEVER);
        }
        let deadline = deadline.map_or(NEVER, |at| at.max(now + WAIT_MIN));
        let is_sooner = deadline < self.0.armed.get();
        if is_sooner {
            self.0.armed.set(deadline);
            sleep.as_mut().reset(self.0.shard.clock().at(deadline));
        }
        let is_set = self.0.armed.get() != NEVER;
        is_set && (is_sooner || sleep.is_elapsed()) && sleep.poll(cx).is_ready()
    }
}

/// The earlier of two moments that may not be.
pub(crate) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
