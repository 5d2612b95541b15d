use super::run;
use crate::{Clock, Counters, DatagramMachine, Endpoint, EndpointOwner, Shard};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tieline_core::{Instant, Now};
use tokio::net::UdpSocket;

/// Sends back what it gets, tells who sent it, and writes to `beat` each second.
#[derive(Default)]
struct Mirror {
    out: VecDeque<(SocketAddr, Vec<u8>)>,
    heard: VecDeque<(SocketAddr, Vec<u8>)>,
    beat: Option<(Instant, SocketAddr)>,
}

impl DatagramMachine for Mirror {
    type Event = (SocketAddr, Vec<u8>);
    type Address = SocketAddr;

    fn handle_datagram(&mut self, _now: Now, from: SocketAddr, datagram: &[u8]) {
        self.out.push_back((from, datagram.to_vec()));
        self.heard.push_back((from, datagram.to_vec()));
    }

    fn handle_timeout(&mut self, now: Now) {
        if let Some((at, to)) = self.beat.filter(|(at, _)| *at <= now.mono) {
            self.out.push_back((to, b"beat".to_vec()));
            self.beat = Some((at + Duration::from_secs(1), to));
        }
    }

    fn timeout(&self) -> Option<Instant> {
        self.beat.map(|(at, _)| at)
    }

    fn poll_transmit(&mut self, _now: Now, out: &mut Vec<u8>) -> Option<SocketAddr> {
        let (to, datagram) = self.out.pop_front()?;
        out.extend(datagram);
        Some(to)
    }

    fn poll_event(&mut self, _now: Now) -> Option<Self::Event> {
        self.heard.pop_front()
    }
}

/// Answers what it learns once more.
struct Twice;

impl EndpointOwner<Mirror> for Twice {
    fn event(&mut self, endpoint: &Endpoint<Mirror>, _now: Now, (from, datagram): (SocketAddr, Vec<u8>)) {
        endpoint.with(|mirror, _| mirror.out.push_back((from, [b"told ", &*datagram].concat())));
    }
}

async fn started() -> (Endpoint<Mirror>, SocketAddr, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let shard: Rc<Shard> = Shard::new(Clock::start(), Arc::clone(&counters));
    let endpoint = Endpoint::new(&shard, Mirror::default());
    let (address, _task) = endpoint.start(([127, 0, 0, 1], 0).into(), None, Twice).await.unwrap();
    (endpoint, address, counters)
}

async fn heard(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 2000];
    let (count, _) = socket.recv_from(&mut buffer).await.unwrap();
    buffer[..count].to_vec()
}

#[test]
fn datagrams_go_where_the_machine_says() {
    run(async {
        let (_endpoint, address, counters) = started().await;
        let peers = [UdpSocket::bind("127.0.0.1:0").await.unwrap(), UdpSocket::bind("127.0.0.1:0").await.unwrap()];
        for (peer, words) in peers.iter().zip([b"one", b"two"]) {
            peer.send_to(words, address).await.unwrap();
        }
        for (peer, words) in peers.iter().zip([b"one", b"two"]) {
            let mut both = [heard(peer).await, heard(peer).await];
            let mut expect = [words.to_vec(), [b"told ", &words[..]].concat()];
            both.sort();
            expect.sort();
            assert_eq!(both, expect);
        }
        assert_eq!(counters.reads.load(Ordering::Relaxed), 2);
        assert_eq!(counters.messages_out.load(Ordering::Relaxed), 4);
    });
}

#[test]
fn a_closed_endpoint_sends_its_last_and_frees_its_address() {
    run(async {
        let shard: Rc<Shard> = Shard::new(Clock::start(), Arc::default());
        let endpoint = Endpoint::new(&shard, Mirror::default());
        let (address, task) = endpoint.start(([127, 0, 0, 1], 0).into(), None, Twice).await.unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let to = peer.local_addr().unwrap();
        endpoint.with(|mirror, _| mirror.out.push_back((to, b"last".to_vec())));
        endpoint.close();
        task.await.unwrap();
        assert_eq!(heard(&peer).await, b"last");
        UdpSocket::bind(address).await.unwrap();
    });
}

#[test]
fn more_than_a_batch_goes_out() {
    run(async {
        let (endpoint, _, _) = started().await;
        let peer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let to = peer.local_addr().unwrap();
        endpoint.with(|mirror, _| mirror.out.extend((0..200_u8).map(|number| (to, vec![number]))));
        for number in 0..200 {
            assert_eq!(heard(&peer).await, [number]);
        }
    });
}

#[test]
fn deadlines_are_kept_and_what_cannot_be_sent_is_counted() {
    run(async {
        let (endpoint, _, counters) = started().await;
        let peer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let to = peer.local_addr().unwrap();
        let nowhere = ([255, 255, 255, 255], 9).into();
        endpoint.with(|mirror, now| {
            mirror.out.push_back((nowhere, b"lost".to_vec()));
            mirror.beat = Some((now.mono + Duration::from_secs(1), to));
        });
        let start = tokio::time::Instant::now();
        for _ in 0..3 {
            assert_eq!(heard(&peer).await, b"beat");
        }
        assert!(start.elapsed() >= Duration::from_secs(3));
        assert_eq!(counters.datagrams_unsent.load(Ordering::Relaxed), 1);
    });
}
