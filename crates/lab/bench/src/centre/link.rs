//! A slow link to a server: bytes pass at a rate, after a time, through a queue that is full at some time, as on a line of a
//! radio or a telephone network. It can stall, when nothing moves and nothing is told, and be cut, when connections end and none begin.

use crate::gate::Gate;
use anyhow::Result;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a packet.
const PACKET: usize = 1448;
/// Packets on the way and in the queue, each way: 64 kB.
const QUEUE: usize = 45;
/// What the system buffers before the link, as little as it lets us: the queue is to be the link's.
const BUFFER: usize = 16 * 1024;

/// The link. Dropped, it is closed.
pub struct SlowLink {
    /// Where it begins.
    pub address: SocketAddr,
    line: Arc<Line>,
}

struct Line {
    bits_per_s: u64,
    one_way: Duration,
    gate: Gate,
}

/// When one way is free for the next packet.
type Free = Arc<Mutex<Instant>>;

impl SlowLink {
    /// A link to a server.
    pub fn to(server: SocketAddr, bits_per_s: u64, round_trip: Duration) -> Result<Self> {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        // Connections that come in have the buffers of the listener.
        socket.set_recv_buffer_size(BUFFER)?;
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
        socket.listen(64)?;
        let listener = TcpListener::from(socket);
        let address = listener.local_addr()?;
        let line = Arc::new(Line { bits_per_s, one_way: round_trip / 2, gate: Gate::default() });
        let of = Arc::clone(&line);
        std::thread::Builder::new().name("link".to_owned()).spawn(move || of.serve(&listener, server))?;
        Ok(Self { address, line })
    }

    /// From here on nothing moves, or moves again.
    pub fn stall(&self, is_stalled: bool) {
        self.line.gate.set(|state| state.is_stalled = is_stalled);
    }

    /// All connections end, and no others begin, or begin again.
    pub fn cut(&self, is_cut: bool) {
        self.line.gate.end_all(|state| state.is_cut = is_cut);
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.line.gate.close(self.address);
    }
}

impl Line {
    fn serve(self: Arc<Self>, listener: &TcpListener, server: SocketAddr) {
        let ways: [Free; 2] = std::array::from_fn(|_| Arc::new(Mutex::new(Instant::now())));
        self.gate.serve(listener, |near| self.join(near, server, &ways));
    }

    fn join(self: &Arc<Self>, near: TcpStream, server: SocketAddr, ways: &[Free; 2]) -> Result<()> {
        let socket = socket2::Socket::new(socket2::Domain::for_address(server), socket2::Type::STREAM, None)?;
        socket.set_recv_buffer_size(BUFFER)?;
        socket.connect(&server.into())?;
        let far = TcpStream::from(socket);
        self.gate.enter(&near)?;
        self.gate.enter(&far)?;
        let pairs = [(near.try_clone()?, far.try_clone()?), (far, near)];
        for ((source, sink), free) in pairs.into_iter().zip(ways) {
            let (queue, packets) = sync_channel(QUEUE);
            let (line, free) = (Arc::clone(self), Arc::clone(free));
            std::thread::Builder::new()
                .name("link-in".to_owned())
                .spawn(move || line.take_in(source, &free, &queue))?;
            let line = Arc::clone(self);
            std::thread::Builder::new().name("link-out".to_owned()).spawn(move || line.let_out(&packets, sink))?;
        }
        Ok(())
    }

    /// Each packet has its time, behind those before it.
    fn take_in(&self, mut source: TcpStream, free: &Mutex<Instant>, queue: &SyncSender<(Instant, Vec<u8>)>) {
        let mut buffer = [0; PACKET];
        while let Ok(read @ 1..) = source.read(&mut buffer) {
            let bits = read as u64 * 8;
            let due = {
                let mut free = free.lock().unwrap_or_else(PoisonError::into_inner);
                *free = (*free).max(Instant::now()) + Duration::from_nanos(bits * 1_000_000_000 / self.bits_per_s);
                *free + self.one_way
            };
            let packet = buffer.get(..read).unwrap_or_default().to_vec();
            if queue.send((due, packet)).is_err() {
                break;
            }
        }
        let _ = source.shutdown(Shutdown::Read);
    }

    fn let_out(&self, packets: &Receiver<(Instant, Vec<u8>)>, mut sink: TcpStream) {
        while let Ok((due, packet)) = packets.recv() {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            self.gate.pass();
            if sink.write_all(&packet).is_err() {
                break;
            }
        }
        let _ = sink.shutdown(Shutdown::Both);
    }
}
