//! Outgoing connections, opened again when they are lost.

use crate::connection::Kind;
use crate::counters::add;
use crate::serial::{SerialConfig, SerialStream};
use crate::tls::{ClientTls, Tls, TlsStream, count};
use crate::udp::{UdpConnect, UdpStream};
use crate::{Closed, Connection, Counters, Marks, Owner, Session};
use rustls::ClientConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Machine, Random};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// Where to connect to, and how.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port`; a host name is looked up at every attempt, and each of its addresses is tried. The device file of
    /// a serial line.
    pub address: String,
    /// How long one attempt may take, the look-up included.
    pub timeout: Duration,
    /// How attempts are spaced.
    pub backoff: Backoff,
    /// Bytes of the kernel's send buffer; its default grows to megabytes per connection.
    pub send_buffer: Option<u32>,
    /// Bytes of the kernel's receive buffer.
    pub receive_buffer: Option<u32>,
    /// How urgent the connection is; none leaves it unmarked.
    pub marks: Option<Marks>,
    /// What goes over the connection.
    pub over: ConnectOver,
}

/// What a connection is made of.
#[derive(Clone, Debug, Default)]
pub enum ConnectOver {
    /// TCP.
    #[default]
    Tcp,
    /// TLS over TCP.
    Tls(TlsConnect),
    /// Datagrams.
    Udp(UdpConnect),
    /// A serial line.
    Serial(SerialConfig),
}

/// Who a client is and whom it trusts.
#[derive(Clone, Debug)]
pub enum ClientSide {
    /// By files that may be renewed while connections come and go.
    Renewed(Arc<Tls>),
    /// By files that were read once.
    Once(ClientTls),
}

impl ClientSide {
    fn config(&self) -> Arc<ClientConfig> {
        match self {
            Self::Renewed(tls) => tls.client(),
            Self::Once(tls) => tls.config(),
        }
    }
}

/// How a TLS connection is made.
#[derive(Clone, Debug)]
pub struct TlsConnect {
    /// Who we are and whom we trust.
    pub tls: ClientSide,
    /// The name that the peer's certificate must be for; none: the host of the address.
    pub name: Option<String>,
}

impl Target {
    /// A field device or a client at `address`: 5 s to connect, kernel buffers of 32 KiB.
    #[must_use]
    pub fn new(address: impl Into<String>) -> Self {
        let buffer = Some(32 * 1024);
        Self {
            address: address.into(),
            timeout: Duration::from_secs(5),
            backoff: Backoff::default(),
            send_buffer: buffer,
            receive_buffer: buffer,
            over: ConnectOver::Tcp,
            marks: None,
        }
    }
}

/// A connection that lasted so long was no failure, however long the wait before it was.
const STEADY: Duration = Duration::from_secs(10);

/// How attempts are spaced: each waits twice as long as the one before. A connection that lasted longer than the
/// wait before it, or than 10 s, starts over at the first wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub max: Duration,
}

impl Default for Backoff {
    /// 1 s to 60 s.
    fn default() -> Self {
        Self { first: Duration::from_secs(1), max: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The wait after `failures` failures in a row (at least one), less up to a quarter, so that a thousand devices
    /// that went away together do not come back together.
    #[must_use]
    pub fn delay(&self, failures: u32, jitter: &mut Jitter) -> Duration {
        let doubled = self.first.saturating_mul(1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
        let full = doubled.min(self.max);
        full - full.mul_f64(jitter.next_unit() / 4.0)
    }
}

/// A small source of numbers that spreads attempts; not for secrets.
#[derive(Clone, Debug)]
pub struct Jitter(Random);

impl Jitter {
    /// Starts from `seed`: the same seed, the same numbers.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// The next number, at least 0 and below 1.
    pub fn next_unit(&mut self) -> f64 {
        let [a, b, c, d, ..] = self.0.number().to_be_bytes();
        f64::from(u32::from_be_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
    }
}

/// One attempt at one TCP connection, without delay (`TCP_NODELAY`), whatever is to go over it.
///
/// # Errors
/// No address, no answer within [`Target::timeout`], or a refusal; the last one where several addresses failed.
pub async fn connect(target: &Target) -> io::Result<TcpStream> {
    in_time(target, timeout(target.timeout, connect_tcp(target)).await)
}

/// One attempt at one connection, handshake included.
///
/// # Errors
/// No address, no answer within [`Target::timeout`], a refusal, a peer that is not trusted or does not trust us, a
/// line that cannot be had.
pub async fn open(target: &Target, counters: &Arc<Counters>) -> io::Result<Connection> {
    let kind = match &target.over {
        ConnectOver::Tcp => Kind::Tcp(connect(target).await?),
        // Boxed, so that the task of a TCP session does not hold room for what it never does.
        ConnectOver::Tls(over) => Box::pin(open_tls(target, over, counters)).await?,
        ConnectOver::Udp(over) => Box::pin(open_udp(target, over, counters)).await?,
        ConnectOver::Serial(over) => Kind::Serial(Box::new(SerialStream::open(&target.address, *over)?)),
    };
    Ok(Connection(kind))
}

async fn open_tls(target: &Target, over: &TlsConnect, counters: &Counters) -> io::Result<Kind> {
    let shaken = in_time(target, timeout(target.timeout, connect_tls(target, over)).await);
    count(&counters.tls_handshakes, &counters.tls_handshake_failures, shaken.is_ok());
    Ok(Kind::Tls(Box::new(shaken?)))
}

async fn open_udp(target: &Target, over: &UdpConnect, counters: &Arc<Counters>) -> io::Result<Kind> {
    let none = || io::Error::new(io::ErrorKind::NotFound, format!("no address for {}", target.address));
    let found = in_time(target, timeout(target.timeout, lookup_host(&target.address)).await)?;
    let address = found.into_iter().next().ok_or_else(none)?;
    Ok(Kind::Udp(Box::new(UdpStream::connect(address, over, target.marks, Arc::clone(counters)).await?)))
}

/// What an attempt came to, or that it took too long.
fn in_time<T>(target: &Target, attempt: Result<io::Result<T>, Elapsed>) -> io::Result<T> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {:?}", target.timeout));
    attempt.unwrap_or_else(|_| Err(late()))
}

async fn connect_tcp(target: &Target) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("no address for {}", target.address));
    for address in lookup_host(&target.address).await? {
        match connect_to(address, target).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect_tls(target: &Target, over: &TlsConnect) -> io::Result<TlsStream> {
    let host = target.address.rsplit_once(':').map_or(target.address.as_str(), |(host, _)| host);
    let name = over.name.as_deref().unwrap_or_else(|| host.trim_matches(['[', ']']));
    let mut stream = TlsStream::client(connect_tcp(target).await?, over.tls.config(), name)?;
    stream.handshake().await?;
    Ok(stream)
}

async fn connect_to(address: SocketAddr, target: &Target) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if let Some(bytes) = target.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = target.receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(marks) = &target.marks {
        marks.apply(&socket)?;
    }
    socket.set_nodelay(true)?;
    socket.connect(address).await
}

/// Connects, drives the session, and connects again, until [`Session::close`] is called. The machine lives on
/// through it all, and its deadlines and events are served between connections too. `seed` spreads the attempts of
/// many sessions.
pub async fn keep_connected<M: Machine, O: Owner<M>>(session: &Session<M>, target: &Target, seed: u64, owner: &mut O) {
    let mut jitter = Jitter::new(seed);
    let mut failures = 0;
    let mut delay = Duration::ZERO;
    loop {
        let shard = session.shard();
        let outcome = match session.idle(open(target, shard.counters()), owner).await {
            Err(_) => return,
            Ok(Ok(stream)) => {
                add(&shard.counters().connects, 1);
                let began = shard.now().mono;
                if session.run(stream, owner).await == Closed::Owner {
                    return;
                }
                if shard.now().mono.since(began) > delay.min(STEADY) {
                    failures = 0;
                }
                Ok(())
            }
            Ok(Err(error)) => Err(error),
        };
        failures += 1;
        delay = target.backoff.delay(failures, &mut jitter);
        if let Err(error) = outcome {
            failed(shard.counters(), target, &error, delay);
            owner.connect_failed(session, shard.now(), &error, delay);
        }
        if session.idle(tokio::time::sleep(delay), owner).await.is_err() {
            return;
        }
    }
}

fn failed(counters: &Counters, target: &Target, error: &io::Error, retry: Duration) {
    add(&counters.connect_failures, 1);
    tracing::debug!(address = %target.address, %error, retry_s = retry.as_secs_f64(), "connection failed");
}
