//! Sites and their centre.

extern crate std;

mod deeds;

use super::agenda::Agenda;
use super::run_seeds;
use super::site::{FIRST_EPOCH, Site, record};
use crate::{Mark, Part, Read, Receiver, ReceiverLimits, Reply, Stream, UpwardEvent};
use bytes::Bytes;
use core::ops::AddAssign;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::sync::Arc;
use std::vec::Vec;
use std::{format, println};
use tieline_core::{Instant, Now, Random, Timestamp};

const SEEDS: u64 = 1_000;
const STEPS: u32 = 40;
const START_MICROS: i64 = 1_700_000_000_000_000;
/// All is stored within this time, once all is well.
const WELL_WITHIN: Duration = Duration::from_secs(120);
const WAITING_BYTES_MAX: usize = 6_000;

/// What happened in all runs: a simulation in which nothing happens finds nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    stored: u64,
    lost: u64,
    not_stored: u64,
    busy: u64,
    failed: u64,
    centre_kills: u64,
    site_kills: u64,
    silences: u64,
    epochs: u64,
    cuts: u64,
    half_open: u64,
    jumps: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.stored += other.stored;
        self.lost += other.lost;
        self.not_stored += other.not_stored;
        self.busy += other.busy;
        self.failed += other.failed;
        self.centre_kills += other.centre_kills;
        self.site_kills += other.site_kills;
        self.silences += other.silences;
        self.epochs += other.epochs;
        self.cuts += other.cuts;
        self.half_open += other.half_open;
        self.jumps += other.jumps;
    }
}

/// A request's way back: which site, in which of its lives, which number.
type Request = (usize, u64, u64);

enum Thing {
    /// A batch comes to the centre.
    Batch(Request, Vec<u8>),
    /// An answer comes to the site.
    Answer(Request, Vec<u8>),
    /// Nobody took the request.
    Away(Request),
    /// The site's disk has read.
    Records(usize, u64, Read),
    /// The transaction ends, in this life of the centre: whether it is on the disk, and whether the centre learns it.
    Committed(u64, Vec<Part>, bool, bool),
    /// The marks were read.
    Marks(u64),
    /// The centre is there again.
    Started(u64),
}

#[derive(Default)]
struct Stored {
    mark: Mark,
    /// Epoch and number of each record, as it was stored.
    records: Vec<(u64, u64)>,
}

struct World {
    random: Random,
    is_loud: bool,
    now: Instant,
    agenda: Agenda<Thing>,
    sites: Vec<Site>,
    receiver: Option<Receiver<Request>>,
    life: u64,
    is_loading: bool,
    /// The centre's clock from the true one.
    clock: i64,
    disk: Duration,
    /// One of so many transactions fails; 0: none.
    fails: u64,
    store: BTreeMap<(Arc<str>, Stream), Stored>,
    /// The highest epoch so far: none is used twice.
    epochs: u64,
    /// Numbers that sites lost before they were sent, by site, stream, epoch.
    gone: BTreeSet<(usize, Stream, u64, u64)>,
    counters: Counters,
}

fn new_receiver() -> Receiver<Request> {
    Receiver::new(ReceiverLimits {
        waiting_bytes_max: WAITING_BYTES_MAX,
        stream_bytes_max: 2_000,
        transaction_bytes_max: 2_000,
        ..ReceiverLimits::default()
    })
}

impl World {
    fn new(seed: u64, is_loud: bool) -> Self {
        let mut random = Random::new(seed);
        let count = 1 + random.number() % 3;
        let sites = (0..count).map(|i| Site::new(format!("site{i}"), &mut random)).collect();
        let mut world = Self {
            random,
            is_loud,
            now: Instant(1_000_000_000),
            agenda: Agenda::new(),
            sites,
            receiver: Some(new_receiver()),
            life: 0,
            is_loading: false,
            clock: 7_000_000,
            disk: Duration::from_millis(2),
            fails: 0,
            store: BTreeMap::new(),
            epochs: FIRST_EPOCH,
            gone: BTreeSet::new(),
            counters: Counters::default(),
        };
        for site in &mut world.sites {
            site.upward.handle_link(true);
        }
        world
    }

    fn say(&self, words: impl FnOnce() -> String) {
        if self.is_loud {
            println!("{:>12.6} {}", Duration::from_nanos(self.now.0).as_secs_f64(), words());
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.number() % end
    }

    fn now_of(&self, clock: i64) -> Now {
        let utc = START_MICROS + clock + i64::try_from(self.now.0 / 1000).unwrap();
        Now { mono: self.now, utc: Timestamp::from_micros(utc) }
    }

    /// Lets time pass up to an instant, and everything happen that is due.
    fn pass(&mut self, until: Instant) {
        loop {
            (0..self.sites.len()).for_each(|site| self.drive_site(site));
            self.drive_centre();
            let timeouts = self.sites.iter().filter_map(|site| site.upward.timeout());
            let next = timeouts.chain(self.agenda.at()).min().filter(|at| *at <= until);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            if self.agenda.at().is_some_and(|at| at <= self.now) {
                let thing = self.agenda.take().unwrap();
                self.handle(thing);
            }
            for site in &mut self.sites {
                site.upward.handle_timeout(self.now);
            }
        }
        self.now = self.now.max(until);
    }

    fn handle(&mut self, thing: Thing) {
        match thing {
            Thing::Batch(request, body) => self.handle_batch(request, body),
            Thing::Answer((site, life, id), body) => {
                let now = self.now_of(self.sites[site].clock);
                let site = &mut self.sites[site];
                if site.life == life {
                    site.upward.handle_answer(now, id, &body);
                }
            }
            Thing::Away((site, life, id)) => {
                let site = &mut self.sites[site];
                if site.life == life {
                    site.upward.handle_away(self.now, id);
                }
            }
            Thing::Records(site, life, read) => self.handle_records(site, life, read),
            Thing::Committed(life, parts, is_done, is_told) => self.handle_committed(life, parts, is_done, is_told),
            Thing::Marks(life) if life == self.life => {
                let marks: Vec<_> =
                    self.store.iter().map(|((site, stream), stored)| (site.clone(), *stream, stored.mark)).collect();
                self.is_loading = false;
                self.receiver.as_mut().unwrap().handle_marks(marks);
            }
            Thing::Started(life) if life == self.life => self.receiver = Some(new_receiver()),
            Thing::Marks(_) | Thing::Started(_) => {}
        }
    }

    fn drive_site(&mut self, index: usize) {
        let now = self.now_of(self.sites[index].clock);
        let site = &mut self.sites[index];
        while let Some(read) = site.upward.poll_read() {
            let at = self.now + site.disk;
            self.agenda.add(at, Thing::Records(index, site.life, read));
        }
        let mut events = Vec::new();
        while let Some(event) = site.upward.poll_event() {
            events.push(event);
        }
        while let Some(outgoing) = site.upward.poll_transmit(now) {
            let request = (index, site.life, outgoing.id);
            for at in site.up.send(self.now, outgoing.body.len(), &mut self.random).into_iter().flatten() {
                self.agenda.add(at, Thing::Batch(request, outgoing.body.clone()));
            }
        }
        events.into_iter().for_each(|event| self.handle_event(index, event));
    }

    fn handle_event(&mut self, index: usize, event: UpwardEvent) {
        self.say(|| format!("{} {event:?}", self.sites[index].name));
        let site = &mut self.sites[index];
        match event {
            UpwardEvent::Acknowledged { stream, upto } => {
                let key = (Arc::from(site.name.as_str()), stream);
                let mark = self.store.get(&key).map(|stored| stored.mark).unwrap_or_default();
                assert!(mark >= Mark { epoch: site.epoch, number: upto }, "acknowledged {upto}, stored {mark:?}");
                let journal = site.journals.get_mut(&stream).unwrap();
                journal.acknowledged = upto;
                journal.oldest = journal.oldest.max(upto + 1);
            }
            UpwardEvent::Lost { stream, first, last } => {
                for number in first..=last {
                    assert!(self.gone.contains(&(index, stream, site.epoch, number)), "{number} was not lost");
                }
            }
            UpwardEvent::EpochNeeded { above } => {
                self.counters.epochs += 1;
                self.epochs += 10;
                assert!(self.epochs > above);
                site.begin_epoch(self.epochs);
            }
            UpwardEvent::WentBack { .. } | UpwardEvent::Refused { .. } => panic!("{event:?}"),
        }
    }

    fn handle_records(&mut self, index: usize, life: u64, read: Read) {
        let site = &mut self.sites[index];
        if site.life != life {
            return;
        }
        let journal = &site.journals[&read.stream];
        let first = read.from.max(journal.oldest);
        let (mut records, mut bytes) = (Vec::new(), 0);
        for number in first..=journal.durable {
            if records.len() == read.records_max || bytes >= read.bytes_max {
                break;
            }
            records.push(record(&site.name, read.stream, site.epoch, number));
            bytes += records.last().unwrap().len();
        }
        site.upward.handle_records(self.now, read, first, &records);
    }

    fn handle_batch(&mut self, request: Request, body: Vec<u8>) {
        let now = self.now_of(self.clock);
        let site = &self.sites[request.0];
        let Some(receiver) = &mut self.receiver else {
            let at = self.now + site.down.delay;
            self.agenda.add(at, Thing::Away(request));
            return;
        };
        let name = site.name.clone();
        let reply = receiver.handle_batch(now, &name, request, &Bytes::from(body));
        assert!(receiver.waiting_bytes() <= WAITING_BYTES_MAX);
        reply.into_iter().for_each(|reply| self.answer(reply));
    }

    fn answer(&mut self, reply: Reply<Request>) {
        let site = &mut self.sites[reply.request.0];
        for at in site.down.send(self.now, reply.body.len(), &mut self.random).into_iter().flatten() {
            self.agenda.add(at, Thing::Answer(reply.request, reply.body.clone()));
        }
    }

    fn drive_centre(&mut self) {
        let Some(receiver) = &mut self.receiver else { return };
        if receiver.needs_marks() {
            if !core::mem::replace(&mut self.is_loading, true) {
                self.agenda.add(self.now + self.disk, Thing::Marks(self.life));
            }
            return;
        }
        let Some(parts) = receiver.poll_store() else { return };
        let fails = self.fails > 0 && self.random.number().is_multiple_of(self.fails);
        let is_done = !fails || self.random.number().is_multiple_of(2);
        self.agenda.add(self.now + self.disk, Thing::Committed(self.life, parts, is_done, !fails));
    }

    /// The store has a transaction, or not. A centre that was killed meanwhile has no part in it.
    fn handle_committed(&mut self, life: u64, parts: Vec<Part>, is_done: bool, is_told: bool) {
        let fits = parts.iter().all(|part| {
            let key = (part.site.clone(), part.stream);
            let earlier = parts.iter().take_while(|other| !core::ptr::eq(*other, part));
            let before = earlier.filter(|other| (&other.site, other.stream) == (&part.site, part.stream)).last();
            let stored = self.store.get(&key).map(|stored| stored.mark).unwrap_or_default();
            before.map_or(stored, |other| other.mark) == part.before
        });
        if is_done && fits {
            parts.iter().for_each(|part| self.store(part));
        }
        if life != self.life {
            return;
        }
        // A transaction of a centre that was killed came in between: ours is refused.
        let is_told = is_told && fits;
        let now = self.now_of(self.clock);
        let receiver = self.receiver.as_mut().unwrap();
        let replies = if is_told { receiver.handle_stored(now) } else { receiver.handle_failed(now) };
        self.counters.failed += u64::from(!is_told);
        replies.into_iter().for_each(|reply| self.answer(reply));
    }

    fn store(&mut self, part: &Part) {
        let index = self.sites.iter().position(|site| *site.name == *part.site).unwrap();
        let stored = self.store.entry((part.site.clone(), part.stream)).or_default();
        assert!(part.mark > stored.mark);
        let from = if part.mark.epoch == stored.mark.epoch { stored.mark.number + 1 } else { 1 };
        for number in from..part.first {
            assert!(self.gone.contains(&(index, part.stream, part.mark.epoch, number)), "{number} was not lost");
            self.counters.lost += 1;
        }
        for (number, found) in (part.first..).zip(part.records.iter()) {
            assert_eq!(found, record(&part.site, part.stream, part.mark.epoch, number));
            stored.records.push((part.mark.epoch, number));
            self.counters.stored += 1;
        }
        stored.mark = part.mark;
    }

    fn kill_centre(&mut self) {
        self.say(|| "the centre is killed".into());
        self.counters.centre_kills += 1;
        self.gather();
        self.receiver = None;
        self.is_loading = false;
        self.life += 1;
        let pause = Duration::from_millis(self.below(3_000));
        self.agenda.add(self.now + pause, Thing::Started(self.life));
    }

    fn gather(&mut self) {
        let Some(receiver) = &self.receiver else { return };
        let stats = receiver.stats();
        self.counters.busy += stats.busy;
        self.counters.not_stored += stats.not_stored;
    }
}

/// How it ends.
impl World {
    /// All is well again: what the sites have is stored.
    fn end(mut self) -> Counters {
        self.say(|| "all is well".into());
        self.fails = 0;
        self.disk = Duration::from_millis(2);
        for index in 0..self.sites.len() {
            let site = &mut self.sites[index];
            for line in [&mut site.up, &mut site.down] {
                (line.loses, line.doubles, line.jitter) = (0, 0, Duration::ZERO);
            }
            site.disk = Duration::from_micros(200);
            self.heal_link(index);
        }
        let end = self.now + WELL_WITHIN;
        while self.now < end && !self.is_done() {
            self.pass(self.now + Duration::from_secs(1));
        }
        self.check();
        self.check_clocks();
        self.gather();
        for site in &self.sites {
            self.counters.silences += site.upward.stats().silences;
        }
        self.counters
    }

    /// Where no clock was set, every site knows how far the centre's is.
    fn check_clocks(&self) {
        if self.counters.jumps > 0 {
            return;
        }
        for site in &self.sites {
            let Some(found) = site.upward.clock_offset(self.now) else { continue };
            let truth = self.clock - site.clock;
            assert!((found.micros - truth).abs() <= found.error_micros, "{found:?}, but it is {truth}");
        }
    }

    fn is_done(&self) -> bool {
        self.sites.iter().all(|site| {
            let all_is_acknowledged = |(stream, journal): (&Stream, &crate::sim::site::Journal)| {
                let is_gone = journal.oldest > journal.durable;
                is_gone || site.upward.acknowledged(*stream) == journal.durable
            };
            site.journals.iter().all(all_is_acknowledged)
        })
    }

    fn check(&self) {
        for site in &self.sites {
            for (stream, journal) in &site.journals {
                let acknowledged = site.upward.acknowledged(*stream);
                assert!(
                    acknowledged == journal.durable || journal.oldest > journal.durable,
                    "{} {stream:?}: {journal:?}, acknowledged {acknowledged}: {:?}",
                    site.name,
                    site.upward
                );
            }
        }
        for (key, stored) in &self.store {
            assert!(stored.records.is_sorted(), "{key:?} is out of order");
            assert!(stored.records.windows(2).all(|pair| pair[0] != pair[1]), "{key:?} has a record twice");
        }
    }
}

#[test]
fn each_acknowledged_record_is_stored_once_in_order() {
    let mut total = Counters::default();
    let seeds = run_seeds("sites and a centre", SEEDS, |seed, is_loud| {
        let mut world = World::new(seed, is_loud);
        (0..STEPS).for_each(|_| world.step());
        total += world.end();
    });
    println!("{total:?}");
    let Counters { stored, lost, not_stored, busy, failed, centre_kills, site_kills, silences, .. } = total;
    let Counters { epochs, cuts, half_open, jumps, .. } = total;
    if seeds > 0 {
        let all = [
            stored,
            lost,
            not_stored,
            busy,
            failed,
            centre_kills,
            site_kills,
            silences,
            epochs,
            cuts,
            half_open,
            jumps,
        ];
        assert!(all.iter().all(|count| *count > seeds / 20), "{total:?}");
    }
}
