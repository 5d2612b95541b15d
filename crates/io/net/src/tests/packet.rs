use super::run;
use crate::{Clock, Counters, DatagramMachine, Endpoint, EndpointOwner, Marks, PacketSocket, Shard};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::{Instant, Now};
use tokio::sync::mpsc;

/// A type for experiments (IEEE 802).
const TYPE: u16 = 0x88B5;
const GROUP: [u8; 6] = [0x01, 0x0C, 0xCD, 0x01, 0x01, 0xFF];

/// A socket on the loopback interface; none, with a word, where the process may not have one.
fn open() -> Option<Rc<PacketSocket>> {
    match PacketSocket::open("lo", TYPE) {
        Ok(socket) => Some(Rc::new(socket)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Sends what it is given, and tells what comes.
#[derive(Default)]
struct Frames {
    out: VecDeque<Vec<u8>>,
    heard: VecDeque<Vec<u8>>,
}

impl DatagramMachine for Frames {
    type Event = Vec<u8>;
    type Address = ();

    fn handle_datagram(&mut self, _now: Now, (): (), datagram: &[u8]) {
        self.heard.push_back(datagram.to_vec());
    }

    fn handle_timeout(&mut self, _now: Now) {}

    fn timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_transmit(&mut self, _now: Now, out: &mut Vec<u8>) -> Option<()> {
        out.extend(self.out.pop_front()?);
        Some(())
    }

    fn poll_event(&mut self, _now: Now) -> Option<Vec<u8>> {
        self.heard.pop_front()
    }
}

struct Tell(mpsc::UnboundedSender<Vec<u8>>);

impl EndpointOwner<Frames> for Tell {
    fn event(&mut self, _endpoint: &Endpoint<Frames>, _now: Now, event: Vec<u8>) {
        self.0.send(event).unwrap();
    }
}

fn frame(ether_type: u16, words: &[u8]) -> Vec<u8> {
    [&GROUP[..], &[2, 0, 0, 0, 0, 1], &ether_type.to_be_bytes(), words].concat()
}

#[test]
fn frames_of_one_type_come_once() {
    run(async {
        let Some(socket) = open() else { return };
        let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
        let endpoint = Endpoint::new(&shard, Frames::default());
        let (tell, mut told) = mpsc::unbounded_channel();
        let task = endpoint.start_packets(socket, Some(Marks::PROTECTION), Tell(tell)).unwrap();
        endpoint.with(|machine, _| {
            machine.out.extend([frame(0x88B6, b"another type"), frame(TYPE, b"one"), frame(TYPE, b"two")]);
        });
        // What is sent on the loopback interface comes back to it, and not as what was sent besides.
        for words in [b"one", b"two"] {
            assert_eq!(told.recv().await.unwrap(), frame(TYPE, words));
        }
        endpoint.close();
        task.await.unwrap();
        assert!(told.recv().await.is_none());
    });
}

#[test]
fn a_group_is_joined_until_all_have_left_it() {
    run(async {
        let Some(socket) = open() else { return };
        let members = || {
            let all = std::fs::read_to_string("/proc/net/dev_mcast").unwrap();
            all.lines().filter(|line| line.contains("010ccd0101ff")).count()
        };
        let before = members();
        socket.join(GROUP).unwrap();
        socket.join(GROUP).unwrap();
        assert_eq!(members(), before + 1);
        socket.leave(GROUP);
        assert_eq!(members(), before + 1);
        socket.leave(GROUP);
        assert_eq!(members(), before);
    });
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    run(async {
        if open().is_some() {
            let error = PacketSocket::open("none0", TYPE).unwrap_err();
            assert_eq!(error.to_string(), "there is no network interface \"none0\"");
        }
    });
}
