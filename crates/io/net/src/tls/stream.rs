//! One TLS connection over TCP: records in, records out, one write a message.

use super::{ShownCertificate, Tls};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection as Records, ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Bytes that may wait inside the record layer, in each form; more stay with the session.
const RECORDS_BYTES_MAX: usize = 64 * 1024;

/// How long a handshake that waits for its peer keeps its place: who says nothing must not keep others out.
const PLACE_HELD: Duration = Duration::from_millis(200);

/// A TLS connection whose handshake may still have to be done.
#[derive(Debug)]
pub(crate) struct TlsStream {
    socket: TcpStream,
    records: Records,
    handshakes: Option<HandshakeLimit>,
    /// The handshake is over: an end is a goodbye.
    established: bool,
}

/// What a handshake must pass at a listener.
#[derive(Clone, Debug)]
pub(crate) struct HandshakeLimit {
    /// How many handshakes may be at work at one time.
    pub(crate) places: Arc<Semaphore>,
    /// How long one may take, the wait for its place included.
    pub(crate) timeout: Duration,
    pub(crate) counters: Arc<crate::Counters>,
    /// Who we are, and whom we trust, from the moment that a connection came.
    pub(crate) config: Option<Arc<ServerConfig>>,
}

/// A TLS connection whose handshake is to be done by another thread.
#[derive(Debug)]
pub(crate) struct DetachedTls {
    socket: std::net::TcpStream,
    config: Arc<ServerConfig>,
    handshakes: HandshakeLimit,
}

impl DetachedTls {
    /// The connection, on the present thread.
    pub(crate) fn attach(self) -> io::Result<TlsStream> {
        TlsStream::serve(TcpStream::from_std(self.socket)?, self.config, self.handshakes)
    }
}

impl TlsStream {
    /// What goes over TCP before the handshake.
    pub(crate) const fn socket_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// The client's side. `name` is what the peer's certificate must be for.
    pub(crate) fn client(socket: TcpStream, config: Arc<ClientConfig>, name: &str) -> io::Result<Self> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no name of a host")))?;
        let records = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Self::new(socket, records.into(), None))
    }

    /// The server's side.
    pub(crate) fn server(socket: TcpStream, tls: &Tls, handshakes: HandshakeLimit) -> io::Result<Self> {
        Self::serve(socket, tls.server(), handshakes)
    }

    fn serve(socket: TcpStream, config: Arc<ServerConfig>, handshakes: HandshakeLimit) -> io::Result<Self> {
        let records = ServerConnection::new(Arc::clone(&config)).map_err(io::Error::other)?;
        let handshakes = HandshakeLimit { config: Some(config), ..handshakes };
        Ok(Self::new(socket, records.into(), Some(handshakes)))
    }

    /// What another thread needs to do the handshake; none where it is over, or is a client's.
    pub(crate) fn detach(&self) -> io::Result<Option<DetachedTls>> {
        let Some((handshakes, config)) =
            self.handshakes.as_ref().and_then(|handshakes| Some((handshakes.clone(), handshakes.config.clone()?)))
        else {
            return Ok(None);
        };
        if self.established {
            return Ok(None);
        }
        let socket = self.socket.as_fd().try_clone_to_owned()?.into();
        Ok(Some(DetachedTls { socket, config, handshakes }))
    }

    fn new(socket: TcpStream, mut records: Records, handshakes: Option<HandshakeLimit>) -> Self {
        records.set_buffer_limit(Some(RECORDS_BYTES_MAX));
        Self { socket, records, handshakes, established: false }
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// What the peer has shown in the handshake, if anything.
    pub(crate) fn certificate(&self) -> Option<ShownCertificate> {
        ShownCertificate::read(self.records.peer_certificates()?.first()?)
    }

    pub(crate) const fn is_established(&self) -> bool {
        self.established
    }

    /// The handshake, within the listener's limits.
    pub(crate) async fn handshake(&mut self) -> io::Result<()> {
        let Some(handshakes) = self.handshakes.take() else { return self.shake().await };
        let shaken = async {
            // A peer that has sent nothing takes no place.
            self.socket.readable().await?;
            // Never closed: the listener holds it as long as it gives connections.
            let place = handshakes.places.acquire().await;
            match tokio::time::timeout(PLACE_HELD, self.shake()).await {
                Ok(shaken) => shaken,
                Err(_) => {
                    drop(place);
                    self.shake().await
                }
            }
        };
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no handshake within {:?}", handshakes.timeout));
        let result = tokio::time::timeout(handshakes.timeout, shaken).await.unwrap_or_else(|_| Err(late()));
        if let Err(error) = &result {
            let peer = self.socket.peer_addr().map_or_else(|_| "gone".to_owned(), |peer| peer.to_string());
            tracing::info!(peer, %error, "TLS handshake failed");
        }
        count(&handshakes.counters.tls_handshakes, &handshakes.counters.tls_handshake_failures, result.is_ok());
        result
    }

    async fn shake(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| {
            while self.records.is_handshaking() || self.records.wants_write() {
                while self.records.wants_write() {
                    ready!(self.socket.poll_write_ready(cx))?;
                    match self.flush() {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        other => other?,
                    }
                }
                if self.records.is_handshaking() && ready!(self.receive(cx))? == 0 {
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::UnexpectedEof)));
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        self.established = true;
        Ok(())
    }

    /// Plain bytes; none is the end.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.records.reader().read(out.initialize_unfilled()) {
                Ok(count) => {
                    out.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Many peers close without a goodbye; the protocols above notice what was cut.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(self.receive(cx))?;
        }
    }

    /// One read of records, deciphered; returns how many bytes came.
    fn receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut source = Source { socket: &mut self.socket, cx };
        let count = match self.records.read_tls(&mut source) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            other => other?,
        };
        if let Err(error) = self.records.process_new_packets() {
            // The peer should learn why; whether it does is its luck.
            let _ = self.flush();
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(count))
    }

    /// Says goodbye and ends our side; the peer's goes on.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.established) {
            self.records.send_close_notify();
        }
        while self.records.wants_write() {
            ready!(self.socket.poll_write_ready(cx))?;
            match self.flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => other?,
            }
        }
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    /// Reads records as they came: nobody looks at them.
    pub(crate) fn poll_discard(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_write_ready(cx)
    }

    /// Enciphers and sends; returns how many plain bytes were taken.
    pub(crate) fn offer(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = if bytes.is_empty() { 0 } else { self.records.writer().write(bytes)? };
        match self.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && taken > 0 => Ok(taken),
            other => other.map(|()| taken),
        }
    }

    pub(crate) fn is_flushed(&self) -> bool {
        !self.records.wants_write()
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.records.wants_write() {
            self.records.write_tls(&mut Sink(&self.socket))?;
        }
        Ok(())
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        if self.established {
            self.records.send_close_notify();
            let _ = self.flush();
        }
    }
}

/// Counts one handshake.
pub(crate) fn count(good: &AtomicU64, bad: &AtomicU64, succeeded: bool) {
    crate::counters::add(if succeeded { good } else { bad }, 1);
}

struct Source<'a, 'c> {
    socket: &'a mut TcpStream,
    cx: &'a mut Context<'c>,
}

impl Read for Source<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        match Pin::new(&mut *self.socket).poll_read(self.cx, &mut buffer) {
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
            Poll::Ready(result) => result.map(|()| buffer.filled().len()),
        }
    }
}

struct Sink<'a>(&'a TcpStream);

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
