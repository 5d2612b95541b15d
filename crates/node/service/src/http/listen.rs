//! Connections of HTTP, no more than allowed: those of other protocols need file descriptors too. With TLS, handshakes go
//! on beside each other, and one that takes too long is given up.

use axum::serve::Listener;
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tieline_net::tls::ShownCertificate;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Connections that are served at one time; one more waits here and the next ones in the kernel.
const CONNECTIONS_MAX: usize = 1024;
/// How long a handshake may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The places for connections.
#[derive(Clone, Debug)]
pub struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Self::new()
    }
}

impl Places {
    /// All free.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(CONNECTIONS_MAX)))
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        CONNECTIONS_MAX.saturating_sub(self.0.available_permits())
    }
}

/// What a handshake is made with, asked for each: files may have been renewed. None is plain TCP.
pub type TlsSource = Arc<dyn Fn() -> Option<Arc<ServerConfig>> + Send + Sync>;

/// A listener that accepts while there are places.
pub struct Limited {
    listener: TcpListener,
    places: Places,
    tls: Option<TlsSource>,
    /// Those under way: as many as have places.
    handshakes: JoinSet<Option<(Connection, SocketAddr)>>,
}

impl Limited {
    /// Accepts from a listener.
    #[must_use]
    pub fn new(listener: TcpListener, places: Places) -> Self {
        Self { listener, places, tls: None, handshakes: JoinSet::new() }
    }

    /// The same with TLS. HTTP/2 is offered, and HTTP/1.1.
    #[must_use]
    pub fn with_tls(self, tls: TlsSource) -> Self {
        Self { tls: Some(tls), ..self }
    }
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let (listener, places) = (&mut self.listener, &self.places.0);
            let has_room = places.available_permits() > 0;
            let (stream, peer) = tokio::select! {
                Some(done) = self.handshakes.join_next() => match done {
                    Ok(Some(ready)) => return ready,
                    Ok(None) | Err(_) => continue,
                },
                _ = places.acquire(), if !has_room => continue,
                accepted = Listener::accept(listener), if has_room => accepted,
            };
            // Nobody closes the semaphore.
            let place = Arc::clone(places).acquire_owned().await.ok();
            // Without this, answers in two writes wait for the peer's delayed acknowledgement.
            let _ = stream.set_nodelay(true);
            match self.tls.as_ref().and_then(|tls| tls()) {
                None => return (Connection { stream: Stream::Plain(stream), _place: place }, peer),
                Some(config) => drop(self.handshakes.spawn(async move {
                    let stream = Stream::Tls(Box::new(shake(stream, peer, config).await?));
                    Some((Connection { stream, _place: place }, peer))
                })),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The server's side of a handshake; none when it failed, which is logged.
pub async fn shake(stream: TcpStream, peer: SocketAddr, config: Arc<ServerConfig>) -> Option<TlsStream<TcpStream>> {
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::info!(%peer, %error, "TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::info!(%peer, "TLS handshake took too long");
            None
        }
    }
}

/// A connection with its place.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    _place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// The certificate that the peer has shown, where it was asked for one.
    #[must_use]
    pub fn certificate(&self) -> Option<ShownCertificate> {
        match &self.stream {
            Stream::Plain(_) => None,
            Stream::Tls(stream) => ShownCertificate::read(stream.get_ref().1.peer_certificates()?.first()?),
        }
    }
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Hands a call to whichever stream there is.
macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut $self.get_mut().stream {
            Stream::Plain(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            Stream::Tls(stream) => {
                let $stream = Pin::new(&mut **stream);
                $call
            }
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read(cx, out))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(cx, octets))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_vectored(cx, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(cx))
    }
}
