//! Random lives of a journal: appends, writes, syncs, releases, failing calls, power cuts and kills. The oracle is the
//! list of what was acknowledged.

extern crate std;
use super::disk::{Dice, Disk};
use super::seeds::run_seeds;
use crate::{Item, Journal, Limits, Reader, Seq, State, WhenFull};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use std::println;
use tieline_core::Timestamp;

const SEEDS: u64 = 10_000;
const LIVES: usize = 4;

struct Life {
    disk: Disk,
    dice: Dice,
    /// Every payload that was ever appended under a sequence.
    appended: BTreeMap<Seq, Vec<Vec<u8>>>,
    /// What was acknowledged as durable.
    acknowledged: BTreeMap<Seq, Vec<u8>>,
    /// The last record that a write returned.
    written: Seq,
    stored: Seq,
    found: Seq,
    records_read: usize,
}

impl Life {
    fn open(&mut self, fail: usize) -> Option<Journal<Disk>> {
        let limits = Limits {
            segment_bytes: 300,
            total_bytes: 1 << 20,
            when_full: WhenFull::Refuse,
            unsynced_bytes: 2_000,
            kept_bytes: 0,
        };
        self.disk.fail_one_in(fail);
        // The clock of a machine may go back.
        let now = Timestamp::from_micros(1_700_000_000_000_000 + (self.dice.below(1000) as i64));
        let (journal, _) = Journal::open(self.disk.clone(), limits, self.stored, now).ok()?;
        // What an earlier life left was acknowledged to nobody by this one.
        self.found = journal.durable();
        Some(journal)
    }

    fn live(&mut self, journal: &mut Journal<Disk>, steps: usize) {
        for _ in 0..steps {
            if self.disk.has_crashed() {
                return;
            }
            if matches!(journal.state(), State::Failed(_)) && self.dice.one_in(2) {
                let _ = journal.recover();
                self.acknowledge(journal.durable());
            }
            match self.dice.below(10) {
                0..=5 => {
                    let payload: Vec<u8> = (0..self.dice.below(60)).map(|_| self.dice.roll() as u8).collect();
                    if let Ok(seq) = journal.append(&payload) {
                        self.appended.entry(seq).or_default().push(payload);
                    }
                }
                6 => self.written = journal.write().unwrap_or(self.written),
                7 | 8 => {
                    if let Ok(durable) = journal.sync() {
                        self.acknowledge(durable);
                    }
                }
                _ => {
                    let upto = Seq(self.stored.0 + self.dice.below(5) as u64).min(journal.durable());
                    self.read(self.stored.next(), upto);
                    self.stored = self.stored.max(upto);
                    journal.release(self.stored);
                }
            }
        }
    }

    fn acknowledge(&mut self, upto: Seq) {
        let last = self.acknowledged.last_key_value().map_or(Seq(0), |(seq, _)| *seq);
        let from = last.max(self.found).next();
        for (seq, payloads) in self.appended.range(from..upto.next().max(from)) {
            self.acknowledged.insert(*seq, payloads.last().unwrap().clone());
        }
    }

    /// Reads and compares: nothing acknowledged is missing, nothing was invented.
    fn read(&mut self, from: Seq, upto: Seq) {
        let mut reader = Reader::new(self.disk.clone(), from);
        let mut expected = from;
        while let Some(item) = reader.next(upto).unwrap() {
            match item {
                Item::Record { seq, payload } => {
                    assert_eq!(seq, expected, "order");
                    assert!(self.appended[&seq].iter().any(|p| p == payload), "record {seq} was invented");
                    if let Some(acknowledged) = self.acknowledged.get(&seq) {
                        assert_eq!(acknowledged, payload, "acknowledged record {seq}");
                    }
                    expected = seq.next();
                    self.records_read += 1;
                }
                Item::Lost(lost) => {
                    let gone = lost.first..Seq(lost.first.0 + lost.records);
                    let missing = self.acknowledged.range(gone.clone()).next();
                    assert!(missing.is_none(), "acknowledged record {missing:?} is lost: {lost:?}");
                    expected = gone.end;
                }
            }
        }
        assert_eq!(expected, upto.next().max(from));
    }
}

fn run(seed: u64) -> usize {
    let mut dice = Dice::new(seed);
    let disk = Disk::new(dice.roll());
    let mut life = Life {
        disk,
        dice,
        appended: BTreeMap::new(),
        acknowledged: BTreeMap::new(),
        written: Seq(0),
        stored: Seq(0),
        found: Seq(0),
        records_read: 0,
    };
    for _ in 0..LIVES {
        let fail = [0, 0, 3, 10, 30][life.dice.below(5)];
        life.disk.crash_after(life.dice.below(60));
        let steps = life.dice.below(120);
        if let Some(mut journal) = life.open(fail) {
            life.live(&mut journal, steps);
        }
        if life.dice.one_in(3) {
            life.disk.restart()
        } else {
            life.disk.power_cut()
        }
        let journal = life.open(0).expect("a healthy disk opens");
        let last = life.acknowledged.last_key_value().map_or(Seq(0), |(seq, _)| *seq);
        assert!(journal.durable() >= last, "acknowledged up to {last}, durable up to {}", journal.durable());
        life.read(life.stored.next(), journal.durable());
    }
    life.records_read
}

#[test]
fn no_crash_loses_what_was_acknowledged() {
    // TIELINE_SEED=<seed> runs one again, TIELINE_SEEDS=<count> runs more.
    let mut records = 0;
    let seeds = run_seeds("crashes of a journal", SEEDS, |seed, _| records += run(seed));
    println!("{LIVES} lives each, {records} records read back");
    assert!(seeds == 0 || records as u64 > seeds);
}

/// One script, a crash after every storage call, by kill and by power cut.
#[test]
fn a_crash_after_every_storage_call_loses_nothing_acknowledged() {
    for cut in [false, true] {
        for call in 0..200 {
            let mut life = Life {
                disk: Disk::new(call as u64),
                dice: Dice::new(42),
                appended: BTreeMap::new(),
                acknowledged: BTreeMap::new(),
                written: Seq(0),
                stored: Seq(0),
                found: Seq(0),
                records_read: 0,
            };
            life.disk.crash_after(call);
            if let Some(mut journal) = life.open(0) {
                life.live(&mut journal, 300);
            }
            if cut {
                life.disk.power_cut()
            } else {
                life.disk.restart()
            }
            let journal = life.open(0).expect("a healthy disk opens");
            life.read(life.stored.next(), journal.durable());
            let last = life.acknowledged.last_key_value().map_or(Seq(0), |(seq, _)| *seq);
            assert!(journal.durable() >= last, "crash after call {call}");
        }
    }
}
