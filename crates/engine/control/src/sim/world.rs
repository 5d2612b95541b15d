//! Agents, a node and devices, and how time passes for them.

extern crate std;
use super::Counters;
use super::devices::{Device, POINTS, UNANSWERED_AFTER};
use super::oracle::{GRACE, Oracle};
use super::tables::{Table, coordinator};
use crate::*;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, println};
use tieline_core::{Instant, Now, Quality, Random, Timestamp, Topic, Value};

pub(super) const DEVICES: usize = 3;
pub(super) const AGENTS: u64 = 3;
/// The point that no revert touches.
pub(super) const KEPT: usize = 3;
const START_MICROS: i64 = 1_700_000_000_000_000;

/// The last command of a point.
#[derive(Clone, Debug, Default)]
pub(super) struct Last {
    /// Whose; none of a revert by the node.
    pub(super) agent: Option<String>,
    /// The holders of the device so far.
    pub(super) tenure: u64,
    /// Whether it sets a value that an agent asked for.
    pub(super) is_set: bool,
    pub(super) is_reserved: bool,
    /// Whether the device has said that it was carried out.
    pub(super) is_done: bool,
    /// And that in time.
    pub(super) is_known: bool,
}

/// The command at a device, and what was true before it.
pub(super) struct Out {
    pub(super) point: usize,
    pub(super) until: Instant,
    pub(super) before: Option<Last>,
    pub(super) was_failsafe: bool,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) is_loud: bool,
    pub(super) coordinator: Coordinator,
    pub(super) oracle: Oracle,
    pub(super) now: Now,
    pub(super) devices: [Device; DEVICES],
    pub(super) tables: [Table; DEVICES],
    pub(super) tenures: [(Option<String>, u64); DEVICES],
    pub(super) last: BTreeMap<(usize, usize), Last>,
    /// Who asked for each value, which is used once.
    pub(super) asked: BTreeMap<i64, String>,
    pub(super) sent: BTreeSet<i64>,
    pub(super) open: BTreeMap<u64, BTreeSet<usize>>,
    /// What each agent asked for up to here is not sent any more: it has ended, or was silent for too long.
    pub(super) silent: BTreeMap<String, u64>,
    pub(super) overrides: BTreeMap<String, Option<Instant>>,
    /// The kind and the owner of each tag, and its topic.
    pub(super) tags: BTreeMap<u64, (TagKind, String, String)>,
    pub(super) failsafe: BTreeSet<(usize, usize)>,
    pub(super) durable: Vec<Entry>,
    pub(super) next: u64,
    pub(super) free_values: BTreeSet<i64>,
    pub(super) limits: CoordinatorLimits,
    /// The point of the command at each device.
    pub(super) at: [Option<Out>; DEVICES],
    /// When the node last looked at its deadlines.
    pub(super) drained_at: Instant,
    pub(super) counters: Counters,
}

pub(super) fn name(device: usize) -> String {
    format!("site/d{device}")
}

fn limits(is_reservation_required: bool) -> CoordinatorLimits {
    let control = Limits {
        timeout: Duration::from_secs(2),
        unanswered_after: UNANSWERED_AFTER,
        audit_max: 512,
        requests_max: 16,
        ..Limits::default()
    };
    let schedule =
        ScheduleLimits { grace: GRACE, announce_every: Duration::from_secs(10), ..ScheduleLimits::default() };
    CoordinatorLimits {
        control,
        schedule,
        is_reservation_required,
        retry_max: Duration::from_secs(8),
        return_within: Duration::from_secs(3),
        ..CoordinatorLimits::default()
    }
}

impl World {
    pub(super) fn new(seed: u64, is_loud: bool) -> Self {
        let mut random = Random::new(seed);
        let limits = limits(random.is_one_of(2));
        let now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_micros(START_MICROS) };
        let tables = core::array::from_fn(Table::first);
        let mut world = Self {
            random,
            is_loud,
            coordinator: coordinator(limits, &tables),
            tables,
            oracle: Oracle::default(),
            now,
            devices: core::array::from_fn(|_| Device {
                values: [const { Value::Int(0) }; POINTS],
                ..Device::default()
            }),
            tenures: core::array::from_fn(|_| (None, 0)),
            last: BTreeMap::new(),
            asked: BTreeMap::new(),
            sent: BTreeSet::new(),
            open: BTreeMap::new(),
            silent: BTreeMap::new(),
            overrides: BTreeMap::new(),
            tags: BTreeMap::new(),
            failsafe: BTreeSet::new(),
            durable: Vec::new(),
            next: 1,
            free_values: BTreeSet::new(),
            limits,
            at: [const { None }; DEVICES],
            drained_at: now.mono,
            counters: Counters::default(),
        };
        world.oracle.advance(now);
        for device in 0..DEVICES {
            world.link(device, true);
        }
        world.drain();
        world
    }

    pub(super) fn say(&self, what: impl FnOnce() -> String) {
        if self.is_loud {
            println!("{} {}", self.now.mono.0 / 1_000_000, what());
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn step(&mut self) {
        match self.random.below(31) {
            0..=6 => self.request(),
            7 => self.cancel(),
            8..=16 => self.batch(),
            17 => self.die(),
            18 | 19 => {
                let device = self.some_device();
                let is_online = !self.devices[device].is_online || self.random.is_one_of(2);
                self.link(device, is_online);
            }
            20 => self.override_on(),
            21 => self.override_off(),
            22 if self.random.is_one_of(3) => self.restart(),
            23 if self.random.is_one_of(2) => self.jump(),
            24 => self.revert_request(),
            25 => self.reload(),
            26 => self.renew(),
            28 => self.tag(),
            29 | 30 => self.lift(),
            _ => {}
        }
        self.drain();
        let ms = if self.random.is_one_of(4) { self.random.below(4_000) } else { self.random.below(300) };
        self.wait(ms);
    }

    pub(super) fn some_device(&mut self) -> usize {
        usize::try_from(self.random.below(DEVICES as u64)).unwrap()
    }

    pub(super) fn some_agent(&mut self) -> String {
        format!("agent{}", self.random.below(AGENTS))
    }

    pub(super) fn wait(&mut self, ms: u64) {
        let end = self.now.later(Duration::from_millis(ms)).mono;
        while self.now.mono < end {
            let step = Duration::from_millis(40).min(end.since(self.now.mono));
            self.now = self.now.later(step);
            self.advance();
        }
    }

    /// Lets what is due happen, devices first or the node first.
    pub(super) fn advance(&mut self) {
        self.oracle.advance(self.now);
        for device in 0..DEVICES {
            self.expire_overrides();
            let outcome = self.devices[device].advance(self.now.mono);
            if let Some((command_id, outcome)) = outcome {
                self.say(|| format!("d{device} answers {command_id:?} {outcome:?}"));
                self.mark_outcome(device, Some(&outcome));
                self.coordinator.handle_outcome(self.now, self.tables[device].id(), command_id, outcome);
            }
            if self.random.is_one_of(3) {
                self.report(device);
            }
        }
        self.coordinator.handle_timeout(self.now);
        self.drain();
    }

    fn expire_overrides(&mut self) {
        let now = self.now.mono;
        self.overrides.retain(|_, end| end.is_none_or(|end| end > now));
    }

    fn report(&mut self, device: usize) {
        if !self.devices[device].is_online {
            return;
        }
        for point in core::mem::take(&mut self.devices[device].changed) {
            let topic = Topic::new(&format!("{}/p{point}", name(device))).unwrap();
            let value = self.devices[device].values[point].clone();
            let reading = tieline_core::Point { value, quality: Quality::GOOD, time: self.now.utc };
            self.coordinator.handle_reading(self.now, &topic, &reading);
        }
    }

    pub(super) fn drain(&mut self) {
        self.expire_overrides();
        self.drained_at = self.now.mono;
        self.watch_tenures();
        let mut out = Vec::new();
        while let Some(dispatch) = self.coordinator.poll_command(self.now) {
            out.push(dispatch);
        }
        while let Some(entry) = self.coordinator.poll_entry() {
            self.durable.push(entry);
        }
        let mut sent = BTreeMap::new();
        while let Some(record) = self.coordinator.poll_audit() {
            self.say(|| format!("    {record:?}"));
            match record.phase {
                Phase::HolderGone => {
                    self.oracle.release(self.now, &record.who);
                    self.silent.insert(record.who.to_string(), self.next);
                }
                Phase::LeaseExpired => {
                    self.counters.expired += 1;
                    self.silent.insert(record.who.to_string(), self.next);
                }
                Phase::Sent => {
                    let device = record.device.unwrap();
                    assert!(sent.insert(device, (record.topic, record.who)).is_none(), "two commands to {device:?}");
                }
                _ => {}
            }
        }
        self.watch_tenures();
        self.check_tasks();
        for dispatch in out {
            let device = self.tables.iter().position(|table| table.id() == dispatch.device).unwrap();
            let point = self.tables[device].point(dispatch.command.point);
            let topic = Topic::new(&format!("{}/p{point}", name(device))).unwrap();
            let before = self.last.get(&(device, point)).cloned();
            let was_failsafe = self.failsafe.contains(&(device, point));
            let (of, who) = sent.remove(&dispatch.device).expect("a command without a record");
            assert_eq!(of, topic);
            self.check_sent(device, point, &dispatch, &who);
            let Self { devices, random, now, .. } = self;
            devices[device].send(random, now.mono, point, &dispatch);
            self.at[device] = Some(Out { point, until: dispatch.until, before, was_failsafe });
        }
        while let Some(event) = self.coordinator.poll_event() {
            self.take_event(event);
        }
        while self.coordinator.poll_schedule_event().is_some() {}
        while let Some(announced) = self.coordinator.poll_announcement(self.now) {
            let device = (0..DEVICES).find(|device| name(*device) == *announced.device).unwrap();
            let holder = self.oracle.holder(self.now, device).unwrap();
            assert_eq!((&*announced.owner.requester, &*announced.owner.task), (&*holder.requester, &*holder.name));
        }
        assert!(self.coordinator.timeout().is_none_or(|at| at > self.now.mono), "a deadline has passed");
    }
}
