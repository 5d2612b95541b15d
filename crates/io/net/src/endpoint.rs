//! One socket for datagrams to and from many peers, whose machine says where each goes. Frames of a packet socket are datagrams
//! that say it themselves.
//!
//! ```text
//! one socket ── datagram, who sent it ──▶ DatagramMachine ── events ──▶ EndpointOwner
//!       ▲                                       │
//!       └──────── datagram, where it goes ──────┘
//! ```
//!
//! There is nothing to connect: whether a peer is there the protocol finds out, and the socket is served until it is closed. A datagram that the system does
//! not take for good, such as one to a network without a route, is dropped and counted, as the network might drop it; while
//! the socket has no room, the machine keeps what it has.

use crate::counters::add;
use crate::{Marks, PacketSocket, Shard};
use socket2::SockRef;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::{Instant, Now};
use tokio::io::{Interest, Ready};
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Datagrams that one wake takes, or sends, before others have their turn.
const BATCH_MAX: usize = 64;

/// How long a socket that is to be closed may have no room for what is left to send.
const CLOSE_WAIT: Duration = Duration::from_millis(100);

/// Bytes that the system may keep while others have their turn: it takes as many of them as it allows.
const UNREAD_BYTES: usize = 4 << 20;

/// A protocol without I/O whose messages are datagrams. After each call, events and datagrams are asked for until there are
/// none.
pub trait DatagramMachine {
    /// What its owner learns.
    type Event;
    /// Where datagrams come from and go to; nothing where they say so themselves, as frames of Ethernet do.
    type Address: Copy + fmt::Debug;

    /// Takes a datagram and the address that it came from.
    fn handle_datagram(&mut self, now: Now, from: Self::Address, datagram: &[u8]);

    /// Lets deadlines that have passed take effect.
    fn handle_timeout(&mut self, now: Now);

    /// When [`DatagramMachine::handle_timeout`] must be called at the latest.
    fn timeout(&self) -> Option<Instant>;

    /// Appends the next datagram to `out`, which is empty, and says where it goes to.
    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<Self::Address>;

    /// The next thing that the owner must know.
    fn poll_event(&mut self, now: Now) -> Option<Self::Event>;
}

/// Learns of an endpoint. The machine is not borrowed meanwhile: the owner may call [`Endpoint::with`].
pub trait EndpointOwner<M: DatagramMachine> {
    /// Takes an event.
    fn event(&mut self, endpoint: &Endpoint<M>, now: Now, event: M::Event);
}

/// A machine on its socket. Copies are of the same one.
pub struct Endpoint<M>(Rc<Inner<M>>);

struct Inner<M> {
    shard: Rc<Shard>,
    machine: RefCell<M>,
    /// Datagrams may go to all of a network.
    broadcasts: Cell<bool>,
    /// The machine was called.
    work: Notify,
    /// The socket is to be closed.
    is_closing: Cell<bool>,
}

impl<M> Clone for Endpoint<M> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<M> fmt::Debug for Endpoint<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

/// What the socket has not taken yet.
struct Outgoing<A> {
    datagram: Vec<u8>,
    to: Option<A>,
}

/// A socket of datagrams.
trait DatagramSocket {
    type Address: Copy + fmt::Debug;

    /// Waits until it can be read, or written.
    async fn ready(&self, interest: Interest) -> io::Result<Ready>;

    fn try_send(&self, datagram: &[u8], to: Self::Address) -> io::Result<usize>;

    fn try_receive(&self, datagram: &mut [u8]) -> io::Result<(usize, Self::Address)>;
}

impl DatagramSocket for UdpSocket {
    type Address = SocketAddr;

    async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        Self::ready(self, interest).await
    }

    fn try_send(&self, datagram: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.try_send_to(datagram, to)
    }

    fn try_receive(&self, datagram: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.try_recv_from(datagram)
    }
}

/// Frames say themselves where they go.
impl DatagramSocket for Rc<PacketSocket> {
    type Address = ();

    async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        PacketSocket::ready(self, interest).await
    }

    fn try_send(&self, datagram: &[u8], (): ()) -> io::Result<usize> {
        PacketSocket::try_send(self, datagram)
    }

    fn try_receive(&self, datagram: &mut [u8]) -> io::Result<(usize, ())> {
        Ok((PacketSocket::try_receive(self, datagram)?, ()))
    }
}

/// Why sending stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// Everything is out.
    All,
    /// There is more, and others have their turn.
    Batch,
    /// The socket has no room.
    Blocked,
}

impl<M: DatagramMachine + 'static> Endpoint<M> {
    /// A machine of a shard, without a socket.
    #[must_use]
    pub fn new(shard: &Rc<Shard>, machine: M) -> Self {
        let machine = RefCell::new(machine);
        let (broadcasts, is_closing) = (Cell::new(false), Cell::new(false));
        Self(Rc::new(Inner { shard: Rc::clone(shard), machine, broadcasts, work: Notify::new(), is_closing }))
    }

    /// The shard.
    #[must_use]
    pub fn shard(&self) -> &Rc<Shard> {
        &self.0.shard
    }

    /// Lets datagrams go to all of a network, where the machine says so; to be called before the start.
    pub fn allow_broadcasts(&self) {
        self.0.broadcasts.set(true);
    }

    /// Calls the machine; what it has to send and to tell follows. Not to be called from within itself.
    pub fn with<T>(&self, call: impl FnOnce(&mut M, Now) -> T) -> T {
        let done = call(&mut self.0.machine.borrow_mut(), self.0.shard.now());
        self.0.work.notify_one();
        done
    }

    /// Looks at the machine.
    pub fn look<T>(&self, look: impl FnOnce(&M) -> T) -> T {
        look(&self.0.machine.borrow())
    }

    /// Sends what the machine has to send, as far as the socket takes it, and closes the socket: the task of
    /// [`Endpoint::start`] ends then.
    pub fn close(&self) {
        self.0.is_closing.set(true);
        self.0.work.notify_one();
    }

    /// Opens the socket and serves it until [`Endpoint::close`]. Returns the address that it has, and the task that serves it.
    ///
    /// # Errors
    /// The local address cannot be taken, or the system does not take the marks.
    pub async fn start(
        &self,
        local: SocketAddr,
        marks: Option<Marks>,
        owner: impl EndpointOwner<M> + 'static,
    ) -> io::Result<(SocketAddr, JoinHandle<()>)>
    where
        M: DatagramMachine<Address = SocketAddr>,
    {
        let socket = UdpSocket::bind(local).await?;
        marks.map_or(Ok(()), |marks| marks.apply(&socket))?;
        let options = SockRef::from(&socket);
        options.set_recv_buffer_size(UNREAD_BYTES)?;
        options.set_broadcast(self.0.broadcasts.get())?;
        let address = socket.local_addr()?;
        let endpoint = self.clone();
        let task = tokio::task::spawn_local(async move { endpoint.run(&socket, owner).await });
        Ok((address, task))
    }

    /// Serves a packet socket until [`Endpoint::close`]. Returns the task that serves it.
    ///
    /// # Errors
    /// The system does not take the marks.
    pub fn start_packets(
        &self,
        socket: Rc<PacketSocket>,
        marks: Option<Marks>,
        owner: impl EndpointOwner<M> + 'static,
    ) -> io::Result<JoinHandle<()>>
    where
        M: DatagramMachine<Address = ()>,
    {
        marks.map_or(Ok(()), |marks| socket.set_priority(marks.priority))?;
        socket.set_unread_bytes(UNREAD_BYTES)?;
        let endpoint = self.clone();
        Ok(tokio::task::spawn_local(async move { endpoint.run(&socket, owner).await }))
    }

    async fn run(self, socket: &impl DatagramSocket<Address = M::Address>, mut owner: impl EndpointOwner<M>) {
        let mut out = Outgoing { datagram: Vec::new(), to: None };
        loop {
            self.tell(&mut owner);
            let sent = self.send(socket, &mut out);
            if self.0.is_closing.get() {
                // What is left is sent as soon as there is room, or not at all.
                let has_room = sent != Sent::All && timeout(CLOSE_WAIT, socket.ready(Interest::WRITABLE)).await.is_ok();
                if has_room && self.send(socket, &mut out) == Sent::Batch {
                    continue;
                }
                return;
            }
            if sent == Sent::Batch {
                tokio::task::yield_now().await;
            }
            let interest =
                if sent == Sent::Blocked { Interest::READABLE.add(Interest::WRITABLE) } else { Interest::READABLE };
            let deadline = self.look(M::timeout).unwrap_or(Instant(u64::MAX));
            let until = if sent == Sent::Batch { Instant::ZERO } else { deadline };
            tokio::select! {
                ready = socket.ready(interest) => {
                    if ready.is_ok_and(|ready| ready.is_readable()) && !self.receive(socket) {
                        tokio::task::yield_now().await;
                    }
                }
                () = self.0.work.notified() => {}
                () = tokio::time::sleep_until(self.0.shard.clock().at(until)) => {}
            }
            let now = self.0.shard.now();
            if deadline <= now.mono {
                self.0.machine.borrow_mut().handle_timeout(now);
            }
        }
    }

    fn tell(&self, owner: &mut impl EndpointOwner<M>) {
        loop {
            let now = self.0.shard.now();
            let event = self.0.machine.borrow_mut().poll_event(now);
            let Some(event) = event else { return };
            owner.event(self, now, event);
        }
    }

    fn send(&self, socket: &impl DatagramSocket<Address = M::Address>, out: &mut Outgoing<M::Address>) -> Sent {
        let counters = self.0.shard.counters();
        for _ in 0..BATCH_MAX {
            if out.to.is_none() {
                out.datagram.clear();
                let now = self.0.shard.now();
                out.to = self.0.machine.borrow_mut().poll_transmit(now, &mut out.datagram);
            }
            let Some(to) = out.to else { return Sent::All };
            match socket.try_send(&out.datagram, to) {
                Ok(count) => {
                    add(&counters.messages_out, 1);
                    add(&counters.writes, 1);
                    add(&counters.bytes_out, count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Sent::Blocked,
                Err(error) => {
                    tracing::debug!(?to, %error, "a datagram cannot be sent");
                    add(&counters.datagrams_unsent, 1);
                }
            }
            out.to = None;
        }
        Sent::Batch
    }

    /// Takes what has come; false when the socket cannot be read.
    fn receive(&self, socket: &impl DatagramSocket<Address = M::Address>) -> bool {
        let (shard, counters) = (&self.0.shard, self.0.shard.counters());
        let mut input = shard.input.borrow_mut();
        for _ in 0..BATCH_MAX {
            match socket.try_receive(&mut input) {
                Ok((count, from)) => {
                    add(&counters.reads, 1);
                    add(&counters.bytes_in, count);
                    let datagram = input.get(..count).unwrap_or_default();
                    self.0.machine.borrow_mut().handle_datagram(shard.now(), from, datagram);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) => {
                    // Of one datagram that we sent, or for want of memory: the socket goes on.
                    tracing::debug!(%error, "a datagram cannot be received");
                    return false;
                }
            }
        }
        true
    }
}
