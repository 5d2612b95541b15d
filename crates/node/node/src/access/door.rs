//! Where what peers show is checked: a thread of its own, because argon2id takes tens of milliseconds, with a queue that
//! is bounded, because anybody can ask.
//!
//! A password that was checked once is known again without argon2id until the files change: kept is its HMAC-SHA-256
//! under a key of this process. So ten thousand clients that come back at once do not wait for each other, and only
//! wrong passwords cost what argon2id costs. Those are bounded for each address ([`Logins`]).

use super::book::Book;
use super::certificate::{Holder, holder};
use super::jwt::Claims;
use super::scram::{Exchange, ScramError, fresh_nonce};
use super::{hash_password, verify_password};
use crate::config::AccessConfig;
use aws_lc_rs::{constant_time, hmac, rand};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tieline_access::{Identity, Logins, Policy, PolicyError};
use tieline_net::Clock;
use tieline_net::tls::ShownCertificate;

/// Checks that may wait; one more is refused. Each costs some tens of milliseconds.
pub const WAITING_MAX: usize = 256;
/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a peer shows.
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

/// Why a peer is not let in. It is told no more than the first word of this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// What it showed is not good; why, for the log.
    Refused(String),
    /// It has failed too often.
    TooOften,
    /// Too many wait to be checked.
    Busy,
}

impl Wrong {
    /// One word for metrics and the audit log.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Refused(_) => "wrong",
            Self::TooOften => "too_often",
            Self::Busy => "busy",
        }
    }
}

/// Hears what became of a check; runs on the thread that checks.
type Answer = Box<dyn FnOnce(Result<Identity, Wrong>) + Send>;

struct Job {
    shown: Shown,
    peer: IpAddr,
    answer: Answer,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Peers that showed who they are.
    pub good: u64,
    /// Peers that did not.
    pub wrong: u64,
    /// Peers refused because they had failed too often.
    pub too_often: u64,
    /// Peers refused because too many waited.
    pub busy: u64,
    /// Times that changed files were read and taken.
    pub reloads: u64,
    /// Whether the files as they are cannot be used: those of before hold.
    pub files_bad: bool,
    /// Users in the files.
    pub users: usize,
}

/// The way in, for any thread.
#[derive(Clone)]
pub struct Door {
    shared: Arc<Access>,
    jobs: SyncSender<Job>,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// What the threads share.
pub struct Access {
    config: AccessConfig,
    clock: Clock,
    book: Mutex<Arc<Book>>,
    logins: Mutex<Logins>,
    /// What users showed last, by name.
    known: Mutex<HashMap<String, hmac::Tag>>,
    key: hmac::Key,
    secret: [u8; 32],
    good: AtomicU64,
    wrong: AtomicU64,
    busy: AtomicU64,
    reloads: AtomicU64,
    trouble: Mutex<Option<String>>,
}

/// When the files were last written, and how long they are.
type Stamps = Vec<Option<(SystemTime, u64)>>;

/// Told when other users and roles hold.
pub type OnChange = Box<dyn Fn(Arc<Policy>) + Send>;

impl Door {
    /// Opens it with what the files say.
    ///
    /// # Errors
    /// The system gives no thread or no random octets.
    pub fn start(config: &AccessConfig, book: Book, clock: Clock, on_change: OnChange) -> std::io::Result<Self> {
        let mut secret = [0; 32];
        rand::fill(&mut secret).map_err(|_| std::io::Error::other("no random octets"))?;
        let shared = Arc::new(Access {
            config: config.clone(),
            clock,
            book: Mutex::new(Arc::new(book)),
            logins: Mutex::default(),
            known: Mutex::default(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            secret,
            good: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            reloads: AtomicU64::new(0),
            trouble: Mutex::default(),
        });
        let (jobs, incoming) = sync_channel(WAITING_MAX);
        let keeper = Arc::clone(&shared);
        // Seen here, and not when the thread has come to it: what changes meanwhile is taken.
        let stamps = keeper.stamps();
        let body = move || keeper.run(&incoming, &on_change, stamps);
        std::thread::Builder::new().name("access".to_owned()).spawn(body)?;
        Ok(Self { shared, jobs })
    }

    /// Checks what a peer shows. The answer comes at once, on this thread, or later on another.
    pub fn ask(&self, peer: IpAddr, shown: Shown, answer: impl FnOnce(Result<Identity, Wrong>) + Send + 'static) {
        if let Some(identity) = self.shared.recognise(&shown) {
            return answer(Ok(identity));
        }
        if !self.shared.may_try(peer) {
            return answer(Err(Wrong::TooOften));
        }
        let job = Job { shown, peer, answer: Box::new(answer) };
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) = self.jobs.try_send(job) {
            self.shared.busy.fetch_add(1, Ordering::Relaxed);
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
        let known = holder(shown, &self.shared.book(), config).and_then(|holder| match user {
            Some(user) if user != holder.user => Err(format!("a certificate of {:?} under another name", holder.user)),
            Some(_) | None => self.shared.of_certificate(holder),
        });
        let counter = if known.is_ok() { &self.shared.good } else { &self.shared.wrong };
        counter.fetch_add(1, Ordering::Relaxed);
        Some(known.map_err(Wrong::Refused))
    }

    /// Begins an exchange of SCRAM; gives it and what the client is told.
    ///
    /// # Errors
    /// Why the client is not let in.
    pub fn begin_scram(&self, peer: IpAddr, message: &[u8]) -> Result<(Exchange, String), Wrong> {
        if !self.shared.may_try(peer) {
            return Err(Wrong::TooOften);
        }
        let book = self.shared.book();
        let look = |user: &str| book.secrets.get(user).and_then(|secret| secret.scram.clone());
        let begun = fresh_nonce().map_err(Wrong::Refused).and_then(|nonce| {
            Exchange::begin(message, look, &self.shared.secret, &nonce).map_err(|error| wrong(&error))
        });
        begun.inspect_err(|_| self.shared.count_wrong(peer))
    }

    /// Ends an exchange of SCRAM; gives who it is and what the client is told.
    ///
    /// # Errors
    /// Why the client is not let in.
    pub fn finish_scram(&self, peer: IpAddr, exchange: Exchange, message: &[u8]) -> Result<(Identity, String), Wrong> {
        let proved = exchange.finish(message).map_err(|error| wrong(&error));
        let (user, answer) = proved.inspect_err(|_| self.shared.count_wrong(peer))?;
        self.shared.good.fetch_add(1, Ordering::Relaxed);
        Ok((self.shared.identity(&user), answer))
    }

    /// Who may do what at present.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.shared.book().policy)
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
        Counts {
            good: count(&shared.good),
            wrong: count(&shared.wrong),
            too_often: lock(&shared.logins).refused,
            busy: count(&shared.busy),
            reloads: count(&shared.reloads),
            files_bad: lock(&shared.trouble).is_some(),
            users: shared.book().policy.users().count(),
        }
    }

    /// Why the files as they are cannot be used; none while they can.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        lock(&self.shared.trouble).clone()
    }
}

fn wrong(error: &ScramError) -> Wrong {
    Wrong::Refused(error.to_string())
}

impl Access {
    fn run(&self, jobs: &Receiver<Job>, on_change: &OnChange, mut stamps: Stamps) {
        // A user that there is not costs the same as one that there is: who there is stays unknown.
        let nobody = hash_password("").unwrap_or_default();
        let mut looked = self.clock.now().mono;
        loop {
            match jobs.recv_timeout(LOOK_EVERY) {
                Ok(Job { shown, peer, answer }) => {
                    let checked = self.check(shown, &nobody).map_err(Wrong::Refused);
                    match &checked {
                        Ok(_) => drop(self.good.fetch_add(1, Ordering::Relaxed)),
                        Err(_) => self.count_wrong(peer),
                    }
                    answer(checked);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = self.clock.now().mono;
            if now.since(looked) >= LOOK_EVERY {
                looked = now;
                let seen = self.stamps();
                if seen != stamps {
                    stamps = seen;
                    self.reload(on_change);
                }
            }
        }
    }

    fn check(&self, shown: Shown, nobody: &str) -> Result<Identity, String> {
        match shown {
            Shown::Password { user, password } => {
                let book = self.book();
                let hash = book.secrets.get(&user).and_then(|secret| secret.password.clone());
                let good = verify_password(&password, hash.as_deref().unwrap_or(nobody)) && hash.is_some();
                if !good {
                    return Err(format!("user {user:?} with a wrong password"));
                }
                lock(&self.known).insert(user.clone(), self.tag(&user, &password));
                Ok(self.identity(&user))
            }
            Shown::Token { user, token } => {
                let book = self.book();
                let tokens = book.tokens.as_ref().ok_or_else(|| "tokens are not taken".to_owned())?;
                let claims = tokens.verify(&token).map_err(|why| format!("a token: {why}"))?;
                if user.as_ref().is_some_and(|user| !user.is_empty() && *user != claims.user) {
                    return Err(format!("a token of {:?} under another name", claims.user));
                }
                self.of_token(claims)
            }
        }
    }

    fn of_token(&self, Claims { user, roles, expires }: Claims) -> Result<Identity, String> {
        let until_s = expires.saturating_add(self.config.leeway_s());
        self.bounded(&user, roles, until_s).map_err(|error| format!("a token: {error}"))
    }

    fn of_certificate(&self, Holder { user, roles, not_after }: Holder) -> Result<Identity, String> {
        let until_s = u64::try_from(not_after.millis() / 1000).unwrap_or(0).saturating_add(1);
        self.bounded(&user, roles, until_s).map_err(|error| format!("a certificate: {error}"))
    }

    /// Who shows something that ends, in seconds of UTC.
    fn bounded(&self, user: &str, roles: Option<Vec<String>>, until_s: u64) -> Result<Identity, PolicyError> {
        // The name must be able to stand where names of users stand.
        Policy::new([], [tieline_access::User::new(user, [])])?;
        let now = self.clock.now();
        let left = until_s.saturating_sub(u64::try_from(now.utc.millis() / 1000).unwrap_or(0));
        // A hundred years are as good as for ever, and no overflow.
        let left = Duration::from_secs(left.min(3_155_760_000));
        let roles = roles.map(|roles| roles.into_iter().map(String::into_boxed_str).collect());
        Ok(Identity { roles, expires: Some(now.mono + left), ..self.identity(user) })
    }

    fn identity(&self, user: &str) -> Identity {
        let credential = self.book().policy.user(user).map_or(0, |user| user.credential);
        Identity { user: user.into(), roles: None, expires: None, credential }
    }

    /// A password that was found good and is shown again.
    fn recognise(&self, shown: &Shown) -> Option<Identity> {
        let Shown::Password { user, password } = shown else { return None };
        let known = *lock(&self.known).get(user)?;
        let tag = self.tag(user, password);
        constant_time::verify_slices_are_equal(known.as_ref(), tag.as_ref()).ok()?;
        self.good.fetch_add(1, Ordering::Relaxed);
        Some(self.identity(user))
    }

    fn tag(&self, user: &str, password: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(user.as_bytes());
        context.update(&[0]);
        context.update(password);
        context.sign()
    }

    fn may_try(&self, peer: IpAddr) -> bool {
        lock(&self.logins).may_try(self.clock.now().mono, peer)
    }

    fn count_wrong(&self, peer: IpAddr) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
        lock(&self.logins).failed(self.clock.now().mono, peer);
    }

    fn book(&self) -> Arc<Book> {
        Arc::clone(&lock(&self.book))
    }

    /// When the files were last written, and how long they are.
    fn stamps(&self) -> Stamps {
        let stamp = |path: &Path| {
            let file = std::fs::metadata(path).ok()?;
            Some((file.modified().ok()?, file.len()))
        };
        self.config.files().map(stamp).collect()
    }

    fn reload(&self, on_change: &OnChange) {
        match Book::load(&self.config) {
            Ok(book) => {
                tracing::info!(users = book.policy.users().count(), "users and roles taken anew");
                let policy = Arc::clone(&book.policy);
                *lock(&self.book) = Arc::new(book);
                lock(&self.known).clear();
                *lock(&self.trouble) = None;
                self.reloads.fetch_add(1, Ordering::Relaxed);
                on_change(policy);
            }
            Err(error) => {
                let why = error.to_string().replace('\n', "; ");
                tracing::warn!(why, "users and roles stay as they were: the files cannot be used");
                *lock(&self.trouble) = Some(why);
            }
        }
    }
}

/// What the locks guard is whole between statements.
fn lock<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    guarded.lock().unwrap_or_else(PoisonError::into_inner)
}
