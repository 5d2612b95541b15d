//! A controlled station for tests, and a client beside it in virtual time.

use super::at_ms;
use crate::*;
use std::collections::VecDeque;
use std::vec::Vec;
use tieline_core::{Machine, Now};

/// A controlled station: it keeps what it is sent, and sends what it is told.
pub(super) struct Station {
    link: Link,
    framer: Framer,
    out: VecDeque<Vec<u8>>,
    /// What came, without what was taken.
    pub(super) heard: VecDeque<(Header, Object)>,
}

impl Station {
    fn new() -> Self {
        let link = Link::new(LinkConfig::DEFAULT);
        Self { link, framer: Framer::default(), out: VecDeque::new(), heard: VecDeque::new() }
    }

    fn input(&mut self, now: Now, bytes: &[u8]) {
        let Self { link, framer, heard, .. } = self;
        framer.decode(bytes, |frame| {
            if let Received::Asdu(bytes) = link.receive(now.mono, frame.unwrap()) {
                let asdu = Asdu::parse(bytes).unwrap();
                heard.extend(asdu.objects().map(|object| (asdu.header, object)));
            }
            true
        });
    }

    fn output(&mut self, now: Now) -> Vec<u8> {
        let mut out = Vec::new();
        while self.link.control(now.mono, &mut out) {}
        while self.link.may_send() {
            let Some(asdu) = self.out.pop_front() else { break };
            self.link.send(now.mono, &asdu, &mut out);
        }
        out
    }

    /// Sends an ASDU of one object.
    pub(super) fn send(&mut self, header: Header, object: Object) {
        let mut asdu = Vec::new();
        emit(&header, &[object], &mut asdu).unwrap();
        self.out.push_back(asdu);
    }

    /// Answers what came first, with another cause.
    pub(super) fn answer(&mut self, code: CauseCode, is_negative: bool) -> (Header, Object) {
        let (header, object) = self.heard.front().copied().expect("nothing came");
        self.send(Header { cause: Cause { code, is_negative, ..header.cause }, ..header }, object);
        (header, object)
    }
}

/// A client with its station, connected.
pub(super) struct Pair {
    pub(super) client: Client,
    pub(super) station: Station,
    pub(super) now: Now,
    pub(super) events: Vec<ClientEvent>,
}

impl Pair {
    /// Whose data transfer is not started.
    pub(super) fn connected(config: ClientConfig) -> Self {
        let mut pair = Self { client: Client::new(config), station: Station::new(), now: at_ms(0), events: Vec::new() };
        pair.connect();
        pair
    }

    /// Whose start is over.
    pub(super) fn new(config: ClientConfig) -> Self {
        let mut pair = Self::connected(ClientConfig { at_start: Vec::new(), ..config });
        pair.exchange();
        assert_eq!(pair.take(), [ClientEvent::Started, ClientEvent::Ready]);
        pair
    }

    pub(super) fn connect(&mut self) {
        self.station = Station::new();
        self.station.link.connected(self.now.mono);
        self.client.handle_connected(self.now);
    }

    /// Bytes go to and fro until both are silent.
    pub(super) fn exchange(&mut self) {
        for _ in 0..100 {
            let mut out = Vec::new();
            while self.client.poll_transmit(self.now, &mut out) {}
            self.station.input(self.now, &out);
            let back = self.station.output(self.now);
            self.give(&back);
            if out.is_empty() && back.is_empty() {
                return;
            }
        }
        panic!("they do not come to an end");
    }

    /// Gives bytes to the client as the loop of sockets does.
    pub(super) fn give(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = self.client.handle_input(self.now, rest);
            assert!(used > 0, "the client takes nothing");
            rest = &rest[used..];
            self.events.extend(std::iter::from_fn(|| self.client.poll_event()));
        }
        self.events.extend(std::iter::from_fn(|| self.client.poll_event()));
    }

    /// Lets time pass, deadline by deadline.
    pub(super) fn pass(&mut self, ms: u64) {
        let end = self.now.later(std::time::Duration::from_millis(ms));
        let next = |pair: &Self| pair.client.timeout().into_iter().chain(pair.station.link.timeout()).min();
        while let Some(at) = next(self).filter(|at| *at <= end.mono) {
            self.now = self.now.later(at.since(self.now.mono));
            self.client.handle_timeout(self.now);
            // A station whose frames are not acknowledged closes the connection.
            if self.station.link.handle_timeout(self.now.mono).is_err() {
                self.client.handle_disconnected(self.now);
                self.connect();
            }
            self.give(&[]);
            self.exchange();
            if self.client.is_closed() {
                break;
            }
        }
        self.now = end;
    }

    pub(super) fn take(&mut self) -> Vec<ClientEvent> {
        self.give(&[]);
        std::mem::take(&mut self.events)
    }

    /// What came to the station, in order: the type, the common address and the object.
    pub(super) fn heard(&mut self) -> Vec<(TypeId, u16, Object)> {
        self.station.heard.drain(..).map(|(header, object)| (header.type_id, header.common_address, object)).collect()
    }
}
