//! Secure authentication of an outstation: decides what may be performed (IEEE 1815 7.5.1, 7.5.3).
//!
//! ```text
//!                 critical request              reply authentic and authorized: performed
//! Idle ───────────────────────────▶ Waiting ────────────────────────────────────────────▶ Idle
//!                 challenge sent       │ not authentic · not authorized · no reply in time
//!                                      └──────────────────────────────────────────────────▶ Idle, request discarded
//! ```
//!
//! A request that is not critical, a confirm, a key change and an aggressive mode request pass in both states. Another
//! critical request while one waits is discarded. Nothing here touches unsolicited reporting.

mod challenge;
mod keys;
mod report;
mod users;

use super::event::Events;
use super::object::{CHALLENGE_BYTES_MAX, CHALLENGE_BYTES_MIN};
use super::session::Session;
use super::{
    AuthError, Authentication, BoxedRandom, ErrorObject, FunctionSet, Key, KeyChangeMethod, KeyLimits, KeyStatus,
    MacAlgorithm, Role, SecurityEvent, Statistic, Statistics, Thresholds,
};
use crate::app::{AppControl, Fragment, Function, Sequence};
use crate::link::Broadcast;
use crate::{DnpTime, Iin};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use report::StatisticEvent;
use tieline_core::{Instant, Now};
use users::{PendingChange, UpdateChange};
pub(super) use users::{confirmed_numbers, wrap_of, write_update};

/// Fragments of our own that wait for being sent; one more is dropped, and the master asks again.
const OUTGOING_MAX: usize = 4;

/// How an outstation authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutstationSecurityConfig {
    /// The algorithm of all MACs of this association. Default HMAC-SHA-256 with 16 bytes.
    pub mac: MacAlgorithm,
    /// Functions that are challenged. Default [`FunctionSet::MANDATORY`].
    pub critical: FunctionSet,
    /// Whether aggressive mode is permitted. Default true.
    pub aggressive: bool,
    /// Bytes of challenge data, 4 to 64; what is beyond is brought within. Default 16.
    pub challenge_bytes: u8,
    /// How long a reply may take. Default 2 s.
    pub reply_timeout: Duration,
    /// How long session keys hold, and for how many messages: twice what the master keeps to. Default 60 min, 4000.
    pub keys: KeyLimits,
    /// Failures in a row after which a user's session keys are given up. Default 5.
    pub failures_max: u16,
    /// Error objects sent until something is authentic again. Default 2.
    pub errors_max: u16,
    /// Session key status requests answered at once until session keys change; then one each
    /// [`reply_timeout`](Self::reply_timeout). Default 5.
    pub key_requests_max: u16,
    /// The number of this association, in error objects and statistics. Default 0.
    pub association: u16,
    /// The name of the outstation, in changes of update keys.
    pub name: String,
    /// Who may change users over the wire; nobody may without. Default none.
    pub authority: Option<Authority>,
    /// Users at most, 1 and up; another one is refused. Default 16.
    pub users_max: u16,
    /// How many counts make an event of group 122. Default as the standard's.
    pub thresholds: Thresholds,
}

impl Default for OutstationSecurityConfig {
    fn default() -> Self {
        Self {
            mac: MacAlgorithm::HmacSha256x16,
            critical: FunctionSet::MANDATORY,
            aggressive: true,
            challenge_bytes: 16,
            reply_timeout: Duration::from_secs(2),
            keys: KeyLimits { interval: Duration::from_secs(3600), count: 4000 },
            failures_max: 5,
            errors_max: 2,
            key_requests_max: 5,
            association: 0,
            name: String::new(),
            authority: None,
            users_max: 16,
            thresholds: Thresholds::default(),
        }
    }
}

/// Who certifies users: a third party that master and outstation trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// The symmetric key that it shares with the outstation.
    pub key: Key,
    /// How update keys are changed; the key must fit.
    pub method: KeyChangeMethod,
    /// The lowest sequence number (SCS) that is taken: one more than the last, which the owner has kept.
    pub sequence: u32,
}

/// Somebody on whose behalf a master acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The number on the wire; 1 is the default user, 0 is nobody.
    pub number: u16,
    /// The name, in changes of update keys.
    pub name: String,
    /// What the user may do.
    pub role: Role,
    /// The last day of the role, days since 1970-01-01; None without end.
    pub until_day: Option<u32>,
    /// The key that session keys are wrapped with.
    pub update_key: Key,
}

#[derive(Debug)]
struct UserState {
    user: User,
    session: Session,
    /// Failures since the last success.
    failures: u16,
    /// The key status sent last, without its MAC: what a key change must answer, once.
    status: Option<(u32, Vec<u8>)>,
}

impl UserState {
    const fn new(user: User) -> Self {
        Self { user, session: Session::new(), failures: 0, status: None }
    }

    fn is_in_office(&self, now: Now) -> bool {
        let today = now.utc.millis().div_euclid(86_400_000);
        self.user.until_day.is_none_or(|last| i64::from(last) >= today)
    }
}

/// What to do with a fragment.
#[derive(Debug)]
pub(crate) enum FragmentAction {
    /// It is none of secure authentication's business: go on with it.
    Pass,
    /// Go on with this one instead: the request that waited for its reply, or one without its aggressive mode objects.
    Perform(Box<[u8]>),
    /// It has been dealt with, or must be forgotten.
    Done,
}

/// A critical request that waits for the reply to its challenge.
#[derive(Debug)]
struct Waiting {
    sequence: u32,
    request: Box<[u8]>,
    /// The challenge's fragment, and until when its reply may come; none while it has not been sent.
    challenged: Option<(Box<[u8]>, Instant)>,
}

/// A fragment that is to be sent: what follows the indications.
#[derive(Debug)]
struct Outgoing {
    control: AppControl,
    function: Function,
    objects: Vec<u8>,
    is_challenge: bool,
}

/// Secure authentication of one outstation with one master.
pub struct OutstationSecurity {
    config: OutstationSecurityConfig,
    users: Vec<UserState>,
    random: BoxedRandom,
    waiting: Option<Waiting>,
    /// The last challenge sequence number, ours or of an aggressive mode request.
    challenge_sequence: u32,
    /// The fragment of the last challenge: what aggressive mode is built on.
    last_challenge: Box<[u8]>,
    key_sequence: u32,
    outgoing: VecDeque<Outgoing>,
    events: Events,
    statistics: Statistics,
    statistic_events: VecDeque<StatisticEvent>,
    /// The response with statistic events that awaits its confirm, and how many it has.
    reported: Option<(Sequence, usize)>,
    errors_left: u16,
    key_requests_left: u16,
    key_request_at: Instant,
    changes: Vec<PendingChange>,
    update: Option<UpdateChange>,
}

impl OutstationSecurity {
    /// Without session keys. Users beyond the limit, with the number 0, or with the number of one before are left out.
    #[must_use]
    pub fn new(config: OutstationSecurityConfig, users: Vec<User>, random: BoxedRandom) -> Self {
        let mut this = Self {
            errors_left: config.errors_max,
            key_requests_left: config.key_requests_max,
            users: Vec::new(),
            random,
            waiting: None,
            challenge_sequence: 0,
            last_challenge: Box::default(),
            key_sequence: 0,
            outgoing: VecDeque::new(),
            events: Events::default(),
            statistics: Statistics::default(),
            statistic_events: VecDeque::new(),
            reported: None,
            key_request_at: Instant::ZERO,
            changes: Vec::new(),
            update: None,
            config,
        };
        for user in users {
            if this.user(user.number).is_none() && this.has_room_for_user() && user.number > 0 {
                this.users.push(UserState::new(user));
            }
        }
        this
    }

    /// How it behaves.
    #[must_use]
    pub const fn config(&self) -> &OutstationSecurityConfig {
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

    /// Its users, in no order.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.iter().map(|state| &state.user)
    }

    /// Whether a user has session keys that hold.
    #[must_use]
    pub fn has_keys(&mut self, now: Now, user: u16) -> bool {
        self.user(user).is_some_and(|state| state.session.status(now.mono) == KeyStatus::Ok)
    }

    /// Whether a critical request waits for its reply.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    pub(crate) fn poll_event(&mut self) -> Option<SecurityEvent> {
        self.events.pop()
    }

    pub(crate) fn has_reply(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// The connection is gone: what waits is forgotten, and no session key outlives it.
    pub(crate) fn handle_disconnected(&mut self) {
        (self.waiting, self.update, self.reported) = (None, None, None);
        self.outgoing.clear();
        self.changes.clear();
        for state in &mut self.users {
            state.session.break_off(KeyStatus::CommunicationFailed);
            state.status = None;
        }
        self.errors_left = self.config.errors_max;
        self.key_requests_left = self.config.key_requests_max;
    }

    /// As after a power cycle: no session keys, and nobody to blame.
    pub(crate) fn restart(&mut self) {
        self.handle_disconnected();
        self.last_challenge = Box::default();
        for state in &mut self.users {
            state.session.end(KeyStatus::NotInitialized);
            state.failures = 0;
        }
    }

    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.waiting.as_ref()?.challenged.as_ref().map(|(_, deadline)| *deadline)
    }

    pub(crate) fn handle_timeout(&mut self, now: Now) {
        if self.timeout().is_some_and(|deadline| deadline <= now.mono) {
            self.waiting = None;
            self.count(now, Statistic::ReplyTimeouts);
            self.count(now, Statistic::Discarded);
        }
    }

    /// Decides on a fragment of the master, before anything else is done with it.
    pub(crate) fn handle_fragment(&mut self, now: Now, bytes: &[u8], broadcast: Option<Broadcast>) -> FragmentAction {
        self.count(now, Statistic::MessagesReceived);
        let Ok(fragment) = Fragment::parse(bytes) else { return FragmentAction::Pass };
        let is_request = !fragment.function.is_response() && fragment.control.fir && fragment.control.fin;
        if !is_request {
            return FragmentAction::Pass;
        }
        let is_critical = self.config.critical.contains(fragment.function);
        match fragment.function {
            Function::AuthenticationRequest | Function::AuthenticationRequestNoResponse => {
                // Nobody could answer for all.
                if broadcast.is_some() || fragment.control.uns {
                    return self.discard(now);
                }
                self.handle_authentication(now, bytes, &fragment)
            }
            Function::Confirm => self.handle_confirm(&fragment),
            _ if challenge::is_aggressive(fragment.objects) => match broadcast {
                None => self.handle_aggressive(now, bytes, &fragment),
                Some(_) => self.discard(now),
            },
            _ if is_critical => match broadcast {
                None => self.challenge(now, bytes, &fragment),
                // A challenge to a broadcast would be answered by no one in particular.
                Some(_) => self.discard(now),
            },
            Function::Read if broadcast.is_none() => self.handle_read(&fragment),
            _ => FragmentAction::Pass,
        }
    }

    fn handle_authentication(&mut self, now: Now, bytes: &[u8], fragment: &Fragment<'_>) -> FragmentAction {
        let sequence = fragment.control.sequence;
        let Some(object) = Authentication::all(fragment).next() else {
            return self.discard_unexpected(now);
        };
        let is_alone = Authentication::only(fragment).is_some();
        // What needs no answer is told, and asks for nothing.
        let is_answered = fragment.function == Function::AuthenticationRequest;
        if !is_answered && !matches!(object, Authentication::Error(_)) {
            return self.discard_unexpected(now);
        }
        match object {
            Authentication::Reply { sequence: number, user, mac } if is_alone => {
                self.handle_reply(now, sequence, number, user, mac)
            }
            Authentication::KeyStatusRequest { user } if is_alone => self.handle_key_request(now, sequence, user),
            Authentication::KeyChange { sequence: number, user, wrapped } if is_alone => {
                self.handle_key_change(now, bytes, sequence, (number, user), wrapped)
            }
            Authentication::Error(error) if is_alone => {
                self.count(now, Statistic::ErrorsReceived);
                self.events.push(SecurityEvent::ErrorReceived { user: error.user, error: error.error() });
                FragmentAction::Done
            }
            Authentication::UserStatusChange(change) if is_alone => self.handle_status_change(now, sequence, &change),
            Authentication::UpdateKeyRequest { method, name, challenge } if is_alone => {
                self.handle_update_request(now, sequence, method, (name, challenge))
            }
            Authentication::UpdateKeyChange { sequence: number, user, encrypted } => {
                self.handle_update_change(now, fragment, (number, user), encrypted)
            }
            Authentication::Challenge(_)
            | Authentication::Reply { .. }
            | Authentication::AggressiveRequest { .. }
            | Authentication::KeyStatusRequest { .. }
            | Authentication::KeyStatus(_)
            | Authentication::KeyChange { .. }
            | Authentication::Error(_)
            | Authentication::Certificate { .. }
            | Authentication::Mac(_)
            | Authentication::UserStatusChange(_)
            | Authentication::UpdateKeyRequest { .. }
            | Authentication::UpdateKeyReply { .. }
            | Authentication::Signature(_)
            | Authentication::Confirmation(_) => self.discard_unexpected(now),
        }
    }

    fn user(&mut self, number: u16) -> Option<&mut UserState> {
        self.users.iter_mut().find(|state| state.user.number == number)
    }

    fn has_room_for_user(&self) -> bool {
        self.users.len() < usize::from(self.config.users_max.max(1))
    }

    fn count(&mut self, now: Now, statistic: Statistic) {
        let threshold = self.config.thresholds.of(statistic);
        if let Some(count) = self.statistics.increment(statistic, threshold) {
            self.events.push(SecurityEvent::Statistic { statistic, count });
            self.keep_statistic_event(now, statistic, count);
        }
    }

    fn discard(&mut self, now: Now) -> FragmentAction {
        self.count(now, Statistic::Discarded);
        FragmentAction::Done
    }

    fn discard_unexpected(&mut self, now: Now) -> FragmentAction {
        self.count(now, Statistic::UnexpectedMessages);
        self.discard(now)
    }

    /// Something was authentic.
    fn note_success(&mut self, now: Now) {
        self.count(now, Statistic::Successes);
        self.errors_left = self.config.errors_max;
    }

    /// Discards a message, tells the owner, and the peer while there are errors left to tell.
    fn refuse(&mut self, now: Now, to: Sequence, (number, user): (u32, u16), error: AuthError) -> FragmentAction {
        self.events.push(SecurityEvent::Refused { user, error });
        if self.errors_left > 0 {
            self.errors_left -= 1;
            self.count(now, Statistic::ErrorsSent);
            let time = DnpTime::from(now.utc);
            let association = self.config.association;
            let object = ErrorObject { sequence: number, user, association, code: error.code(), time, text: &[] };
            self.answer(now, to, &[Authentication::Error(object)]);
        }
        self.discard(now)
    }

    /// Queues an authentication response.
    fn answer(&mut self, now: Now, to: Sequence, objects: &[Authentication<'_>]) {
        let mut bytes = Vec::new();
        objects.iter().for_each(|object| object.write(&mut bytes));
        let is_challenge = matches!(objects, [Authentication::Challenge(_)]);
        let control = AppControl::single(to);
        self.queue(now, Outgoing { control, function: Function::AuthenticationResponse, objects: bytes, is_challenge });
    }

    fn queue(&mut self, now: Now, outgoing: Outgoing) {
        if self.outgoing.len() < OUTGOING_MAX {
            self.outgoing.push_back(outgoing);
        } else {
            self.count(now, Statistic::Discarded);
        }
    }

    /// Appends the next fragment of its own under the outstation's indications; says whether there was one.
    pub(crate) fn write_fragment(&mut self, now: Now, iin: Iin, out: &mut Vec<u8>) -> bool {
        let Some(outgoing) = self.outgoing.pop_front() else { return false };
        let start = out.len();
        let [iin1, iin2] = iin.0.to_le_bytes();
        out.extend_from_slice(&[outgoing.control.emit(), outgoing.function.code(), iin1, iin2]);
        out.extend_from_slice(&outgoing.objects);
        if outgoing.is_challenge {
            let fragment: Box<[u8]> = out.get(start..).unwrap_or_default().into();
            if let Some(waiting) = &mut self.waiting {
                waiting.challenged = Some((fragment.clone(), now.mono + self.config.reply_timeout));
            }
            self.last_challenge = fragment;
        }
        self.note_sent(now);
        true
    }

    /// A fragment goes out, ours or the application's.
    pub(crate) fn note_sent(&mut self, now: Now) {
        self.count(now, Statistic::MessagesSent);
    }

    fn random_challenge(&mut self) -> Vec<u8> {
        let bytes = usize::from(self.config.challenge_bytes).clamp(CHALLENGE_BYTES_MIN, CHALLENGE_BYTES_MAX);
        let mut data = alloc::vec![0; bytes];
        self.random.fill(&mut data);
        data
    }
}

impl fmt::Debug for OutstationSecurity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutstationSecurity")
            .field("users", &self.users.len())
            .field("waiting", &self.is_waiting())
            .finish_non_exhaustive()
    }
}
