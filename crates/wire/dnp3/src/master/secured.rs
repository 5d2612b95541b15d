//! Where secure authentication stands in a master. Off, it is one test of a pointer for each request.

use super::timers::Timer;
use super::work::Work;
use super::{Master, MasterEvent, SubmitError, TaskOutcome, Transport};
use crate::Iin;
use crate::secure::{AuthError, MasterSecurity, Reaction, UserChange};
use alloc::boxed::Box;
use alloc::vec::Vec;
use tieline_core::Now;

impl Master {
    /// Lets requests prove that they are authentic (IEEE 1815 clause 7). To be called before there is a connection.
    pub fn set_security(&mut self, security: MasterSecurity) {
        self.secure = Some(Box::new(security));
    }

    /// Its security; None where it has none.
    #[must_use]
    pub fn security(&self) -> Option<&MasterSecurity> {
        self.secure.as_deref()
    }

    #[cfg(test)]
    pub(crate) fn secure_mut(&mut self) -> Option<&mut MasterSecurity> {
        self.secure.as_deref_mut()
    }

    /// Adds, changes or removes a user of the outstation, with an update key that is made here:
    /// [`MasterEvent::Security`] brings the key, [`MasterEvent::TaskDone`] with `token` tells when it is done.
    ///
    /// # Errors
    /// There is no connection; or another change is under way, there is no security, or the method is not done.
    pub fn change_user(&mut self, now: Now, change: UserChange, token: u64) -> Result<(), SubmitError> {
        self.now = now;
        if self.transport != Transport::Up {
            return Err(SubmitError::NotConnected);
        }
        let begun = self.secure.as_mut().is_some_and(|secure| secure.change_user(change, token));
        if begun { Ok(()) } else { Err(SubmitError::Full) }
    }

    /// Appends what security has to say. None: nothing, and other requests may go out.
    pub(super) fn transmit_secured(&mut self, now: Now, out: &mut Vec<u8>) -> Option<bool> {
        let start = out.len();
        // An operate follows its select under the next sequence number: nothing may come between them.
        let may_ask = self.reading.is_none()
            && !self.solicited.is_held()
            && self.pending.as_ref().is_none_or(|pending| pending.unsent && !pending.work.operates());
        let secure = self.secure.as_mut()?;
        let replied = secure.write_reply(out);
        let asked = !replied && may_ask && secure.write_request(now, &mut self.sequence, out);
        if !replied && !asked {
            return (may_ask && secure.is_busy()).then_some(false);
        }
        self.endpoint.frame_in_place(self.outstation(), out, start);
        // The answer to what was challenged follows the reply.
        match &self.pending {
            Some(pending) if replied && pending.work.is_unanswered() => self.timers.set(Timer::Response, now.mono),
            Some(_) if replied => self.await_response(now),
            Some(_) | None => {}
        }
        Some(true)
    }

    /// An authentication response: the endpoint holds it.
    pub(super) fn handle_authentication(&mut self, now: Now, iin: Iin) {
        let awaited = self.pending.as_ref().filter(|pending| !pending.unsent && pending.fragments == 0);
        let awaited = awaited.map(|pending| pending.next);
        let Some(secure) = &mut self.secure else {
            self.counters.unexpected += 1;
            return;
        };
        let reaction = secure.handle_fragment(now, self.endpoint.fragment(), awaited);
        if reaction == Reaction::Unexpected {
            self.counters.unexpected += 1;
            return;
        }
        self.counters.responses += 1;
        self.heard();
        self.handle_indications(now, iin, false, false);
        match reaction {
            Reaction::Unexpected | Reaction::Heard => {}
            Reaction::Challenged => self.await_response(now),
            Reaction::Refused(error) => self.handle_refusal(now, error),
            Reaction::Ended(token, Ok(())) => self.end_task(token, TaskOutcome::Done),
            Reaction::Ended(token, Err(error)) => self.end_task(token, TaskOutcome::Unauthenticated(error)),
        }
    }

    /// The request that is out will not be performed. With other keys it may be; an operate is not tried again.
    fn handle_refusal(&mut self, now: Now, error: AuthError) {
        self.timers.clear(Timer::Response);
        let Some(pending) = &mut self.pending else { return };
        let is_duty = matches!(pending.work, Work::Duty(_) | Work::WriteTime { .. });
        if error == AuthError::NotAuthorized && is_duty {
            // As if the outstation could not: asking again will not help.
            self.finish_answer(now, Iin::NO_FUNC_CODE_SUPPORT);
        } else if error != AuthError::NotAuthorized && pending.repeat() {
            self.counters.retries += 1;
        } else {
            self.fail_pending(now, TaskOutcome::Unauthenticated(error));
        }
    }

    /// Makes a request, `out[start..]`, prove itself where it can; says whether the outstation will challenge it.
    pub(super) fn secure_request(&mut self, now: Now, out: &mut Vec<u8>, start: usize) -> bool {
        let bytes_max = usize::from(self.config.request_bytes_max);
        self.secure.as_mut().is_some_and(|secure| secure.guard(now, bytes_max, out, start))
    }

    pub(super) fn note_secured_restart(&mut self, now: Now) {
        if let Some(secure) = &mut self.secure {
            secure.note_restart(now);
        }
    }

    pub(super) fn handle_secured_timeout(&mut self, now: Now) {
        let ended = self.secure.as_mut().and_then(|secure| secure.handle_timeout(now));
        if let Some(token) = ended {
            self.end_task(token, TaskOutcome::Timeout { maybe_operated: false });
        }
    }

    pub(super) fn handle_secured_disconnected(&mut self) {
        let ended = self.secure.as_mut().and_then(|secure| secure.handle_disconnected());
        if let Some(token) = ended {
            self.end_task(token, TaskOutcome::ConnectionLost { maybe_operated: false });
        }
    }

    pub(super) fn poll_secured_event(&mut self) -> Option<MasterEvent> {
        Some(MasterEvent::Security(Box::new(self.secure.as_mut()?.poll_event()?)))
    }
}
