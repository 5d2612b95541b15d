//! Session keys: their status and their change (IEEE 1815 7.5.3.2).

use super::{FragmentAction, OutstationSecurity};
use crate::app::Sequence;
use crate::secure::crypto::SessionKeys;
use crate::secure::{AuthError, Authentication, KeyStatus, KeyStatusObject, SecurityEvent, Statistic};
use tieline_core::Now;

impl OutstationSecurity {
    pub(super) fn handle_key_request(&mut self, now: Now, to: Sequence, user: u16) -> FragmentAction {
        // Each answer makes the one before worthless: a peer that asks all the time keeps others from changing keys.
        if self.key_requests_left == 0 && now.mono < self.key_request_at {
            return self.refuse(now, to, (0, user), AuthError::TooManyKeyRequests);
        }
        if self.user(user).is_none() {
            self.count(now, Statistic::UnexpectedMessages);
            return self.refuse(now, to, (0, user), AuthError::UnknownUser);
        }
        self.key_requests_left = self.key_requests_left.saturating_sub(1);
        self.key_request_at = now.mono + self.config.reply_timeout;
        self.answer_status(now, to, user, None);
        FragmentAction::Done
    }

    /// Tells the status of a user's keys, with a challenge that the next change must answer.
    fn answer_status(&mut self, now: Now, to: Sequence, user: u16, change: Option<&[u8]>) {
        self.key_sequence = self.key_sequence.wrapping_add(1);
        let (sequence, algorithm) = (self.key_sequence, self.config.mac);
        let challenge = self.random_challenge();
        let Some(state) = self.user(user) else { return };
        let status = state.session.status(now.mono);
        let mac =
            change.and_then(|change| Some(state.session.keys(now.mono)?.status_mac(algorithm, user, sequence, change)));
        let object = KeyStatusObject {
            sequence,
            user,
            wrap: state.user.update_key.wrap_algorithm().code(),
            status: status.code(),
            algorithm: if mac.is_some() { algorithm.code() } else { 0 },
            challenge: &challenge,
            mac: mac.as_ref().map_or(&[], |mac| mac.bytes()),
        };
        state.status = Some((sequence, object.without_mac()));
        self.answer(now, to, &[Authentication::KeyStatus(object)]);
    }

    pub(super) fn handle_key_change(
        &mut self,
        now: Now,
        bytes: &[u8],
        to: Sequence,
        of: (u32, u16),
        wrapped: &[u8],
    ) -> FragmentAction {
        let (number, user) = of;
        let limits = self.config.keys;
        let Some(state) = self.user(user) else {
            self.count(now, Statistic::UnexpectedMessages);
            return self.refuse(now, to, of, AuthError::UnknownUser);
        };
        // Answers another status: a repetition, or one that lost a race.
        let Some((_, status)) = state.status.as_ref().filter(|(sequence, _)| *sequence == number) else {
            self.count(now, Statistic::SessionKeyFailures);
            return self.discard_unexpected(now);
        };
        let Some(keys) = SessionKeys::unwrap(&state.user.update_key, wrapped, status) else {
            // The keys that there are hold on: who forges a change must not end them.
            self.count(now, Statistic::SessionKeyFailures);
            self.events.push(SecurityEvent::KeyChangeFailed { user });
            self.count(now, Statistic::AuthenticationFailures);
            return self.refuse(now, to, of, AuthError::AuthenticationFailed);
        };
        state.session.begin(now.mono, keys, limits);
        state.failures = 0;
        self.key_requests_left = self.config.key_requests_max;
        self.note_success(now);
        self.count(now, Statistic::SessionKeyChanges);
        self.events.push(SecurityEvent::KeysChanged { user });
        self.answer_status(now, to, user, Some(bytes));
        debug_assert!(self.user(user).is_some_and(|state| state.session.status(now.mono) == KeyStatus::Ok));
        FragmentAction::Done
    }
}
