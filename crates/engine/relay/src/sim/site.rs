//! A site: its journal on a disk, its sender, its link.

extern crate std;
use super::link::Line;
use crate::{Stream, Upward, UpwardLimits};
use core::time::Duration;
use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec::Vec;
use tieline_core::Random;

/// Of all sites.
pub(super) const FIRST_EPOCH: u64 = 1_000_000;

/// A record that nobody else has.
pub(super) fn record(site: &str, stream: Stream, epoch: u64, number: u64) -> Vec<u8> {
    let padding = (number * 7919 + epoch * 13) % 90;
    let mut record = format!("{site} {} {epoch} {number} ", stream.name()).into_bytes();
    record.extend((0..padding).map(|i| (i * number % 251).to_le_bytes()[0]));
    record
}

/// One stream's part of a journal.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    /// The last number that was written, and the last one that survives a power cut.
    pub(super) written: u64,
    pub(super) durable: u64,
    /// The first number that is there.
    pub(super) oldest: u64,
    /// What the sender's owner was told is on the centre's disk.
    pub(super) acknowledged: u64,
}

pub(super) struct Site {
    pub(super) name: String,
    pub(super) epoch: u64,
    pub(super) journals: BTreeMap<Stream, Journal>,
    pub(super) upward: Upward,
    pub(super) up: Line,
    pub(super) down: Line,
    /// Each kill makes what is on its way of no meaning.
    pub(super) life: u64,
    /// Its clock from the true one, in microseconds.
    pub(super) clock: i64,
    pub(super) is_up: bool,
    /// How long a read takes.
    pub(super) disk: Duration,
}

pub(super) fn limits() -> UpwardLimits {
    UpwardLimits { records_max: 8, in_flight_max: 6, refused_rest: Duration::from_secs(3), ..UpwardLimits::default() }
}

impl Site {
    pub(super) fn new(name: String, random: &mut Random) -> Self {
        let rates = [8_000, 64_000, 1_000_000, 100_000_000];
        let rate = rates[usize::try_from(random.number() % 4).unwrap()];
        let delay = Duration::from_millis([1, 20, 300][usize::try_from(random.number() % 3).unwrap()]);
        let mut journals = BTreeMap::new();
        for stream in Stream::ALL {
            journals.insert(stream, Journal { oldest: 1, ..Journal::default() });
        }
        Self {
            upward: Upward::new(&name, FIRST_EPOCH, limits(), random.number()),
            name,
            epoch: FIRST_EPOCH,
            journals,
            up: Line::new(rate, delay),
            down: Line::new(rate, delay),
            life: 0,
            clock: 0,
            is_up: true,
            disk: Duration::from_micros(200),
        }
    }

    /// The process is killed, or the power is cut: then all that is not durable is gone. It starts again.
    pub(super) fn restart(&mut self, loses_power: bool, seed: u64) {
        self.life += 1;
        self.upward = Upward::new(&self.name, self.epoch, limits(), seed);
        for (stream, journal) in &mut self.journals {
            if loses_power {
                journal.written = journal.durable;
            }
            self.upward.handle_durable(*stream, journal.durable);
        }
        self.upward.handle_link(self.is_up);
    }

    /// The journal is lost with its disk, or begins again because the centre knows numbers that it does not.
    pub(super) fn begin_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.upward.begin_epoch(epoch);
        for journal in self.journals.values_mut() {
            *journal = Journal { oldest: 1, ..Journal::default() };
        }
    }
}
