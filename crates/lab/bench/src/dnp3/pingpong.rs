//! The floor: messages of the same lengths to and fro over raw sockets of the same runtime.

use crate::load::{Go, Load, Tally};
use anyhow::{Context, Result};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use tieline_net::{Clock, Counters, ListenConfig, Listener, Shard, ShardThread, Target, connect as dial};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Starts pairs that send `octets.0` one way and `octets.1` back.
pub fn connect(sessions: usize, workers: usize, octets: (usize, usize)) -> Result<Load> {
    let mut load = Load::new(sessions);
    let clock = Clock::start();
    let mut addresses = Vec::new();
    for number in 0..workers {
        let (go, tally) = load.seat();
        let (tell, told) = sync_channel(1);
        let name = format!("floor-send-{number}");
        let thread = ShardThread::spawn(&name, clock, Arc::new(Counters::default()), move |shard| async move {
            serve(shard, sessions, tell, octets, go, tally).await;
        })?;
        load.keep(thread);
        addresses.push(told.recv().context("the floor's thread ended")??);
    }
    for (number, address) in addresses.into_iter().enumerate() {
        let (_, tally) = load.seat();
        let mine = (number..sessions).step_by(workers).len();
        let name = format!("floor-answer-{number}");
        let thread = ShardThread::spawn(&name, clock, Arc::new(Counters::default()), move |_| async move {
            call(address, mine, octets, tally).await;
        })?;
        load.keep(thread);
    }
    Ok(load)
}

async fn serve(
    shard: Rc<Shard>,
    sessions_max: usize,
    tell: SyncSender<io::Result<SocketAddr>>,
    octets: (usize, usize),
    go: Go,
    tally: Arc<Tally>,
) {
    let config = ListenConfig { sessions_max, ..ListenConfig::new("127.0.0.1:0") };
    let listener = match Listener::bind(&config, Arc::clone(shard.counters())).await {
        Ok(listener) => listener,
        Err(error) => return drop(tell.send(Err(error))),
    };
    let _ = tell.send(listener.local_addr());
    loop {
        let accepted = listener.accept().await;
        let (go, tally) = (go.clone(), Arc::clone(&tally));
        tokio::task::spawn_local(async move {
            let _place = accepted.place;
            let Some(stream) = accepted.stream.into_tcp() else { return };
            if ping(stream, octets, go, &tally).await.is_err() {
                tally.count_broken();
            }
        });
    }
}

async fn ping(mut stream: TcpStream, octets: (usize, usize), mut go: Go, tally: &Tally) -> io::Result<()> {
    let (report, mut buffer) = (vec![0; octets.0], buffer(octets.1));
    while go.changed.wait_for(|on| *on).await.is_ok() {
        while go.is_on() {
            tally.count_begun();
            stream.write_all(&report).await?;
            read(&mut stream, octets.1, &mut buffer).await?;
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn call(address: SocketAddr, sessions: usize, octets: (usize, usize), tally: Arc<Tally>) {
    let target = Target::new(address.to_string());
    for _ in 0..sessions {
        let Ok(stream) = dial(&target).await else { return tally.count_broken() };
        tally.count_ready();
        let tally = Arc::clone(&tally);
        tokio::task::spawn_local(async move {
            if pong(stream, octets, &tally).await.is_err() {
                tally.count_broken();
            }
        });
    }
    std::future::pending().await
}

async fn pong(mut stream: TcpStream, octets: (usize, usize), tally: &Tally) -> io::Result<()> {
    let (confirm, mut buffer) = (vec![0; octets.1], buffer(octets.0));
    loop {
        read(&mut stream, octets.0, &mut buffer).await?;
        tally.count_done();
        stream.write_all(&confirm).await?;
    }
}

/// A little longer than the message: a read that fills its buffer makes the runtime ask the socket once more.
fn buffer(octets: usize) -> Box<[u8]> {
    vec![0; octets + 64].into_boxed_slice()
}

async fn read(stream: &mut TcpStream, octets: usize, buffer: &mut [u8]) -> io::Result<()> {
    let mut left = octets;
    while left > 0 {
        match stream.read(buffer).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}
