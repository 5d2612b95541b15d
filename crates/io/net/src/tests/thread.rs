use super::Notes;
use super::echo::Echo;
use crate::{Clock, Closed, Limits, ListenConfig, Listener, Session, ShardThread};
use std::io::{Read, Write};
use std::sync::{Arc, mpsc};

#[test]
fn a_shard_serves_until_it_is_stopped() {
    let (said, address) = mpsc::channel();
    let counters = Arc::default();
    let shard = ShardThread::spawn("test-shard", Clock::start(), Arc::clone(&counters), |shard| async move {
        let config = ListenConfig::new("127.0.0.1:0");
        let listener = Listener::bind(&config, Arc::clone(shard.counters())).await.unwrap();
        said.send(listener.local_addr().unwrap()).unwrap();
        loop {
            let accepted = listener.accept().await;
            let session = Session::new(&shard, Echo::default(), Limits::default());
            tokio::task::spawn_local(async move {
                let why = session.run(accepted.stream, &mut Notes::default()).await;
                assert_eq!(why, Closed::Peer);
                drop(accepted.place);
            });
        }
    });
    let shard = shard.unwrap();
    let mut peer = std::net::TcpStream::connect(address.recv().unwrap()).unwrap();
    peer.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
    assert!(!shard.is_finished());
    drop(shard);
    assert_eq!(peer.read(&mut answer).unwrap(), 0);
    assert_eq!(counters.each().find(|(name, _)| *name == "bytes_in"), Some(("bytes_in", 5)));
}

#[test]
fn a_panic_reaches_who_joins() {
    let shard = ShardThread::spawn("test-shard", Clock::start(), Arc::default(), |_| async { panic!("for the test") });
    assert!(shard.unwrap().join().is_err());
}

#[test]
fn a_call_that_blocks_does_not_keep_a_shard() {
    let (release, held) = mpsc::channel::<()>();
    let (said, begun) = mpsc::channel();
    let shard = ShardThread::spawn("test-shard", Clock::start(), Arc::default(), |_| async move {
        let blocked = tokio::task::spawn_blocking(move || {
            said.send(()).unwrap();
            held.recv()
        });
        assert!(blocked.await.is_ok());
    });
    begun.recv().unwrap();
    drop(shard);
    drop(release);
}
