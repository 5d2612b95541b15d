//! One connection of any kind, as a session uses it: reads that wait, writes that never do.

use crate::Closed;
use crate::serial::SerialStream;
use crate::sockets::{Remote, Stalled};
use crate::tls::{DetachedTls, ShownCertificate, TlsStream};
use crate::udp::UdpStream;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tieline_core::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// One connection: TCP, TLS, the datagrams of one UDP peer, a serial line, or one whose socket another thread has. A plain TCP connection owns no heap;
/// what the others need is boxed.
#[derive(Debug)]
pub struct Connection(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
    Udp(Box<UdpStream>),
    Serial(Box<SerialStream>),
    Carried(Box<dyn Carrier>),
    Remote(Remote),
}

/// A connection on its way to another thread.
#[derive(Debug)]
pub(crate) enum Detached {
    Tcp(std::net::TcpStream),
    Tls(DetachedTls),
    Carried(Box<dyn Carrier>),
}

impl Detached {
    /// The connection, on the present thread.
    pub(crate) fn attach(self) -> io::Result<Connection> {
        Ok(Connection(match self {
            Self::Tcp(socket) => Kind::Tcp(TcpStream::from_std(socket)?),
            Self::Tls(stream) => Kind::Tls(Box::new(stream.attach()?)),
            Self::Carried(carrier) => Kind::Carried(carrier),
        }))
    }
}

/// A connection that this crate does not make: of a network that an owner has by itself, such as one in virtual time.
pub trait Carrier: fmt::Debug + Send {
    /// Reads what is there; nothing read is the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;

    /// Waits until [`Carrier::offer`] may take more.
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Takes bytes at once, and returns how many.
    ///
    /// # Errors
    /// It is gone, or takes none at the moment ([`io::ErrorKind::WouldBlock`]).
    fn offer(&mut self, bytes: &[u8]) -> io::Result<usize>;
}

impl From<TcpStream> for Box<Connection> {
    fn from(stream: TcpStream) -> Self {
        Self::new(stream.into())
    }
}

impl From<Box<dyn Carrier>> for Connection {
    fn from(carrier: Box<dyn Carrier>) -> Self {
        Self(Kind::Carried(carrier))
    }
}

impl From<TcpStream> for Connection {
    fn from(stream: TcpStream) -> Self {
        Self(Kind::Tcp(stream))
    }
}

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// An address of the network.
    Address(SocketAddr),
    /// The device file of a serial line.
    Line(Rc<str>),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Line(path) => f.write_str(path),
        }
    }
}

impl Connection {
    /// Lets go of the socket, for another thread; a connection of a kind that stays with its thread comes back.
    pub(crate) fn detach(self) -> io::Result<Result<Detached, Self>> {
        Ok(match self.0 {
            Kind::Tcp(stream) => Ok(Detached::Tcp(stream.into_std()?)),
            Kind::Tls(stream) => match stream.detach()? {
                Some(detached) => Ok(Detached::Tls(detached)),
                None => Err(Self(Kind::Tls(stream))),
            },
            Kind::Carried(carrier) => Ok(Detached::Carried(carrier)),
            kind @ (Kind::Udp(_) | Kind::Serial(_) | Kind::Remote(_)) => Err(Self(kind)),
        })
    }

    /// Whether all that was taken has left this process again, since somebody has seen that it had not.
    pub(crate) fn is_clear_again(&self) -> bool {
        matches!(&self.0, Kind::Remote(remote) if remote.is_clear_again())
    }

    /// Whether another thread has the socket.
    pub(crate) const fn is_remote(&self) -> bool {
        matches!(self.0, Kind::Remote(_))
    }

    /// The connection where another thread has the socket.
    pub(crate) const fn remote(&self) -> Option<&Remote> {
        match &self.0 {
            Kind::Remote(remote) => Some(remote),
            Kind::Tcp(_) | Kind::Tls(_) | Kind::Udp(_) | Kind::Serial(_) | Kind::Carried(_) => None,
        }
    }

    /// What is written next goes before what waits for other connections, where another thread has the socket.
    pub(crate) fn mark_urgent(&self) {
        if let Kind::Remote(remote) = &self.0 {
            remote.mark_urgent();
        }
    }

    /// Lets the thread that has the socket end it; the connection where that is this thread.
    pub(crate) fn part_elsewhere(self, patience: Duration) -> Option<Self> {
        match self.0 {
            Kind::Remote(remote) => {
                remote.end(patience);
                None
            }
            _ => Some(self),
        }
    }

    /// Who is at the other end.
    #[must_use]
    pub fn peer(&self) -> Peer {
        let unknown = || SocketAddr::from(([0, 0, 0, 0], 0));
        match &self.0 {
            Kind::Tcp(stream) => Peer::Address(stream.peer_addr().unwrap_or_else(|_| unknown())),
            Kind::Tls(stream) => Peer::Address(stream.peer_addr().unwrap_or_else(|_| unknown())),
            Kind::Udp(stream) => Peer::Address(stream.peer_addr().unwrap_or_else(|_| unknown())),
            Kind::Serial(stream) => Peer::Line(stream.path()),
            Kind::Carried(_) => Peer::Address(unknown()),
            Kind::Remote(remote) => remote.peer(),
        }
    }

    /// The certificate that the peer has shown, where it was asked for one.
    pub(crate) fn certificate(&self) -> Option<ShownCertificate> {
        match &self.0 {
            Kind::Tls(stream) => stream.certificate(),
            Kind::Remote(remote) => remote.certificate(),
            Kind::Tcp(_) | Kind::Udp(_) | Kind::Serial(_) | Kind::Carried(_) => None,
        }
    }

    /// Reads who is behind a proxy, which says so before anything else ([`crate::read_header`]); none where it speaks for itself.
    ///
    /// # Errors
    /// It says something else, or nothing in time.
    pub async fn read_proxied(&mut self, within: Duration) -> io::Result<Option<SocketAddr>> {
        let socket = match &mut self.0 {
            Kind::Tcp(stream) => stream,
            Kind::Tls(stream) => stream.socket_mut(),
            Kind::Udp(_) | Kind::Serial(_) | Kind::Carried(_) | Kind::Remote(_) => return Ok(None),
        };
        tokio::time::timeout(within, crate::read_header(socket))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// The TCP connection, where it is one and nothing more.
    #[must_use]
    pub fn into_tcp(self) -> Option<TcpStream> {
        match self.0 {
            Kind::Tcp(stream) => Some(stream),
            Kind::Tls(_) | Kind::Udp(_) | Kind::Serial(_) | Kind::Carried(_) | Kind::Remote(_) => None,
        }
    }

    /// What must come before the first byte of a session: the handshake of TLS, where it was not done yet. Its error
    /// says that the peer is not who it must be, or we are not for it; that it does not speak TLS; or took too long.
    pub(crate) fn handshake(&mut self) -> Option<Pin<Box<dyn Future<Output = io::Result<()>> + '_>>> {
        match &mut self.0 {
            Kind::Tls(stream) => (!stream.is_established()).then(|| Box::pin(stream.handshake()) as _),
            Kind::Remote(remote) => (!remote.is_established()).then(|| Box::pin(remote.established()) as _),
            Kind::Tcp(_) | Kind::Udp(_) | Kind::Serial(_) | Kind::Carried(_) => None,
        }
    }

    /// Reads what is there; nothing read is the end.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Kind::Tls(stream) => stream.poll_read(cx, buffer),
            Kind::Udp(stream) => stream.poll_read(cx, buffer),
            Kind::Serial(stream) => stream.poll_read(cx, buffer),
            Kind::Carried(carrier) => carrier.poll_read(cx, buffer),
            Kind::Remote(remote) => remote.poll_read(cx, buffer),
        }
    }

    /// Whether its two sides end one by one.
    pub(crate) const fn can_part(&self) -> bool {
        matches!(self.0, Kind::Tcp(_) | Kind::Tls(_) | Kind::Remote(_))
    }

    /// Ends our side; the peer's goes on.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Kind::Tls(stream) => stream.poll_end(cx),
            Kind::Udp(_) | Kind::Serial(_) | Kind::Carried(_) | Kind::Remote(_) => Poll::Ready(Ok(())),
        }
    }

    /// Reads what is there, to be thrown away; nothing read is the end.
    pub(crate) fn poll_discard(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Kind::Tls(stream) => stream.poll_discard(cx, buffer),
            Kind::Udp(_) | Kind::Serial(_) | Kind::Carried(_) | Kind::Remote(_) => Poll::Ready(Ok(())),
        }
    }

    /// Waits until [`Connection::offer`] may take more.
    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.0 {
            Kind::Tcp(stream) => stream.poll_write_ready(cx),
            Kind::Tls(stream) => stream.poll_write_ready(cx),
            Kind::Udp(stream) => stream.poll_write_ready(cx),
            Kind::Serial(stream) => stream.poll_write_ready(cx),
            Kind::Carried(carrier) => carrier.poll_write_ready(cx),
            Kind::Remote(remote) => remote.poll_write_ready(cx),
        }
    }

    /// Takes bytes at once, without waiting, and returns how many; also sends what the connection itself holds back.
    /// None: nothing moved.
    pub(crate) fn offer(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let offered = match &mut self.0 {
            Kind::Tcp(stream) => stream.try_write(bytes),
            Kind::Tls(stream) => stream.offer(bytes),
            Kind::Udp(stream) => stream.offer(bytes),
            Kind::Serial(stream) => stream.offer(bytes),
            Kind::Carried(carrier) => carrier.offer(bytes),
            Kind::Remote(remote) => remote.offer(bytes),
        };
        match offered {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Whether all that was taken has left this process.
    pub(crate) fn is_flushed(&self) -> bool {
        match &self.0 {
            Kind::Tls(stream) => stream.is_flushed(),
            Kind::Remote(remote) => remote.is_clear(),
            Kind::Tcp(_) | Kind::Udp(_) | Kind::Serial(_) | Kind::Carried(_) => true,
        }
    }

    /// Bytes came, at `now`.
    pub(crate) fn heard(&mut self, now: Instant) {
        match &mut self.0 {
            Kind::Udp(stream) => stream.heard(now),
            Kind::Serial(stream) => stream.moved(0, now),
            Kind::Tcp(_) | Kind::Tls(_) | Kind::Carried(_) | Kind::Remote(_) => {}
        }
    }

    /// Bytes went, at `now`.
    pub(crate) fn sent(&mut self, bytes: usize, now: Instant) {
        if let Kind::Serial(stream) = &mut self.0 {
            stream.moved(bytes, now);
        }
    }

    /// Messages that may go out in one write.
    pub(crate) fn messages_max(&self) -> usize {
        match &self.0 {
            Kind::Serial(stream) if stream.has_gap() => 1,
            Kind::Tcp(_) | Kind::Tls(_) | Kind::Udp(_) | Kind::Serial(_) | Kind::Carried(_) | Kind::Remote(_) => {
                usize::MAX
            }
        }
    }

    /// When the next message may go; none at once.
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        match &self.0 {
            Kind::Serial(stream) => stream.rests_until(),
            Kind::Tcp(_) | Kind::Tls(_) | Kind::Udp(_) | Kind::Carried(_) | Kind::Remote(_) => None,
        }
    }

    /// When a peer without connection counts as gone unless it is heard.
    pub(crate) fn silent_at(&self) -> Option<Instant> {
        match &self.0 {
            Kind::Udp(stream) => stream.silent_at(),
            Kind::Tcp(_) | Kind::Tls(_) | Kind::Serial(_) | Kind::Carried(_) | Kind::Remote(_) => None,
        }
    }

    /// What happens next unless bytes move: the rest is over, or the peer is gone.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.0 {
            Kind::Udp(stream) => stream.silent_at(),
            Kind::Serial(stream) => stream.rests_until(),
            Kind::Tcp(_) | Kind::Tls(_) | Kind::Carried(_) | Kind::Remote(_) => None,
        }
    }

    /// The rest before the next message is over.
    pub(crate) fn end_rest(&mut self) {
        if let Kind::Serial(stream) = &mut self.0 {
            stream.end_rest();
        }
    }
}

/// Why a connection ends that failed so.
pub(crate) fn closed_by(error: &io::Error) -> Closed {
    if error.get_ref().is_some_and(|inner| inner.is::<Stalled>()) {
        return Closed::Slow;
    }
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::AlertReceived(alert)) => Closed::Tls(alert.as_str().unwrap_or("an unknown alert")),
        Some(_) => Closed::Tls("what came cannot be deciphered"),
        None => Closed::Io(error.kind()),
    }
}
