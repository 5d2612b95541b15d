//! Listening sockets: incoming connections within their limits.

use crate::connection::Kind;
use crate::counters::add;
use crate::tls::{HandshakeLimit, Tls, TlsStream};
use crate::udp::{Hub, UdpListen};
use crate::{Connection, Counters, Marks};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The wait after an accept that failed for want of something: the connection stays in the backlog, and without a
/// wait the loop would spin on it.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How a listener accepts.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// `host:port`; port 0 takes a free one.
    pub address: String,
    /// Connections at one time; beyond it a connection is counted, and closed at once or told why.
    pub sessions_max: usize,
    /// Connections beyond the limit that are handed out at one time, to be told why ([`Accepted::is_over`]); those that come
    /// while there are as many wait with the kernel. 0 closes all of them at once.
    pub refusals_max: usize,
    /// Counts its connections together with those of other listeners, where there are any.
    pub together: Option<Arc<Together>>,
    /// Connections that the kernel keeps for us.
    pub backlog: u32,
    /// Lets the listeners of several shards share one port; the kernel spreads connections over them.
    pub share_port: bool,
    /// Bytes of the kernel's send buffer of each connection.
    pub send_buffer: Option<u32>,
    /// Bytes of the kernel's receive buffer of each connection.
    pub receive_buffer: Option<u32>,
    /// How urgent each connection is; none leaves them unmarked.
    pub marks: Option<Marks>,
    /// What goes over the connections.
    pub over: ListenOver,
}

/// What a listener takes.
#[derive(Clone, Debug, Default)]
pub enum ListenOver {
    /// TCP connections.
    #[default]
    Tcp,
    /// TLS over TCP connections.
    Tls(TlsListen),
    /// Datagrams.
    Udp(UdpListen),
}

/// How a listener takes TLS connections.
#[derive(Clone, Debug)]
pub struct TlsListen {
    /// Who we are and whom we trust.
    pub tls: Arc<Tls>,
    /// How long a handshake may take, the wait for its turn included.
    pub timeout: Duration,
    /// Handshakes under way at one time; further ones wait.
    pub handshakes_max: usize,
}

impl TlsListen {
    /// 10 s a handshake, 32 at one time.
    #[must_use]
    pub const fn new(tls: Arc<Tls>) -> Self {
        Self { tls, timeout: Duration::from_secs(10), handshakes_max: 32 }
    }
}

impl ListenConfig {
    /// A listener at `address`: 4,096 sessions, a backlog of 1,024, kernel buffers of 64 KiB, the port not shared.
    #[must_use]
    pub fn new(address: impl Into<String>) -> Self {
        let buffer = Some(64 * 1024);
        Self {
            address: address.into(),
            sessions_max: 4096,
            refusals_max: 0,
            together: None,
            backlog: 1024,
            share_port: false,
            send_buffer: buffer,
            receive_buffer: buffer,
            over: ListenOver::Tcp,
            marks: None,
        }
    }
}

/// Connections of several listeners, no more than allowed.
#[derive(Debug)]
pub struct Together {
    sessions: AtomicUsize,
    sessions_max: usize,
}

impl Together {
    /// Up to `sessions_max` connections at one time.
    #[must_use]
    pub fn new(sessions_max: usize) -> Arc<Self> {
        Arc::new(Self { sessions: AtomicUsize::new(0), sessions_max })
    }

    /// How many there are.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }
}

/// A listening socket that counts its sessions.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    places: Places,
    /// Connections beyond the limit that may be told so; none where they are closed.
    refusals: Option<Arc<Semaphore>>,
    marks: Option<Marks>,
    counters: Arc<Counters>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Tls(TcpListener, Arc<Tls>, HandshakeLimit),
    Udp(Rc<Hub>),
}

/// An incoming connection, without delay (`TCP_NODELAY`).
#[derive(Debug)]
pub struct Accepted {
    /// The connection; a handshake is left to its session.
    pub stream: Connection,
    /// Who it is from.
    pub peer: SocketAddr,
    /// Its place in the count of sessions: keep it as long as the session lives.
    pub place: Place,
}

impl Accepted {
    /// Whether it is beyond the limit of sessions: it is to be told so, and closed.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.place.0, Taken::Refusal(_))
    }
}

/// The counts that a connection has to fit in.
#[derive(Clone, Debug)]
struct Places {
    own: Arc<Together>,
    all: Option<Arc<Together>>,
}

impl Places {
    /// Takes a place in each count, and says whether there was one.
    fn take(&self) -> (Place, bool) {
        let mut fits = true;
        for count in std::iter::once(&self.own).chain(&self.all) {
            fits &= count.sessions.fetch_add(1, Ordering::Relaxed) < count.sessions_max;
        }
        (Place(Taken::Session(self.clone())), fits)
    }
}

/// One place in a listener's count of sessions, or of refusals; dropped, it is free again.
#[derive(Debug)]
pub struct Place(Taken);

#[derive(Debug)]
enum Taken {
    Session(Places),
    Refusal(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit),
}

impl Drop for Place {
    fn drop(&mut self) {
        let Taken::Session(Places { own, all }) = &self.0 else { return };
        for count in std::iter::once(own).chain(all) {
            count.sessions.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Listener {
    /// Listens.
    ///
    /// # Errors
    /// The address is unknown, in use, or not ours to use.
    pub async fn bind(config: &ListenConfig, counters: Arc<Counters>) -> io::Result<Self> {
        let socket = match &config.over {
            ListenOver::Tcp => Socket::Tcp(bind_tcp(config).await?),
            ListenOver::Tls(TlsListen { tls, timeout, handshakes_max }) => {
                let (places, timeout) = (Arc::new(Semaphore::new(*handshakes_max)), *timeout);
                let handshakes = HandshakeLimit { places, timeout, counters: Arc::clone(&counters), config: None };
                Socket::Tls(bind_tcp(config).await?, Arc::clone(tls), handshakes)
            }
            ListenOver::Udp(udp) => Socket::Udp(Hub::bind(config, udp, Arc::clone(&counters)).await?),
        };
        let places = Places { own: Together::new(config.sessions_max), all: config.together.clone() };
        let refusals = (config.refusals_max > 0).then(|| Arc::new(Semaphore::new(config.refusals_max)));
        Ok(Self { socket, places, refusals, marks: config.marks, counters })
    }

    /// The address in use, with the port that was taken for 0.
    ///
    /// # Errors
    /// The system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.socket {
            Socket::Tcp(socket) | Socket::Tls(socket, ..) => socket.local_addr(),
            Socket::Udp(hub) => hub.local_addr(),
        }
    }

    /// How many sessions there are.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.places.own.sessions()
    }

    /// The next connection: one within the limit, or one beyond it that is to be told so, where there are any. Over
    /// UDP, datagrams of known peers reach their sessions only
    /// while this is waited for. Failures of the system (no file descriptors, no memory) are
    /// counted, warned of and waited out: they touch no session that exists.
    pub async fn accept(&self) -> Accepted {
        let (socket, tls) = match &self.socket {
            Socket::Tcp(socket) => (socket, None),
            Socket::Tls(socket, tls, handshakes) => (socket, Some((tls, handshakes))),
            Socket::Udp(hub) => {
                let (stream, peer) = hub.accept().await;
                // Its own limit is kept where its datagrams are sorted.
                let (place, _) = self.places.take();
                let stream = Connection(Kind::Udp(Box::new(stream)));
                return Accepted { stream, peer, place };
            }
        };
        loop {
            let (stream, peer, place) = self.accept_tcp(socket).await;
            match tls {
                None => return Accepted { stream: stream.into(), peer, place },
                Some((tls, handshakes)) => match TlsStream::server(stream, tls, handshakes.clone()) {
                    Ok(stream) => return Accepted { stream: Connection(Kind::Tls(Box::new(stream))), peer, place },
                    Err(error) => tracing::warn!(%error, "no TLS connection can be made"),
                },
            }
        }
    }

    async fn accept_tcp(&self, socket: &TcpListener) -> (TcpStream, SocketAddr, Place) {
        loop {
            match socket.accept().await {
                Ok((stream, peer)) => {
                    let Some(place) = self.place().await else {
                        add(&self.counters.accepts_refused, 1);
                        tracing::debug!(%peer, "connection refused: too many sessions");
                        continue;
                    };
                    // Marks of a listener are not all inherited.
                    let marked = self.marks.is_none_or(|marks| marks.apply(&stream).is_ok());
                    if stream.set_nodelay(true).is_ok() && marked {
                        let is_over = matches!(place.0, Taken::Refusal(_));
                        add(if is_over { &self.counters.accepts_refused } else { &self.counters.accepts }, 1);
                        return (stream, peer, place);
                    }
                }
                Err(error) if is_of_one_connection(&error) => add(&self.counters.accept_failures, 1),
                Err(error) => {
                    add(&self.counters.accept_failures, 1);
                    tracing::warn!(%error, "no connection can be accepted; existing ones go on");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

impl Listener {
    /// The place of one more connection; none where it is to be closed at once.
    async fn place(&self) -> Option<Place> {
        if let (place, true) = self.places.take() {
            return Some(place);
        }
        let refusal = Arc::clone(self.refusals.as_ref()?).acquire_owned().await.ok()?;
        // A session may have ended while it waited.
        let (place, fits) = self.places.take();
        Some(if fits { place } else { Place(Taken::Refusal(refusal)) })
    }
}

/// Whether the failure was about one connection that is gone already.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

async fn bind_tcp(config: &ListenConfig) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("no address for {}", config.address));
    for address in lookup_host(&config.address).await? {
        match listen_at(address, config) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn listen_at(address: SocketAddr, config: &ListenConfig) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    if config.share_port {
        socket.set_reuseport(true)?;
    }
    // Accepted sockets inherit the sizes of the listening one.
    if let Some(bytes) = config.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = config.receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(marks) = &config.marks {
        marks.apply(&socket)?;
    }
    socket.bind(address)?;
    socket.listen(config.backlog)
}
