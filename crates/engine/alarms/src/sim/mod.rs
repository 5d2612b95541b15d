//! Values of every quality, devices that come and go, persons who do what they like, kills and jumps of the clock: after every
//! step each alarm is what a second, slower implementation says ([`oracle`]), and
//!
//! - the records of all events, applied one after another, are the state;
//! - the state after a kill is that before, and no occurrence has the number of an earlier one;
//! - nothing is annunciated that is hidden or the consequence of another;
//! - a shelving never lasts longer than anybody may shelve, whatever the clock says.
//!
//! `TIELINE_SEED=<seed>` runs one seed again and tells what happened, `TIELINE_SEEDS=<count>` runs more or fewer.

extern crate std;

mod oracle;
#[path = "../../../seeds.rs"]
mod seeds;
mod world;

use self::seeds::run_seeds;
use self::world::World;
use core::ops::AddAssign;
use tieline_core::Random;

const SEEDS: u64 = 10_000;
const STEPS: u32 = 60;

/// What happened in a run: a simulation in which nothing happens finds nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    raised: u64,
    returned: u64,
    annunciated: u64,
    acknowledged: u64,
    refused: u64,
    shelved: u64,
    suppressed: u64,
    folded: u64,
    unfolded: u64,
    chattering: u64,
    uncertain: u64,
    reset: u64,
    kills: u64,
    jumps: u64,
}

impl Counters {
    const fn all(&self) -> [u64; 14] {
        [
            self.raised,
            self.returned,
            self.annunciated,
            self.acknowledged,
            self.refused,
            self.shelved,
            self.suppressed,
            self.folded,
            self.unfolded,
            self.chattering,
            self.uncertain,
            self.reset,
            self.kills,
            self.jumps,
        ]
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.raised += other.raised;
        self.returned += other.returned;
        self.annunciated += other.annunciated;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.shelved += other.shelved;
        self.suppressed += other.suppressed;
        self.folded += other.folded;
        self.unfolded += other.unfolded;
        self.chattering += other.chattering;
        self.uncertain += other.uncertain;
        self.reset += other.reset;
        self.kills += other.kills;
        self.jumps += other.jumps;
    }
}

fn pick<'a, T>(random: &mut Random, items: &'a [T]) -> &'a T {
    let at = usize::try_from(random.below(items.len() as u64)).unwrap();
    &items[at]
}

fn run(seed: u64, is_loud: bool) -> Counters {
    let mut world = World::new(seed, is_loud);
    for _ in 0..STEPS {
        world.step();
    }
    world.counters
}

#[test]
fn no_alarm_is_lost_and_none_is_invented() {
    let mut total = Counters::default();
    let seeds = run_seeds("alarms", SEEDS, |seed, is_loud| total += run(seed, is_loud));
    std::println!("{total:?}");
    if seeds == 0 {
        return;
    }
    assert!(total.all().iter().all(|count| *count > seeds / 20), "{total:?}");
}
