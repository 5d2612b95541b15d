//! The binary protocol's listening socket and its connections.

use crate::access::{Action, Client, digest};
use crate::link::{Link, SharedWrite};
use crate::metrics::Kind;
use crate::pool::{Job, Reply, Shared};
use crate::protocol::{self, Framed, Malformed, OVERHEAD_BYTES_MAX, Reason, Request, Response};
use crate::public_refusal::PublicRefusal;
use crate::work::{Operation, Pack, Unpack};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tieline_rsfn::{ErrorCode, HEADER_BYTES, TAG_BYTES, Treatment, Version};
use tieline_service::http::listen::shake;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a new connection may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;
/// A pause after the system refused a connection, as it does when descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections until the server closes, then until all their requests are answered.
pub async fn serve(listener: TcpListener, shared: Arc<Shared>, mut closing: watch::Receiver<bool>) {
    let mut links = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = closing.wait_for(|closing| *closing) => break,
        };
        while links.try_join_next().is_some() {}
        let Ok((stream, address)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if links.len() >= shared.config().connections_max {
            shared.metrics.connections_refused.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        links.spawn(connection(stream, address, Arc::clone(&shared), closing.clone()));
    }
    drop(listener);
    while links.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, address: SocketAddr, shared: Arc<Shared>, closing: watch::Receiver<bool>) {
    // An answer goes out at once; without this it may wait for the peer's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    shared.metrics.connections.fetch_add(1, Ordering::Relaxed);
    let tls = shared.config().tls.as_ref().map(|tls| tls.server());
    match tls {
        None => {
            let (read, write) = stream.into_split();
            let write = SharedWrite::new(write);
            converse(read, write.clone(), Link::over(write), address, &shared, closing).await;
        }
        Some(config) => {
            if let Some(stream) = shake(stream, address, config).await {
                let (read, write) = tokio::io::split(stream);
                converse(read, write, Link::default(), address, &shared, closing).await;
            }
        }
    }
    shared.metrics.connections.fetch_sub(1, Ordering::Relaxed);
}

async fn converse(
    read: impl AsyncRead + Unpin,
    write: impl AsyncWrite + Unpin,
    link: Link,
    address: SocketAddr,
    shared: &Shared,
    mut closing: watch::Receiver<bool>,
) {
    let link = Arc::new(link);
    let reader = async {
        let mut reader = Reader { read, buffer: Vec::new(), link: &link, shared, address, token: None };
        let ended = tokio::select! {
            ended = reader.run() => ended,
            _ = closing.wait_for(|closing| *closing) => {
                link.send(0, &Response::Closing);
                Ok(())
            }
        };
        if ended.is_err() {
            shared.metrics.malformed.fetch_add(1, Ordering::Relaxed);
        }
        link.end();
    };
    tokio::join!(reader, link.write_all(write));
}

/// The receiving half of a connection.
struct Reader<'a, R> {
    read: R,
    buffer: Vec<u8>,
    link: &'a Arc<Link>,
    shared: &'a Shared,
    address: SocketAddr,
    /// The digest of the token. The client is looked up at every request, so that who is removed from the
    /// configuration is refused at once.
    token: Option<[u8; 32]>,
}

impl<R: AsyncRead + Unpin> Reader<'_, R> {
    async fn run(&mut self) -> Result<(), Malformed> {
        let first = tokio::time::timeout(HELLO_TIMEOUT, self.hello()).await;
        if !first.unwrap_or(Err(Malformed))? {
            return Ok(());
        }
        loop {
            let config = self.shared.config();
            let bytes_max = usize::try_from(config.content_bytes_max).unwrap_or(usize::MAX);
            self.take_frames(bytes_max.saturating_add(OVERHEAD_BYTES_MAX))?;
            if !self.link.has_room(config.in_flight_max).await || !self.fill().await {
                return Ok(());
            }
        }
    }

    /// Reads the first frame, which is short; whether the client is known.
    async fn hello(&mut self) -> Result<bool, Malformed> {
        loop {
            if let Framed::Whole(frame, taken) = protocol::frame(&self.buffer, OVERHEAD_BYTES_MAX)? {
                let (id, Request::Hello { version, token }) = Request::parse(frame)? else { return Err(Malformed) };
                let token = digest(token);
                self.buffer.drain(..taken);
                return Ok(self.welcome(id, version, token));
            }
            if !self.fill().await {
                return Ok(false);
            }
        }
    }

    fn welcome(&mut self, id: u32, version: u8, token: [u8; 32]) -> bool {
        let config = self.shared.config();
        let refused = |reason, text| self.link.send(id, &Response::Refused { reason, code: 0, text });
        if version != protocol::VERSION {
            refused(Reason::Request, "only version 1 is spoken");
            return false;
        }
        if !config.clients.contains_key(&token) {
            refused(Reason::Right, "the token is unknown");
            return false;
        }
        self.token = Some(token);
        let (in_flight_max, content_bytes_max) = (config.in_flight_max, config.content_bytes_max);
        self.link.send(id, &Response::Welcome { version, in_flight_max, content_bytes_max });
        true
    }

    /// Reads more bytes; false at the end.
    async fn fill(&mut self) -> bool {
        if self.buffer.is_empty() && self.buffer.capacity() > 2 * READ_BYTES {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(READ_BYTES);
        matches!(self.read.read_buf(&mut self.buffer).await, Ok(1..))
    }

    /// All whole frames that were read; their operations enter the queue together.
    fn take_frames(&mut self, bytes_max: usize) -> Result<(), Malformed> {
        let config = self.shared.config();
        let client = self.token.and_then(|token| config.clients.get(&token));
        let (mut jobs, mut rest) = (Vec::new(), self.buffer.as_slice());
        while let Framed::Whole(frame, taken) = protocol::frame(rest, bytes_max)? {
            rest = rest.get(taken..).unwrap_or_default();
            let (id, request) = Request::parse(frame)?;
            let kind = kind_of(&request);
            match self.judge(request, client) {
                Ok(Some((operation, client))) => {
                    let (address, since) = (self.address, Instant::now());
                    let reply = Reply::Link(Arc::clone(self.link), id);
                    let job = Job { operation, client, address, reply, since };
                    self.link.begin(job.bytes());
                    jobs.push(job);
                }
                Ok(None) => {
                    let waiting = u32::try_from(self.shared.waiting()).unwrap_or(u32::MAX);
                    self.link.send(id, &Response::Pong { waiting });
                }
                Err(PublicRefusal { reason, code, text }) => {
                    if let Some(kind) = kind {
                        self.shared.metrics.turn_away(kind, reason);
                    }
                    self.link.send(id, &Response::Refused { reason, code: code.0, text: &text });
                }
            }
        }
        let left = rest.len();
        self.buffer.drain(..self.buffer.len() - left);
        self.shared.submit(jobs);
        Ok(())
    }

    /// The operation that is asked; none for a ping.
    fn judge(
        &self,
        request: Request<'_>,
        client: Option<&Arc<Client>>,
    ) -> Result<Option<(Operation, Arc<Client>)>, PublicRefusal> {
        let may = |action, domain| {
            client.filter(|client| client.may(action, domain)).cloned().ok_or_else(PublicRefusal::right)
        };
        match request {
            Request::Pack { domain, recipient, key_version, version, error, treatment, compress, content } => {
                let client = may(Action::Pack, domain)?;
                let pack = Pack {
                    domain: Arc::from(domain),
                    recipient,
                    key_version: (key_version > 0).then_some(key_version),
                    version: version_of(version)?,
                    treatment: treatment_of(treatment)?,
                    error: ErrorCode(error),
                    compress,
                    content: content.to_vec(),
                };
                Ok(Some((Operation::Pack(pack), client)))
            }
            Request::Unpack { domain, sender, inflate, message } => {
                let client = may(Action::Unpack, domain)?;
                let (domain, message) = (Arc::from(domain), message.to_vec());
                Ok(Some((Operation::Unpack(Unpack { domain, sender, inflate, message }), client)))
            }
            Request::Ping => Ok(None),
            Request::Hello { .. } => Err(PublicRefusal::new(Reason::Request, "hello comes once, at the beginning")),
        }
    }
}

const fn kind_of(request: &Request<'_>) -> Option<Kind> {
    match request {
        Request::Pack { .. } => Some(Kind::Pack),
        Request::Unpack { .. } => Some(Kind::Unpack),
        Request::Hello { .. } | Request::Ping => None,
    }
}

/// The version with a code.
///
/// # Errors
/// It is neither 2 nor 3.
pub fn version_of(code: u8) -> Result<Version, PublicRefusal> {
    match code {
        2 => Ok(Version::V2),
        3 => Ok(Version::V3),
        _ => Err(PublicRefusal::new(Reason::Request, format!("version {code}, expected 2 or 3"))),
    }
}

/// The treatment with a code.
///
/// # Errors
/// There is none.
pub fn treatment_of(code: u8) -> Result<Treatment, PublicRefusal> {
    let wrong = || PublicRefusal::new(Reason::Request, format!("treatment {code}, expected 0, 1, 2, 3, 4, 6, 8 or 10"));
    Treatment::from_code(code).ok_or_else(wrong)
}

// A frame has room for everything that surrounds content in a message.
const _: () = assert!(HEADER_BYTES + TAG_BYTES + 300 < OVERHEAD_BYTES_MAX);
