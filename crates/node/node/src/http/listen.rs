//! Connections of HTTP, no more than allowed: those of devices and of MQTT need file descriptors too.

use axum::serve::Listener;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections that are served at one time; one more waits here and the next ones in the kernel.
const CONNECTIONS_MAX: usize = 1024;

/// The places for connections.
#[derive(Clone, Debug)]
pub struct Places(Arc<Semaphore>);

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

/// A listener that accepts while there are places.
#[derive(Debug)]
pub struct Limited {
    listener: TcpListener,
    places: Places,
}

impl Limited {
    /// Accepts from a listener.
    #[must_use]
    pub const fn new(listener: TcpListener, places: Places) -> Self {
        Self { listener, places }
    }
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        // Nobody closes the semaphore.
        let place = Arc::clone(&self.places.0).acquire_owned().await.ok();
        // Without this, answers in two writes wait for the peer's delayed acknowledgement.
        let _ = stream.set_nodelay(true);
        (Connection { stream, _place: place }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection with its place.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    _place: Option<OwnedSemaphorePermit>,
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, out)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
