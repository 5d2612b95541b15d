//! IEC 60870-5-104: frames, application data, the controlling and the controlled station, against any bytes.

use crate::Choices;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::{Instant, Machine, Now, Timestamp};
use tieline_iec104::dissect::{Dissector, Entry, Sender};
use tieline_iec104::{
    Address, Apdu, Asdu, CauseCode, Client, ClientConfig, ClientEvent, CommandAnswer, CommandEnd, CommandRequest,
    Database, Element, Flags, Form, Framer, Group, Header, Link, LinkConfig, Object, Origin, Point, Procedure,
    Qualifier, Received, Request, SelectRule, Server, ServerConfig, ServerEvent, TimeTag, Treatment, TypeId, emit,
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

/// Both directions of a connection, cut at every newline byte: all of it is told, one line each.
pub(super) fn dissect(bytes: &[u8]) {
    let (mut dissector, mut entries) = (Dissector::new(), Vec::new());
    for (at, piece) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let sender = if at % 2 == 0 { Sender::Client } else { Sender::Server };
        dissector.push(sender, piece, &mut entries);
    }
    dissector.finish(&mut entries);
    assert!(entries.len() <= bytes.len());
    assert!(entries.iter().map(Entry::to_string).all(|line| !line.contains('\n') && line.len() < 16_000));
}

/// A server, and a client that asks by chance.
struct Serving {
    server: Server,
    database: Rc<RefCell<Database>>,
    client: Link,
    now: Now,
    commands: Vec<u64>,
    /// Requests that wait for their treatment.
    requests: Vec<u64>,
    /// The redundancy group of the connections, where they are one.
    group: Option<Group>,
}

impl Serving {
    fn new(config: ServerConfig, group: Option<Group>) -> Self {
        let mut database = Database::new(0);
        let at = |raw| Address::new(raw).expect("24 bits");
        for raw in 0..60_u32 {
            let element = match raw % 3 {
                0 => Element::SinglePoint { on: false, flags: Flags::GOOD },
                1 => Element::Short { value: 1.5, flags: Flags::GOOD },
                _ => {
                    Element::Totals { count: 7, sequence: 0, is_carried: false, is_adjusted: false, is_invalid: false }
                }
            };
            let group = (raw % 4).to_le_bytes()[0];
            let point = Point { group, is_cyclic: raw % 5 == 0, ..Point::new(element) };
            database.add(1, at(raw), point).expect("a point");
        }
        for (raw, rule) in [(0, SelectRule::Either), (1, SelectRule::Select), (2, SelectRule::Direct)] {
            database.add_command(1, at(raw), Form::SingleCommand, rule).expect("an output");
        }
        database.add_station(2).expect("a station");
        let database = Rc::new(RefCell::new(database));
        let (server, client) = (Server::new(config, Rc::clone(&database)), Link::new(LinkConfig::DEFAULT));
        let (commands, requests) = (Vec::new(), Vec::new());
        Self { server, database, client, now: START, commands, requests, group }
    }

    fn connect(&mut self) {
        self.server.handle_disconnected(self.now);
        self.commands.clear();
        self.requests.clear();
        self.server.handle_connected(self.now);
        self.group.iter().for_each(|group| self.server.join(group));
        self.client.connected(self.now.mono);
        self.client.start();
    }

    fn take(&mut self, event: &ServerEvent) {
        match event {
            ServerEvent::Command { id, .. } => self.commands.push(*id),
            ServerEvent::Request { id } => self.requests.push(*id),
            _ => {}
        }
    }

    /// Takes what the server does, until it comes to rest.
    fn drain(&mut self) {
        for _ in 0..WORK_MAX {
            if let Some(event) = self.server.poll_event() {
                self.take(&event);
                continue;
            }
            let mut message = Vec::new();
            if self.server.poll_transmit(self.now, &mut message) {
                let apdu = Apdu::parse(&message).expect("a legal frame");
                if let Received::Asdu(asdu) = self.client.receive(self.now.mono, apdu) {
                    Header::parse(asdu).expect("a legal header");
                }
                continue;
            }
            let mut back = Vec::new();
            while self.client.control(self.now.mono, &mut back) {}
            if back.is_empty() {
                return;
            }
            self.feed(&back);
        }
        panic!("a machine that does not come to rest");
    }

    fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        for _ in 0..WORK_MAX {
            if rest.is_empty() {
                return;
            }
            let used = self.server.handle_input(self.now, rest);
            assert!(used > 0, "no progress");
            rest = rest.split_at(used).1;
            while let Some(event) = self.server.poll_event() {
                self.take(&event);
            }
        }
        panic!("a server that takes no more");
    }

    /// An ASDU that is nearly legal.
    fn ask(&mut self, choices: &mut Choices) {
        let type_id = choices.pick(&[45, 45, 45, 58, 100, 100, 101, 102, 103, 104, 105, 107, 13, 122]);
        let cause = choices.pick(&[6, 6, 6, 6, 5, 8, 10]);
        let common = choices.pick(&[1, 1, 1, 2, 0xFF, 3]);
        let mut asdu = vec![type_id, 1, cause, 0, common, if common == 0xFF { 0xFF } else { 0 }];
        asdu.extend_from_slice(&[choices.below(4).to_le_bytes()[0] * u8::from(choices.chance(60)), 0, 0]);
        let layout = TypeId(type_id).layout().map_or(3, tieline_iec104::Layout::bytes);
        let more = usize::from(choices.chance(5));
        asdu.extend(choices.bytes(layout + more));
        let mut out = Vec::new();
        if self.client.may_send() {
            self.client.send(self.now.mono, &asdu, &mut out);
        }
        if choices.chance(3) && !out.is_empty() {
            let at = usize::try_from(choices.below(out.len() as u64)).unwrap_or(0);
            out[at] ^= 1 << choices.below(8);
        }
        self.feed(&out);
    }

    fn update(&mut self, choices: &mut Choices) {
        for _ in 0..choices.below(30) {
            let at = Address::new(u32::try_from(choices.below(20) * 3).unwrap_or(0)).expect("24 bits");
            let element = Element::SinglePoint { on: choices.chance(50), flags: Flags::GOOD };
            let change = self.database.borrow_mut().update(self.now, (1, at), element, CauseCode::SPONTANEOUS);
            if let Some(change) = change {
                self.group.iter().for_each(|group| group.report(change));
                self.server.report(change);
            }
        }
    }

    /// Treats what waits.
    fn treat(&mut self, choices: &mut Choices) {
        for id in std::mem::take(&mut self.requests) {
            let ignored = Treatment::Ignore { is_done: choices.chance(50) };
            let treatment = choices.pick(&[Treatment::Answer, Treatment::Answer, Treatment::Refuse, ignored]);
            self.server.treat(self.now, id, treatment);
        }
    }

    fn pass(&mut self, by: Duration) {
        let end = self.now.mono + by;
        for _ in 0..WORK_MAX {
            let next = self.server.timeout().unwrap_or(end).min(end).max(self.now.mono);
            self.now = self.now.later(next.since(self.now.mono));
            self.server.handle_timeout(self.now);
            self.drain();
            if self.server.timeout().is_none_or(|deadline| deadline > end) {
                self.now = self.now.later(end.since(self.now.mono));
                return;
            }
        }
        panic!("a deadline that never moves: {:?} at {:?}", self.server.timeout(), self.now.mono);
    }
}

/// Steps of a client, of time and of the owner, against a server: it comes to rest, all that it sends are legal frames, and no
/// more reports wait than may.
pub(super) fn server(bytes: &[u8]) {
    let mut choices = Choices::of_bytes(bytes);
    let config = ServerConfig {
        reports_max: 10,
        commands_max: 3,
        cyclic_every: choices.chance(50).then_some(Duration::from_secs(1)),
        is_treated: choices.chance(30),
        ..ServerConfig::DEFAULT
    };
    let group = choices.chance(30).then(|| Group::new(10));
    let mut serving = Serving::new(config, group);
    serving.connect();
    for _ in 0..STEPS_MAX {
        match choices.below(12) {
            0 if choices.chance(20) => {
                let count = usize::try_from(choices.below(300)).unwrap_or(0);
                let noise = choices.bytes(count);
                serving.feed(&noise);
            }
            1 | 2 => serving.pass(choices.millis(0, 4000)),
            3 if choices.chance(20) => serving.client.stop(),
            4 => serving.client.start(),
            5 | 6 => serving.update(&mut choices),
            7 => {
                let answer = choices.pick(&[CommandAnswer::Refused, CommandAnswer::Accepted, CommandAnswer::Done]);
                for id in std::mem::take(&mut serving.commands) {
                    serving.server.answer(id, answer);
                    serving.server.terminate(id, choices.chance(80));
                }
            }
            8 if choices.chance(10) => serving.connect(),
            9 if choices.chance(20) => serving.server.mute(choices.chance(50)),
            10 => serving.treat(&mut choices),
            _ => serving.ask(&mut choices),
        }
        assert!(serving.server.waiting() <= 10 && serving.commands.len() <= WORK_MAX);
        serving.drain();
        if serving.server.is_closed() {
            serving.connect();
        }
        if choices.is_spent() {
            break;
        }
    }
}
