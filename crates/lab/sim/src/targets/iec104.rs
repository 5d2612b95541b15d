//! IEC 60870-5-104: frames, application data and the controlling station, against any bytes.

use crate::Choices;
use std::collections::BTreeMap;
use std::time::Duration;
use tieline_core::{Instant, Machine, Now, Timestamp};
use tieline_iec104::{
    Address, Apdu, Asdu, CauseCode, Client, ClientConfig, ClientEvent, CommandEnd, CommandRequest, Element, Flags,
    Framer, Header, Link, LinkConfig, Object, Origin, Procedure, Qualifier, Request, TimeTag, TypeId, emit,
};

/// Steps of one run at most.
const STEPS_MAX: usize = 300;
/// Messages and events that one step may cause at most.
const WORK_MAX: usize = 2000;
const START: Now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(1_800_000_000_000) };

/// An ASDU, and a stream that is cut where its first byte says: what can be read is written as it was, and the cut changes
/// nothing.
pub(super) fn frame(bytes: &[u8]) {
    let Some((cut, rest)) = bytes.split_first() else { return };
    if let Ok(asdu) = Asdu::parse(rest) {
        let objects: Vec<Object> = asdu.objects().collect();
        let mut again = Vec::new();
        if emit(&asdu.header, &objects, &mut again).is_ok() {
            let again = Asdu::parse(&again).expect("what was written");
            let pairs = again.objects().zip(&objects);
            pairs.for_each(|(one, other)| assert_eq!(format!("{one:?}"), format!("{other:?}")));
        }
    }
    let whole = frames_of([rest, &[]]);
    let (first, second) = rest.split_at(usize::from(*cut).min(rest.len()));
    assert_eq!(frames_of([first, second]), whole);
}

fn frames_of(pieces: [&[u8]; 2]) -> Vec<String> {
    let (mut framer, mut found) = (Framer::default(), Vec::new());
    for piece in pieces {
        let used = framer.decode(piece, |frame| {
            found.push(format!("{frame:?}"));
            true
        });
        assert_eq!(used, piece.len());
    }
    found
}

/// A client, a station that answers by chance, and all that was asked.
struct Asking {
    client: Client,
    station: Link,
    framer: Framer,
    now: Now,
    /// What came to the station last.
    last: Option<(Header, Object)>,
    /// How often each request ended.
    ends: BTreeMap<u64, u32>,
}

impl Asking {
    /// Takes what the client does, until it comes to rest.
    fn drain(&mut self) {
        for _ in 0..WORK_MAX {
            if let Some(event) = self.client.poll_event() {
                self.note(&event);
                continue;
            }
            let mut message = Vec::new();
            if !self.client.poll_transmit(self.now, &mut message) {
                return;
            }
            let Self { station, framer, last, .. } = self;
            let used = framer.decode(&message, |frame| {
                let frame = frame.expect("a legal frame");
                if let Apdu::I { asdu, .. } = frame {
                    let asdu = Asdu::parse(asdu).expect("a legal ASDU");
                    *last = asdu.objects().next().map(|object| (asdu.header, object));
                }
                station.receive(self.now.mono, frame);
                true
            });
            assert_eq!(used, message.len());
        }
        panic!("a machine that does not come to rest");
    }

    fn note(&mut self, event: &ClientEvent) {
        if let ClientEvent::Ended { origin: Origin::Owner(id), .. } = event {
            let ends = self.ends.get_mut(id).expect("a request that was made");
            *ends += 1;
            assert_eq!(*ends, 1, "{id} ended twice");
        }
    }

    fn ask(&mut self, choices: &mut Choices) {
        let id = self.ends.len() as u64;
        let until = self.now.mono + choices.millis(0, 5000);
        if self.client.submit(id, request(choices), until).is_ok() {
            self.ends.insert(id, 0);
        }
    }

    /// Answers the last request: right, refused, or nearly.
    fn answer(&mut self, choices: &mut Choices) {
        let Some((header, object)) = self.last else { return };
        let code = choices.pick(&[5, 7, 7, 7, 10, 20, 44, 47]);
        let mut cause = header.cause;
        (cause.code, cause.is_negative) = (CauseCode::new(code), choices.chance(20));
        let point = Element::SinglePoint { on: true, flags: Flags::GOOD };
        let (type_id, object) = match code {
            5 | 20 => (TypeId::M_SP_NA_1, Object { element: point, time: TimeTag::None, ..object }),
            _ => (header.type_id, object),
        };
        let mut asdu = Vec::new();
        emit(&Header { type_id, cause, ..header }, &[object], &mut asdu).expect("a legal answer");
        let mut out = Vec::new();
        while self.station.control(self.now.mono, &mut out) {}
        if self.station.may_send() {
            self.station.send(self.now.mono, &asdu, &mut out);
        }
        if choices.chance(10) && !out.is_empty() {
            let at = usize::try_from(choices.below(out.len() as u64)).unwrap_or(0);
            out[at] ^= 1 << choices.below(8);
        }
        self.feed(&out);
    }

    fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        for _ in 0..WORK_MAX {
            if rest.is_empty() {
                return;
            }
            let used = self.client.handle_input(self.now, rest);
            assert!(used > 0, "no progress");
            rest = rest.split_at(used).1;
            self.drain();
        }
        panic!("a client that takes no more");
    }

    fn pass(&mut self, by: Duration) {
        let end = self.now.mono + by;
        for _ in 0..WORK_MAX {
            let next = self.client.timeout().unwrap_or(end).min(end).max(self.now.mono);
            self.now = self.now.later(next.since(self.now.mono));
            self.client.handle_timeout(self.now);
            self.drain();
            if self.client.timeout().is_none_or(|deadline| deadline > end) {
                self.now = self.now.later(end.since(self.now.mono));
                return;
            }
        }
        panic!("a deadline that never moves: {:?} at {:?}", self.client.timeout(), self.now.mono);
    }

    fn connect(&mut self) {
        self.client.handle_connected(self.now);
        self.station.connected(self.now.mono);
        self.framer.clear();
    }

    fn disconnect(&mut self) {
        self.client.handle_disconnected(self.now);
        self.drain();
    }
}

fn request(choices: &mut Choices) -> Request {
    let common_address = 1;
    let address = Address::new(u32::try_from(choices.below(4)).unwrap_or(0)).expect("24 bits");
    match choices.below(8) {
        0 => Request::Interrogation { common_address, qualifier: 20 },
        1 => Request::Counters { common_address, qualifier: 5 },
        2 => Request::Clock { common_address },
        3 => Request::Read { common_address, address },
        4 => Request::Test { common_address },
        5 => {
            let element = Element::SetBits { bits: 7 };
            Request::Command(CommandRequest { common_address, address, element, select: true, with_time: true })
        }
        _ => {
            let element = Element::SingleCommand { on: choices.chance(50), qualifier: Qualifier::default() };
            let (select, with_time) = (choices.chance(50), choices.chance(50));
            Request::Command(CommandRequest { common_address, address, element, select, with_time })
        }
    }
}

/// Steps of a station, of time and of the owner, against a client: every request ends once, everything comes to rest, and all
/// it sends are legal frames.
pub(super) fn client(bytes: &[u8]) {
    let mut choices = Choices::of_bytes(bytes);
    let config = ClientConfig {
        at_start: choices.pick(&[&[][..], &[Procedure::Interrogation][..]]).to_vec(),
        clock_every: choices.chance(30).then_some(Duration::from_secs(2)),
        command_end: choices.pick(&[CommandEnd::Confirmation, CommandEnd::Termination]),
        queue_max: 20,
        ..ClientConfig::new(1)
    };
    let (client, station) = (Client::new(config), Link::new(LinkConfig::DEFAULT));
    let mut asking =
        Asking { client, station, framer: Framer::default(), now: START, last: None, ends: BTreeMap::new() };
    let mut connected = false;
    for _ in 0..STEPS_MAX {
        match choices.below(10) {
            0 if connected => {
                let count = usize::try_from(choices.below(300)).unwrap_or(0);
                let noise = choices.bytes(count);
                asking.feed(&noise);
            }
            1 | 2 => asking.pass(choices.millis(0, 4000)),
            3 if connected && choices.chance(30) => {
                asking.disconnect();
                connected = false;
            }
            3 | 4 if !connected => {
                asking.connect();
                connected = true;
            }
            5..=7 if connected => asking.answer(&mut choices),
            _ => asking.ask(&mut choices),
        }
        asking.drain();
        if connected && asking.client.is_closed() {
            asking.disconnect();
            asking.connect();
        }
        if choices.is_spent() {
            break;
        }
    }
    asking.disconnect();
    assert!(asking.ends.values().all(|ends| *ends == 1), "requests that never ended: {:?}", asking.ends);
}
