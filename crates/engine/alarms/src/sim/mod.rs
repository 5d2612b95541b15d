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
mod world;

use self::world::World;
use core::ops::AddAssign;

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

/// A generator whose numbers are those of its seed (splitmix64).
#[derive(Debug)]
struct Random(u64);

impl Random {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    const fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    const fn is_one_of(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let at = usize::try_from(self.below(items.len() as u64)).unwrap();
        &items[at]
    }
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
    let option = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = option("TIELINE_SEED") {
        std::println!("{:?}", run(seed, true));
        return;
    }
    let seeds = option("TIELINE_SEEDS").unwrap_or(SEEDS);
    let mut total = Counters::default();
    for seed in 0..seeds {
        let done = std::panic::catch_unwind(|| run(seed, false));
        total += done.unwrap_or_else(|panic| {
            std::println!("failed with TIELINE_SEED={seed}");
            std::panic::resume_unwind(panic)
        });
    }
    std::println!("{seeds} seeds: {total:?}");
    assert!(total.all().iter().all(|count| *count > seeds / 20), "{total:?}");
}
