//! Alarms that come, go, are acknowledged and hidden, floods, receivers that fail, kills and jumps of the wall clock: every
//! message that is made is one that a second, slower implementation makes in the same second ([`oracle`]), and
//!
//! - nothing arrives that was not made;
//! - everything that was made arrives, or its receiver refused it or failed for too long;
//! - one key is one message;
//! - that an alarm has returned does not arrive before what was said of it before;
//! - a receiver has one message at a time.
//!
//! `TIELINE_SEED=<seed>` runs one seed again and tells what happened, `TIELINE_SEEDS=<count>` runs more or fewer.

extern crate std;

mod oracle;
mod world;

use self::world::World;

const SEEDS: u64 = 2_000;
const SECONDS: u32 = 400;

/// What happened in a run: a simulation in which nothing happens finds nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    raised: u64,
    repeated: u64,
    resolved: u64,
    floods: u64,
    floods_over: u64,
    delivered: u64,
    doubles: u64,
    failed: u64,
    refused: u64,
    nobody: u64,
    given_up: u64,
    kills: u64,
    jumps: u64,
    lost_records: u64,
}

impl Counters {
    const fn all(&self) -> [u64; 14] {
        [
            self.raised,
            self.repeated,
            self.resolved,
            self.floods,
            self.floods_over,
            self.delivered,
            self.doubles,
            self.failed,
            self.refused,
            self.nobody,
            self.given_up,
            self.kills,
            self.jumps,
            self.lost_records,
        ]
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
    for _ in 0..SECONDS {
        world.second();
    }
    world.finish();
    world.counters
}

#[test]
fn no_notification_is_missed_and_none_is_invented() {
    let option = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = option("TIELINE_SEED") {
        std::println!("{:?}", run(seed, true));
        return;
    }
    let mut sums = [0; 14];
    for seed in 0..option("TIELINE_SEEDS").unwrap_or(SEEDS) {
        for (sum, count) in sums.iter_mut().zip(run(seed, false).all()) {
            *sum += count;
        }
    }
    std::println!("{sums:?}");
    assert!(sums.iter().all(|sum| *sum > 20), "{sums:?}");
}
