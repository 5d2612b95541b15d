//! A client of several servers: it spreads requests by weight and load, and asks another server when one fails.
//!
//! Packing and unpacking change nothing at a server, so a request whose answer was lost is simply asked again. It is
//! given up when no server answered within [`ClusterConfig::patience`].
//!
//! Runs on the tokio runtime of its caller; one task a server keeps the connection.

mod connection;
#[cfg(test)]
mod tests;

use crate::Ispb;
use crate::protocol::{Reason, Request};
use connection::{Answer, Connection, keep};
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// Pauses before all servers are asked again, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// Which servers, and how they are treated.
#[derive(Clone)]
pub struct ClusterConfig {
    /// The servers.
    pub servers: Vec<ServerConfig>,
    /// The client's token.
    pub token: Zeroizing<String>,
    /// How long a request is tried, on all servers together.
    pub patience: Duration,
    /// How often each server is asked whether it is there; one that does not answer for three times as long is given
    /// up.
    pub health_every: Duration,
    /// How servers that ask for TLS are spoken to; their certificates must be for the host of their address, unless
    /// pinned. None is plain TCP.
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// `host:port` of its binary protocol.
    pub address: String,
    /// Its share of the load, at least 1.
    pub weight: u32,
}

impl ClusterConfig {
    /// Servers of equal weight, 10 s of patience, a question about health every second.
    #[must_use]
    pub fn new(addresses: impl IntoIterator<Item = String>, token: String) -> Self {
        let server = |address| ServerConfig { address, weight: 1 };
        Self {
            servers: addresses.into_iter().map(server).collect(),
            token: Zeroizing::new(token),
            patience: Duration::from_secs(10),
            health_every: Duration::from_secs(1),
            tls: None,
        }
    }
}

impl fmt::Debug for ClusterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterConfig").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// What is to be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackRequest<'a> {
    /// The domain that sends.
    pub domain: &'a str,
    /// The institution that receives.
    pub recipient: Ispb,
    /// The version of the key that signs; 0 is the highest active one.
    pub key_version: u32,
    /// The protocol, 2 or 3.
    pub version: u8,
    /// C03.
    pub error: u8,
    /// C04.
    pub treatment: u8,
    /// Whether content of a compressed treatment is to be compressed.
    pub compress: bool,
    /// The content.
    pub content: &'a [u8],
}

/// What is to be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackRequest<'a> {
    /// The domain that receives.
    pub domain: &'a str,
    /// The institution that must have sent; none is any peer.
    pub sender: Option<Ispb>,
    /// Whether compressed content is to be decompressed.
    pub inflate: bool,
    /// The message.
    pub message: &'a [u8],
}

/// Verified content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// The institution whose key signed.
    pub sender: Ispb,
    /// C03 as it came, not authenticated.
    pub error: u8,
    /// C04 as it came, not authenticated.
    pub treatment: u8,
    /// The content.
    pub content: Vec<u8>,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// A server refused, and others would too.
    Refused {
        /// Why.
        reason: Reason,
        /// The value of C03 for the sender of a message; 0 where no message is to blame.
        code: u8,
        /// In words.
        text: String,
    },
    /// No server answered in time; the last reason.
    Unavailable(String),
    /// A server answered what was not asked.
    Protocol,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { text, .. } => f.write_str(text),
            Self::Unavailable(last) => write!(f, "no server answered in time; the last said: {last}"),
            Self::Protocol => f.write_str("a server broke the protocol"),
        }
    }
}

impl std::error::Error for ClientError {}

/// How often what happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterCounters {
    /// Requests that were sent, by server.
    pub sent: Vec<u64>,
    /// Requests that were asked again, of another server or later.
    pub retried: u64,
}

/// The servers.
pub struct Cluster {
    members: Vec<Arc<Member>>,
    patience: Duration,
    /// Where the next choice begins to look.
    turn: AtomicUsize,
    retried: AtomicU64,
    tasks: Vec<JoinHandle<()>>,
    changed: Arc<Notify>,
}

/// One server as the cluster sees it.
struct Member {
    weight: u64,
    sent: AtomicU64,
    connection: Mutex<Option<Arc<Connection>>>,
    /// Some server became reachable.
    changed: Arc<Notify>,
}

impl Member {
    fn connection(&self) -> Option<Arc<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, connection: Option<Arc<Connection>>) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = connection;
        self.changed.notify_waiters();
    }
}

impl Cluster {
    /// Begins to connect; requests wait until a server is there.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(config: &ClusterConfig) -> Self {
        let changed = Arc::new(Notify::new());
        let (mut members, mut tasks) = (Vec::new(), Vec::new());
        for server in &config.servers {
            let (sent, connection, changed) = (AtomicU64::new(0), Mutex::new(None), Arc::clone(&changed));
            let member = Arc::new(Member { weight: server.weight.max(1).into(), sent, connection, changed });
            let (address, token) = (server.address.clone(), config.token.clone());
            let (health_every, tls) = (config.health_every, config.tls.clone());
            let kept = Arc::clone(&member);
            tasks.push(tokio::spawn(async move { keep(&kept, &address, &token, tls.as_ref(), health_every).await }));
            members.push(member);
        }
        let (turn, retried) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { members, patience: config.patience, turn, retried, tasks, changed }
    }

    /// Signs and encrypts.
    ///
    /// # Errors
    /// It is refused, or no server answered in time.
    pub async fn pack(&self, request: &PackRequest<'_>) -> Result<Vec<u8>, ClientError> {
        let PackRequest { domain, recipient, key_version, version, error, treatment, compress, content } = *request;
        let asked = Request::Pack { domain, recipient, key_version, version, error, treatment, compress, content };
        match self.ask(&asked).await? {
            Answer::Packed(message) => Ok(message),
            Answer::Unpacked(_) | Answer::Refused { .. } => Err(ClientError::Protocol),
        }
    }

    /// Decrypts and verifies.
    ///
    /// # Errors
    /// It is refused, or no server answered in time.
    pub async fn unpack(&self, request: &UnpackRequest<'_>) -> Result<Unpacked, ClientError> {
        let UnpackRequest { domain, sender, inflate, message } = *request;
        match self.ask(&Request::Unpack { domain, sender, inflate, message }).await? {
            Answer::Unpacked(unpacked) => Ok(unpacked),
            Answer::Packed(_) | Answer::Refused { .. } => Err(ClientError::Protocol),
        }
    }

    /// How often what happened.
    #[must_use]
    pub fn counters(&self) -> ClusterCounters {
        let sent = self.members.iter().map(|member| member.sent.load(Ordering::Relaxed)).collect();
        ClusterCounters { sent, retried: self.retried.load(Ordering::Relaxed) }
    }

    /// How many servers are connected.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.members.iter().filter(|member| member.connection().is_some()).count()
    }

    async fn ask(&self, request: &Request<'_>) -> Result<Answer, ClientError> {
        let deadline = Instant::now() + self.patience;
        let mut tried = vec![false; self.members.len()];
        let mut last = "no server is connected".to_owned();
        let mut pause = PAUSE.0;
        loop {
            let Some((at, connection)) = self.choose(&tried) else {
                if Instant::now() >= deadline {
                    return Err(ClientError::Unavailable(last));
                }
                // Whichever comes first: a server is there again, or it is time to ask those that were busy.
                let _ = tokio::time::timeout(pause, self.changed.notified()).await;
                pause = (pause * 2).min(PAUSE.1);
                tried.fill(false);
                continue;
            };
            if let Some(member) = self.members.get(at) {
                member.sent.fetch_add(1, Ordering::Relaxed);
            }
            let answer = tokio::time::timeout_at(deadline, connection.ask(request)).await;
            match answer.unwrap_or(None) {
                Some(Answer::Refused { reason, text, .. }) if reason.is_of_this_server() => last = text,
                Some(Answer::Refused { reason, code, text }) => {
                    return Err(ClientError::Refused { reason, code, text });
                }
                Some(answer) => return Ok(answer),
                None => last = "the connection was lost, or no answer came".to_owned(),
            }
            self.retried.fetch_add(1, Ordering::Relaxed);
            if let Some(tried) = tried.get_mut(at) {
                *tried = true;
            }
        }
    }

    /// Of the servers that are connected and were not tried, the one with the least waiting for its weight; among
    /// equals, by turns.
    fn choose(&self, tried: &[bool]) -> Option<(usize, Arc<Connection>)> {
        let count = self.members.len();
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let places = (0..count).map(|n| first.wrapping_add(n) % count);
        let free = places.filter(|&at| !tried.get(at).copied().unwrap_or(true));
        let loaded = free.filter_map(|at| {
            let member = self.members.get(at)?;
            let connection = member.connection()?;
            let load = connection.load()?.saturating_add(1).saturating_mul(1 << 20) / member.weight;
            Some((load, at, connection))
        });
        loaded.min_by_key(|(load, ..)| *load).map(|(_, at, connection)| (at, connection))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
