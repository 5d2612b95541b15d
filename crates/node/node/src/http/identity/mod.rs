//! Logins by an identity provider: what is under way, and the requests to the provider.
//!
//! The decisions are those of `tieline_identity`; here are its clock, its random bytes and its requests, each on a thread
//! that may wait, and no more than [`REQUESTS_MAX`] at a time.

pub mod browser;
pub mod device;
pub mod proxy;

use crate::config::OidcConfig;
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tieline_client::{ClientTls, Fetch};
use tieline_core::Instant;
use tieline_identity::{
    ANSWER_BYTES_MAX, Answer, Devices, Exchange, Fault, Goal, Known, Outcome, Pending, Provider, Request, Step,
};
use tieline_net::Clock;
use tieline_service::exposition::Exposition;
use tokio::sync::Semaphore;

/// Exchanges with the provider at a time; one more is refused.
const REQUESTS_MAX: usize = 8;
/// Bytes of a file with a secret.
const SECRET_BYTES_MAX: u64 = 4096;

/// The provider of a node, and the logins under way.
#[derive(Debug)]
pub struct Identities {
    /// What is configured.
    pub config: OidcConfig,
    clock: Clock,
    known: Mutex<Option<Arc<Known>>>,
    pending: Mutex<Pending>,
    devices: Mutex<Devices>,
    places: Arc<Semaphore>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    good: AtomicU64,
    faults: [AtomicU64; Fault::WORDS.len()],
    full: AtomicU64,
    ended: AtomicU64,
    /// Counted by the alarms, too.
    break_glass: Arc<AtomicU64>,
}

impl Identities {
    /// Nobody has logged in yet.
    #[must_use]
    pub fn new(config: OidcConfig, clock: Clock) -> Self {
        Self {
            config,
            clock,
            known: Mutex::default(),
            pending: Mutex::default(),
            devices: Mutex::default(),
            places: Arc::new(Semaphore::new(REQUESTS_MAX)),
            counts: Counts::default(),
        }
    }

    fn provider(&self) -> &Provider {
        &self.config.provider
    }

    fn now(&self) -> Instant {
        self.clock.now().mono
    }

    /// Whether browsers reach this node over TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.provider().address.starts_with("https://")
    }

    /// Carries out an exchange with the provider.
    async fn exchange(self: &Arc<Self>, goal: Goal) -> Result<Outcome, Fault> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return Err(Fault::Away("too many logins wait for it".to_owned()));
        };
        let own = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            own.drive(goal)
        });
        done.await.unwrap_or_else(|_| Err(Fault::Away("the node is stopping".to_owned())))
    }

    /// The same on a thread that may wait.
    fn drive(&self, goal: Goal) -> Result<Outcome, Fault> {
        let secret = match &self.config.secret_file {
            Some(file) => read_secret(file).map_err(|error| Fault::Away(format!("{}: {error}", file.display())))?,
            None => String::new(),
        };
        let now = self.clock.now();
        let now_s = u64::try_from(now.utc.millis() / 1000).unwrap_or(0);
        let known = lock(&self.known).clone();
        let mut exchange = Exchange::new(Arc::clone(&self.config.provider), &secret, known, goal, (now.mono, now_s));
        let outcome = loop {
            match exchange.poll() {
                Step::Send(request) => {
                    let answer = self.fetch(&request);
                    exchange.handle_answer(self.now(), answer);
                }
                Step::Done(outcome) => break outcome,
            }
        };
        if let Some(known) = exchange.known() {
            *lock(&self.known) = Some(known);
        }
        outcome
    }

    fn fetch(&self, request: &Request) -> Result<Answer, String> {
        let tls = match request.url.starts_with("https://") {
            true => {
                let tls = ClientTls::load(self.config.authorities.as_deref(), None);
                Some(tls.map_err(|error| error.to_string())?)
            }
            false => None,
        };
        let fetch = Fetch {
            url: &request.url,
            authorization: request.authorization.as_deref(),
            form: request.form.as_deref(),
            within: self.config.timeout,
            bytes_max: ANSWER_BYTES_MAX,
        };
        fetch.send(tls).map(|(status, body)| Answer { status, body })
    }

    fn count(&self, fault: &Fault) {
        let at = Fault::WORDS.iter().position(|word| *word == fault.word()).unwrap_or_default();
        if let Some(count) = self.counts.faults.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often the break-glass user has logged in; none where there is no such user.
    #[must_use]
    pub fn break_glass(&self) -> Option<Arc<AtomicU64>> {
        self.config.break_glass.is_some().then(|| Arc::clone(&self.counts.break_glass))
    }

    /// Counts a login of the break-glass user.
    pub fn count_break_glass(&self) {
        self.counts.break_glass.fetch_add(1, Ordering::Relaxed);
    }

    /// Metrics of logins by the provider.
    pub fn expose(&self, e: &mut Exposition) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counts { good, faults, full, ended, break_glass } = &self.counts;
        let faults = Fault::WORDS.into_iter().zip(faults.iter().map(count));
        let ends = [("good", count(good)), ("full", count(full))].into_iter().chain(faults);
        let name = "tieline_identity_logins_total";
        e.labelled((name, "Logins by the identity provider, by result.", "counter"), "end", ends);
        let pending = lock(&self.pending).len();
        e.gauge("tieline_identity_pending", "Logins by the identity provider that are under way.", pending);
        let devices = lock(&self.devices).len();
        e.gauge("tieline_identity_device_codes", "Device codes that wait for a person.", devices);
        let words = "Logins that the identity provider has ended.";
        e.counter("tieline_identity_ended_total", words, count(ended));
        let words = "Logins of the break-glass user.";
        e.counter("tieline_identity_break_glass_total", words, count(break_glass));
    }
}

/// The first line of a file.
fn read_secret(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(SECRET_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.lines().next().unwrap_or_default().trim_end().to_owned())
}

/// Random bytes; none where the system gives none.
fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).ok().map(|()| bytes)
}

/// A name that nobody can guess.
fn handle() -> Option<String> {
    random::<32>().map(|bytes| URL_SAFE_NO_PAD.encode(bytes))
}

/// What the locks guard is whole between statements.
fn lock<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    guarded.lock().unwrap_or_else(PoisonError::into_inner)
}
