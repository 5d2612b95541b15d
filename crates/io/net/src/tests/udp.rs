use super::echo::{Echo, Heard};
use super::{Notes, run};
use crate::{
    Clock, Closed, ConnectOver, Counters, Datagrams, Limits, ListenConfig, ListenOver, Listener, Session, Shard,
    Target, UdpConnect, UdpListen, open,
};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::UdpSocket;

/// A unit is a byte with its length, itself included, and as many bytes.
fn whole(bytes: &[u8], bytes_max: usize) -> usize {
    let mut at = 0;
    while let Some(length) = bytes.get(at).copied().map(usize::from).filter(|length| *length > 0) {
        if bytes.len() < at + length || (at > 0 && at + length > bytes_max) {
            break;
        }
        at += length;
    }
    at
}

const UNITS: Datagrams = Datagrams { whole, bytes_max: 100 };

fn unit(length: u8, mark: u8) -> Vec<u8> {
    let mut unit = vec![mark; usize::from(length)];
    unit[0] = length;
    unit
}

fn listen(udp: UdpListen, sessions_max: usize) -> ListenConfig {
    ListenConfig { sessions_max, over: ListenOver::Udp(udp), ..ListenConfig::new("127.0.0.1:0") }
}

fn anyone() -> UdpListen {
    UdpListen { datagrams: UNITS, remotes: Vec::new(), silence: Duration::from_secs(60) }
}

/// A listener that echoes to every peer, for as long as it is polled.
async fn serve(listener: Listener, counters: Arc<Counters>) {
    let shard = Shard::new(Clock::start(), counters);
    loop {
        let accepted = listener.accept().await;
        let session = Session::new(&shard, Echo::default(), Limits::default());
        tokio::task::spawn_local(async move {
            let _place = accepted.place;
            assert_eq!(session.run(accepted.stream, &mut Notes::default()).await, Closed::Silent);
        });
    }
}

async fn serving(config: &ListenConfig) -> (SocketAddr, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let listener = Listener::bind(config, Arc::clone(&counters)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::task::spawn_local(serve(listener, Arc::clone(&counters)));
    (address, counters)
}

async fn peer(of: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(of).await.unwrap();
    socket
}

async fn heard(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 2000];
    let count = socket.recv(&mut buffer).await.unwrap();
    buffer[..count].to_vec()
}

#[test]
fn each_peer_has_its_session() {
    run(async {
        let (address, counters) = serving(&listen(anyone(), 2)).await;
        let (a, b, c) = (peer(address).await, peer(address).await, peer(address).await);
        a.send(&unit(10, 1)).await.unwrap();
        assert_eq!(heard(&a).await, unit(10, 1));
        b.send(&unit(20, 2)).await.unwrap();
        assert_eq!(heard(&b).await, unit(20, 2));
        // One more is refused; the others go on.
        c.send(&unit(30, 3)).await.unwrap();
        a.send(&unit(11, 4)).await.unwrap();
        assert_eq!(heard(&a).await, unit(11, 4));
        assert_eq!(counters.accepts.load(Ordering::Relaxed), 2);
        assert_eq!(counters.accepts_refused.load(Ordering::Relaxed), 1);
        // Silence frees a place.
        tokio::time::sleep(Duration::from_secs(61)).await;
        c.send(&unit(30, 3)).await.unwrap();
        assert_eq!(heard(&c).await, unit(30, 3));
    });
}

#[test]
fn what_is_no_message_makes_no_session_and_never_reaches_one() {
    run(async {
        let (address, counters) = serving(&listen(anyone(), 2)).await;
        let a = peer(address).await;
        a.send(&[0, 1, 2]).await.unwrap();
        a.send(&[]).await.unwrap();
        a.send(&unit(10, 1)).await.unwrap();
        assert_eq!(heard(&a).await, unit(10, 1));
        assert_eq!(counters.accepts_refused.load(Ordering::Relaxed), 2);
        a.send(&[0, 1, 2]).await.unwrap();
        a.send(&[]).await.unwrap();
        let cut = [unit(5, 7), vec![9, 1]].concat();
        a.send(&cut).await.unwrap();
        assert_eq!(heard(&a).await, unit(5, 7));
        assert_eq!(counters.datagrams_cut.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn strangers_are_not_heard() {
    run(async {
        let config = UdpListen { remotes: vec![[127, 0, 0, 2].into()], ..anyone() };
        let (address, counters) = serving(&listen(config, 8)).await;
        let unknown = peer(address).await;
        unknown.send(&unit(10, 1)).await.unwrap();
        let known = UdpSocket::bind("127.0.0.2:0").await.unwrap();
        known.connect(address).await.unwrap();
        known.send(&unit(10, 2)).await.unwrap();
        assert_eq!(heard(&known).await, unit(10, 2));
        assert_eq!(counters.accepts_refused.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_client_hears_its_peer_alone() {
    run(async {
        let far = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let local = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let over = ConnectOver::Udp(UdpConnect { datagrams: UNITS, local: Some(local) });
        let target = Target { over, ..Target::new(far.local_addr().unwrap().to_string()) };
        let counters = Arc::new(Counters::default());
        let shard = Shard::new(Clock::start(), Arc::clone(&counters));
        let session = Session::new(&shard, Echo { last_word: Some(255), ..Echo::default() }, Limits::default());
        let connection = open(&target, &counters).await.unwrap();
        let mut notes = Notes::default();
        let talk = async {
            let unknown = peer(local).await;
            unknown.send(&unit(9, 3)).await.unwrap();
            far.send_to(&unit(12, 4), local).await.unwrap();
            assert_eq!(heard(&far).await, unit(12, 4));
            far.send_to(&unit(2, 255), local).await.unwrap();
        };
        let (why, ()) = tokio::join!(session.run(connection, &mut notes), talk);
        assert_eq!(why, Closed::Machine);
        let events: Vec<_> = notes.events.iter().map(|(_, event)| *event).collect();
        assert_eq!(events, [Heard::Connected, Heard::Bytes(12), Heard::Bytes(2), Heard::Disconnected]);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_datagram_holds_whole_units(lengths in prop::collection::vec(1..=255_u8, 1..12)) {
        let units: Vec<Vec<u8>> = lengths.iter().zip(0..).map(|(length, mark)| unit(*length, mark)).collect();
        let received = run(async {
            let far = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let over = ConnectOver::Udp(UdpConnect { datagrams: UNITS, local: None });
            let target = Target { over, ..Target::new(far.local_addr().unwrap().to_string()) };
            let counters = Arc::new(Counters::default());
            let shard = Shard::new(Clock::start(), Arc::clone(&counters));
            let echo = Echo { output: [units.concat()].into(), ..Echo::default() };
            let session = Session::new(&shard, echo, Limits::default());
            let connection = open(&target, &counters).await.unwrap();
            let mut received: Vec<Vec<u8>> = Vec::new();
            let listen = async {
                while received.iter().map(Vec::len).sum::<usize>() < units.concat().len() {
                    received.push(heard(&far).await);
                }
                session.close();
            };
            let mut notes = Notes::default();
            tokio::join!(session.run(connection, &mut notes), listen);
            received
        });
        prop_assert_eq!(received.concat(), units.concat());
        for datagram in received {
            prop_assert_eq!(whole(&datagram, usize::MAX), datagram.len());
            prop_assert!(datagram.len() <= 100 || datagram.len() == usize::from(datagram[0]));
        }
    }
}
