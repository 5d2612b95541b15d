//! Datagrams: whole messages to and from one peer, with nothing between them that could be connected or closed.
//!
//! ```text
//!                     ┌─ peer A's inbox ─ UdpStream ─ Session
//! one socket ─ accept ┼─ peer B's inbox ─ UdpStream ─ Session        a listener: a session a peer
//!                     └─ a peer that is not known yet ─▶ Accepted
//!
//! one socket, connected ─ UdpStream ─ Session                        a client: the kernel drops what others send
//! ```

use crate::counters::add;
use crate::{Counters, ListenConfig, Marks};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tieline_core::Instant;
use tokio::io::ReadBuf;
use tokio::net::{UdpSocket, lookup_host};

/// Datagrams that may wait for one peer's session; the next is dropped and counted, as the network might drop it.
const INBOX_MAX: usize = 32;
/// Datagrams that one wake looks at before others have their turn.
const READS_MAX: usize = 64;
/// Bytes of the longest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// How bytes of a protocol go in datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams {
    /// Bytes at the start of its argument that are whole units of the protocol and together no more than the second
    /// argument, but at least one unit where one is there; 0 where none is.
    pub whole: fn(&[u8], usize) -> usize,
    /// Bytes of a datagram that we send, where units are not longer.
    pub bytes_max: usize,
}

/// How one socket serves many peers.
#[derive(Clone, Debug)]
pub struct UdpListen {
    /// How bytes go in datagrams.
    pub datagrams: Datagrams,
    /// Who is heard; empty for anyone.
    pub remotes: Vec<IpAddr>,
    /// Silence after which a peer's session ends.
    pub silence: Duration,
}

/// How one peer is reached.
#[derive(Clone, Debug)]
pub struct UdpConnect {
    /// How bytes go in datagrams.
    pub datagrams: Datagrams,
    /// The local address, where the peer expects a certain one; else any free port.
    pub local: Option<SocketAddr>,
}

/// The datagrams of one peer.
#[derive(Debug)]
pub(crate) struct UdpStream {
    transport: Transport,
    datagrams: Datagrams,
    silence: Option<Duration>,
    heard: Instant,
    counters: Arc<Counters>,
}

#[derive(Debug)]
enum Transport {
    Own(UdpSocket),
    Shared { hub: Rc<Hub>, peer: SocketAddr },
}

impl UdpStream {
    /// A socket of its own, for one peer.
    pub(crate) async fn connect(
        peer: SocketAddr,
        config: &UdpConnect,
        marks: Option<Marks>,
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        let any: SocketAddr = if peer.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
        let socket = UdpSocket::bind(config.local.unwrap_or(any)).await?;
        marks.map_or(Ok(()), |marks| marks.apply(&socket))?;
        socket.connect(peer).await?;
        let datagrams = config.datagrams;
        Ok(Self { transport: Transport::Own(socket), datagrams, silence: None, heard: Instant::ZERO, counters })
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.transport {
            Transport::Own(socket) => socket.peer_addr(),
            Transport::Shared { peer, .. } => Ok(*peer),
        }
    }

    pub(crate) const fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    pub(crate) fn silent_at(&self) -> Option<Instant> {
        self.silence.map(|silence| self.heard + silence)
    }

    /// The whole units of one datagram.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        for _ in 0..READS_MAX {
            match &self.transport {
                Transport::Own(socket) => ready!(socket.poll_recv(cx, out))?,
                Transport::Shared { hub, peer } => ready!(hub.poll_take(cx, *peer, out)),
            }
            let all = out.filled().len();
            let whole = (self.datagrams.whole)(out.filled(), usize::MAX);
            if whole < all {
                add(&self.counters.datagrams_cut, 1);
            }
            if whole > 0 {
                out.set_filled(whole);
                return Poll::Ready(Ok(()));
            }
            out.clear();
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_send_ready(cx)
    }

    /// Sends whole units, as few datagrams as can be.
    pub(crate) fn offer(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            let whole = (self.datagrams.whole)(rest, self.datagrams.bytes_max);
            // What is no unit goes as it is: it is ours.
            let datagram = rest.get(..whole).filter(|some| !some.is_empty()).unwrap_or(rest);
            let sent = match &self.transport {
                Transport::Own(socket) => socket.try_send(datagram),
                Transport::Shared { peer, .. } => self.socket().try_send_to(datagram, *peer),
            };
            match sent {
                Ok(_) => taken += datagram.len(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// The socket that its datagrams go out by.
    pub(crate) fn socket(&self) -> &UdpSocket {
        match &self.transport {
            Transport::Own(socket) => socket,
            Transport::Shared { hub, .. } => &hub.socket,
        }
    }
}

impl Drop for UdpStream {
    fn drop(&mut self) {
        if let Transport::Shared { hub, peer } = &self.transport {
            hub.inboxes.borrow_mut().remove(peer);
        }
    }
}

/// One socket of many peers.
#[derive(Debug)]
pub(crate) struct Hub {
    socket: UdpSocket,
    config: UdpListen,
    peers_max: usize,
    inboxes: RefCell<HashMap<SocketAddr, Inbox>>,
    counters: Arc<Counters>,
}

/// What a peer sent and its session has not taken.
#[derive(Debug, Default)]
struct Inbox {
    datagrams: VecDeque<Box<[u8]>>,
    session: Option<Waker>,
}

impl Hub {
    /// Listens.
    pub(crate) async fn bind(listen: &ListenConfig, udp: &UdpListen, counters: Arc<Counters>) -> io::Result<Rc<Self>> {
        let addresses: Vec<SocketAddr> = lookup_host(&listen.address).await?.collect();
        let socket = UdpSocket::bind(addresses.as_slice()).await?;
        listen.marks.map_or(Ok(()), |marks| marks.apply(&socket))?;
        let (config, inboxes) = (udp.clone(), RefCell::default());
        Ok(Rc::new(Self { socket, config, peers_max: listen.sessions_max, inboxes, counters }))
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Hands datagrams to the sessions of their peers until one comes from a peer without a session.
    pub(crate) async fn accept(self: &Rc<Self>) -> (UdpStream, SocketAddr) {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            let received = poll_fn(|cx| {
                let mut buffer = ReadBuf::new(&mut buffer);
                self.socket.poll_recv_from(cx, &mut buffer).map_ok(|peer| (buffer.filled().len(), peer))
            });
            let (count, peer) = match received.await {
                Ok(received) => received,
                Err(error) => {
                    // Of one datagram that we sent, or for want of memory: the socket goes on.
                    tracing::debug!(%error, "a datagram cannot be received");
                    add(&self.counters.accept_failures, 1);
                    tokio::task::yield_now().await;
                    continue;
                }
            };
            if self.take(buffer.get(..count).unwrap_or_default(), peer) {
                add(&self.counters.accepts, 1);
                let (hub, config) = (Rc::clone(self), &self.config);
                let stream = UdpStream {
                    transport: Transport::Shared { hub, peer },
                    datagrams: config.datagrams,
                    silence: Some(config.silence),
                    heard: Instant::ZERO,
                    counters: Arc::clone(&self.counters),
                };
                return (stream, peer);
            }
        }
    }

    /// Keeps a datagram for its peer's session; true when the peer is a new one.
    fn take(&self, datagram: &[u8], peer: SocketAddr) -> bool {
        let mut inboxes = self.inboxes.borrow_mut();
        let known = inboxes.contains_key(&peer);
        let heard = self.config.remotes.is_empty() || self.config.remotes.contains(&peer.ip().to_canonical());
        // Nothing is kept for a peer that does not speak the protocol.
        let speaks = known || (self.config.datagrams.whole)(datagram, usize::MAX) > 0;
        if !heard || !speaks || (!known && inboxes.len() >= self.peers_max) {
            add(&self.counters.accepts_refused, 1);
            tracing::debug!(%peer, "datagram refused");
            return false;
        }
        let inbox = inboxes.entry(peer).or_default();
        if inbox.datagrams.len() >= INBOX_MAX {
            add(&self.counters.datagrams_dropped, 1);
        } else {
            inbox.datagrams.push_back(datagram.into());
        }
        if let Some(session) = inbox.session.take() {
            session.wake();
        }
        !known
    }

    fn poll_take(&self, cx: &Context<'_>, peer: SocketAddr, out: &mut ReadBuf<'_>) -> Poll<()> {
        let mut inboxes = self.inboxes.borrow_mut();
        let Some(inbox) = inboxes.get_mut(&peer) else { return Poll::Pending };
        match inbox.datagrams.pop_front() {
            Some(datagram) => {
                out.put_slice(datagram.get(..out.remaining()).unwrap_or(&datagram));
                Poll::Ready(())
            }
            None => {
                inbox.datagrams = VecDeque::new();
                inbox.session = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
