use super::{FrameNumber, INPUT_MAX, OUTPUT_MAX, SharedFrame, SocketShards};
use crate::tests::echo::{Echo, Heard};
use crate::tests::{Notes, pair, run};
use crate::{Carrier, Clock, Closed, Connection, Counters, Limits, Session, Shard, ShardThread};
use proptest::prelude::*;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

const STALL: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(5);

/// A session and the socket shards for its connection.
fn placed(machine: Echo, near: impl Into<Connection>) -> (Session<Echo>, Connection, SocketShards) {
    let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
    let shards = SocketShards::local(&shard, 2, STALL);
    let limits = Limits { linger: PATIENCE, ..Limits::default() };
    let session = Session::new(&shard, machine, limits);
    let connection = shards.place(near.into()).unwrap();
    assert!(connection.is_remote());
    (session, connection, shards)
}

/// All that a shard was told is done, and its connections are gone.
async fn settled(shards: &SocketShards) {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    for status in shards.status() {
        assert_eq!((status.connections, status.refusing), (0, 0));
        assert!(status.waiting <= 8, "{status:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_chunking_is_echoed(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..3000), 1..20), bite in 50..5000_usize) {
        let echoed = run(async {
            let (near, mut far) = pair().await;
            let (session, near, shards) = placed(Echo { bite, ..Echo::default() }, near);
            let peer = async {
                let mut echoed = Vec::new();
                for chunk in &chunks {
                    far.write_all(chunk).await.unwrap();
                    let start = echoed.len();
                    echoed.resize(start + chunk.len(), 0);
                    far.read_exact(&mut echoed[start..]).await.unwrap();
                }
                drop(far);
                echoed
            };
            let mut notes = Notes::default();
            let (echoed, why) = tokio::join!(peer, session.run(near, &mut notes));
            assert_eq!(why, Closed::Peer);
            settled(&shards).await;
            echoed
        });
        prop_assert_eq!(echoed, chunks.concat());
    }
}

#[test]
fn a_slow_peer_gets_every_byte_in_order_and_its_last_words() {
    run(async {
        let (near, mut far) = pair().await;
        let (session, near, shards) = placed(Echo { last_word: Some(255), ..Echo::default() }, near);
        let said: Vec<u8> = (0..4_000_000_u32).map(|i| u8::try_from(i % 251).unwrap()).chain([255]).collect();
        let expect = said.clone();
        let (mut reader, mut writer) = far.split();
        let talk = async { writer.write_all(&said).await.unwrap() };
        let listen = async {
            let mut heard = Vec::new();
            reader.read_to_end(&mut heard).await.unwrap();
            heard
        };
        let mut notes = Notes::default();
        let (why, (), heard) = tokio::join!(session.run(near, &mut notes), talk, listen);
        assert_eq!(why, Closed::Machine);
        assert!(heard == expect, "{} of {} bytes", heard.len(), expect.len());
        drop(far);
        settled(&shards).await;
        assert_eq!(session.shard().counters().lingering_closes.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_peer_that_does_not_read_is_closed_in_time_and_takes_little() {
    run(async {
        let (near, far) = pair().await;
        let (session, near, shards) = placed(Echo { chatter: 1000, ..Echo::default() }, near);
        let start = session.shard().now().mono;
        assert_eq!(session.run(near, &mut Notes::default()).await, Closed::Slow);
        let took = session.shard().now().mono.since(start);
        assert!((STALL..STALL + Duration::from_secs(3)).contains(&took), "{took:?}");
        let counters = session.shard().counters();
        assert_eq!(counters.closed_slow.load(Ordering::Relaxed), 1);
        settled(&shards).await;
        drop(far);
    });
}

#[test]
fn an_end_without_a_linger_closes_the_socket() {
    run(async {
        let (near, mut far) = pair().await;
        let (session, near, shards) = placed(Echo::default(), near);
        let other = session.clone();
        let peer = async {
            far.write_all(b"x").await.unwrap();
            let mut answer = [0; 1];
            far.read_exact(&mut answer).await.unwrap();
            other.close();
            far.read(&mut answer).await.unwrap()
        };
        let mut notes = Notes::default();
        let (why, rest) = tokio::join!(session.run(near, &mut notes), peer);
        assert_eq!((why, rest), (Closed::Owner, 0));
        settled(&shards).await;
    });
}

#[test]
fn connections_go_to_the_shard_with_the_fewest() {
    run(async {
        let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
        let shards = SocketShards::local(&shard, 3, STALL);
        let mut held = Vec::new();
        for _ in 0..7 {
            let (near, far) = pair().await;
            held.push((shards.place(near.into()).unwrap(), far));
        }
        let counts: Vec<_> = shards.status().map(|status| status.connections).collect();
        assert_eq!(counts, [3, 2, 2]);
        held.clear();
        settled(&shards).await;
    });
}

/// A socket of a test: takes what it is told, and writes down when.
#[derive(Debug)]
struct Socket {
    name: u8,
    takes: usize,
    log: Arc<std::sync::Mutex<Vec<u8>>>,
}

impl Carrier for Socket {
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.takes > 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn offer(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.takes == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = bytes.len().min(self.takes);
        self.takes -= taken;
        self.log.lock().unwrap().push(self.name);
        Ok(taken)
    }
}

/// Lets the shards do what they were told.
async fn rounds() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn what_is_urgent_goes_before_what_waits_for_others() {
    run(async {
        let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
        let shards = SocketShards::local(&shard, 1, STALL);
        let log = Arc::<std::sync::Mutex<Vec<u8>>>::default();
        let mut near: Vec<Connection> = (0..5)
            .map(|name| {
                let socket = Socket { name, takes: usize::MAX, log: Arc::clone(&log) };
                shards.place(Connection::from(Box::new(socket) as Box<dyn Carrier>)).unwrap()
            })
            .collect();
        rounds().await;
        for (number, connection) in near.iter_mut().enumerate() {
            connection.offer(b"a").unwrap();
            if number == 2 {
                connection.offer(b"b").unwrap();
            }
        }
        // Its own earlier bytes go first, and all at once; then the others.
        near[2].mark_urgent();
        near[2].offer(b"c").unwrap();
        rounds().await;
        assert_eq!(*log.lock().unwrap(), [2, 0, 1, 3, 4]);
    });
}

#[test]
fn a_socket_that_refuses_is_given_no_more_than_its_window_and_others_go_on() {
    run(async {
        let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
        let shards = SocketShards::local(&shard, 1, STALL);
        let log = Arc::<std::sync::Mutex<Vec<u8>>>::default();
        let place = |name, takes| {
            let socket = Socket { name, takes, log: Arc::clone(&log) };
            shards.place(Connection::from(Box::new(socket) as Box<dyn Carrier>)).unwrap()
        };
        let (mut stuck, mut free) = (place(0, 10), place(1, usize::MAX));
        let mut given = 0;
        for turn in 0..400 {
            while let Some(taken) = stuck.offer(&[0; 1000]).unwrap() {
                given += taken;
            }
            while let Some(taken) = free.offer(&[0; 1000]).unwrap() {
                assert!(turn < 400 && taken == 1000);
            }
            std::future::poll_fn(|cx| free.poll_write_ready(cx)).await.unwrap();
            rounds().await;
        }
        assert!(given <= OUTPUT_MAX + 1000, "{given}");
        assert_eq!(shards.status().next().unwrap().refusing, 1);
        assert!(log.lock().unwrap().iter().filter(|name| **name == 1).count() >= 200);
    });
}

fn frame(bytes: &[u8]) -> SharedFrame<'_> {
    SharedFrame::new(bytes, FrameNumber::next())
}

/// They keep their place among what the session says itself.
#[test]
fn frames_go_past_a_session_until_something_else_is_done_with_it() {
    run(async {
        let (near, mut far) = pair().await;
        let (session, near, _shards) = placed(Echo::default(), near);
        assert!(session.open_passage(4).is_none(), "there is no connection");
        let talk = async {
            let mut heard = [0; 6];
            far.write_all(b"a").await.unwrap();
            far.read_exact(&mut heard[..1]).await.unwrap();
            let passage = session.open_passage(4).unwrap();
            let took = [b"b".as_slice(), b"cd", b"more than four"].map(|bytes| passage.write(frame(bytes), false));
            assert_eq!(took, [true, true, false]);
            let traffic = session.traffic();
            assert_eq!((traffic.bytes_out, traffic.writes, traffic.messages_out), (4, 3, 3));
            session.send(|echo, _| echo.output.push_back(b"e".to_vec()));
            assert!(!passage.write(frame(b"-"), false), "it was called");
            let passage = session.open_passage(4).unwrap();
            assert!(passage.write(frame(b"f"), true));
            session.close_passage();
            assert!(!passage.write(frame(b"-"), false), "it was closed");
            assert_eq!(session.traffic().messages_out, 5);
            far.read_exact(&mut heard[1..]).await.unwrap();
            assert_eq!(&heard, b"abcdef");
            let passage = session.open_passage(4).unwrap();
            far.write_all(b"g").await.unwrap();
            far.read_exact(&mut heard[..1]).await.unwrap();
            assert!(!passage.write(frame(b"-"), false), "it had input");
            drop(session.open_passage(4).unwrap());
            drop(far);
        };
        let mut notes = Notes::default();
        let ((), why) = tokio::join!(talk, session.run(near, &mut notes));
        assert_eq!((why, session.traffic().bytes_out), (Closed::Peer, 7));
    });
}

/// What is urgent goes first, and a frame of many connections is what each of them gets.
#[test]
fn frames_past_sessions_are_sorted_by_urgency_and_shared() {
    run(async {
        let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
        let shards = SocketShards::local(&shard, 1, STALL);
        let log = Arc::<std::sync::Mutex<Vec<u8>>>::default();
        let socket = Socket { name: 0, takes: usize::MAX, log: Arc::clone(&log) };
        let other = shards.place(Connection::from(Box::new(socket) as Box<dyn Carrier>)).unwrap();
        let mut ends = Vec::new();
        for _ in 0..2 {
            let (near, far) = pair().await;
            ends.push((shards.place(near.into()).unwrap(), far));
        }
        rounds().await;
        let passages: Vec<_> = ends.iter().map(|(near, _)| near.remote().unwrap().open_passage(9).unwrap()).collect();
        let other = other.remote().unwrap().open_passage(9).unwrap();
        let shared = frame(b"shared");
        assert!(other.write(shared, false));
        assert!(passages.iter().all(|passage| passage.write(shared, false)));
        assert!(ends[1].0.offer(b" own").unwrap() == Some(4));
        assert!(passages.iter().all(|passage| passage.write(shared, true)));
        for (number, (_, far)) in ends.iter_mut().enumerate() {
            let expect: &[u8] = if number == 0 { b"sharedshared" } else { b"shared ownshared" };
            let mut heard = vec![0; expect.len()];
            far.read_exact(&mut heard).await.unwrap();
            assert_eq!(heard, expect);
        }
        assert_eq!(*log.lock().unwrap(), [0]);
    });
}

#[test]
fn a_passage_has_the_window_of_its_connection_and_ends_with_it() {
    run(async {
        let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
        let shards = SocketShards::local(&shard, 1, STALL);
        let log = Arc::<std::sync::Mutex<Vec<u8>>>::default();
        let place = |name| {
            let socket = Socket { name, takes: usize::MAX, log: Arc::clone(&log) };
            shards.place(Connection::from(Box::new(socket) as Box<dyn Carrier>)).unwrap()
        };
        let first = place(0);
        rounds().await;
        let passage = first.remote().unwrap().open_passage(1000).unwrap();
        let shared = frame(&[0; 1000]);
        let given = (0..400).filter(|_| passage.write(shared, false)).count();
        assert_eq!(given, OUTPUT_MAX.div_ceil(1000));
        rounds().await;
        drop(first);
        assert!(!passage.write(shared, false));
        rounds().await;
        log.lock().unwrap().clear();
        // It has the number of the first.
        let second = place(1);
        rounds().await;
        let own = second.remote().unwrap().open_passage(1000).unwrap();
        assert_eq!((passage.write(shared, false), own.write(shared, false)), (false, true));
        rounds().await;
        assert_eq!(*log.lock().unwrap(), [1]);
    });
}

#[test]
fn a_session_that_takes_nothing_stops_the_reading() {
    run(async {
        let (near, mut far) = pair().await;
        let (session, near, _shards) = placed(Echo { waiting: true, room: 1, ..Echo::default() }, near);
        let counters = Arc::clone(session.shard().counters());
        let flood = async {
            let sent = async { while far.write_all(&[7; 65_536]).await.is_ok() {} };
            let _ = tokio::time::timeout(Duration::from_secs(5), sent).await;
        };
        let mut notes = Notes::default();
        tokio::select! {
            _ = session.run(near, &mut notes) => panic!("it goes on"),
            () = flood => {}
        }
        let heard: usize = notes.events.iter().map(|(_, e)| if let Heard::Bytes(n) = e { *n } else { 0 }).sum();
        assert!(heard <= 2 * INPUT_MAX, "{heard}");
        assert!(counters.bytes_in.load(Ordering::Relaxed) <= 2 * INPUT_MAX as u64);
    });
}

/// Sessions on one thread, their sockets on two others.
#[test]
fn threads_serve_the_sessions_of_another() {
    let (said, address) = std::sync::mpsc::channel();
    let counters = Arc::<Counters>::default();
    let body = move |shard: Rc<Shard>| async move {
        let about = (shard.clock(), shard.counters(), STALL);
        let (shards, _threads) = SocketShards::start("sockets", 2, about).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        said.send(listener.local_addr().unwrap()).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let connection = shards.place(stream.into()).unwrap();
            let session = Session::new(&shard, Echo::default(), Limits::default());
            tokio::task::spawn_local(async move { session.run(connection, &mut Notes::default()).await });
        }
    };
    let owner = ShardThread::spawn("owner", Clock::start(), Arc::clone(&counters), body).unwrap();
    let address = address.recv().unwrap();
    let clients = (0..8).map(|number: u8| {
        std::thread::spawn(move || {
            use std::io::{Read, Write};
            let mut peer = std::net::TcpStream::connect(address).unwrap();
            for round in 0..200_usize {
                let said = vec![number; 1 + round * 37];
                let mut answer = vec![0; said.len()];
                peer.write_all(&said).unwrap();
                peer.read_exact(&mut answer).unwrap();
                assert_eq!(answer, said);
            }
            peer
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut peers: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    drop(owner);
    for peer in &mut peers {
        use std::io::Read;
        assert_eq!(peer.read(&mut [0; 1]).unwrap_or(0), 0, "the owner's end closes the sockets");
    }
}

/// A shard that ends takes its connections with it, and no session waits for it.
#[test]
fn a_shard_that_is_gone_ends_its_connections() {
    run(async {
        let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
        let about = (shard.clock(), shard.counters(), STALL);
        let (shards, threads) = SocketShards::start("sockets", 1, about).unwrap();
        let (near, _far): (TcpStream, TcpStream) = pair().await;
        let connection = shards.place(near.into()).unwrap();
        let session = Session::new(&shard, Echo::default(), Limits::default());
        drop(threads);
        assert_eq!(session.run(connection, &mut Notes::default()).await, Closed::Io(io::ErrorKind::ConnectionAborted));
        shards.ended().await;
    });
}

/// A socket whose system call does not come back until it is let go.
#[derive(Debug)]
struct Hangs(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

impl Carrier for Hangs {
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn offer(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.lock().unwrap().recv();
        Ok(bytes.len())
    }
}

#[test]
fn a_shard_that_is_stuck_delays_no_other_and_takes_no_more_than_its_windows() {
    run(async {
        let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
        let about = (shard.clock(), shard.counters(), STALL);
        let (shards, threads) = SocketShards::start("sockets", 2, about).unwrap();
        let (release, held) = std::sync::mpsc::channel();
        let hangs: Box<dyn Carrier> = Box::new(Hangs(std::sync::Mutex::new(held)));
        let mut stuck = shards.place(Connection::from(hangs)).unwrap();
        if let Some(opened) = stuck.handshake() {
            opened.await.unwrap();
        }
        let (near, mut far) = pair().await;
        let session = Session::new(&shard, Echo::default(), Limits::default());
        let near = shards.place(near.into()).unwrap();
        let mut given = 0;
        let talk = async {
            let mut answer = [0; 100];
            for _ in 0..400 {
                given += stuck.offer(&[0; 1000]).unwrap().unwrap_or(0);
                far.write_all(&[7; 100]).await.unwrap();
                far.read_exact(&mut answer).await.unwrap();
            }
            drop(far);
        };
        let mut notes = Notes::default();
        let ((), why) = tokio::join!(talk, session.run(near, &mut notes));
        assert_eq!(why, Closed::Peer);
        let waiting: Vec<_> = shards.status().map(|status| status.waiting).collect();
        assert!(waiting[0] > 100 && waiting[1] < 20, "{waiting:?}");
        assert!(given <= OUTPUT_MAX + 1000, "{given}");
        drop(release);
        drop(threads);
    });
}
