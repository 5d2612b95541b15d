//! Sessions of users: what each may do, how much, and when it has to end.

use crate::{Bucket, Grants, Names, Policy, Reach, Rules, Verb};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use slab::Slab;
use tieline_core::{Deadlines, Filter, Instant};

/// Limits of one user or session; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Sessions of one user at a time.
    pub user_sessions_max: u32,
    /// Messages that a session may publish in a second, and at once.
    pub messages_per_s: u32,
    /// Bytes of them.
    pub bytes_per_s: u32,
    /// Subscriptions of one session.
    pub subscriptions_max: u32,
}

/// Who has come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user: Box<str>,
    /// Roles that came with what it showed; none takes those of the user.
    pub roles: Option<Vec<Box<str>>>,
    /// When what it showed ends.
    pub expires: Option<Instant>,
    /// [`crate::User::credential`] of when it was checked.
    pub credential: u64,
}

/// Names a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey(usize);

/// Why a session was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such user, or it may not come in.
    User,
    /// It has no role.
    NoRole,
    /// It has as many sessions as it may.
    TooMany,
    /// What it showed has ended.
    Expired,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "there is no such user, or it is disabled",
            Self::NoRole => "the user has no role",
            Self::TooMany => "the user has as many sessions as it may",
            Self::Expired => "the credential has expired",
        })
    }
}

impl core::error::Error for Refused {}

/// A message is over the session's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverRate;

/// Why a session has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Its user was removed, disabled, or has no role.
    User,
    /// The user shows itself by something else since.
    Credential,
    /// What it showed has ended.
    Expired,
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sessions that are here.
    pub sessions: usize,
    /// Sessions let in.
    pub admitted: u64,
    /// Sessions not let in.
    pub refused_sessions: u64,
    /// Messages over the rate.
    pub over_rate: u64,
    /// Sessions that had to end.
    pub ended: u64,
}

#[derive(Debug)]
struct Session {
    identity: Identity,
    client: Box<str>,
    rules: Arc<Rules>,
    messages: Option<Bucket>,
    bytes: Option<Bucket>,
    ending: bool,
}

/// The sessions that are here.
#[derive(Debug)]
pub struct Sessions {
    policy: Arc<Policy>,
    limits: Limits,
    grants: Grants,
    sessions: Slab<Session>,
    per_user: BTreeMap<Box<str>, u32>,
    expiries: Deadlines<SessionKey>,
    ends: VecDeque<(SessionKey, EndReason)>,
    stats: Stats,
}

impl Sessions {
    /// None yet.
    #[must_use]
    pub fn new(policy: Arc<Policy>, limits: Limits) -> Self {
        Self {
            policy,
            limits,
            grants: Grants::default(),
            sessions: Slab::new(),
            per_user: BTreeMap::new(),
            expiries: Deadlines::default(),
            ends: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Lets a user's session in.
    ///
    /// # Errors
    /// It may not come in.
    pub fn admit(&mut self, now: Instant, identity: Identity, client: &str) -> Result<SessionKey, Refused> {
        let judged = self.judge(&identity).map_err(|_| Refused::User).and_then(|rules| {
            let here = self.per_user.get(&identity.user).copied().unwrap_or(0);
            match () {
                () if identity.expires.is_some_and(|at| at <= now) => Err(Refused::Expired),
                () if rules.rules().is_empty() => Err(Refused::NoRole),
                () if self.limits.user_sessions_max > 0 && here >= self.limits.user_sessions_max => {
                    Err(Refused::TooMany)
                }
                () => Ok(rules),
            }
        });
        let rules = judged.inspect_err(|_| self.stats.refused_sessions += 1)?;
        let bucket = |per_s: u32| (per_s > 0).then(|| Bucket::full(per_s, now));
        let (messages, bytes) = (bucket(self.limits.messages_per_s), bucket(self.limits.bytes_per_s));
        *self.per_user.entry(identity.user.clone()).or_default() += 1;
        let expires = identity.expires;
        let session = Session { identity, client: client.into(), rules, messages, bytes, ending: false };
        let key = SessionKey(self.sessions.insert(session));
        if let Some(at) = expires {
            self.expiries.add(at, key);
        }
        self.stats.admitted += 1;
        Ok(key)
    }

    /// The rules of who has come in; an error says why it may not stay.
    fn judge(&mut self, identity: &Identity) -> Result<Arc<Rules>, EndReason> {
        let roles = self.policy.roles_of(identity)?;
        Ok(self.grants.of(&self.policy, roles))
    }

    /// A session has ended.
    pub fn leave(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.try_remove(key.0) else { return };
        if let Some(at) = session.identity.expires {
            self.expiries.remove(at, key);
        }
        if let Some(count) = self.per_user.get_mut(&session.identity.user) {
            *count -= 1;
            if *count == 0 {
                self.per_user.remove(&session.identity.user);
            }
        }
        if session.ending {
            self.ends.retain(|(ending, _)| *ending != key);
        }
    }

    /// Whether a session may do something; false for one that is not here.
    #[must_use]
    pub fn decide(&self, key: SessionKey, verb: Verb, topic: &str) -> bool {
        self.sessions.get(key.0).is_some_and(|session| session.rules.allows(verb, topic, session.names()))
    }

    /// How much of what a filter selects a session may read.
    #[must_use]
    pub fn reach(&self, key: SessionKey, filter: &Filter) -> Reach {
        self.sessions
            .get(key.0)
            .map_or(Reach::Nothing, |session| session.rules.reach(Verb::Read, filter, session.names()))
    }

    /// Who a session is of.
    #[must_use]
    pub fn identity(&self, key: SessionKey) -> Option<&Identity> {
        self.sessions.get(key.0).map(|session| &session.identity)
    }

    /// The user and the rules of a session.
    #[must_use]
    pub fn look(&self, key: SessionKey) -> Option<(&str, &Arc<Rules>)> {
        self.sessions.get(key.0).map(|session| (&*session.identity.user, &session.rules))
    }

    /// Counts a message against the session's rates.
    ///
    /// # Errors
    /// It is over one of them.
    pub fn spend(&mut self, now: Instant, key: SessionKey, bytes: usize) -> Result<(), OverRate> {
        let Some(session) = self.sessions.get_mut(key.0) else { return Err(OverRate) };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let within = session.messages.as_mut().is_none_or(|bucket| bucket.take(now, 1))
            && session.bytes.as_mut().is_none_or(|bucket| bucket.take(now, bytes));
        if within {
            return Ok(());
        }
        self.stats.over_rate += 1;
        Err(OverRate)
    }

    /// Who may do what.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The limits of each.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Other roles and users take the place of those before. Sessions that may not stay come out of
    /// [`Sessions::poll_end`]; the others have their new rules at once.
    pub fn replace(&mut self, policy: Arc<Policy>) {
        self.policy = policy;
        self.grants.clear();
        let keys: Vec<usize> = self.sessions.iter().map(|(key, _)| key).collect();
        for key in keys {
            let Some(identity) = self.sessions.get(key).map(|session| session.identity.clone()) else { continue };
            let judged = self.judge(&identity).and_then(|rules| match rules.rules() {
                [] => Err(EndReason::User),
                [..] => Ok(rules),
            });
            match judged {
                Ok(rules) => {
                    if let Some(session) = self.sessions.get_mut(key) {
                        session.rules = rules;
                    }
                }
                Err(why) => self.end(SessionKey(key), why),
            }
        }
    }

    fn end(&mut self, key: SessionKey, why: EndReason) {
        // What ends may do nothing more, even before its connection is closed.
        let Some(session) = self.sessions.get_mut(key.0) else { return };
        session.rules = Arc::new(Rules::new(Vec::new()));
        if !core::mem::replace(&mut session.ending, true) {
            self.ends.push_back((key, why));
            self.stats.ended += 1;
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, key)) = self.expiries.take_next(now) {
            self.end(key, EndReason::Expired);
        }
    }

    /// When to call [`Sessions::handle_timeout`].
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.expiries.timeout()
    }

    /// A session that has to end; it is here until [`Sessions::leave`], and may do nothing.
    pub fn poll_end(&mut self) -> Option<(SessionKey, EndReason)> {
        self.ends.pop_front()
    }

    /// What was done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { sessions: self.sessions.len(), ..self.stats }
    }
}

impl Session {
    fn names(&self) -> Names<'_> {
        Names { user: &self.identity.user, client: &self.client }
    }
}
