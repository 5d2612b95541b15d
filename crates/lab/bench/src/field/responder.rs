//! The other end of all sides: bare sockets on a thread of their own, which answer each request with the registers that it
//! asks for, at once or after a delay.

use super::wire::{REQUEST_BYTES, answer};
use anyhow::{Context, Result};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_net::{Clock, Counters, Shard, ShardThread};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 4096;
/// Bytes that are read at a time.
const READ_BYTES: usize = 512;
/// Answers of a connection that wait for their time: a client has 16 requests in flight at most.
const WAITING_MAX: usize = 64;

/// Answers for as long as it is kept.
#[derive(Debug)]
pub struct Responder {
    /// Where it listens.
    pub address: SocketAddr,
    _thread: ShardThread,
}

impl Responder {
    /// Listens on loopback; each answer leaves so long after its request came.
    pub fn start(delay: Duration) -> Result<Self> {
        let (tell, told) = oneshot::channel();
        let main = move |_: Rc<Shard>| serve(delay, tell);
        let thread = ShardThread::spawn("responder", Clock::start(), Arc::new(Counters::default()), main)?;
        let address = told.blocking_recv().context("the responder's thread has ended")??;
        Ok(Self { address, _thread: thread })
    }
}

async fn serve(delay: Duration, tell: oneshot::Sender<io::Result<SocketAddr>>) {
    let listener = match listen() {
        Ok(listener) => listener,
        Err(error) => return drop(tell.send(Err(error))),
    };
    let _ = tell.send(listener.local_addr());
    while let Ok((stream, _)) = listener.accept().await {
        // A client that leaves ends its task, whatever was on its way.
        tokio::task::spawn_local(async move { respond(stream, delay).await });
    }
}

fn listen() -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    socket.listen(BACKLOG)
}

async fn respond(mut stream: TcpStream, delay: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut unread, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
    let mut waiting: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    loop {
        let due = waiting.front().map(|(due, _)| *due);
        let count = tokio::select! {
            count = stream.read(&mut buffer), if waiting.len() < WAITING_MAX => count?,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                if let Some((_, answers)) = waiting.pop_front() {
                    stream.write_all(&answers).await?;
                }
                continue;
            }
        };
        if count == 0 {
            return Ok(());
        }
        unread.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let answers = answer_all(&mut unread)?;
        if delay.is_zero() {
            stream.write_all(&answers).await?;
        } else if !answers.is_empty() {
            waiting.push_back((Instant::now() + delay, answers));
        }
    }
}

/// The answers to all whole requests, which are taken.
fn answer_all(unread: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let mut answers = Vec::new();
    let (requests, rest) = unread.as_chunks::<REQUEST_BYTES>();
    if !requests.iter().all(|request| answer(request, &mut answers)) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let used = unread.len() - rest.len();
    unread.drain(..used);
    Ok(answers)
}
