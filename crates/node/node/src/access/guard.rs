//! Authorization on the bus: sessions of users, and denials.

use super::authenticator::Authenticator;
use super::read_filter::{DeliveryFilter, ReadFilter};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use tieline_access::{
    EndReason, GRANTS_MAX, Identity, Limits, Names, Network, Policy, Reach, Refused, Rules, SessionKey, Sessions,
    Stats, Sums, Verb,
};
use tieline_core::{Filter, Instant, Now, Timestamp};

/// Networks of refused peers, and users with what they are denied, that the audit log tells apart in one sum.
const REFUSED_KINDS_MAX: usize = 32;
const DENIED_KINDS_MAX: usize = 256;

/// What the users that stand for sites begin with, and the role of sites that have no such user.
const SITE_PREFIX: &str = "site:";
const SITES_ROLE: &str = "sites";

/// The user of a client, and what it may read.
#[derive(Debug)]
pub struct ClientIdentity {
    /// The user.
    pub user: Box<str>,
    /// What the ledger says of it, besides: [`tieline_ledger::Session::stamp`].
    pub stamp: u64,
    /// The read filter, where the user may not read all that it has subscribed to.
    pub read_filter: Option<Rc<DeliveryFilter>>,
}

impl ClientIdentity {
    /// Whether a topic may be read.
    #[must_use]
    pub fn may_read(&self, topic: &str) -> bool {
        self.read_filter.as_ref().is_none_or(|read_filter| read_filter.allows(topic))
    }
}

/// Who came in, on the bus.
#[derive(Debug)]
pub struct Guard {
    sessions: Sessions,
    /// Of each set of rules, without names.
    read_filters: HashMap<*const Rules, Rc<DeliveryFilter>>,
    /// The bus's key and generation of each session.
    places: HashMap<SessionKey, (usize, u64)>,
    denials: Denials,
    refused: Sums<Refusal>,
    denied: Sums<Denial>,
    /// Whether users come who are in no file.
    has_other_users: bool,
}

/// Refusals of which one record is written, and how many followed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Refusal {
    network: Network,
    reason: Box<str>,
}

/// The same of what a user may not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Denial {
    user: Box<str>,
    verb: Verb,
}

/// How a broker lets clients in.
#[derive(Clone, Debug, Default)]
pub enum Entrance {
    /// All may do all.
    #[default]
    Open,
    /// Each shows who it is.
    Guarded(Authenticator),
}

impl Entrance {
    /// Who may do what; none where all may do all.
    #[must_use]
    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.authenticator().map(Authenticator::policy)
    }

    /// Where peers show who they are.
    #[must_use]
    pub const fn authenticator(&self) -> Option<&Authenticator> {
        match self {
            Self::Open => None,
            Self::Guarded(authenticator) => Some(authenticator),
        }
    }
}

/// What was denied, by verb.
type Denials = [u64; 5];

/// What is to be written to the audit log about access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRecord {
    /// When.
    pub time: Timestamp,
    /// Who asked: the protocol, the peer, the user.
    pub who: String,
    /// What happened.
    pub phase: String,
    /// What was to be done; empty where that has no verb.
    pub verb: String,
    /// The topic; empty where it is about none.
    pub topic: String,
    /// Why not, as a stable word.
    pub reason: String,
    /// Why not, in words.
    pub detail: String,
}

/// A record about access.
#[must_use]
pub fn denial(now: Now, who: &str, phase: &str, verb: &str, topic: &str, reason: &str, detail: String) -> AccessRecord {
    let [who, phase, verb, topic, reason] = [who, phase, verb, topic, reason].map(str::to_owned);
    AccessRecord { time: now.utc, who, phase, verb, topic, reason, detail }
}

/// The user is none of the files that is gone or kept out, or shows itself by something else. Tokens and certificates can bring users that
/// are in no file, where there are some.
fn may_stay(policy: &Policy, has_others: bool, user: &str, stamp: Option<u64>) -> bool {
    match (policy.user(user), stamp.filter(|stamp| *stamp != 0)) {
        (Some(user), _) if user.disabled || user.roles.is_empty() => false,
        (Some(user), Some(stamp)) => user.credential == stamp,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => has_others,
    }
}

impl Guard {
    /// Nobody is here yet.
    #[must_use]
    pub fn new(authenticator: &Authenticator) -> Self {
        let config = authenticator.config();
        let has_other_users = config.jwt.is_some() || config.certificates.is_some();
        Self { has_other_users, ..Self::of(authenticator.policy(), config.limits) }
    }

    /// The same where all users are those of the policy.
    #[must_use]
    pub fn of(policy: Arc<Policy>, limits: Limits) -> Self {
        Self {
            sessions: Sessions::new(policy, limits),
            read_filters: HashMap::new(),
            places: HashMap::new(),
            denials: Denials::default(),
            refused: Sums::new(REFUSED_KINDS_MAX),
            denied: Sums::new(DENIED_KINDS_MAX),
            has_other_users: false,
        }
    }

    /// Lets a session in.
    ///
    /// # Errors
    /// It may not come in.
    pub fn admit(&mut self, now: Instant, identity: Identity, client: &str) -> Result<SessionKey, Refused> {
        self.sessions.admit(now, identity, client)
    }

    /// Where the bus has the session.
    pub fn place(&mut self, session: SessionKey, key: usize, generation: u64) {
        self.places.insert(session, (key, generation));
    }

    /// A session has ended.
    pub fn leave(&mut self, session: SessionKey) {
        self.sessions.leave(session);
        self.places.remove(&session);
    }

    /// Whether a session may do something to a topic.
    #[must_use]
    pub fn decide(&self, session: SessionKey, verb: Verb, topic: &str) -> bool {
        self.sessions.decide(session, verb, topic)
    }

    /// How much of what a filter selects a session may read.
    #[must_use]
    pub fn reach(&self, session: SessionKey, filter: &Filter) -> Reach {
        self.sessions.reach(session, filter)
    }

    /// Whether a session may hold one more subscription than it has.
    #[must_use]
    pub fn may_subscribe(&self, held: usize) -> bool {
        let max = self.sessions.limits().subscriptions_max;
        max == 0 || u32::try_from(held).is_ok_and(|held| held < max)
    }

    /// Counts a message against the session's rates; false when it is over one.
    pub fn spend(&mut self, now: Instant, session: SessionKey, bytes: usize) -> bool {
        self.sessions.spend(now, session, bytes).is_ok()
    }

    /// The user of a session.
    #[must_use]
    pub fn user(&self, session: SessionKey) -> Option<&str> {
        self.sessions.look(session).map(|(user, _)| user)
    }

    /// The identity of a session, without a read filter.
    #[must_use]
    pub fn identity(&self, session: SessionKey) -> Option<ClientIdentity> {
        let identity = self.sessions.identity(session)?;
        // Who brought its roles showed itself by something that is in no file.
        let stamp = if identity.roles.is_none() { identity.credential } else { 0 };
        Some(ClientIdentity { user: identity.user.clone(), stamp, read_filter: None })
    }

    /// What deliveries to a session have to pass.
    #[must_use]
    pub fn read_filter(&mut self, session: SessionKey, client: &str) -> Option<Rc<DeliveryFilter>> {
        let (user, rules) = self.sessions.look(session)?;
        if self.read_filters.len() >= GRANTS_MAX {
            self.read_filters.clear();
        }
        let of_all = || Rc::new(DeliveryFilter::new(ReadFilter::new(Arc::clone(rules), "", "")));
        let of_all = self.read_filters.entry(Arc::as_ptr(rules)).or_insert_with(of_all);
        if rules.is_personal(Verb::Read) {
            return Some(Rc::new(of_all.for_names(user, client)));
        }
        Some(Rc::clone(of_all))
    }

    /// The same for a user who is not connected: nothing passes for one that there is not.
    #[must_use]
    pub fn read_filter_of_user(&self, user: &str) -> Rc<DeliveryFilter> {
        let none = || Arc::new(Rules::new(Vec::new()));
        let rules = self.sessions.policy().rules_of(user).unwrap_or_else(none);
        Rc::new(DeliveryFilter::new(ReadFilter::new(rules, user, "")))
    }

    /// The same for a site: its rules are those of the user `site:NAME`, or else those of the role `sites`.
    #[must_use]
    pub fn read_filter_of_site(&self, site: &str) -> ReadFilter {
        let policy = self.sessions.policy();
        let user = format!("{SITE_PREFIX}{site}");
        let rules = match policy.user(&user) {
            Some(_) => policy.rules_of(&user),
            None => Some(Arc::new(policy.compile([SITES_ROLE]))),
        };
        ReadFilter::new(rules.unwrap_or_else(|| Arc::new(Rules::new(Vec::new()))), site, "")
    }

    /// Whether a user who is not connected may do something to a topic, as the files of users and roles say.
    #[must_use]
    pub fn user_may(&self, user: &str, client: &str, verb: Verb, topic: &str) -> bool {
        let rules = self.sessions.policy().rules_of(user);
        rules.is_some_and(|rules| rules.allows(verb, topic, Names { user, client }))
    }

    /// Sessions of one user at a time.
    #[must_use]
    pub fn user_sessions_max(&self) -> usize {
        match self.sessions.limits().user_sessions_max {
            0 => usize::MAX,
            max => usize::try_from(max).unwrap_or(usize::MAX),
        }
    }

    /// Whether a session of before may wait for its user, who had this stamp when it was written.
    #[must_use]
    pub fn may_stay(&self, user: &str, stamp: Option<u64>) -> bool {
        may_stay(self.sessions.policy(), self.has_other_users, user, stamp)
    }

    /// Whether a user of the files is gone, kept out, or shows itself by something else in this policy.
    #[must_use]
    pub fn is_revoked(&self, policy: &Policy, user: &str) -> bool {
        match (self.sessions.policy().user(user), policy.user(user)) {
            (_, Some(now)) if now.disabled || now.roles.is_empty() => true,
            (Some(before), Some(now)) => before.credential != now.credential,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// Other users and roles hold. The sessions that stay, each with its place on the bus, need new read filters.
    pub fn replace(&mut self, policy: Arc<Policy>) -> Vec<(SessionKey, usize, u64)> {
        self.sessions.replace(policy);
        self.read_filters.clear();
        self.places.iter().map(|(session, (key, generation))| (*session, *key, *generation)).collect()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.sessions.handle_timeout(now);
    }

    /// How many refusals and denials there were of which no record of their own was written, where that is due.
    pub fn poll_sums(&mut self, now: Now) -> Vec<AccessRecord> {
        let more = |count: u64| format!("{count} more since the last record of this kind");
        let of_peers = self.refused.handle_timeout(now.mono).into_iter().map(|(kind, count)| {
            let (who, reason) = match &kind {
                Some(Refusal { network, reason }) => (network.to_string(), &**reason),
                None => ("other addresses".to_owned(), ""),
            };
            denial(now, &who, "login_refused", "", "", reason, more(count))
        });
        let of_users = self.denied.handle_timeout(now.mono).into_iter().map(|(kind, count)| {
            let (who, verb) = match &kind {
                Some(Denial { user, verb }) => (&**user, verb.word()),
                None => ("other users", ""),
            };
            denial(now, who, "denied", verb, "", "not_authorized", more(count))
        });
        of_peers.chain(of_users).collect()
    }

    /// Refusals and denials of which no record of their own was written.
    #[must_use]
    pub const fn summed(&self) -> u64 {
        self.refused.counted() + self.denied.counted()
    }

    /// Whether what a session has shown holds no longer.
    #[must_use]
    pub fn has_expired(&self, now: Instant) -> bool {
        self.sessions.timeout().is_some_and(|at| at <= now)
    }

    /// When to call [`Guard::handle_timeout`].
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        [self.sessions.timeout(), self.refused.timeout(), self.denied.timeout()].into_iter().flatten().min()
    }

    /// A session that has to end: its place on the bus, its user, and why.
    pub fn poll_end(&mut self) -> Option<(usize, u64, String, EndReason)> {
        while let Some((session, why)) = self.sessions.poll_end() {
            let user = self.user(session).unwrap_or_default().to_owned();
            if let Some((key, generation)) = self.places.get(&session) {
                return Some((*key, *generation, user, why));
            }
        }
        None
    }

    /// Counts what a user may not; gives what is to be written to the audit log.
    pub fn denied(&mut self, now: Now, user: &str, who: &str, verb: Verb, topic: &str) -> Option<AccessRecord> {
        let at = Verb::ALL.iter().position(|known| *known == verb).unwrap_or_default();
        if let Some(count) = self.denials.get_mut(at) {
            *count += 1;
        }
        let is_first = self.denied.note(now.mono, &Denial { user: user.into(), verb });
        is_first.then(|| denial(now, who, "denied", verb.word(), topic, "not_authorized", String::new()))
    }

    /// Whether the refusal of a peer is to be written, or is one of many.
    pub fn refused(&mut self, now: Instant, peer: IpAddr, reason: &str) -> bool {
        self.refused.note(now, &Refusal { network: Network::of(peer), reason: reason.into() })
    }

    /// Denials by verb.
    pub fn denials(&self) -> impl Iterator<Item = (Verb, u64)> {
        Verb::ALL.into_iter().zip(self.denials)
    }

    /// What sessions came to.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.sessions.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_access::User;

    #[test]
    fn a_site_reads_by_its_own_user_or_by_the_role_of_all_sites() {
        let role = |name, rule| tieline_access::Role::parse(name, [rule]).unwrap();
        let roles = || [role("sites", "allow read $sites/+/for/{user}"), role("near", "allow read $sites/north/#")];
        let out = User { disabled: true, ..User::new("site:out", ["near"]) };
        let policy = Policy::new(roles(), [User::new("site:south", ["near"]), out]).unwrap();
        let guard = Guard::of(Arc::new(policy), Limits::default());
        let check = |site: &str, topic: &str, expect: bool| {
            assert_eq!(guard.read_filter_of_site(site).allows(topic), expect, "{site} {topic}");
        };
        check("south", "$sites/north/a", true);
        check("south", "$sites/west/for/south", false);
        check("west", "$sites/north/a", false);
        check("west", "$sites/north/for/west", true);
        check("west", "$sites/north/for/south", false);
        check("out", "$sites/north/a", false);
        // Without rules about sites, none reads anything.
        let guard = Guard::of(Arc::new(Policy::new([], [User::new("south", ["VIEWER"])]).unwrap()), Limits::default());
        assert!(!guard.read_filter_of_site("south").allows("$sites/north/a"));
    }

    #[test]
    fn a_session_of_before_stays_with_who_shows_itself_by_the_same() {
        let user = |name: &str, credential| User { credential, ..User::new(name, ["VIEWER"]) };
        let none = User { roles: Vec::new(), ..user("none", 9) };
        let out = User { disabled: true, ..user("out", 9) };
        let policy = Policy::new([], [user("anna", 7), none, out]).unwrap();
        let check = |name: &str, stamp: Option<u64>, expect: [bool; 2]| {
            assert_eq!([false, true].map(|others| may_stay(&policy, others, name, stamp)), expect, "{name} {stamp:?}");
        };
        check("anna", Some(7), [true, true]);
        check("anna", Some(8), [false, false]);
        // By a token, or written by an earlier release.
        check("anna", Some(0), [true, true]);
        check("anna", None, [true, true]);
        // Of the files, and gone from them; of no file.
        check("ben", Some(7), [false, false]);
        check("ben", Some(0), [false, true]);
        check("ben", None, [false, true]);
        check("none", Some(9), [false, false]);
        check("out", None, [false, false]);
    }
}
