//! The floor: messages of the same lengths to and fro over raw sockets of the same runtime.

use super::loopback::{Guest, Host, Pair};
use crate::load::{Counts, Go};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tieline_net::{Accepted, Shard};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One end sends messages of so many bytes, the other answers each.
#[derive(Clone, Copy, Debug)]
pub struct PingPong {
    /// Bytes of a message.
    pub ping: usize,
    /// Bytes of its answer.
    pub pong: usize,
}

/// The ends of a thread that send first.
pub struct Pings {
    bytes: PingPong,
    go: Go,
    counts: Arc<Counts>,
}

/// The ends of a thread that answer.
pub struct Pongs {
    bytes: PingPong,
    counts: Arc<Counts>,
}

impl Pair for PingPong {
    type Host = Pings;
    type Guest = Pongs;

    fn host(&self, _shard: Rc<Shard>, go: Go, counts: Arc<Counts>) -> Pings {
        Pings { bytes: *self, go, counts }
    }

    fn guest(&self, _shard: Rc<Shard>, counts: Arc<Counts>) -> Pongs {
        Pongs { bytes: *self, counts }
    }
}

impl Host for Pings {
    fn accepted(&self, connection: Accepted) {
        let (bytes, go, counts) = (self.bytes, self.go.clone(), Arc::clone(&self.counts));
        tokio::task::spawn_local(async move {
            let _place = connection.place;
            let Some(stream) = connection.stream.into_tcp() else { return };
            if ping(stream, bytes, go, &counts).await.is_err() {
                counts.count_broken();
            }
        });
    }

    /// Each end waits for it by itself.
    fn turned(&self) {}
}

impl Guest for Pongs {
    fn connected(&self, stream: TcpStream) {
        self.counts.count_ready();
        let (bytes, counts) = (self.bytes, Arc::clone(&self.counts));
        tokio::task::spawn_local(async move {
            if pong(stream, bytes, &counts).await.is_err() {
                counts.count_broken();
            }
        });
    }
}

async fn ping(mut stream: TcpStream, bytes: PingPong, mut go: Go, counts: &Counts) -> io::Result<()> {
    let (report, mut buffer) = (vec![0; bytes.ping], buffer(bytes.pong));
    while go.changed.wait_for(|on| *on).await.is_ok() {
        while go.is_on() {
            counts.count_begun();
            stream.write_all(&report).await?;
            read(&mut stream, bytes.pong, &mut buffer).await?;
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn pong(mut stream: TcpStream, bytes: PingPong, counts: &Counts) -> io::Result<()> {
    let (confirm, mut buffer) = (vec![0; bytes.pong], buffer(bytes.ping));
    loop {
        read(&mut stream, bytes.ping, &mut buffer).await?;
        counts.count_done();
        stream.write_all(&confirm).await?;
    }
}

/// A little longer than the message: a read that fills its buffer makes the runtime ask the socket once more.
fn buffer(bytes: usize) -> Box<[u8]> {
    vec![0; bytes + 64].into_boxed_slice()
}

async fn read(stream: &mut TcpStream, bytes: usize, buffer: &mut [u8]) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        match stream.read(buffer).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}
