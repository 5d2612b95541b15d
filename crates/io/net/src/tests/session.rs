use super::echo::{Echo, Heard};
use super::{Notes, pair, run, session};
use crate::{Closed, Counters, Limits, ListenConfig, Listener, Together};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_chunking_is_echoed(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..3000), 1..20), bite in 50..5000_usize) {
        let (echoed, notes) = run(async {
            let (near, mut far) = pair().await;
            let session = session(Echo { bite, ..Echo::default() }, Limits::default());
            let mut notes = Notes::default();
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
            let (echoed, why) = tokio::join!(peer, session.run(near, &mut notes));
            assert_eq!(why, Closed::Peer);
            (echoed, notes)
        });
        prop_assert_eq!(echoed, chunks.concat());
        let heard: usize = notes.events.iter().map(|(_, e)| if let Heard::Bytes(n) = e { *n } else { 0 }).sum();
        prop_assert_eq!(heard, chunks.concat().len());
        prop_assert_eq!(notes.events.first().map(|(_, e)| *e), Some(Heard::Connected));
        prop_assert_eq!(notes.events.last().map(|(_, e)| *e), Some(Heard::Disconnected));
    }
}

#[test]
fn an_exchange_is_one_read_and_one_write() {
    run(async {
        let (near, mut far) = pair().await;
        let session = session(Echo::default(), Limits::default());
        let peer = async {
            let mut answer = [0; 100];
            for _ in 0..50 {
                far.write_all(&[7; 100]).await.unwrap();
                far.read_exact(&mut answer).await.unwrap();
            }
            drop(far);
        };
        let mut notes = Notes::default();
        tokio::join!(peer, session.run(near, &mut notes));
        let traffic = session.traffic();
        assert_eq!((traffic.reads, traffic.writes, traffic.messages_out), (50, 50, 50));
        assert_eq!((traffic.bytes_in, traffic.bytes_out), (5000, 5000));
    });
}

#[test]
fn each_part_of_the_input_is_answered_before_the_next() {
    run(async {
        let (near, mut far) = pair().await;
        far.write_all(&[7; 40]).await.unwrap();
        let session = session(Echo { bite: 10, ..Echo::default() }, Limits::default());
        let peer = async {
            let mut answer = [0; 40];
            far.read_exact(&mut answer).await.unwrap();
            drop(far);
        };
        let mut notes = Notes::default();
        tokio::join!(peer, session.run(near, &mut notes));
        let traffic = session.traffic();
        assert_eq!((traffic.reads, traffic.messages_out), (1, 4));
        assert_eq!(session.look(|echo| echo.most_waiting), 1);
    });
}

#[test]
fn a_task_is_small() {
    run(async {
        let (near, _far) = pair().await;
        let session = session(Echo::default(), Limits::default());
        let (target, mut notes, mut other) = (crate::Target::new("127.0.0.1:1"), Notes::default(), Notes::default());
        let bytes = size_of_val(&session.run(near, &mut notes));
        assert!(bytes <= 384, "{bytes} bytes to run");
        let bytes = size_of_val(&crate::keep_connected(&session, &target, 1, &mut other));
        assert!(bytes <= 1536, "{bytes} bytes to keep connected");
    });
}

#[test]
fn a_peer_that_does_not_read_is_closed() {
    let check = |chatter, unsent_bytes_max, expect| {
        run(async {
            let (near, far) = pair().await;
            let limits = Limits { unsent_bytes_max, ..Limits::default() };
            let session = session(Echo { chatter, ..Echo::default() }, limits);
            let why = session.run(near, &mut Notes::default()).await;
            assert_eq!(why, expect);
            let slow = session.shard().counters().closed_slow.load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(slow, 1);
            drop(far);
        });
    };
    check(1000, 256 * 1024, Closed::Slow);
    check(100_000, 1000, Closed::Full);
}

#[test]
fn a_slow_peer_gets_every_byte_in_order() {
    run(async {
        let (near, mut far) = pair().await;
        let session = session(Echo { last_word: Some(255), ..Echo::default() }, Limits::default());
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
    });
}

#[test]
fn a_machine_that_takes_nothing_is_closed() {
    run(async {
        let (near, mut far) = pair().await;
        far.write_all(b"x").await.unwrap();
        let session = session(Echo { bite: 0, ..Echo::default() }, Limits::default());
        assert_eq!(session.run(near, &mut Notes::default()).await, Closed::Stuck);
    });
}

/// While it waits for its owner no more is read than was; then all is there, in order.
#[test]
fn a_machine_that_waits_is_given_the_rest_later() {
    run(async {
        let (near, far) = pair().await;
        let machine = Echo { room: 2, bite: 100, waiting: true, ..Echo::default() };
        let session = session(machine, Limits::default());
        let said: Vec<u8> = (0..100_000_u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let (mut reader, mut writer) = far.into_split();
        let talk = async {
            writer.write_all(&said).await.unwrap();
            writer
        };
        let listen = async {
            let mut heard = vec![0; said.len()];
            // Virtual time goes on when nobody has anything to do.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let traffic = session.traffic();
            assert!(traffic.reads == 1 && traffic.bytes_out == 0, "{traffic:?} while it waits");
            session.send(|echo, _| echo.waiting = false);
            reader.read_exact(&mut heard[..1000]).await.unwrap();
            session.send(|echo, _| echo.waiting = true);
            tokio::time::sleep(Duration::from_secs(1)).await;
            session.send(|echo, _| echo.waiting = false);
            reader.read_exact(&mut heard[1000..]).await.unwrap();
            session.close();
            heard
        };
        let mut notes = Notes::default();
        let (why, _writer, heard) = tokio::join!(session.run(near, &mut notes), talk, listen);
        assert_eq!(why, Closed::Owner);
        assert!(heard == said);
    });
}

#[test]
fn a_peer_that_asks_and_does_not_read_is_closed_as_one() {
    run(async {
        let (near, mut far) = pair().await;
        let session = session(Echo { room: 2, ..Echo::default() }, Limits::default());
        let asks = async { while far.write_all(&[7; 65_536]).await.is_ok() {} };
        let mut notes = Notes::default();
        let (why, ()) = tokio::join!(session.run(near, &mut notes), asks);
        assert_eq!(why, Closed::Full);
        assert_eq!(session.shard().counters().closed_slow.load(std::sync::atomic::Ordering::Relaxed), 1);
    });
}

#[test]
fn a_deadline_that_moves_fires_once_and_in_time() {
    run(async {
        let (near, mut far) = pair().await;
        let idle = Duration::from_secs(10);
        let session = session(Echo { idle: Some(idle), ..Echo::default() }, Limits::default());
        let start = session.shard().now().mono;
        let peer = async {
            for _ in 0..5 {
                far.write_all(b"x").await.unwrap();
                far.read_u8().await.unwrap();
                tokio::time::advance(Duration::from_secs(4)).await;
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            session.close();
        };
        let mut notes = Notes::default();
        let ((), why) = tokio::join!(peer, session.run(near, &mut notes));
        assert_eq!(why, Closed::Owner);
        let fired: Vec<_> = notes.events.iter().filter(|(_, e)| *e == Heard::Timeout).map(|(at, _)| *at).collect();
        let expect = Duration::from_nanos(start.0) + Duration::from_secs(4 * 4 + 10);
        let [at] = *fired else { panic!("{fired:?}") };
        assert!(at >= expect && at < expect + Duration::from_millis(10), "{at:?}, expected {expect:?}");
    });
}

#[test]
fn a_deadline_that_never_moves_does_not_spin() {
    run(async {
        let (near, far) = pair().await;
        let session = session(Echo { stubborn: true, ..Echo::default() }, Limits::default());
        session.with(|echo, now| echo.deadline = Some(now.mono + Duration::from_secs(1)));
        let mut notes = Notes::default();
        let peer = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            drop(far);
        };
        let ((), why) = tokio::join!(peer, session.run(near, &mut notes));
        assert_eq!(why, Closed::Peer);
        // Virtual time runs on while the end of the connection is on its way: only the second before it counts.
        let in_time = |(at, event): &&(Duration, Heard)| *event == Heard::Timeout && *at < Duration::from_secs(2);
        let fired = notes.events.iter().filter(in_time).count();
        assert!((2..=1002).contains(&fired), "{fired} times in a second");
    });
}

#[test]
fn calls_reach_the_peer_and_their_events_the_owner() {
    run(async {
        let (near, mut far) = pair().await;
        let session = session(Echo::default(), Limits::default());
        let caller = async {
            let mut word = [0; 5];
            session.with(|echo, _| {
                echo.output.push_back(b"first".to_vec());
                echo.events.push_back(Heard::Called);
            });
            far.read_exact(&mut word).await.unwrap();
            assert_eq!(&word, b"first");
            session.send(|echo, _| echo.output.push_back(b"other".to_vec()));
            far.read_exact(&mut word).await.unwrap();
            assert_eq!(&word, b"other");
            session.close();
        };
        let mut notes = Notes::default();
        let (why, ()) = tokio::join!(session.run(near, &mut notes), caller);
        assert_eq!(why, Closed::Owner);
        let events: Vec<_> = notes.events.iter().map(|(_, e)| *e).collect();
        assert_eq!(events, [Heard::Connected, Heard::Called, Heard::Disconnected]);
    });
}

#[test]
fn a_later_connection_replaces_the_current_one() {
    run(async {
        let ((near, _far), (next, mut next_far)) = tokio::join!(pair(), pair());
        let session = session(Echo::default(), Limits::default());
        let (mut first, mut second) = (Notes::default(), Notes::default());
        let talk = async {
            next_far.write_all(b"hi").await.unwrap();
            let mut answer = [0; 2];
            next_far.read_exact(&mut answer).await.unwrap();
            drop(next_far);
            answer
        };
        let (why, next_why, answer) = tokio::join!(session.run(near, &mut first), session.run(next, &mut second), talk);
        assert_eq!((why, next_why, &answer), (Closed::Replaced, Closed::Peer, b"hi"));
        assert_eq!((first.connected, second.connected, session.traffic().connections), (1, 1, 2));
    });
}

#[test]
fn a_dropped_driver_disconnects_the_machine() {
    run(async {
        let (near, mut far) = pair().await;
        let session = session(Echo::default(), Limits::default());
        let cut = tokio::time::timeout(Duration::from_secs(1), session.run(near, &mut Notes::default())).await;
        assert!(cut.is_err());
        assert!(!session.is_connected());
        assert_eq!(session.look(|echo| echo.events.back().copied()), Some(Heard::Disconnected));
        assert_eq!(far.read(&mut [0]).await.unwrap(), 0);
    });
}

#[test]
fn a_listener_keeps_to_its_limit() {
    run(async {
        let counters = Arc::default();
        let config = ListenConfig { sessions_max: 1, ..ListenConfig::new("127.0.0.1:0") };
        let listener = Listener::bind(&config, Arc::clone(&counters)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let _first = TcpStream::connect(address).await.unwrap();
        let accepted = listener.accept().await;
        let mut refused = TcpStream::connect(address).await.unwrap();
        let mut byte = [0];
        let seen = tokio::select! {
            _ = listener.accept() => panic!("beyond the limit"),
            seen = refused.read(&mut byte) => seen.unwrap(),
        };
        assert_eq!((seen, listener.sessions()), (0, 1));
        drop(accepted);
        assert_eq!(listener.sessions(), 0);
        let _third = TcpStream::connect(address).await.unwrap();
        let _accepted = listener.accept().await;
        let counted: Vec<_> = counters.each().filter(|(name, n)| name.starts_with("accept") && *n > 0).collect();
        assert_eq!(counted, [("accepts", 2), ("accepts_refused", 1)]);
    });
}

/// One beyond the limit is handed out to be told so; the next waits until that is done, and comes in where there is room.
#[test]
fn a_listener_hands_out_who_is_to_be_refused() {
    run(async {
        let counters = Arc::default();
        let config = ListenConfig { sessions_max: 1, refusals_max: 1, ..ListenConfig::new("127.0.0.1:0") };
        let listener = Listener::bind(&config, Arc::clone(&counters)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let come = || TcpStream::connect(address);
        let mut near = Vec::new();
        let mut accept = async |over| {
            near.push(come().await.unwrap());
            let accepted = listener.accept().await;
            assert_eq!((accepted.is_over(), listener.sessions()), (over, 1));
            accepted
        };
        let first = accept(false).await;
        let refused = accept(true).await;
        drop(refused);
        let refused = accept(true).await;
        let _waits = come().await.unwrap();
        let mut next = std::pin::pin!(listener.accept());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for _ in 0..100 {
            assert!(next.as_mut().poll(&mut context).is_pending());
            tokio::task::yield_now().await;
        }
        drop((first, refused));
        assert!(!next.await.is_over());
        let counted: Vec<_> = counters.each().filter(|(name, n)| name.starts_with("accept") && *n > 0).collect();
        assert_eq!(counted, [("accepts", 2), ("accepts_refused", 2)]);
    });
}

#[test]
fn listeners_keep_to_a_limit_of_all_and_to_their_own() {
    run(async {
        let together = Together::new(2);
        let listen = |sessions_max| {
            let together = Some(Arc::clone(&together));
            ListenConfig { sessions_max, together, ..ListenConfig::new("127.0.0.1:0") }
        };
        let counters: Arc<Counters> = Arc::default();
        let narrow = Listener::bind(&listen(1), Arc::clone(&counters)).await.unwrap();
        let wide = Listener::bind(&listen(usize::MAX), Arc::clone(&counters)).await.unwrap();
        // A connection to one of them that is taken, or closed at once.
        let try_one = async |listener: &Listener| {
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let mut byte = [0];
            tokio::select! {
                accepted = listener.accept() => Some((accepted, near)),
                seen = near.read(&mut byte) => {
                    assert_eq!(seen.unwrap(), 0);
                    None
                }
            }
        };
        let first = try_one(&narrow).await.unwrap();
        assert!(try_one(&narrow).await.is_none());
        let second = try_one(&wide).await.unwrap();
        assert!(try_one(&wide).await.is_none());
        assert_eq!((together.sessions(), narrow.sessions(), wide.sessions()), (2, 1, 1));
        drop(first);
        let third = try_one(&wide).await.unwrap();
        // There is room at its own door, and none in all.
        assert!(try_one(&narrow).await.is_none());
        drop((second, third));
        assert_eq!((together.sessions(), narrow.sessions(), wide.sessions()), (0, 0, 0));
    });
}
