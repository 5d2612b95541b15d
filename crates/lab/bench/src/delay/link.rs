//! One connection and its machine, with a stamp at each boundary.
//!
//! The loop is the bench's own, because `tieline_net` has no place for stamps: one read, all events, one write a message,
//! as there.

use super::stamps::{Given, Kind, Sent, now_ns, passed, room};
use anyhow::{Context, Result};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::{Instant, Machine, Now};
use tieline_dnp3::endpoint::Boundary;
use tieline_dnp3::master::Master;
use tieline_dnp3::outstation::Outstation;
use tieline_net::{Clock, Marks};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Notify;

/// How long a peer may take to listen.
const CONNECT_PATIENCE: Duration = Duration::from_secs(20);
const CONNECT_EVERY: Duration = Duration::from_millis(20);
const READ_BYTES: usize = 64 * 1024;

/// What carries the bytes.
#[derive(Debug)]
pub enum Socket {
    Stream(TcpStream),
    Datagrams(UdpSocket),
}

impl Socket {
    /// Connects to a peer that may not listen yet.
    pub async fn connect(to: SocketAddr, datagrams: bool, marks: Option<Marks>) -> Result<Self> {
        if datagrams {
            let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any).await?;
            mark(&socket, marks)?;
            socket.connect(to).await?;
            return Ok(Self::Datagrams(socket));
        }
        let began = std::time::Instant::now();
        loop {
            match TcpStream::connect(to).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    mark(&stream, marks)?;
                    return Ok(Self::Stream(stream));
                }
                Err(error) if began.elapsed() > CONNECT_PATIENCE => return Err(error).context(to),
                Err(_) => tokio::time::sleep(CONNECT_EVERY).await,
            }
        }
    }

    /// Waits until there is something to read.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Stream(socket) => socket.readable().await,
            Self::Datagrams(socket) => socket.readable().await,
        }
    }

    /// Waits until there is room to write.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Stream(socket) => socket.writable().await,
            Self::Datagrams(socket) => socket.writable().await,
        }
    }

    /// One read; the end of a stream is an error.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stream(socket) => match socket.try_read(buffer) {
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                other => other,
            },
            Self::Datagrams(socket) => socket.try_recv(buffer),
        }
    }

    /// One write.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(socket) => socket.try_write(bytes),
            Self::Datagrams(socket) => socket.try_send(bytes),
        }
    }
}

fn mark(socket: &impl std::os::fd::AsFd, marks: Option<Marks>) -> Result<()> {
    marks.map_or(Ok(()), |marks| marks.apply(socket)).context("marks of a socket")
}

/// Where a peer may connect to.
#[derive(Debug)]
pub enum Door {
    Stream(TcpListener),
    Datagrams(UdpSocket),
}

impl Door {
    pub async fn open(at: SocketAddr, datagrams: bool, marks: Option<Marks>) -> Result<Self> {
        let door = match datagrams {
            true => Self::Datagrams(UdpSocket::bind(at).await.context(at)?),
            false => Self::Stream(TcpListener::bind(at).await.context(at)?),
        };
        match &door {
            Self::Stream(listener) => mark(listener, marks)?,
            Self::Datagrams(socket) => mark(socket, marks)?,
        }
        Ok(door)
    }

    /// The first peer that comes.
    pub async fn enter(self, marks: Option<Marks>) -> Result<Socket> {
        match self {
            Self::Stream(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                mark(&stream, marks)?;
                Ok(Socket::Stream(stream))
            }
            Self::Datagrams(socket) => {
                let (_, from) = socket.peek_from(&mut [0; 1]).await?;
                socket.connect(from).await?;
                Ok(Socket::Datagrams(socket))
            }
        }
    }
}

/// A machine that can say whether messages of its owner went out.
pub trait Counted: Machine {
    /// Counts messages with something of the owner's.
    fn messages(&self) -> u64;
    /// How many of the owner's things that wait one message takes.
    fn takes(waiting: usize) -> usize;
}

impl Counted for Master {
    fn messages(&self) -> u64 {
        self.counters().requests
    }

    fn takes(waiting: usize) -> usize {
        waiting.min(1)
    }
}

impl Counted for Outstation {
    fn messages(&self) -> u64 {
        self.stats().unsolicited
    }

    fn takes(waiting: usize) -> usize {
        waiting
    }
}

/// When the bytes of an event were read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    pub read: (u64, u64),
    pub arrived: u64,
    pub found: u64,
}

impl Read {
    /// An event that the application has.
    #[must_use]
    pub fn given(self, kind: Kind, fault: u32) -> Given {
        let Self { read, arrived, found } = self;
        Given { kind, fault, read, arrived, found, given: now_ns() }
    }
}

struct LinkState<M> {
    machine: M,
    out: Vec<u8>,
    unsent: VecDeque<Vec<u8>>,
    /// Fault, due, begun of what the machine has and has not sent.
    waiting: VecDeque<(u32, u64, u64)>,
    sent: Vec<Sent>,
    failed: bool,
}

/// A machine on its connection.
pub struct Link<M> {
    kind: Kind,
    clock: Clock,
    socket: Socket,
    state: RefCell<LinkState<M>>,
    wake: Notify,
}

impl<M: Counted + 'static> Link<M> {
    /// Drives a machine on this thread until the connection ends.
    pub fn start(
        kind: Kind,
        clock: Clock,
        socket: Socket,
        machine: M,
        mut learn: impl FnMut(M::Event, Read) + 'static,
    ) -> Rc<Self> {
        let (out, unsent, waiting) = (Vec::new(), VecDeque::new(), VecDeque::new());
        let state = RefCell::new(LinkState { machine, out, unsent, waiting, sent: Vec::new(), failed: false });
        let link = Rc::new(Self { kind, clock, socket, state, wake: Notify::new() });
        let driven = Rc::clone(&link);
        tokio::task::spawn_local(async move {
            driven.state.borrow_mut().machine.handle_connected(clock.now());
            if driven.drive(&mut learn).await.is_err() {
                driven.state.borrow_mut().failed = true;
            }
        });
        link
    }

    /// Makes room for what so many faults are to leave behind.
    #[must_use]
    pub fn with_room(self: Rc<Self>, faults: u32) -> Rc<Self> {
        self.state.borrow_mut().sent = room(Sent::NONE, faults);
        self
    }

    /// Has something said by the machine that belongs to a fault, and sends it.
    pub fn say<R>(&self, fault: u32, due: u64, call: impl FnOnce(&mut M, Now) -> R) -> R {
        let begun = now_ns();
        let now = self.clock.now();
        let mut state = self.state.borrow_mut();
        let result = call(&mut state.machine, now);
        state.waiting.push_back((fault, due, begun));
        drop(state);
        self.flush(now);
        self.wake.notify_one();
        result
    }

    /// Has something said by the machine that is not measured.
    pub fn call<R>(&self, call: impl FnOnce(&mut M, Now) -> R) -> R {
        let now = self.clock.now();
        let result = call(&mut self.state.borrow_mut().machine, now);
        self.flush(now);
        self.wake.notify_one();
        result
    }

    /// What went out so far, and whether the connection has failed.
    pub fn sent(&self) -> (Vec<Sent>, bool) {
        let state = self.state.borrow();
        (state.sent.clone(), state.failed)
    }

    async fn drive(&self, learn: &mut impl FnMut(M::Event, Read)) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        // A master speaks first.
        self.flush(self.clock.now());
        loop {
            let (deadline, blocked) = {
                let state = self.state.borrow();
                (state.machine.timeout(), !state.unsent.is_empty())
            };
            tokio::select! {
                ready = self.socket.readable() => {
                    ready?;
                    self.read(&mut buffer, learn)?;
                }
                ready = self.socket.writable(), if blocked => {
                    ready?;
                    self.write_unsent()?;
                }
                () = self.wake.notified() => {}
                () = tokio::time::sleep_until(self.clock.at(deadline.unwrap_or(Instant(u64::MAX)))) => {
                    self.state.borrow_mut().machine.handle_timeout(self.clock.now());
                }
            }
            let none = Read { read: (0, 0), arrived: 0, found: 0 };
            self.drain(none, learn);
            self.flush(self.clock.now());
        }
    }

    fn read(&self, buffer: &mut [u8], learn: &mut impl FnMut(M::Event, Read)) -> io::Result<()> {
        let began = now_ns();
        let count = match self.socket.read(buffer) {
            Ok(count) => count,
            // A datagram that nobody took yet was told of.
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) => return Ok(()),
            Err(error) => return Err(error),
        };
        let read = (began, now_ns());
        let mut rest = buffer.get(..count).unwrap_or_default();
        while !rest.is_empty() {
            let now = self.clock.now();
            let used = self.state.borrow_mut().machine.handle_input(now, rest);
            rest = rest.get(used..).unwrap_or_default();
            let stamps = Read { read, arrived: passed(Boundary::Arrived), found: passed(Boundary::Found) };
            let drained = self.drain(stamps, learn);
            if !rest.is_empty() && self.flush(now) + drained + used == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(())
    }

    fn drain(&self, stamps: Read, learn: &mut impl FnMut(M::Event, Read)) -> usize {
        let mut count = 0;
        loop {
            let event = self.state.borrow_mut().machine.poll_event();
            let Some(event) = event else { return count };
            learn(event, stamps);
            count += 1;
        }
    }

    /// Writes every message that the machine has, one call each; returns how many.
    fn flush(&self, now: Now) -> usize {
        let mut count = 0;
        loop {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            let before = if state.waiting.is_empty() { 0 } else { state.machine.messages() };
            state.out.clear();
            if !state.machine.poll_transmit(now, &mut state.out) {
                return count;
            }
            count += 1;
            let (built, framed) = (passed(Boundary::Built), passed(Boundary::Framed));
            let took = !state.waiting.is_empty() && state.machine.messages() > before;
            let began = now_ns();
            let written = if state.unsent.is_empty() { self.socket.write(&state.out).unwrap_or(0) } else { 0 };
            let write = (began, now_ns());
            if let Some(rest) = state.out.get(written..).filter(|rest| !rest.is_empty()) {
                state.unsent.push_back(rest.to_vec());
            }
            if took {
                let takes = M::takes(state.waiting.len());
                for (fault, due, begun) in state.waiting.drain(..takes) {
                    state.sent.push(Sent { kind: self.kind, fault, due, begun, built, framed, write });
                }
            }
        }
    }

    fn write_unsent(&self) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        while let Some(mut bytes) = state.unsent.pop_front() {
            match self.socket.write(&bytes) {
                Ok(count) if count < bytes.len() => {
                    bytes.drain(..count);
                    state.unsent.push_front(bytes);
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.unsent.push_front(bytes);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
