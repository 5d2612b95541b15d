//! The change of session keys (IEEE 1815 7.5.3.2).

use super::{MasterSecurity, Reaction, Step};
use crate::app::Sequence;
use crate::secure::crypto::SessionKeys;
use crate::secure::object::is_challenge;
use crate::secure::{Authentication, KeyLimits, KeyStatus, KeyStatusObject, MacAlgorithm, SecurityEvent, Statistic};
use alloc::boxed::Box;
use alloc::vec::Vec;
use tieline_core::Now;

/// Session keys that the outstation has not confirmed.
#[derive(Debug)]
pub(super) struct Changing {
    keys: SessionKeys,
    sequence: u32,
    wrapped: Vec<u8>,
    /// The fragment that carried them: what the confirmation is over.
    fragment: Vec<u8>,
}

impl MasterSecurity {
    pub(super) fn handle_key_status(&mut self, now: Now, status: &KeyStatusObject<'_>) -> Reaction {
        if status.user != self.config.user {
            return self.unexpected();
        }
        match core::mem::replace(&mut self.step, Step::Idle) {
            Step::Asked => self.answer_status(now, status),
            Step::Changing(changing) if self.is_confirmed(&changing, status) => {
                self.deadline = None;
                let limits = self.config.keys;
                (self.due_at, self.uses_left) = (Some(now.mono + limits.interval), limits.count.max(1));
                let twice = KeyLimits {
                    interval: limits.interval.saturating_mul(2),
                    count: limits.count.max(1).saturating_mul(2),
                };
                self.session.begin(now.mono, changing.keys, twice);
                self.forget_challenge();
                self.count(Statistic::SessionKeyChanges);
                self.count(Statistic::Successes);
                self.events.push(SecurityEvent::KeysChanged { user: self.config.user });
                Reaction::Heard
            }
            // Its sender does not know the keys: the outstation's own may still come.
            other => {
                self.step = other;
                self.count(Statistic::AuthenticationFailures);
                self.unexpected()
            }
        }
    }

    fn answer_status(&mut self, now: Now, status: &KeyStatusObject<'_>) -> Reaction {
        self.deadline = None;
        let wrap = self.config.update_key.wrap_algorithm();
        if status.wrap() != Some(wrap) || !is_challenge(status.challenge) {
            self.fail_keys(now);
            return Reaction::Heard;
        }
        let keys = SessionKeys::random(wrap, &mut *self.random);
        let wrapped = keys.wrap(&self.config.update_key, &status.without_mac());
        self.step =
            Step::Answering(Box::new(Changing { keys, sequence: status.sequence, wrapped, fragment: Vec::new() }));
        Reaction::Heard
    }

    pub(super) fn send_change(
        &mut self,
        now: Now,
        next: &mut Sequence,
        mut changing: Box<Changing>,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        let object = Authentication::KeyChange {
            sequence: changing.sequence,
            user: self.config.user,
            wrapped: &changing.wrapped,
        };
        self.send(now, next, &[object], out);
        changing.fragment = out.get(start..).unwrap_or_default().to_vec();
        self.step = Step::Changing(changing);
    }

    fn is_confirmed(&self, changing: &Changing, status: &KeyStatusObject<'_>) -> bool {
        let algorithm = MacAlgorithm::from_code(status.algorithm).filter(|one| self.config.macs.contains(one));
        let user = self.config.user;
        status.status() == Some(KeyStatus::Ok)
            && algorithm.is_some_and(|algorithm| {
                changing.keys.status_mac(algorithm, user, status.sequence, &changing.fragment).matches(status.mac)
            })
    }

    /// The keys could not be changed: those that there are stay, and it is tried again.
    pub(super) fn fail_keys(&mut self, now: Now) {
        self.count(Statistic::SessionKeyFailures);
        self.events.push(SecurityEvent::KeyChangeFailed { user: self.config.user });
        self.due_at = Some(now.mono + self.config.retry_delay);
    }
}
