//! A request that was sent and waits for its answer.

use super::queue::Job;
use crate::Unit;
use crate::pdu::{EXCEPTION_BIT, response_bytes};
use alloc::boxed::Box;
use tieline_core::Instant;

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) job: Box<Job>,
    /// The transaction identifier on TCP.
    pub(super) number: u16,
    /// When its last byte has left.
    pub(super) opens: Instant,
    /// What comes before the request has left is no answer to it.
    pub(super) is_guarded: bool,
    pub(super) answer_deadline: Instant,
    pub(super) is_broadcast: bool,
    /// Others were in flight beside it.
    pub(super) is_crowded: bool,
    /// Something came that is no answer to it.
    pub(super) is_noisy: bool,
    /// The owner has been told that its deadline passed.
    pub(super) is_told: bool,
}

impl Flight {
    pub(super) fn deadline(&self) -> Instant {
        if self.is_told { self.answer_deadline } else { self.answer_deadline.min(self.job.transaction.deadline) }
    }

    /// Whether a job may go while this has no answer: a write to a unit is alone there, for a device with several in
    /// flight may take them in any order.
    pub(super) fn may_fly_beside(&self, job: &Job) -> bool {
        let (mine, other) = (&self.job.transaction, &job.transaction);
        mine.unit != other.unit || (mine.request.is_read() && other.request.is_read())
    }

    /// Bytes of the PDU that begins so, if it can be an answer. Function 0 with the exception bit is what some devices
    /// send for every refusal; another function is an earlier answer.
    pub(super) fn answer_bytes(&self, unit: Unit, pdu: &[u8]) -> Option<usize> {
        let (transaction, code) = (&self.job.transaction, *pdu.first()?);
        let function = transaction.request.function().code();
        let fits = code == function || code == function | EXCEPTION_BIT || code == EXCEPTION_BIT;
        (unit == transaction.unit && fits).then(|| response_bytes(pdu).ok().flatten())?
    }
}
