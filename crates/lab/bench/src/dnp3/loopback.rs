//! Pairs of ends over loopback TCP: the same threads, listeners and connections for the machines and for their floor.

use crate::load::{Counts, Go, Load};
use anyhow::{Context, Result};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use tieline_net::{Accepted, Clock, Counters, ListenConfig, Listener, Shard, ShardThread, Target, connect as dial};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// Which threads have which ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// So many for those that listen, and as many for those that connect.
    Apart(usize),
    /// So many, each with both ends of its pairs.
    Together(usize),
}

/// What a pair's two ends do.
pub trait Pair: Clone + Send + 'static {
    /// Has the ends of a thread that listen.
    type Host: Host;
    /// Has the ends of a thread that connect.
    type Guest: Guest;

    /// On the thread that listens.
    fn host(&self, shard: Rc<Shard>, go: Go, counts: Arc<Counts>) -> Self::Host;

    /// On the thread that connects.
    fn guest(&self, shard: Rc<Shard>, counts: Arc<Counts>) -> Self::Guest;
}

/// The ends of a thread that listen.
pub trait Host: 'static {
    /// Takes a connection, in a task of its own.
    fn accepted(&self, connection: Accepted);

    /// Exchanges are to begin, or to end.
    fn turned(&self);
}

/// The ends of a thread that connect.
pub trait Guest: 'static {
    /// Takes a connection, in a task of its own.
    fn connected(&self, stream: TcpStream);
}

/// Starts `sessions` pairs.
pub fn connect<P: Pair>(sessions: usize, threads: Threads, pair: &P) -> Result<Load> {
    let mut load = Load::new(sessions);
    let clock = Clock::start();
    let spawn = |name: &str, number: usize, main: Main| {
        let main = move |shard| main(shard);
        ShardThread::spawn(&format!("{name}-{number}"), clock, Arc::new(Counters::default()), main)
    };
    let (Threads::Apart(count) | Threads::Together(count)) = threads;
    for number in 0..count {
        let ((go, begun), (_, done)) = (load.join(), load.join());
        let (tell, told) = oneshot::channel();
        let (host, guest) = (pair.clone(), pair.clone());
        let listen = move |shard: Rc<Shard>| {
            let host = host.host(Rc::clone(&shard), go.clone(), begun);
            serve(shard, sessions, tell, go, host)
        };
        let mine = (number..sessions).step_by(count).len();
        let call = move |shard, address| call(address, mine, guest.guest(shard, Arc::clone(&done)), done);
        match threads {
            Threads::Apart(_) => {
                load.keep(spawn("listen", number, Box::new(move |shard| Box::pin(listen(shard))))?);
                let address = told.blocking_recv().context("the thread that listens has ended")??;
                load.keep(spawn("connect", number, Box::new(move |shard| Box::pin(call(shard, address))))?);
            }
            Threads::Together(_) => {
                let both = |shard: Rc<Shard>| async move {
                    tokio::task::spawn_local(listen(Rc::clone(&shard)));
                    if let Ok(Ok(address)) = told.await {
                        call(shard, address).await;
                    }
                };
                load.keep(spawn("pairs", number, Box::new(move |shard| Box::pin(both(shard))))?);
            }
        }
    }
    Ok(load)
}

/// What a thread runs.
type Main = Box<dyn FnOnce(Rc<Shard>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// Listens, and hands over what is accepted and when to begin.
async fn serve<H: Host>(
    shard: Rc<Shard>,
    sessions_max: usize,
    tell: oneshot::Sender<io::Result<SocketAddr>>,
    mut go: Go,
    host: H,
) {
    let config = ListenConfig { sessions_max, ..ListenConfig::new("127.0.0.1:0") };
    let listener = match Listener::bind(&config, Arc::clone(shard.counters())).await {
        Ok(listener) => listener,
        Err(error) => return drop(tell.send(Err(error))),
    };
    let _ = tell.send(listener.local_addr());
    loop {
        tokio::select! {
            accepted = listener.accept() => host.accepted(accepted),
            changed = go.changed.changed() => match changed {
                Ok(()) => host.turned(),
                Err(_) => return,
            },
        }
    }
}

/// Connects one after the other, and hands them over.
async fn call<G: Guest>(address: SocketAddr, sessions: usize, guest: G, counts: Arc<Counts>) {
    let target = Target::new(address.to_string());
    for _ in 0..sessions {
        let Ok(stream) = dial(&target).await else { return counts.count_broken() };
        guest.connected(stream);
    }
    std::future::pending().await
}
