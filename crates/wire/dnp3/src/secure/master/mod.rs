//! Secure authentication of a master: changes session keys, answers challenges (IEEE 1815 7.5.1, 7.5.3).
//!
//! ```text
//!            due (connected, time, count, failure, restart)           status        MAC right
//! Idle ─────────────────────────────────────────────────▶ Asked ────▶ Changing ─────────────▶ Idle, keys
//!   ▲                                                       │            │
//!   └── another try after a rest ◀── no answer in time, refused ◀────────┘
//! ```
//!
//! A challenge is answered in every state while there are keys. A change of a user or of an update key goes the same
//! way as a change of session keys: one request at a time, and nothing else while one is out.

mod challenge;
mod keys;
mod update;

use super::event::Events;
use super::session::Session;
use super::{
    AuthError, Authentication, BoxedRandom, FunctionSet, Key, KeyLimits, KeyStatus, MacAlgorithm, SecurityEvent,
    Statistic, Statistics, Thresholds,
};
use crate::app::{AppControl, Fragment, Function, Sequence};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use keys::Changing;
use tieline_core::{Instant, Now};
use update::Update;
pub use update::UserChange;

/// How a master authenticates. Durations of zero mean at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterSecurityConfig {
    /// On whose behalf it acts. Default 1, the default user.
    pub user: u16,
    /// The user's update key.
    pub update_key: Key,
    /// Whether requests go in aggressive mode once the outstation has sent a challenge. Default true.
    pub aggressive: bool,
    /// Functions that the outstation is known to challenge: those that aggressive mode is for. Default
    /// [`FunctionSet::MANDATORY`].
    pub critical: FunctionSet,
    /// Algorithms that the outstation may ask for. Default all but HMAC-SHA-1 with 4 bytes and AES-GMAC.
    pub macs: Vec<MacAlgorithm>,
    /// How long session keys are used, and for how many messages, before they are changed; where that fails, they are
    /// used for twice as much. Default 30 min, 2000.
    pub keys: KeyLimits,
    /// How long an answer to a request of its own may take. Default 5 s.
    pub response_timeout: Duration,
    /// How long it waits after session keys could not be changed. Default 5 s.
    pub retry_delay: Duration,
    /// Session key changes in a row that a failed authentication may cause: beyond, it waits for the next that is due
    /// by time. Default 3.
    pub rekeys_max: u16,
    /// How many counts make an event. Default as the standard's.
    pub thresholds: Thresholds,
}

impl MasterSecurityConfig {
    /// The default user with this update key, and all else by default.
    #[must_use]
    pub fn new(update_key: Key) -> Self {
        Self {
            user: 1,
            update_key,
            aggressive: true,
            critical: FunctionSet::MANDATORY,
            macs: [
                MacAlgorithm::HmacSha256x16,
                MacAlgorithm::HmacSha256x8,
                MacAlgorithm::HmacSha1x10,
                MacAlgorithm::HmacSha1x8,
            ]
            .to_vec(),
            keys: KeyLimits { interval: Duration::from_secs(1800), count: 2000 },
            response_timeout: Duration::from_secs(5),
            retry_delay: Duration::from_secs(5),
            rekeys_max: 3,
            thresholds: Thresholds::default(),
        }
    }
}

/// What is out.
#[derive(Debug)]
enum Step {
    Idle,
    /// A session key status request.
    Asked,
    /// The status is there, and the change is to be sent.
    Answering(Box<Changing>),
    /// A session key change.
    Changing(Box<Changing>),
    /// A change of a user.
    Updating(Box<Update>),
}

/// What a fragment of the outstation meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Nothing that was asked for.
    Unexpected,
    /// Part of a change of keys.
    Heard,
    /// A challenge of the request that is out: the reply is to be sent.
    Challenged,
    /// The request that is out will not be performed.
    Refused(AuthError),
    /// A change of a user has come to an end: its token, and why it failed.
    Ended(u64, Result<(), AuthError>),
}

/// Secure authentication of one master with one outstation.
pub struct MasterSecurity {
    config: MasterSecurityConfig,
    random: BoxedRandom,
    session: Session,
    step: Step,
    /// Of the request that is out.
    sequence: Sequence,
    /// Until when its answer may come.
    deadline: Option<Instant>,
    /// Whether session keys are to be changed as soon as nothing else is out.
    due: bool,
    /// When they are due at the latest.
    due_at: Option<Instant>,
    /// Messages that may be proven before they are due.
    uses_left: u32,
    /// Changes of keys in a row that failures caused.
    rekeys: u16,
    /// The request of the master that is out, as it was sent.
    request: Vec<u8>,
    is_aggressive: bool,
    /// The fragment of the last challenge under these keys, and its algorithm.
    challenge: Option<(Box<[u8]>, MacAlgorithm)>,
    /// The last challenge sequence number of either kind under these keys.
    challenge_sequence: u32,
    /// The last challenge that was answered under these keys.
    answered: Option<u32>,
    /// Whether the request that is out was proven, and whether that was in vain.
    is_proven: bool,
    in_vain: bool,
    /// The fragment that goes out next, ahead of all requests.
    reply: Option<Vec<u8>>,
    update: Option<Box<Update>>,
    events: Events,
    statistics: Statistics,
}

impl MasterSecurity {
    /// Without session keys.
    #[must_use]
    pub fn new(config: MasterSecurityConfig, random: BoxedRandom) -> Self {
        Self {
            config,
            random,
            session: Session::new(),
            step: Step::Idle,
            sequence: Sequence::default(),
            deadline: None,
            due: false,
            due_at: None,
            uses_left: 0,
            rekeys: 0,
            request: Vec::new(),
            is_aggressive: false,
            challenge: None,
            challenge_sequence: 0,
            answered: None,
            is_proven: false,
            in_vain: false,
            reply: None,
            update: None,
            events: Events::default(),
            statistics: Statistics::default(),
        }
    }

    /// How it behaves.
    #[must_use]
    pub const fn config(&self) -> &MasterSecurityConfig {
        &self.config
    }

    /// What it counted.
    #[must_use]
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Events that the owner did not take in time.
    #[must_use]
    pub const fn events_dropped(&self) -> u64 {
        self.events.dropped()
    }

    /// Whether there are session keys that hold.
    #[must_use]
    pub fn has_keys(&mut self, now: Now) -> bool {
        self.session.status(now.mono) == KeyStatus::Ok
    }

    pub(crate) fn poll_event(&mut self) -> Option<SecurityEvent> {
        self.events.pop()
    }

    pub(crate) fn handle_connected(&mut self) {
        (self.due, self.rekeys) = (true, 0);
    }

    /// Forgets everything of the connection; says the token of the change of a user that ends with it.
    pub(crate) fn handle_disconnected(&mut self) -> Option<u64> {
        self.session.break_off(KeyStatus::CommunicationFailed);
        self.forget_challenge();
        (self.deadline, self.due, self.due_at, self.reply) = (None, false, None, None);
        let out = core::mem::replace(&mut self.step, Step::Idle);
        let under_way = if let Step::Updating(update) = out { Some(update) } else { None };
        under_way.or(self.update.take()).map(|update| update.token)
    }

    /// The outstation restarted, and has forgotten its keys.
    pub(crate) fn note_restart(&mut self, now: Now) {
        if self.session.keys(now.mono).is_some() {
            self.count(Statistic::RekeysAfterRestart);
            self.due = true;
        }
    }

    pub(crate) fn timeout(&self) -> Option<Instant> {
        let due_at = self.due_at.filter(|_| !self.due);
        self.deadline.into_iter().chain(due_at).min()
    }

    /// Says the token of the change of a user that came to no end in time.
    pub(crate) fn handle_timeout(&mut self, now: Now) -> Option<u64> {
        if self.due_at.take_if(|at| *at <= now.mono).is_some() {
            (self.due, self.rekeys) = (true, 0);
        }
        self.deadline.take_if(|at| *at <= now.mono)?;
        self.count(Statistic::ReplyTimeouts);
        match core::mem::replace(&mut self.step, Step::Idle) {
            Step::Updating(update) => {
                self.count(Statistic::UpdateKeyFailures);
                Some(update.token)
            }
            Step::Asked | Step::Answering(_) | Step::Changing(_) => {
                self.fail_keys(now);
                None
            }
            Step::Idle => None,
        }
    }

    /// Whether a request of its own is out, or about to be: no other may be sent.
    pub(crate) const fn is_busy(&self) -> bool {
        self.due || self.update.is_some() || !matches!(self.step, Step::Idle)
    }

    /// Appends a reply to a challenge; says whether there was one.
    pub(crate) fn write_reply(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(reply) = self.reply.take() else { return false };
        out.extend_from_slice(&reply);
        self.count(Statistic::MessagesSent);
        true
    }

    /// Appends the next request of its own, under the next sequence number; says whether there was one.
    pub(crate) fn write_request(&mut self, now: Now, next: &mut Sequence, out: &mut Vec<u8>) -> bool {
        if matches!(self.step, Step::Idle) {
            if core::mem::take(&mut self.due) {
                self.step = Step::Asked;
                self.send(now, next, &[Authentication::KeyStatusRequest { user: self.config.user }], out);
                return true;
            }
            let Some(update) = self.update.take() else { return false };
            self.step = Step::Updating(update);
        }
        match core::mem::replace(&mut self.step, Step::Idle) {
            Step::Answering(changing) => {
                self.send_change(now, next, changing, out);
                true
            }
            Step::Updating(mut update) if update.is_unsent() => {
                self.send_update(now, next, &mut update, out);
                self.step = Step::Updating(update);
                true
            }
            other @ (Step::Idle | Step::Asked | Step::Changing(_) | Step::Updating(_)) => {
                self.step = other;
                false
            }
        }
    }

    fn send(&mut self, now: Now, next: &mut Sequence, objects: &[Authentication<'_>], out: &mut Vec<u8>) {
        self.sequence = *next;
        *next = next.next();
        out.extend_from_slice(&[AppControl::single(self.sequence).emit(), Function::AuthenticationRequest.code()]);
        objects.iter().for_each(|object| object.write(out));
        self.deadline = Some(now.mono + self.config.response_timeout);
        self.count(Statistic::MessagesSent);
    }

    /// Takes an authentication response. `awaited` is the sequence number of the request that is out.
    pub(crate) fn handle_fragment(&mut self, now: Now, bytes: &[u8], awaited: Option<Sequence>) -> Reaction {
        self.count(Statistic::MessagesReceived);
        let Ok(fragment) = Fragment::parse(bytes) else { return Reaction::Unexpected };
        if !fragment.control.fir || !fragment.control.fin || fragment.control.uns {
            return self.unexpected();
        }
        let is_ours =
            !matches!(self.step, Step::Idle | Step::Answering(_)) && fragment.control.sequence == self.sequence;
        match Authentication::only(&fragment) {
            Some(Authentication::Challenge(challenge)) if awaited == Some(fragment.control.sequence) => {
                self.handle_challenge(now, bytes, fragment.control.sequence, &challenge)
            }
            Some(Authentication::Error(error)) if is_ours || awaited == Some(fragment.control.sequence) => {
                self.count(Statistic::ErrorsReceived);
                self.events.push(SecurityEvent::ErrorReceived { user: error.user, error: error.error() });
                let error = error.error().unwrap_or(AuthError::AuthenticationFailed);
                if is_ours { self.end_step(now, error) } else { self.refused(error) }
            }
            Some(Authentication::KeyStatus(status)) if is_ours => self.handle_key_status(now, &status),
            object if is_ours && (object.is_some() || fragment.objects.is_empty()) => self.handle_update(object),
            Some(_) | None => self.unexpected(),
        }
    }

    fn unexpected(&mut self) -> Reaction {
        self.count(Statistic::UnexpectedMessages);
        self.count(Statistic::Discarded);
        Reaction::Unexpected
    }

    /// The outstation refused a request of ours.
    fn end_step(&mut self, now: Now, error: AuthError) -> Reaction {
        self.deadline = None;
        match core::mem::replace(&mut self.step, Step::Idle) {
            Step::Updating(update) => {
                self.count(Statistic::UpdateKeyFailures);
                Reaction::Ended(update.token, Err(error))
            }
            Step::Idle | Step::Asked | Step::Answering(_) | Step::Changing(_) => {
                self.fail_keys(now);
                Reaction::Heard
            }
        }
    }

    fn count(&mut self, statistic: Statistic) {
        let threshold = self.config.thresholds.of(statistic);
        if let Some(count) = self.statistics.increment(statistic, threshold) {
            self.events.push(SecurityEvent::Statistic { statistic, count });
        }
    }

    fn forget_challenge(&mut self) {
        (self.challenge, self.answered) = (None, None);
    }
}

impl fmt::Debug for MasterSecurity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterSecurity")
            .field("user", &self.config.user)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}
