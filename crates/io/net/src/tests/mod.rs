mod descriptors;
pub(crate) mod echo;
mod endpoint;
mod linger;
mod packet;
mod receipts;
mod reconnect;
mod serial;
mod session;
mod tap;
mod thread;
mod udp;

use crate::{Clock, Closed, Counters, Limits, Owner, Peer, Session, Shard};
use echo::{Echo, Heard};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Now;
use tokio::net::{TcpListener, TcpStream};

/// Runs a test on a runtime like a shard's, in virtual time.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build_local(tokio::runtime::LocalOptions::default()).unwrap();
    runtime.block_on(test)
}

fn session(machine: Echo, limits: Limits) -> Session<Echo> {
    let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
    Session::new(&shard, machine, limits)
}

/// Both ends of a connection.
pub(crate) async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

/// An owner that writes down what it learns.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) events: Vec<(Duration, Heard)>,
    connected: usize,
    closed: Vec<Closed>,
    retries: Vec<Duration>,
    on_retry: Option<Box<dyn FnMut(usize)>>,
}

impl Owner<Echo> for Notes {
    fn event(&mut self, _: &Session<Echo>, now: Now, event: Heard) {
        self.events.push((Duration::from_nanos(now.mono.0), event));
    }

    fn connected(&mut self, _: &Session<Echo>, _: Now, _: &Peer) {
        self.connected += 1;
    }

    fn closed(&mut self, _: &Session<Echo>, _: Now, why: Closed) {
        self.closed.push(why);
    }

    fn connect_failed(&mut self, _: &Session<Echo>, _: Now, _: &std::io::Error, retry: Duration) {
        self.retries.push(retry);
        if let Some(act) = &mut self.on_retry {
            act(self.retries.len());
        }
    }
}
