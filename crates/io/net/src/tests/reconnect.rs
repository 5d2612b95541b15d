use super::echo::{Echo, Heard};
use super::{Notes, run, session};
use crate::{Backoff, Closed, Jitter, Limits, Target, keep_connected};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};

/// A peer that refuses connections, and takes them after so many failures.
struct Late {
    target: Target,
    listener: Rc<RefCell<Option<TcpListener>>>,
    notes: Notes,
}

impl Late {
    fn after(failures_max: usize) -> Self {
        // Bound without listening: the port is ours, and connections are refused.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let target = Target::new(socket.local_addr().unwrap().to_string());
        let listener: Rc<RefCell<Option<TcpListener>>> = Rc::default();
        let (mut socket, listening) = (Some(socket), Rc::clone(&listener));
        let on_retry = Box::new(move |failures| {
            if failures == failures_max {
                *listening.borrow_mut() = socket.take().map(|socket| socket.listen(8).unwrap());
            }
        });
        Self { target, listener, notes: Notes { on_retry: Some(on_retry), ..Notes::default() } }
    }
}

#[test]
fn waits_double_up_to_the_longest() {
    let backoff = Backoff::default();
    let mut jitter = Jitter::new(1);
    for (failures, full) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (100, 60), (u32::MAX, 60)] {
        let (full, delay) = (Duration::from_secs(full), backoff.delay(failures, &mut jitter));
        assert!(delay <= full && delay > full.mul_f64(0.74), "{failures} failures: {delay:?} of {full:?}");
    }
}

#[test]
fn a_listener_that_comes_late_is_found() {
    run(async {
        let Late { target, listener, mut notes } = Late::after(4);
        let session = session(Echo::default(), Limits::default());
        let peer = async {
            while !session.is_connected() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            let listener = listener.take().unwrap();
            drop(listener.accept().await.unwrap());
            while session.is_connected() {
                tokio::task::yield_now().await;
            }
            while !session.is_connected() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            session.close();
        };
        tokio::join!(keep_connected(&session, &target, 7, &mut notes), peer);
        let mut doubling = notes.retries.iter().zip([1.0, 2.0, 4.0, 8.0]);
        assert!(doubling.all(|(wait, full)| (0.74 * full..=full).contains(&wait.as_secs_f64())));
        assert_eq!(notes.retries.len(), 4);
        assert_eq!(notes.closed, [Closed::Peer, Closed::Owner]);
        assert_eq!((notes.connected, session.traffic().connections), (2, 2));
    });
}

/// A peer that was away for long, and is away again soon after it came, is found at once when it is back.
#[test]
fn a_connection_that_lasts_ends_the_long_waits() {
    run(async {
        // The next attempt is 32 s later.
        let Late { target, listener, mut notes } = Late::after(6);
        let session = session(Echo::default(), Limits::default());
        let mut away = None;
        let peer = async {
            while !session.is_connected() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            let listener = listener.take().unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            tokio::time::sleep(Duration::from_secs(11)).await;
            drop(stream);
            while session.is_connected() {
                tokio::task::yield_now().await;
            }
            let since = tokio::time::Instant::now();
            while !session.is_connected() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            away = Some(since.elapsed());
            session.close();
        };
        tokio::join!(keep_connected(&session, &target, 7, &mut notes), peer);
        assert!(away.unwrap() < Duration::from_secs(2), "{away:?}");
    });
}

#[test]
fn deadlines_and_calls_are_served_between_connections() {
    run(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let target = Target::new(socket.local_addr().unwrap().to_string());
        let session = session(Echo::default(), Limits::default());
        session.with(|echo, now| echo.deadline = Some(now.mono + Duration::from_secs(20)));
        let caller = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            session.with(|echo, _| echo.events.push_back(Heard::Called));
            tokio::time::sleep(Duration::from_secs(1)).await;
            session.close();
        };
        let mut notes = Notes::default();
        tokio::join!(keep_connected(&session, &target, 7, &mut notes), caller);
        let events: Vec<_> = notes.events.iter().map(|(_, e)| *e).collect();
        assert_eq!(events, [Heard::Timeout, Heard::Called]);
        assert_eq!(notes.connected, 0);
    });
}
