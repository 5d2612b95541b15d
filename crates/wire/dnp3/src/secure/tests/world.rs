//! A master and an outstation of ours in virtual time, and an attacker on the wire between them: fragment by fragment.

use crate::app::{CommandStatus, Fragment, Function};
use crate::endpoint::{Endpoint, EndpointConfig, Received, Role as Side};
use crate::link::LinkAddress;
use crate::master::{Master, MasterConfig, MasterEvent, TaskOutcome, TimeSync};
use crate::outstation::{
    ControlHandler, Database, Operate, Outstation, OutstationConfig, OutstationEvent, PointConfig, UnsolicitedConfig,
};
use crate::secure::{
    Authentication, Key, MasterSecurity, MasterSecurityConfig, OutstationSecurity, OutstationSecurityConfig, Random,
    Role, SecurityEvent, User,
};
use crate::{Classes, Control, Crob, Flags, Measured, Measurement, PointType};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use std::string::{String, ToString};
use tieline_core::{CommandMode, Instant, Machine, Now, Timestamp};

const MASTER: LinkAddress = LinkAddress::new(1);
const OUTSTATION: LinkAddress = LinkAddress::new(10);

pub(in crate::secure) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Random enough for a test, and the same in every run.
#[derive(Clone, Debug)]
pub(super) struct Seeded(pub(super) u64);

impl Random for Seeded {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            *byte = self.0.to_le_bytes()[3];
        }
    }
}

pub(super) fn key(byte: u8) -> Key {
    Key::new(&[byte; 16]).unwrap()
}

pub(super) fn long_key(byte: u8) -> Key {
    Key::new(&[byte; 32]).unwrap()
}

pub(super) fn user(number: u16, role: Role, update_key: Key) -> User {
    User { number, name: std::format!("user{number}"), role, until_day: None, update_key }
}

/// One fragment on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) to_master: bool,
    pub(super) bytes: Vec<u8>,
}

impl Sent {
    /// The function and, of secure authentication, the variation of the first object: `operate`, `32.2`, `131.1`.
    pub(super) fn word(&self) -> String {
        let Ok(fragment) = Fragment::parse(&self.bytes) else { return "?".to_string() };
        let first = Authentication::all(&fragment).next().map(|object| object.variation());
        match (fragment.function, first) {
            (Function::AuthenticationRequest, Some(variation)) => std::format!("v{variation}"),
            (Function::AuthenticationResponse, Some(variation)) => std::format!("V{variation}"),
            (Function::AuthenticationRequestNoResponse, Some(variation)) => std::format!("n{variation}"),
            (function, Some(3)) => std::format!("{}+", function.name()),
            (function, _) => function.name().to_string(),
        }
    }
}

struct Yes;

impl ControlHandler for Yes {
    fn select(&mut self, _index: u16, _control: &Control) -> CommandStatus {
        CommandStatus::Success
    }

    fn operate(&mut self, _index: u16, _control: &Control, _how: Operate) -> CommandStatus {
        CommandStatus::Success
    }
}

/// What the forger does with a fragment.
pub(super) type Forger = Box<dyn FnMut(usize, &Sent) -> Vec<Vec<u8>>>;

pub(super) struct World {
    pub(super) now: Now,
    pub(super) master: Master,
    pub(super) outstation: Outstation,
    /// What was sent, before the forger had it.
    pub(super) sent: Vec<Sent>,
    pub(super) forger: Option<Forger>,
    /// Controls that were operated.
    pub(super) operated: Vec<(u16, Control)>,
    pub(super) outcomes: Vec<TaskOutcome>,
    pub(super) of_master: Vec<SecurityEvent>,
    pub(super) of_outstation: Vec<SecurityEvent>,
    pub(super) unsolicited: usize,
    taps: [Endpoint; 2],
    pens: [Endpoint; 2],
}

pub(super) fn latch() -> Control {
    Control::Crob(Crob { code: 3, count: 1, on_ms: 0, off_ms: 0 })
}

fn endpoint(role: Side, local: LinkAddress, remote: LinkAddress) -> Endpoint {
    Endpoint::new(EndpointConfig { remote: Some(remote), ..EndpointConfig::new(role, local) })
}

/// A master without duties, so that a test shows one thing.
pub(super) fn quiet() -> MasterConfig {
    MasterConfig {
        disable_unsolicited: Classes::NONE,
        integrity: Classes::NONE,
        enable_unsolicited: Classes::NONE,
        time_sync: TimeSync::Never,
        keep_alive: None,
        ..MasterConfig::default()
    }
}

impl World {
    pub(super) fn usual() -> Self {
        Self::new(MasterSecurityConfig::new(key(1)), OutstationSecurityConfig::default(), Role::SingleUser)
    }

    pub(super) fn new(master: MasterSecurityConfig, outstation: OutstationSecurityConfig, role: Role) -> Self {
        Self::with_users(quiet(), master, outstation, [user(1, role, key(1))].to_vec())
    }

    pub(super) fn with_users(
        config: MasterConfig,
        master: MasterSecurityConfig,
        outstation: OutstationSecurityConfig,
        users: Vec<User>,
    ) -> Self {
        let mut database = Database::new();
        for index in 0..4 {
            database.add(PointType::BinaryOutput, index, PointConfig::of(PointType::BinaryOutput)).unwrap();
        }
        database.add(PointType::Binary, 0, PointConfig::of(PointType::Binary)).unwrap();
        let unsolicited = Some(UnsolicitedConfig { classes: Classes::EVENTS, ..UnsolicitedConfig::default() });
        let station = OutstationConfig { unsolicited, ..OutstationConfig::default() };
        let mut this = Self {
            now: Now { mono: Instant(0), utc: Timestamp::from_millis(1_000_000) },
            master: Master::new(config),
            outstation: Outstation::new(station, database, Box::new(Yes)),
            sent: Vec::new(),
            forger: None,
            operated: Vec::new(),
            outcomes: Vec::new(),
            of_master: Vec::new(),
            of_outstation: Vec::new(),
            unsolicited: 0,
            taps: [endpoint(Side::Master, MASTER, OUTSTATION), endpoint(Side::Outstation, OUTSTATION, MASTER)],
            pens: [endpoint(Side::Outstation, OUTSTATION, MASTER), endpoint(Side::Master, MASTER, OUTSTATION)],
        };
        // Nothing to clear at start-up, so that a test shows one thing.
        this.outstation.handle_connected(this.now);
        this.deliver(false, &[0xC0, 2, 80, 1, 0, 7, 7, 0]);
        this.outstation.poll_transmit(this.now, &mut Vec::new());
        this.outstation.handle_disconnected(this.now);
        this.pens.iter_mut().for_each(Endpoint::reset);
        this.master.set_security(MasterSecurity::new(master, Box::new(Seeded(11))));
        this.outstation.set_security(OutstationSecurity::new(outstation, users, Box::new(Seeded(22))));
        this
    }

    pub(super) fn connect(&mut self) {
        self.master.handle_connected(self.now);
        self.outstation.handle_connected(self.now);
        self.run();
    }

    pub(super) fn cut(&mut self) {
        self.master.handle_disconnected(self.now);
        self.outstation.handle_disconnected(self.now);
        self.taps.iter_mut().chain(&mut self.pens).for_each(Endpoint::reset);
        self.drain();
    }

    /// Lets fragments flow until nobody has anything to say.
    pub(super) fn run(&mut self) {
        for _ in 0..200 {
            self.drain();
            let mut bytes = Vec::new();
            let to_master = self.outstation.poll_transmit(self.now, &mut bytes);
            if !to_master && !self.master.poll_transmit(self.now, &mut bytes) {
                return;
            }
            self.carry(to_master, &bytes);
        }
        panic!("no end: {:?}", self.words());
    }

    fn carry(&mut self, to_master: bool, bytes: &[u8]) {
        let tap = &mut self.taps[usize::from(!to_master)];
        let (used, received) = tap.handle_input(bytes);
        assert_eq!(used, bytes.len());
        if !matches!(received, Some(Received::Fragment { .. })) {
            // The link layer's own.
            return self.deliver_bytes(to_master, bytes);
        }
        let sent = Sent { to_master, bytes: tap.fragment().to_vec() };
        tap.release();
        let number = self.sent.len();
        self.sent.push(sent.clone());
        let delivered = match &mut self.forger {
            Some(forger) => forger(number, &sent),
            None => [sent.bytes].to_vec(),
        };
        for fragment in delivered {
            self.deliver(to_master, &fragment);
        }
    }

    /// A fragment arrives, from any sender.
    pub(super) fn deliver(&mut self, to_master: bool, fragment: &[u8]) {
        let mut bytes = Vec::new();
        let destination = if to_master { MASTER } else { OUTSTATION };
        self.pens[usize::from(!to_master)].write_fragment(destination, fragment, &mut bytes);
        self.deliver_bytes(to_master, &bytes);
    }

    pub(super) fn deliver_bytes(&mut self, to_master: bool, bytes: &[u8]) {
        let mut rest = bytes;
        for _ in 0..20 {
            let used = if to_master {
                self.master.handle_input(self.now, rest)
            } else {
                self.outstation.handle_input(self.now, rest)
            };
            rest = &rest[used..];
            self.drain();
            if rest.is_empty() {
                return;
            }
        }
        panic!("the input is not taken");
    }

    fn drain(&mut self) {
        while let Some(event) = self.master.poll_event() {
            match event {
                MasterEvent::TaskDone { outcome, .. } => self.outcomes.push(outcome),
                MasterEvent::Security(event) => self.of_master.push(*event),
                MasterEvent::Values { values, unsolicited: true } => self.unsolicited += values.iter().count(),
                _ => {}
            }
        }
        while let Some(event) = self.outstation.poll_event() {
            match event {
                OutstationEvent::Operated { index, control, .. } => self.operated.push((index, control)),
                OutstationEvent::Security(event) => self.of_outstation.push(*event),
                _ => {}
            }
        }
    }

    pub(super) fn pass(&mut self, by: Duration) {
        self.now = self.now.later(by);
        self.master.handle_timeout(self.now);
        self.outstation.handle_timeout(self.now);
        self.run();
    }

    /// Lets as many timeouts pass as there are within a minute.
    pub(super) fn settle(&mut self) {
        for _ in 0..60 {
            self.pass(Duration::from_secs(1));
        }
    }

    pub(super) fn command(&mut self, mode: CommandMode) -> Option<TaskOutcome> {
        self.ask(mode);
        self.run();
        self.outcomes.pop()
    }

    pub(super) fn ask(&mut self, mode: CommandMode) {
        let until = self.now.mono + Duration::from_secs(50);
        self.master.command(self.now, latch(), 2, mode, until, 7).unwrap();
    }

    pub(super) fn operate(&mut self) -> Option<TaskOutcome> {
        self.command(CommandMode::DirectOperate)
    }

    pub(super) fn change(&mut self, state: bool) {
        let (point_type, value) = (PointType::Binary, Measured::Bit(state));
        let measurement = Measurement { point_type, index: 0, value, flags: Flags::ONLINE, stamp: None };
        self.outstation.update(self.now, measurement).unwrap();
    }

    /// What was sent since the last call, confirms and unsolicited responses left out.
    pub(super) fn words(&mut self) -> String {
        let words: Vec<String> = self.sent.drain(..).map(|sent| sent.word()).collect();
        let kept: Vec<String> =
            words.into_iter().filter(|word| word != "confirm" && word != "unsolicited-response").collect();
        kept.join(" ")
    }
}
