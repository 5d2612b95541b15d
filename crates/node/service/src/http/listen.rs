//! Connections of HTTP, each in its [place](super::places). With TLS, handshakes go on beside each other, and one that
//! takes too long is given up.

use super::places::{Places, Slot};
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
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a handshake is made with, asked for each: files may have been renewed. None is plain TCP.
pub type TlsSource = Arc<dyn Fn() -> Option<Arc<ServerConfig>> + Send + Sync>;

/// What the first bytes of a connection are answered with where they are of another protocol; none where not.
pub type ForeignAnswer = Arc<dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync>;

/// A listener that gives each connection its place.
pub struct Limited {
    listener: TcpListener,
    places: Places,
    tls: Option<TlsSource>,
    foreign: Option<ForeignAnswer>,
    /// Those under way: as many as have places.
    handshakes: JoinSet<Option<(Connection, SocketAddr)>>,
}

impl Limited {
    /// Accepts from a listener.
    #[must_use]
    pub fn new(listener: TcpListener, places: Places) -> Self {
        Self { listener, places, tls: None, foreign: None, handshakes: JoinSet::new() }
    }

    /// The same with TLS. HTTP/2 is offered, and HTTP/1.1.
    #[must_use]
    pub fn with_tls(self, tls: TlsSource) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// The same, and who speaks another protocol is told so in it.
    #[must_use]
    pub fn with_foreign_answer(self, foreign: ForeignAnswer) -> Self {
        Self { foreign: Some(foreign), ..self }
    }
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let (stream, peer) = tokio::select! {
                Some(done) = self.handshakes.join_next() => match done {
                    Ok(Some(ready)) => return ready,
                    Ok(None) | Err(_) => continue,
                },
                accepted = Listener::accept(&mut self.listener) => accepted,
            };
            let slot = self.places.take(peer.ip());
            // Without this, answers in two writes wait for the peer's delayed acknowledgement.
            let _ = stream.set_nodelay(true);
            match self.tls.as_ref().and_then(|tls| tls()) {
                None => {
                    let foreign = self.foreign.clone();
                    return (Connection { stream: Stream::Plain(stream), foreign, slot }, peer);
                }
                Some(config) => drop(self.handshakes.spawn({
                    let foreign = self.foreign.clone();
                    async move {
                        let shaken = tokio::select! {
                            shaken = shake(stream, peer, config) => shaken?,
                            () = slot.closing() => return None,
                        };
                        Some((Connection { stream: Stream::Tls(Box::new(shaken)), foreign, slot }, peer))
                    }
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
pub struct Connection {
    stream: Stream,
    /// Until the first bytes have come.
    foreign: Option<ForeignAnswer>,
    slot: Slot,
}

impl Connection {
    /// Its place.
    #[must_use]
    pub const fn slot(&self) -> &Slot {
        &self.slot
    }

    /// The certificate that the peer has shown, where it was asked for one.
    #[must_use]
    pub fn certificate(&self) -> Option<ShownCertificate> {
        match &self.stream {
            Stream::Plain(_) => None,
            Stream::Tls(stream) => ShownCertificate::read(stream.get_ref().1.peer_certificates()?.first()?),
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("stream", &self.stream).finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Hands a call to whichever stream there is.
macro_rules! either {
    ($self:expr, $stream:ident => $call:expr) => {
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
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let done = either!(self.as_mut(), stream => stream.poll_read(cx, out));
        let came = out.filled().get(before..).unwrap_or_default();
        if came.is_empty() {
            return done;
        }
        let Some(answer) = self.foreign.take().and_then(|foreign| foreign(came)) else { return done };
        // It fits into the empty buffer of the socket; who does not get it is closed on all the same.
        let _ = self.as_mut().poll_write(cx, &answer);
        let _ = self.as_mut().poll_flush(cx);
        tracing::info!("a client of another protocol came to the HTTP address, and was told so");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "another protocol than HTTP")))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(cx, bytes))
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
