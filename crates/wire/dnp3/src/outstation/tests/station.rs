//! An outstation with a tester at the other end of its link, who speaks in fragments of hex.

use crate::endpoint::{Endpoint, EndpointConfig, Received, Role};
use crate::link::LinkAddress;
use crate::outstation::{
    AcceptAll, ControlHandler, Database, Outstation, OutstationConfig, OutstationEvent, PointConfig,
};
use crate::{EventClass, Flags, Measured, Measurement, PointType};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;
use std::format;
use std::string::String;
use std::vec::Vec;
use tieline_core::{Instant, Machine, Now, Timestamp};

pub(crate) const MASTER: LinkAddress = LinkAddress::new(1);
pub(crate) const OUTSTATION: LinkAddress = LinkAddress::new(10);

pub(crate) struct Station {
    pub(crate) outstation: Outstation,
    pub(crate) now: Now,
    pub(crate) told: Vec<OutstationEvent>,
    tester: Endpoint,
    out: VecDeque<Vec<u8>>,
}

/// Two of each type at 0 and 1, with small variations; binaries in class 1, analogs in class 2, counters in class 3.
pub(crate) fn small_database() -> Database {
    let mut database = Database::new();
    for point_type in PointType::ALL {
        for index in 0..2 {
            let (static_variation, event_variation) = match point_type {
                PointType::OctetString => (0, 0),
                PointType::Binary | PointType::DoubleBit | PointType::BinaryOutput => (2, 1),
                PointType::Counter
                | PointType::FrozenCounter
                | PointType::Analog
                | PointType::FrozenAnalog
                | PointType::AnalogOutput => (2, 2),
            };
            let config = PointConfig { static_variation, event_variation, ..PointConfig::of(point_type) };
            let class = match point_type {
                PointType::BinaryOutput | PointType::AnalogOutput => None,
                _ => config.class,
            };
            database.add(point_type, index, config.in_class(class)).unwrap();
        }
    }
    database
}

pub(crate) fn bit(index: u16, state: bool) -> Measurement {
    let (point_type, value) = (PointType::Binary, Measured::Bit(state));
    Measurement { point_type, index, value, flags: Flags::ONLINE, stamp: None }
}

pub(crate) fn analog(index: u16, value: f64) -> Measurement {
    let (point_type, value) = (PointType::Analog, Measured::Analog(value));
    Measurement { point_type, index, value, flags: Flags::ONLINE, stamp: None }
}

pub(crate) fn count(index: u16, value: u32) -> Measurement {
    let (point_type, value) = (PointType::Counter, Measured::Count(value));
    Measurement { point_type, index, value, flags: Flags::ONLINE, stamp: None }
}

impl Station {
    /// Without unsolicited responses.
    pub(crate) fn quiet() -> Self {
        Self::new(OutstationConfig { unsolicited: None, ..OutstationConfig::default() }, Box::new(AcceptAll))
    }

    pub(crate) fn new(config: OutstationConfig, controls: Box<dyn ControlHandler + Send>) -> Self {
        Self::with_database(config, small_database(), controls)
    }

    pub(crate) fn with_database(
        config: OutstationConfig,
        database: Database,
        controls: Box<dyn ControlHandler + Send>,
    ) -> Self {
        let now = Now { mono: Instant::ZERO, utc: Timestamp::from_millis(1000) };
        let mut outstation = Outstation::new(config, database, controls);
        outstation.handle_connected(now);
        let tester = Endpoint::new(EndpointConfig::new(Role::Master, MASTER));
        Self { outstation, now, told: Vec::new(), tester, out: VecDeque::new() }
    }

    /// Sends a fragment to an address, without looking for an answer.
    pub(crate) fn send_to(&mut self, destination: LinkAddress, fragment: &[u8]) {
        let mut bytes = Vec::new();
        self.tester.write_fragment(destination, fragment, &mut bytes);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let used = self.outstation.handle_input(self.now, rest);
            rest = &rest[used..];
            self.drain();
        }
    }

    /// Sends a fragment and expects that one, or none for an empty text.
    pub(crate) fn ask(&mut self, request: &str, answer: &str) -> &mut Self {
        self.send_to(OUTSTATION, &bytes(request));
        self.drain();
        let found = self.next();
        assert_eq!(found, bytes(answer), "{request} was answered {}, expected {answer}", hex(&found));
        self
    }

    /// Expects a fragment without asking.
    pub(crate) fn hear(&mut self, answer: &str) -> &mut Self {
        self.tick();
        let found = self.next();
        assert_eq!(found, bytes(answer), "heard {}, expected {answer}", hex(&found));
        self
    }

    /// Lets deadlines take effect.
    pub(crate) fn tick(&mut self) {
        self.outstation.handle_timeout(self.now);
        self.drain();
    }

    /// The next fragment that came out; empty where there is none.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        self.out.pop_front().unwrap_or_default()
    }

    pub(crate) fn update(&mut self, measurement: Measurement) -> &mut Self {
        self.outstation.update(self.now, measurement).unwrap();
        self
    }

    pub(crate) fn wait(&mut self, millis: u64) -> &mut Self {
        self.now = self.now.later(Duration::from_millis(millis));
        self
    }

    /// The connection breaks, and comes again.
    pub(crate) fn reconnect(&mut self) -> &mut Self {
        self.outstation.handle_disconnected(self.now);
        self.out.clear();
        self.tester.reset();
        self.outstation.handle_connected(self.now);
        self
    }

    pub(crate) fn drain(&mut self) {
        self.told.extend(core::iter::from_fn(|| self.outstation.poll_event()));
        let mut bytes = Vec::new();
        while self.outstation.poll_transmit(self.now, &mut bytes) {}
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (used, received) = self.tester.handle_input(rest);
            rest = &rest[used..];
            if let Some(Received::Fragment { .. }) = received {
                self.out.push_back(self.tester.fragment().to_vec());
                self.tester.release();
            }
        }
    }
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("a byte in hex")).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X} ")).collect()
}

/// A class for every binary.
pub(crate) fn binaries(count: u16, class: EventClass) -> Database {
    let mut database = Database::new();
    for index in 0..count {
        database.add(PointType::Binary, index, PointConfig::of(PointType::Binary).in_class(Some(class))).unwrap();
    }
    database
}
