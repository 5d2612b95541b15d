//! Whose turn it is on the line.

use super::{Channel, Member, MemberId, Presence};
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Instant, Now};

/// A drop that did not answer rests so many times as long as it held the line, doubled with each further time: at first
/// a fifth of the line's time at most is its.
const REST_FACTOR: u32 = 4;
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(60);

/// A line that is lent to one machine at a time.
#[derive(Debug, Default)]
pub(super) struct Lending {
    holder: Option<MemberId>,
    since: Instant,
}

impl Lending {
    /// A machine has left: what it had asked is not waited for.
    pub(super) fn take_back(&mut self, id: MemberId) {
        self.holder = self.holder.filter(|holder| *holder != id);
    }
}

impl<M: Member> Channel<M> {
    /// Appends the next message of a member that may send, and says whether there was one.
    pub(super) fn send(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if self.lending.is_none() {
            return self.send_in_order(now, out);
        }
        self.end_turn(now);
        if let Some(holder) = self.lending.as_ref().and_then(|lending| lending.holder) {
            let sent = self.transmit(now, holder, out);
            self.end_turn(now);
            if sent || self.lending.as_ref().is_some_and(|lending| lending.holder.is_some()) {
                return sent;
            }
        }
        for _ in 0..self.sends.len() {
            let Some(id) = self.sends.pop_front() else { return false };
            let Some(slot) = self.slot(id) else { continue };
            if slot.rests_until.is_some() {
                self.sends.push_back(id);
                continue;
            }
            slot.heard = false;
            slot.in_sends = false;
            if self.transmit(now, id, out) {
                // It may have more to send; the others come before.
                self.touch(id);
                let awaits = self.member(id).is_some_and(Member::awaits_answer);
                if let Some(lending) = self.lending.as_mut().filter(|_| awaits) {
                    *lending = Lending { holder: Some(id), since: now.mono };
                }
                return true;
            }
        }
        false
    }

    fn send_in_order(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        while let Some(id) = self.sends.front().copied() {
            if self.transmit(now, id, out) {
                return true;
            }
            self.sends.pop_front();
            if let Some(slot) = self.slot(id) {
                slot.in_sends = false;
            }
        }
        false
    }

    fn transmit(&mut self, now: Now, id: MemberId, out: &mut Vec<u8>) -> bool {
        let slot = self.slot(id).filter(|slot| slot.presence == Presence::Up);
        slot.is_some_and(|slot| slot.machine.poll_transmit(now, out))
    }

    /// Takes the line back from a holder that waits no more.
    fn end_turn(&mut self, now: Now) {
        let Some((holder, since)) = self.lending.as_ref().and_then(|l| l.holder.map(|holder| (holder, l.since))) else {
            return;
        };
        if self.member(holder).is_some_and(Member::awaits_answer) {
            return;
        }
        if let Some(lending) = &mut self.lending {
            lending.holder = None;
        }
        self.touch(holder);
        let Some(slot) = self.slot(holder) else { return };
        if slot.heard {
            slot.failures = 0;
            return;
        }
        let doubled = 1_u32.checked_shl(slot.failures.min(16).into()).unwrap_or(u32::MAX);
        let rest = now.mono.since(since).saturating_mul(REST_FACTOR.saturating_mul(doubled)).min(REST_MAX);
        slot.failures = slot.failures.saturating_add(1);
        slot.rests_until = Some(now.mono + rest);
        self.counters.unanswered += 1;
    }
}
