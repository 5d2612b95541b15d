//! The floor: one thread writes the same bytes to every listener's socket, another reads them.

use anyhow::{Context, Result, anyhow, bail};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};
use tieline_net::{Clock, Counters, ListenConfig, Listener, Shard, ShardThread, Target, connect as dial};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// How long a round may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;

#[derive(Debug)]
enum News {
    Begun(Instant),
    Done(Instant),
    Failed(io::Error),
}

/// Connected sockets, and how much goes over each in a round.
#[derive(Debug)]
pub struct Fanout {
    rounds: watch::Sender<u64>,
    news: Receiver<News>,
    _threads: [ShardThread; 2],
}

impl Fanout {
    /// Connects as many sockets as there are listeners.
    pub fn connect(listeners: usize, bytes: u64) -> Result<Self> {
        let (tell, news) = channel();
        let (rounds, due) = watch::channel(0);
        let (address, bound) = sync_channel(1);
        let (sender_tell, bytes) = (tell.clone(), usize::try_from(bytes)?);
        let sender = ShardThread::spawn("floor-send", Clock::start(), Arc::new(Counters::default()), move |shard| {
            send_all(shard, address, (listeners, bytes), due, sender_tell)
        })?;
        let address = bound.recv().context("the floor's thread ended")??;
        let reader = ShardThread::spawn("floor-read", Clock::start(), Arc::new(Counters::default()), move |_| {
            read_all(address, (listeners, bytes), tell)
        })?;
        Ok(Self { rounds, news, _threads: [sender, reader] })
    }

    /// Sends everything once; the time from the first write until the last socket gave its last byte.
    pub fn round(&mut self) -> Result<Duration> {
        self.rounds.send_modify(|round| *round += 1);
        let mut begun = None;
        loop {
            match self.news.recv_timeout(PATIENCE).map_err(|_| anyhow!("the floor did not end within {PATIENCE:?}"))? {
                News::Begun(at) => begun = Some(at),
                News::Done(at) => {
                    return Ok(at.saturating_duration_since(begun.context("the floor was over before it began")?));
                }
                News::Failed(error) => bail!("the floor failed: {error}"),
            }
        }
    }
}

async fn send_all(
    shard: Rc<Shard>,
    address: SyncSender<io::Result<SocketAddr>>,
    (listeners, bytes): (usize, usize),
    mut due: watch::Receiver<u64>,
    tell: Sender<News>,
) {
    let listener = match Listener::bind(&ListenConfig::new("127.0.0.1:0"), Arc::clone(shard.counters())).await {
        Ok(listener) => listener,
        Err(error) => return drop(address.send(Err(error))),
    };
    let _ = address.send(listener.local_addr());
    let (begin, begun) = watch::channel(0);
    let payload: Rc<[u8]> = vec![0; bytes].into();
    for _ in 0..listeners {
        let Some(mut stream) = listener.accept().await.stream.into_tcp() else { continue };
        let (payload, tell, mut begun) = (Rc::clone(&payload), tell.clone(), begun.clone());
        tokio::task::spawn_local(async move {
            while begun.changed().await.is_ok() {
                if let Err(error) = stream.write_all(&payload).await {
                    let _ = tell.send(News::Failed(error));
                }
            }
        });
    }
    while due.changed().await.is_ok() {
        let _ = tell.send(News::Begun(Instant::now()));
        begin.send_replace(*due.borrow_and_update());
    }
}

async fn read_all(address: SocketAddr, (listeners, bytes): (usize, usize), tell: Sender<News>) {
    let mut target = Target::new(address.to_string());
    (target.send_buffer, target.receive_buffer) = (None, None);
    let left = Rc::new(Cell::new(listeners));
    for _ in 0..listeners {
        match dial(&target).await {
            Ok(stream) => {
                let (left, tell) = (Rc::clone(&left), tell.clone());
                tokio::task::spawn_local(read_rounds(stream, bytes, (listeners, left), tell));
            }
            Err(error) => drop(tell.send(News::Failed(error))),
        }
    }
    std::future::pending().await
}

async fn read_rounds(
    mut stream: TcpStream,
    bytes: usize,
    (listeners, left): (usize, Rc<Cell<usize>>),
    tell: Sender<News>,
) {
    let mut buffer = vec![0; READ_BYTES];
    let mut due = bytes;
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => return,
            Ok(count) => due = due.saturating_sub(count),
            Err(error) => return drop(tell.send(News::Failed(error))),
        }
        if due == 0 {
            due = bytes;
            left.set(left.get() - 1);
            if left.get() == 0 {
                left.set(listeners);
                let _ = tell.send(News::Done(Instant::now()));
            }
        }
    }
}
