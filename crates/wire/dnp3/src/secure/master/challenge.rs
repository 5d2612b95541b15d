//! Requests of the master: aggressive mode, and replies to challenges (IEEE 1815 7.5.3.3, 7.5.3.4).

use super::{MasterSecurity, Reaction, Step};
use crate::DnpTime;
use crate::app::{AppControl, Fragment, Function, Qualifier, Sequence};
use crate::secure::crypto::{MacUse, mac};
use crate::secure::object::is_challenge;
use crate::secure::{AuthError, Authentication, Challenge, ErrorObject, GROUP, MacAlgorithm, Statistic};
use alloc::vec::Vec;
use tieline_core::Now;

/// Bytes that aggressive mode adds, but for the MAC: g120v3 with its header, and the header of g120v9.
const AGGRESSIVE_BYTES: usize = 10 + 6;

impl MasterSecurity {
    /// Remembers a request, `out[start..]`, that is about to be framed, and makes it prove itself where it can.
    /// Says whether the outstation will challenge it.
    pub(crate) fn guard(&mut self, now: Now, bytes_max: usize, out: &mut Vec<u8>, start: usize) -> bool {
        self.count(Statistic::MessagesSent);
        if self.is_proven && !self.in_vain {
            self.rekeys = 0;
        }
        self.is_aggressive = self.make_aggressive(now, bytes_max, out, start).is_some();
        (self.is_proven, self.in_vain) = (self.is_aggressive, false);
        self.request.clear();
        self.request.extend_from_slice(out.get(start..).unwrap_or_default());
        let function = Fragment::parse(&self.request).map(|fragment| fragment.function);
        !self.is_aggressive && function.is_ok_and(|function| self.config.critical.contains(function))
    }

    fn make_aggressive(&mut self, now: Now, bytes_max: usize, out: &mut Vec<u8>, start: usize) -> Option<()> {
        let bare = out.get(start..)?;
        let is_critical = self.config.critical.contains(Fragment::parse(bare).ok()?.function);
        if !self.config.aggressive || !is_critical {
            return None;
        }
        let (challenge, algorithm) = self.challenge.as_ref()?;
        if bare.len() + AGGRESSIVE_BYTES + algorithm.bytes() > bytes_max {
            return None;
        }
        let (head, objects) = bare.split_first_chunk::<2>()?;
        let (user, sequence) = (self.config.user, self.challenge_sequence.wrapping_add(1));
        let mut signed = head.to_vec();
        Authentication::AggressiveRequest { sequence, user }.write(&mut signed);
        signed.extend_from_slice(objects);
        let [low, high] = u16::try_from(algorithm.bytes()).ok()?.to_le_bytes();
        signed.extend_from_slice(&[GROUP, 9, Qualifier::FREE.0, 1, low, high]);
        let keys = self.session.keys(now.mono)?;
        let proof = mac(*algorithm, &keys.control, MacUse::aggressive(user, sequence), &[challenge, &signed]);
        out.truncate(start);
        out.extend_from_slice(&signed);
        out.extend_from_slice(proof.bytes());
        self.challenge_sequence = sequence;
        self.note_use();
        self.count(Statistic::CriticalSent);
        Some(())
    }

    /// Counts a use of the keys; the last one makes a change due.
    fn note_use(&mut self) {
        self.session.note_use();
        self.uses_left = self.uses_left.saturating_sub(1);
        self.due |= self.uses_left == 0;
    }

    /// The request that is out was not answered. If it was proven, the outstation may have lost its keys, and have
    /// told so too often already.
    pub(crate) fn note_unanswered(&mut self) {
        if self.is_proven {
            self.challenge = None;
            self.change_keys_after_failure();
        }
    }

    fn change_keys_after_failure(&mut self) {
        self.in_vain = true;
        if matches!(self.step, Step::Idle) && self.rekeys < self.config.rekeys_max {
            self.rekeys += 1;
            self.due = true;
            self.count(Statistic::RekeysAfterFailure);
        }
    }

    pub(super) fn handle_challenge(
        &mut self,
        now: Now,
        bytes: &[u8],
        to: Sequence,
        challenge: &Challenge<'_>,
    ) -> Reaction {
        self.count(Statistic::CriticalSent);
        // A number that was answered under these keys is a repetition. Nothing is proven twice with it.
        let fresh = self.answered.is_none_or(|last| is_ahead(challenge.sequence, last));
        if !fresh || !is_challenge(challenge.data) {
            return self.unexpected();
        }
        let Some(algorithm) = challenge.algorithm().filter(|algorithm| self.config.macs.contains(algorithm)) else {
            self.tell_error(now, to, challenge.sequence, AuthError::MacNotSupported);
            return Reaction::Refused(AuthError::MacNotSupported);
        };
        let user = self.config.user;
        let Some(keys) = self.session.keys(now.mono) else {
            return self.refused(AuthError::AuthenticationFailed);
        };
        let parts = [bytes, self.request.as_slice()];
        let proof = mac(algorithm, &keys.control, MacUse::reply(user, challenge.sequence), &parts);
        let reply = Authentication::Reply { sequence: challenge.sequence, user, mac: proof.bytes() };
        self.reply = Some(fragment(to, Function::AuthenticationRequest, &reply));
        // Aggressive mode goes on from the highest: no number proves two requests.
        if self.answered.replace(challenge.sequence).is_none() || is_ahead(challenge.sequence, self.challenge_sequence)
        {
            self.challenge_sequence = challenge.sequence;
        }
        self.is_proven = true;
        self.challenge = Some((bytes.into(), algorithm));
        self.note_use();
        Reaction::Challenged
    }

    /// An error object, which nobody answers (function 33).
    fn tell_error(&mut self, now: Now, to: Sequence, sequence: u32, error: AuthError) {
        self.count(Statistic::ErrorsSent);
        let object = ErrorObject {
            sequence,
            user: self.config.user,
            association: 0,
            code: error.code(),
            time: DnpTime::from(now.utc),
            text: &[],
        };
        self.reply = Some(fragment(to, Function::AuthenticationRequestNoResponse, &Authentication::Error(object)));
    }

    /// The request that is out was refused. Other keys may help, but not for ever.
    pub(super) fn refused(&mut self, error: AuthError) -> Reaction {
        self.challenge = None;
        match error {
            AuthError::NotAuthorized => self.count(Statistic::AuthorizationFailures),
            AuthError::AggressiveNotPermitted => self.config.aggressive = false,
            AuthError::AuthenticationFailed
            | AuthError::UnexpectedReply
            | AuthError::NoReply
            | AuthError::MacNotSupported
            | AuthError::KeyWrapNotSupported
            | AuthError::KeyChangeMethodNotPermitted
            | AuthError::InvalidSignature
            | AuthError::InvalidCertification
            | AuthError::UnknownUser
            | AuthError::TooManyKeyRequests => {
                self.count(Statistic::AuthenticationFailures);
                self.change_keys_after_failure();
            }
        }
        Reaction::Refused(error)
    }

    /// The algorithm that the outstation asked for last.
    #[must_use]
    pub fn algorithm(&self) -> Option<MacAlgorithm> {
        self.challenge.as_ref().map(|(_, algorithm)| *algorithm)
    }
}

/// Whether a sequence number comes after another, which may be just before the numbers begin again.
fn is_ahead(sequence: u32, last: u32) -> bool {
    let ahead = sequence.wrapping_sub(last);
    ahead != 0 && ahead <= u32::MAX / 2
}

fn fragment(sequence: Sequence, function: Function, object: &Authentication<'_>) -> Vec<u8> {
    let mut out = [AppControl::single(sequence).emit(), function.code()].to_vec();
    object.write(&mut out);
    out
}
