//! Checks credentials. The checks run on threads of their own ([`super::workers`]), because argon2id takes tens of
//! milliseconds; the queues of these threads are bounded, because anybody can send credentials.
//!
//! Whether a peer may try is decided before anything is compared ([`Logins`]), here and once more when its turn has come. A
//! password that was checked once is known again without argon2id until its user changes: kept is its HMAC-SHA-256
//! under a key of this process. So ten thousand clients that come back at once do not wait for each other.

use super::certificate::{Holder, holder};
use super::credential_store::CredentialStore;
use super::jwt::Claims;
use super::outcome::{Counts, Wrong};
use super::password::PASSWORD_BYTES_MAX;
use super::scram::{Exchange, ScramError, fresh_nonce};
use super::verify_password;
use super::workers::{Answer, Job, Kind, Workers};
use crate::config::AccessConfig;
use aws_lc_rs::{constant_time, hmac, rand};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tieline_access::{Identity, Logins, NAME_BYTES_MAX, Network, Origin, Policy};
use tieline_core::Timestamp;
use tieline_net::Clock;
use tieline_net::tls::ShownCertificate;

/// How long a check may wait for its turn: the peer is given up a little later.
const TURN_WITHIN: Duration = Duration::from_secs(8);
/// Why the password of the break-glass user is not taken everywhere.
const NOT_HERE: &str = "the break-glass user logs in at the login page alone";

/// The peer whose credentials are checked.
#[derive(Clone, Copy, Debug)]
pub struct Peer<'a> {
    /// Where from.
    pub address: IpAddr,
    /// What it calls itself, where it does.
    pub client: Option<&'a str>,
}

/// A peer's credentials.
pub enum Shown {
    /// A name and a password.
    Password {
        /// The name.
        user: String,
        /// The password.
        password: Vec<u8>,
    },
    /// A token; a name beside it must be the token's.
    Token {
        /// The name, where there is one.
        user: Option<String>,
        /// The token.
        token: Vec<u8>,
    },
}

/// Checks credentials; usable from any thread.
#[derive(Clone)]
pub struct Authenticator {
    pub(super) shared: Arc<Access>,
    pub(super) workers: Arc<Workers>,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// What the threads share.
pub struct Access {
    pub(super) config: AccessConfig,
    pub(super) clock: Clock,
    pub(super) store: Mutex<Arc<CredentialStore>>,
    logins: Mutex<Logins>,
    /// What users showed last, by name.
    pub(super) known: Mutex<HashMap<String, Found>>,
    /// When users of the files last showed who they are.
    pub(super) last_logins: Mutex<HashMap<Box<str>, Timestamp>>,
    key: hmac::Key,
    secret: [u8; 32],
    good: AtomicU64,
    wrong: AtomicU64,
    busy: AtomicU64,
    pub(super) reloads: AtomicU64,
    pub(super) trouble: Mutex<Option<String>>,
}

/// A password that was found good, while its user's credential was this.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    tag: hmac::Tag,
    pub(super) credential: u64,
}

/// What is known of a password that is shown.
enum Recall {
    Good(Identity),
    Wrong,
    Unknown,
}

/// Called when other users and roles are in force.
pub type OnChange = Box<dyn Fn(Arc<Policy>) + Send>;

impl Authenticator {
    /// Starts the threads that check, with the users and roles of the files.
    ///
    /// # Errors
    /// The system gives no thread or no random bytes.
    pub fn start(
        config: &AccessConfig,
        store: CredentialStore,
        clock: Clock,
        on_change: OnChange,
    ) -> std::io::Result<Self> {
        let mut secret = [0; 32];
        rand::fill(&mut secret).map_err(|_| std::io::Error::other("no random bytes"))?;
        let shared = Arc::new(Access {
            config: config.clone(),
            clock,
            store: Mutex::new(Arc::new(store)),
            logins: Mutex::default(),
            known: Mutex::default(),
            last_logins: Mutex::default(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            secret,
            good: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            reloads: AtomicU64::new(0),
            trouble: Mutex::default(),
        });
        // Seen here, and not when the thread has come to it: what changes meanwhile is taken.
        let (keeper, stamps) = (Arc::clone(&shared), shared.stamps());
        let workers = Workers::start(&shared, move |ended| keeper.watch(&ended, &on_change, stamps))?;
        Ok(Self { shared, workers: Arc::new(workers) })
    }

    /// Checks what a peer shows. The answer comes at once, on this thread, or later on another.
    pub fn ask(&self, peer: Peer<'_>, shown: Shown, answer: impl FnOnce(Result<Identity, Wrong>) + Send + 'static) {
        let shared = &self.shared;
        match &shown {
            Shown::Password { user, .. } if shared.is_break_glass(user) => {
                let origin = shared.origin(peer, &shown);
                answer(Err(if shared.may_try(&origin) {
                    shared.wrong(&origin, NOT_HERE.into())
                } else {
                    Wrong::TooOften
                }));
            }
            Shown::Password { .. } | Shown::Token { .. } => self.ask_at_login(peer, shown, answer),
        }
    }

    /// The same at the login page, where the break-glass user logs in: there, and nowhere else, it is written down.
    pub fn ask_at_login(
        &self,
        peer: Peer<'_>,
        shown: Shown,
        answer: impl FnOnce(Result<Identity, Wrong>) + Send + 'static,
    ) {
        let (shared, origin) = (&self.shared, self.shared.origin(peer, &shown));
        if !shared.may_try(&origin) {
            return answer(Err(Wrong::TooOften));
        }
        if let Some(why) = impossible(&shown) {
            return answer(Err(shared.wrong(&origin, why)));
        }
        let recall = shared.recall(&shown);
        let is_counted = match recall {
            Recall::Good(identity) => return answer(Ok(shared.good(&origin, identity))),
            // Counted at once. That its check takes as long as any tells nobody what is known.
            Recall::Wrong => {
                lock(&shared.logins).failed(shared.clock.now().mono, &origin);
                true
            }
            Recall::Unknown => false,
        };
        let kind = match &shown {
            Shown::Token { .. } => Kind::Token,
            Shown::Password { .. } if lock(&shared.logins).is_known(&origin) => Kind::Known,
            Shown::Password { .. } => Kind::Unauthenticated,
        };
        let until = shared.clock.now().mono + TURN_WITHIN;
        let answer: Answer = Box::new(answer);
        if let Some(job) = self.workers.push(kind, Job { shown, origin, until, is_counted, answer }) {
            shared.busy.fetch_add(1, Ordering::Relaxed);
            (job.answer)(Err(Wrong::Busy));
        }
    }

    /// Who shows a certificate, and a name beside it or none; none where certificates name nobody. There is nothing to
    /// guess: it is answered at once, and does not count against the address.
    ///
    /// # Errors
    /// Why the client is not let in.
    pub fn know_certificate(&self, user: Option<&str>, shown: &ShownCertificate) -> Option<Result<Identity, Wrong>> {
        let config = self.shared.config.certificates.as_ref()?;
        let store = self.shared.store();
        let known = holder(shown, &store, config).and_then(|holder| match user {
            Some(user) if user != holder.user => Err(format!("a certificate of {:?} under another name", holder.user)),
            Some(_) | None => self.shared.of_certificate(&store, holder),
        });
        let counter = if known.is_ok() { &self.shared.good } else { &self.shared.wrong };
        counter.fetch_add(1, Ordering::Relaxed);
        known.iter().for_each(|identity| self.shared.note_login(identity));
        Some(known.map_err(Wrong::Refused))
    }

    /// Begins an exchange of SCRAM; gives it and what the client is told.
    ///
    /// # Errors
    /// Why the client is not let in.
    pub fn begin_scram(&self, peer: Peer<'_>, message: &[u8]) -> Result<(Exchange, String), Wrong> {
        let (shared, store) = (&self.shared, self.shared.store());
        let look = |user: &str| store.secrets.get(user).and_then(|secret| secret.scram.clone());
        let begun = fresh_nonce().and_then(|nonce| {
            Exchange::begin(message, look, &shared.secret, &nonce).map_err(|error| error.to_string())
        });
        // Nothing is compared yet: a message that is none costs a failure, and one that is good needs one to be left.
        let user = begun.as_ref().map_or("", |(exchange, _)| exchange.user());
        let origin = shared.origin_of(peer, user);
        if !shared.may_try(&origin) {
            return Err(Wrong::TooOften);
        }
        let begun = if shared.is_break_glass(user) { Err(NOT_HERE.to_owned()) } else { begun };
        begun.map_err(|why| shared.wrong(&origin, why))
    }

    /// Ends an exchange of SCRAM; gives who it is and what the client is told.
    ///
    /// # Errors
    /// Why the client is not let in.
    pub fn finish_scram(
        &self,
        peer: Peer<'_>,
        exchange: Exchange,
        message: &[u8],
    ) -> Result<(Identity, String), Wrong> {
        let shared = &self.shared;
        let origin = shared.origin_of(peer, exchange.user());
        if !shared.may_try(&origin) {
            return Err(Wrong::TooOften);
        }
        // What was proved is a password of when the exchange began: the user may have another since.
        let store = shared.store();
        let is_present = store.secrets.get(exchange.user()).is_none_or(|secret| exchange.is_for(secret.scram.as_ref()));
        let proved = exchange.finish(message).map_err(|error: ScramError| error.to_string());
        let proved =
            proved.and_then(|proved| is_present.then_some(proved).ok_or("the password has changed".to_owned()));
        let (user, answer) = proved.map_err(|why| shared.wrong(&origin, why))?;
        Ok((shared.good(&origin, identity(&store, &user)), answer))
    }

    /// Who may do what at present.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.shared.store().policy)
    }

    /// What is configured.
    #[must_use]
    pub fn config(&self) -> &AccessConfig {
        &self.shared.config
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let shared = &self.shared;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (too_often, known) = {
            let logins = lock(&shared.logins);
            (logins.refused, logins.known())
        };
        Counts {
            good: count(&shared.good),
            wrong: count(&shared.wrong),
            too_often,
            waiting: self.workers.waiting(),
            known,
            busy: count(&shared.busy),
            reloads: count(&shared.reloads),
            files_bad: lock(&shared.trouble).is_some(),
            users: shared.store().policy.users().count(),
        }
    }

    /// Why the files as they are cannot be used; none while they can.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        lock(&self.shared.trouble).clone()
    }
}

/// Why something cannot be right, whatever is compared.
fn impossible(shown: &Shown) -> Option<String> {
    let Shown::Password { user, password } = shown else { return None };
    if user.len() > NAME_BYTES_MAX {
        return Some(format!("a name of {} bytes", user.len()));
    }
    (password.len() > PASSWORD_BYTES_MAX).then(|| format!("user {user:?} with a password of {} bytes", password.len()))
}

impl Access {
    /// Checks what has come to its turn, and answers.
    pub(super) fn settle(&self, job: Job, nobody: &str) {
        let Job { shown, origin, until, is_counted, answer } = job;
        if self.clock.now().mono > until {
            self.busy.fetch_add(1, Ordering::Relaxed);
            return answer(Err(Wrong::Busy));
        }
        // What failed while it waited counts: nothing is compared that may not be.
        if !is_counted && !self.may_try(&origin) {
            return answer(Err(Wrong::TooOften));
        }
        // The same password may have been found good meanwhile.
        let checked = match self.recall(&shown) {
            Recall::Good(identity) => Ok(identity),
            Recall::Wrong | Recall::Unknown => self.check(shown, nobody),
        };
        answer(match checked {
            Ok(identity) => Ok(self.good(&origin, identity)),
            Err(why) if is_counted => {
                self.wrong.fetch_add(1, Ordering::Relaxed);
                Err(Wrong::Refused(why))
            }
            Err(why) => Err(self.wrong(&origin, why)),
        });
    }

    fn is_break_glass(&self, user: &str) -> bool {
        self.config.oidc.as_ref().is_some_and(|oidc| oidc.break_glass.as_deref() == Some(user))
    }

    fn may_try(&self, origin: &Origin) -> bool {
        lock(&self.logins).may_try(self.clock.now().mono, origin)
    }

    /// Counts one that has shown who it is.
    fn good(&self, origin: &Origin, identity: Identity) -> Identity {
        self.good.fetch_add(1, Ordering::Relaxed);
        lock(&self.logins).succeeded(self.clock.now().mono, origin);
        self.note_login(&identity);
        identity
    }

    /// Users that are in no file are not noted: there may be any number.
    fn note_login(&self, identity: &Identity) {
        if self.store().policy.user(&identity.user).is_some() {
            lock(&self.last_logins).insert(identity.user.clone(), self.clock.now().utc);
        }
    }

    /// Counts one that has not.
    fn wrong(&self, origin: &Origin, why: String) -> Wrong {
        self.wrong.fetch_add(1, Ordering::Relaxed);
        lock(&self.logins).failed(self.clock.now().mono, origin);
        Wrong::Refused(why)
    }

    fn origin(&self, peer: Peer<'_>, shown: &Shown) -> Origin {
        match shown {
            Shown::Password { user, .. } => self.origin_of(peer, user),
            // Whose it is is known when it has been read.
            Shown::Token { .. } => Origin { user: 0, ..self.origin_of(peer, "") },
        }
    }

    fn origin_of(&self, peer: Peer<'_>, user: &str) -> Origin {
        let print = |name: &str| {
            let tag = hmac::sign(&self.key, name.as_bytes());
            tag.as_ref().first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
        };
        let client = peer.client.filter(|client| !client.is_empty()).map(print);
        Origin { network: Network::of(peer.address), user: print(user), client }
    }

    fn check(&self, shown: Shown, nobody: &str) -> Result<Identity, String> {
        match shown {
            Shown::Password { user, password } => {
                let store = self.store();
                let hash = store.secrets.get(&user).and_then(|secret| secret.password.clone());
                let good = verify_password(&password, hash.as_deref().unwrap_or(nobody)) && hash.is_some();
                if !good {
                    return Err(format!("user {user:?} with a wrong password"));
                }
                let identity = identity(&store, &user);
                let found = Found { tag: self.tag(&user, &password), credential: identity.credential };
                let mut known = lock(&self.known);
                // The user may have another password since.
                if credential(&self.store(), &user) == Some(found.credential) {
                    known.insert(user, found);
                }
                Ok(identity)
            }
            Shown::Token { user, token } => {
                let store = self.store();
                let tokens = store.tokens.as_ref().ok_or_else(|| "tokens are not taken".to_owned())?;
                let claims = tokens.verify(&token).map_err(|why| format!("a token: {why}"))?;
                if user.as_ref().is_some_and(|user| !user.is_empty() && *user != claims.user) {
                    return Err(format!("a token of {:?} under another name", claims.user));
                }
                self.of_token(&store, claims)
            }
        }
    }

    fn of_token(&self, store: &CredentialStore, claims: Claims) -> Result<Identity, String> {
        let Claims { user, roles, expires } = claims;
        let until_s = expires.saturating_add(self.config.leeway_s());
        self.bounded(store, &user, roles, until_s).map_err(|error| format!("a token: {error}"))
    }

    fn of_certificate(&self, store: &CredentialStore, holder: Holder) -> Result<Identity, String> {
        let Holder { user, roles, not_after } = holder;
        let until_s = u64::try_from(not_after.millis() / 1000).unwrap_or(0).saturating_add(1);
        self.bounded(store, &user, roles, until_s).map_err(|error| format!("a certificate: {error}"))
    }

    /// Who shows something that ends, in seconds of UTC.
    fn bounded(
        &self,
        store: &CredentialStore,
        user: &str,
        roles: Option<Vec<String>>,
        until_s: u64,
    ) -> Result<Identity, String> {
        // The name must be able to stand where names of users stand.
        Policy::new([], [tieline_access::User::new(user, [])]).map_err(|error| error.to_string())?;
        let now = self.clock.now();
        let left = until_s.saturating_sub(u64::try_from(now.utc.millis() / 1000).unwrap_or(0));
        if left == 0 {
            return Err("it has expired".to_owned());
        }
        // A hundred years are as good as for ever, and no overflow.
        let left = Duration::from_secs(left.min(3_155_760_000));
        let roles = roles.map(|roles| roles.into_iter().map(String::into_boxed_str).collect());
        Ok(Identity { roles, expires: Some(now.mono + left), ..identity(store, user) })
    }

    /// What is known of a password that is shown.
    fn recall(&self, shown: &Shown) -> Recall {
        let Shown::Password { user, password } = shown else { return Recall::Unknown };
        let Some(known) = lock(&self.known).get(user).copied() else { return Recall::Unknown };
        let tag = self.tag(user, password);
        match constant_time::verify_slices_are_equal(known.tag.as_ref(), tag.as_ref()) {
            Ok(()) => {
                Recall::Good(Identity { credential: known.credential, ..identity(&CredentialStore::default(), user) })
            }
            Err(_) => Recall::Wrong,
        }
    }

    fn tag(&self, user: &str, password: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(user.as_bytes());
        context.update(&[0]);
        context.update(password);
        context.sign()
    }

    pub(super) fn store(&self) -> Arc<CredentialStore> {
        Arc::clone(&lock(&self.store))
    }
}

/// What a user of the files shows itself by.
pub(super) fn credential(store: &CredentialStore, user: &str) -> Option<u64> {
    store.policy.user(user).map(|user| user.credential)
}

fn identity(store: &CredentialStore, user: &str) -> Identity {
    let credential = credential(store, user).unwrap_or(0);
    Identity { user: user.into(), roles: None, expires: None, credential }
}

/// What the locks guard is whole between statements.
pub(super) fn lock<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    guarded.lock().unwrap_or_else(PoisonError::into_inner)
}
