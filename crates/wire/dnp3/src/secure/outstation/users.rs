//! Users and their update keys, changed by the authority through the master (IEEE 1815 7.5.3.6, symmetric methods).
//!
//! ```text
//! master                                outstation
//!   │── user status change g120v10 ──────▶│  certified by the authority; kept until the key follows, done when deleting
//!   │◀───────────────── empty response ───│
//!   │── update key request g120v11 ──────▶│  name, challenge of the master
//!   │◀──────── update key reply g120v12 ──│  number, challenge of the outstation
//!   │── g120v13, confirmation g120v15 ───▶│  key wrapped for the outstation by the authority, proven by the master
//!   │◀──────────── confirmation g120v15 ──│  proven by the outstation: the user is there, with the key
//! ```

use super::{FragmentAction, OutstationSecurity, User, UserState};
use crate::app::{Fragment, Sequence};
use crate::secure::crypto::change_mac;
use crate::secure::object::is_challenge;
use crate::secure::{
    AuthError, Authentication, Key, KeyChangeMethod, KeyWrap, Mac, Role, SecurityEvent, Statistic, UserOperation,
    UserStatusChange,
};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use tieline_core::Now;
use zeroize::Zeroizing;

/// Bytes of a name; the standard sets no limit, and names are kept.
const NAME_BYTES_MAX: usize = 64;
/// Status changes that wait for their keys; another one is refused.
const CHANGES_MAX: usize = 4;

/// A certified change that waits for the user's key.
#[derive(Debug)]
pub(super) struct PendingChange {
    name: String,
    role: Role,
    until_day: Option<u32>,
}

/// An update key change that waits for the key.
#[derive(Debug)]
pub(super) struct UpdateChange {
    sequence: u32,
    user: u16,
    name: String,
    master_challenge: Vec<u8>,
    own_challenge: Vec<u8>,
}

impl OutstationSecurity {
    pub(super) fn handle_status_change(
        &mut self,
        now: Now,
        to: Sequence,
        change: &UserStatusChange<'_>,
    ) -> FragmentAction {
        let of = (change.sequence, 0);
        let Some(authority) =
            self.config.authority.as_ref().filter(|authority| change.method() == Some(authority.method))
        else {
            return self.refuse(now, to, of, AuthError::KeyChangeMethodNotPermitted);
        };
        let certified = change_mac(authority.method, &authority.key, &[&change.certified()])
            .is_some_and(|mac| mac.matches(change.certification));
        if !certified || change.sequence < authority.sequence {
            self.count(now, Statistic::AuthenticationFailures);
            return self.refuse(now, to, of, AuthError::InvalidCertification);
        }
        let (Some(operation), Some(role), Some(name)) =
            (change.operation(), Role::from_code(change.role), read_name(change.name))
        else {
            return self.refuse(now, to, of, AuthError::InvalidCertification);
        };
        // The events of what follows must find room: the owner has to keep them.
        if !self.events.has_room_for(3) {
            return self.discard(now);
        }
        let until_day = (change.days != u16::MAX).then(|| day(now).saturating_add(u32::from(change.days)));
        let known = self.users.iter().any(|state| state.user.name == name);
        match operation {
            UserOperation::Delete | UserOperation::Change if !known => {
                return self.refuse(now, to, of, AuthError::UnknownUser);
            }
            UserOperation::Add if !known && !self.has_room_for_user() => {
                return self.refuse(now, to, of, AuthError::UnknownUser);
            }
            UserOperation::Delete => self.remove_user(&name),
            UserOperation::Add | UserOperation::Change => {
                self.changes.retain(|pending| pending.name != name);
                if self.changes.len() >= CHANGES_MAX {
                    return self.discard(now);
                }
                self.changes.push(PendingChange { name, role, until_day });
            }
        }
        let next = change.sequence.saturating_add(1);
        if let Some(authority) = &mut self.config.authority {
            authority.sequence = next;
        }
        self.events.push(SecurityEvent::StatusSequence(next));
        self.note_success(now);
        self.answer(now, to, &[]);
        FragmentAction::Done
    }

    fn remove_user(&mut self, name: &str) {
        self.changes.retain(|pending| pending.name != name);
        let Some(at) = self.users.iter().position(|state| state.user.name == name) else { return };
        let state = self.users.swap_remove(at);
        self.events.push(SecurityEvent::UserRemoved { user: state.user.number });
    }

    pub(super) fn handle_update_request(
        &mut self,
        now: Now,
        to: Sequence,
        method: u8,
        (name, challenge): (&[u8], &[u8]),
    ) -> FragmentAction {
        let permitted = self.config.authority.as_ref().is_some_and(|authority| authority.method.code() == method);
        if !permitted {
            return self.refuse(now, to, (0, 0), AuthError::KeyChangeMethodNotPermitted);
        }
        let Some(name) = read_name(name).filter(|name| self.changes.iter().any(|change| change.name == *name)) else {
            return self.refuse(now, to, (0, 0), AuthError::UnknownUser);
        };
        if !is_challenge(challenge) {
            return self.discard_unexpected(now);
        }
        let Some(user) = self.number_for(&name) else {
            return self.refuse(now, to, (0, 0), AuthError::UnknownUser);
        };
        self.key_sequence = self.key_sequence.wrapping_add(1);
        let sequence = self.key_sequence;
        let own_challenge = self.random_challenge();
        let reply = Authentication::UpdateKeyReply { sequence, user, challenge: &own_challenge };
        self.answer(now, to, &[reply]);
        let master_challenge = challenge.to_vec();
        self.update = Some(UpdateChange { sequence, user, name, master_challenge, own_challenge });
        FragmentAction::Done
    }

    /// The number of a user; the lowest from 2 on that is free for a name that has none: 1 is the default user.
    fn number_for(&self, name: &str) -> Option<u16> {
        let known = self.users.iter().find(|state| state.user.name == name);
        known
            .map(|state| state.user.number)
            .or_else(|| (2..=u16::MAX).find(|number| self.users.iter().all(|state| state.user.number != *number)))
    }

    pub(super) fn handle_update_change(
        &mut self,
        now: Now,
        fragment: &Fragment<'_>,
        of: (u32, u16),
        encrypted: &[u8],
    ) -> FragmentAction {
        let to = fragment.control.sequence;
        let mut objects = Authentication::all(fragment).skip(1);
        let confirmation = match (objects.next(), objects.next()) {
            (Some(Authentication::Confirmation(mac)), None) => mac,
            (Some(Authentication::Signature(_)), _) => {
                return self.refuse(now, to, of, AuthError::KeyChangeMethodNotPermitted);
            }
            _ => return self.discard_unexpected(now),
        };
        if !self.events.has_room_for(3) {
            return self.discard(now);
        }
        let Some(update) = self.update.take_if(|update| (update.sequence, update.user) == of) else {
            self.count(now, Statistic::UpdateKeyFailures);
            return self.discard_unexpected(now);
        };
        match self.verify_update(&update, encrypted, confirmation) {
            Ok((key, answer)) => {
                self.install(now, update, key);
                self.answer(now, to, &[Authentication::Confirmation(answer.bytes())]);
                FragmentAction::Done
            }
            Err(error) => {
                // A wrong key is no reason to begin again: its forger would keep the authority out.
                self.update = Some(update);
                self.count(now, Statistic::UpdateKeyFailures);
                self.count(now, Statistic::AuthenticationFailures);
                self.refuse(now, to, of, error)
            }
        }
    }

    /// The update key, if the authority wrapped it for this change and the master knows it, and the answer to that.
    fn verify_update(
        &self,
        update: &UpdateChange,
        encrypted: &[u8],
        confirmation: &[u8],
    ) -> Result<(Key, Mac), AuthError> {
        let authority = self.config.authority.as_ref().ok_or(AuthError::KeyChangeMethodNotPermitted)?;
        let plain = authority.key.unwrap(encrypted).ok_or(AuthError::AuthenticationFailed)?;
        let key = read_update(authority.method, &plain, &update.name, &update.own_challenge)
            .ok_or(AuthError::AuthenticationFailed)?;
        let numbers = confirmed_numbers(update.sequence, update.user);
        let (theirs, ours) = (&update.master_challenge, &update.own_challenge);
        let expected = change_mac(authority.method, &key, &[self.config.name.as_bytes(), theirs, ours, &numbers]);
        if !expected.is_some_and(|mac| mac.matches(confirmation)) {
            return Err(AuthError::InvalidSignature);
        }
        let answer = change_mac(authority.method, &key, &[update.name.as_bytes(), ours, theirs, &numbers]);
        Ok((key, answer.ok_or(AuthError::KeyChangeMethodNotPermitted)?))
    }

    fn install(&mut self, now: Now, update: UpdateChange, key: Key) {
        let Some(at) = self.changes.iter().position(|change| change.name == update.name) else { return };
        let PendingChange { name, role, until_day } = self.changes.swap_remove(at);
        let user = User { number: update.user, name, role, until_day, update_key: key };
        self.events.push(SecurityEvent::UpdateKeyChanged {
            user: user.number,
            name: user.name.clone(),
            role,
            until_day,
            key: user.update_key.clone(),
        });
        // Session keys that the old key wrapped end with it.
        match self.user(user.number) {
            Some(state) => *state = UserState::new(user),
            None => self.users.push(UserState::new(user)),
        }
        self.note_success(now);
        self.count(now, Statistic::UpdateKeyChanges);
    }
}

fn read_name(bytes: &[u8]) -> Option<String> {
    let is_sane = (1..=NAME_BYTES_MAX).contains(&bytes.len());
    core::str::from_utf8(bytes).ok().filter(|_| is_sane).map(ToString::to_string)
}

/// Days since 1970-01-01.
fn day(now: Now) -> u32 {
    u32::try_from(now.utc.millis().div_euclid(86_400_000)).unwrap_or(0)
}

/// `KSQ 4 | user 2`, the end of what a confirmation is over (IEEE 1815 A.45.15).
pub(crate) fn confirmed_numbers(sequence: u32, user: u16) -> [u8; 6] {
    let ([a, b, c, d], [e, f]) = (sequence.to_le_bytes(), user.to_le_bytes());
    [a, b, c, d, e, f]
}

/// `name | update key | challenge of the outstation`: what the authority wraps (IEEE 1815 A.45.13).
pub(crate) fn write_update(name: &str, key: &Key, challenge: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new([name.as_bytes(), key.bytes(), challenge].concat())
}

fn read_update(method: KeyChangeMethod, plain: &[u8], name: &str, challenge: &[u8]) -> Option<Key> {
    let (key, rest) = plain.strip_prefix(name.as_bytes())?.split_at_checked(key_bytes(method)?)?;
    let filling = rest.strip_prefix(challenge)?;
    (filling.len() < 8 && filling.iter().all(|byte| *byte == 0)).then(|| Key::new(key)).flatten()
}

/// The wrap that update keys of a method are for; None for methods that are not done.
pub(crate) const fn wrap_of(method: KeyChangeMethod) -> Option<KeyWrap> {
    match method {
        KeyChangeMethod::Aes128Sha1 => Some(KeyWrap::Aes128),
        KeyChangeMethod::Aes256Sha256 => Some(KeyWrap::Aes256),
        KeyChangeMethod::Aes256Gmac
        | KeyChangeMethod::Rsa1024Sha1
        | KeyChangeMethod::Rsa2048Sha256
        | KeyChangeMethod::Rsa3072Sha256
        | KeyChangeMethod::Rsa2048Gmac
        | KeyChangeMethod::Rsa3072Gmac => None,
    }
}

const fn key_bytes(method: KeyChangeMethod) -> Option<usize> {
    match wrap_of(method) {
        Some(KeyWrap::Aes128) => Some(16),
        Some(KeyWrap::Aes256) => Some(32),
        None => None,
    }
}
