//! A client and a server over connections that end at any time and cut bytes anywhere, in virtual time: what the client knows in
//! the end is what the station has, and no command is executed twice.

use super::at_ms;
use crate::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
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

/// Bytes on their way.
#[derive(Default)]
struct Pipe(VecDeque<(Instant, Vec<u8>)>);

impl Pipe {
    fn put(&mut self, now: Now, mut message: Vec<u8>, chance: &mut Chance) {
        let last = self.0.back().map_or(now.mono, |(at, _)| *at);
        let at = (now.mono + Duration::from_millis(chance.below(30))).max(last);
        let cut = usize::try_from(chance.below(message.len() as u64 + 1)).unwrap();
        let rest = message.split_off(cut);
        self.0.extend([(at, message), (at, rest)].into_iter().filter(|(_, piece)| !piece.is_empty()));
    }

    fn next(&self) -> Option<Instant> {
        self.0.front().map(|(at, _)| *at)
    }

    fn take(&mut self, now: Now) -> Option<Vec<u8>> {
        self.next().filter(|at| *at <= now.mono)?;
        self.0.pop_front().map(|(_, piece)| piece)
    }
}

const STATIONS: [u16; 2] = [1, 7];
const POINTS: u32 = 40;
const COMMAND: u32 = 5000;
/// What the owners do in one run.
const ACTS: usize = 150;

struct World {
    client: Client,
    server: Server,
    database: Rc<RefCell<Database>>,
    up: Pipe,
    down: Pipe,
    now: Now,
    chance: Chance,
    known: BTreeMap<(u16, Address), Element>,
    ended: BTreeMap<u64, Outcome>,
    done: BTreeMap<u64, u32>,
    asked: u64,
    closings: u32,
}

fn place(chance: &mut Chance) -> (u16, Address) {
    let station = STATIONS[usize::try_from(chance.below(2)).unwrap()];
    (station, Address::new(u32::try_from(1 + chance.below(POINTS.into())).unwrap()).unwrap())
}

fn element(raw: u32, value: u64) -> Element {
    let flags = Flags::GOOD;
    match raw % 3 {
        0 => Element::SinglePoint { on: value.is_multiple_of(2), flags },
        1 => Element::Scaled { value: i16::try_from(value).unwrap(), flags },
        _ => Element::StatusChange { states: u16::try_from(value).unwrap(), changed: 0, flags },
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut database = Database::new(0);
        for station in STATIONS {
            for raw in 1..=POINTS {
                let point = Point { is_timed: raw % 2 == 0, ..Point::new(element(raw, 0)) };
                database.add(station, Address::new(raw).unwrap(), point).unwrap();
            }
            let at = Address::new(COMMAND).unwrap();
            database.add_command(station, at, Form::SetScaled, SelectRule::Either).unwrap();
        }
        let database = Rc::new(RefCell::new(database));
        // w of one end is not more than k of the other.
        let link = LinkConfig { k: 3, w: 2, ..LinkConfig::DEFAULT };
        let config = ClientConfig {
            link,
            common_addresses: STATIONS.to_vec(),
            command_end: if seed.is_multiple_of(2) { CommandEnd::Confirmation } else { CommandEnd::Termination },
            ..ClientConfig::new(1)
        };
        let server = ServerConfig { link, reports_max: 5, ..ServerConfig::DEFAULT };
        Self {
            client: Client::new(config),
            server: Server::new(server, Rc::clone(&database)),
            database,
            up: Pipe::default(),
            down: Pipe::default(),
            now: at_ms(0),
            chance: Chance(Random::new(seed)),
            known: BTreeMap::new(),
            ended: BTreeMap::new(),
            done: BTreeMap::new(),
            asked: 0,
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
        self.note();
        (self.up, self.down) = (Pipe::default(), Pipe::default());
        self.closings += 1;
        self.connect();
    }

    fn note(&mut self) {
        while let Some(event) = self.client.poll_event() {
            match event {
                ClientEvent::Objects { header, objects } => {
                    for object in objects {
                        self.known.insert((header.common_address, object.address), object.element);
                    }
                }
                ClientEvent::Ended { origin: Origin::Owner(id), outcome } => {
                    assert_eq!(self.ended.insert(id, outcome), None, "{id} ended twice");
                }
                ClientEvent::Ended { outcome, .. } => assert_eq!(outcome, Outcome::Done),
                ClientEvent::Malformed { .. } | ClientEvent::Closing(_) => panic!("{event:?}"),
                ClientEvent::Started | ClientEvent::Initialized { .. } | ClientEvent::Ready => {}
            }
        }
    }

    fn serve(&mut self) {
        while let Some(event) = self.server.poll_event() {
            let ServerEvent::Command { id, element: Element::SetScaled { value, .. }, .. } = event else {
                assert!(matches!(event, ServerEvent::Started), "{event:?}");
                continue;
            };
            if value % 5 == 0 {
                self.server.answer(id, CommandAnswer::Refused);
                continue;
            }
            *self.done.entry(u64::try_from(value).unwrap()).or_default() += 1;
            let accepted = self.chance.is(50);
            self.server.answer(id, if accepted { CommandAnswer::Accepted } else { CommandAnswer::Done });
            self.server.terminate(id, true);
        }
    }

    fn act(&mut self) {
        if self.chance.is(3) {
            return self.reconnect();
        }
        if self.chance.is(15) {
            let element =
                Element::SetScaled { value: i16::try_from(self.asked).unwrap(), qualifier: Qualifier::default() };
            let command = CommandRequest {
                common_address: STATIONS[usize::try_from(self.chance.below(2)).unwrap()],
                address: Address::new(COMMAND).unwrap(),
                element,
                select: self.chance.is(50),
                with_time: self.chance.is(50),
            };
            let until = self.now.mono + Duration::from_secs(5);
            if self.client.submit(self.asked, Request::Command(command), until).is_ok() {
                self.asked += 1;
            }
            return;
        }
        for _ in 0..self.chance.below(12) {
            let (at, value) = (place(&mut self.chance), self.chance.below(1000));
            let element = element(at.1.raw(), value);
            let change = self.database.borrow_mut().update(self.now, at, element, CauseCode::SPONTANEOUS);
            change.into_iter().for_each(|change| self.server.report(change));
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
            let mut out = Vec::new();
            if self.client.poll_transmit(self.now, &mut out) {
                self.up.put(self.now, out, &mut self.chance);
                moved = true;
            }
            if let Some(piece) = self.up.take(self.now) {
                assert_eq!(self.server.handle_input(self.now, &piece), piece.len());
                moved = true;
            }
            self.server.handle_timeout(self.now);
            self.serve();
            let mut out = Vec::new();
            if self.server.poll_transmit(self.now, &mut out) {
                self.down.put(self.now, out, &mut self.chance);
                moved = true;
            }
            if !moved {
                return;
            }
        }
        panic!("a world that does not come to rest");
    }

    fn pass(&mut self, by: Duration) {
        let end = self.now.mono + by;
        loop {
            self.turn();
            let machines = self.client.timeout().into_iter().chain(self.server.timeout());
            let next = machines.chain(self.up.next()).chain(self.down.next()).min().unwrap_or(end).min(end);
            if next == self.now.mono {
                return;
            }
            self.now = self.now.later(next.since(self.now.mono));
        }
    }

    fn check(&self) {
        for station in STATIONS {
            for raw in 1..=POINTS {
                let at = Address::new(raw).unwrap();
                let has = self.database.borrow().element(station, at);
                assert_eq!(self.known.get(&(station, at)).copied(), has, "{station} {raw}");
            }
        }
        assert_eq!(self.ended.len() as u64, self.asked);
        for (id, outcome) in &self.ended {
            let done = self.done.get(id).copied().unwrap_or(0);
            match outcome {
                Outcome::Done => assert_eq!(done, 1, "{id}"),
                Outcome::Refused { .. } | Outcome::Failed { maybe_done: false, .. } => assert_eq!(done, 0, "{id}"),
                Outcome::Failed { .. } => assert!(done <= 1, "{id} was done {done} times"),
            }
        }
    }
}

#[test]
fn a_client_knows_what_its_station_has() {
    let (mut closings, mut dropped, mut done) = (0, 0, 0);
    for seed in 0..40 {
        std::println!("seed {seed}");
        let mut world = World::new(seed);
        world.connect();
        for _ in 0..ACTS {
            world.act();
            let ms = world.chance.below(200);
            world.pass(Duration::from_millis(ms));
        }
        world.pass(Duration::from_secs(60));
        world.check();
        closings += world.closings;
        dropped += world.server.counters().reports_dropped;
        done += world.ended.values().filter(|outcome| **outcome == Outcome::Done).count();
    }
    assert!(closings > 50 && dropped > 1000 && done > 300, "{closings} {dropped} {done}");
}
