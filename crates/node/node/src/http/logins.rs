//! Logins at the console: a token in a cookie, until it is over or given up.

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tieline_access::Identity;
use tieline_core::Instant;
use tokio::sync::watch;

/// How long a login holds.
pub const LOGIN_HOLDS: Duration = Duration::from_secs(12 * 3600);
/// Logins that hold at a time; one more is refused.
const LOGINS_MAX: usize = 100_000;
/// Logins of one user; with one more, its own that ends first goes.
const LOGINS_OF_USER_MAX: usize = 100;

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Logins(Arc<Mutex<HashMap<String, Login>>>);

#[derive(Debug)]
struct Login {
    until: Instant,
    /// Its rights end with the login, too.
    identity: Identity,
    /// Closed when the login is gone.
    here: watch::Sender<()>,
}

/// Tells when a login is gone.
#[derive(Clone, Debug)]
pub struct LoginEnd(watch::Receiver<()>);

impl LoginEnd {
    /// Waits until the login is given up, or has to make room for another.
    pub async fn gone(&mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

impl Logins {
    /// Whose login a token is.
    pub fn find(&self, token: &str, now: Instant) -> Option<(Identity, LoginEnd)> {
        let mut logins = self.lock();
        let login = logins.get(token)?;
        if login.until > now {
            return Some((login.identity.clone(), LoginEnd(login.here.subscribe())));
        }
        logins.remove(token);
        None
    }

    /// Keeps a login and gives its token; none where there are too many.
    pub fn keep(&self, mut identity: Identity, now: Instant) -> Option<String> {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).ok()?;
        let token = URL_SAFE_NO_PAD.encode(bytes);
        let mut logins = self.lock();
        if !make_room(&mut logins, now, &identity.user) {
            return None;
        }
        let until = now + LOGIN_HOLDS;
        let until = identity.expires.map_or(until, |expires| until.min(expires));
        identity.expires = Some(until);
        logins.insert(token.clone(), Login { until, identity, here: watch::Sender::new(()) });
        Some(token)
    }

    /// Gives a login up.
    pub fn forget(&self, token: &str) {
        self.lock().remove(token);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Login>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets logins that are over, and of a user that has as many as it may the one that ends first; false where there is no room.
fn make_room(logins: &mut HashMap<String, Login>, now: Instant, user: &str) -> bool {
    let own = logins.iter().filter(|(_, login)| *login.identity.user == *user);
    let own: Vec<_> = own.map(|(token, login)| (login.until, token.clone())).collect();
    if own.len() >= LOGINS_OF_USER_MAX {
        own.into_iter().min().and_then(|(_, first)| logins.remove(&first));
    }
    if logins.len() >= LOGINS_MAX {
        logins.retain(|_, login| login.until > now);
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
}
