//! Agents contend for devices that refuse, hang and get lost; holders die or fall silent, nodes restart, clocks jump, points get other numbers
//! and ranges. Whatever happens:
//!
//! - a command is sent only for who holds the device at that moment, by a second and simpler schedule ([`oracle`]);
//! - a device never has two commands at once, and no command is sent twice;
//! - each point of a batch has one answer;
//! - a point is not reverted while its holder has it, nor again once it has been;
//! - in the end, when all holders are gone and the devices are well, no point is left commanded.
//!
//! What each of these means, and what is allowed all the same, [`invariants`] says.
//!
//! `TIELINE_SEED=<seed>` runs one seed again and tells what happened, `TIELINE_SEEDS=<count>` runs more.

extern crate std;

mod deeds;
mod devices;
mod invariants;
mod oracle;
#[path = "../../../seeds.rs"]
mod seeds;
mod tables;
mod world;

use self::seeds::run_seeds;
use self::world::World;
use core::ops::AddAssign;

const SEEDS: u64 = 1_000;
const STEPS: u32 = 120;

/// What happened in a run: a simulation in which nothing happens finds nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    sent: u64,
    reverts: u64,
    granted: u64,
    preempted: u64,
    deaths: u64,
    expired: u64,
    restarts: u64,
    jumps: u64,
    overrides: u64,
    tags: u64,
    tagged: u64,
    confirmed: u64,
    refused: u64,
    unknown: u64,
    superseded: u64,
    reloads: u64,
    changed: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.reverts += other.reverts;
        self.granted += other.granted;
        self.preempted += other.preempted;
        self.deaths += other.deaths;
        self.expired += other.expired;
        self.restarts += other.restarts;
        self.jumps += other.jumps;
        self.overrides += other.overrides;
        self.tags += other.tags;
        self.tagged += other.tagged;
        self.confirmed += other.confirmed;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.superseded += other.superseded;
        self.reloads += other.reloads;
        self.changed += other.changed;
    }
}

fn run(seed: u64, is_loud: bool) -> Counters {
    let mut world = World::new(seed, is_loud);
    for _ in 0..STEPS {
        world.step();
    }
    world.end()
}

#[test]
fn two_agents_never_act_and_no_point_is_left_commanded() {
    let mut total = Counters::default();
    let seeds = run_seeds("control", SEEDS, |seed, is_loud| total += run(seed, is_loud));
    std::println!("{total:?}");
    if seeds == 0 {
        return;
    }
    let Counters { reverts, preempted, deaths, restarts, confirmed, unknown, superseded, overrides, jumps, .. } = total;
    let Counters { reloads, changed, expired, tags, tagged, .. } = total;
    let all = [
        reverts, preempted, deaths, restarts, confirmed, unknown, superseded, overrides, jumps, reloads, changed,
        expired, tags, tagged,
    ];
    assert!(all.iter().all(|count| *count > seeds / 20), "{total:?}");
}
