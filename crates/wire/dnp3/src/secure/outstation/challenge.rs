//! Critical requests: challenge, reply, aggressive mode (IEEE 1815 7.5.3.3).

use super::{FragmentAction, OUTGOING_MAX, OutstationSecurity, Waiting};
use crate::app::{Fragment, Qualifier, Sequence};
use crate::secure::crypto::{MacUse, mac};
use crate::secure::{
    AuthError, Authentication, Challenge, ChallengeReason, GROUP, KeyStatus, SecurityEvent, Statistic,
};
use alloc::vec::Vec;
use tieline_core::{Cursor, Now};

/// The header of an aggressive mode request, which is the first of its fragment: g120v3, qualifier 07, count 1.
const AGGRESSIVE: [u8; 4] = [GROUP, 3, Qualifier::COUNT_8.0, 1];
/// Bytes of g120v9's header and size prefix.
const MAC_HEADER: usize = 6;
/// Bytes of a request's header.
const REQUEST_HEADER: usize = 2;

/// Whether the first object of a request is that of aggressive mode.
pub(super) fn is_aggressive(objects: &[u8]) -> bool {
    matches!(objects, [GROUP, 3, ..])
}

/// A request in aggressive mode, taken apart.
struct Aggressive<'a> {
    sequence: u32,
    user: u16,
    /// All that its MAC is over: the fragment up to the MAC.
    signed: &'a [u8],
    /// The objects of the request proper.
    inner: &'a [u8],
    mac: &'a [u8],
}

/// `control | function | 120 3 07 1 CSQ user | objects | 120 9 5B 1 length | MAC`
fn take_apart(bytes: &[u8], mac_bytes: usize) -> Option<Aggressive<'_>> {
    let mut cursor = Cursor::new(bytes);
    cursor.take(REQUEST_HEADER).ok()?;
    if cursor.array() != Ok(AGGRESSIVE) {
        return None;
    }
    let (sequence, user) = (cursor.u32_le().ok()?, cursor.u16_le().ok()?);
    let inner = cursor.take(cursor.left().checked_sub(MAC_HEADER + mac_bytes)?).ok()?;
    let length = u16::try_from(mac_bytes).ok()?.to_le_bytes();
    if cursor.array() != Ok([GROUP, 9, Qualifier::FREE.0, 1, length[0], length[1]]) {
        return None;
    }
    let mac = cursor.rest();
    let signed = bytes.get(..bytes.len().checked_sub(mac.len())?)?;
    Some(Aggressive { sequence, user, signed, inner, mac })
}

impl OutstationSecurity {
    /// Keeps a critical request and asks who sent it.
    pub(super) fn challenge(&mut self, now: Now, bytes: &[u8], fragment: &Fragment<'_>) -> FragmentAction {
        if self.waiting.is_some() || self.outgoing.len() >= OUTGOING_MAX {
            return self.discard_unexpected(now);
        }
        self.challenge_sequence = self.challenge_sequence.wrapping_add(1);
        let sequence = self.challenge_sequence;
        self.waiting = Some(Waiting { sequence, request: bytes.into(), challenged: None });
        self.count(now, Statistic::CriticalReceived);
        let data = self.random_challenge();
        let challenge = Challenge {
            sequence,
            user: 0,
            mac: self.config.mac.code(),
            reason: ChallengeReason::Critical.code(),
            data: &data,
        };
        self.answer(now, fragment.control.sequence, &[Authentication::Challenge(challenge)]);
        FragmentAction::Done
    }

    pub(super) fn handle_reply(
        &mut self,
        now: Now,
        to: Sequence,
        number: u32,
        user: u16,
        received: &[u8],
    ) -> FragmentAction {
        // A reply to another challenge, or to one that has not been sent, leaves what waits as it is.
        let is_due = |waiting: &mut Waiting| waiting.sequence == number && waiting.challenged.is_some();
        let Some(Waiting { request, challenged: Some((challenge, _)), .. }) = self.waiting.take_if(is_due) else {
            return self.discard_unexpected(now);
        };
        let algorithm = self.config.mac;
        let use_of = MacUse::reply(user, number);
        let parts = [&*challenge, &*request];
        let keys = self.user(user).and_then(|state| state.session.keys(now.mono));
        let is_authentic = keys.is_some_and(|keys| mac(algorithm, &keys.control, use_of, &parts).matches(received));
        if !is_authentic {
            return self.fail(now, to, (number, user));
        }
        match Fragment::parse(&request) {
            Ok(fragment) if self.admit(now, user, &fragment) => FragmentAction::Perform(request),
            Ok(_) => self.refuse(now, to, (number, user), AuthError::NotAuthorized),
            Err(_) => self.discard(now),
        }
    }

    pub(super) fn handle_aggressive(&mut self, now: Now, bytes: &[u8], fragment: &Fragment<'_>) -> FragmentAction {
        self.count(now, Statistic::CriticalReceived);
        let to = fragment.control.sequence;
        let Some(request) = take_apart(bytes, self.config.mac.bytes()) else {
            return self.discard_unexpected(now);
        };
        let Aggressive { sequence: number, user, signed, inner, mac: received } = request;
        if !self.config.aggressive {
            return self.refuse(now, to, (number, user), AuthError::AggressiveNotPermitted);
        }
        // A number that was used before is a replay: it leaves everything as it is.
        let ahead = number.wrapping_sub(self.challenge_sequence);
        if self.last_challenge.is_empty() || ahead == 0 || ahead > u32::MAX / 2 {
            return self.discard_unexpected(now);
        }
        let (algorithm, use_of) = (self.config.mac, MacUse::aggressive(user, number));
        let challenge = core::mem::take(&mut self.last_challenge);
        let keys = self.user(user).and_then(|state| state.session.keys(now.mono));
        let is_authentic =
            keys.is_some_and(|keys| mac(algorithm, &keys.control, use_of, &[&challenge, signed]).matches(received));
        self.last_challenge = challenge;
        if !is_authentic {
            return self.fail(now, to, (number, user));
        }
        self.challenge_sequence = number;
        // Its master has given up what it was challenged for.
        self.waiting = None;
        let head = bytes.get(..REQUEST_HEADER).unwrap_or_default();
        let bare: Vec<u8> = [head, inner].concat();
        match Fragment::parse(&bare) {
            Ok(fragment) if self.admit(now, user, &fragment) => FragmentAction::Perform(bare.into()),
            Ok(_) => self.refuse(now, to, (number, user), AuthError::NotAuthorized),
            Err(_) => self.discard(now),
        }
    }

    /// Notes that a user is authentic and says whether the user may ask for this.
    fn admit(&mut self, now: Now, user: u16, fragment: &Fragment<'_>) -> bool {
        self.note_success(now);
        let Some(state) = self.user(user) else { return false };
        state.failures = 0;
        state.session.note_use();
        let may = state.is_in_office(now) && state.user.role.may(fragment);
        if !may {
            self.count(now, Statistic::AuthorizationFailures);
        }
        may
    }

    /// Something was not authentic. Too much of it ends the session keys of the user that it claims to come from.
    pub(super) fn fail(&mut self, now: Now, to: Sequence, of: (u32, u16)) -> FragmentAction {
        self.count(now, Statistic::AuthenticationFailures);
        let failures_max = self.config.failures_max.max(1);
        if let Some(state) = self.user(of.1) {
            state.failures = state.failures.saturating_add(1);
            if state.failures >= failures_max && state.session.status(now.mono) == KeyStatus::Ok {
                state.session.end(KeyStatus::AuthenticationFailed);
                self.events.push(SecurityEvent::KeysLost { user: of.1 });
            }
        }
        self.refuse(now, to, of, AuthError::AuthenticationFailed)
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn aggressive_requests_are_taken_apart() {
        let bytes =
            [0xC3, 4, 120, 3, 7, 1, 9, 0, 0, 0, 1, 0, 12, 1, 0x17, 0, 120, 9, 0x5B, 1, 4, 0, 0xA, 0xB, 0xC, 0xD];
        let request = take_apart(&bytes, 4).unwrap();
        assert_eq!((request.sequence, request.user), (9, 1));
        assert_eq!(request.inner, [12, 1, 0x17, 0]);
        assert_eq!((request.mac, request.signed.len()), ([0xA, 0xB, 0xC, 0xD].as_slice(), 22));
        assert!(take_apart(&bytes, 8).is_none());
        assert!(take_apart(&bytes[..25], 4).is_none());
    }
}
