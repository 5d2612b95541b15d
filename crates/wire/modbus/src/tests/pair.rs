//! A client and a server over a link that loses, delays, cuts and garbles, in virtual time: every transaction ends once,
//! every value is the right one, and no write is done twice.

use super::{at_ms, events};
use crate::{
    Bank, Client, ClientConfig, ClientEvent, ExceptionCode, Framing, Priority, Request, Response, SerialTiming, Server,
    ServerConfig, ServerEvent, Table, Transaction, Unit, UnitSet,
};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;
use std::vec::Vec;
use tieline_core::{Instant, Machine, Now, Random};

/// What happens, by a seed.
struct Chance(Random);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What goes wrong, each in percent of the messages.
#[derive(Clone, Copy)]
struct Faults {
    loss: u64,
    noise: u64,
    garble: u64,
    /// Milliseconds at most.
    delay_ms: u64,
    /// Requests that the device loses while it has another.
    crowd: u64,
}

/// Bytes on their way.
#[derive(Default)]
struct Pipe {
    pieces: VecDeque<(Instant, Vec<u8>)>,
}

impl Pipe {
    fn put(&mut self, now: Now, mut message: Vec<u8>, faults: Faults, chance: &mut Chance) {
        if chance.is(faults.loss) {
            return;
        }
        if chance.is(faults.garble) {
            let at = usize::try_from(chance.below(message.len() as u64)).unwrap();
            message[at] ^= 1 << chance.below(8);
        }
        if chance.is(faults.noise) {
            let noise: Vec<u8> = (0..chance.below(12)).map(|_| chance.below(256).to_le_bytes()[0]).collect();
            message.splice(0..0, noise);
        }
        // A stream keeps its order.
        let last = self.pieces.back().map_or(now.mono, |(at, _)| *at);
        let at = (now.mono + Duration::from_millis(chance.below(faults.delay_ms + 1))).max(last);
        let cut = usize::try_from(chance.below(message.len() as u64 + 1)).unwrap();
        let rest = message.split_off(cut);
        self.pieces.extend([(at, message), (at, rest)].into_iter().filter(|(_, piece)| !piece.is_empty()));
    }

    fn next(&self) -> Option<Instant> {
        self.pieces.front().map(|(at, _)| *at)
    }

    fn take(&mut self, now: Now) -> Option<Vec<u8>> {
        self.next().filter(|at| *at <= now.mono)?;
        self.pieces.pop_front().map(|(_, piece)| piece)
    }
}

/// The register of a unit: no two of them are equal near each other.
fn register_of(unit: Unit, address: u16) -> u16 {
    address.wrapping_mul(7919) ^ (u16::from(unit.0) << 11)
}

struct World {
    client: Client,
    server: Server,
    banks: BTreeMap<Unit, Bank>,
    up: Pipe,
    down: Pipe,
    now: Now,
    faults: Faults,
    chance: Chance,
    asked: BTreeMap<u64, (Unit, Request)>,
    ended: BTreeMap<u64, ClientEvent>,
    done: BTreeMap<u64, u32>,
    closings: u32,
}

const UNITS: [Unit; 3] = [Unit(1), Unit(2), Unit(17)];
/// Transactions of one run.
const COUNT: u64 = 60;

impl World {
    fn new(framing: Framing, in_flight: u8, faults: Faults, seed: u64) -> Self {
        let config = ClientConfig {
            in_flight,
            retries: 2,
            answer_timeout: Duration::from_millis(300),
            ..ClientConfig::new(framing)
        };
        let units: UnitSet = UNITS.into_iter().collect();
        let banks = UNITS.map(|unit| {
            let holding = (0..2000).map(|address| register_of(unit, address)).collect();
            (unit, Bank { holding_registers: holding, ..Bank::default() })
        });
        Self {
            client: Client::new(config),
            server: Server::new(ServerConfig::gateway(framing, units)),
            banks: banks.into(),
            up: Pipe::default(),
            down: Pipe::default(),
            now: at_ms(0),
            faults,
            chance: Chance(Random::new(seed)),
            asked: BTreeMap::new(),
            ended: BTreeMap::new(),
            done: BTreeMap::new(),
            closings: 0,
        }
    }

    fn connect(&mut self) {
        self.client.handle_connected(self.now);
        self.server.handle_connected(self.now);
    }

    fn reconnect(&mut self) {
        self.client.handle_disconnected(self.now);
        self.server.handle_disconnected(self.now);
        (self.up, self.down) = (Pipe::default(), Pipe::default());
        self.closings += 1;
        self.connect();
    }

    fn ask(&mut self) {
        let id = self.asked.len() as u64;
        let unit = UNITS[usize::try_from(self.chance.below(3)).unwrap()];
        let request = if self.chance.is(25) {
            // The value says which transaction wrote it.
            Request::WriteRegister { address: 1000, value: u16::try_from(id).unwrap() }
        } else {
            let count = u16::try_from(1 + self.chance.below(125)).unwrap();
            let start = u16::try_from(self.chance.below(800)).unwrap();
            Request::Read { table: Table::HoldingRegisters, start, count }
        };
        let deadline = self.now.mono + Duration::from_millis(200 + self.chance.below(5000));
        let priority = if self.chance.is(10) { Priority::Urgent } else { Priority::Normal };
        self.asked.insert(id, (unit, request.clone()));
        self.client.submit(Transaction { id, unit, request, deadline, priority }).expect("there is room");
    }

    fn serve(&mut self) {
        let asked = events(&mut self.server);
        let is_crowd = asked.len() > 1;
        for event in asked {
            let ServerEvent::Request { id, unit, request } = event else { panic!("{event:?}") };
            if is_crowd && self.chance.is(self.faults.crowd) {
                continue;
            }
            if let Request::WriteRegister { address: 1000, value } = request {
                *self.done.entry(u64::from(value)).or_default() += 1;
            }
            let result = self.banks.get_mut(&unit).ok_or(ExceptionCode(11)).and_then(|bank| bank.handle(&request));
            self.server.answer(id, result);
        }
    }

    fn note(&mut self) {
        for event in events(&mut self.client) {
            let id = match &event {
                ClientEvent::Answer { id, .. }
                | ClientEvent::Exception { id, .. }
                | ClientEvent::Sent { id }
                | ClientEvent::Failed { id, .. } => *id,
                ClientEvent::WindowReduced { .. } | ClientEvent::Closing => continue,
            };
            if let ClientEvent::Answer { response: Response::Registers(found), .. } = &event {
                let (unit, Request::Read { start, count, .. }) = &self.asked[&id] else { panic!("{id} is no read") };
                let expect: Vec<u16> = (*start..*start + *count).map(|at| register_of(*unit, at)).collect();
                assert_eq!(found[..], expect[..], "the registers of another request");
            }
            assert_eq!(self.ended.insert(id, event), None, "{id} ended twice");
        }
    }

    /// Moves what can move now.
    fn turn(&mut self) {
        for _ in 0..10_000 {
            let mut moved = false;
            if let Some(piece) = self.down.take(self.now) {
                assert_eq!(self.client.handle_input(self.now, &piece), piece.len());
                moved = true;
            }
            self.client.handle_timeout(self.now);
            self.note();
            if self.client.is_closed() {
                self.reconnect();
                self.note();
            }
            let mut out = Vec::new();
            if self.client.poll_transmit(self.now, &mut out) {
                self.up.put(self.now, out, self.faults, &mut self.chance);
                moved = true;
            }
            if let Some(piece) = self.up.take(self.now) {
                let used = self.server.handle_input(self.now, &piece);
                if used < piece.len() {
                    self.up.pieces.push_front((self.now.mono, piece[used..].to_vec()));
                }
                moved = true;
            }
            self.server.handle_timeout(self.now);
            self.serve();
            let mut out = Vec::new();
            if self.server.poll_transmit(self.now, &mut out) {
                self.down.put(self.now, out, self.faults, &mut self.chance);
                moved = true;
            }
            if self.server.is_closed() {
                self.reconnect();
                self.note();
            }
            if !moved {
                return;
            }
        }
        panic!("a world that does not come to rest");
    }

    fn run(&mut self) {
        self.connect();
        for _ in 0..200_000 {
            self.turn();
            if self.asked.len() < usize::try_from(COUNT).unwrap() {
                if self.client.open() < 8 {
                    self.ask();
                    continue;
                }
            } else if self.client.open() == 0 {
                return;
            }
            let machines = self.client.timeout().into_iter().chain(self.server.timeout());
            let next = machines.chain(self.up.next()).chain(self.down.next()).min().expect("something to wait for");
            assert!(next > self.now.mono, "a deadline that does not move");
            self.now = self.now.later(next.since(self.now.mono));
        }
        panic!("a run without an end");
    }

    fn check(&self) {
        assert_eq!(self.ended.len(), self.asked.len());
        for (id, event) in &self.ended {
            let (_, request) = &self.asked[id];
            let done = self.done.get(id).copied().unwrap_or(0);
            match event {
                ClientEvent::Answer { .. } if !request.is_read() => assert_eq!(done, 1, "{id}"),
                ClientEvent::Failed { sent: false, .. } => assert_eq!(done, 0, "{id}"),
                _ => assert!(done <= 1, "{id} was written {done} times"),
            }
        }
    }
}

fn run(framing: Framing, in_flight: u8, faults: Faults, seeds: u64) -> (usize, u32) {
    let (mut answers, mut closings) = (0, 0);
    for seed in 0..seeds {
        std::println!("seed {seed}");
        let mut world = World::new(framing, in_flight, faults, seed);
        world.run();
        world.check();
        answers += world.ended.values().filter(|event| matches!(event, ClientEvent::Answer { .. })).count();
        closings += world.closings;
    }
    (answers, closings)
}

const CLEAN: Faults = Faults { loss: 0, noise: 0, garble: 0, delay_ms: 5, crowd: 0 };
const SEEDS: u64 = 30;
const ALL: usize = 30 * 60;

fn rtu() -> Framing {
    Framing::Rtu(SerialTiming::new(NonZeroU32::new(115_200).unwrap()))
}

#[test]
fn a_clean_link_answers_everything() {
    for (framing, in_flight) in [(Framing::Tcp, 1), (Framing::Tcp, 8), (Framing::RtuOverTcp, 1), (rtu(), 1)] {
        assert_eq!(run(framing, in_flight, CLEAN, SEEDS), (ALL, 0), "{framing:?} {in_flight}");
    }
}

#[test]
fn a_tcp_link_that_loses_and_delays() {
    let faults = Faults { loss: 5, delay_ms: 160, ..CLEAN };
    let (answers, _) = run(Framing::Tcp, 1, faults, SEEDS);
    assert!(answers > ALL / 3, "{answers}");
    let (answers, _) = run(Framing::Tcp, 8, faults, SEEDS);
    assert!(answers > ALL / 3, "{answers}");
}

#[test]
fn a_device_that_loses_requests_beyond_the_first() {
    let (answers, closings) = run(Framing::Tcp, 8, Faults { crowd: 80, ..CLEAN }, SEEDS);
    assert!(answers > ALL * 9 / 10 && closings == 0, "{answers} {closings}");
}

#[test]
fn a_tcp_stream_with_noise() {
    // Without a check on TCP, noise goes in front of frames and never into them.
    let (answers, _) = run(Framing::Tcp, 2, Faults { loss: 3, noise: 10, ..CLEAN }, SEEDS);
    assert!(answers > ALL / 3, "{answers}");
}

#[test]
fn a_serial_line_with_noise_losses_and_garbled_frames() {
    let faults = Faults { loss: 5, noise: 20, garble: 5, delay_ms: 40, ..CLEAN };
    for framing in [rtu(), Framing::RtuOverTcp] {
        let (answers, _) = run(framing, 1, faults, SEEDS);
        assert!(answers > ALL / 2, "{framing:?} {answers}");
    }
}
