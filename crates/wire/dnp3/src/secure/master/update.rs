//! Changes of users and update keys, on behalf of an authority whose key the owner lends (IEEE 1815 7.5.3.6).

use super::{MasterSecurity, Reaction, Step};
use crate::app::Sequence;
use crate::secure::crypto::change_mac;
use crate::secure::object::{CHALLENGE_BYTES_MIN, is_challenge};
use crate::secure::outstation::{confirmed_numbers, wrap_of, write_update};
use crate::secure::{
    Authentication, Key, KeyChangeMethod, Role, SecurityEvent, Statistic, UserOperation, UserStatusChange,
};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use tieline_core::Now;

/// Bytes of the master's challenge.
const CHALLENGE_BYTES: usize = 16;
const _: () = assert!(CHALLENGE_BYTES >= CHALLENGE_BYTES_MIN);

/// A change of a user, as the authority has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserChange {
    /// What is done.
    pub operation: UserOperation,
    /// Who.
    pub name: String,
    /// What the user may do from then on.
    pub role: Role,
    /// Days until the role ends; 65535 without end.
    pub days: u16,
    /// The number of this change (SCS): more than that of every one before.
    pub sequence: u32,
    /// The key that the authority shares with the outstation.
    pub authority: Key,
    /// How; symmetric, and fit for the key.
    pub method: KeyChangeMethod,
    /// The name of the outstation.
    pub outstation: String,
}

/// How far a change is.
#[derive(Debug)]
enum Stage {
    Status,
    Request,
    Change { sequence: u32, user: u16, challenge: Vec<u8> },
}

#[derive(Debug)]
pub(super) struct Update {
    pub(super) token: u64,
    change: UserChange,
    stage: Stage,
    unsent: bool,
    own_challenge: Vec<u8>,
    key: Key,
}

impl Update {
    pub(super) const fn is_unsent(&self) -> bool {
        self.unsent
    }
}

impl MasterSecurity {
    /// Begins a change of a user as soon as nothing else is out; says whether it may: one at a time, and only methods
    /// that this crate does.
    pub(crate) fn change_user(&mut self, change: UserChange, token: u64) -> bool {
        let is_free = self.update.is_none() && !matches!(self.step, Step::Updating(_));
        let Some(wrap) = wrap_of(change.method).filter(|_| is_free) else { return false };
        let mut own_challenge = vec![0; CHALLENGE_BYTES];
        self.random.fill(&mut own_challenge);
        let key = Key::random(wrap, &mut *self.random);
        self.update = Some(Box::new(Update { token, change, stage: Stage::Status, unsent: true, own_challenge, key }));
        true
    }

    pub(super) fn send_update(&mut self, now: Now, next: &mut Sequence, update: &mut Update, out: &mut Vec<u8>) {
        update.unsent = false;
        let UserChange { method, name, authority, outstation, .. } = &update.change;
        match &update.stage {
            Stage::Status => {
                let mut status = UserStatusChange {
                    method: method.code(),
                    operation: update.change.operation.code(),
                    sequence: update.change.sequence,
                    role: update.change.role.code(),
                    days: update.change.days,
                    name: name.as_bytes(),
                    public_key: &[],
                    certification: &[],
                };
                let certification = change_mac(*method, authority, &[&status.certified()]);
                status.certification = certification.as_ref().map_or(&[], |mac| mac.bytes());
                self.send(now, next, &[Authentication::UserStatusChange(status)], out);
            }
            Stage::Request => {
                let challenge = &update.own_challenge;
                let request =
                    Authentication::UpdateKeyRequest { method: method.code(), name: name.as_bytes(), challenge };
                self.send(now, next, &[request], out);
            }
            Stage::Change { sequence, user, challenge } => {
                let encrypted = authority.wrap(&write_update(name, &update.key, challenge));
                let numbers = confirmed_numbers(*sequence, *user);
                let parts = [outstation.as_bytes(), &update.own_challenge, challenge, &numbers];
                let proof = change_mac(*method, &update.key, &parts);
                let proof = proof.as_ref().map_or(&[][..], |mac| mac.bytes());
                let change =
                    Authentication::UpdateKeyChange { sequence: *sequence, user: *user, encrypted: &encrypted };
                self.send(now, next, &[change, Authentication::Confirmation(proof)], out);
            }
        }
    }

    /// The answer to the stage that is out.
    pub(super) fn handle_update(&mut self, object: Option<Authentication<'_>>) -> Reaction {
        let mut update = match core::mem::replace(&mut self.step, Step::Idle) {
            Step::Updating(update) => update,
            other @ (Step::Idle | Step::Asked | Step::Answering(_) | Step::Changing(_)) => {
                self.step = other;
                return self.unexpected();
            }
        };
        let next = match (&update.stage, object) {
            (Stage::Status, None) if update.change.operation == UserOperation::Delete => {
                self.deadline = None;
                return Reaction::Ended(update.token, Ok(()));
            }
            (Stage::Status, None) => Some(Stage::Request),
            (Stage::Request, Some(Authentication::UpdateKeyReply { sequence, user, challenge }))
                if is_challenge(challenge) =>
            {
                Some(Stage::Change { sequence, user, challenge: challenge.to_vec() })
            }
            (Stage::Change { sequence, user, challenge }, Some(Authentication::Confirmation(mac))) => {
                let numbers = confirmed_numbers(*sequence, *user);
                let UserChange { method, name, .. } = &update.change;
                let parts = [name.as_bytes(), challenge, &update.own_challenge, &numbers];
                if change_mac(*method, &update.key, &parts).is_some_and(|expected| expected.matches(mac)) {
                    let user = *user;
                    return self.finish_update(user, *update);
                }
                None
            }
            (Stage::Status | Stage::Request | Stage::Change { .. }, _) => None,
        };
        let reaction = match next {
            Some(stage) => {
                (update.stage, update.unsent, self.deadline) = (stage, true, None);
                Reaction::Heard
            }
            // Not the answer: that may still come.
            None => self.unexpected(),
        };
        self.step = Step::Updating(update);
        reaction
    }

    fn finish_update(&mut self, user: u16, update: Update) -> Reaction {
        let Update { token, change, key, .. } = update;
        self.deadline = None;
        self.count(Statistic::UpdateKeyChanges);
        self.count(Statistic::Successes);
        self.events.push(SecurityEvent::UpdateKeyChanged {
            user,
            name: change.name,
            role: change.role,
            until_day: None,
            key: key.clone(),
        });
        if user == self.config.user {
            self.config.update_key = key;
            self.due = true;
        }
        Reaction::Ended(token, Ok(()))
    }
}
