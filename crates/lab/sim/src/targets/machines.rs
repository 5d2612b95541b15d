//! One machine each, against steps of time, input and calls.

use crate::{Choices, Outputs};
use std::collections::BTreeMap;
use std::time::Duration;
use tieline_core::{CommandMode, Instant, Machine, Now, Timestamp};
use tieline_dnp3::app::{Fragment, Function};
use tieline_dnp3::endpoint::{Endpoint, EndpointConfig, Role};
use tieline_dnp3::link::{Decoder, LinkAddress};
use tieline_dnp3::master::{Master, MasterConfig, MasterEvent, ReadRequest};
use tieline_dnp3::outstation::{Database, EventLimits, Outstation, OutstationConfig, PointConfig, UnsolicitedConfig};
use tieline_dnp3::{Classes, Control, Crob, Flags, GroupVar, Measured, Measurement, PointType};

/// Steps of one run at most.
const STEPS_MAX: usize = 300;
/// Messages and events that one step may cause at most.
const WORK_MAX: usize = 2000;
/// The longest message: a fragment of 2048 bytes in its frames, and the replies of the link.
const MESSAGE_BYTES_MAX: usize = 2500;

const START: Now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(1_800_000_000_000) };

/// A machine that is driven by hand, and the other end's layers below the application.
pub(crate) struct Bench<M: Machine> {
    pub(crate) machine: M,
    pub(crate) now: Now,
    peer: Endpoint,
    from_master: bool,
    /// Fragments that the machine sent in the last step.
    pub(crate) sent: Vec<Vec<u8>>,
    pub(crate) events: Vec<M::Event>,
}

impl<M: Machine> Bench<M> {
    pub(crate) fn new(machine: M, role: Role) -> Self {
        let peer = match role {
            Role::Master => EndpointConfig::new(Role::Outstation, LinkAddress::new(10)),
            Role::Outstation => EndpointConfig::new(Role::Master, LinkAddress::new(1)),
        };
        let from_master = role == Role::Master;
        let peer = Endpoint::new(peer);
        Self { machine, now: START, peer, from_master, sent: Vec::new(), events: Vec::new() }
    }

    /// Begins the connection, or ends it.
    fn toggle(&mut self, connected: &mut bool) {
        *connected = !*connected;
        if *connected {
            self.machine.handle_connected(self.now);
        } else {
            self.machine.handle_disconnected(self.now);
        }
    }

    /// Bytes that mean nothing.
    fn feed_noise(&mut self, choices: &mut Choices) {
        let count = usize::try_from(choices.below(60)).unwrap_or(0);
        let line = choices.bytes(count);
        self.feed(&line);
    }

    /// Takes all events and all output, and checks both.
    pub(crate) fn drain(&mut self) {
        for _ in 0..WORK_MAX {
            let mut message = Vec::new();
            let event = self.machine.poll_event();
            let idle = event.is_none();
            self.events.extend(event);
            if !idle {
                continue;
            }
            if !self.machine.poll_transmit(self.now, &mut message) {
                return;
            }
            self.check(&message);
        }
        panic!("a machine that does not come to rest");
    }

    /// A message is whole frames of ours, and its fragment is one.
    fn check(&mut self, message: &[u8]) {
        assert!(!message.is_empty() && message.len() <= MESSAGE_BYTES_MAX, "{} bytes", message.len());
        let (mut decoder, mut rest) = (Decoder::new(), message);
        while let Some(frame) = decoder.decode(&mut rest) {
            let header = frame.expect("a whole frame").header();
            assert_eq!(header.control.from_master(), self.from_master);
        }
        assert!(rest.is_empty() && !decoder.is_partial(), "a message that ends within a frame");
        let mut rest = message;
        while !rest.is_empty() {
            let (used, _) = self.peer.handle_input(rest);
            rest = &rest[used..];
            if !self.peer.fragment().is_empty() {
                let fragment = Fragment::parse(self.peer.fragment()).expect("a fragment of ours");
                let whole = fragment.headers().all(|header| header.is_ok_and(|header| header.object().group > 0));
                assert!(whole || !self.from_master, "a request that cannot be read: {:02X?}", self.peer.fragment());
                self.sent.push(self.peer.fragment().to_vec());
            }
            self.peer.release();
        }
    }

    /// Gives bytes of the line.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        let mut idle = 0;
        while !rest.is_empty() {
            let used = self.machine.handle_input(self.now, rest);
            assert!(used <= rest.len());
            rest = &rest[used..];
            idle = if used == 0 { idle + 1 } else { 0 };
            assert!(idle < 3, "a machine that takes nothing although it was drained");
            self.drain();
        }
    }

    /// Gives a fragment, in frames.
    pub(crate) fn feed_fragment(&mut self, fragment: &[u8]) {
        let mut bytes = Vec::new();
        let to = LinkAddress::new(if self.from_master { 1 } else { 10 });
        self.peer.write_fragment(to, fragment, &mut bytes);
        self.feed(&bytes);
    }

    /// Lets time pass, deadline by deadline.
    pub(crate) fn pass(&mut self, by: Duration) {
        let end = self.now.mono + by;
        for _ in 0..WORK_MAX {
            let next = self.machine.timeout().unwrap_or(end).min(end).max(self.now.mono);
            self.now = self.now.later(next.since(self.now.mono));
            self.machine.handle_timeout(self.now);
            self.drain();
            if self.machine.timeout().is_none_or(|deadline| deadline > end) {
                self.now = self.now.later(end.since(self.now.mono));
                return;
            }
        }
        panic!("a deadline that never moves: {:?} at {:?}", self.machine.timeout(), self.now.mono);
    }
}

/// Objects of a fragment: as they come, or one of a kind that is of use.
fn objects(choices: &mut Choices, known: &[&[u8]]) -> Vec<u8> {
    let mut objects = Vec::new();
    for _ in 0..choices.below(4) {
        let which = choices.below(known.len() as u64 + 2);
        match known.get(usize::try_from(which).unwrap_or(0)) {
            Some(bytes) => objects.extend_from_slice(bytes),
            None => {
                let count = usize::try_from(choices.below(40)).unwrap_or(0);
                objects.extend(choices.bytes(count));
            }
        }
    }
    objects
}

/// Answers as outstations give them: values, events, time, attributes, files.
const ANSWERS: [&[u8]; 8] = [
    &[30, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 2, 0, 0, 0],
    &[32, 3, 0x17, 1, 3, 1, 9, 0, 0, 0, 1, 2, 3, 4, 5, 6],
    &[51, 1, 7, 1, 1, 2, 3, 4, 5, 6],
    &[2, 3, 0x28, 1, 0, 7, 0, 0x81, 9, 0],
    &[52, 2, 7, 1, 5, 0],
    &[1, 1, 0, 0, 7, 0x5A],
    &[110, 3, 0, 0, 0, 65, 66, 67],
    &[12, 1, 0x17, 1, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
];

/// Steps of an outstation, of time and of the owner, against a master: every task ends once, everything comes to rest, and
/// all it sends can be read.
pub(super) fn master(bytes: &[u8]) {
    let mut choices = Choices::of_bytes(bytes);
    let config = MasterConfig {
        hold_confirm: choices.chance(50),
        event_poll: if choices.chance(50) { Classes::EVENTS } else { Classes::NONE },
        retries: u8::from(choices.chance(50)),
        keep_alive: choices.chance(50).then_some(Duration::from_secs(7)),
        ..MasterConfig::default()
    };
    let mut bench = Bench::new(Master::new(config), Role::Master);
    let (mut connected, mut token, mut open) = (false, 0, BTreeMap::new());
    for _ in 0..STEPS_MAX {
        match choices.below(10) {
            0 => bench.toggle(&mut connected),
            1 if connected => bench.feed_noise(&mut choices),
            2 => bench.pass(choices.millis(0, 8000)),
            3 => {
                token += 1;
                let taken = ask(&mut bench, &mut choices, token);
                if taken {
                    open.insert(token, 0);
                }
            }
            4 => bench.machine.release_confirm(bench.now),
            _ if connected => answer(&mut bench, &mut choices),
            _ => {}
        }
        bench.drain();
        note_ends(&mut bench, &mut open);
        if choices.is_spent() {
            break;
        }
    }
    if connected {
        bench.machine.handle_disconnected(bench.now);
    }
    bench.drain();
    note_ends(&mut bench, &mut open);
    assert!(open.values().all(|ends| *ends == 1), "tasks that never ended: {open:?}");
}

fn note_ends(bench: &mut Bench<Master>, open: &mut BTreeMap<u64, u32>) {
    for event in bench.events.drain(..) {
        if let MasterEvent::TaskDone { token, outcome } = event {
            let ends = open.get_mut(&token).unwrap_or_else(|| panic!("task {token} that nobody asked: {outcome:?}"));
            *ends += 1;
            assert_eq!(*ends, 1, "task {token} ended twice");
        }
    }
}

fn ask(bench: &mut Bench<Master>, choices: &mut Choices, token: u64) -> bool {
    let control = Control::Crob(Crob { code: 3, count: 1, on_ms: 0, off_ms: 0 });
    let until = bench.now.mono + choices.millis(0, 9000);
    match choices.below(4) {
        0 => bench.machine.command(bench.now, control, 2, CommandMode::DirectOperate, until, token).is_ok(),
        1 => bench.machine.command(bench.now, control, 2, CommandMode::SelectBeforeOperate, until, token).is_ok(),
        2 => bench.machine.poll(bench.now, Classes::ALL, token).is_ok(),
        _ => {
            let request = ReadRequest::Range { object: GroupVar::new(30, 0), first: 0, last: 9 };
            bench.machine.read(bench.now, request, token).is_ok()
        }
    }
}

/// A fragment that answers the last request, as a rule; or one that says something by itself.
fn answer(bench: &mut Bench<Master>, choices: &mut Choices) {
    let last = bench.sent.last().cloned().unwrap_or_default();
    let number = last.first().copied().unwrap_or(0) & 0x0F;
    let kind = choices.below(8);
    let flags = choices.pick(&[0xC0, 0xE0, 0x80, 0x40, 0xA0, 0x00, 0x60]);
    let echo = last.get(2..).unwrap_or_default();
    let (control, function) = match kind {
        0..=3 => (flags | number, 129),
        4 => (0xF0 | u8::try_from(choices.below(16)).unwrap_or(0), 130),
        5 => (0xF0, 130),
        6 => (flags | number.wrapping_add(1) & 0x0F, 129),
        _ => {
            let bytes = choices.bytes(2);
            (bytes.first().copied().unwrap_or(0), bytes.get(1).copied().unwrap_or(129))
        }
    };
    let indications = choices.pick(&[[0, 0], [0x80, 0], [0, 8], [0x0E, 0], [0x10, 0], [0, 1], [0, 4], [0xFF, 0xFF]]);
    let mut fragment = vec![control, function];
    fragment.extend(indications);
    if choices.chance(30) {
        fragment.extend_from_slice(echo);
    } else {
        fragment.extend(objects(choices, &ANSWERS));
    }
    bench.feed_fragment(&fragment);
}

/// Requests as masters send them.
const REQUESTS: [&[u8]; 17] = [
    &[60, 2, 6, 60, 3, 6, 60, 4, 6],
    &[60, 1, 6],
    &[30, 0, 1, 0, 0, 5, 0],
    &[1, 0, 6],
    &[32, 0, 7, 3],
    &[80, 1, 0, 7, 7, 0],
    &[50, 1, 7, 1, 1, 2, 3, 4, 5, 6],
    &[12, 1, 0x17, 1, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    &[12, 1, 0x28, 1, 0, 2, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    &[41, 2, 0x17, 1, 1, 5, 0, 0],
    &[20, 0, 6],
    &[34, 1, 0x17, 1, 0, 5, 0],
    &[0, 254, 0, 0, 0],
    &[110, 0, 6],
    &[70, 3, 0x5B, 1, 28, 0, 26, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2, 1, 0, 97, 98],
    &[70, 5, 0x5B, 1, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    &[120, 1, 0x5B, 1, 12, 0, 1, 0, 0, 0, 1, 0, 3, 1, 1, 2, 3, 4],
];
const FUNCTIONS: [u8; 28] =
    [1, 1, 1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 19, 20, 21, 22, 23, 24, 25, 26, 31, 32];

/// Bytes of a fragment that this outstation sends, at most.
const SENT_BYTES_MAX: u16 = 300;
/// Events of one type that it keeps.
const EVENTS_MAX: u16 = 5;

fn station(choices: &mut Choices, outputs: &Outputs) -> Outstation {
    let config = OutstationConfig {
        fragment_bytes_sent_max: SENT_BYTES_MAX,
        event_limits: EventLimits::all(EVENTS_MAX),
        need_time_every: choices.chance(30).then_some(Duration::from_secs(9)),
        answers_self_address: choices.chance(30),
        unsolicited: choices.chance(70).then(|| UnsolicitedConfig {
            classes: if choices.chance(50) { Classes::EVENTS } else { Classes::NONE },
            hold_time: choices.millis(0, 300),
            ..UnsolicitedConfig::default()
        }),
        ..OutstationConfig::default()
    };
    let mut database = Database::new();
    for point_type in PointType::ALL {
        for index in 0..10 {
            let _ = database.add(point_type, index, PointConfig::of(point_type));
        }
    }
    Outstation::new(config, database, Box::new(outputs.clone()))
}

/// Steps of a master, of time and of points, against an outstation: its events and fragments keep their limits, answers
/// bear the number of their request, a request that comes again is not executed again, and all it sends can be read.
pub(super) fn outstation(bytes: &[u8]) {
    let mut choices = Choices::of_bytes(bytes);
    let outputs = Outputs::default();
    let mut bench = Bench::new(station(&mut choices, &outputs), Role::Outstation);
    let mut connected = false;
    for _ in 0..STEPS_MAX {
        match choices.below(10) {
            0 => bench.toggle(&mut connected),
            1 if connected => bench.feed_noise(&mut choices),
            2 => bench.pass(choices.millis(0, 8000)),
            3..=4 => {
                let index = u16::try_from(choices.below(10)).unwrap_or(0);
                let value = f64::from(u32::try_from(choices.below(1000)).unwrap_or(0));
                let value = Measured::Analog(value);
                let flags = Flags::ONLINE;
                let measurement = Measurement { point_type: PointType::Analog, index, value, flags, stamp: None };
                bench.machine.update(bench.now, measurement).expect("a point that is there");
            }
            _ if connected => request(&mut bench, &mut choices, &outputs),
            _ => {}
        }
        bench.drain();
        let stats = bench.machine.stats();
        assert!(stats.events_waiting <= 8 * u64::from(EVENTS_MAX));
        assert!(bench.sent.iter().all(|fragment| fragment.len() <= usize::from(SENT_BYTES_MAX)));
        bench.sent.clear();
        bench.events.clear();
        if choices.is_spent() {
            break;
        }
    }
}

fn request(bench: &mut Bench<Outstation>, choices: &mut Choices, outputs: &Outputs) {
    let number = u8::try_from(choices.below(16)).unwrap_or(0);
    let flags = choices.pick(&[0xC0, 0xC0, 0xC0, 0xD0, 0x80, 0x40, 0xF0, 0xE0]);
    let mut fragment = vec![flags | number, choices.pick(&FUNCTIONS)];
    fragment.extend(objects(choices, &REQUESTS));
    bench.sent.clear();
    bench.feed_fragment(&fragment);
    let parsed = Fragment::parse(&fragment).expect("a known function");
    // A confirm sets a read free that waited for it.
    let answers = if parsed.function == Function::Confirm { &[][..] } else { &bench.sent };
    for sent in answers {
        let sent = Fragment::parse(sent).expect("checked before");
        let first = sent.control.fir && !sent.control.uns && sent.function == Function::Response;
        assert!(!first || sent.control.sequence == parsed.control.sequence, "an answer to another request");
    }
    let executes = !matches!(parsed.function, Function::Confirm | Function::Read) && flags & 0xC0 == 0xC0;
    if executes && choices.chance(40) {
        let _ = outputs.taken();
        bench.feed_fragment(&fragment);
        assert!(outputs.taken().is_empty(), "{:?} was executed again", parsed.function);
    }
}
