//! One connection to one server.

use super::{Member, Unpacked};
use crate::protocol::{self, Framed, Malformed, OVERHEAD_BYTES_MAX, Reason, Request, Response};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;
/// How long to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pauses between attempts to connect, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// What a server answered.
#[derive(Debug)]
pub(super) enum Answer {
    Packed(Vec<u8>),
    Unpacked(Unpacked),
    Refused { reason: Reason, code: u8, text: String },
}

/// Requests on their way out, and those that wait for an answer.
#[derive(Default)]
pub(super) struct Connection {
    state: Mutex<State>,
    /// There is something to write, or the end.
    wake: Notify,
}

#[derive(Default)]
struct State {
    out: Vec<u8>,
    waiting: HashMap<u32, oneshot::Sender<Answer>>,
    next: u32,
    in_flight_max: usize,
    /// No new request is taken.
    closed: bool,
}

impl Connection {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests wait for an answer; none when no more are taken.
    pub(super) fn load(&self) -> Option<u64> {
        let state = self.lock();
        (!state.closed && state.waiting.len() < state.in_flight_max).then_some(state.waiting.len() as u64)
    }

    /// Asks, and waits for the answer; none when the connection was lost.
    pub(super) async fn ask(&self, request: &Request<'_>) -> Option<Answer> {
        let answer = {
            let mut state = self.lock();
            if state.closed {
                return None;
            }
            let (sender, answer) = oneshot::channel();
            // 0 is the id of what nobody asked.
            state.next = state.next.checked_add(1).unwrap_or(1);
            let id = state.next;
            request.emit(id, &mut state.out);
            state.waiting.insert(id, sender);
            answer
        };
        self.wake.notify_one();
        answer.await.ok()
    }

    /// No new requests; those that wait are kept.
    fn close(&self) {
        self.lock().closed = true;
    }

    /// Tells the callers that wait that no answer comes.
    fn fail(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.waiting.clear();
        drop(state);
        self.wake.notify_one();
    }

    async fn write_all(&self, mut stream: impl AsyncWrite + Unpin, health_every: Duration) {
        let mut out = Vec::new();
        let mut health = tokio::time::interval(health_every);
        loop {
            std::mem::swap(&mut self.lock().out, &mut out);
            if !out.is_empty() {
                if stream.write_all(&out).await.is_err() {
                    return;
                }
                out.clear();
                continue;
            }
            tokio::select! {
                () = self.wake.notified() => {}
                _ = health.tick() => Request::Ping.emit(0, &mut self.lock().out),
            }
        }
    }

    /// Reads answers until the connection ends, or nothing comes for `silence_max`.
    async fn read_all(&self, read: &mut (impl AsyncRead + Unpin), silence_max: Duration) -> Result<(), Malformed> {
        let mut buffer = Vec::new();
        loop {
            let mut rest = buffer.as_slice();
            while let Framed::Whole(frame, taken) = protocol::frame(rest, usize::MAX)? {
                rest = rest.get(taken..).unwrap_or_default();
                self.take(frame)?;
            }
            let left = rest.len();
            buffer.drain(..buffer.len() - left);
            buffer.reserve(READ_BYTES);
            match tokio::time::timeout(silence_max, read.read_buf(&mut buffer)).await {
                Ok(Ok(1..)) => {}
                Ok(Ok(0) | Err(_)) | Err(_) => return Ok(()),
            }
        }
    }

    fn take(&self, frame: &[u8]) -> Result<(), Malformed> {
        let (id, response) = Response::parse(frame)?;
        let answer = match response {
            Response::Packed { message } => Answer::Packed(message.to_vec()),
            Response::Unpacked { sender, error, treatment, content } => {
                Answer::Unpacked(Unpacked { sender, error, treatment, content: content.to_vec() })
            }
            Response::Refused { reason, code, text } => Answer::Refused { reason, code, text: text.to_owned() },
            Response::Closing => {
                self.close();
                return Ok(());
            }
            Response::Pong { .. } | Response::Welcome { .. } => return Ok(()),
        };
        let asked = self.lock().waiting.remove(&id);
        // The caller may have given up.
        if let Some(sender) = asked {
            drop(sender.send(answer));
        }
        Ok(())
    }
}

/// A connection, with TLS or without.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// Connects, serves, and connects again, until it is dropped.
pub(super) async fn keep(
    member: &Member,
    address: &str,
    token: &str,
    tls: Option<&Arc<ClientConfig>>,
    health_every: Duration,
) {
    let mut pause = PAUSE.0;
    loop {
        match tokio::time::timeout(CONNECT_TIMEOUT, connect(address, token, tls)).await {
            Ok(Ok((stream, in_flight_max))) => {
                pause = PAUSE.0;
                serve(member, stream, in_flight_max, health_every).await;
                tracing::info!(address, "the connection to a seal server ended");
            }
            Ok(Err(error)) => tracing::debug!(address, %error, "a seal server cannot be reached"),
            Err(_) => tracing::debug!(address, "a seal server does not answer"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

async fn serve(member: &Member, stream: Box<dyn Duplex>, in_flight_max: usize, health_every: Duration) {
    let (mut read, write) = tokio::io::split(stream);
    let connection = Arc::new(Connection::default());
    connection.lock().in_flight_max = in_flight_max;
    member.set(Some(Arc::clone(&connection)));
    let started = Instant::now();
    tokio::select! {
        () = connection.write_all(write, health_every) => {}
        ended = connection.read_all(&mut read, health_every * 3) => if ended.is_err() {
            tracing::warn!("a seal server broke the protocol");
        },
    }
    member.set(None);
    connection.fail();
    tracing::debug!(seconds = started.elapsed().as_secs(), "disconnected");
}

/// Connects and says who it is; the stream, and how many requests may wait.
async fn connect(
    address: &str,
    token: &str,
    tls: Option<&Arc<ClientConfig>>,
) -> std::io::Result<(Box<dyn Duplex>, usize)> {
    let broken = || std::io::Error::other("the server broke the protocol");
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut stream: Box<dyn Duplex> = match tls {
        None => Box::new(stream),
        Some(tls) => {
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
            let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
            Box::new(TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?)
        }
    };
    let mut out = Vec::new();
    Request::Hello { version: protocol::VERSION, token }.emit(0, &mut out);
    stream.write_all(&out).await?;
    let length = stream.read_u32().await?;
    let length = usize::try_from(length).ok().filter(|&length| length <= OVERHEAD_BYTES_MAX).ok_or_else(broken)?;
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await?;
    match Response::parse(&frame) {
        Ok((_, Response::Welcome { in_flight_max, .. })) => {
            Ok((stream, usize::try_from(in_flight_max).unwrap_or(usize::MAX)))
        }
        Ok((_, Response::Refused { text, .. })) => Err(std::io::Error::other(text.to_owned())),
        Ok(_) | Err(Malformed) => Err(broken()),
    }
}
