//! Logins at the console and of the command line: a token in a cookie or a header, until it is over or given up.
//!
//! A login ends after a time without a request, after a time in all, when it is given up, and when an operator or the
//! identity provider ends it. While a stream of it is open, it is in use.

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tieline_access::Identity;
use tieline_core::Instant;
use tieline_identity::{Ended, Person};
use tieline_net::Clock;
use tokio::sync::watch;

/// How long a login holds where nothing is configured.
pub const LOGIN_HOLDS: Duration = Duration::from_secs(12 * 3600);
/// What tokens begin with that are given to programs.
pub const TOKEN_PREFIX: &str = "tieline_";
/// Logins that hold at a time; one more is refused.
const LOGINS_MAX: usize = 100_000;
/// Logins of one user; with one more, its own that ends first goes.
const LOGINS_OF_USER_MAX: usize = 100;
/// Bytes of an ID token that is kept for the logout at the provider; the provider asks the person where it has none.
const ID_TOKEN_BYTES_MAX: usize = 4096;

/// All of them.
#[derive(Clone, Debug)]
pub struct Logins {
    all: Arc<Mutex<HashMap<String, Login>>>,
    clock: Clock,
    idle: Duration,
    max: Duration,
}

#[derive(Debug)]
struct Login {
    until: Instant,
    /// Its rights end with the login, too.
    identity: Identity,
    /// Nanoseconds of the clock at which it was used last.
    seen: Arc<AtomicU64>,
    /// The person at the provider; none of a local user.
    person: Option<Person>,
    /// Closed when the login is gone.
    here: watch::Sender<()>,
}

/// Tells when a login is gone. While it is there, the login is in use.
#[derive(Clone, Debug)]
pub struct LoginEnd {
    here: watch::Receiver<()>,
    seen: Arc<AtomicU64>,
    clock: Clock,
}

/// A login as it is shown: without its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLogin {
    /// The user.
    pub user: Box<str>,
    /// When it ends at the latest.
    pub until: Instant,
    /// When it was used last.
    pub seen: Instant,
    /// Whether the identity provider let the person in.
    pub is_of_provider: bool,
    /// Whether it is the login that asks.
    pub is_own: bool,
}

impl LoginEnd {
    /// Waits until the login is given up, or has to make room for another.
    pub async fn gone(&mut self) {
        while self.here.changed().await.is_ok() {}
    }
}

impl Drop for LoginEnd {
    fn drop(&mut self) {
        self.seen.fetch_max(nanos(self.clock.now().mono), Ordering::Relaxed);
    }
}

impl Default for Logins {
    fn default() -> Self {
        Self::new(Clock::start(), LOGIN_HOLDS, LOGIN_HOLDS)
    }
}

impl Logins {
    /// None yet. A login holds for `idle` without use, and for `max` in all.
    #[must_use]
    pub fn new(clock: Clock, idle: Duration, max: Duration) -> Self {
        Self { all: Arc::default(), clock, idle, max }
    }

    /// How long a login holds at most.
    #[must_use]
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// Whose login a token is.
    pub fn find(&self, token: &str, now: Instant) -> Option<(Identity, LoginEnd)> {
        let mut logins = self.lock();
        let login = logins.get(token)?;
        if login.holds(now, self.idle) {
            login.seen.fetch_max(nanos(now), Ordering::Relaxed);
            let end = LoginEnd { here: login.here.subscribe(), seen: Arc::clone(&login.seen), clock: self.clock };
            return Some((login.identity.clone(), end));
        }
        logins.remove(token);
        None
    }

    /// Keeps a login and gives its token; none where there are too many.
    pub fn keep(&self, identity: Identity, now: Instant) -> Option<String> {
        self.keep_person(identity, None, now)
    }

    /// The same of a person who logged in at the provider.
    pub fn keep_person(&self, mut identity: Identity, person: Option<Person>, now: Instant) -> Option<String> {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).ok()?;
        let token = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
        let mut logins = self.lock();
        if !make_room(&mut logins, now, self.idle, &identity.user) {
            return None;
        }
        let until = now + self.max;
        let until = identity.expires.map_or(until, |expires| until.min(expires));
        identity.expires = Some(until);
        let person = person.map(|person| match person.id_token.len() {
            ..=ID_TOKEN_BYTES_MAX => person,
            _ => Person { id_token: String::new(), ..person },
        });
        let (seen, here) = (Arc::new(AtomicU64::new(nanos(now))), watch::Sender::new(()));
        logins.insert(token.clone(), Login { until, identity, seen, person, here });
        Some(token)
    }

    /// Gives a login up; gives the person at the provider whose it was.
    pub fn forget(&self, token: &str) -> Option<Person> {
        self.lock().remove(token)?.person
    }

    /// Ends all logins of a user; gives how many.
    pub fn end_user(&self, user: &str) -> usize {
        self.end(|login| *login.identity.user == *user)
    }

    /// Ends the logins of a user but for one of them; gives how many.
    pub fn end_others(&self, user: &str, own: &LoginEnd) -> usize {
        self.end(|login| *login.identity.user == *user && !login.is(own))
    }

    /// The logins that hold now, by user and end.
    pub fn list(&self, now: Instant, own: Option<&LoginEnd>) -> Vec<HeldLogin> {
        let logins = self.lock();
        let held = logins.values().filter(|login| login.holds(now, self.idle)).map(|login| HeldLogin {
            user: login.identity.user.clone(),
            until: login.until,
            seen: login.seen(),
            is_of_provider: login.person.is_some(),
            is_own: own.is_some_and(|own| login.is(own)),
        });
        let mut held: Vec<_> = held.collect();
        drop(logins);
        held.sort_by(|a, b| (&a.user, a.until).cmp(&(&b.user, b.until)));
        held
    }

    /// Ends the logins whose sessions the provider has ended; gives how many.
    pub fn end_ended(&self, ended: &Ended) -> usize {
        self.end(|login| {
            let Some(person) = &login.person else { return false };
            let same = ended.subject.as_ref().is_none_or(|subject| *subject == person.subject);
            same && ended.session.as_ref().is_none_or(|session| person.session.as_ref() == Some(session))
        })
    }

    fn end(&self, is_it: impl Fn(&Login) -> bool) -> usize {
        let mut logins = self.lock();
        let before = logins.len();
        logins.retain(|_, login| !is_it(login));
        before - logins.len()
    }

    /// Logins by user that hold now.
    #[must_use]
    pub fn count(&self, now: Instant) -> usize {
        self.lock().values().filter(|login| login.holds(now, self.idle)).count()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Login>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Login {
    fn holds(&self, now: Instant, idle: Duration) -> bool {
        self.until > now && (self.here.receiver_count() > 0 || self.seen() + idle > now)
    }

    fn seen(&self) -> Instant {
        Instant::ZERO + Duration::from_nanos(self.seen.load(Ordering::Relaxed))
    }

    fn is(&self, end: &LoginEnd) -> bool {
        Arc::ptr_eq(&self.seen, &end.seen)
    }
}

fn nanos(at: Instant) -> u64 {
    u64::try_from(at.since(Instant::ZERO).as_nanos()).unwrap_or(u64::MAX)
}

/// Forgets logins that are over, and of a user that has as many as it may the one that ends first; false where there is no room.
fn make_room(logins: &mut HashMap<String, Login>, now: Instant, idle: Duration, user: &str) -> bool {
    let own = logins.iter().filter(|(_, login)| *login.identity.user == *user);
    let own: Vec<_> = own.map(|(token, login)| (login.until, token.clone())).collect();
    if own.len() >= LOGINS_OF_USER_MAX {
        own.into_iter().min().and_then(|(_, first)| logins.remove(&first));
    }
    if logins.len() >= LOGINS_MAX {
        logins.retain(|_, login| login.holds(now, idle));
    }
    logins.len() < LOGINS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(user: &str) -> Identity {
        Identity { user: user.into(), roles: None, expires: None, credential: 0 }
    }

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    #[tokio::test]
    async fn a_login_ends_with_its_time_or_when_it_is_given_up() {
        let logins = Logins::default();
        let token = logins.keep(who("anna"), at(0)).unwrap();
        let (identity, mut end) = logins.find(&token, at(1)).unwrap();
        assert_eq!((&*identity.user, identity.expires), ("anna", Some(Instant::ZERO + LOGIN_HOLDS)));
        assert!(futures_util::FutureExt::now_or_never(end.gone()).is_none());
        logins.forget(&token);
        end.gone().await;
        let token = logins.keep(who("anna"), at(0)).unwrap();
        assert!(logins.find(&token, Instant::ZERO + LOGIN_HOLDS).is_none());
    }

    #[tokio::test]
    async fn a_user_with_too_many_logins_loses_its_own() {
        let logins = Logins::default();
        let anna = logins.keep(who("anna"), at(1)).unwrap();
        let eves: Vec<_> = (0..1000).map(|n| logins.keep(who("eve"), at(10 + n)).unwrap()).collect();
        assert!(logins.find(&anna, at(2000)).is_some() && logins.find(&eves[999], at(2000)).is_some());
        assert!(logins.find(&eves[0], at(2000)).is_none());
        assert_eq!(logins.lock().len(), 1 + LOGINS_OF_USER_MAX);
    }

    #[tokio::test]
    async fn a_login_that_is_not_used_ends_unless_a_stream_of_it_is_open() {
        let (idle, max) = (Duration::from_secs(1800), Duration::from_secs(36_000));
        let logins = Logins::new(Clock::start(), idle, max);
        let token = logins.keep(who("anna"), at(0)).unwrap();
        for s in [1799, 3598, 5397] {
            assert!(logins.find(&token, at(s)).is_some(), "{s}");
        }
        assert!(logins.find(&token, at(5397 + 1800)).is_none());
        let token = logins.keep(who("anna"), at(0)).unwrap();
        let stream = logins.find(&token, at(0)).unwrap().1;
        assert!(logins.find(&token, at(30_000)).is_some());
        assert!(logins.find(&token, at(36_000)).is_none(), "{stream:?}");
    }

    #[test]
    fn a_user_ends_its_other_logins_and_nobody_elses() {
        let logins = Logins::default();
        let tokens = [("anna", 1), ("ben", 2), ("anna", 3)].map(|(user, s)| logins.keep(who(user), at(s)).unwrap());
        let own = logins.find(&tokens[0], at(4)).unwrap().1;
        let shown = |own: &LoginEnd| -> Vec<(String, bool, Instant)> {
            let list = logins.list(at(5), Some(own));
            list.into_iter().map(|login| (login.user.to_string(), login.is_own, login.seen)).collect()
        };
        let [anna, ben] = ["anna", "ben"].map(str::to_owned);
        let expect = [(anna.clone(), true, at(4)), (anna.clone(), false, at(3)), (ben.clone(), false, at(2))];
        assert_eq!(shown(&own), expect);
        assert_eq!((logins.end_others("anna", &own), logins.end_others("anna", &own)), (1, 0));
        assert_eq!(shown(&own), [(anna, true, at(4)), (ben, false, at(2))]);
        assert!(logins.find(&tokens[2], at(6)).is_none());
    }

    #[test]
    fn logins_are_ended_by_user_and_by_what_the_provider_has_ended() {
        let person = |subject: &str, session: &str| Person {
            user: "anna".to_owned(),
            roles: Vec::new(),
            subject: subject.to_owned(),
            session: Some(session.to_owned()),
            id_token: "x".repeat(5000),
        };
        let check = |ended: Option<(Option<&str>, Option<&str>)>, expect: usize| {
            let logins = Logins::default();
            for (subject, session) in [("1", "a"), ("1", "b"), ("2", "c")] {
                logins.keep_person(who("anna"), Some(person(subject, session)), at(0)).unwrap();
            }
            let local = logins.keep(who("ben"), at(0)).unwrap();
            let found = match ended {
                Some((subject, session)) => {
                    let [subject, session] = [subject, session].map(|text| text.map(str::to_owned));
                    logins.end_ended(&Ended { subject, session })
                }
                None => logins.end_user("anna"),
            };
            assert_eq!((found, logins.count(at(1))), (expect, 4 - expect), "{ended:?}");
            assert_eq!(logins.forget(&local), None);
        };
        check(Some((Some("1"), None)), 2);
        check(Some((None, Some("b"))), 1);
        check(Some((Some("2"), Some("b"))), 0);
        check(Some((Some("3"), None)), 0);
        check(None, 3);
    }
}
